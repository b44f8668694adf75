//! A checker for what really happened. Producers, handlers and fault injectors write ledgers *outside* the
//! store. After the faults have stopped, everything is healed and drained, the store's jobs are dumped, and
//! [`check`] compares the two. A store cannot hide a loss: the ledger has every job that the store has
//! forgotten.
//!
//! The checks, by the fields of [`Verdict`]:
//!
//! | field | it is a fault if |
//! |---|---|
//! | `lost` | an enqueue was acknowledged, and the store has neither the job nor an end of it |
//! | `unfinished` | after a drain, an acknowledged job has not ended |
//! | `unexpected` | a job ran or is stored that no producer enqueued, or whose enqueue was refused |
//! | `stored_twice` | one enqueue created two jobs |
//! | `ended_twice` | more than one end of a job was accepted, or it ran again after its end |
//! | `forgotten_ends` | an end was accepted, and the store says something else |
//! | `stale_accepted` | an end was accepted that was sent after another attempt had started |
//! | `unexplained_attempts` | a job ran again though nothing failed and no fault hit its worker |
//! | `started_early` | a handler was called before the job was due |
//! | `cancel_ignored` | a cancel was acknowledged, and the job did not end as cancelled |
//! | `uncounted_crashes` | a worker was killed with a job, and the store counted fewer crashes |
//! | `over_limits` | a job failed or crashed more often than its limit |
//!
//! An enqueue without an answer may or may not have happened. Such a job is `recovered` if it turns up,
//! which is no fault. Counting an *unknown* answer as a refusal would hide losses; counting it as stored
//! would invent them.
//!
//! Every writer appends a line *before* it does what the line announces, or *after* it has learnt what the
//! line reports, never at another time. The order of lines is therefore an order in which the events can
//! have happened:
//!
//! ```
//! use windlass_conformance::history::{Event, History, Outcome, Rules, Uid, check};
//! use windlass_core::clock::Timestamp;
//! use windlass_core::job::{Counters, JobId, JobState};
//!
//! let uid = || Uid::from("producer-1/17");
//! let at = Timestamp::from_micros;
//! let mut history = History::default();
//! history.push(at(10), Event::Invoke { uid: uid(), due: None });          // before the enqueue is sent
//! history.push(at(20), Event::Acknowledged { uid: uid(), job: JobId(1) }); // after its answer came
//! history.push(at(30), Event::start(uid(), "token-a", "worker-1"));       // the handler's first line
//! history.push(at(40), Event::end(uid(), "token-a", Outcome::Done));      // its last, before the settle
//! history.push(at(50), Event::applied(uid(), "token-a"));                 // after the settle's answer came
//! let (job_state, counters) = (JobState::Succeeded, Counters { attempts: 1, ..Counters::default() });
//! history.push(at(60), Event::Final { uid: uid(), job: JobId(1), job_state, counters });
//! let verdict = check(&history, &Rules::default());
//! assert!(verdict.is_clean(), "{verdict}");
//! ```
//!
//! Processes write with [`Ledger`], all of them to one file; [`History::read`] reads it back. [`dump`]
//! reads the store's jobs at the end.

mod event;
mod ledger;
mod dump;
mod story;
mod check;
mod verdict;

pub use check::{Rules, check};
pub use dump::dump;
pub use event::{Entry, Event, FaultKind, Outcome, SettleAnswer, Uid};
pub use ledger::{History, Ledger, LedgerError};
pub use verdict::{Finding, Verdict};

#[cfg(test)]
mod tests;
