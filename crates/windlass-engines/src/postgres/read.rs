//! Queries of operators about jobs. Every query reads one page.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use windlass_core::admin::{AttemptEnding, ListRequest, StoredAttempt, StoredJob};
use windlass_core::clock::Timestamp;
use windlass_core::job::{JobId, JobState};
use windlass_core::limits::{ATTEMPTS_SHOWN_MAX, LIST_PAGE_MAX};
use windlass_core::worker::WorkerId;

use super::Store;
use super::row::{self, CANCELLED, SUCCEEDED};
use super::sql::Statement;
use super::store_error::StoreResult;
use super::value::{Bits, Instant, Param, int4, number, small_number};
use crate::kit::parse_error;

/// Converts a row of a table into a record.
type Reader = fn(&Row, Timestamp) -> StoreResult<StoredJob>;

impl Store {
    /// Returns one job, in whichever table it is. A job that moves between two of the three queries is
    /// found by one more.
    pub(super) async fn job(&self, id: JobId) -> StoreResult<Option<StoredJob>> {
        let now = self.read_time().await?;
        let conn = self.work.get().await?;
        let tables: [(&Statement, Reader); 3] = [
            (&self.sql.read_live, row::live_record),
            (&self.sql.read_dead, row::dead_record),
            (&self.sql.read_ended, row::ended_record),
        ];
        // A dead job that is started over goes the other way, from the second table to the first.
        for (statement, reader) in tables.iter().chain(&tables[..1]) {
            if let Some(row) = conn.query(statement, &[number(&id.0)]).await?.first() {
                return reader(row, now).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the newest attempts of one job, oldest first, the running one included.
    pub(super) async fn attempts(&self, id: JobId) -> StoreResult<Vec<StoredAttempt>> {
        let conn = self.work.get().await?;
        let limit = int4(ATTEMPTS_SHOWN_MAX);
        let last = conn.query(&self.sql.last_attempt, &[number(&id.0)]).await?;
        let earlier = conn.query(&self.sql.read_attempts, &[number(&id.0), small_number(&limit)]).await?;
        let mut newest_first = Vec::new();
        for row in last.iter().chain(&earlier) {
            newest_first.push(read_attempt(row)?);
        }
        newest_first.truncate(ATTEMPTS_SHOWN_MAX as usize);
        newest_first.reverse();
        Ok(newest_first)
    }

    /// Returns a page of jobs, newest first.
    pub(super) async fn list(&self, request: ListRequest) -> StoreResult<Vec<StoredJob>> {
        let now = self.read_time().await?;
        let conn = self.work.get().await?;
        let limit = request.limit.min(LIST_PAGE_MAX);
        let mut page = Vec::new();
        for table in self.tables(request.job_state) {
            let filters = Filters::of(&request, &table, now);
            let statement = filters.statement(table.statement);
            let rows = conn.query(&statement, &filters.params()).await?;
            for row in &rows {
                page.push((table.reader)(row, now)?);
            }
        }
        page.sort_by_key(|record| std::cmp::Reverse(record.job.id));
        // A job that moved between two reads may have been met twice.
        page.dedup_by_key(|record| record.job.id);
        page.truncate(limit as usize);
        Ok(page)
    }

    /// The tables in which jobs of a state can be.
    fn tables(&self, job_state: Option<JobState>) -> Vec<Table<'_>> {
        let live = Table { statement: &self.sql.list_live, reader: row::live_record, is_live: true };
        let dead = Table { statement: &self.sql.list_dead, reader: row::dead_record, is_live: false };
        let ended = Table { statement: &self.sql.list_ended, reader: row::ended_record, is_live: false };
        match job_state {
            None => vec![live, dead, ended],
            Some(JobState::Running) => vec![Table { statement: &self.sql.list_running, ..live }],
            Some(JobState::Ready | JobState::Scheduled | JobState::Parked) => vec![live],
            Some(JobState::Dead) => vec![dead],
            Some(JobState::Succeeded | JobState::Cancelled) => vec![ended],
        }
    }
}

fn read_attempt(row: &Row) -> StoreResult<StoredAttempt> {
    let worker: Option<Bits> = row.try_get(1)?;
    let error: Option<&str> = row.try_get(5)?;
    Ok(StoredAttempt {
        number: row::unsigned(row.try_get(0)?),
        worker: worker.map_or(WorkerId::from_random(0), WorkerId::from),
        started_at: row::instant(row, 2)?,
        ended_at: row.try_get::<_, Option<Instant>>(3)?.map(|at| at.0),
        ending: AttemptEnding::parse(row.try_get(4)?).unwrap_or(AttemptEnding::Failed),
        error: error.map(parse_error),
        output: row.try_get(6)?,
    })
}

/// One of the three tables of jobs.
struct Table<'s> {
    statement: &'s Statement,
    reader: Reader,
    is_live: bool,
}

/// The lines that filters add to the statement of a list, and their values. Lines are constants; only
/// values come from outside.
struct Filters {
    lines: Vec<String>,
    values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
}

impl Filters {
    fn of(request: &ListRequest, table: &Table<'_>, now: Timestamp) -> Self {
        let before = request.before.map_or(i64::MAX, |id| id.0);
        let limit = i64::from(request.limit.min(LIST_PAGE_MAX));
        let mut filters = Self { lines: Vec::new(), values: Vec::new() };
        filters.value(before, Type::INT8);
        filters.value(limit, Type::INT8);
        let texts = [
            ("AND job_type = ", request.job_type.as_ref().map(ToString::to_string)),
            ("AND queue = ", request.queue.as_ref().map(ToString::to_string)),
            ("AND key = ", request.key.as_ref().map(ToString::to_string)),
            ("AND correlation = ", request.correlation.as_ref().map(ToString::to_string)),
            ("AND job_group = ", request.group.as_ref().map(ToString::to_string)),
            ("AND tags::jsonb ? ", request.tag.as_ref().map(ToString::to_string)),
        ];
        for (line, text) in texts {
            if let Some(text) = text {
                filters.add(line, text, Type::TEXT);
            }
        }
        filters.add_job_state(request.job_state, table, now);
        filters
    }

    fn value(&mut self, value: impl ToSql + Sync + Send + 'static, kind: Type) {
        self.values.push((Box::new(value), kind));
    }

    fn add(&mut self, line: &str, value: impl ToSql + Sync + Send + 'static, kind: Type) {
        self.value(value, kind);
        self.lines.push(format!("{line}${}", self.values.len()));
    }

    fn add_job_state(&mut self, job_state: Option<JobState>, table: &Table<'_>, now: Timestamp) {
        const WAITS: &str = "AND gate IS NULL AND locked_at IS NULL AND scheduled_at";
        match job_state {
            Some(JobState::Ready) => self.add(&format!("{WAITS} <= "), Instant(now), Type::TIMESTAMPTZ),
            Some(JobState::Scheduled) => self.add(&format!("{WAITS} > "), Instant(now), Type::TIMESTAMPTZ),
            Some(JobState::Parked) => self.lines.push("AND gate IS NOT NULL".to_owned()),
            Some(JobState::Succeeded) if !table.is_live => {
                self.lines.push(format!("AND state = {SUCCEEDED}"))
            }
            Some(JobState::Cancelled) if !table.is_live => {
                self.lines.push(format!("AND state = {CANCELLED}"))
            }
            _ => {}
        }
    }

    fn statement(&self, list: &Statement) -> Statement {
        list.with("/* filters */", &self.lines.join("\n"))
    }

    fn params(&self) -> Vec<Param<'_>> {
        self.values.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone())).collect()
    }
}
