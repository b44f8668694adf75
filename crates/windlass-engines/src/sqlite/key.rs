//! Keys and their holders. Every move of a keyed job goes through here, in its own transaction.

use rusqlite::{OptionalExtension, params};
use windlass_core::clock::Timestamp;
use windlass_core::job::JobId;
use windlass_core::key::{HolderStage, KeyHolder, KeyScope};

use super::row::lossy;
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;
use crate::kit::to_json;

impl Work<'_> {
    /// Returns the holder of a key, if a job ever held it and it was not freed since.
    pub(super) fn key_holder(&self, kind: i64, key: &str) -> StoreResult<Option<KeyHolder>> {
        let row = self
            .conn
            .prepare_cached(sql!("find_key"))?
            .query_row(params![kind, key], |row| Ok((row.get(0)?, lossy(row, 1)?, row.get(2)?)))
            .optional()?;
        row.map(|(job, scope, until)| self.holder(job, scope, until)).transpose()
    }

    fn holder(&self, job: i64, scope: Option<String>, until: Option<i64>) -> StoreResult<KeyHolder> {
        Ok(KeyHolder {
            job: JobId(job),
            stage: self.stage_of(job)?,
            scope: read_scope(scope.as_deref()),
            until: until.map(Timestamp::from_micros),
        })
    }

    pub(super) fn stage_of(&self, job: i64) -> StoreResult<HolderStage> {
        let live: Option<bool> =
            self.conn.prepare_cached(sql!("live_stage"))?.query_row([job], |row| row.get(0)).optional()?;
        if let Some(runs) = live {
            return Ok(if runs { HolderStage::Running } else { HolderStage::Waiting });
        }
        let is_dead = self.conn.prepare_cached(sql!("is_dead"))?.exists([job])?;
        Ok(if is_dead { HolderStage::Dead } else { HolderStage::Ended })
    }

    /// Gives a job its key. The caller has made sure that no other job holds it.
    pub(super) fn hold_key(
        &self,
        kind: i64,
        key: &str,
        scope: KeyScope,
        job: JobId,
        enqueued_at: Timestamp,
    ) -> StoreResult<()> {
        let until = scope.held_until(enqueued_at).map(Timestamp::as_micros);
        let mut statement = self.conn.prepare_cached(sql!("hold_key"))?;
        statement.execute(params![kind, key, job.0, to_json(&scope), until])?;
        Ok(())
    }

    /// Frees the key of a job that has ended in this way, unless it is held for longer. The key may have
    /// passed to another job while this job was dead.
    pub(super) fn free_key(&self, kind: i64, key: &str, job: JobId, stage: HolderStage) -> StoreResult<()> {
        let Some(holder) = self.key_holder(kind, key)?.filter(|holder| holder.job == job) else {
            return Ok(());
        };
        if !(KeyHolder { stage, ..holder }).holds(self.now) {
            self.conn.prepare_cached(sql!("free_key"))?.execute(params![kind, key, job.0])?;
        }
        Ok(())
    }

    /// Deletes keys whose period is over and whose job has ended, at most `limit`, and returns how many.
    pub(super) fn prune_keys(&self, limit: u32) -> StoreResult<usize> {
        let stale: Vec<(i64, Vec<u8>)> = self
            .conn
            .prepare_cached(sql!("stale_keys"))?
            .query_map(params![self.now.as_micros(), limit], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        // One by one: with a list of pairs, SQLite would scan all keys of each type.
        let mut forget = self.conn.prepare_cached(sql!("forget_key"))?;
        for (kind, key) in &stale {
            forget.execute(params![kind, key])?;
        }
        Ok(stale.len())
    }
}

/// Reads a stored scope. An unreadable scope counts as the weakest.
fn read_scope(text: Option<&str>) -> KeyScope {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
