//! What is to be done about schedules that are due. Pure: a schedule and the store's now go in, and the change to ask for comes
//! out. Two processes may ask for the same one; the store takes it once.

use crate::clock::Timestamp;
use crate::schedule::{Due, Standing, catch_up};

use super::record::{Alarm, Alert, ScheduleRecord, StoredSchedule};
use super::spec::Overlap;
use super::{Put, ScheduleChange, ScheduleChanged};

/// A change that makes the jobs of ticks that have come, and what is to be told about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// What to ask the store for.
    pub change: ScheduleChange,
    /// The ticks of its jobs, in their order.
    pub ticks: Vec<Timestamp>,
    /// All that was decided.
    pub due: Due,
    /// Whether it did not run when it should have.
    pub alert: Option<Alert>,
}

/// Decides about a schedule. Nothing if it is not due.
pub fn fire(stored: &StoredSchedule, now: Timestamp) -> Option<Firing> {
    let before = &stored.record;
    before.look_at().filter(|due| *due <= now)?;
    let standing = Standing { decided_until: decided_from(before), is_paused: false, skip: before.skip };
    let spec = &before.spec;
    let due = catch_up(&spec.schedule, &spec.holidays, &spec.catch_up, &standing, now);
    let ticks = match spec.overlap {
        Overlap::Allow => due.run.clone(),
        // Of several at once only one could run, so it is the newest.
        Overlap::Skip | Overlap::Replace => due.run.last().copied().into_iter().collect(),
    };
    let alert = due
        .missed
        .first
        .map(|first| Alert { at: now, alarm: Alarm::Missed { count: due.missed.count, first } });
    let after = ScheduleRecord {
        decided_until: due.decided_until,
        pause: None,
        skip: before.skip.filter(|skip| *skip > due.decided_until),
        last_tick: ticks.last().copied().or(before.last_tick),
        alert: alert.clone().or_else(|| before.alert.clone()),
        ..before.clone()
    };
    let change = ScheduleChange {
        name: stored.name().clone(),
        read: stored.version,
        jobs: ticks.iter().map(|tick| before.job_of(*tick)).collect(),
        to: Some(Box::new(after)),
        overlap: spec.overlap,
        by_hand: false,
    };
    Some(Firing { change, ticks, due, alert })
}

/// For one that a store calls due and that is not, as after an update that reckons its ticks otherwise: nothing changes, but the
/// store keeps anew when somebody has to look.
pub fn look_later(stored: &StoredSchedule) -> ScheduleChange {
    ScheduleChange {
        name: stored.name().clone(),
        read: stored.version,
        to: Some(Box::new(stored.record.clone())),
        jobs: Vec::new(),
        overlap: Overlap::Allow,
        by_hand: false,
    }
}

/// What fell due while it was paused is dropped, so a pause that has ended decided all until its end.
fn decided_from(record: &ScheduleRecord) -> Timestamp {
    let pause_ended = record.pause.as_ref().and_then(|pause| pause.until);
    pause_ended.map_or(record.decided_until, |ended| ended.max(record.decided_until))
}

impl Firing {
    /// What to write about ticks that made no job, after the change was applied under this version: the door refused it, or the last
    /// one is still live and that was not told yet.
    pub fn report(&self, changed: &ScheduleChanged, now: Timestamp) -> Option<ScheduleChange> {
        let ScheduleChanged::Done { version, jobs } = changed else { return None };
        let mut to = self.change.to.clone()?;
        let known = to.alert.as_ref().map(|alert| &alert.alarm);
        let alarm = self.ticks.iter().zip(jobs).find_map(|(tick, put)| alarm_of(*tick, put, known))?;
        to.alert = Some(Alert { at: now, alarm });
        let name = self.change.name.clone();
        let (jobs, overlap) = (Vec::new(), Overlap::Allow);
        Some(ScheduleChange { name, read: *version, to: Some(to), jobs, overlap, by_hand: false })
    }
}

fn alarm_of(tick: Timestamp, put: &Put, known: Option<&Alarm>) -> Option<Alarm> {
    match put {
        Put::Answered(answer) => answer.job().err().map(|why| Alarm::Refused { tick, why: why.to_string() }),
        Put::Overlaps(job) => {
            let is_told = matches!(known, Some(Alarm::Overlaps { job: told, .. }) if told == job);
            (!is_told).then_some(Alarm::Overlaps { tick, job: *job })
        }
    }
}
