//! Conversion between rows and jobs. Reading never fails for a damaged value: the value is replaced and the
//! damage is reported, because one bad row must not keep others from being claimed or shown.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use windlass_core::admin::StoredJob;
use windlass_core::clock::Timestamp;
use windlass_core::gate::Gate;
use windlass_core::job::{Counters, Job, JobId, JobState};
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::names::{
    CorrelationId, FairnessKey, GroupName, Key, NameError, OrderingKey, PriorityLabel, QueueName, TypeName,
};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::retry::RetryPolicy;
use windlass_core::stored::Source;

use super::store_error::StoreResult;
use super::value::{Bits, Instant};

/// How many columns all statements that read jobs share, in the same order:
/// id, job_type, queue, priority, payload, created_at, scheduled_at, expires_at, key, correlation,
/// job_group, tags, options, attempts, failures, crashes, holds, progress, last_error.
pub(super) const SHARED: usize = 19;

/// `job_history.state` of a job that succeeded.
pub(super) const SUCCEEDED: i16 = 1;
/// `job_history.state` of a job that was cancelled.
pub(super) const CANCELLED: i16 = 2;

/// The rarer options of a job, in one column. Most jobs have none.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<PriorityLabel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry: Option<RetryPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout_micros: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) scope: KeyScope,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) on_conflict: OnConflict,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ordering_key: Option<OrderingKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fairness_key: Option<FairnessKey>,
    /// The text that the options were read from.
    #[serde(skip)]
    pub(super) source: Source,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Options {
    /// The value for the column; nothing if all options are default.
    pub(super) fn to_column(&self) -> Option<String> {
        (*self != Self::default() || !self.source.is_none()).then(|| self.source.rewritten(self))
    }

    /// Reads the column. Options that cannot be read count as none.
    pub(super) fn from_column(text: Option<&str>) -> Self {
        let known = |text| Some(Self { source: Source::verbatim(text), ..serde_json::from_str(text).ok()? });
        text.and_then(known).unwrap_or_default()
    }
}

/// Encodes one of our own types as JSON.
pub(super) fn to_json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("our own types have string keys and no failing serializers")
}

/// A job as it was read, and the damage of its row.
pub(super) struct Reading {
    pub(super) job: Job,
    pub(super) last_error: Option<JobError>,
    pub(super) damage: Option<String>,
}

/// Reads the columns that all statements share, from `first` on.
pub(super) fn read_job(row: &Row, first: usize) -> StoreResult<Reading> {
    let mut from = Columns { row, first, damage: None };
    let options: Options = from.json(12)?.unwrap_or_default();
    let job = Job {
        id: JobId(from.get(0)?),
        job_type: from.type_name()?,
        queue: from.queue_name()?,
        payload: Payload::from_store(from.get(4)?),
        priority: from.priority()?,
        label: options.label,
        enqueued_at: from.instant(5)?,
        due: from.instant(6)?,
        expires_at: from.get::<Option<Instant>>(7)?.map(|at| at.0),
        key: from.name(8, Key::parse)?.map(|key| KeyClaim {
            key,
            scope: options.scope,
            on_conflict: options.on_conflict,
        }),
        ordering_key: options.ordering_key,
        fairness_key: options.fairness_key,
        correlation: from.name(9, CorrelationId::parse)?,
        tags: from.json(11)?.unwrap_or_default(),
        group: from.name(10, GroupName::parse)?,
        retry: options.retry,
        timeout: options.timeout_micros.map(Duration::from_micros),
        counters: from.counters()?,
        progress: from.json(17)?,
    };
    let last_error = from.json(18)?;
    Ok(Reading { job, last_error, damage: from.damage })
}

/// Reads the four counters, from a column on.
pub(super) fn counters(row: &Row, first: usize) -> StoreResult<Counters> {
    let count = |column: usize| -> StoreResult<u32> { Ok(unsigned(row.try_get::<_, i32>(first + column)?)) };
    Ok(Counters { attempts: count(0)?, failures: count(1)?, crashes: count(2)?, holds: count(3)? })
}

/// A count; a negative one counts as zero.
pub(super) fn unsigned(count: i32) -> u32 {
    u32::try_from(count).unwrap_or(0)
}

/// Columns of a row, and the first damage that reading met.
struct Columns<'r> {
    row: &'r Row,
    first: usize,
    damage: Option<String>,
}

impl<'r> Columns<'r> {
    fn get<T: FromSql<'r>>(&self, column: usize) -> StoreResult<T> {
        Ok(self.row.try_get(self.first + column)?)
    }

    fn instant(&self, column: usize) -> StoreResult<Timestamp> {
        Ok(self.get::<Instant>(column)?.0)
    }

    fn type_name(&mut self) -> StoreResult<TypeName> {
        let unreadable = || TypeName::parse("unreadable").expect("a plain word");
        let parsed = TypeName::parse(self.get(1)?);
        Ok(self.or_damage(parsed).unwrap_or_else(unreadable))
    }

    fn queue_name(&mut self) -> StoreResult<QueueName> {
        let unreadable = || QueueName::parse("unreadable").expect("a plain word");
        let parsed = QueueName::parse(self.get(2)?);
        Ok(self.or_damage(parsed).unwrap_or_else(unreadable))
    }

    fn priority(&mut self) -> StoreResult<Priority> {
        let level: i16 = self.get(3)?;
        let parsed = Priority::new(level.into());
        Ok(self.or_damage(parsed).unwrap_or(Priority::LEAST_URGENT))
    }

    fn counters(&mut self) -> StoreResult<Counters> {
        for column in 13..17 {
            let count: i32 = self.get(column)?;
            self.or_damage(u32::try_from(count).map_err(|_| format!("expected a count, got {count}")));
        }
        counters(self.row, self.first + 13)
    }

    fn name<T>(&mut self, column: usize, parse: fn(&str) -> Result<T, NameError>) -> StoreResult<Option<T>> {
        let parsed = self.get::<Option<&str>>(column)?.map(parse);
        Ok(parsed.and_then(|parsed| self.or_damage(parsed)))
    }

    fn json<T: DeserializeOwned>(&mut self, column: usize) -> StoreResult<Option<T>> {
        let parsed = self.get::<Option<&str>>(column)?.map(serde_json::from_str);
        Ok(parsed.and_then(|parsed| self.or_damage(parsed)))
    }

    fn or_damage<T, E: std::fmt::Display>(&mut self, parsed: Result<T, E>) -> Option<T> {
        parsed.map_err(|error| _ = self.damage.get_or_insert(error.to_string())).ok()
    }
}

/// Reads a row of the live jobs as a record. Beyond the shared columns: gate, token, locked_by, locked_at,
/// boosted, cancel_requested.
pub(super) fn live_record(row: &Row, now: Timestamp) -> StoreResult<StoredJob> {
    let worker: Option<Bits> = row.try_get(SHARED + 2)?;
    let state = match worker {
        Some(worker) => JobState::Running {
            worker: worker.into(),
            since: instant(row, SHARED + 3)?,
            cancel_requested: row.try_get(SHARED + 5)?,
        },
        None => JobState::Waiting { gate: gate(row, SHARED)? },
    };
    record(row, state, now)
}

/// Reads a dead job as a record. Beyond the shared columns: error, ended_at.
pub(super) fn dead_record(row: &Row, now: Timestamp) -> StoreResult<StoredJob> {
    let error = parse_error(row.try_get(SHARED)?);
    let state = JobState::Dead { at: instant(row, SHARED + 1)?, error };
    record(row, state, now)
}

/// Reads a row of the history as a record. Beyond the shared columns: state, result, why, ended_at.
pub(super) fn ended_record(row: &Row, now: Timestamp) -> StoreResult<StoredJob> {
    let at = instant(row, SHARED + 3)?;
    let state = match row.try_get(SHARED)? {
        SUCCEEDED => JobState::Succeeded { at, result: row.try_get(SHARED + 1)? },
        _ => {
            JobState::Cancelled { at, why: row.try_get::<_, Option<String>>(SHARED + 2)?.unwrap_or_default() }
        }
    };
    record(row, state, now)
}

fn record(row: &Row, state: JobState, now: Timestamp) -> StoreResult<StoredJob> {
    let Reading { job, last_error, .. } = read_job(row, 0)?;
    Ok(StoredJob { job, state, last_error, read_at: now })
}

/// Reads an instant that may be missing, as in a damaged row.
pub(super) fn instant(row: &Row, column: usize) -> StoreResult<Timestamp> {
    Ok(row.try_get::<_, Option<Instant>>(column)?.map_or(Timestamp::EPOCH, |at| at.0))
}

/// Reads a gate, or nothing.
pub(super) fn gate(row: &Row, column: usize) -> StoreResult<Option<Gate>> {
    Ok(row.try_get::<_, Option<&str>>(column)?.map(Gate::named))
}

/// Reads a stored error. A text that cannot be read is shown as it is.
pub(super) fn parse_error(text: &str) -> JobError {
    serde_json::from_str(text).unwrap_or_else(|_| JobError::new(ErrorKind::Failed, text))
}
