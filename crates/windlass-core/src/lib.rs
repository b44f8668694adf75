//! What a job is, and every rule about it. No I/O, no runtime, no clock: time is an argument.
//!
//! The modules follow the order of a job's life. [`enqueue`] accepts a job. [`key`] prevents a second
//! enqueue of the same work item. [`ordering_keys`] keeps jobs in order. [`claim`], [`boost`] and
//! [`fairness`] decide which worker may run a job, and in which order jobs are claimed. [`outcome`]
//! describes how an attempt ended, [`settle`] decides the resulting transition of the job, and [`retry`]
//! decides when the job is retried.
//!
//! [`lease_watch`] decides when a worker is dead. [`breaker`] and [`rate_limit`] hold jobs back.
//! [`schedule`] computes the ticks at which a job recurs, and [`schedules`] describes the stored
//! schedules. [`triggers`] describes completion triggers, which enqueue a job when a group of jobs has
//! finished. [`lease`] decides which process may do a duty for all. [`rollups`] describes the statistics
//! of each minute. [`engine`] is the interface behind which jobs are stored.

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
