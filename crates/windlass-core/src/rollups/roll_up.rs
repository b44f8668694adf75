//! Decides what a rollup round adds: the difference between the current totals and those of the last
//! round, and the samples of workers since.
//!
//! Pure. The contents of a store go in. The keys of the rows that change come out, so that the rows can
//! be read. Then the new rows come out, with the watermark that includes them. A store applies that as a
//! whole, or not at all if another process was faster.

use std::collections::BTreeMap;

use super::minute::{Minute, Rollup, RollupKey, Tally};
use super::sample::{self, SampleError, Seen};
use super::watermark::Watermark;
use super::{RollupChange, RollupInput};
use crate::admin::Totals;
use crate::clock::Timestamp;
use crate::limits::ROLL_UP_ROWS_MAX;
use crate::names::{QueueName, TypeName};
use crate::schedules::next_version;

/// What a round adds, before the stored rows are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollUp {
    read: u64,
    now: Timestamp,
    watermark: Watermark,
    is_marked: bool,
    bookings: BTreeMap<RollupKey, Tally>,
    rolled_up: Vec<u64>,
    /// The texts that cannot be read. They are left out, and deleted.
    pub damaged: Vec<Damage>,
    /// Something is left for another round.
    pub more: bool,
}

/// A stored text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The sample of a worker.
    #[error("sample {id}")]
    Sample {
        /// The id of the sample.
        id: u64,
        /// Why it cannot be read.
        #[source]
        why: SampleError,
    },
    /// The watermark: the totals are counted anew from now.
    #[error("the watermark of booked totals")]
    Watermark,
}

/// Decides what a round adds. `None` if there is nothing to add.
pub fn roll_up(rollup_input: RollupInput) -> Option<RollUp> {
    let stored = rollup_input.watermark.as_ref().map(|watermark| watermark.text.as_str());
    let before = stored.map(Watermark::parse);
    let mut roll_up = RollUp {
        read: rollup_input.watermark.as_ref().map_or(0, |watermark| watermark.version),
        now: rollup_input.now,
        watermark: before.clone().flatten().unwrap_or_default(),
        is_marked: false,
        bookings: BTreeMap::new(),
        rolled_up: Vec::new(),
        damaged: Vec::new(),
        more: rollup_input.more,
    };
    if before == Some(None) {
        roll_up.damaged.push(Damage::Watermark);
    }
    roll_up.book_totals(rollup_input.totals, before.flatten().is_some());
    for sample in rollup_input.samples {
        roll_up.book_sample(sample.id, sample.at, &sample.text);
    }
    (roll_up.is_marked || !roll_up.rolled_up.is_empty()).then_some(roll_up)
}

impl RollUp {
    /// Returns the keys of the rows that this changes. The rows must be read before it can be applied.
    pub fn keys(&self) -> Vec<RollupKey> {
        self.bookings.keys().cloned().collect()
    }

    /// Returns the change to request from the store, given the stored rows. A row that could not be read
    /// is replaced.
    pub fn onto(self, kept: Vec<Rollup>) -> RollupChange {
        let mut rows = self.bookings;
        for row in kept {
            if let Some(booked) = rows.get_mut(&row.key) {
                booked.merge(&row.tally);
            }
        }
        RollupChange {
            read: self.read,
            version: next_version(self.read, self.now),
            watermark: self.watermark.encode(),
            rows: rows.into_iter().map(|(key, tally)| Rollup { key, tally }).collect(),
            rolled_up: self.rolled_up,
        }
    }

    /// Adds the growth of the totals. Totals from before the first round are added nowhere: they did not
    /// happen now. A type that the watermark does not contain is new.
    fn book_totals(&mut self, totals: Vec<((QueueName, TypeName), Totals)>, is_known: bool) {
        let (minute, now) = (Minute::of(self.now), BTreeMap::from_iter(totals));
        let gone = self.watermark.0.len();
        self.watermark.0.retain(|key, _| now.contains_key(key));
        self.is_marked = !is_known || gone != self.watermark.0.len();
        for (key, after) in now {
            let before = self.watermark.0.get(&key).copied();
            if before == Some(after) {
                continue;
            }
            let tally = Tally::between(before.unwrap_or_default(), after);
            let is_booked = is_known && !tally.is_empty();
            if is_booked && self.bookings.len() >= ROLL_UP_ROWS_MAX {
                // Its old watermark stays, so the next round finds the difference.
                self.more = true;
                continue;
            }
            if is_booked {
                let (queue, job_type) = key.clone();
                self.bookings.insert(RollupKey { minute, queue, job_type }, tally);
            }
            self.watermark.0.insert(key, after);
            self.is_marked = true;
        }
    }

    fn book_sample(&mut self, id: u64, at: Timestamp, text: &str) {
        if self.bookings.len() >= ROLL_UP_ROWS_MAX {
            self.more = true;
            return;
        }
        match sample::parse(text) {
            Ok(seen) => seen.into_iter().for_each(|seen| self.book_seen(Minute::of(at), seen)),
            Err(why) => self.damaged.push(Damage::Sample { id, why }),
        }
        self.rolled_up.push(id);
    }

    fn book_seen(&mut self, minute: Minute, seen: Seen) {
        let Seen { queue, job_type, started, waits, runs } = seen;
        let tally = Tally { started, waits, runs, ..Tally::default() };
        self.bookings.entry(RollupKey { minute, queue, job_type }).or_default().merge(&tally);
    }
}
