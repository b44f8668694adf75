//! Ordering keys: which job of each is out, and which job goes out next.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::JobId;
use windlass_core::names::OrderingKey;
use windlass_core::ordering_keys::{gate_of_newcomer, next_out};

use super::catalogue::TypeEntry;
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;

impl Work<'_> {
    /// Returns the gate behind which a job waits that is enqueued or started over. If no job is out though
    /// some wait behind the gate of the key, because an operator deleted the job that was out, the oldest
    /// of them goes out first.
    pub(super) fn gate_in_ordering_key(
        &mut self,
        kind: &TypeEntry,
        ordering_key: Option<&OrderingKey>,
    ) -> StoreResult<Option<Gate>> {
        let Some(ordering_key) = ordering_key else { return Ok(None) };
        let out = self.advance_ordering_key(kind, ordering_key.as_str())?;
        Ok(gate_of_newcomer(&kind.spec.name, ordering_key, out))
    }

    /// Lets the next job of an ordering key out, if none is. Returns the job that is out then.
    pub(super) fn advance_ordering_key(
        &mut self,
        kind: &TypeEntry,
        ordering_key: &str,
    ) -> StoreResult<Option<JobId>> {
        let out = ordering_key_out(self.conn, kind.id, ordering_key)?;
        if out.is_some() {
            return Ok(out);
        }
        let oldest = one(self.conn, sql!("ordering_key_oldest"), kind.id, ordering_key)?;
        let Some(next) = next_out(out, oldest) else { return Ok(None) };
        if let Some(job) = self.live_job(next)? {
            self.change_waiting(&job, job.due, gate_by_history(&job.counters).as_ref())?;
        }
        Ok(Some(next))
    }
}

/// Finds the job of an ordering key that is out.
pub(super) fn ordering_key_out(
    conn: &Connection,
    kind: i64,
    ordering_key: &str,
) -> StoreResult<Option<JobId>> {
    one(conn, sql!("ordering_key_out"), kind, ordering_key)
}

fn one(conn: &Connection, sql: &str, kind: i64, ordering_key: &str) -> StoreResult<Option<JobId>> {
    let found =
        conn.prepare_cached(sql)?.query_row(params![kind, ordering_key], |row| row.get(0)).optional()?;
    Ok(found.map(JobId))
}
