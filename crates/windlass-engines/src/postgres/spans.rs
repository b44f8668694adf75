//! Ranges of jobs as statements take them: column by column.

use windlass_core::boost::ClaimRange;

use super::position::Place;
use super::value::{Instant, Param, instants, levels, numbers};

/// Ranges, column by column.
#[derive(Debug, Default)]
pub(super) struct Spans {
    priorities: Vec<i16>,
    after_due: Vec<Instant>,
    after_id: Vec<i64>,
    until: Vec<Instant>,
}

impl Spans {
    pub(super) fn push(&mut self, range: &ClaimRange, start: Place) {
        // A range that begins later than the last claim ended begins there; its number is past every number.
        let after = range.after.map(|after| (after, i64::MAX)).unwrap_or((start.0, start.1.0));
        let (due, id) = after.max((start.0, start.1.0));
        self.priorities.push(range.priority.level().into());
        self.after_due.push(Instant(due));
        self.after_id.push(id);
        // The store's own now bounds it too; ours is only an estimate, and must not hold back what is due.
        self.until.push(if range.boosted { Instant(range.until) } else { Instant::FUTURE });
    }

    /// Where they begin.
    pub(super) fn starts(&self) -> [Param<'_>; 3] {
        [levels(&self.priorities), instants(&self.after_due), numbers(&self.after_id)]
    }

    /// Where they begin and end.
    pub(super) fn params(&self) -> [Param<'_>; 4] {
        let [priorities, after_due, after_id] = self.starts();
        [priorities, after_due, after_id, instants(&self.until)]
    }
}
