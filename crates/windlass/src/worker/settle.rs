//! Getting ends of attempts into the store. Pure: settlements and answers go in, batches come out.
//!
//! What gathers while a batch is under way goes in the next. A batch that failed is sent again, half of it first, so that
//! one end that the store cannot take now (somebody has its row locked) does not keep the others: settling is idempotent,
//! and a settlement is kept until the store has answered for it. While batches fail, the pool starts nothing new, so that
//! what is unsettled stays bounded.

use windlass_core::limits::SETTLE_BATCH_MAX;
use windlass_core::planted::{Bug, planted};
use windlass_core::settle::Settlement;

use super::Moment;
use super::backoff::Backoff;

/// Buffers ends of attempts and sends them in batches.
#[derive(Debug, Default)]
pub struct Settler {
    buffered: Vec<Settlement>,
    under_way: Option<Vec<Settlement>>,
    backoff: Backoff,
    /// After a batch was refused or failed, batches are this small, so that a bad one is found and left behind.
    batch_max: Option<usize>,
    /// The last batch that failed was a single end, and nothing of it was written: that one is stuck, not the store.
    is_stuck: bool,
}

impl Settler {
    /// An attempt ended.
    pub fn push(&mut self, settlement: Settlement) {
        self.buffered.push(settlement);
    }

    /// How many ends the store has not confirmed.
    pub fn unsettled(&self) -> usize {
        self.buffered.len() + self.under_way.as_ref().map_or(0, Vec::len)
    }

    /// Whether the store refuses or fails to take ends.
    pub fn is_failing(&self) -> bool {
        self.backoff.is_failing() && !self.is_stuck
    }

    /// The next batch to send, if none is under way.
    pub fn next(&mut self, now: Moment) -> Option<Vec<Settlement>> {
        if self.under_way.is_some() || self.buffered.is_empty() || now < self.backoff.until() {
            return None;
        }
        let size = self.buffered.len().min(self.batch_max.unwrap_or(SETTLE_BATCH_MAX));
        let batch: Vec<_> = self.buffered.drain(..size).collect();
        self.under_way = Some(batch.clone());
        Some(batch)
    }

    /// When something is to be done even if nothing happens.
    pub fn wake_at(&self) -> Moment {
        if self.buffered.is_empty() || self.under_way.is_some() { Moment::MAX } else { self.backoff.until() }
    }

    /// The store took the batch; gives it back, so that the pool can let go of its jobs.
    pub fn taken(&mut self) -> Vec<Settlement> {
        self.backoff.reset();
        self.is_stuck = false;
        self.batch_max = self.batch_max.and_then(|max| (max < SETTLE_BATCH_MAX).then_some(max * 2));
        self.under_way.take().unwrap_or_default()
    }

    /// The store did not take the batch. It is sent again; a single end after all others.
    pub fn failed(&mut self, now: Moment) {
        let is_single = self.under_way.as_ref().is_some_and(|batch| batch.len() == 1);
        self.send_again(now);
        self.is_stuck = is_single;
        if is_single {
            self.buffered.rotate_left(1);
        }
    }

    fn send_again(&mut self, now: Moment) {
        self.backoff.failed(now);
        let batch = self.under_way.take().unwrap_or_default();
        self.batch_max = Some((batch.len() / 2).max(1));
        self.buffered.splice(0..0, batch);
    }

    /// The answer got lost: the batch may have been taken. Sending it again asks the store. Nothing comes back
    /// but what a planted bug forgets; the pool has no use for it.
    pub fn answer_lost(&mut self, now: Moment) -> Vec<Settlement> {
        if planted(Bug::ForgetLostSettle) {
            return self.taken();
        }
        self.is_stuck = false;
        self.send_again(now);
        Vec::new()
    }

    /// The store says that the batch itself is wrong. It is cut in half; a single one that is refused is given
    /// up here and reported, so that it blocks no others.
    pub fn refused(&mut self, now: Moment) -> Option<Settlement> {
        let mut batch = self.under_way.take().unwrap_or_default();
        if batch.len() <= 1 {
            // The store is up, it just does not want this one: the pool need not wait for the next to go on.
            self.backoff.reset();
            return batch.pop();
        }
        self.under_way = Some(batch);
        self.is_stuck = false;
        self.send_again(now);
        None
    }

    /// Forgets everything. Only a planted bug does that: an end is kept until the store has answered for it.
    pub fn clear(&mut self) -> Vec<Settlement> {
        let mut all = self.under_way.take().unwrap_or_default();
        all.append(&mut self.buffered);
        all
    }
}
