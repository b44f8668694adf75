//! The faults of a run, and its results.

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

/// The faults and observations of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) turns: u32,
    pub(crate) faults: BTreeMap<Fault, u32>,
    /// The workers that were declared dead while the store was frozen.
    pub(crate) declared_dead: Vec<WorkerId>,
    /// The workers that were frozen, with the jobs that were taken back from them.
    pub(crate) rescued: Vec<(WorkerId, Vec<JobId>)>,
    /// The spans in which the server was stopped and not yet back.
    pub(crate) ends: Vec<(Timestamp, Timestamp)>,
}

impl Tally {
    pub(crate) fn count(&self, fault: Fault) -> u32 {
        self.faults.get(&fault).copied().unwrap_or(0)
    }
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Report {
    tally: Tally,
    verdict: Verdict,
    /// The lines about some of the jobs with a fault, and all faults.
    stories: String,
    loss: Loss,
    acknowledged: usize,
    ended: usize,
    /// The number of jobs that were taken back from frozen workers.
    taken_back: usize,
    /// The jobs among them that such a worker settled all the same.
    settled_by_the_dead: Vec<Uid>,
    /// The sessions that hold an idle transaction open.
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
                .filter(|event| matches!(event, Event::Final { job_state, .. } if job_state.has_ended()))
                .count(),
            taken_back: tally.rescued.iter().map(|(_, jobs)| jobs.len()).sum(),
            settled_by_the_dead: settled_by_the_dead(&tally, history),
            left_open,
            tally,
        }
    }

    pub(crate) fn jobs(&self) -> usize {
        self.verdict.jobs
    }

    /// Counts the jobs that are lost, or whose end is lost, within what the store may lose.
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

/// The largest number of jobs of each kind whose story is printed.
const STORIES_MAX: usize = 3;

fn stories(verdict: &Verdict, history: &History) -> String {
    let faults = verdict.faults();
    let offenders: BTreeSet<_> = faults
        .iter()
        .flat_map(|(_, findings)| findings.iter().take(STORIES_MAX))
        .map(|one| &one.uid)
        .collect();
    let is_told = |event: &Event| match event.uid() {
        Some(uid) => offenders.contains(uid),
        None => !offenders.is_empty(),
    };
    let told = history.entries.iter().filter(|entry| is_told(&entry.event));
    told.map(|entry| format!("  {} {:?}\n", entry.at, entry.event)).collect()
}

/// Finds jobs that a worker settled after they were taken back from it: the store must refuse such an end.
fn settled_by_the_dead(tally: &Tally, history: &History) -> Vec<Uid> {
    let mut settled = Vec::new();
    let numbers: BTreeMap<_, _> = history.entries.iter().filter_map(|entry| number(&entry.event)).collect();
    for (worker, jobs) in &tally.rescued {
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
            let within = format!("lost, enqueued {:?} before a stop at most", self.loss.may_lose);
            line(&within, &self.loss.lost)?;
            line("gone, enqueued as late, and had ended", &self.loss.forgotten)?;
            line("run again, having ended just before", &self.loss.run_again)?;
            line("ids of lost jobs that others got", &self.loss.given_twice)?;
        }
        line("gone after their end", &self.loss.forgotten_early.len())?;
        line("ended twice", &self.verdict.ended_twice.len())?;
        line("stored twice", &self.verdict.stored_twice.len())?;
        line("jobs taken back from frozen workers", &self.taken_back)?;
        line("of these settled by a frozen worker", &self.settled_by_the_dead.len())?;
        line("declared dead while the store was frozen", &self.tally.declared_dead.len())?;
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
    let tally = Tally { rescued: vec![(worker, vec![JobId(1)])], ..Tally::default() };
    let mut refused = history.clone();
    refused.push(at, Event::lost(uid(), "second"));
    assert_eq!(settled_by_the_dead(&tally, &refused), []);
    history.push(at, Event::applied(uid(), "second"));
    assert_eq!(settled_by_the_dead(&tally, &history), [uid()]);
}
