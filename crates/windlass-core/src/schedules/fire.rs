//! What is to be done about schedules that are due. Pure: a schedule and the store's now go in, and the change to ask for comes
//! out. Two processes may ask for the same one; the store takes it once.

use crate::clock::Timestamp;
use crate::schedule::{Due, Standing, catch_up};

use super::ScheduleChange;
use super::record::{Alert, ScheduleAlert, ScheduleRecord, StoredSchedule};
use super::spec::Overlap;

/// A change that makes the jobs of ticks that have come, and what is to be told about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// What to ask the store for.
    pub change: ScheduleChange,
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
        .map(|first| Alert { at: now, alarm: ScheduleAlert::Missed { count: due.missed.count, first } });
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
        ticks,
        by_hand: false,
    };
    Some(Firing { change, due, alert })
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
        ticks: Vec::new(),
        by_hand: false,
    }
}

/// What fell due while it was paused is dropped, so a pause that has ended decided all until its end.
fn decided_from(record: &ScheduleRecord) -> Timestamp {
    let pause_ended = record.pause.as_ref().and_then(|pause| pause.until);
    pause_ended.map_or(record.decided_until, |ended| ended.max(record.decided_until))
}
