//! What a job is, and every rule about it. No I/O, no runtime, no clock: time is an argument.
//!
//! Read it in the order of a job's life: [`enqueue`] accepts it, [`key`] keeps it from being put
//! in twice, [`ordering_keys`] keeps it in order, [`claim`], [`boost`] and [`fairness`] say who may run it and in which order, [`outcome`] is how an attempt
//! ended, [`settle`] what becomes of it, [`retry`] when it is tried again. [`lease_watch`] says when a worker
//! is dead. [`breaker`] and [`rate_limit`] hold jobs back. [`schedule`] says when something
//! runs again and again, [`schedules`] what is kept of it, [`triggers`] what is put in when others were worked off, [`lease`] who may do a duty for all, [`rollups`] what is kept of each minute. [`engine`] is the seam behind which jobs are kept.

#[macro_use]
mod random_bits;
pub mod limits;
pub mod names;
pub mod clock;
pub mod span;
pub mod payload;
pub mod stored;
pub mod priority;
pub mod queue;
pub mod job_type;

pub mod provenance;
pub mod job;
pub mod gate;
pub mod enqueue;
pub mod key;
pub mod ordering_keys;
pub mod claim;
pub mod boost;
pub mod fairness;
pub mod outcome;
pub mod settle;
pub mod retry;

pub mod breaker;
pub mod rate_limit;
pub mod schedule;

pub mod worker;
pub mod lease_watch;
pub mod admin;
pub mod error;
pub mod policies;
pub mod lease;
pub mod duty;
pub mod schedules;
pub mod triggers;
pub mod rollups;
pub mod engine;
pub mod fallback;
pub mod spool;
pub mod planted;
#[cfg(test)]
mod test_rng;
