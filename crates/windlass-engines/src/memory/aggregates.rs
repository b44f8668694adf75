//! What happened in each minute, and what workers have seen that is not yet added to it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::admin::{BatchDone, Totals};
use windlass_core::aggregates::minute::forget_before;
use windlass_core::aggregates::{
    Aggregates, Delta, FoldChange, Folded, MinuteKey, MinuteRow, MinutesEnd, MinutesRead, MinutesRequest,
    StoredDelta, StoredMark, Tally, Unfolded, check_deltas,
};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::limits::{DELTAS_KEPT_MAX, DELTAS_PER_CALL_MAX, UPKEEP_BATCH_MAX};
use windlass_core::names::{QueueName, TypeName};

use super::MemoryEngine;
use super::state::State;

/// All that is kept of it. A store that begins with nothing has booked all of nothing.
#[derive(Debug, Default)]
pub(super) struct Minutes {
    version: u64,
    mark: String,
    rows: BTreeMap<MinuteKey, Tally>,
    deltas: BTreeMap<u64, StoredDelta>,
    last_delta: u64,
}

#[async_trait]
impl Aggregates for MemoryEngine {
    async fn append_deltas(&self, deltas: &[Delta]) -> Result<()> {
        check_deltas(deltas)?;
        self.at_once(|state, now| state.minutes.append(deltas, now));
        Ok(())
    }

    async fn unfolded(&self, limit: u32) -> Result<Unfolded> {
        Ok(self.at_once(|state, now| state.unfolded(limit, now)))
    }

    async fn minutes_of(&self, keys: &[MinuteKey]) -> Result<MinutesRead> {
        Ok(self.at_once(|state, _| state.minutes.of(keys)))
    }

    async fn apply_fold(&self, change: &FoldChange) -> Result<Folded> {
        Ok(self.at_once(|state, _| state.minutes.apply(change)))
    }

    async fn minutes(&self, request: &MinutesRequest) -> Result<MinutesRead> {
        Ok(self.at_once(|state, _| state.minutes.page(request)))
    }

    async fn forget_minutes(&self, kept: Duration, limit: u32) -> Result<BatchDone> {
        Ok(self.at_once(|state, now| state.minutes.forget(kept, limit, now)))
    }
}

impl State {
    fn unfolded(&self, limit: u32, now: Timestamp) -> Unfolded {
        let limit = (limit as usize).min(DELTAS_PER_CALL_MAX);
        let minutes = &self.minutes;
        Unfolded {
            mark: Some(StoredMark { version: minutes.version, text: minutes.mark.clone() }),
            totals: self.totals(),
            deltas: minutes.deltas.values().take(limit).cloned().collect(),
            more: minutes.deltas.len() > limit,
            now,
        }
    }

    fn totals(&self) -> Vec<((QueueName, TypeName), Totals)> {
        let types = self.index.types().map(|at| self.index.type_row(at));
        types.map(|row| ((row.spec.queue.clone(), row.spec.name.clone()), row.totals)).collect()
    }
}

impl Minutes {
    fn append(&mut self, deltas: &[Delta], now: Timestamp) {
        for Delta { ago, text } in deltas {
            self.last_delta += 1;
            let delta = StoredDelta { id: self.last_delta, at: now.minus(*ago), text: text.clone() };
            self.deltas.insert(self.last_delta, delta);
        }
        self.deltas = self.deltas.split_off(&(self.last_delta.saturating_sub(DELTAS_KEPT_MAX) + 1));
    }

    fn of(&self, keys: &[MinuteKey]) -> MinutesRead {
        let found = keys.iter().filter_map(|key| Some((key, self.rows.get(key)?)));
        let rows = found.map(|(key, tally)| MinuteRow { key: key.clone(), tally: tally.clone() }).collect();
        MinutesRead { rows, ..MinutesRead::default() }
    }

    fn apply(&mut self, change: &FoldChange) -> Folded {
        if change.read != self.version {
            return Folded::Overtaken;
        }
        self.version = change.version;
        self.mark.clone_from(&change.mark);
        self.rows.extend(change.rows.iter().map(|row| (row.key.clone(), row.tally.clone())));
        change.folded.iter().for_each(|id| _ = self.deltas.remove(id));
        Folded::Done
    }

    fn page(&self, request: &MinutesRequest) -> MinutesRead {
        let limit = request.limit() as usize;
        let from_first = self.rows.iter().skip_while(|(key, _)| key.minute < request.first());
        let in_time = from_first
            .take_while(|(key, _)| key.minute <= request.last())
            .filter(|(key, _)| request.is_of(key.queue.as_str(), key.job_type.as_str()));
        let is_behind = |key: &MinuteKey| request.after.as_ref().is_none_or(|after| end_at(key) > *after);
        let mut rows: Vec<_> = in_time
            .filter(|(key, _)| is_behind(key))
            .take(limit + 1)
            .map(|(key, tally)| MinuteRow { key: key.clone(), tally: tally.clone() })
            .collect();
        let more = rows.len() > limit;
        rows.truncate(limit);
        let end = rows.last().filter(|_| more).map(|row| end_at(&row.key));
        MinutesRead { rows, damaged: Vec::new(), end }
    }

    fn forget(&mut self, kept: Duration, limit: u32, now: Timestamp) -> BatchDone {
        let (before, limit) = (forget_before(now, kept), limit.min(UPKEEP_BATCH_MAX));
        let is_old = |rows: &BTreeMap<MinuteKey, Tally>| {
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

fn end_at(key: &MinuteKey) -> MinutesEnd {
    let (queue, job_type) = (key.queue.as_str().to_owned(), key.job_type.as_str().to_owned());
    MinutesEnd { minute: key.minute, queue, job_type }
}
