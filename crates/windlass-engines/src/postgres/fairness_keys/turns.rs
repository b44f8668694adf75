//! Turns: what a claim asks of each fairness key, and in which order the claimed jobs start.

use std::collections::HashMap;
use std::time::Instant as Moment;

use windlass_core::boost::ClaimRange;
use windlass_core::fairness::{Line, Ring};
use windlass_core::priority::Priority;

use super::{Found, Lines};
use crate::postgres::claim_cursor::Position;
use crate::postgres::claim_ranges::{ClaimRanges, RangeLines};
use crate::postgres::row::Reading;

/// Rounds of a claim in which the unused portions of some keys go to others. The last round claims any job.
pub(super) const ROUNDS_MAX: u32 = 50;
/// A statement names at least this number of keys whatever the room, since other processes may have used up
/// many. It names twice as many in each round, doubled at most this often. The statement stops at the first
/// that have something.
pub(super) const LINES_NAMED_MIN: usize = 32;
const NAMED_DOUBLED_MAX: u32 = 4;

/// The keys that a claim by turns asks for, statement by statement. As long as fairness keys of a priority
/// have something, a statement asks for those; then for what is left of the priority, together with the
/// next. So no priority goes before a more urgent one, and no two ranges of a statement overlap.
#[derive(Debug, Default)]
pub(in crate::postgres) struct Turns {
    /// The fairness keys that statements named, with their position in the order of turns.
    order: HashMap<(Priority, Line), usize>,
    /// The keys that the last statement named, with their portions.
    pub(super) portions: Vec<(Line, u32)>,
    /// Whether it named more keys than there was room for.
    pub(super) names_more: bool,
    /// How many statements were made.
    pub(super) rounds: u32,
    pub(super) of: Option<Priority>,
    /// How many priorities of the group were asked for all their jobs.
    pub(super) done: usize,
}

impl Turns {
    /// The position of a claimed job's key in the turns of its priority: the first job of each key comes
    /// first.
    fn order_of(&self, job: &(Priority, Line)) -> usize {
        self.order.get(job).copied().unwrap_or(usize::MAX)
    }

    /// Sorts claimed jobs by the order in which they start. They come in sorted by priority and due time.
    pub(in crate::postgres) fn put_in_order(&self, readings: &mut Vec<(bool, Reading)>) {
        let mut ranks: HashMap<(Priority, Line), usize> = HashMap::new();
        let mut keyed: Vec<_> = std::mem::take(readings)
            .into_iter()
            .enumerate()
            .map(|(n, (boosted, reading))| {
                let of = (reading.job.priority, reading.job.fairness_key.clone());
                let rank = ranks.entry(of.clone()).or_default();
                *rank += 1;
                ((if boosted { (0, n) } else { (*rank, self.order_of(&of)) }), n, (boosted, reading))
            })
            .collect();
        // Only within a priority: the order among ranges stays.
        for part in
            keyed.chunk_by_mut(|(_, _, a), (_, _, b)| a.0 == b.0 && a.1.job.priority == b.1.job.priority)
        {
            part.sort_by_key(|(turn, n, _)| (*turn, *n));
        }
        readings.extend(keyed.into_iter().map(|(_, _, reading)| reading));
    }

    /// Returns the next ranges, if there are any.
    pub(super) fn next_ranges(
        &mut self,
        lines: &mut Lines,
        starts: &[Position],
        group: &[ClaimRange],
        room: u32,
    ) -> Option<ClaimRanges> {
        let (mut ranges, now) = (ClaimRanges::default(), Moment::now());
        (self.portions, self.of) = (Vec::new(), None);
        self.rounds += 1;
        for (range, start) in group.iter().zip(starts).skip(self.done) {
            if lines.ring(range.priority).is_empty() || self.rounds >= ROUNDS_MAX {
                ranges.push_for(range, *start, RangeLines::All, room);
                self.done += 1;
                continue;
            }
            self.of = Some(range.priority);
            self.deal(lines.ring(range.priority), room);
            for (line, portion) in &self.portions {
                lines.push_line(&mut ranges, range, *start, line, *portion, now);
            }
            for (line, _) in &self.portions {
                let order_of = self.order.len();
                self.order.entry((range.priority, line.clone())).or_insert(order_of);
            }
            break;
        }
        (!ranges.is_empty()).then_some(ranges)
    }

    /// Gives each key its portion. With little room it names other keys besides, in case the first have
    /// nothing.
    fn deal(&mut self, ring: &mut Ring, room: u32) {
        let named = LINES_NAMED_MIN << (self.rounds - 1).min(NAMED_DOUBLED_MAX);
        let next = ring.next(named);
        self.names_more = next.len() > room as usize;
        self.portions =
            if self.names_more { next.into_iter().map(|line| (line, 1)).collect() } else { ring.deal(room) };
    }

    /// How many of the named keys the statement reached: it stops where there is no more room.
    pub(super) fn asked(&self, counts: &Found, priority: Priority, is_full: bool) -> usize {
        if !is_full {
            return self.portions.len();
        }
        let has_some = |(line, _): &(Line, u32)| counts.contains_key(&(priority, line.clone()));
        self.portions.iter().rposition(has_some).map_or(0, |last| last + 1)
    }
}
