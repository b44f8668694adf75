//! What was done, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use windlass_conformance::history::{Event, History, Rules, SettleAnswer, Uid, Verdict, check};
use windlass_core::clock::Timestamp;
use windlass_core::job::JobId;
use windlass_core::worker::WorkerId;

use crate::plan::Fault;
use loss::Loss;

mod loss;

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) turns: u32,
    pub(crate) faults: BTreeMap<Fault, u32>,
    /// Workers who were declared dead while the store stood still.
    pub(crate) declared_dead: Vec<WorkerId>,
    /// Workers who stood still, with the jobs that were taken back from them.
    pub(crate) robbed: Vec<(WorkerId, Vec<JobId>)>,
    /// From when until when the server was ended and not yet back.
    pub(crate) ends: Vec<(Timestamp, Timestamp)>,
}

impl Tally {
    pub(crate) fn count(&self, fault: Fault) -> u32 {
        self.faults.get(&fault).copied().unwrap_or(0)
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Report {
    tally: Tally,
    verdict: Verdict,
    /// The lines about some of the offenders, and all faults.
    stories: String,
    loss: Loss,
    acknowledged: usize,
    ended: usize,
    /// Jobs that were taken back from workers who stood still.
    taken_back: usize,
    /// Those of them that such a worker settled all the same.
    settled_by_the_dead: Vec<Uid>,
    /// Sessions that hold a transaction open and do nothing.
    left_open: u64,
}

impl Report {
    pub(crate) fn new(tally: Tally, history: &History, may_lose: Duration, left_open: u64) -> Self {
        let events = || history.entries.iter().map(|entry| &entry.event);
        let mut verdict = check(history, &Rules::default());
        let loss = Loss::take_out_of(&mut verdict, history, &tally.ends, may_lose);
        Self {
            stories: stories(&verdict, history),
            verdict,
            loss,
            acknowledged: events().filter(|event| matches!(event, Event::Acknowledged { .. })).count(),
            ended: events()
                .filter(|event| matches!(event, Event::Final { phase, .. } if phase.has_ended()))
                .count(),
            taken_back: tally.robbed.iter().map(|(_, jobs)| jobs.len()).sum(),
            settled_by_the_dead: settled_by_the_dead(&tally, history),
            left_open,
            tally,
        }
    }

    pub(crate) fn jobs(&self) -> usize {
        self.verdict.jobs
    }

    /// Jobs that are gone, or the end of which is, and whose store may lose that.
    pub(crate) fn lost_within_reason(&self) -> usize {
        self.loss.lost + self.loss.forgotten + self.loss.run_again
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.verdict.is_clean()
            && self.loss.forgotten_early.is_empty()
            && self.tally.declared_dead.is_empty()
            && self.settled_by_the_dead.is_empty()
            && self.left_open == 0
    }
}

/// So many offenders of one kind have their story told.
const TOLD_MAX: usize = 3;

fn stories(verdict: &Verdict, history: &History) -> String {
    let faults = verdict.faults();
    let offenders: BTreeSet<_> =
        faults.iter().flat_map(|(_, findings)| findings.iter().take(TOLD_MAX)).map(|one| &one.uid).collect();
    let is_told = |event: &Event| match event.uid() {
        Some(uid) => offenders.contains(uid),
        None => !offenders.is_empty(),
    };
    let told = history.entries.iter().filter(|entry| is_told(&entry.event));
    told.map(|entry| format!("  {} {:?}\n", entry.at, entry.event)).collect()
}

/// What a worker told last of a job that was taken back from it must have been refused.
fn settled_by_the_dead(tally: &Tally, history: &History) -> Vec<Uid> {
    let mut settled = Vec::new();
    let numbers: BTreeMap<_, _> = history.entries.iter().filter_map(|entry| number(&entry.event)).collect();
    for (worker, jobs) in &tally.robbed {
        let worker = worker.to_string();
        let mut last: BTreeMap<&Uid, &str> = BTreeMap::new();
        for entry in &history.entries {
            if let Event::Start { uid, token, worker: by } = &entry.event
                && *by == worker
            {
                last.insert(uid, token);
            }
        }
        last.retain(|uid, _| numbers.get(uid).is_some_and(|job| jobs.contains(job)));
        settled.extend(history.entries.iter().filter_map(|entry| match &entry.event {
            Event::Settled { uid, token, answer: SettleAnswer::Applied }
                if last.get(uid) == Some(&token.as_str()) =>
            {
                Some(uid.clone())
            }
            _ => None,
        }));
    }
    settled
}

fn number(event: &Event) -> Option<(&Uid, JobId)> {
    match event {
        Event::Acknowledged { uid, job } | Event::Final { uid, job, .. } => Some((uid, *job)),
        _ => None,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<_> =
            self.tally.faults.iter().map(|(fault, count)| format!("{count} {}", fault.name())).collect();
        let mut line = |what: &str, value: &dyn fmt::Display| writeln!(f, "  {what:<44}{value}");
        line("turns", &self.tally.turns)?;
        line("faults", &faults.join(", "))?;
        line("jobs acknowledged", &self.acknowledged)?;
        line("jobs ended", &self.ended)?;
        line("attempts", &self.verdict.attempts)?;
        line("lost", &self.verdict.lost.len())?;
        if self.loss.may_lose > Duration::ZERO {
            let within = format!("lost, put in {:?} before an end at most", self.loss.may_lose);
            line(&within, &self.loss.lost)?;
            line("gone, put in as late, and had ended", &self.loss.forgotten)?;
            line("run again, having ended just before", &self.loss.run_again)?;
            line("numbers of lost jobs that others got", &self.loss.given_twice)?;
        }
        line("gone after their end", &self.loss.forgotten_early.len())?;
        line("ended twice", &self.verdict.ended_twice.len())?;
        line("stored twice", &self.verdict.stored_twice.len())?;
        line("jobs taken back from frozen workers", &self.taken_back)?;
        line("of these settled by a frozen worker", &self.settled_by_the_dead.len())?;
        line("declared dead while the store stood still", &self.tally.declared_dead.len())?;
        line("transactions left open", &self.left_open)?;
        if !self.verdict.is_clean() {
            write!(f, "{}{}", self.verdict, self.stories)?;
        }
        write!(f, "verdict: {}", if self.is_clean() { "nothing wrong" } else { "FAILED" })
    }
}

#[test]
fn a_worker_that_settles_what_was_taken_back_from_it_is_found() {
    let (worker, uid, at) =
        (WorkerId::from_random(7), || Uid::from("a"), windlass_core::clock::Timestamp::EPOCH);
    let mut history = History::default();
    for event in [
        Event::Acknowledged { uid: uid(), job: JobId(1) },
        Event::start(uid(), "first", worker),
        Event::applied(uid(), "first"),
        Event::start(uid(), "second", worker),
    ] {
        history.push(at, event);
    }
    let tally = Tally { robbed: vec![(worker, vec![JobId(1)])], ..Tally::default() };
    let mut refused = history.clone();
    refused.push(at, Event::lost(uid(), "second"));
    assert_eq!(settled_by_the_dead(&tally, &refused), []);
    history.push(at, Event::applied(uid(), "second"));
    assert_eq!(settled_by_the_dead(&tally, &history), [uid()]);
}
