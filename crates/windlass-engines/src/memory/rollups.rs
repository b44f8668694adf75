//! Rollups of each minute, and samples of workers that are not yet added to them.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::admin::{BatchDone, Totals};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::limits::{MAINTENANCE_BATCH_MAX, SAMPLES_KEPT_MAX, SAMPLES_PER_CALL_MAX};
use windlass_core::names::{QueueName, TypeName};
use windlass_core::rollups::minute::forget_before;
use windlass_core::rollups::{
    Rollup, RollupChange, RollupInput, RollupKey, RollupOutcome, Rollups, RollupsEnd, RollupsRead,
    RollupsRequest, Sample, StoredSample, StoredWatermark, Tally, check_samples,
};

use super::MemoryEngine;
use super::state::State;

/// The rollups, the watermark and the samples. The totals of a new store are zero, and its watermark
/// includes all of them.
#[derive(Debug, Default)]
pub(super) struct Minutes {
    version: u64,
    watermark: String,
    rows: BTreeMap<RollupKey, Tally>,
    samples: BTreeMap<u64, StoredSample>,
    last_sample: u64,
}

#[async_trait]
impl Rollups for MemoryEngine {
    async fn append_samples(&self, samples: &[Sample]) -> Result<()> {
        check_samples(samples)?;
        self.at_once(|state, now| state.rollups.append(samples, now));
        Ok(())
    }

    async fn rollup_input(&self, limit: u32) -> Result<RollupInput> {
        Ok(self.at_once(|state, now| state.rollup_input(limit, now)))
    }

    async fn rollups_of(&self, keys: &[RollupKey]) -> Result<RollupsRead> {
        Ok(self.at_once(|state, _| state.rollups.of(keys)))
    }

    async fn apply_rollup(&self, change: &RollupChange) -> Result<RollupOutcome> {
        Ok(self.at_once(|state, _| state.rollups.apply(change)))
    }

    async fn rollups(&self, request: &RollupsRequest) -> Result<RollupsRead> {
        Ok(self.at_once(|state, _| state.rollups.page(request)))
    }

    async fn forget_rollups(&self, kept: Duration, limit: u32) -> Result<BatchDone> {
        Ok(self.at_once(|state, now| state.rollups.forget(kept, limit, now)))
    }
}

impl State {
    fn rollup_input(&self, limit: u32, now: Timestamp) -> RollupInput {
        let limit = (limit as usize).min(SAMPLES_PER_CALL_MAX);
        let rollups = &self.rollups;
        RollupInput {
            watermark: Some(StoredWatermark { version: rollups.version, text: rollups.watermark.clone() }),
            totals: self.totals(),
            samples: rollups.samples.values().take(limit).cloned().collect(),
            more: rollups.samples.len() > limit,
            now,
        }
    }

    fn totals(&self) -> Vec<((QueueName, TypeName), Totals)> {
        let types = self.index.types().map(|at| self.index.type_row(at));
        types.map(|row| ((row.spec.queue.clone(), row.spec.name.clone()), row.totals)).collect()
    }
}

impl Minutes {
    fn append(&mut self, samples: &[Sample], now: Timestamp) {
        for Sample { ago, text } in samples {
            self.last_sample += 1;
            let sample = StoredSample { id: self.last_sample, at: now.minus(*ago), text: text.clone() };
            self.samples.insert(self.last_sample, sample);
        }
        self.samples = self.samples.split_off(&(self.last_sample.saturating_sub(SAMPLES_KEPT_MAX) + 1));
    }

    fn of(&self, keys: &[RollupKey]) -> RollupsRead {
        let found = keys.iter().filter_map(|key| Some((key, self.rows.get(key)?)));
        let rows = found.map(|(key, tally)| Rollup { key: key.clone(), tally: tally.clone() }).collect();
        RollupsRead { rows, ..RollupsRead::default() }
    }

    fn apply(&mut self, change: &RollupChange) -> RollupOutcome {
        if change.read != self.version {
            return RollupOutcome::Overtaken;
        }
        self.version = change.version;
        self.watermark.clone_from(&change.watermark);
        self.rows.extend(change.rows.iter().map(|row| (row.key.clone(), row.tally.clone())));
        change.rolled_up.iter().for_each(|id| _ = self.samples.remove(id));
        RollupOutcome::Done
    }

    fn page(&self, request: &RollupsRequest) -> RollupsRead {
        let limit = request.limit() as usize;
        let from_first = self.rows.iter().skip_while(|(key, _)| key.minute < request.first());
        let in_time = from_first
            .take_while(|(key, _)| key.minute <= request.last())
            .filter(|(key, _)| request.is_of(key.queue.as_str(), key.job_type.as_str()));
        let is_behind = |key: &RollupKey| request.after.as_ref().is_none_or(|after| end_at(key) > *after);
        let mut rows: Vec<_> = in_time
            .filter(|(key, _)| is_behind(key))
            .take(limit + 1)
            .map(|(key, tally)| Rollup { key: key.clone(), tally: tally.clone() })
            .collect();
        let more = rows.len() > limit;
        rows.truncate(limit);
        let end = rows.last().filter(|_| more).map(|row| end_at(&row.key));
        RollupsRead { rows, damaged: Vec::new(), end }
    }

    fn forget(&mut self, kept: Duration, limit: u32, now: Timestamp) -> BatchDone {
        let (before, limit) = (forget_before(now, kept), limit.min(MAINTENANCE_BATCH_MAX));
        let is_old = |rows: &BTreeMap<RollupKey, Tally>| {
            rows.first_key_value().is_some_and(|(key, _)| key.minute < before)
        };
        let mut changed = 0;
        while changed < u64::from(limit) && is_old(&self.rows) {
            self.rows.pop_first();
            changed += 1;
        }
        BatchDone { changed, more: is_old(&self.rows) }
    }
}

fn end_at(key: &RollupKey) -> RollupsEnd {
    let (queue, job_type) = (key.queue.as_str().to_owned(), key.job_type.as_str().to_owned());
    RollupsEnd { minute: key.minute, queue, job_type }
}
