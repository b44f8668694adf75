//! Records this process's attempts since the last flush. Pure: moments go in, the parts to flush come out.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_core::job::Job;
use windlass_core::names::TypeName;
use windlass_core::rollups::{Histogram, Seen};

use crate::worker::Moment;

/// While a store is unavailable, this number of parts are kept apart, which is ten minutes; older parts are
/// added up.
const PARTS_KEPT_MAX: usize = 60;

/// Gathers the starts and ends of handlers. It takes one lock for each, held for a lookup.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Gathered>);

#[derive(Debug, Default)]
struct Gathered {
    /// The samples since the last part. A type has one queue.
    open: HashMap<TypeName, Seen>,
    /// The parts that could not be flushed yet, oldest first.
    parts: VecDeque<Part>,
}

/// The samples of some seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// When the part was closed.
    pub(crate) at: Moment,
    /// The samples by type.
    pub(crate) seen: Vec<Seen>,
}

impl Recorder {
    /// Records the start of a handler.
    pub(crate) fn started(&self, job: &Job, waited: Duration) {
        self.note(job, |seen| {
            seen.started = seen.started.saturating_add(1);
            seen.waits.record(waited);
        });
    }

    /// Records the end of a handler, whatever its outcome.
    pub(crate) fn ran(&self, job: &Job, ran_for: Duration) {
        self.note(job, |seen| seen.runs.record(ran_for));
    }

    /// Takes all parts to flush, oldest first. The caller gives back the parts that it could not flush.
    pub(crate) fn take(&self, now: Moment) -> VecDeque<Part> {
        let mut gathered = self.lock();
        if !gathered.open.is_empty() {
            let seen = gathered.open.drain().map(|(_, seen)| seen).collect();
            gathered.parts.push_back(Part { at: now, seen });
        }
        std::mem::take(&mut gathered.parts)
    }

    /// Gives back parts that the store did not accept. They are older than all parts gathered meanwhile.
    pub(crate) fn give_back(&self, parts: VecDeque<Part>) {
        let mut gathered = self.lock();
        let newer = std::mem::replace(&mut gathered.parts, parts);
        gathered.parts.extend(newer);
        while gathered.parts.len() > PARTS_KEPT_MAX {
            let Some(oldest) = gathered.parts.pop_front() else { return };
            if let Some(next) = gathered.parts.front_mut() {
                add(&mut next.seen, oldest.seen);
            }
        }
    }

    fn note(&self, job: &Job, what: impl FnOnce(&mut Seen)) {
        let mut gathered = self.lock();
        match gathered.open.get_mut(&job.job_type) {
            Some(seen) => what(seen),
            None => what(gathered.open.entry(job.job_type.clone()).or_insert_with(|| nothing_of(job))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nothing_of(job: &Job) -> Seen {
    let (queue, job_type) = (job.queue.clone(), job.job_type.clone());
    Seen { queue, job_type, started: 0, waits: Histogram::default(), runs: Histogram::default() }
}

fn add(to: &mut Vec<Seen>, more: Vec<Seen>) {
    for seen in more {
        let same = to.iter_mut().find(|old| (&old.queue, &old.job_type) == (&seen.queue, &seen.job_type));
        match same {
            Some(old) => {
                old.started = old.started.saturating_add(seen.started);
                old.waits.merge(&seen.waits);
                old.runs.merge(&seen.runs);
            }
            None => to.push(seen),
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::names::QueueName;

    use super::*;

    fn part(second: u64, started: u64) -> Part {
        let (queue, job_type) = (QueueName::parse("main").unwrap(), TypeName::parse("work").unwrap());
        let seen = Seen { queue, job_type, started, waits: Histogram::default(), runs: Histogram::default() };
        Part { at: Duration::from_secs(second), seen: vec![seen] }
    }

    #[test]
    fn what_could_not_be_told_is_kept_in_order_and_added_up_when_it_is_much() {
        let recorder = Recorder::default();
        assert!(recorder.take(Duration::ZERO).is_empty());
        for second in 0..100 {
            let mut parts = recorder.take(Duration::ZERO);
            parts.push_back(part(second, 1));
            recorder.give_back(parts);
        }
        let kept = recorder.take(Duration::ZERO);
        assert_eq!(kept.len(), PARTS_KEPT_MAX);
        assert!(kept.iter().zip(kept.iter().skip(1)).all(|(one, next)| one.at < next.at));
        assert_eq!(kept.iter().map(|part| part.seen[0].started).sum::<u64>(), 100);
        assert_eq!((kept[0].seen[0].started, kept[0].at), (41, Duration::from_secs(40)));
    }
}
