//! What every engine must do, as functions: one for each behaviour, named as a sentence, run on every engine
//! by [`suite!`]. For tests only. It sees only `windlass-core`, so that no behaviour can lean on an engine.

pub mod harness;
mod suite;
mod behaviours;

pub mod enqueue;
pub mod receipts;
pub mod keys;
pub mod claim;
pub mod boost;
pub mod suspects;
pub mod outlook;
pub mod settle;
pub mod fence;
pub mod retry_and_dead;
pub mod cancel;
pub mod expiry;
pub mod workers;
pub mod rescue;
pub mod upkeep;
pub mod counts;
pub mod queues;
pub mod types;
pub mod admin_reads;
pub mod hints;

pub mod history;

pub use suite::{BEHAVIOURS, check_skips, skip_reason};
