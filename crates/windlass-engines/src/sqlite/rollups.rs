//! Rollups of each minute, and samples of workers that are not yet added to them: a rollup is one step of
//! the writer's transaction.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::admin::{BatchDone, Totals};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::limits::{MAINTENANCE_BATCH_MAX, SAMPLES_KEPT_MAX, SAMPLES_PER_CALL_MAX};
use windlass_core::names::{QueueName, TypeName};
use windlass_core::rollups::minute::forget_before;
use windlass_core::rollups::{
    Minute, Rollup, RollupChange, RollupInput, RollupKey, RollupOutcome, Rollups, RollupsEnd, RollupsRead,
    RollupsRequest, Sample, StoredSample, StoredWatermark, Tally, check_samples,
};

use super::SqliteEngine;
use super::row::lossy;
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;

#[async_trait]
impl Rollups for SqliteEngine {
    async fn append_samples(&self, samples: &[Sample]) -> Result<()> {
        check_samples(samples)?;
        let samples = samples.to_vec();
        self.write(move |work| work.append_samples(&samples)).await
    }

    async fn rollup_input(&self, limit: u32) -> Result<RollupInput> {
        self.read(move |conn, now| rollup_input(conn, limit, now)).await
    }

    async fn rollups_of(&self, keys: &[RollupKey]) -> Result<RollupsRead> {
        let keys = keys.to_vec();
        self.read(move |conn, _| rollups_of(conn, &keys)).await
    }

    async fn apply_rollup(&self, change: &RollupChange) -> Result<RollupOutcome> {
        let change = change.clone();
        self.write(move |work| work.apply_rollup(&change)).await
    }

    async fn rollups(&self, request: &RollupsRequest) -> Result<RollupsRead> {
        let request = request.clone();
        self.read(move |conn, _| page(conn, &request)).await
    }

    async fn forget_rollups(&self, kept: Duration, limit: u32) -> Result<BatchDone> {
        self.write(move |work| work.forget_rollups(kept, limit)).await
    }
}

fn rollup_input(conn: &Connection, limit: u32, now: Timestamp) -> StoreResult<RollupInput> {
    let limit = (limit as usize).min(SAMPLES_PER_CALL_MAX);
    let watermark =
        conn.prepare_cached(sql!("rollup_watermark"))?.query_row([], read_watermark).optional()?;
    let mut statement = conn.prepare_cached(sql!("oldest_samples"))?;
    let samples = statement.query_map([one_more(limit)], |row| {
        let (id, at) = (row.get::<_, i64>(0)?, row.get(1)?);
        let text = lossy(row, 2)?.unwrap_or_default();
        Ok(StoredSample { id: id.unsigned_abs(), at: Timestamp::from_micros(at), text })
    })?;
    let mut samples = samples.collect::<std::result::Result<Vec<_>, _>>()?;
    let more = samples.len() > limit;
    samples.truncate(limit);
    Ok(RollupInput { watermark, totals: totals(conn)?, samples, more, now })
}

fn read_watermark(row: &Row<'_>) -> rusqlite::Result<StoredWatermark> {
    let version = row.get::<_, i64>(0)?.unsigned_abs();
    Ok(StoredWatermark { version, text: lossy(row, 1)?.unwrap_or_default() })
}

fn totals(conn: &Connection) -> StoreResult<Vec<((QueueName, TypeName), Totals)>> {
    let mut statement = conn.prepare_cached(sql!("type_totals"))?;
    let rows = statement.query_map([], |row| {
        let n = |column: usize| row.get(column).map(unsigned);
        let totals = Totals {
            enqueued: n(2)?,
            succeeded: n(3)?,
            retried: n(4)?,
            dead: n(5)?,
            cancelled: n(6)?,
            started_over: n(7)?,
        };
        let names = (lossy(row, 0)?.unwrap_or_default(), lossy(row, 1)?.unwrap_or_default());
        Ok((names, totals))
    })?;
    let mut all = Vec::new();
    for row in rows {
        let ((queue, job_type), totals) = row?;
        if let (Ok(queue), Ok(job_type)) = (QueueName::parse(&queue), TypeName::parse(&job_type)) {
            all.push(((queue, job_type), totals));
        }
    }
    Ok(all)
}

fn rollups_of(conn: &Connection, keys: &[RollupKey]) -> StoreResult<RollupsRead> {
    let (mut read, mut find) = (RollupsRead::default(), conn.prepare_cached(sql!("find_rollup"))?);
    for key in keys {
        let given = params![key.minute.number(), key.queue.as_str(), key.job_type.as_str()];
        for row in find.query_map(given, read_row)? {
            let (at, tally) = row?;
            read.push(at, tally);
        }
    }
    Ok(read)
}

fn page(conn: &Connection, request: &RollupsRequest) -> StoreResult<RollupsRead> {
    let first = RollupsEnd { minute: request.first(), queue: String::new(), job_type: String::new() };
    let after = request.after.clone().filter(|after| *after > first).unwrap_or(first);
    let limit = request.limit() as usize;
    let mut statement = conn.prepare_cached(sql!("list_rollups"))?;
    let given = params![
        after.minute.number(),
        after.queue,
        after.job_type,
        request.last().number(),
        request.queue.as_ref().map(QueueName::as_str),
        request.job_type.as_ref().map(TypeName::as_str),
        one_more(limit),
    ];
    let mut read = RollupsRead::default();
    let mut end = None;
    for (count, row) in statement.query_map(given, read_row)?.enumerate() {
        if count == limit {
            read.end = end;
            break;
        }
        let (at, tally) = row?;
        end = Some(at.clone());
        read.push(at, tally);
    }
    Ok(read)
}

/// Reads the key of a row, and its tally if that can be read.
fn read_row(row: &Row<'_>) -> rusqlite::Result<(RollupsEnd, Option<Tally>)> {
    let at = RollupsEnd {
        minute: Minute::from_number(row.get(0)?),
        queue: lossy(row, 1)?.unwrap_or_default(),
        job_type: lossy(row, 2)?.unwrap_or_default(),
    };
    let mut counts = [0; 6];
    for (column, count) in (3..).zip(&mut counts) {
        *count = unsigned(row.get(column)?);
    }
    let (waits, runs) = (lossy(row, 9)?.unwrap_or_default(), lossy(row, 10)?.unwrap_or_default());
    Ok((at, Tally::from_store(counts, &waits, &runs)))
}

impl Work<'_> {
    fn append_samples(&mut self, samples: &[Sample]) -> StoreResult<()> {
        let mut append = self.conn.prepare_cached(sql!("append_sample"))?;
        for Sample { ago, text } in samples {
            append.execute(params![self.now.minus(*ago).as_micros(), text])?;
        }
        self.conn.prepare_cached(sql!("drop_samples"))?.execute([signed(SAMPLES_KEPT_MAX)])?;
        Ok(())
    }

    fn apply_rollup(&mut self, change: &RollupChange) -> StoreResult<RollupOutcome> {
        let given = params![signed(change.read), signed(change.version), change.watermark];
        if self.conn.prepare_cached(sql!("move_watermark"))?.execute(given)? == 0 {
            return Ok(RollupOutcome::Overtaken);
        }
        for row in &change.rows {
            self.save_rollup(row)?;
        }
        let mut remove = self.conn.prepare_cached(sql!("remove_sample"))?;
        for id in &change.rolled_up {
            remove.execute([signed(*id)])?;
        }
        Ok(RollupOutcome::Done)
    }

    fn save_rollup(&self, Rollup { key, tally }: &Rollup) -> StoreResult<()> {
        let [enqueued, started, succeeded, retried, dead, cancelled] = tally.counts().map(signed);
        self.conn.prepare_cached(sql!("save_rollup"))?.execute(params![
            key.minute.number(),
            key.queue.as_str(),
            key.job_type.as_str(),
            enqueued,
            started,
            succeeded,
            retried,
            dead,
            cancelled,
            tally.waits.encode(),
            tally.runs.encode(),
        ])?;
        Ok(())
    }

    fn forget_rollups(&mut self, kept: Duration, limit: u32) -> StoreResult<BatchDone> {
        let limit = limit.min(MAINTENANCE_BATCH_MAX);
        let before = forget_before(self.now, kept).number();
        let mut forget = self.conn.prepare_cached(sql!("prune_rollups"))?;
        let gone = forget.execute(params![before, limit])?;
        Ok(BatchDone { changed: gone as u64, more: gone > 0 && gone == limit as usize })
    }
}

/// Converts a count to the type of the engine interface; never below zero.
fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// Returns the limit plus one: the additional row shows whether there are more.
fn one_more(limit: usize) -> i64 {
    signed(limit as u64 + 1)
}

/// Converts a count to the type of a column.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
