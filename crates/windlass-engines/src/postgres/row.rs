//! Conversion between rows and jobs. Reading never fails for a damaged value: the value is replaced and the
//! damage is reported, because one bad row must not keep others from being claimed or shown.

use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use windlass_core::admin::StoredJob;
use windlass_core::clock::Timestamp;
use windlass_core::gate::Gate;
use windlass_core::job::{Counters, Job, JobId, StoredState};
use windlass_core::names::{CorrelationId, GroupName, Key, NameError, QueueName, TypeName};
use windlass_core::outcome::JobError;
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;

use super::sql::JOB_COLUMNS;
use super::store_error::StoreResult;
use super::value::{Bits, Instant};
use crate::kit::{JobOptions, parse_error};

/// `job_history.state` of a job that succeeded.
pub(super) const SUCCEEDED: i16 = 1;
/// `job_history.state` of a job that was cancelled.
pub(super) const CANCELLED: i16 = 2;

/// The position of the options among the columns of a job.
pub(super) const OPTIONS_COLUMN: usize = 18;

/// A job as it was read, and the damage of its row.
pub(super) struct Reading {
    pub(super) job: Job,
    pub(super) last_error: Option<JobError>,
    pub(super) damage: Option<String>,
}

/// Reads the columns that all statements share, from `first` on.
pub(super) fn read_job(row: &Row, first: usize) -> StoreResult<Reading> {
    let mut from = Columns { row, first, damage: None };
    let options: JobOptions = from.json(OPTIONS_COLUMN)?.unwrap_or_default();
    let (key, timeout) = (options.key_claim(from.name(8, Key::parse)?), options.timeout());
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
        key,
        ordering_key: options.ordering_key,
        fairness_key: options.fairness_key,
        correlation: from.name(15, CorrelationId::parse)?,
        provenance: options.provenance,
        tags: from.json(17)?.unwrap_or_default(),
        group: from.name(16, GroupName::parse)?,
        retry: options.retry,
        timeout,
        counters: from.counters()?,
        progress: from.json(13)?,
    };
    let last_error = from.json(14)?;
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
        for column in 9..13 {
            let count: i32 = self.get(column)?;
            self.or_damage(u32::try_from(count).map_err(|_| format!("expected a count, got {count}")));
        }
        counters(self.row, self.first + 9)
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
    let worker: Option<Bits> = row.try_get(JOB_COLUMNS + 2)?;
    let state = match worker {
        Some(worker) => StoredState::Running {
            worker: worker.into(),
            since: instant(row, JOB_COLUMNS + 3)?,
            cancel_requested: row.try_get(JOB_COLUMNS + 5)?,
        },
        None => StoredState::Waiting { gate: gate(row, JOB_COLUMNS)? },
    };
    record(row, state, now)
}

/// Reads a dead job as a record. Beyond the shared columns: error, ended_at.
pub(super) fn dead_record(row: &Row, now: Timestamp) -> StoreResult<StoredJob> {
    let error = parse_error(row.try_get(JOB_COLUMNS)?);
    let state = StoredState::Dead { at: instant(row, JOB_COLUMNS + 1)?, error };
    record(row, state, now)
}

/// Reads a row of the history as a record. Beyond the shared columns: state, result, why, ended_at.
pub(super) fn ended_record(row: &Row, now: Timestamp) -> StoreResult<StoredJob> {
    let at = instant(row, JOB_COLUMNS + 3)?;
    let state = match row.try_get(JOB_COLUMNS)? {
        SUCCEEDED => StoredState::Succeeded { at, result: row.try_get(JOB_COLUMNS + 1)? },
        _ => StoredState::Cancelled {
            at,
            why: row.try_get::<_, Option<String>>(JOB_COLUMNS + 2)?.unwrap_or_default(),
        },
    };
    record(row, state, now)
}

fn record(row: &Row, state: StoredState, now: Timestamp) -> StoreResult<StoredJob> {
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
