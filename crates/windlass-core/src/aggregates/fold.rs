//! What a round of folding books: the difference between the totals now and those of the last round, and what workers have seen since.
//!
//! Pure. What a store has goes in; the rows that it would change are named, so that they can be read; and what they become comes
//! out, with the mark that says so. A store applies that as a whole, or not at all if somebody else was faster.

use std::collections::BTreeMap;

use super::delta::{self, DeltaError, Seen};
use super::mark::Mark;
use super::minute::{Minute, MinuteKey, MinuteRow, Tally};
use super::{FoldChange, Unfolded};
use crate::admin::Totals;
use crate::clock::Timestamp;
use crate::limits::FOLD_ROWS_MAX;
use crate::names::{QueueName, TypeName};
use crate::schedules::next_version;

/// What is booked, before it is known what was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    read: u64,
    now: Timestamp,
    mark: Mark,
    is_marked: bool,
    bookings: BTreeMap<MinuteKey, Tally>,
    folded: Vec<u64>,
    /// What cannot be read. It is left out, and goes.
    pub damaged: Vec<Damage>,
    /// Something is left for another round.
    pub more: bool,
}

/// What cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// What a worker has seen.
    #[error("delta {id}")]
    Delta {
        /// Which.
        id: u64,
        /// What is wrong.
        #[source]
        why: DeltaError,
    },
    /// Up to where totals are booked: they begin anew from now.
    #[error("the mark of booked totals")]
    Mark,
}

/// Decides what is booked. Nothing if there is nothing to book.
pub fn fold(unfolded: Unfolded) -> Option<Fold> {
    let stored = unfolded.mark.as_ref().map(|mark| mark.text.as_str());
    let before = stored.map(Mark::parse);
    let mut fold = Fold {
        read: unfolded.mark.as_ref().map_or(0, |mark| mark.version),
        now: unfolded.now,
        mark: before.clone().flatten().unwrap_or_default(),
        is_marked: false,
        bookings: BTreeMap::new(),
        folded: Vec::new(),
        damaged: Vec::new(),
        more: unfolded.more,
    };
    if before == Some(None) {
        fold.damaged.push(Damage::Mark);
    }
    fold.book_totals(unfolded.totals, before.flatten().is_some());
    for delta in unfolded.deltas {
        fold.book_delta(delta.id, delta.at, &delta.text);
    }
    (fold.is_marked || !fold.folded.is_empty()).then_some(fold)
}

impl Fold {
    /// The rows that this changes. They are to be read before it can be applied.
    pub fn keys(&self) -> Vec<MinuteKey> {
        self.bookings.keys().cloned().collect()
    }

    /// What is asked of the store, given what is kept of those rows. One that could not be read is written anew.
    pub fn onto(self, kept: Vec<MinuteRow>) -> FoldChange {
        let mut rows = self.bookings;
        for row in kept {
            if let Some(booked) = rows.get_mut(&row.key) {
                booked.merge(&row.tally);
            }
        }
        FoldChange {
            read: self.read,
            version: next_version(self.read, self.now),
            mark: self.mark.encode(),
            rows: rows.into_iter().map(|(key, tally)| MinuteRow { key, tally }).collect(),
            folded: self.folded,
        }
    }

    /// What happened before anybody looked is booked nowhere: it was not now. A type that the mark does not know is new.
    fn book_totals(&mut self, totals: Vec<((QueueName, TypeName), Totals)>, is_known: bool) {
        let (minute, now) = (Minute::of(self.now), BTreeMap::from_iter(totals));
        let gone = self.mark.0.len();
        self.mark.0.retain(|key, _| now.contains_key(key));
        self.is_marked = !is_known || gone != self.mark.0.len();
        for (key, after) in now {
            let before = self.mark.0.get(&key).copied();
            if before == Some(after) {
                continue;
            }
            let tally = Tally::between(before.unwrap_or_default(), after);
            let is_booked = is_known && !tally.is_empty();
            if is_booked && self.bookings.len() >= FOLD_ROWS_MAX {
                // Its old mark stays, so the next round finds the difference.
                self.more = true;
                continue;
            }
            if is_booked {
                let (queue, job_type) = key.clone();
                self.bookings.insert(MinuteKey { minute, queue, job_type }, tally);
            }
            self.mark.0.insert(key, after);
            self.is_marked = true;
        }
    }

    fn book_delta(&mut self, id: u64, at: Timestamp, text: &str) {
        if self.bookings.len() >= FOLD_ROWS_MAX {
            self.more = true;
            return;
        }
        match delta::parse(text) {
            Ok(seen) => seen.into_iter().for_each(|seen| self.book_seen(Minute::of(at), seen)),
            Err(why) => self.damaged.push(Damage::Delta { id, why }),
        }
        self.folded.push(id);
    }

    fn book_seen(&mut self, minute: Minute, seen: Seen) {
        let Seen { queue, job_type, started, waits, runs } = seen;
        let tally = Tally { started, waits, runs, ..Tally::default() };
        self.bookings.entry(MinuteKey { minute, queue, job_type }).or_default().merge(&tally);
    }
}
