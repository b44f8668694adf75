//! By hand on PostgreSQL: two connections, prepared statements, batches of 1,000; a claim is one statement, a settle
//! another. The tables, indexes and rows are those of the engine, so what differs is what Windlass adds: rules, counts,
//! keys, receipts, wake-ups, handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::task::JoinSet;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::super::figures::{Figures, per_second};
use super::super::load::Work;
use super::super::progress::Progress;
use super::super::session::{connect, refused};
use super::super::{History, failed, rest};
use super::{Part, pickup};
use crate::config::DatabaseUrl;
use crate::exit::Failure;

const CONNECTIONS: usize = 2;
const BATCH: u64 = 1_000;

/// Each statement is written for its index, and the tables are fuller than the planner knows.
const SESSION: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET jit = off; SET plan_cache_mode = force_generic_plan";

const ENQUEUE: &str = "INSERT INTO windlass.delayed_jobs
        (id, scheduled_at, created_at, max_attempts, priority, queue, job_type, payload)
    SELECT nextval('windlass.job_ids'), now(), now(), 5, 5, 'bench', 'bench.work', payload::json
    FROM unnest($1::text[]) AS payload";

/// The common table is a fence: a plain sub-select may be run more than once, and lock more than its limit. As with the
/// engine, a claim does not wait for the disk.
const CLAIM: &str = "WITH due AS MATERIALIZED (
        SELECT id FROM windlass.delayed_jobs
        WHERE queue = 'bench' AND priority = 5 AND locked_at IS NULL AND gate IS NULL AND scheduled_at <= now()
        ORDER BY scheduled_at, id LIMIT $2::bigint FOR UPDATE SKIP LOCKED
    ), light AS MATERIALIZED (
        SELECT set_config('synchronous_commit', 'off', true)
    )
    UPDATE windlass.delayed_jobs j
    SET locked_at = now(), locked_by = $1::text::uuid, token = $1::text::uuid, attempts = j.attempts + 1, boosted = false
    FROM light, due WHERE j.id = due.id
    RETURNING j.id, j.payload::text";

const KEEP: &str = "WITH gone AS MATERIALIZED (
        DELETE FROM windlass.delayed_jobs WHERE id = ANY ($1::bigint[]) AND token = $2::text::uuid RETURNING *
    )
    INSERT INTO windlass.job_history (
        id, keep_until, scheduled_at, created_at, ended_at, started_at, settled_by, worker,
        attempts, max_attempts, failures, crashes, holds, priority, state, queue, job_type, payload, ending
    )
    SELECT id, now() + interval '7 days', scheduled_at, created_at, now(), locked_at, token, locked_by,
        attempts, max_attempts, failures, crashes, holds, priority, 1, queue, job_type, payload, 'succeeded'
    FROM gone";

const FORGET: &str =
    "DELETE FROM windlass.delayed_jobs WHERE id = ANY ($1::bigint[]) AND token = $2::text::uuid";

pub(super) async fn measure(
    part: Part,
    url: &DatabaseUrl,
    schema: &str,
    jobs: u64,
    progress: &Progress,
) -> Result<Figures, Failure> {
    if let Part::Pickup(count) = part {
        return pickup::measure(Single::new(url, schema).await?, count, progress).await;
    }
    let bulk = enqueue(url, schema, jobs).await?;
    let Part::Drain(history) = part else {
        return Ok(Figures::default().with("limit_bulk_per_second", bulk));
    };
    let done = Arc::new(AtomicU64::new(0));
    let mut hands = JoinSet::new();
    let mut ready = Vec::new();
    for _ in 0..CONNECTIONS {
        ready.push(Hand::new(url, schema, history, &done).await?);
    }
    rest::from_vacuum(url).await?;
    let started = Instant::now();
    ready.into_iter().for_each(|hand| drop(hands.spawn(hand.drain())));
    finish(hands).await?;
    let took = started.elapsed();
    let done = done.load(Ordering::Relaxed);
    progress.at(done);
    if done != jobs {
        return Err(failed(format!("expected {jobs} jobs done by hand, got {done}")));
    }
    Ok(Figures::default().with("limit_jobs_per_second", per_second(jobs, took)))
}

async fn enqueue(url: &DatabaseUrl, schema: &str, jobs: u64) -> Result<f64, Failure> {
    let next = Arc::new(AtomicU64::new(0));
    let mut ready = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = session(url).await?;
        let enqueue = prepare(&client, ENQUEUE, schema).await?;
        ready.push((client, enqueue, Arc::clone(&next)));
    }
    let started = Instant::now();
    let mut hands = JoinSet::new();
    for (client, enqueue, next) in ready {
        hands.spawn(async move {
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= jobs {
                    return Ok(());
                }
                let payloads = payloads(BATCH.min(jobs - first))?;
                client.execute(&enqueue, &[&payloads]).await.map_err(refused)?;
            }
        });
    }
    finish(hands).await?;
    Ok(per_second(jobs, started.elapsed()))
}

fn payloads(count: u64) -> Result<Vec<String>, Failure> {
    (0..count).map(|_| serde_json::to_string(&Work::new()).map_err(failed)).collect()
}

/// One connection that claims and settles.
struct Hand {
    client: Client,
    claim: Statement,
    settle: Statement,
    done: Arc<AtomicU64>,
}

impl Hand {
    async fn new(
        url: &DatabaseUrl,
        schema: &str,
        history: History,
        done: &Arc<AtomicU64>,
    ) -> Result<Self, Failure> {
        let client = session(url).await?;
        let claim = prepare(&client, CLAIM, schema).await?;
        let settle = prepare(&client, if history == History::On { KEEP } else { FORGET }, schema).await?;
        Ok(Self { client, claim, settle, done: Arc::clone(done) })
    }

    async fn drain(self) -> Result<(), Failure> {
        let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
        loop {
            let token = format!("{:032x}", fastrand::u128(..));
            let rows = self.client.query(&self.claim, &[&token, &limit]).await.map_err(refused)?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut ids: Vec<i64> = Vec::with_capacity(rows.len());
            for row in &rows {
                // A handler needs the payload, so the work by hand reads it too.
                std::hint::black_box(row.try_get::<_, &str>(1).map_err(refused)?);
                ids.push(row.try_get(0).map_err(refused)?);
            }
            let settled = self.client.execute(&self.settle, &[&ids, &token]).await.map_err(refused)?;
            self.done.fetch_add(settled, Ordering::Relaxed);
        }
    }
}

/// One connection that stores, claims and settles a job at a time.
struct Single {
    enqueue: Statement,
    hand: Hand,
}

impl Single {
    async fn new(url: &DatabaseUrl, schema: &str) -> Result<Self, Failure> {
        let hand = Hand::new(url, schema, History::On, &Arc::default()).await?;
        Ok(Self { enqueue: prepare(&hand.client, ENQUEUE, schema).await?, hand })
    }
}

impl pickup::OneByOne for Single {
    type Claimed = (String, i64);

    async fn put_and_claim(&mut self) -> Result<(String, i64), Failure> {
        let (client, payloads) = (&self.hand.client, payloads(1)?);
        let token = format!("{:032x}", fastrand::u128(..));
        let put: [&(dyn ToSql + Sync); 1] = [&payloads];
        let claim: [&(dyn ToSql + Sync); 2] = [&token, &1_i64];
        let (stored, claimed) =
            tokio::join!(client.execute(&self.enqueue, &put), client.query_one(&self.hand.claim, &claim));
        stored.map_err(refused)?;
        let row = claimed.map_err(refused)?;
        std::hint::black_box(row.try_get::<_, &str>(1).map_err(refused)?);
        Ok((token, row.try_get(0).map_err(refused)?))
    }

    async fn settle(&mut self, (token, id): (String, i64)) -> Result<(), Failure> {
        self.hand.client.execute(&self.hand.settle, &[&vec![id], &token]).await.map(drop).map_err(refused)
    }
}

async fn session(url: &DatabaseUrl) -> Result<Client, Failure> {
    let client = connect(url).await?;
    client.batch_execute(SESSION).await.map_err(refused)?;
    Ok(client)
}

async fn prepare(client: &Client, text: &str, schema: &str) -> Result<Statement, Failure> {
    client.prepare(&text.replace("windlass.", &format!("{schema}."))).await.map_err(refused)
}

async fn finish(mut hands: JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    while let Some(hand) = hands.join_next().await {
        hand.map_err(failed)??;
    }
    Ok(())
}
