//! Maintenance: cancels expired jobs, parks jobs without a handler, prunes old rows, and creates the days
//! ahead.

use std::collections::HashSet;
use std::time::Duration;

use tokio_postgres::Row;
use windlass_core::admin::BatchDone;
use windlass_core::gate::Gate;
use windlass_core::job::EXPIRED_REASON;
use windlass_core::limits::{DEAD_WORKER_KEPT, MAINTENANCE_BATCH_MAX, RECEIPT_TTL};
use windlass_core::names::{QueueName, TypeName};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::settle::{AppliedTransition, NewState};

use super::Store;
use super::apply::{AttemptEnd, Live, Move, Moved};
use super::conn::Tx;
use super::sql::Statement;
use super::store_error::{StoreError, StoreResult};
use super::value::{Param, instant, int4, micros, number, small_number, text, texts};

/// The queues that live workers serve, and the types that they handle.
#[derive(Debug, Default)]
struct Served {
    queues: HashSet<QueueName>,
    types: HashSet<TypeName>,
}

/// How many days, or parts of days with many attempts, one prune drops.
const DROP_DAYS_TIMES: u32 = 100;

/// How many batches of keys one sweep frees.
const FREE_KEYS_TIMES: u32 = 20;

/// How many times as many of the small rows that come with every call one prune deletes. As long as an open
/// transaction keeps vacuum away, each prune walks over all rows that those before it have deleted.
const SMALL_ROWS_TIMES: u32 = 20;

/// For how long a queue takes turns after its last job with a fairness key. Each change makes all processes
/// read the queues again.
const FAIRNESS_KEYS_FORGOTTEN_AFTER: Duration = Duration::from_secs(60 * 60);

/// The work for a sweep: most of the time, none.
#[derive(Debug, Clone, Copy)]
struct ToSweep {
    expired: bool,
    counts: bool,
    ends: bool,
    waiting: bool,
    unhandled: bool,
    ended_keys: bool,
    forgotten: bool,
    marks: bool,
    invalid_priority: bool,
}

impl ToSweep {
    const ALL: Self = Self {
        expired: true,
        counts: true,
        ends: true,
        waiting: true,
        unhandled: true,
        ended_keys: true,
        forgotten: true,
        marks: true,
        invalid_priority: true,
    };

    fn read(row: &Row) -> StoreResult<Self> {
        Ok(Self {
            expired: row.try_get(0)?,
            counts: row.try_get(1)?,
            ends: row.try_get(2)?,
            waiting: row.try_get(3)?,
            unhandled: row.try_get(4)?,
            ended_keys: row.try_get(5)?,
            forgotten: row.try_get(6)?,
            marks: row.try_get(7)?,
            invalid_priority: row.try_get(8)?,
        })
    }
}

/// The results of duties that run independently of each other.
#[derive(Debug, Default)]
struct Duties {
    first_fault: Option<StoreError>,
}

impl Duties {
    /// Runs the next duty, unless the server was out of reach: then it could do nothing.
    async fn attempt<T: Default>(&mut self, duty: impl Future<Output = StoreResult<T>>) -> T {
        if matches!(self.first_fault, Some(StoreError::Unreachable(_))) {
            return T::default();
        }
        duty.await.unwrap_or_else(|fault| {
            self.first_fault.get_or_insert(fault);
            T::default()
        })
    }

    /// Runs the next duty if it has work.
    async fn attempt_if<T: Default>(
        &mut self,
        is_due: bool,
        duty: impl Future<Output = StoreResult<T>>,
    ) -> T {
        if is_due { self.attempt(duty).await } else { T::default() }
    }

    fn end<T>(self, done: T) -> StoreResult<T> {
        self.first_fault.map_or(Ok(done), Err)
    }
}

impl Store {
    /// Runs each duty on its own: a duty that the server never finishes in time must not keep the others
    /// undone for ever.
    pub(super) async fn sweep(&self, limit: u32) -> StoreResult<BatchDone> {
        let limit = limit.min(MAINTENANCE_BATCH_MAX);
        let mut duties = Duties::default();
        // If the query for the work fails, all duties are tried.
        let there_is = self.to_sweep().await.unwrap_or(ToSweep::ALL);
        let expired = duties.attempt_if(there_is.expired, self.cancel_expired(limit)).await;
        duties.attempt_if(there_is.counts, self.fold_counts()).await;
        duties.attempt_if(there_is.ends, self.fold_claims()).await;
        let served = duties.attempt_if(there_is.waiting || there_is.unhandled, self.served()).await;
        let unhandled = duties.attempt_if(there_is.waiting, self.park_unhandled(limit, &served)).await;
        duties.attempt_if(there_is.invalid_priority, self.bury_invalid_priority(limit)).await;
        for name in served.types.iter().filter(|_| there_is.unhandled) {
            duties.attempt(self.let_through(&Gate::no_handler(name), limit)).await;
        }
        duties.attempt_if(there_is.ended_keys, self.free_ended_keys(limit)).await;
        duties.attempt_if(there_is.marks, self.handle_marks()).await;
        duties.attempt_if(there_is.forgotten, self.forget(&self.sql.forget_requeued_jobs)).await;
        duties.attempt_if(there_is.forgotten, self.forget(&self.sql.forget_waiting)).await;
        let is_full = |count: u64| count > 0 && count >= u64::from(limit);
        duties.end(BatchDone { changed: expired + unhandled, more: is_full(expired) || is_full(unhandled) })
    }

    fn queue_names(&self) -> Vec<String> {
        self.catalogue().queues().map(|queue| queue.spec.name.to_string()).collect()
    }

    async fn to_sweep(&self) -> StoreResult<ToSweep> {
        let (now, cut, queues) = (self.now_param(), self.roll_up_before(), self.queue_names());
        let params = [instant(&now), number(&cut), texts(&queues)];
        let rows = self.work.get().await?.query(&self.sql.to_sweep, &params).await?;
        rows.first().map_or(Ok(ToSweep::ALL), ToSweep::read)
    }

    /// Frees the keys of jobs that ended in an application's own transaction. Some of a batch may be
    /// locked, so it goes on while at least half of it was freed.
    async fn free_ended_keys(&self, limit: u32) -> StoreResult<()> {
        let conn = self.work.get().await?;
        let (now, at_most) = (self.now_param(), int4(limit));
        for _ in 0..FREE_KEYS_TIMES {
            let params = [instant(&now), small_number(&at_most)];
            let freed = conn.execute(&self.sql.free_ended_keys, &params).await?.len();
            if freed == 0 || freed * 2 < usize::try_from(limit).unwrap_or(usize::MAX) {
                break;
            }
        }
        Ok(())
    }

    async fn forget(&self, statement: &Statement) -> StoreResult<()> {
        self.work.get().await?.execute(statement, &[]).await?;
        Ok(())
    }

    pub(super) async fn cancel_expired(&self, limit: u32) -> StoreResult<u64> {
        let (now, limit) = (self.now_param(), int4(limit));
        let ids = self.ids(&self.sql.expired, &[instant(&now), small_number(&limit)]).await?;
        self.move_waiting(&ids, |live| Some(live.cancelled(EXPIRED_REASON))).await
    }

    async fn served(&self) -> StoreResult<Served> {
        let mut served = Served::default();
        let now = self.now_param();
        for row in &self.work.get().await?.query(&self.sql.served, &[instant(&now)]).await? {
            let (queues, types): (Vec<&str>, Vec<&str>) = (row.try_get(0)?, row.try_get(1)?);
            served.queues.extend(queues.into_iter().filter_map(|name| QueueName::parse(name).ok()));
            served.types.extend(types.into_iter().filter_map(|name| TypeName::parse(name).ok()));
        }
        Ok(served)
    }

    /// Returns the types that have jobs to park. A search for jobs of a type that has none would walk over
    /// all waiting jobs.
    async fn types_waiting(&self) -> StoreResult<HashSet<String>> {
        let rows = self.work.get().await?.query(&self.sql.types_waiting, &[]).await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    /// Parks jobs without a gate whose queue is served by live workers of which none handles their type.
    /// Without any such worker nothing is known: a producer that starts first must not see its jobs parked.
    async fn park_unhandled(&self, limit: u32, served: &Served) -> StoreResult<u64> {
        self.reload().await?;
        let waiting = self.types_waiting().await?;
        let mut parked = 0;
        for spec in self.catalogue().types() {
            let left = u64::from(limit).saturating_sub(parked);
            let is_unhandled = served.queues.contains(&spec.queue) && !served.types.contains(&spec.name);
            if left == 0 || !is_unhandled || !waiting.contains(spec.name.as_str()) {
                continue;
            }
            let gate = Gate::no_handler(&spec.name);
            let (queue, name) = (spec.queue.as_str(), spec.name.as_str());
            let left = i32::try_from(left).unwrap_or(i32::MAX);
            let params = [text(&queue), text(&name), small_number(&left)];
            let ids = self.ids(&self.sql.waiting_of_type, &params).await?;
            parked += self
                .move_waiting(&ids, |live| {
                    let due = live.due;
                    live.gate.is_none().then(|| live.waits(due, Some(gate.clone())))
                })
                .await?;
        }
        Ok(parked)
    }

    /// Moves jobs with an invalid priority to the dead-letter queue, since no claim would ever read them. A
    /// person who wrote them has removed the constraint of the schema.
    async fn bury_invalid_priority(&self, limit: u32) -> StoreResult<u64> {
        let (queues, limit) = (self.queue_names(), int4(limit));
        let ids = self.ids(&self.sql.invalid_priority, &[texts(&queues), small_number(&limit)]).await?;
        let text = "its row in the store is damaged: expected a priority between 0 and 10";
        let error = JobError::new(ErrorKind::Undecodable, text);
        self.move_waiting(&ids, |live| {
            let applied =
                AppliedTransition { counters: live.counters, state: NewState::Dead { error: error.clone() } };
            let end = AttemptEnd { last_error: Some(error.clone()), ..AttemptEnd::default() };
            live.priority.is_none().then_some(Move { live, applied, end })
        })
        .await
    }

    /// Moves waiting jobs, under lock, as `to` says; jobs that do not wait any more are left alone. Returns
    /// how many moved.
    pub(super) async fn move_waiting(
        &self,
        ids: &[i64],
        to: impl Fn(Live) -> Option<Move> + Send + Sync,
    ) -> StoreResult<u64> {
        self.move_in_parts(ids, &to).await
    }

    /// Moves all at once; but half by half if the server refuses a row. A row that cannot be written stays
    /// where it is, and holds up none of the others.
    async fn move_in_parts(
        &self,
        ids: &[i64],
        to: &(impl Fn(Live) -> Option<Move> + Sync),
    ) -> StoreResult<u64> {
        match (self.move_all(ids, to).await, ids) {
            (Err(fault), [bad]) if fault.is_about_data() => {
                tracing::error!(job.id = bad, ?fault, "moving a waiting job failed; it stays where it is");
                Ok(0)
            }
            (Err(fault), _) if fault.is_about_data() => {
                let (first, second) = ids.split_at(ids.len() / 2);
                let first = Box::pin(self.move_in_parts(first, to)).await?;
                Ok(first + Box::pin(self.move_in_parts(second, to)).await?)
            }
            (result, _) => result,
        }
    }

    async fn move_all(&self, ids: &[i64], to: &(impl Fn(Live) -> Option<Move> + Sync)) -> StoreResult<u64> {
        if ids.is_empty() {
            return Ok(0);
        }
        let tx = self.work.begin().await?;
        let moved = self.move_waiting_in(&tx, ids, to).await;
        let (count, moved) = tx.end(moved).await?;
        self.publish_moved(moved).await;
        Ok(count)
    }

    async fn move_waiting_in(
        &self,
        tx: &Tx,
        ids: &[i64],
        to: &(impl Fn(Live) -> Option<Move> + Sync),
    ) -> StoreResult<(u64, Moved)> {
        let now = self.transaction_now(tx).await?;
        let locked = self.lock_live(tx, ids, true).await?;
        let waiting = locked.jobs.into_iter().filter(|live| !live.runs);
        let moves: Vec<_> = waiting.filter_map(to).collect();
        let count = moves.len() as u64;
        Ok((count, self.write_moves(tx, now, moves, &locked.keys).await?))
    }

    /// The ids that a statement returns.
    pub(super) async fn ids(&self, statement: &Statement, params: &[Param<'_>]) -> StoreResult<Vec<i64>> {
        let rows = self.work.get().await?.query(statement, params).await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    /// Drops the expired days of the history, each in a statement of its own.
    async fn drop_partitions(&self) -> StoreResult<BatchDone> {
        let (now, conn) = (self.now_param(), self.work.get().await?);
        let mut done = BatchDone::default();
        for _ in 0..DROP_DAYS_TIMES {
            let rows = conn.execute(&self.sql.drop_partitions, &[instant(&now)]).await?;
            let Some(row) = rows.first() else { break };
            done.changed += u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0);
            done.more = row.try_get(1)?;
            if !done.more {
                break;
            }
        }
        Ok(done)
    }

    async fn create_partitions(&self) -> StoreResult<()> {
        let now = self.now_param();
        self.work.get().await?.execute(&self.sql.create_partitions, &[instant(&now)]).await?;
        Ok(())
    }

    /// Deletes at most `limit` rows that are older than `kept` microseconds.
    async fn prune_old(&self, statement: &Statement, kept: i64, limit: u32) -> StoreResult<BatchDone> {
        let (now, at_most) = (self.now_param(), int4(limit));
        let params = [instant(&now), number(&kept), small_number(&at_most)];
        let gone = self.work.get().await?.execute(statement, &params).await?.len() as u64;
        Ok(BatchDone { changed: gone, more: gone > 0 && gone >= u64::from(limit) })
    }

    /// Runs each duty on its own, as a sweep does.
    pub(super) async fn prune(&self, limit: u32) -> StoreResult<BatchDone> {
        let limit = limit.min(MAINTENANCE_BATCH_MAX);
        let (receipts, workers) = (micros(RECEIPT_TTL), micros(DEAD_WORKER_KEPT));
        let mut duties = Duties::default();
        duties.attempt(self.create_partitions()).await;
        duties.attempt(self.repair_claims()).await;
        let mut done = duties.attempt(self.drop_partitions()).await;
        for (statement, kept, times) in [
            (&self.sql.prune_rest, 0, 1),
            (&self.sql.prune_receipts, receipts, SMALL_ROWS_TIMES),
            (&self.sql.prune_claims, receipts, SMALL_ROWS_TIMES),
            (&self.sql.prune_traces, receipts, SMALL_ROWS_TIMES),
            (&self.sql.prune_workers, workers, 1),
            (&self.sql.prune_keys, 0, 1),
            (&self.sql.prune_rate_limits, 0, 1),
        ] {
            let pruned = duties.attempt(self.prune_old(statement, kept, limit * times)).await;
            done = BatchDone { changed: done.changed + pruned.changed, more: done.more || pruned.more };
        }
        duties.attempt(self.forget_fairness_keys()).await;
        duties.end(done)
    }

    /// Makes queues stop taking turns that had jobs with fairness keys long ago and have none now, so that
    /// their claims cost what they did before.
    async fn forget_fairness_keys(&self) -> StoreResult<()> {
        let (now, kept) = (self.now_param(), micros(FAIRNESS_KEYS_FORGOTTEN_AFTER));
        let params = [instant(&now), number(&kept)];
        self.work.get().await?.execute(&self.sql.forget_fairness_keys, &params).await.map(drop)
    }
}
