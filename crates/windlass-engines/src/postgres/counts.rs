//! Counts without scans.
//!
//! Every statement adds its changes as a row of its own, and maintenance rolls these rows up. Waiting jobs
//! are counted by the minute in which they fall due. So ready and scheduled jobs are told apart by these
//! minutes, and only the current minute is scanned.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant as Moment};

use tokio_postgres::Row;
use windlass_core::admin::{Counts, QueueStatus, Totals, TypeStatus};
use windlass_core::enqueue::NewJob;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::queue::QueueSpec;
use windlass_core::stored::StoredSpec;

use super::Store;
use super::catalogue::{Catalogue, QueueEntry};
use super::conn::Tx;
use super::sql::Statement;
use super::store_error::StoreResult;
use super::value::{Instant, Param, instant, number, numbers, small_numbers, text, texts};
use crate::kit::{CountedState, MERGE_AFTER, Total, minute_of};

/// How many changes are rolled up at once, and how many times in one run.
const ROLL_UP_MAX: i64 = 20_000;
const ROLL_UP_TIMES: u32 = 20;

/// While a queue is far from full, its cached depth may be this old.
const DEPTH_GOOD_FOR: Duration = Duration::from_secs(1);

/// The columns of `count_deltas` that hold counts, in the order of `add_counts`.
#[derive(Debug, Clone, Copy)]
enum Column {
    Waiting,
    Parked,
    Running,
    DeadLetters,
    Enqueued,
    Succeeded,
    Retried,
    Dead,
    Cancelled,
    StartedOver,
}

const COLUMNS: usize = 10;

/// The changes of one transaction, by type and, for waiting jobs, by minute.
#[derive(Debug, Default)]
pub(super) struct Deltas(BTreeMap<(TypeName, QueueName, Option<i64>), [i32; COLUMNS]>);

impl Deltas {
    /// Notes that a job of this type went from one state to another.
    pub(super) fn moved(&mut self, kind: (&TypeName, &QueueName), from: CountedState, to: CountedState) {
        self.add(kind, from, -1);
        self.add(kind, to, 1);
    }

    /// Notes an event of a total.
    pub(super) fn total(&mut self, kind: (&TypeName, &QueueName), what: Total) {
        let (column, n) = match what {
            Total::Enqueued => (Column::Enqueued, 1),
            Total::Succeeded => (Column::Succeeded, 1),
            Total::Retried => (Column::Retried, 1),
            Total::Dead => (Column::Dead, 1),
            Total::StartedOver => {
                self.bump(kind, None, Column::StartedOver, 1);
                (Column::Dead, -1)
            }
            Total::Cancelled => (Column::Cancelled, 1),
        };
        self.bump(kind, None, column, n);
    }

    fn add(&mut self, kind: (&TypeName, &QueueName), state: CountedState, n: i32) {
        match state {
            CountedState::Outside => {}
            CountedState::Parked => self.bump(kind, None, Column::Parked, n),
            CountedState::Running => self.bump(kind, None, Column::Running, n),
            CountedState::Dead => self.bump(kind, None, Column::DeadLetters, n),
            CountedState::Waiting(due) => self.bump(kind, Some(minute_of(due)), Column::Waiting, n),
        }
    }

    fn bump(&mut self, kind: (&TypeName, &QueueName), minute: Option<i64>, column: Column, n: i32) {
        let key = (kind.0.clone(), kind.1.clone(), minute);
        self.0.entry(key).or_insert([0; COLUMNS])[column as usize] += n;
    }
}

impl Store {
    /// Stores the changes of a transaction.
    pub(super) async fn add_counts(&self, tx: &Tx, deltas: &Deltas) -> StoreResult<()> {
        if deltas.0.is_empty() {
            return Ok(());
        }
        let types: Vec<_> = deltas.0.keys().map(|key| key.0.as_str()).collect();
        let queues: Vec<_> = deltas.0.keys().map(|key| key.1.as_str()).collect();
        let minutes: Vec<_> = deltas.0.keys().map(|key| key.2).collect();
        let columns: [Vec<i32>; COLUMNS] =
            std::array::from_fn(|column| deltas.0.values().map(|counts| counts[column]).collect());
        let head: [Param<'_>; 3] = [texts(&types), texts(&queues), numbers(&minutes)];
        let params: Vec<_> = head.into_iter().chain(columns.iter().map(small_numbers)).collect();
        tx.query(&self.sql.add_counts, &params).await?;
        Ok(())
    }

    /// Rolls changes up into the counts, so that reading them stays cheap.
    pub(super) async fn fold_counts(&self) -> StoreResult<()> {
        self.fold(&self.sql.fold_counts).await?;
        let cut = self.roll_up_before();
        self.work.get().await?.execute(&self.sql.merge_count_minutes, &[number(&cut)]).await?;
        Ok(())
    }

    /// The minute before which counts are merged.
    pub(super) fn roll_up_before(&self) -> i64 {
        minute_of(self.estimated_now().minus(MERGE_AFTER))
    }

    /// Rolls up appended rows, oldest first, until few are left.
    pub(super) async fn fold(&self, statement: &Statement) -> StoreResult<()> {
        let conn = self.work.get().await?;
        for _ in 0..ROLL_UP_TIMES {
            let rows = conn.execute(statement, &[number(&ROLL_UP_MAX)]).await?;
            let folded: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
            if folded < ROLL_UP_MAX {
                break;
            }
        }
        Ok(())
    }

    /// Returns all queues with their counts, by priority and name.
    pub(super) async fn queues(&self) -> StoreResult<Vec<QueueStatus>> {
        self.reload().await?;
        let catalogue = self.catalogue();
        let conn = self.work.get().await?;
        let now = self.now_param();
        let names: Vec<_> = catalogue.queues().map(|queue| queue.spec.name.as_str()).collect();
        let rows = conn.query(&self.sql.queue_counts, &[instant(&now), texts(&names)]).await?;
        let mut all = Vec::new();
        for row in &rows {
            let name = QueueName::parse(row.try_get(0)?).ok();
            if let Some(queue) = name.and_then(|name| catalogue.queue(&name)) {
                all.push(read_status(row, queue)?);
            }
        }
        all.sort_by(|a, b| (a.spec.priority, &a.spec.name).cmp(&(b.spec.priority, &b.spec.name)));
        Ok(all)
    }

    /// Returns all types, by name.
    pub(super) async fn types(&self) -> StoreResult<Vec<TypeStatus>> {
        self.reload().await?;
        let catalogue = self.catalogue();
        let conn = self.work.get().await?;
        let rows = conn.query(&self.sql.type_unfinished, &[]).await?;
        let mut unfinished = HashMap::new();
        for row in &rows {
            unfinished.insert(row.try_get::<_, String>(0)?, unsigned(row.try_get(1)?));
        }
        let live = self.sightings(&conn).await?;
        let handles = |name: &TypeName| live.iter().filter(|worker| worker.card.types.contains(name)).count();
        let status = |spec: &StoredSpec<TypeSpec>| TypeStatus {
            spec: TypeSpec::clone(spec),
            unreadable: spec.unreadable().cloned(),
            workers: handles(&spec.name) as u64,
            unfinished: unfinished.get(spec.name.as_str()).copied().unwrap_or(0),
        };
        let mut all: Vec<_> = catalogue.types().map(status).collect();
        all.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        Ok(all)
    }
}

/// The depths of queues with a capacity.
impl Store {
    /// Returns the depths of the queues with a capacity into which these jobs would go.
    pub(super) async fn depths(&self, jobs: &[NewJob], catalogue: &Catalogue) -> StoreResult<Depths> {
        let mut depths = Depths::default();
        for new in jobs {
            let queue = catalogue.type_named(&new.job_type).and_then(|spec| catalogue.queue(&spec.queue));
            let Some(QueueEntry { spec, .. }) = queue else { continue };
            if let Some(capacity) = spec.capacity
                && !depths.0.contains_key(&spec.name)
            {
                let depth = self.depth(&spec.name, capacity, jobs.len() as u64).await?;
                depths.0.insert(spec.name.clone(), depth);
            }
        }
        Ok(depths)
    }

    /// Returns the depth of a queue. It is at most a second old while the queue is far from full, and fresh
    /// otherwise.
    async fn depth(&self, queue: &QueueName, capacity: u64, more: u64) -> StoreResult<u64> {
        let remembered = self.depths_seen.lock().expect("no holder panics").get(queue).copied();
        if let Some((depth, at)) = remembered
            && at.elapsed() < DEPTH_GOOD_FOR
            && depth + more < capacity / 10 * 9
        {
            return Ok(depth);
        }
        let rows = self.work.get().await?.query(&self.sql.unfinished, &[text(&queue.as_str())]).await?;
        let depth = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(unsigned(depth))
    }

    /// Caches depths that were read, with the added jobs.
    pub(super) fn remember_depths(&self, depths: Depths) {
        let mut seen = self.depths_seen.lock().expect("no holder panics");
        for (queue, depth) in depths.0 {
            let at = seen.get(&queue).map(|(_, at)| *at).filter(|at| at.elapsed() < DEPTH_GOOD_FOR);
            seen.insert(queue, (depth, at.unwrap_or_else(Moment::now)));
        }
    }
}

/// How many jobs of some queues have not ended.
#[derive(Debug, Default)]
pub(super) struct Depths(HashMap<QueueName, u64>);

impl Depths {
    /// The depth of a queue; zero for one without a capacity, which no caller needs.
    pub(super) fn of(&self, queue: &QueueName) -> u64 {
        self.0.get(queue).copied().unwrap_or(0)
    }

    /// Adds one job.
    pub(super) fn add(&mut self, queue: &QueueName) {
        if let Some(depth) = self.0.get_mut(queue) {
            *depth += 1;
        }
    }
}

/// The cached depths of queues with a capacity, and when they were read.
pub(super) type DepthsSeen = HashMap<QueueName, (u64, Moment)>;

/// Reads a row of `queue_counts`: name, now, waiting, parked, running, dead letters, five totals, ready,
/// oldest ready, one more total.
fn read_status(row: &Row, queue: &QueueEntry) -> StoreResult<QueueStatus> {
    let n = |column: usize| -> StoreResult<u64> { Ok(unsigned(row.try_get(column)?)) };
    let now = row.try_get::<_, Instant>(1)?.0;
    let waiting = n(2)?;
    let ready = n(11)?.min(waiting);
    let oldest = row.try_get::<_, Option<Instant>>(12)?.map(|due| now.since(due.0));
    Ok(QueueStatus {
        spec: QueueSpec::clone(&queue.spec),
        unreadable: queue.spec.unreadable().cloned(),
        pause: queue.pause.clone().filter(|pause| pause.holds(now)),
        shut: queue.shut,
        counts: Counts {
            ready,
            scheduled: waiting - ready,
            parked: n(3)?,
            running: n(4)?,
            dead_letters: n(5)?,
        },
        totals: Totals {
            enqueued: n(6)?,
            succeeded: n(7)?,
            retried: n(8)?,
            dead: n(9)?,
            cancelled: n(10)?,
            started_over: n(13)?,
        },
        oldest_ready: oldest,
    })
}

/// A count of rows as the engine interface returns it; never below zero.
fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
