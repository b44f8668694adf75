//! The faults of a run, and its results.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use windlass_conformance::history::{Entry, Event, History, Uid, Verdict, dump};
use windlass_core::admin::StoredJob;
use windlass_core::engine::Engine;
use windlass_core::fallback::Side;
use windlass_core::job::{JobId, StoredState};
use windlass_core::spool::moved_as;

/// The faults and observations of a run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) rounds: u32,
    /// The unfinished jobs in the spool of the process at each time that it was killed.
    pub(super) in_spool_when_killed: Vec<u64>,
    /// The jobs that had been replayed from its spool at the last query.
    pub(super) moved: Cell<u64>,
}

/// The jobs that moved from a spool to the primary, with their ids there.
#[derive(Debug, Default)]
pub(super) struct Moves(BTreeMap<Uid, JobId>);

impl Moves {
    /// Dumps the jobs of a spool at the end, without those that moved to the primary: the primary reports
    /// them.
    pub(super) async fn finals(&mut self, spool: &dyn Engine) -> Vec<Entry> {
        let moves = std::cell::RefCell::new(std::mem::take(&mut self.0));
        let uid_of = |record: &StoredJob| {
            let uid: Uid = record.job.payload.decode().ok()?;
            match moved(record) {
                Some(there) => {
                    moves.borrow_mut().insert(uid, there);
                    None
                }
                None => Some(uid),
            }
        };
        let finals = dump(spool, uid_of).await.expect("the spool can be read");
        self.0 = moves.into_inner();
        finals
    }

    /// Replaces the id of each moved job in the history by its id in the primary. A second job under
    /// another id still counts as stored twice.
    pub(super) fn follow(&self, history: &mut History) {
        for entry in &mut history.entries {
            if let Event::Acknowledged { uid, job } = &mut entry.event
                && Side::of(*job) == Side::Spool
                && let Some(there) = self.0.get(uid)
            {
                *job = *there;
            }
        }
    }
}

fn moved(record: &StoredJob) -> Option<JobId> {
    match &record.state {
        StoredState::Cancelled { why, .. } => moved_as(why),
        _ => None,
    }
}

/// The results of a run.
#[derive(Debug)]
pub(super) struct Report {
    tally: Tally,
    verdict: Verdict,
    acknowledged: usize,
    ended: usize,
    ended_in_spool: usize,
    moved: usize,
}

impl Report {
    pub(super) fn new(tally: Tally, verdict: Verdict, moves: &Moves, history: &History) -> Self {
        let count = |is: fn(&Event) -> bool| history.entries.iter().filter(|entry| is(&entry.event)).count();
        Self {
            acknowledged: count(|event| matches!(event, Event::Acknowledged { .. })),
            ended: count(|event| matches!(event, Event::Final { job_state, .. } if job_state.has_ended())),
            ended_in_spool: count(
                |event| matches!(event, Event::Final { job, .. } if Side::of(*job) == Side::Spool),
            ),
            moved: moves.0.len(),
            tally,
            verdict,
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.verdict.is_clean()
    }

    /// Whether jobs were run from a spool, were replayed, and were in a spool whose process died.
    pub(super) fn is_worth_checking(&self) -> bool {
        let died_with = self.tally.in_spool_when_killed.iter().sum::<u64>();
        self.acknowledged >= 100 && self.ended_in_spool > 0 && self.moved > 0 && died_with > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let killed = &self.tally.in_spool_when_killed;
        let mut line = |what: &str, value: &dyn fmt::Display| writeln!(f, "  {what:<44}{value}");
        line("times the store was away", &self.tally.rounds)?;
        line("times a process was killed", &killed.len())?;
        line("jobs in its spool at these moments", &killed.iter().sum::<u64>())?;
        line("jobs acknowledged", &self.acknowledged)?;
        line("jobs ended", &self.ended)?;
        line("of these in a spool", &self.ended_in_spool)?;
        line("jobs that were replayed from a spool", &self.moved)?;
        line("attempts", &self.verdict.attempts)?;
        line("lost", &self.verdict.lost.len())?;
        line("ended twice", &self.verdict.ended_twice.len())?;
        line("stored twice", &self.verdict.stored_twice.len())?;
        if !self.is_clean() {
            write!(f, "{}", self.verdict)?;
        }
        write!(f, "verdict: {}", if self.is_clean() { "nothing wrong" } else { "FAILED" })
    }
}

#[cfg(test)]
mod tests {
    use windlass_conformance::history::{Rules, check};
    use windlass_core::clock::Timestamp;
    use windlass_core::job::{Counters, JobState};
    use windlass_core::limits::SPOOL_IDS_FROM;

    use super::*;

    /// Judges the history of a job that was acknowledged in a spool and moved to the primary as job 7. The
    /// primary has it under these ids.
    fn judged(numbers: &[i64]) -> Verdict {
        let (uid, moves) = (Uid::from("a"), Moves([(Uid::from("a"), JobId(7))].into()));
        let mut history = History::default();
        let mut push = |event| history.push(Timestamp::EPOCH, event);
        push(Event::Invoke { uid: uid.clone(), due: None });
        push(Event::Acknowledged { uid: uid.clone(), job: JobId(SPOOL_IDS_FROM + 1) });
        for number in numbers {
            let (job, job_state, counters) = (JobId(*number), JobState::Succeeded, Counters::default());
            push(Event::Final { uid: uid.clone(), job, job_state, counters });
        }
        moves.follow(&mut history);
        check(&history, &Rules::default())
    }

    #[test]
    fn a_job_that_moved_is_the_one_that_the_primary_has() {
        assert!(judged(&[7]).is_clean(), "{}", judged(&[7]));
    }

    #[test]
    fn a_job_that_moved_and_is_nowhere_or_twice_is_found() {
        assert_eq!(judged(&[]).lost.len(), 1);
        assert_eq!(judged(&[7, 8]).stored_twice.len(), 1);
    }
}
