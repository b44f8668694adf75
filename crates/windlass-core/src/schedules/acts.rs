//! What people and programs do to schedules: each act makes a change, which the store applies if no other
//! process was faster.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::limits::REASON_BYTES_MAX;
use crate::names::ScheduleName;
use crate::outcome::bounded;
use crate::queue::Pause;
use crate::stored::Source;

use super::ScheduleChange;
use super::record::{ScheduleRecord, StoredSchedule};
use super::spec::{Origin, Overlap, ScheduleSpec};

/// Stores a schedule, or updates the stored one to the declaration. `None` if it is the same already. A
/// new text or other holidays count from now on: ticks that were missed under the old ones are not caught
/// up on.
pub fn declare(
    spec: &ScheduleSpec,
    origin: Origin,
    stored: Option<&StoredSchedule>,
    now: Timestamp,
) -> Option<ScheduleChange> {
    let Some(stored) = stored else {
        let record = ScheduleRecord {
            spec: spec.clone(),
            origin,
            stored_at: now,
            decided_until: now,
            pause: None,
            skip: None,
            last_tick: None,
            alert: None,
            source: Source::default(),
        };
        return Some(change(0, record));
    };
    let before = &stored.record;
    if before.spec == *spec && before.origin == origin {
        return None;
    }
    let mut record = ScheduleRecord { spec: spec.clone(), origin, ..before.clone() };
    if before.spec.schedule != spec.schedule || before.spec.holidays != spec.holidays {
        // This also applies if the schedule is decided further ahead, by a clock that was ahead: no tick
        // makes a second job, since the first holds its key.
        record.decided_until = now;
        record.skip = None;
    }
    Some(change(stored.version, record))
}

/// Pauses a schedule, for a time or until it is resumed. `None` if it is paused in exactly this way.
pub fn pause(
    stored: &StoredSchedule,
    reason: Option<&str>,
    lasting: Option<Duration>,
    now: Timestamp,
) -> Option<ScheduleChange> {
    let reason = reason.map(|reason| bounded(reason.to_owned(), REASON_BYTES_MAX));
    let until = lasting.map(|lasting| now.plus(lasting));
    let is_same = |pause: &Pause| pause.holds(now) && pause.reason == reason && pause.until == until;
    if stored.record.pause.as_ref().is_some_and(is_same) {
        return None;
    }
    let record = ScheduleRecord { pause: Some(Pause { since: now, reason, until }), ..stored.record.clone() };
    Some(change(stored.version, record))
}

/// Resumes a schedule from now, also one that was decided further ahead by a clock that was ahead. Ticks
/// that came during the pause are dropped. `None` if it is not paused.
pub fn resume(stored: &StoredSchedule, now: Timestamp) -> Option<ScheduleChange> {
    let before = &stored.record;
    before.pause.as_ref().filter(|pause| pause.holds(now))?;
    Some(change(stored.version, ScheduleRecord { pause: None, decided_until: now, ..before.clone() }))
}

/// Skips the next tick, and returns it. `None` if there is none.
pub fn skip_next(stored: &StoredSchedule, now: Timestamp) -> Option<(Timestamp, Option<ScheduleChange>)> {
    let before = &stored.record;
    let ahead = before.skip.filter(|skip| *skip > now);
    if let Some(skip) = ahead {
        return Some((skip, None));
    }
    let tick = before.next_tick(now)?;
    let record = ScheduleRecord { skip: Some(tick), ..before.clone() };
    Some((tick, Some(change(stored.version, record))))
}

/// Removes a schedule. Jobs that it enqueued stay.
pub fn remove(name: &ScheduleName, version: u64) -> ScheduleChange {
    ScheduleChange {
        name: name.clone(),
        read: version,
        to: None,
        jobs: Vec::new(),
        overlap: Overlap::Allow,
        ticks: Vec::new(),
        by_hand: false,
    }
}

/// Enqueues the jobs of these ticks, whatever the schedule says: a pause or an overlap does not prevent a
/// manual run, and a manual run does not affect later ticks. A tick that made its job before makes no
/// second one.
pub fn run(stored: &StoredSchedule, ticks: &[Timestamp]) -> ScheduleChange {
    let record = stored.record.clone();
    let jobs = ticks.iter().map(|tick| record.job_of(*tick)).collect();
    ScheduleChange { jobs, by_hand: true, ..change(stored.version, record) }
}

fn change(read: u64, record: ScheduleRecord) -> ScheduleChange {
    ScheduleChange {
        name: record.spec.name.clone(),
        read,
        to: Some(Box::new(record)),
        jobs: Vec::new(),
        overlap: Overlap::Allow,
        ticks: Vec::new(),
        by_hand: false,
    }
}
