//! Keeps jobs for another engine that is away.

use std::time::Duration;

use rusqlite::Error::FromSqlConversionFailure;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId, repeated};
use windlass_core::error::EngineError;
use windlass_core::gate::gate_by_history;
use windlass_core::job::{Job, JobId, StoredState};
use windlass_core::limits::REASON_BYTES_MAX;
use windlass_core::outcome::bounded;
use windlass_core::spool::{BatchMost, Following, LeftOut, Packing, StagedBatch, gate_of, request_of};

use super::enqueue::find_receipt;
use super::read;
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;
use crate::kit::to_json;

impl Work<'_> {
    pub(super) fn enqueue_staged(
        &mut self,
        request: EnqueueRequest,
        sent_ago: Duration,
    ) -> StoreResult<Vec<EnqueueAnswer>> {
        if let Some(receipt) = find_receipt(self.conn, request.request, self.now)? {
            return Ok(repeated(receipt, request.jobs.len()));
        }
        let name = request.request;
        let answers = self.enqueue(request)?;
        // An error rolls all of it back.
        if let Some(why) = answers.iter().find_map(|answer| answer.job().err()) {
            return Err(EngineError::Refused(why.to_string()).into());
        }
        let ids = answers.iter().filter_map(|answer| answer.job().ok()).collect();
        self.record_staged(&StagedBatch { request: name, since: self.now.minus(sent_ago), ids })?;
        Ok(answers)
    }

    fn record_staged(&mut self, staged: &StagedBatch) -> StoreResult<()> {
        let gate = staged.gate();
        for id in &staged.ids {
            if let Some(job) = self.live_job(*id)? {
                self.change_waiting(&job, job.due, Some(&gate))?;
            }
        }
        let mut save = self.conn.prepare_cached(sql!("save_batch"))?;
        save.execute(params![staged.request.to_bytes(), staged.since.as_micros(), to_json(&staged.ids)])?;
        Ok(())
    }

    pub(super) fn stage(
        &mut self,
        request: RequestId,
        most: BatchMost,
        but: &LeftOut,
        following: &Following,
    ) -> StoreResult<Option<StagedBatch>> {
        let ahead = self.oldest_ahead(but, following)?;
        let ids = self.oldest_that_fit(most, but, ahead)?;
        if ids.is_empty() {
            return Ok(None);
        }
        let staged = StagedBatch { request, since: self.now, ids };
        self.record_staged(&staged)?;
        Ok(Some(staged))
    }

    /// Returns the oldest job that another process may be moving now.
    fn oldest_ahead(&self, but: &LeftOut, following: &Following) -> StoreResult<Option<JobId>> {
        let mut statement = self.conn.prepare_cached(sql!("batches"))?;
        // Older batches block no process, so they need not be read.
        let since = self.now.minus(following.adopt_after).as_micros();
        let mut rows = statement.query(params![since, RequestId::from_random(0).to_bytes(), -1])?;
        let mut oldest = None;
        while let Some(row) = rows.next()? {
            let ahead = following.oldest_ahead(&read_batch(row)?, but, self.now);
            oldest = [oldest, ahead].into_iter().flatten().min();
        }
        Ok(oldest)
    }

    fn oldest_that_fit(
        &self,
        most: BatchMost,
        but: &LeftOut,
        before: Option<JobId>,
    ) -> StoreResult<Vec<JobId>> {
        let types: Vec<_> =
            but.types.iter().filter_map(|name| Some(self.catalogue.type_named(name)?.id)).collect();
        let mut statement = self.conn.prepare_cached(sql!("never_claimed"))?;
        let mut rows = statement.query(params![
            to_json(&types),
            to_json(&but.jobs),
            most.jobs,
            before.map_or(i64::MAX, |id| id.0)
        ])?;
        let mut packing = Packing::new(most);
        while !packing.is_full()
            && let Some(row) = rows.next()?
        {
            let bytes = usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
            packing.add(JobId(row.get(0)?), bytes, row.get(2)?);
        }
        Ok(packing.into_ids())
    }

    pub(super) fn end_batch(
        &mut self,
        request: RequestId,
        ends: Vec<(JobId, Option<String>)>,
    ) -> StoreResult<bool> {
        let was_there = self.conn.prepare_cached(sql!("forget_batch"))?.execute([request.to_bytes()])? > 0;
        let gate = gate_of(request);
        for (id, end) in ends.into_iter().filter(|_| was_there) {
            let Some(job) = self.live_job(id)?.filter(|job| job.gate.as_ref() == Some(&gate)) else {
                continue;
            };
            match end {
                Some(why) => self.cancel_waiting(&job, &bounded(why, REASON_BYTES_MAX))?,
                None => self.change_waiting(&job, job.due, gate_by_history(&job.counters).as_ref())?,
            }
        }
        Ok(was_there)
    }

    pub(super) fn keep_here(&mut self, request: RequestId, younger_than: Duration) -> StoreResult<bool> {
        let batch = find_batch(self.conn, request)?;
        let Some(batch) = batch.filter(|staged| staged.is_younger_than(younger_than, self.now)) else {
            return Ok(false);
        };
        self.end_batch(request, batch.ids.into_iter().map(|id| (id, None)).collect())
    }

    /// Refuses to change a job that is moving to another store.
    pub(super) fn check_may_change(&self, id: JobId) -> StoreResult<()> {
        let gate = self.live_job(id)?.and_then(|job| job.gate);
        let Some(request) = gate.as_ref().and_then(request_of) else { return Ok(()) };
        if let Some(staged) = find_batch(self.conn, request)? {
            staged.check_may_change(id, self.now)?;
        }
        Ok(())
    }
}

/// Lists staged batches, oldest first.
pub(super) fn staged(
    conn: &Connection,
    after: Option<(Timestamp, RequestId)>,
    limit: u32,
) -> StoreResult<Vec<StagedBatch>> {
    let mut statement = conn.prepare_cached(sql!("batches"))?;
    let (since, request) = after.map(|(since, request)| (since.as_micros(), request.to_bytes())).unzip();
    let batches = statement.query_map(params![since, request, limit], read_batch)?;
    Ok(batches.collect::<Result<_, _>>()?)
}

fn find_batch(conn: &Connection, request: RequestId) -> StoreResult<Option<StagedBatch>> {
    let mut statement = conn.prepare_cached(sql!("find_batch"))?;
    Ok(statement.query_row([request.to_bytes()], read_batch).optional()?)
}

fn read_batch(row: &Row<'_>) -> rusqlite::Result<StagedBatch> {
    let ids: String = row.get(2)?;
    // A batch with unreadable ids must not count as one whose jobs are all over.
    let damaged = |error: serde_json::Error| FromSqlConversionFailure(2, Type::Text, Box::new(error));
    Ok(StagedBatch {
        request: RequestId::from_bytes(row.get(0)?),
        since: Timestamp::from_micros(row.get(1)?),
        ids: serde_json::from_str(&ids).map_err(damaged)?,
    })
}

/// Reads a batch and its jobs that are still here. Every read has one snapshot.
pub(super) fn still_staged(
    conn: &Connection,
    request: RequestId,
    now: Timestamp,
) -> StoreResult<Option<(StagedBatch, Vec<Job>)>> {
    let Some(staged) = find_batch(conn, request)? else { return Ok(None) };
    let gate = staged.gate();
    let mut jobs = Vec::with_capacity(staged.ids.len());
    for id in &staged.ids {
        let record = read::job(conn, *id, now)?;
        let is_here =
            |state: &StoredState| matches!(state, StoredState::Waiting { gate: Some(at) } if *at == gate);
        jobs.extend(record.filter(|record| is_here(&record.state)).map(|record| record.job));
    }
    Ok(Some((staged, jobs)))
}
