//! Workers: registration, heartbeats, and retirement.

use std::time::Duration;

use tokio_postgres::Row;
use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::lease::membership::{MemberCount, Others, RingPoint};
use windlass_core::names::{DutyName, QueueName, TypeName};
use windlass_core::settle::Transition;
use windlass_core::worker::{
    Heartbeat, HeartbeatAnswer, Liveness, ProofOfLife, WorkerCard, WorkerId, WorkerSighting,
};

use super::Store;
use super::apply::{AttemptEnd, EndedAttempt, Live, Move};
use super::conn::{Conn, Tx};
use super::store_error::StoreResult;
use super::value::{Bits, Instant, instant, maybe, micros, number, text, texts, uuid};

/// How many parked jobs a new worker lets through in one transaction, and in how many transactions; a sweep
/// does the rest.
const LET_THROUGH: u32 = 1_000;
const LET_THROUGH_TIMES: u32 = 10;
/// How long a heartbeat waits for that.
const LET_THROUGH_WITHIN: Duration = Duration::from_secs(5);

impl Store {
    pub(super) async fn register(&self, card: WorkerCard) -> StoreResult<()> {
        let (id, now) = (Bits::from(card.id), self.now_param());
        let (pid, lease) = (i64::from(card.pid), micros(card.lease));
        let (place, slots) = (RingPoint::of(card.id).as_i64(), i64::from(card.slots));
        let queues: Vec<_> = card.queues.iter().map(QueueName::as_str).collect();
        let types: Vec<_> = card.types.iter().map(TypeName::as_str).collect();
        let duties: Vec<_> = card.duties.iter().map(DutyName::as_str).collect();
        let params = [
            instant(&now),
            uuid(&id),
            text(&card.host),
            number(&pid),
            text(&card.version),
            texts(&queues),
            texts(&types),
            number(&lease),
            texts(&duties),
            number(&place),
            number(&slots),
        ];
        let conn = self.work.get().await?;
        let rows = conn.execute(&self.sql.register, &params).await?;
        if rows.is_empty() {
            let why =
                "expected a new worker id, got one that is known already; make a random one for each start";
            return Err(EngineError::Refused(why.to_owned()).into());
        }
        drop(conn);
        self.let_through_soon(&card.types).await;
        Ok(())
    }

    pub(super) async fn extend(
        &self,
        heartbeat: Heartbeat,
        clock: Option<Timestamp>,
    ) -> StoreResult<HeartbeatAnswer> {
        let (worker, lease, now) = (Bits::from(heartbeat.worker), micros(heartbeat.lease), self.now_param());
        let clock = maybe(clock);
        let params = [instant(&now), uuid(&worker), number(&lease), instant(&clock)];
        let conn = self.heart.get().await?;
        let rows = conn.execute(&self.sql.extend, &params).await?;
        let Some(row) = rows.first() else {
            return Ok(HeartbeatAnswer {
                beat: Liveness::Dead,
                members: MemberCount::default(),
                now: self.estimated_now(),
            });
        };
        let was_late: bool = row.try_get(0)?;
        let cancel = match heartbeat.idle {
            true => Vec::new(),
            false => self.asked_to_stop_if_known(&conn, worker).await,
        };
        drop(conn);
        if was_late {
            // While the worker was silent, a sweep may have parked its jobs, since no live worker handled
            // them.
            self.let_through_in_time(type_names(row.try_get(1)?)).await;
        }
        let now = row.try_get::<_, Instant>(2)?.0;
        let others =
            rows.iter().filter_map(|row| read_others(row).transpose()).collect::<StoreResult<Vec<_>>>()?;
        let members = MemberCount::among(&duty_names(row.try_get(3)?), &others);
        Ok(HeartbeatAnswer { beat: Liveness::Alive { cancel }, members, now })
    }

    /// Reads the requests to stop. The heartbeat is stored by now: a query that fails must not make the
    /// worker believe that it is not.
    async fn asked_to_stop_if_known(&self, conn: &Conn, worker: Bits) -> Vec<Fence> {
        self.asked_to_stop_on(conn, worker).await.unwrap_or_else(|fault| {
            tracing::warn!(?fault, "reading the requests to stop failed; the next heartbeat reads them");
            Vec::new()
        })
    }

    /// Lets parked jobs through, within a time limit. A worker that comes back late must not wait long for
    /// it, since its heartbeat counts. Longer work goes on in the background.
    async fn let_through_in_time(&self, types: Vec<TypeName>) {
        if let Some(store) = self.myself.upgrade() {
            let work = tokio::spawn(async move { store.let_through_soon(&types).await });
            let _ = tokio::time::timeout(LET_THROUGH_WITHIN, work).await;
        }
    }

    /// Lets parked jobs through, and only logs a failure. The worker is registered by now: whether this
    /// succeeds does not change that, and a sweep does the rest.
    async fn let_through_soon(&self, types: &[TypeName]) {
        if let Err(fault) = self.let_through_handled(types).await {
            tracing::warn!(
                ?fault,
                "letting through jobs that waited for a handler failed; the next sweep does it"
            );
        }
    }

    async fn let_through_handled(&self, types: &[TypeName]) -> StoreResult<()> {
        for name in types {
            let gate = Gate::no_handler(name);
            for _ in 0..LET_THROUGH_TIMES {
                if self.let_through(&gate, LET_THROUGH).await? < LET_THROUGH {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the running jobs of a worker that were asked to stop.
    pub(super) async fn asked_to_stop(&self, worker: WorkerId) -> StoreResult<Vec<Fence>> {
        let conn = self.heart.get().await?;
        self.asked_to_stop_on(&conn, worker.into()).await
    }

    async fn asked_to_stop_on(&self, conn: &Conn, worker: Bits) -> StoreResult<Vec<Fence>> {
        let rows = conn.query(&self.sql.asked_to_stop, &[uuid(&worker)]).await?;
        rows.iter().map(read_fence).collect()
    }

    /// Whether a worker may claim: it is registered and not declared dead. A worker whose lease expired may
    /// still come back until another process declares it dead.
    pub(super) async fn is_alive(&self, conn: &Conn, worker: WorkerId) -> StoreResult<bool> {
        let worker = Bits::from(worker);
        Ok(!conn.query(&self.sql.find_worker, &[uuid(&worker)]).await?.is_empty())
    }

    pub(super) async fn retire(&self, worker: WorkerId) -> StoreResult<()> {
        self.fold_claims_if_possible().await;
        let tx = self.work.begin().await?;
        let retired = self.retire_in(&tx, worker).await;
        let moved = tx.end(retired).await?;
        self.publish_moved(moved).await;
        self.stop_waiting().await;
        Ok(())
    }

    async fn retire_in(&self, tx: &Tx, worker: WorkerId) -> StoreResult<super::apply::Moved> {
        let id = Bits::from(worker);
        let rows = tx.query(&self.sql.retire, &[uuid(&id)]).await?;
        if rows.is_empty() {
            return Ok(super::apply::Moved::default());
        }
        let rows = tx.query(&self.sql.running_of, &[uuid(&id)]).await?;
        let ids: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let now = self.transaction_now(tx).await?;
        let locked = self.lock_live(tx, &ids, false).await?;
        let held = locked.jobs.into_iter().filter(|live| live.worker == Some(worker));
        let moves = held.map(|live| released(live, now)).collect();
        self.write_moves(tx, now, moves, &locked.keys).await
    }

    /// Returns all workers that were not declared dead or retired.
    pub(super) async fn workers(&self) -> StoreResult<Vec<WorkerSighting>> {
        let conn = self.work.get().await?;
        self.sightings(&conn).await
    }

    pub(super) async fn sightings(&self, conn: &Conn) -> StoreResult<Vec<WorkerSighting>> {
        let rows = conn.query(&self.sql.live_workers, &[instant(&self.now_param())]).await?;
        rows.iter().map(read_sighting).collect()
    }
}

fn released(live: Live, now: windlass_core::clock::Timestamp) -> Move {
    let release = Transition::Release { started: true };
    let ending = release.ending(live.cancel_requested.is_some());
    let attempt = ending.zip(live.worker).map(|(ending, worker)| EndedAttempt {
        number: live.counters.attempts,
        worker,
        started_at: live.since,
        ended_at: now,
        ending,
        error: None,
        output: None,
    });
    let applied = release.apply(now, live.due, live.counters, live.cancel_requested.as_deref());
    Move { live, applied, end: AttemptEnd { attempt, ..AttemptEnd::default() } }
}

fn read_sighting(row: &Row) -> StoreResult<WorkerSighting> {
    let now = row.try_get::<_, Instant>(0)?.0;
    let seen_at = row.try_get::<_, Instant>(9)?.0;
    let queues: Vec<&str> = row.try_get(5)?;
    let card = WorkerCard {
        id: row.try_get::<_, Bits>(1)?.into(),
        host: row.try_get(2)?,
        pid: u32::try_from(row.try_get::<_, i64>(3)?).unwrap_or(0),
        version: row.try_get(4)?,
        queues: queues.into_iter().filter_map(|name| QueueName::parse(name).ok()).collect(),
        types: type_names(row.try_get(6)?),
        duties: duty_names(row.try_get(13)?),
        slots: u32::try_from(row.try_get::<_, i64>(14)?).unwrap_or(0),
        lease: Duration::from_micros(unsigned(row.try_get(7)?)),
    };
    Ok(WorkerSighting {
        card,
        since: row.try_get::<_, Instant>(8)?.0,
        beats: unsigned(row.try_get(11)?),
        silent_for: now.since(seen_at),
        expired: row.try_get::<_, Instant>(10)?.0 <= now,
        // A server knows nothing of the processes behind its sessions; the lease decides.
        proof: ProofOfLife::None,
        running: unsigned(row.try_get(12)?),
        clock_ahead_micros: row.try_get(15)?,
    })
}

/// Reads one set of duties, and how many workers could do them.
fn read_others(row: &Row) -> StoreResult<Option<Others>> {
    let Some(duties) = row.try_get::<_, Option<Vec<&str>>>(4)? else { return Ok(None) };
    let count = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
    let (able, before) = (count(row.try_get(5)?), count(row.try_get(6)?));
    Ok(Some(Others { duties: duty_names(duties), able, before }))
}

fn duty_names(names: Vec<&str>) -> Vec<DutyName> {
    names.into_iter().filter_map(|name| DutyName::parse(name).ok()).collect()
}

fn type_names(names: Vec<&str>) -> Vec<TypeName> {
    names.into_iter().filter_map(|name| TypeName::parse(name).ok()).collect()
}

pub(super) fn read_fence(row: &Row) -> StoreResult<Fence> {
    Ok(Fence { job: JobId(row.try_get(0)?), token: row.try_get::<_, Bits>(1)?.into() })
}

fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}
