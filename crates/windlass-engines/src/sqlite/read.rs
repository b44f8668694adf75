//! Queries of operators about jobs. Every read is one page in one snapshot.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use windlass_core::admin::{AttemptEnding, ListRequest, StoredAttempt, StoredJob};
use windlass_core::clock::Timestamp;
use windlass_core::job::{JobId, JobState};
use windlass_core::limits::{ATTEMPTS_SHOWN_MAX, LIST_PAGE_MAX};
use windlass_core::names::{OrderingKey, QueueName, TypeName};
use windlass_core::worker::WorkerId;

use super::catalogue::Catalogue;
use super::ordering_keys::ordering_key_out;
use super::row::{self, CANCELLED, Names, SUCCEEDED};
use super::sql::sql;
use super::store_error::StoreResult;
use crate::kit::parse_error;

/// Converts a table's row into a record.
type Reader = fn(&Row<'_>, Names<'_>, Timestamp) -> StoreResult<StoredJob>;

/// Reads one job from the table that has it.
pub(super) fn job(conn: &Connection, id: JobId, now: Timestamp) -> StoreResult<Option<StoredJob>> {
    let catalogue = Catalogue::load(conn)?;
    let tables: [(&str, Reader); 3] = [
        (sql!("read_live"), row::live_record),
        (sql!("read_dead"), row::dead_record),
        (sql!("read_ended"), row::ended_record),
    ];
    for (sql, reader) in tables {
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query([id.0])?;
        if let Some(row) = rows.next()? {
            return reader(row, &|kind| names(&catalogue, kind), now).map(Some);
        }
    }
    Ok(None)
}

/// Finds the job of an ordering key that is out.
pub(super) fn head_of(
    conn: &Connection,
    job_type: &TypeName,
    ordering_key: &OrderingKey,
) -> StoreResult<Option<JobId>> {
    let Some(kind) = Catalogue::load(conn)?.type_named(job_type) else { return Ok(None) };
    ordering_key_out(conn, kind.id, ordering_key.as_str())
}

fn names(catalogue: &Catalogue, kind: i64) -> Option<(TypeName, QueueName)> {
    let kind = catalogue.type_numbered(kind)?;
    Some((kind.spec.name.clone(), kind.spec.queue.clone()))
}

/// Lists the newest attempts of one job, oldest first, including the running one.
pub(super) fn attempts(conn: &Connection, id: JobId) -> StoreResult<Vec<StoredAttempt>> {
    let last = conn.prepare_cached(sql!("last_attempt"))?.query_row([id.0], read_attempt).optional()?;
    let mut statement = conn.prepare_cached(sql!("read_attempts"))?;
    let earlier = statement.query_map([id.0, ATTEMPTS_SHOWN_MAX.into()], read_attempt)?;
    let mut newest_first: Vec<_> = last.into_iter().collect();
    for attempt in earlier {
        newest_first.push(attempt?);
    }
    newest_first.truncate(ATTEMPTS_SHOWN_MAX as usize);
    newest_first.reverse();
    Ok(newest_first)
}

fn read_attempt(row: &Row<'_>) -> rusqlite::Result<StoredAttempt> {
    let error: Option<String> = row.get(5)?;
    Ok(StoredAttempt {
        number: row.get(0)?,
        worker: WorkerId::from_bytes(row.get::<_, Option<[u8; 16]>>(1)?.unwrap_or_default()),
        started_at: Timestamp::from_micros(row.get::<_, Option<i64>>(2)?.unwrap_or_default()),
        ended_at: row.get::<_, Option<i64>>(3)?.map(Timestamp::from_micros),
        ending: AttemptEnding::parse(&row.get::<_, String>(4)?).unwrap_or(AttemptEnding::Failed),
        error: error.as_deref().map(parse_error),
        output: row.get(6)?,
    })
}

/// Lists a page of jobs, newest first.
pub(super) fn list(conn: &Connection, request: &ListRequest, now: Timestamp) -> StoreResult<Vec<StoredJob>> {
    let catalogue = Catalogue::load(conn)?;
    let limit = request.limit.min(LIST_PAGE_MAX);
    let mut page = Vec::new();
    for table in tables(request.job_state) {
        let Some(filters) = Filters::of(request, &table, &catalogue, now) else { return Ok(Vec::new()) };
        filters.read(conn, &table, &catalogue, &mut page)?;
    }
    page.sort_by_key(|record| std::cmp::Reverse(record.job.id));
    page.truncate(limit as usize);
    Ok(page)
}

/// One of the three tables of jobs.
struct JobTable {
    sql: &'static str,
    reader: Reader,
    is_live: bool,
}

/// Returns the tables in which jobs of a state can be.
fn tables(job_state: Option<JobState>) -> Vec<JobTable> {
    let live = JobTable { sql: sql!("list_live"), reader: row::live_record, is_live: true };
    let dead = JobTable { sql: sql!("list_dead"), reader: row::dead_record, is_live: false };
    let ended = JobTable { sql: sql!("list_ended"), reader: row::ended_record, is_live: false };
    match job_state {
        None => vec![live, dead, ended],
        Some(JobState::Ready | JobState::Scheduled | JobState::Parked | JobState::Running) => vec![live],
        Some(JobState::Dead) => vec![dead],
        Some(JobState::Succeeded | JobState::Cancelled) => vec![ended],
    }
}

/// The lines that are added to a list's statement, and the values they name. Lines are constants; only
/// values come from outside.
struct Filters {
    now: Timestamp,
    lines: Vec<String>,
    values: HashMap<&'static str, Box<dyn ToSql>>,
}

impl Filters {
    /// Returns the filters of a request; `None` if no job can match, because a name is not known.
    fn of(request: &ListRequest, table: &JobTable, catalogue: &Catalogue, now: Timestamp) -> Option<Self> {
        let before = request.before.map_or(i64::MAX, |id| id.0);
        let mut filters = Self { now, lines: Vec::new(), values: HashMap::new() };
        filters.values.insert(":before", Box::new(before));
        filters.values.insert(":limit", Box::new(request.limit.min(LIST_PAGE_MAX)));
        if let Some(name) = &request.job_type {
            let kind = catalogue.type_named(name)?;
            filters.add("AND type = :type", ":type", kind.id);
        }
        if let Some(name) = &request.queue {
            let queue = catalogue.queue(name)?;
            filters.add("AND type IN (SELECT id FROM job_types WHERE queue = :queue)", ":queue", queue.id);
        }
        let texts = [
            ("AND key = :key", ":key", request.key.as_ref().map(ToString::to_string)),
            (
                "AND correlation = :correlation",
                ":correlation",
                request.correlation.as_ref().map(ToString::to_string),
            ),
            ("AND job_group = :group", ":group", request.group.as_ref().map(ToString::to_string)),
            (
                "AND EXISTS (SELECT 1 FROM json_each(tags) WHERE value = :tag)",
                ":tag",
                request.tag.as_ref().map(ToString::to_string),
            ),
        ];
        for (line, name, text) in texts {
            if let Some(text) = text {
                filters.add(line, name, text);
            }
        }
        filters.add_job_state(request.job_state, table);
        Some(filters)
    }

    fn add(&mut self, line: &str, name: &'static str, value: impl ToSql + 'static) {
        self.lines.push(line.to_owned());
        self.values.insert(name, Box::new(value));
    }

    fn add_job_state(&mut self, job_state: Option<JobState>, table: &JobTable) {
        let now = self.now.as_micros();
        match job_state {
            Some(JobState::Ready) => {
                self.add("AND gate IS NULL AND worker IS NULL AND due <= :now", ":now", now);
            }
            Some(JobState::Scheduled) => {
                self.add("AND gate IS NULL AND worker IS NULL AND due > :now", ":now", now);
            }
            Some(JobState::Parked) => self.lines.push("AND gate IS NOT NULL".to_owned()),
            Some(JobState::Running) => self.lines.push("AND worker IS NOT NULL".to_owned()),
            Some(JobState::Succeeded) if !table.is_live => {
                self.lines.push(format!("AND state = {SUCCEEDED}"))
            }
            Some(JobState::Cancelled) if !table.is_live => {
                self.lines.push(format!("AND state = {CANCELLED}"))
            }
            _ => {}
        }
    }

    fn read(
        &self,
        conn: &Connection,
        table: &JobTable,
        catalogue: &Catalogue,
        page: &mut Vec<StoredJob>,
    ) -> StoreResult<()> {
        let sql = table.sql.replace("/* filters */", &self.lines.join("\n"));
        let mut statement = conn.prepare_cached(&sql)?;
        for (name, value) in &self.values {
            if let Some(index) = statement.parameter_index(name)? {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            page.push((table.reader)(row, &|kind| names(catalogue, kind), self.now)?);
        }
        Ok(())
    }
}
