//! What a store keeps of a schedule.

use std::fmt;

use serde::Deserialize;

use crate::clock::Timestamp;
use crate::enqueue::{EnqueueAnswer, NewJob, Refusal};
use crate::job::JobId;
use crate::key::{KeyClaim, KeyScope};
use crate::limits::TICK_KEPT;
use crate::names::{CorrelationId, Key, ScheduleName};
use crate::queue::Pause;
use crate::stored::Source;

use super::Put;
use super::spec::{Origin, ScheduleSpec};

/// A schedule as a store returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSchedule {
    /// The version, which rises with each change; the next change names it.
    pub version: u64,
    /// The last job that it enqueued.
    pub last_job: Option<JobId>,
    /// Everything else. A store keeps it as one text.
    pub record: ScheduleRecord,
}

/// A schedule as it was declared, and its current state.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ScheduleRecord {
    /// The declaration.
    pub spec: ScheduleSpec,
    /// What declared it last.
    pub origin: Origin,
    /// When it was first stored.
    pub stored_at: Timestamp,
    /// All ticks up to this time are decided.
    pub decided_until: Timestamp,
    /// Whether it is paused, since when, why and until when.
    #[serde(default)]
    pub pause: Option<Pause>,
    /// A tick that an operator skipped.
    #[serde(default)]
    pub skip: Option<Timestamp>,
    /// The last tick that came. It may have made no job: because the last job was live, or because its
    /// own was refused.
    #[serde(default)]
    pub last_tick: Option<Timestamp>,
    /// The last time it did not run as it should have. An alert that only another version knows is read
    /// as none.
    #[serde(default, deserialize_with = "known_alert")]
    pub alert: Option<Alert>,
    /// The text from which it was read.
    #[serde(skip)]
    pub source: Source,
}

/// The record of a schedule that did not run when it should have.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Alert {
    /// When that was noticed.
    pub at: Timestamp,
    /// The kind of alert.
    pub what: ScheduleAlert,
}

/// What went wrong with a schedule.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleAlert {
    /// No process noticed ticks in time. The schedule's policy decides what happens to them.
    Missed {
        /// The number of missed ticks.
        count: u32,
        /// The first of them.
        first: Timestamp,
    },
    /// The job of a tick was refused, for instance because its type is not registered.
    Refused {
        /// The tick.
        tick: Timestamp,
        /// Why.
        why: String,
    },
    /// A tick made no job, because the last job is still live. This is reported once for each such job.
    Overlaps {
        /// The first such tick.
        tick: Timestamp,
        /// The job that is live.
        job: JobId,
    },
}

/// An alert that cannot be read must not make the schedule unreadable.
fn known_alert<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Alert>, D::Error> {
    let alert = Option::<serde_json::Value>::deserialize(from)?;
    Ok(alert.and_then(|alert| serde_json::from_value(alert).ok()))
}

impl fmt::Display for ScheduleAlert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missed { count: 1, first } => write!(f, "missed the tick of {first}"),
            Self::Missed { count, first } => write!(f, "missed {count} ticks since {first}"),
            Self::Refused { tick, why } => write!(f, "the job of {tick} was refused: {why}"),
            Self::Overlaps { tick, job } => {
                write!(f, "left ticks out since {tick}, while job {job} was live")
            }
        }
    }
}

impl StoredSchedule {
    /// Parses a row of a store. `None` if the text cannot be read, is about another schedule, or is
    /// invalid for every store: such a schedule could not be written again, so it must not be fired with
    /// others.
    pub fn from_store(name: &ScheduleName, version: u64, last_job: Option<i64>, text: &str) -> Option<Self> {
        let mut record: ScheduleRecord = serde_json::from_str(text).ok()?;
        record.source = Source::of(text, "made_none");
        // An alert in the words of a newer version cannot be read, which is no reason to reject the
        // schedule.
        if let Ok(WithMadeNone { made_none: Some(made_none) }) = serde_json::from_str(text) {
            made_none.apply_to(&mut record);
        }
        let is_sound = record.spec.name == *name && record.spec.check_kept().is_ok();
        is_sound.then(|| Self { version, last_job: last_job.map(JobId), record })
    }

    /// Returns its name.
    pub fn name(&self) -> &ScheduleName {
        &self.record.spec.name
    }

    /// Whether a tick should have been noticed by now and was not: no process fires schedules, or none
    /// can.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.record.look_at().is_some_and(|due| due.plus(self.record.spec.catch_up.grace) < now)
    }
}

/// What a store that cannot format our texts adds to the record of a firing if a tick made no job: the
/// answer as it got it.
#[derive(Deserialize)]
struct WithMadeNone {
    #[serde(default)]
    made_none: Option<MadeNone>,
}

#[derive(Deserialize)]
struct MadeNone {
    at: Timestamp,
    tick: Timestamp,
    refusal: Option<Refusal>,
    overlaps: Option<i64>,
}

impl MadeNone {
    fn apply_to(self, record: &mut ScheduleRecord) {
        let refused = self.refusal.map(|why| Put::Answered(EnqueueAnswer::Refused(why)));
        let put = refused.or(self.overlaps.map(|job| Put::Overlaps(JobId(job))));
        if let Some(what) = put.and_then(|put| record.news_of(self.tick, &put)) {
            record.alert = Some(Alert { at: self.at, what });
        }
    }
}

impl ScheduleRecord {
    /// Returns the alert for a tick that got this answer. The job was refused, or it was not enqueued
    /// because another job is live and that was not reported yet.
    pub fn news_of(&self, tick: Timestamp, put: &Put) -> Option<ScheduleAlert> {
        let known = self.alert.as_ref().map(|alert| &alert.what);
        match put {
            Put::Answered(answer) => {
                answer.job().err().map(|why| ScheduleAlert::Refused { tick, why: why.to_string() })
            }
            Put::Overlaps(job) => {
                let is_reported =
                    matches!(known, Some(ScheduleAlert::Overlaps { job: reported, .. }) if reported == job);
                (!is_reported).then_some(ScheduleAlert::Overlaps { tick, job: *job })
            }
        }
    }

    /// Returns the text that a store keeps: fields that newer versions stored beside it stay.
    pub fn to_text(&self) -> String {
        self.source.rewritten(self)
    }

    /// Returns when it must be checked next: at its next tick, or when its pause ends; never while it is
    /// paused without an end.
    pub fn look_at(&self) -> Option<Timestamp> {
        match &self.pause {
            Some(pause) => pause.until,
            None => self.tick_after(self.decided_until),
        }
    }

    /// Returns the next tick that will run, in the current state.
    pub fn next_tick(&self, now: Timestamp) -> Option<Timestamp> {
        self.upcoming(now).next()
    }

    /// Returns the ticks that will run, in the current state: not the skipped one, and none before a
    /// pause ends. They are computed from there, however far away that is.
    pub fn upcoming(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        let from = match &self.pause {
            Some(pause) => pause.until.map(|until| self.decided_until.max(until).max(now)),
            None => Some(self.decided_until.max(now)),
        };
        let spec = &self.spec;
        let ticks = from.into_iter().flat_map(|from| spec.schedule.ticks_after(from, &spec.holidays));
        ticks.filter(|tick| Some(*tick) != self.skip)
    }

    /// Returns up to when its ticks are decided, if that lies ahead: the store's clock was ahead when the
    /// schedule was fired, and no tick runs until the clock reaches that time again.
    pub fn decided_ahead(&self, now: Timestamp) -> Option<Timestamp> {
        Some(self.decided_until).filter(|until| *until > now)
    }

    pub(super) fn tick_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.spec.schedule.ticks_after(after, &self.spec.holidays).next()
    }

    /// Returns the job of a tick. Its key is the row that says that this tick has made its job.
    pub fn job_of(&self, tick: Timestamp) -> NewJob {
        let name = tick_name(&self.spec.name, tick);
        let key = Key::parse(&name).expect("a name and an instant are a key");
        let correlation = CorrelationId::parse(&name).expect("a name and an instant are an id");
        NewJob {
            key: Some(KeyClaim { scope: KeyScope::For(TICK_KEPT), ..KeyClaim::new(key) }),
            correlation: Some(correlation),
            ..self.spec.job.new_job()
        }
    }
}

/// Returns the name of the job of a tick: `schedule/nightly/2027-06-01T02:00:00Z`.
fn tick_name(name: &ScheduleName, tick: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(tick.as_micros()) {
        Ok(instant) => format!("schedule/{name}/{instant}"),
        Err(_) => format!("schedule/{name}/{}", tick.as_micros()),
    }
}
