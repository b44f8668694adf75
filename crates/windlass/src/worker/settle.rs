//! Settling: stores the ends of attempts. Pure: settlements and answers go in, batches come out.
//!
//! Ends that gather while a batch is in flight go in the next batch. Where many gather, the next batch does
//! not wait for the first: the store works on the one while the other waits for the disk. A batch that
//! failed is sent again, half of it first, so that one end that the store cannot accept now (another
//! transaction has its row locked) does not hold up the others: settling is idempotent, and a settlement is
//! kept until the store has answered for it. While batches fail, the pool starts no more handlers, so that
//! the number of unsettled ends stays bounded.

use windlass_core::limits::SETTLE_BATCH_MAX;
use windlass_core::planted::{Bug, planted};
use windlass_core::settle::Settlement;

use super::Moment;
use super::backoff::Backoff;

/// The most batches in flight at once, and how many ends must have gathered for the second.
const UNDER_WAY_MAX: usize = 2;
const SECOND_FROM: usize = SETTLE_BATCH_MAX / 2;

/// The number that tells batches in flight apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchNumber(u64);

/// An end that the store has not confirmed, and when it came: each time it is sent, the settlement says how
/// long ago that was.
#[derive(Debug, Clone)]
struct Unsettled {
    settlement: Settlement,
    since: Moment,
}

impl Unsettled {
    fn sent_at(&self, now: Moment) -> Settlement {
        let mut settlement = self.settlement.clone();
        settlement.report.ended_ago = now.saturating_sub(self.since);
        settlement
    }
}

/// Buffers ends of attempts and sends them in batches.
#[derive(Debug)]
pub struct Settler {
    buffered: Vec<Unsettled>,
    under_way: Vec<(BatchNumber, Vec<Unsettled>)>,
    second_from: usize,
    sent: u64,
    backoff: Backoff,
    /// The batch size after a batch was refused or failed: small, so that a bad end is found and left behind.
    batch_max: Option<usize>,
    /// The last batch that was sent before the batch size was reduced.
    narrowed_after: u64,
    /// The last batch that failed was a single end, and no part of it was written: that end is stuck, not
    /// the store.
    is_stuck: bool,
}

impl Default for Settler {
    fn default() -> Self {
        Self::with_second_from(SECOND_FROM)
    }
}

impl Settler {
    /// Creates a settler that sends a second batch as soon as this number of ends has gathered.
    pub fn with_second_from(ends: usize) -> Self {
        Self {
            buffered: Vec::new(),
            under_way: Vec::new(),
            second_from: ends,
            sent: 0,
            backoff: Backoff::default(),
            batch_max: None,
            narrowed_after: 0,
            is_stuck: false,
        }
    }

    /// Adds the end of an attempt.
    pub fn push(&mut self, settlement: Settlement, now: Moment) {
        self.buffered.push(Unsettled { settlement, since: now });
    }

    /// The number of ends that the store has not confirmed.
    pub fn unsettled(&self) -> usize {
        self.buffered.len() + self.under_way.iter().map(|(_, batch)| batch.len()).sum::<usize>()
    }

    /// Whether the store refuses or fails to accept ends.
    pub fn is_failing(&self) -> bool {
        self.backoff.is_failing() && !self.is_stuck
    }

    /// The next batch to send, if one may be sent now.
    pub fn next(&mut self, now: Moment) -> Option<(BatchNumber, Vec<Settlement>)> {
        if !self.may_send() || now < self.backoff.until() {
            return None;
        }
        let size = self.buffered.len().min(self.batch_max.unwrap_or(SETTLE_BATCH_MAX));
        let batch: Vec<_> = self.buffered.drain(..size).collect();
        self.sent += 1;
        let number = BatchNumber(self.sent);
        let sent = batch.iter().map(|end| end.sent_at(now)).collect();
        self.under_way.push((number, batch));
        Some((number, sent))
    }

    /// Whether a batch may be sent. A second batch goes out only while ends flow: many small batches cost
    /// the store more than a few big ones. After one of two batches failed, its ends need not wait for the
    /// other's answer; but of the batches that may fail again, one is sent at a time.
    fn may_send(&self) -> bool {
        let is_narrow = self.batch_max.is_some();
        let is_sent_narrow = |(number, _): &(BatchNumber, _)| number.0 > self.narrowed_after;
        match self.under_way.len() {
            0 => !self.buffered.is_empty(),
            UNDER_WAY_MAX.. => false,
            _ if is_narrow => !self.buffered.is_empty() && !self.under_way.iter().any(is_sent_narrow),
            _ => !self.backoff.is_failing() && self.buffered.len() >= self.second_from.max(1),
        }
    }

    /// When to act even if no event comes.
    pub fn wake_at(&self) -> Moment {
        if self.may_send() { self.backoff.until() } else { Moment::MAX }
    }

    /// Notes that the store accepted the batch. Returns the batch, so that the pool can let go of its jobs.
    pub fn taken(&mut self, number: BatchNumber) -> Vec<Settlement> {
        self.backoff.reset();
        self.is_stuck = false;
        if number.0 > self.narrowed_after {
            self.batch_max = self.batch_max.and_then(|max| (max < SETTLE_BATCH_MAX).then_some(max * 2));
        }
        self.answered(number).into_iter().map(|end| end.settlement).collect()
    }

    /// Removes the batch of this number from those in flight.
    fn answered(&mut self, number: BatchNumber) -> Vec<Unsettled> {
        let at = self.under_way.iter().position(|(other, _)| *other == number);
        at.map(|at| self.under_way.remove(at).1).unwrap_or_default()
    }

    /// Notes that the store did not accept the batch. It is sent again; a single end after all others.
    pub fn failed(&mut self, number: BatchNumber, now: Moment) {
        let batch = self.answered(number);
        let is_single = batch.len() == 1;
        self.send_again(batch, now);
        self.is_stuck = is_single;
        if is_single {
            self.buffered.rotate_left(1);
        }
    }

    fn send_again(&mut self, batch: Vec<Unsettled>, now: Moment) {
        self.backoff.failed(now);
        self.batch_max = Some((batch.len() / 2).max(1));
        self.narrowed_after = self.sent;
        self.buffered.splice(0..0, batch);
    }

    /// Notes that the answer to a batch was lost: the store may have accepted it. Sending it again finds
    /// out. Returns no settlement, except the ones that a planted bug forgets; the pool has no use for
    /// them.
    pub fn answer_lost(&mut self, number: BatchNumber, now: Moment) -> Vec<Settlement> {
        if planted(Bug::ForgetLostSettle) {
            return self.taken(number);
        }
        self.is_stuck = false;
        let batch = self.answered(number);
        self.send_again(batch, now);
        Vec::new()
    }

    /// Notes that the store refused the batch as invalid. The batch is cut in half. A single end that is
    /// refused is dropped here and reported, so that it blocks no others.
    pub fn refused(&mut self, number: BatchNumber, now: Moment) -> Option<Settlement> {
        let mut batch = self.answered(number);
        if batch.len() <= 1 {
            // The store is up and refuses this end only: the pool need not wait for the next batch to go on.
            self.backoff.reset();
            return batch.pop().map(|end| end.settlement);
        }
        self.is_stuck = false;
        self.send_again(batch, now);
        None
    }

    /// Removes every settlement. Only a planted bug does that: an end is kept until the store has answered
    /// for it.
    pub fn clear(&mut self) -> Vec<Settlement> {
        let mut all: Vec<_> = self.under_way.drain(..).flat_map(|(_, batch)| batch).collect();
        all.append(&mut self.buffered);
        all.into_iter().map(|end| end.settlement).collect()
    }
}
