//! The rollups of each minute, and the samples of workers that are not yet added to them. A rollup round is
//! one statement. See `migrations/0001_schema/counts.sql`.

use std::time::Duration;

use tokio_postgres::Row;
use windlass_core::admin::{BatchDone, Totals};
use windlass_core::limits::{MAINTENANCE_BATCH_MAX, SAMPLES_KEPT_MAX, SAMPLES_PER_CALL_MAX};
use windlass_core::names::{QueueName, TypeName};
use windlass_core::rollups::{
    Minute, Rollup, RollupChange, RollupInput, RollupKey, RollupOutcome, RollupsEnd, RollupsRead,
    RollupsRequest, Sample, StoredSample, StoredWatermark, Tally,
};

use super::store_error::StoreResult;
use super::value::{Instant, Param, instant, int4, micros, number, numbers, small_number, text, texts};
use super::{PostgresEngine, Store};
use crate::kit::on_store;

on_store!(Rollups for PostgresEngine {});

impl Store {
    async fn append_samples(&self, samples: &[Sample]) -> StoreResult<()> {
        let (now, kept) = (self.now_param(), signed(SAMPLES_KEPT_MAX));
        let ago: Vec<_> = samples.iter().map(|sample| micros(sample.ago)).collect();
        let seen: Vec<_> = samples.iter().map(|sample| sample.text.as_str()).collect();
        let params = [instant(&now), numbers(&ago), texts(&seen), number(&kept)];
        self.work.get().await?.execute(&self.sql.append_samples, &params).await?;
        Ok(())
    }

    async fn rollup_input(&self, limit: u32) -> StoreResult<RollupInput> {
        let limit = limit.min(u32::try_from(SAMPLES_PER_CALL_MAX).unwrap_or(u32::MAX));
        let (now, one_more) = (self.now_param(), int4(limit + 1));
        let params = [instant(&now), small_number(&one_more)];
        let rows = self.work.get().await?.query(&self.sql.rollup_input, &params).await?;
        let now = self.estimated_now();
        let nothing =
            RollupInput { watermark: None, totals: Vec::new(), samples: Vec::new(), more: false, now };
        rows.first().map_or(Ok(nothing), |row| read_rollup_input(row, limit as usize))
    }

    async fn rollups_of(&self, keys: &[RollupKey]) -> StoreResult<RollupsRead> {
        let rollups: Vec<_> = keys.iter().map(|key| key.minute.number()).collect();
        let queues: Vec<_> = keys.iter().map(|key| key.queue.as_str()).collect();
        let types: Vec<_> = keys.iter().map(|key| key.job_type.as_str()).collect();
        let params = [numbers(&rollups), texts(&queues), texts(&types)];
        let rows = self.work.get().await?.query(&self.sql.rollups_of, &params).await?;
        read_rows(&rows)
    }

    async fn apply_rollup(&self, change: &RollupChange) -> StoreResult<RollupOutcome> {
        let (read, version) = (signed(change.read), signed(change.version));
        let rolled_up: Vec<_> = change.rolled_up.iter().copied().map(signed).collect();
        let columns = Columns::of(&change.rows);
        let mut params = vec![number(&read), number(&version), text(&change.watermark), numbers(&rolled_up)];
        params.extend(columns.params());
        let rows = self.work.get().await?.execute(&self.sql.apply_rollup, &params).await?;
        Ok(if rows.is_empty() { RollupOutcome::Overtaken } else { RollupOutcome::Done })
    }

    async fn rollups(&self, request: &RollupsRequest) -> StoreResult<RollupsRead> {
        let first = RollupsEnd { minute: request.first(), queue: String::new(), job_type: String::new() };
        let after = request.after.clone().filter(|after| *after > first).unwrap_or(first);
        let (behind, last) = (after.minute.number(), request.last().number());
        let queue = request.queue.as_ref().map(QueueName::as_str);
        let job_type = request.job_type.as_ref().map(TypeName::as_str);
        let one_more = int4(request.limit() + 1);
        let params = [
            number(&behind),
            text(&after.queue),
            text(&after.job_type),
            number(&last),
            text(&queue),
            text(&job_type),
            small_number(&one_more),
        ];
        let mut rows = self.work.get().await?.query(&self.sql.list_rollups, &params).await?;
        let limit = request.limit() as usize;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let end = rows.last().filter(|_| more).map(read_end).transpose()?;
        Ok(RollupsRead { end, ..read_rows(&rows)? })
    }

    async fn forget_rollups(&self, kept: Duration, limit: u32) -> StoreResult<BatchDone> {
        let limit = limit.min(MAINTENANCE_BATCH_MAX);
        let (now, kept, at_most) = (self.now_param(), micros(kept), int4(limit));
        let params = [instant(&now), number(&kept), small_number(&at_most)];
        let gone = self.work.get().await?.execute(&self.sql.prune_rollups, &params).await?.len();
        Ok(BatchDone { changed: gone as u64, more: gone > 0 && gone == limit as usize })
    }
}

/// Rollups, column by column.
struct Columns<'a> {
    rollups: Vec<i64>,
    queues: Vec<&'a str>,
    types: Vec<&'a str>,
    counts: [Vec<i64>; 6],
    waits: Vec<String>,
    runs: Vec<String>,
}

impl<'a> Columns<'a> {
    fn of(rows: &'a [Rollup]) -> Self {
        Self {
            rollups: rows.iter().map(|row| row.key.minute.number()).collect(),
            queues: rows.iter().map(|row| row.key.queue.as_str()).collect(),
            types: rows.iter().map(|row| row.key.job_type.as_str()).collect(),
            counts: std::array::from_fn(|at| rows.iter().map(|row| signed(row.tally.counts()[at])).collect()),
            waits: rows.iter().map(|row| row.tally.waits.encode()).collect(),
            runs: rows.iter().map(|row| row.tally.runs.encode()).collect(),
        }
    }

    fn params(&self) -> impl Iterator<Item = Param<'_>> {
        let head = [numbers(&self.rollups), texts(&self.queues), texts(&self.types)];
        let tail = [texts(&self.waits), texts(&self.runs)];
        head.into_iter().chain(self.counts.iter().map(numbers)).chain(tail)
    }
}

/// Reads a row of `rollup_input`: now, version, watermark; queues, types and six totals; ids, instants and
/// texts of samples.
fn read_rollup_input(row: &Row, limit: usize) -> StoreResult<RollupInput> {
    let now = row.try_get::<_, Instant>(0)?.0;
    let version = row.try_get::<_, Option<i64>>(1)?;
    let text = row.try_get::<_, Option<String>>(2)?.unwrap_or_default();
    let watermark = version.map(|version| StoredWatermark { version: unsigned(version), text });
    let ids = row.try_get::<_, Option<Vec<i64>>>(11)?.unwrap_or_default();
    let at = row.try_get::<_, Option<Vec<Instant>>>(12)?.unwrap_or_default();
    let texts = row.try_get::<_, Option<Vec<String>>>(13)?.unwrap_or_default();
    let more = ids.len() > limit;
    let samples = ids.into_iter().zip(at).zip(texts).take(limit);
    let samples = samples.map(|((id, at), text)| StoredSample { id: unsigned(id), at: at.0, text }).collect();
    Ok(RollupInput { watermark, totals: read_totals(row)?, samples, more, now })
}

fn read_totals(row: &Row) -> StoreResult<Vec<((QueueName, TypeName), Totals)>> {
    let queues = row.try_get::<_, Option<Vec<String>>>(3)?.unwrap_or_default();
    let types = row.try_get::<_, Option<Vec<String>>>(4)?.unwrap_or_default();
    let mut columns: Vec<Vec<i64>> = Vec::new();
    for column in 5..11 {
        columns.push(row.try_get::<_, Option<_>>(column)?.unwrap_or_default());
    }
    let mut all = Vec::new();
    for (at, (queue, job_type)) in queues.iter().zip(&types).enumerate() {
        let n = |column: usize| columns[column].get(at).copied().map_or(0, unsigned);
        let totals = Totals {
            enqueued: n(0),
            succeeded: n(1),
            retried: n(2),
            dead: n(3),
            cancelled: n(4),
            started_over: n(5),
        };
        if let (Ok(queue), Ok(job_type)) = (QueueName::parse(queue), TypeName::parse(job_type)) {
            all.push(((queue, job_type), totals));
        }
    }
    Ok(all)
}

fn read_rows(rows: &[Row]) -> StoreResult<RollupsRead> {
    let mut read = RollupsRead::default();
    for row in rows {
        let mut counts = [0; 6];
        for (column, count) in (3..).zip(&mut counts) {
            *count = unsigned(row.try_get(column)?);
        }
        let tally = Tally::from_store(counts, row.try_get(9)?, row.try_get(10)?);
        read.push(read_end(row)?, tally);
    }
    Ok(read)
}

fn read_end(row: &Row) -> StoreResult<RollupsEnd> {
    let minute = Minute::from_number(row.try_get(0)?);
    Ok(RollupsEnd { minute, queue: row.try_get(1)?, job_type: row.try_get(2)? })
}

/// A count as the engine interface returns it; never below zero.
fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// A count as a column takes it.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
