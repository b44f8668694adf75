//! The gate cursors: gates that many calls in a row open.
//!
//! Jobs that have gone through a gate leave dead entries in the index, page after page. A call that starts
//! at the front walks over those of all calls before it. So the next call for many jobs starts where the
//! last one ended. A call for a few starts at the front: it is for the very oldest jobs, also those that
//! came there meanwhile.

use std::collections::HashMap;
use std::time::{Duration, Instant as Moment};

use tokio_postgres::Row;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::names::QueueName;
use windlass_core::priority::Priority;

use super::apply::Moved;
use super::claim_cursor::{FIRST, Position, before};
use super::store_error::StoreResult;
use super::value::Instant;

/// A call for at least this number of jobs goes on where the last call ended…
const MANY: u32 = 100;
/// …but starts at the front this often. An older job may have come there meanwhile.
const FRONT_EVERY: Duration = Duration::from_millis(500);
/// How many gates are remembered. A cursor is only a hint, so further gates go without.
const GATES_MAX: usize = 1_000;

/// The gate cursors of a process.
#[derive(Debug, Default)]
pub(super) struct GateCursors(HashMap<Gate, GateCursor>);

#[derive(Debug, Clone, Copy)]
struct GateCursor {
    to: Position,
    /// When the opening began at the front.
    began: Moment,
}

impl GateCursors {
    /// The position at which a call starts.
    pub(super) fn start(&self, gate: &Gate, limit: u32, now: Moment) -> Position {
        let good = |cursor: &&GateCursor| limit >= MANY && cursor.is_good(now);
        self.0.get(gate).filter(good).map_or(FIRST, |cursor| cursor.to)
    }

    /// Notes that a call that started at `from` ended at `to`, or met the end.
    pub(super) fn note_end(&mut self, gate: &Gate, from: Position, to: Option<Position>, now: Moment) {
        let Some(to) = to else {
            self.0.remove(gate);
            return;
        };
        let earlier = self.0.get(gate).filter(|_| from != FIRST);
        let began = earlier.map_or(now, |cursor| cursor.began);
        if self.0.len() >= GATES_MAX {
            self.0.retain(|_, cursor| cursor.is_good(now));
        }
        if self.0.len() < GATES_MAX {
            self.0.insert(gate.clone(), GateCursor { to, began });
        }
    }
}

impl GateCursor {
    fn is_good(&self, now: Moment) -> bool {
        now.saturating_duration_since(self.began) < FRONT_EVERY
    }
}

/// The jobs that one statement has let through a gate.
#[derive(Debug, Default)]
pub(super) struct LetThrough {
    pub(super) count: u32,
    /// The position of the last one, if others wait behind it.
    pub(super) last: Option<Position>,
}

impl LetThrough {
    /// Adds a row, which covers one queue and priority.
    pub(super) fn add_row(&mut self, row: &Row, moved: &mut Moved) -> StoreResult<()> {
        self.count += u32::try_from(row.try_get::<_, i64>(2)?).unwrap_or(u32::MAX);
        let last: (Option<Instant>, Option<i64>) = (row.try_get(5)?, row.try_get(6)?);
        self.last = last.0.zip(last.1).map(|(due, id)| (due.0, JobId(id)));
        let queue = QueueName::parse(row.try_get(0)?);
        let priority = Priority::new(row.try_get::<_, i16>(1)?.into());
        if let (Ok(queue), Ok(priority)) = (queue, priority) {
            let (due, first): (Option<Instant>, i64) = (row.try_get(3)?, row.try_get(4)?);
            moved.requeued.extend(due.map(|due| (queue.clone(), priority, before(due.0, JobId(first)))));
            moved.queues.insert(queue);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::clock::Timestamp;

    use super::*;

    fn at(id: i64) -> Position {
        (Timestamp::from_micros(100), JobId(id))
    }

    fn gate() -> Gate {
        Gate::named("browser")
    }

    #[test]
    fn a_call_for_many_goes_on_where_the_last_one_ended() {
        let (mut gate_cursors, now) = (GateCursors::default(), Moment::now());
        assert_eq!(gate_cursors.start(&gate(), MANY, now), FIRST);
        gate_cursors.note_end(&gate(), FIRST, Some(at(500)), now);
        assert_eq!(gate_cursors.start(&gate(), MANY, now), at(500));
        assert_eq!(gate_cursors.start(&Gate::named("other"), MANY, now), FIRST);
    }

    #[test]
    fn a_call_for_a_few_is_for_the_very_oldest() {
        let (mut gate_cursors, now) = (GateCursors::default(), Moment::now());
        gate_cursors.note_end(&gate(), FIRST, Some(at(500)), now);
        assert_eq!(gate_cursors.start(&gate(), MANY - 1, now), FIRST);
    }

    #[test]
    fn a_gate_that_opens_without_a_pause_still_starts_at_the_front_twice_a_second() {
        let (mut gate_cursors, start) = (GateCursors::default(), Moment::now());
        gate_cursors.note_end(&gate(), FIRST, Some(at(1)), start);
        let almost = start + FRONT_EVERY - Duration::from_millis(1);
        gate_cursors.note_end(&gate(), at(1), Some(at(2)), almost);
        assert_eq!(gate_cursors.start(&gate(), MANY, almost), at(2));
        assert_eq!(gate_cursors.start(&gate(), MANY, start + FRONT_EVERY), FIRST);
        gate_cursors.note_end(&gate(), FIRST, Some(at(3)), start + FRONT_EVERY);
        assert_eq!(
            gate_cursors.start(&gate(), MANY, start + FRONT_EVERY),
            at(3),
            "and the next call goes on from there"
        );
    }

    #[test]
    fn who_has_met_the_end_starts_at_the_front() {
        let (mut gate_cursors, now) = (GateCursors::default(), Moment::now());
        gate_cursors.note_end(&gate(), FIRST, Some(at(500)), now);
        gate_cursors.note_end(&gate(), at(500), None, now);
        assert_eq!(gate_cursors.start(&gate(), MANY, now), FIRST);
    }

    #[test]
    fn of_too_many_gates_some_start_at_the_front() {
        let (mut gate_cursors, now) = (GateCursors::default(), Moment::now());
        for number in 0..=GATES_MAX {
            gate_cursors.note_end(&Gate::named(&number.to_string()), FIRST, Some(at(1)), now);
        }
        assert_eq!(gate_cursors.start(&Gate::named(&GATES_MAX.to_string()), MANY, now), FIRST);
        gate_cursors.note_end(&gate(), FIRST, Some(at(1)), now + FRONT_EVERY);
        assert_eq!(gate_cursors.0.len(), 1, "expired cursors are removed");
    }
}
