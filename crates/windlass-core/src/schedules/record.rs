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

/// A schedule as a store gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSchedule {
    /// Goes up with each change; to be named by the next one.
    pub version: u64,
    /// The last job that it made.
    pub last_job: Option<JobId>,
    /// Everything else. A store keeps it as one text.
    pub record: ScheduleRecord,
}

/// A schedule as it was declared, and how it stands.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ScheduleRecord {
    /// As declared.
    pub spec: ScheduleSpec,
    /// By whom.
    pub origin: Origin,
    /// When it was stored first.
    pub stored_at: Timestamp,
    /// All ticks up to here are decided.
    pub decided_until: Timestamp,
    /// Whether it is paused, since when, why and until when.
    #[serde(default)]
    pub pause: Option<Pause>,
    /// A tick that somebody asked to leave out.
    #[serde(default)]
    pub skip: Option<Timestamp>,
    /// The last tick whose turn it was. It may have made no job: because the last one was live, or because its own was refused.
    #[serde(default)]
    pub last_tick: Option<Timestamp>,
    /// The last time it did not run as it should have. One that only another version knows is none.
    #[serde(default, deserialize_with = "known_alert")]
    pub alert: Option<Alert>,
    /// What it was read from.
    #[serde(skip)]
    pub source: Source,
}

/// A schedule did not run when it should have.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Alert {
    /// When that was noticed.
    pub at: Timestamp,
    /// What it was.
    pub alarm: ScheduleAlert,
}

/// What went wrong with a schedule.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleAlert {
    /// Nobody saw ticks in time. What became of them is up to the schedule's policy.
    Missed {
        /// How many.
        count: u32,
        /// The first of them.
        first: Timestamp,
    },
    /// The job of a tick was refused, for instance because nobody has registered its type.
    Refused {
        /// Which tick.
        tick: Timestamp,
        /// Why.
        why: String,
    },
    /// A tick made no job, because the last one is still live. It is told once for each such job.
    Overlaps {
        /// Which tick was the first.
        tick: Timestamp,
        /// The job that is live.
        job: JobId,
    },
}

/// A schedule must not be lost for the sake of an alert.
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
    /// Takes a row of a store apart. Nothing if the text cannot be read, is about another schedule, or says what no store would
    /// take: such a schedule could not be written again, so it must not be fired with others.
    pub fn from_store(name: &ScheduleName, version: u64, last_job: Option<i64>, text: &str) -> Option<Self> {
        let mut record: ScheduleRecord = serde_json::from_str(text).ok()?;
        record.source = Source::of(text, "made_none");
        // News in words of a newer version are not understood, which is no reason to leave the schedule alone.
        if let Ok(WithNews { made_none: Some(made_none) }) = serde_json::from_str(text) {
            made_none.tell(&mut record);
        }
        let is_sound = record.spec.name == *name && record.spec.check_kept().is_ok();
        is_sound.then(|| Self { version, last_job: last_job.map(JobId), record })
    }

    /// Its name.
    pub fn name(&self) -> &ScheduleName {
        &self.record.spec.name
    }

    /// Whether a tick should have been seen by now and was not: no process fires, or none can.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.record.look_at().is_some_and(|due| due.plus(self.record.spec.catch_up.grace) < now)
    }
}

/// What a store that does not know our words adds to the record of a firing of which a tick made no job: the answer as it got it.
#[derive(Deserialize)]
struct WithNews {
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
    fn tell(self, record: &mut ScheduleRecord) {
        let refused = self.refusal.map(|why| Put::Answered(EnqueueAnswer::Refused(why)));
        let put = refused.or(self.overlaps.map(|job| Put::Overlaps(JobId(job))));
        if let Some(alarm) = put.and_then(|put| record.news_of(self.tick, &put)) {
            record.alert = Some(Alert { at: self.at, alarm });
        }
    }
}

impl ScheduleRecord {
    /// What is to be told of a tick that got this answer: its job was refused, or left out because another is live and that was not
    /// told yet.
    pub fn news_of(&self, tick: Timestamp, put: &Put) -> Option<ScheduleAlert> {
        let known = self.alert.as_ref().map(|alert| &alert.alarm);
        match put {
            Put::Answered(answer) => {
                answer.job().err().map(|why| ScheduleAlert::Refused { tick, why: why.to_string() })
            }
            Put::Overlaps(job) => {
                let is_told = matches!(known, Some(ScheduleAlert::Overlaps { job: told, .. }) if told == job);
                (!is_told).then_some(ScheduleAlert::Overlaps { tick, job: *job })
            }
        }
    }

    /// The text that a store keeps: what newer versions stored beside it stays.
    pub fn to_text(&self) -> String {
        self.source.rewritten(self)
    }

    /// When somebody has to look at it next: at its next tick, or when its pause ends; never while it is paused for good.
    pub fn look_at(&self) -> Option<Timestamp> {
        match &self.pause {
            Some(pause) => pause.until,
            None => self.tick_after(self.decided_until),
        }
    }

    /// The next tick that will run, as things stand.
    pub fn next_tick(&self, now: Timestamp) -> Option<Timestamp> {
        self.upcoming(now).next()
    }

    /// The ticks that will run, as things stand: not the one that is left out, and none before a pause ends. They are counted from
    /// there, however far away that is.
    pub fn upcoming(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        let from = match &self.pause {
            Some(pause) => pause.until.map(|until| self.decided_until.max(until).max(now)),
            None => Some(self.decided_until.max(now)),
        };
        let spec = &self.spec;
        let ticks = from.into_iter().flat_map(|from| spec.schedule.ticks_after(from, &spec.holidays));
        ticks.filter(|tick| Some(*tick) != self.skip)
    }

    /// Up to when it is decided, if that lies ahead: the store's clock was ahead when it was fired, and until it has come there
    /// again no tick runs.
    pub fn decided_ahead(&self, now: Timestamp) -> Option<Timestamp> {
        Some(self.decided_until).filter(|until| *until > now)
    }

    pub(super) fn tick_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.spec.schedule.ticks_after(after, &self.spec.holidays).next()
    }

    /// The job of a tick. Its key is the row that says that this tick has made its job.
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

/// What the job of a tick is called: `schedule/nightly/2027-06-01T02:00:00Z`.
fn tick_name(name: &ScheduleName, tick: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(tick.as_micros()) {
        Ok(instant) => format!("schedule/{name}/{instant}"),
        Err(_) => format!("schedule/{name}/{}", tick.as_micros()),
    }
}
