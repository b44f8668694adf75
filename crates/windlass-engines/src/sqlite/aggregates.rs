//! What happened in each minute, and what workers have seen that is not yet added to it: a round of folding is one step of the
//! writer's transaction.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::admin::{BatchDone, Totals};
use windlass_core::aggregates::minute::forget_before;
use windlass_core::aggregates::{
    Aggregates, Delta, FoldChange, Folded, Minute, MinuteKey, MinuteRow, MinutesEnd, MinutesRead,
    MinutesRequest, StoredDelta, StoredMark, Tally, Unfolded, check_deltas,
};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::limits::{DELTAS_KEPT_MAX, DELTAS_PER_CALL_MAX, UPKEEP_BATCH_MAX};
use windlass_core::names::{QueueName, TypeName};

use super::SqliteEngine;
use super::fault::Step;
use super::row::lossy;
use super::sql::sql;
use super::work::Work;

#[async_trait]
impl Aggregates for SqliteEngine {
    async fn append_deltas(&self, deltas: &[Delta]) -> Result<()> {
        check_deltas(deltas)?;
        let deltas = deltas.to_vec();
        self.write(move |work| work.append_deltas(&deltas)).await
    }

    async fn unfolded(&self, limit: u32) -> Result<Unfolded> {
        self.read(move |conn, now| unfolded(conn, limit, now)).await
    }

    async fn minutes_of(&self, keys: &[MinuteKey]) -> Result<MinutesRead> {
        let keys = keys.to_vec();
        self.read(move |conn, _| minutes_of(conn, &keys)).await
    }

    async fn apply_fold(&self, change: &FoldChange) -> Result<Folded> {
        let change = change.clone();
        self.write(move |work| work.apply_fold(&change)).await
    }

    async fn minutes(&self, request: &MinutesRequest) -> Result<MinutesRead> {
        let request = request.clone();
        self.read(move |conn, _| page(conn, &request)).await
    }

    async fn forget_minutes(&self, kept: Duration, limit: u32) -> Result<BatchDone> {
        self.write(move |work| work.forget_minutes(kept, limit)).await
    }
}

fn unfolded(conn: &Connection, limit: u32, now: Timestamp) -> Step<Unfolded> {
    let limit = (limit as usize).min(DELTAS_PER_CALL_MAX);
    let mark = conn.prepare_cached(sql!("minute_mark"))?.query_row([], read_mark).optional()?;
    let mut statement = conn.prepare_cached(sql!("oldest_deltas"))?;
    let deltas = statement.query_map([one_more(limit)], |row| {
        let (id, at) = (row.get::<_, i64>(0)?, row.get(1)?);
        let text = lossy(row, 2)?.unwrap_or_default();
        Ok(StoredDelta { id: id.unsigned_abs(), at: Timestamp::from_micros(at), text })
    })?;
    let mut deltas = deltas.collect::<std::result::Result<Vec<_>, _>>()?;
    let more = deltas.len() > limit;
    deltas.truncate(limit);
    Ok(Unfolded { mark, totals: totals(conn)?, deltas, more, now })
}

fn read_mark(row: &Row<'_>) -> rusqlite::Result<StoredMark> {
    let version = row.get::<_, i64>(0)?.unsigned_abs();
    Ok(StoredMark { version, text: lossy(row, 1)?.unwrap_or_default() })
}

fn totals(conn: &Connection) -> Step<Vec<((QueueName, TypeName), Totals)>> {
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

fn minutes_of(conn: &Connection, keys: &[MinuteKey]) -> Step<MinutesRead> {
    let (mut read, mut find) = (MinutesRead::default(), conn.prepare_cached(sql!("find_minute"))?);
    for key in keys {
        let given = params![key.minute.number(), key.queue.as_str(), key.job_type.as_str()];
        for row in find.query_map(given, read_row)? {
            let (at, tally) = row?;
            read.push(at, tally);
        }
    }
    Ok(read)
}

fn page(conn: &Connection, request: &MinutesRequest) -> Step<MinutesRead> {
    let first = MinutesEnd { minute: request.first(), queue: String::new(), job_type: String::new() };
    let after = request.after.clone().filter(|after| *after > first).unwrap_or(first);
    let limit = request.limit() as usize;
    let mut statement = conn.prepare_cached(sql!("list_minutes"))?;
    let given = params![
        after.minute.number(),
        after.queue,
        after.job_type,
        request.last().number(),
        request.queue.as_ref().map(QueueName::as_str),
        request.job_type.as_ref().map(TypeName::as_str),
        one_more(limit),
    ];
    let mut read = MinutesRead::default();
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

/// Where a row is, and what it says, if that can be read.
fn read_row(row: &Row<'_>) -> rusqlite::Result<(MinutesEnd, Option<Tally>)> {
    let at = MinutesEnd {
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
    fn append_deltas(&mut self, deltas: &[Delta]) -> Step<()> {
        let mut append = self.conn.prepare_cached(sql!("append_delta"))?;
        for Delta { ago, text } in deltas {
            append.execute(params![self.now.minus(*ago).as_micros(), text])?;
        }
        self.conn.prepare_cached(sql!("drop_deltas"))?.execute([signed(DELTAS_KEPT_MAX)])?;
        Ok(())
    }

    fn apply_fold(&mut self, change: &FoldChange) -> Step<Folded> {
        let given = params![signed(change.read), signed(change.version), change.mark];
        if self.conn.prepare_cached(sql!("move_mark"))?.execute(given)? == 0 {
            return Ok(Folded::Overtaken);
        }
        for row in &change.rows {
            self.save_minute(row)?;
        }
        let mut remove = self.conn.prepare_cached(sql!("remove_delta"))?;
        for id in &change.folded {
            remove.execute([signed(*id)])?;
        }
        Ok(Folded::Done)
    }

    fn save_minute(&self, MinuteRow { key, tally }: &MinuteRow) -> Step<()> {
        let [enqueued, started, succeeded, retried, dead, cancelled] = tally.counts().map(signed);
        self.conn.prepare_cached(sql!("save_minute"))?.execute(params![
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

    fn forget_minutes(&mut self, kept: Duration, limit: u32) -> Step<BatchDone> {
        let limit = limit.min(UPKEEP_BATCH_MAX);
        let before = forget_before(self.now, kept).number();
        let mut forget = self.conn.prepare_cached(sql!("prune_job_minutes"))?;
        let gone = forget.execute(params![before, limit])?;
        Ok(BatchDone { changed: gone as u64, more: gone > 0 && gone == limit as usize })
    }
}

/// A count as the seam gives it; never below zero.
fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

/// One more than is given tells whether there are more.
fn one_more(limit: usize) -> i64 {
    signed(limit as u64 + 1)
}

/// A count as a column takes it.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
