//! A checker for what really happened. Producers, handlers and whoever injects faults write ledgers *outside*
//! the store; after the faults have stopped, everything is healed and drained, the store's jobs are dumped,
//! and [`check`] compares the two. A store cannot talk its way out of it: what it has forgotten, the ledger
//! knows.
//!
//! What is checked, in the words of [`Verdict`]:
//!
//! | field | it is a fault if |
//! |---|---|
//! | `lost` | an enqueue was acknowledged, and the store neither has the job nor ended it |
//! | `unfinished` | after a drain, an acknowledged job has not ended |
//! | `unexpected` | a job ran or is stored that nobody put in, or whose enqueue was refused |
//! | `stored_twice` | one enqueue made two jobs |
//! | `ended_twice` | more than one end of a job was accepted, or it ran again after its end |
//! | `forgotten_ends` | an end was accepted, and the store says something else |
//! | `stale_accepted` | an end was accepted that was sent after another attempt had started |
//! | `unexplained_attempts` | a job ran again though nothing failed and no fault hit its worker |
//! | `started_early` | a handler was called before the job was due |
//! | `cancel_ignored` | a cancel was acknowledged, and the job did not end as cancelled |
//! | `uncounted_crashes` | a worker was killed with a job, and the store counted fewer crashes |
//! | `over_limits` | a job failed or crashed more often than its limit |
//!
//! An enqueue without an answer may or may not have happened: such a job is `recovered` if it turns up, which
//! is no fault. An answer of *unknown* counted as a refusal would hide losses; counted as stored it would
//! invent them.
//!
//! Every writer appends a line *before* it does what the line announces, or *after* it has learnt what the
//! line tells, never at another time; the order of lines is then an order in which things can have happened:
//!
//! ```
//! use windlass_conformance::history::{Event, History, Outcome, Rules, Uid, check};
//! use windlass_core::clock::Timestamp;
//! use windlass_core::job::{Counters, JobId, Phase};
//!
//! let uid = || Uid::from("producer-1/17");
//! let at = Timestamp::from_micros;
//! let mut history = History::default();
//! history.push(at(10), Event::Invoke { uid: uid(), due: None });          // before the enqueue is sent
//! history.push(at(20), Event::Acknowledged { uid: uid(), job: JobId(1) }); // after its answer came
//! history.push(at(30), Event::start(uid(), "token-a", "worker-1"));       // the handler's first line
//! history.push(at(40), Event::end(uid(), "token-a", Outcome::Done));      // its last, before the settle
//! history.push(at(50), Event::applied(uid(), "token-a"));                 // after the settle's answer came
//! let (phase, counters) = (Phase::Succeeded, Counters { attempts: 1, ..Counters::default() });
//! history.push(at(60), Event::Final { uid: uid(), job: JobId(1), phase, counters });
//! let verdict = check(&history, &Rules::default());
//! assert!(verdict.is_clean(), "{verdict}");
//! ```
//!
//! Processes write with [`Ledger`], all of them to one file; [`History::read`] reads it back. [`dump`] reads
//! the store's jobs at the end.

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
