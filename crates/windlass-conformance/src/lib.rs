//! What every engine must do, as functions: one for each behaviour, named as a sentence, run on every engine
//! by [`suite!`]. For tests only. It sees only `windlass-core`, so that no behaviour can lean on an engine.

pub mod harness;
mod suite;
mod behaviours;

pub mod enqueue;
pub mod receipts;
pub mod keys;
pub mod claim;

pub use suite::{BEHAVIOURS, check_skips, skip_reason};
