//! Conversion of rows and jobs. Reading never fails for a damaged value: it is replaced and the damage is
//! reported, because one damaged row must not keep others from being claimed or shown.

use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};
use serde::de::DeserializeOwned;
use windlass_core::admin::StoredJob;
use windlass_core::claim::ClaimToken;
use windlass_core::clock::Timestamp;
use windlass_core::gate::Gate;
use windlass_core::job::{Counters, Job, JobId, StoredState};
use windlass_core::names::{Key, NameError, QueueName, TypeName};
use windlass_core::outcome::JobError;
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::worker::WorkerId;

use super::sql::JOB_COLUMNS;
use super::store_error::StoreResult;
use crate::kit::{JobOptions, parse_error};

/// A job as it was read, and the damage of its row.
pub(super) struct Reading {
    pub(super) job: Job,
    pub(super) last_error: Option<JobError>,
    pub(super) damage: Option<String>,
}

/// Returns the names of a type by its number.
pub(super) type Names<'a> = &'a dyn Fn(i64) -> Option<(TypeName, QueueName)>;

/// Reads the columns that all three tables of jobs share.
pub(super) fn read_job(row: &Row<'_>, names: Names<'_>) -> StoreResult<Reading> {
    let mut from = Columns { row, damage: None };
    let (job_type, queue) = from.names(names)?;
    let options: JobOptions = from.json(17).unwrap_or_default();
    let (key, timeout) = (options.key_claim(from.name(13, Key::parse)), options.timeout());
    let job = Job {
        id: JobId(row.get(0)?),
        job_type,
        queue,
        payload: Payload::from_store(&from.required::<String>(3, "payload")),
        priority: from.priority(),
        label: options.label,
        enqueued_at: Timestamp::from_micros(from.required(4, "enqueued_at")),
        due: Timestamp::from_micros(from.required(5, "due")),
        expires_at: from.get::<Option<i64>>(6, "expires_at").flatten().map(Timestamp::from_micros),
        key,
        ordering_key: options.ordering_key,
        fairness_key: options.fairness_key,
        correlation: from.name(14, windlass_core::names::CorrelationId::parse),
        provenance: options.provenance,
        tags: from.json(16).unwrap_or_default(),
        group: from.name(15, windlass_core::names::GroupName::parse),
        retry: options.retry,
        timeout,
        counters: Counters {
            attempts: from.required(7, "attempts"),
            failures: from.required(8, "failures"),
            crashes: from.required(9, "crashes"),
            holds: from.required(10, "holds"),
        },
        progress: from.json(11),
    };
    let last_error = from.json(12);
    Ok(Reading { job, last_error, damage: from.damage })
}

/// The columns of a row, and the first damage in it.
struct Columns<'r, 's> {
    row: &'r Row<'s>,
    damage: Option<String>,
}

impl Columns<'_, '_> {
    fn names(&mut self, names: Names<'_>) -> StoreResult<(TypeName, QueueName)> {
        let id: i64 = self.required(1, "type");
        if let Some(known) = names(id) {
            return Ok(known);
        }
        self.note("its type is not registered".to_owned());
        let unknown = || format!("unknown-{}", id.unsigned_abs());
        let name = TypeName::parse(&unknown()).expect("a number and a dash are plain");
        Ok((name, QueueName::parse(&unknown()).expect("a number and a dash are plain")))
    }

    fn priority(&mut self) -> Priority {
        let number: i64 = self.required(2, "priority");
        Priority::new(number).unwrap_or_else(|error| {
            self.note(error.to_string());
            Priority::LEAST_URGENT
        })
    }

    fn required<T: FromSql + Default>(&mut self, column: usize, name: &str) -> T {
        self.get(column, name).unwrap_or_default()
    }

    fn get<T: FromSql>(&mut self, column: usize, name: &str) -> Option<T> {
        match self.row.get(column) {
            Ok(value) => Some(value),
            Err(error) => {
                self.note(format!("{name}: {error}"));
                None
            }
        }
    }

    /// Reads the text of a column that may be empty. It is checked in place: most are empty.
    fn text(&mut self, column: usize) -> Option<String> {
        match self.row.get_ref(column) {
            Ok(ValueRef::Null) => None,
            _ => self.get(column, "a text"),
        }
    }

    fn name<T>(&mut self, column: usize, parse: fn(&str) -> Result<T, NameError>) -> Option<T> {
        let text = self.text(column)?;
        parse(&text).map_err(|error| self.note(error.to_string())).ok()
    }

    fn json<T: DeserializeOwned>(&mut self, column: usize) -> Option<T> {
        let text = self.text(column)?;
        serde_json::from_str(&text).map_err(|error| self.note(error.to_string())).ok()
    }

    fn note(&mut self, damage: String) {
        self.damage.get_or_insert(damage);
    }
}

/// Converts a row of the live jobs into a record.
pub(super) fn live_record(row: &Row<'_>, names: Names<'_>, now: Timestamp) -> StoreResult<StoredJob> {
    let gate = lossy(row, JOB_COLUMNS)?;
    let worker: Option<[u8; 16]> = row.get(JOB_COLUMNS + 2)?;
    let state = match worker {
        Some(worker) => StoredState::Running {
            worker: WorkerId::from_bytes(worker),
            since: instant(row, JOB_COLUMNS + 3)?,
            cancel_requested: lossy(row, JOB_COLUMNS + 5)?,
        },
        None => StoredState::Waiting { gate: gate.as_deref().map(Gate::named) },
    };
    record(row, names, state, now)
}

/// Converts a dead letter into a record.
pub(super) fn dead_record(row: &Row<'_>, names: Names<'_>, now: Timestamp) -> StoreResult<StoredJob> {
    let error = parse_error(&lossy(row, JOB_COLUMNS)?.unwrap_or_default());
    let state = StoredState::Dead { at: instant(row, JOB_COLUMNS + 1)?, error };
    record(row, names, state, now)
}

/// Converts a row of the history into a record.
pub(super) fn ended_record(row: &Row<'_>, names: Names<'_>, now: Timestamp) -> StoreResult<StoredJob> {
    let at = instant(row, JOB_COLUMNS + 3)?;
    let state = match row.get(JOB_COLUMNS)? {
        SUCCEEDED => StoredState::Succeeded { at, result: lossy(row, JOB_COLUMNS + 1)? },
        _ => StoredState::Cancelled { at, why: lossy(row, JOB_COLUMNS + 2)?.unwrap_or_default() },
    };
    record(row, names, state, now)
}

/// `job_history.state` of a job that succeeded.
pub(super) const SUCCEEDED: i64 = 1;
/// `job_history.state` of a job that was cancelled.
pub(super) const CANCELLED: i64 = 2;

fn record(row: &Row<'_>, names: Names<'_>, state: StoredState, now: Timestamp) -> StoreResult<StoredJob> {
    let Reading { job, last_error, .. } = read_job(row, names)?;
    Ok(StoredJob { job, state, last_error, read_at: now })
}

fn instant(row: &Row<'_>, column: usize) -> StoreResult<Timestamp> {
    Ok(Timestamp::from_micros(row.get::<_, Option<i64>>(column)?.unwrap_or_default()))
}

/// Reads the text of a column, with replacement characters for invalid UTF-8. STRICT tables accept any
/// bytes as text, and they must not make a move of the job fail.
pub(super) fn lossy(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    })
}

/// Reads a count from its column; a count out of range becomes the nearest valid one.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u32> {
    let count: i64 = row.get(column)?;
    Ok(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
}

/// Decodes a token from its column.
pub(super) fn token(bytes: [u8; 16]) -> ClaimToken {
    ClaimToken::from_bytes(bytes)
}
