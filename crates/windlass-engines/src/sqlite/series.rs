//! Series: which job of each is out, and who goes out next.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::JobId;
use windlass_core::names::SeriesName;
use windlass_core::series::{gate_of_newcomer, next_out};

use super::catalogue::TypeEntry;
use super::fault::Step;
use super::sql::sql;
use super::work::Work;

impl Work<'_> {
    /// Behind which gate a job waits that is put in or started over. If nobody is out though some wait in line, since an older process
    /// ended the one that was, or a person deleted it, the oldest of them goes out first.
    pub(super) fn gate_in_series(
        &mut self,
        kind: &TypeEntry,
        series: Option<&SeriesName>,
    ) -> Step<Option<Gate>> {
        let Some(series) = series else { return Ok(None) };
        let out = self.go_on_with(kind, series.as_str())?;
        Ok(gate_of_newcomer(&kind.spec.name, series, out))
    }

    /// Lets the next one of a series go out, if nobody is. Gives the one that is out then.
    pub(super) fn go_on_with(&mut self, kind: &TypeEntry, series: &str) -> Step<Option<JobId>> {
        let out = series_out(self.conn, kind.id, series)?;
        if out.is_some() {
            return Ok(out);
        }
        let oldest = one(self.conn, sql!("series_oldest"), kind.id, series)?;
        let Some(next) = next_out(out, oldest) else { return Ok(None) };
        if let Some(job) = self.live_job(next)? {
            self.change_waiting(&job, job.due, gate_by_history(&job.counters).as_ref())?;
        }
        Ok(Some(next))
    }
}

/// The job of a series that is out.
pub(super) fn series_out(conn: &Connection, kind: i64, series: &str) -> Step<Option<JobId>> {
    one(conn, sql!("series_out"), kind, series)
}

fn one(conn: &Connection, sql: &str, kind: i64, series: &str) -> Step<Option<JobId>> {
    let found = conn.prepare_cached(sql)?.query_row(params![kind, series], |row| row.get(0)).optional()?;
    Ok(found.map(JobId))
}
