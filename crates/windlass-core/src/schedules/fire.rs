//! Decides about schedules that are due. Pure: a schedule and the store's current time go in, and the
//! change to request comes out. Two processes may request the same change; the store applies it once.

use crate::clock::Timestamp;
use crate::schedule::{Due, Standing, catch_up};

use super::ScheduleChange;
use super::record::{Alert, ScheduleAlert, ScheduleRecord, StoredSchedule};
use super::spec::Overlap;

/// A change that makes the jobs of ticks that have come, and the alert about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firing {
    /// The change to request from the store.
    pub change: ScheduleChange,
    /// All that was decided.
    pub due: Due,
    /// The alert, if the schedule did not run when it should have.
    pub alert: Option<Alert>,
}

/// Decides about a schedule. `None` if it is not due.
pub fn fire(stored: &StoredSchedule, now: Timestamp) -> Option<Firing> {
    let before = &stored.record;
    before.look_at().filter(|due| *due <= now)?;
    let standing = Standing { decided_until: decided_from(before), is_paused: false, skip: before.skip };
    let spec = &before.spec;
    let due = catch_up(&spec.schedule, &spec.holidays, &spec.catch_up, &standing, now);
    let ticks = match spec.overlap {
        Overlap::Allow => due.run.clone(),
        // Only one of several jobs at once could run, so the newest is enqueued.
        Overlap::Skip | Overlap::Replace => due.run.last().copied().into_iter().collect(),
    };
    let alert = due
        .missed
        .first
        .map(|first| Alert { at: now, what: ScheduleAlert::Missed { count: due.missed.count, first } });
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

/// Returns a change for a schedule that a store calls due and that is not, as after an update that
/// computes its ticks differently: the schedule stays the same, but the store updates the time at which
/// it must be checked.
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

/// Ticks that came while the schedule was paused are dropped, so the end of a pause decides all ticks
/// until then.
fn decided_from(record: &ScheduleRecord) -> Timestamp {
    let pause_ended = record.pause.as_ref().and_then(|pause| pause.until);
    pause_ended.map_or(record.decided_until, |ended| ended.max(record.decided_until))
}
