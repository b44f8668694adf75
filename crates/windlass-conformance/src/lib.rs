//! What every engine must do, as functions: one for each behaviour, named as a sentence, run on every
//! engine by [`suite!`]. For tests only. The crate depends only on `windlass-core`, so that no behaviour
//! can rely on an engine.
//!
//! To add a behaviour, write a `pub async fn` with one sentence for a name in the module of its step, and
//! add the name to `behaviours.rs`; a test fails if it is forgotten. To add an engine, write a function
//! that creates a [`Fixture`](harness::Fixture), and call the macro:
//!
//! ```text
//! async fn in_memory() -> Fixture {
//!     let clock = Arc::new(ManualClock::default());
//!     let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
//!     Fixture { engine, clock, raw: None, keep: Box::new(()) }
//! }
//!
//! windlass_conformance::suite!(memory, in_memory);
//! ```
//!
//! An engine that chooses between statements for the same work, depending on its earlier use, also calls
//! [`used_suite!`]; a new state goes into [`Used`](harness::Used).
//!
//! [`history`] is the other half: it judges a run of the whole system, with faults, from ledgers that are
//! kept outside the store.

pub mod harness;
mod suite;
mod behaviours;

pub mod enqueue;
pub mod receipts;
pub mod keys;
pub mod ordering_keys;
pub mod fairness_keys;
pub mod claim;
pub mod repeats;
pub mod boost;
pub mod suspects;
pub mod peek;
pub mod settle;
pub mod fence;
pub mod retry_and_dead;
pub mod cancel;
pub mod expiry;
pub mod workers;
pub mod rescue;
pub mod maintenance;
pub mod counts;
pub mod queues;
pub mod types;
pub mod admin_reads;
pub mod policies;
pub mod stored_specs;
pub mod leases;
pub mod schedules;
pub mod triggers;
pub mod rollups;
pub mod trigger_marks;
pub mod trigger_groups;
pub mod shown_times;
pub mod hints;

pub mod history;

pub use suite::{BEHAVIOURS, Behaviour, Running, all, behaviour, check_skips, skip_reason};
