//! Counts without scans: every move of a job is added up in memory during a transaction and written once
//! before its commit. Ready and scheduled jobs are told apart by the minute in which they fall due; only
//! the current minute is scanned.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::admin::{Counts, QueueStatus, Totals, TypeStatus};
use windlass_core::clock::Timestamp;
use windlass_core::job::waits_longest;
use windlass_core::job_type::TypeSpec;
use windlass_core::priority::Priority;
use windlass_core::queue::QueueSpec;

use super::catalogue::{Catalogue, QueueEntry, TypeEntry};
use super::sql::sql;
use super::store_error::StoreResult;
use crate::kit::{CountedState, MERGE_AFTER, MINUTE, Total, minute_of};

/// The changes of one type.
#[derive(Debug, Clone, Copy, Default)]
struct Delta {
    queue: i64,
    waiting: i64,
    parked: i64,
    running: i64,
    dead_letters: i64,
    enqueued: i64,
    succeeded: i64,
    retried: i64,
    dead: i64,
    cancelled: i64,
    started_over: i64,
}

/// The changes of one operation or transaction.
#[derive(Debug, Default, Clone)]
pub(super) struct Deltas {
    types: HashMap<i64, Delta>,
    minutes: HashMap<(i64, i64), i64>,
}

impl Deltas {
    /// Counts a job of this type that moved from one state to another.
    pub(super) fn moved(&mut self, kind: &TypeEntry, from: CountedState, to: CountedState) {
        self.add(kind, from, -1);
        self.add(kind, to, 1);
    }

    /// Counts an event in a total.
    pub(super) fn total(&mut self, kind: &TypeEntry, what: Total) {
        let delta = self.of(kind);
        match what {
            Total::Enqueued => delta.enqueued += 1,
            Total::Succeeded => delta.succeeded += 1,
            Total::Retried => delta.retried += 1,
            Total::Dead => delta.dead += 1,
            Total::StartedOver => {
                delta.dead -= 1;
                delta.started_over += 1;
            }
            Total::Cancelled => delta.cancelled += 1,
        }
    }

    /// Returns by how many the unfinished jobs of a queue have changed.
    pub(super) fn unfinished(&self, queue: i64) -> i64 {
        let of_queue = self.types.values().filter(|delta| delta.queue == queue);
        of_queue.map(|delta| delta.waiting + delta.parked + delta.running).sum()
    }

    /// Adds the changes of another operation.
    pub(super) fn absorb(&mut self, other: Self) {
        for (id, theirs) in other.types {
            let ours = self.types.entry(id).or_insert(Delta { queue: theirs.queue, ..Delta::default() });
            ours.waiting += theirs.waiting;
            ours.parked += theirs.parked;
            ours.running += theirs.running;
            ours.dead_letters += theirs.dead_letters;
            ours.enqueued += theirs.enqueued;
            ours.succeeded += theirs.succeeded;
            ours.retried += theirs.retried;
            ours.dead += theirs.dead;
            ours.cancelled += theirs.cancelled;
            ours.started_over += theirs.started_over;
        }
        for (minute, n) in other.minutes {
            *self.minutes.entry(minute).or_default() += n;
        }
    }

    /// Writes all changes and clears them.
    pub(super) fn flush(&mut self, conn: &Connection) -> StoreResult<()> {
        let mut statement = conn.prepare_cached(sql!("flush_counts"))?;
        for (id, d) in self.types.drain() {
            statement.execute([
                id,
                d.queue,
                d.waiting,
                d.parked,
                d.running,
                d.dead_letters,
                d.enqueued,
                d.succeeded,
                d.retried,
                d.dead,
                d.cancelled,
                d.started_over,
            ])?;
        }
        let mut statement = conn.prepare_cached(sql!("add_count_minute"))?;
        for ((queue, minute), n) in self.minutes.drain().filter(|(_, n)| *n != 0) {
            statement.execute([queue, minute, n])?;
        }
        Ok(())
    }

    fn add(&mut self, kind: &TypeEntry, state: CountedState, n: i64) {
        let delta = self.of(kind);
        match state {
            CountedState::Outside => {}
            CountedState::Parked => delta.parked += n,
            CountedState::Running => delta.running += n,
            CountedState::Dead => delta.dead_letters += n,
            CountedState::Waiting(due) => {
                delta.waiting += n;
                *self.minutes.entry((kind.queue_id, minute_of(due))).or_default() += n;
            }
        }
    }

    fn of(&mut self, kind: &TypeEntry) -> &mut Delta {
        self.types.entry(kind.id).or_insert(Delta { queue: kind.queue_id, ..Delta::default() })
    }
}

/// Counts the unfinished jobs of a queue, as far as they are written.
pub(super) fn unfinished(conn: &Connection, queue: i64) -> StoreResult<i64> {
    Ok(conn.prepare_cached(sql!("unfinished"))?.query_row([queue], |row| row.get(0))?)
}

/// Merges past minutes, so that summing them stays cheap.
pub(super) fn fold(conn: &Connection, now: Timestamp) -> StoreResult<()> {
    let cut = minute_of(now.minus(MERGE_AFTER));
    conn.prepare_cached(sql!("merge_count_minutes"))?.execute([cut])?;
    conn.prepare_cached(sql!("forget_minutes"))?.execute([cut])?;
    Ok(())
}

/// Lists all queues with their counts, by priority and name.
pub(super) fn queues(conn: &Connection, now: Timestamp) -> StoreResult<Vec<QueueStatus>> {
    let catalogue = Catalogue::load(conn)?;
    let mut stored = queue_counts(conn)?;
    let mut all = Vec::new();
    for queue in catalogue.queues() {
        let (mut counts, totals, waiting) = stored.remove(&queue.id).unwrap_or_default();
        let types: Vec<_> = catalogue.types_of(queue.id).collect();
        let ready = ready(conn, queue.id, &types, now)?.clamp(0, waiting);
        counts.ready = unsigned(ready);
        counts.scheduled = unsigned(waiting - ready);
        all.push(status(queue, counts, totals, oldest_ready(conn, &types, now)?, now));
    }
    all.sort_by(|a, b| (a.spec.priority, &a.spec.name).cmp(&(b.spec.priority, &b.spec.name)));
    Ok(all)
}

fn status(
    queue: &QueueEntry,
    counts: Counts,
    totals: Totals,
    oldest_ready: Option<Duration>,
    now: Timestamp,
) -> QueueStatus {
    QueueStatus {
        spec: QueueSpec::clone(&queue.spec),
        unreadable: queue.spec.unreadable().cloned(),
        pause: queue.pause.clone().filter(|pause| pause.holds(now)),
        shut: queue.shut,
        counts,
        totals,
        oldest_ready,
    }
}

/// Reads for each queue its counts (except ready and scheduled), its totals, and how many jobs wait without
/// a gate.
fn queue_counts(conn: &Connection) -> StoreResult<HashMap<i64, (Counts, Totals, i64)>> {
    let mut statement = conn.prepare_cached(sql!("queue_counts"))?;
    let mut rows = statement.query([])?;
    let mut by_queue = HashMap::new();
    while let Some(row) = rows.next()? {
        let n = |column: usize| row.get(column).map(unsigned);
        let counts = Counts { parked: n(2)?, running: n(3)?, dead_letters: n(4)?, ..Counts::default() };
        let totals = Totals {
            enqueued: n(5)?,
            succeeded: n(6)?,
            retried: n(7)?,
            dead: n(8)?,
            cancelled: n(9)?,
            started_over: n(10)?,
        };
        by_queue.insert(row.get(0)?, (counts, totals, row.get(1)?));
    }
    Ok(by_queue)
}

fn ready(
    conn: &Connection,
    queue: i64,
    types: &[&std::sync::Arc<TypeEntry>],
    now: Timestamp,
) -> StoreResult<i64> {
    let minute = minute_of(now);
    let mut ready: i64 =
        conn.prepare_cached(sql!("due_before_minute"))?.query_row([queue, minute], |row| row.get(0))?;
    let mut within = conn.prepare_cached(sql!("due_within_minute"))?;
    for kind in types {
        for priority in Priority::all() {
            let range = [kind.id, priority.level().into(), minute * MINUTE, now.as_micros()];
            ready += within.query_row(range, |row| row.get::<_, i64>(0))?;
        }
    }
    Ok(ready)
}

fn oldest_ready(
    conn: &Connection,
    types: &[&std::sync::Arc<TypeEntry>],
    now: Timestamp,
) -> StoreResult<Option<Duration>> {
    let mut next_head = conn.prepare_cached(sql!("next_head"))?;
    let mut first_ready = conn.prepare_cached(sql!("first_ready"))?;
    let mut oldest = None;
    for kind in types {
        let mut last = -1;
        while let Some(priority) = next_head.query_row([kind.id, last], |row| row.get(0)).optional()? {
            last = priority;
            let mut ready = first_ready.query_map([kind.id, priority, now.as_micros()], |row| {
                let (due, waits_since) = (row.get(0)?, row.get(1)?);
                Ok((Timestamp::from_micros(due), Timestamp::from_micros(waits_since)))
            })?;
            let mut unread = None;
            let read = std::iter::from_fn(|| ready.next()?.map_err(|error| unread = Some(error)).ok());
            oldest = waits_longest(read, oldest);
            if let Some(error) = unread {
                return Err(error.into());
            }
        }
    }
    Ok(oldest.map(|since| now.since(since)))
}

/// Lists all types, by name. `handled` returns how many live workers handle a type.
pub(super) fn types(conn: &Connection, handled: impl Fn(&TypeEntry) -> u64) -> StoreResult<Vec<TypeStatus>> {
    let catalogue = Catalogue::load(conn)?;
    let mut statement = conn.prepare_cached(sql!("type_unfinished"))?;
    let unfinished: HashMap<i64, i64> =
        statement.query_map(params![], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let mut all: Vec<_> = catalogue
        .types()
        .map(|kind| {
            let (spec, unreadable) = (TypeSpec::clone(&kind.spec), kind.spec.unreadable().cloned());
            let unfinished = unsigned(unfinished.get(&kind.id).copied().unwrap_or(0));
            TypeStatus { spec, unreadable, workers: handled(kind), unfinished }
        })
        .collect();
    all.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    Ok(all)
}

/// Converts a count of rows to the type of the engine interface; never below zero.
fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
