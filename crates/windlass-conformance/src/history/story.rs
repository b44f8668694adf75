//! The lines of a history, grouped into one story for each job.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::clock::Timestamp;
use windlass_core::job::{Counters, JobId, JobState};

use super::event::{Event, FaultKind, Outcome, SettleAnswer, Uid};
use super::ledger::History;

/// The position of a line in the history: a smaller one was written earlier.
pub(super) type Line = usize;

/// All lines of the ledger about one job.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) invoked: bool,
    pub(super) due: Option<Timestamp>,
    pub(super) acknowledged: bool,
    pub(super) refused: bool,
    /// The ids under which it was acknowledged or is stored.
    pub(super) jobs: BTreeSet<JobId>,
    /// In the order of their starts.
    pub(super) attempts: Vec<Attempt>,
    pub(super) cancel_accepted: bool,
    pub(super) started_over: Vec<Line>,
    pub(super) finals: Vec<(JobState, Counters)>,
}

/// One claim that led to a start.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) token: String,
    pub(super) worker: String,
    pub(super) started: Line,
    pub(super) started_at: Timestamp,
    /// How many times a handler began under this one claim.
    pub(super) starts: u32,
    pub(super) end: Option<(Line, Outcome)>,
    pub(super) answer: Option<(Line, SettleAnswer)>,
}

impl Attempt {
    /// Whether the store accepted the end of this attempt.
    pub(super) fn was_applied(&self) -> bool {
        matches!(self.answer, Some((_, SettleAnswer::Applied)))
    }

    /// Returns the line that records the accepted end of the job, if this attempt ended the job.
    pub(super) fn ended_job(&self) -> Option<Line> {
        match (self.end, self.answer) {
            (Some((_, outcome)), Some((line, SettleAnswer::Applied))) if outcome.is_end() => Some(line),
            _ => None,
        }
    }
}

/// One injected fault.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) target: Option<String>,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

impl Fault {
    /// Whether it hit this worker at some time in this span.
    pub(super) fn struck(&self, worker: &str, from: Timestamp, until: Timestamp) -> bool {
        let meant = self.target.as_deref().is_none_or(|target| target == worker);
        meant && self.from <= until && from <= self.until
    }
}

/// The stories of a whole history.
#[derive(Debug, Default)]
pub(super) struct Stories {
    pub(super) jobs: BTreeMap<Uid, Story>,
    pub(super) faults: Vec<Fault>,
}

impl Stories {
    pub(super) fn of(history: &History) -> Self {
        let mut stories = Self::default();
        for (line, entry) in history.entries.iter().enumerate() {
            stories.take_in(line, entry.at, &entry.event);
        }
        stories
    }

    fn take_in(&mut self, line: Line, at: Timestamp, event: &Event) {
        if let Event::Fault { kind, target, until } = event {
            let until = until.unwrap_or(at);
            self.faults.push(Fault { kind: *kind, target: target.clone(), from: at, until });
        }
        if let Some(uid) = event.uid() {
            self.jobs.entry(uid.clone()).or_default().take_in(line, at, event);
        }
    }
}

impl Story {
    fn take_in(&mut self, line: Line, at: Timestamp, event: &Event) {
        match event {
            Event::Invoke { due, .. } => (self.invoked, self.due) = (true, *due),
            Event::Acknowledged { job, .. } => {
                self.acknowledged = true;
                self.jobs.insert(*job);
            }
            Event::Refused { .. } => self.refused = true,
            Event::Start { token, worker, .. } => self.start(line, at, token, worker),
            Event::End { token, outcome, .. } => {
                if let Some(attempt) = self.attempt(token) {
                    attempt.end = Some((line, *outcome));
                }
            }
            Event::Settled { token, answer, .. } => {
                if let Some(attempt) = self.attempt(token) {
                    attempt.answer = Some((line, *answer));
                }
            }
            Event::CancelAccepted { .. } => self.cancel_accepted = true,
            Event::StartedOver { .. } => self.started_over.push(line),
            Event::Final { job, job_state, counters, .. } => {
                self.jobs.insert(*job);
                self.finals.push((*job_state, *counters));
            }
            Event::Unknown { .. } | Event::Fault { .. } | Event::Repaired => {}
        }
    }

    fn start(&mut self, line: Line, at: Timestamp, token: &str, worker: &str) {
        if let Some(attempt) = self.attempt(token) {
            attempt.starts += 1;
            return;
        }
        self.attempts.push(Attempt {
            token: token.to_owned(),
            worker: worker.to_owned(),
            started: line,
            started_at: at,
            starts: 1,
            end: None,
            answer: None,
        });
    }

    fn attempt(&mut self, token: &str) -> Option<&mut Attempt> {
        self.attempts.iter_mut().find(|attempt| attempt.token == token)
    }

    /// Whether the job ran or is stored.
    pub(super) fn turned_up(&self) -> bool {
        !self.attempts.is_empty() || !self.finals.is_empty()
    }

    /// Returns the lines of the accepted ends.
    pub(super) fn ends(&self) -> Vec<Line> {
        self.attempts.iter().filter_map(Attempt::ended_job).collect()
    }
}
