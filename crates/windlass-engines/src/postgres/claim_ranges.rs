//! The claim ranges, as parameters of statements: column by column.

use windlass_core::boost::ClaimRange;
use windlass_core::clock::Timestamp;
use windlass_core::fairness::Line;

use super::claim_cursor::Position;
use super::value::{Instant, Param, flags, instants, int4, levels, numbers, small_numbers, texts};

/// Claim ranges, column by column.
#[derive(Debug, Default)]
pub(super) struct ClaimRanges {
    priorities: Vec<i16>,
    after_due: Vec<Instant>,
    after_id: Vec<i64>,
    until: Vec<Instant>,
    /// For claims by turns: the fairness key, at most how many jobs, and whether only jobs without any key
    /// are meant.
    fairness_keys: Vec<Option<String>>,
    most: Vec<i32>,
    nameless: Vec<bool>,
}

/// Which jobs a range of a claim by turns is for.
pub(super) enum RangeLines<'l> {
    /// Any job.
    All,
    /// Jobs that came in without a fairness key before others had one, until this instant.
    Nameless {
        /// When the last of them falls due.
        until: Timestamp,
    },
    /// Jobs of one fairness key.
    Line(&'l Line),
}

impl ClaimRanges {
    /// Adds a range of a claim by turns.
    pub(super) fn push_for(&mut self, range: &ClaimRange, start: Position, whom: RangeLines<'_>, most: u32) {
        self.push(range, start);
        self.most.push(int4(most));
        self.nameless.push(matches!(whom, RangeLines::Nameless { .. }));
        self.fairness_keys.push(match whom {
            RangeLines::Line(line) => Some(line.as_ref().map_or_else(String::new, ToString::to_string)),
            RangeLines::All | RangeLines::Nameless { .. } => None,
        });
        if let (RangeLines::Nameless { until }, Some(last)) = (whom, self.until.last_mut()) {
            *last = Instant(until);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.priorities.is_empty()
    }

    /// The parameters that say which jobs each range is for.
    pub(super) fn whom(&self) -> [Param<'_>; 3] {
        [texts(&self.fairness_keys), small_numbers(&self.most), flags(&self.nameless)]
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> Vec<(i16, Option<&str>, i32)> {
        let rows = self.priorities.iter().zip(&self.fairness_keys).zip(&self.most);
        rows.map(|((priority, fairness_key), most)| (*priority, fairness_key.as_deref(), *most)).collect()
    }

    pub(super) fn push(&mut self, range: &ClaimRange, start: Position) {
        // A range that begins later than the last claim ended begins there; its id is past every id.
        let after = range.after.map(|after| (after, i64::MAX)).unwrap_or((start.0, start.1.0));
        let (due, id) = after.max((start.0, start.1.0));
        self.priorities.push(range.priority.level().into());
        self.after_due.push(Instant(due));
        self.after_id.push(id);
        // The store's own now bounds it, too. Ours is only an estimate, and must not hold back jobs that are
        // due.
        self.until.push(if range.boosted { Instant(range.until) } else { Instant::FUTURE });
    }

    /// The parameters that say where the ranges begin.
    pub(super) fn starts(&self) -> [Param<'_>; 3] {
        [levels(&self.priorities), instants(&self.after_due), numbers(&self.after_id)]
    }

    /// The parameters that say where the ranges begin and end.
    pub(super) fn params(&self) -> [Param<'_>; 4] {
        let [priorities, after_due, after_id] = self.starts();
        [priorities, after_due, after_id, instants(&self.until)]
    }
}
