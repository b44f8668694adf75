//! Keeps jobs for another engine that is away.

use std::collections::HashMap;
use std::ops::Bound;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, RequestId, repeated};
use windlass_core::error::EngineError;
use windlass_core::gate::{Gate, gate_by_history};
use windlass_core::job::{Job, JobId};
use windlass_core::key::KeyVerdict;
use windlass_core::spool::{BatchMost, Following, LeftOut, Packing, StagedBatch, gate_of, request_of};

use super::state::{JobRow, Stage, State};

impl State {
    pub(super) fn enqueue_staged(
        &mut self,
        request: EnqueueRequest,
        sent_ago: Duration,
        now: Timestamp,
    ) -> Result<Vec<EnqueueAnswer>> {
        if let Some(receipt) = self.receipts.find(request.request, now) {
            return Ok(repeated(receipt, request.jobs.len()));
        }
        self.check_all_are_taken(&request, now)?;
        let name = request.request;
        let answers = self.enqueue(request, now)?;
        let ids: Vec<_> = answers.iter().filter_map(|answer| answer.job().ok()).collect();
        self.record_staged(StagedBatch { request: name, since: now.minus(sent_ago), ids });
        Ok(answers)
    }

    /// Checks that all jobs are accepted before any is stored: a batch that was stored in part cannot be
    /// rolled back.
    fn check_all_are_taken(&self, request: &EnqueueRequest, now: Timestamp) -> Result<()> {
        let mut added = HashMap::new();
        for job in &request.jobs {
            let Some(type_at) = self.index.type_at(&job.job_type) else {
                return Err(EngineError::Refused(format!("job type {} is unknown here", job.job_type)));
            };
            let before = added.entry(self.index.queue_of(type_at).spec.name.clone()).or_insert(0);
            self.accept_after(*before, job, type_at, KeyVerdict::Insert, now)
                .map_err(|why| EngineError::Refused(why.to_string()))?;
            *before += 1;
        }
        Ok(())
    }

    fn record_staged(&mut self, staged: StagedBatch) {
        let gate = staged.gate();
        for id in &staged.ids {
            self.change_waiting(*id, |_, at| *at = Some(gate.clone()));
        }
        self.staged.insert((staged.since, staged.request), staged);
    }

    pub(super) fn stage(
        &mut self,
        request: RequestId,
        most: BatchMost,
        but: &LeftOut,
        following: &Following,
        now: Timestamp,
    ) -> Option<StagedBatch> {
        let mut packing = Packing::new(most);
        let ahead = self.staged.values().filter_map(|batch| following.oldest_ahead(batch, but, now)).min();
        let until = ahead.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.live.range((Bound::Unbounded, until)).map(|(_, row)| row);
        let mut oldest = rows.filter(|row| may_leave(row) && !but.has(&row.job));
        while !packing.is_full()
            && let Some(row) = oldest.next()
        {
            let job = &row.job;
            packing.add(job.id, job.payload.as_str().len(), job.key.is_some());
        }
        let ids = packing.into_ids();
        if ids.is_empty() {
            return None;
        }
        let staged = StagedBatch { request, since: now, ids };
        self.record_staged(staged.clone());
        Some(staged)
    }

    pub(super) fn staged(&self, after: Option<&StagedBatch>, limit: u32) -> Vec<StagedBatch> {
        let from = after.map_or(Bound::Unbounded, |last| Bound::Excluded((last.since, last.request)));
        let rest = self.staged.range((from, Bound::Unbounded));
        rest.take(limit as usize).map(|(_, staged)| staged.clone()).collect()
    }

    pub(super) fn still_staged(&self, request: RequestId) -> Option<(StagedBatch, Vec<Job>)> {
        let staged = self.staged.values().find(|staged| staged.request == request)?;
        let gate = staged.gate();
        let rows = staged.ids.iter().filter_map(|id| self.live.get(id));
        let jobs = rows.filter(|row| is_behind(row, &gate)).map(|row| row.job.clone()).collect();
        Some((staged.clone(), jobs))
    }

    pub(super) fn end_batch(
        &mut self,
        request: RequestId,
        ends: Vec<(JobId, Option<String>)>,
        now: Timestamp,
    ) -> bool {
        let Some(at) = self.staged.keys().find(|(_, known)| *known == request).copied() else {
            return false;
        };
        self.staged.remove(&at);
        let gate = gate_of(request);
        for (id, end) in ends {
            if !self.live.get(&id).is_some_and(|row| is_behind(row, &gate)) {
                continue;
            }
            match end {
                Some(why) => _ = self.cancel_waiting(id, &why, now),
                None => _ = self.change_waiting(id, |job, at| *at = gate_by_history(&job.counters)),
            }
        }
        true
    }

    pub(super) fn keep_here(&mut self, request: RequestId, younger_than: Duration, now: Timestamp) -> bool {
        let batch = self.staged.values().find(|staged| staged.request == request);
        let Some(batch) = batch.filter(|staged| staged.is_younger_than(younger_than, now)) else {
            return false;
        };
        let ends = batch.ids.iter().map(|id| (*id, None)).collect();
        self.end_batch(request, ends, now)
    }

    /// Refuses to change a job that is moving to another store.
    pub(super) fn check_may_change(&self, id: JobId, now: Timestamp) -> Result<()> {
        let Some(JobRow { stage: Stage::Waiting { gate: Some(gate) }, .. }) = self.row(id) else {
            return Ok(());
        };
        let Some(request) = request_of(gate) else { return Ok(()) };
        let staged = self.staged.values().find(|staged| staged.request == request);
        staged.map_or(Ok(()), |staged| staged.check_may_change(id, now))
    }
}

/// Whether no worker ever claimed the job and only a missing handler may hold it back.
fn may_leave(row: &JobRow) -> bool {
    let Stage::Waiting { gate } = &row.stage else { return false };
    row.job.counters.attempts == 0 && gate.as_ref().is_none_or(Gate::is_for_a_handler)
}

fn is_behind(row: &JobRow, gate: &Gate) -> bool {
    matches!(&row.stage, Stage::Waiting { gate: Some(at) } if at == gate)
}
