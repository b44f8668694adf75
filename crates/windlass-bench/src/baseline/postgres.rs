//! The baseline on PostgreSQL: two connections, prepared statements, batches of 1,000. A claim is one
//! statement, a settle another. The tables, indexes and rows are those of the engine, so the difference is
//! what Windlass adds: rules, counts, keys, receipts, notifications, handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::{Part, pickup};
use crate::figures::{Figures, per_second};
use crate::workload::{self, Work};
use crate::{History, quiesce, session};

const CONNECTIONS: usize = 2;
const BATCH: u64 = 1_000;

/// Each statement is written for its index, and the planner does not know how full the tables are.
const SESSION: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off;
    SET enable_mergejoin = off; SET jit = off; SET plan_cache_mode = force_generic_plan";

const ENQUEUE: &str = "INSERT INTO windlass.delayed_jobs
        (id, scheduled_at, created_at, max_attempts, priority, queue, job_type, payload)
    SELECT nextval('windlass.job_ids'), now(), now(), 5, 5, 'bench', 'bench.work', payload::json
    FROM unnest($1::text[]) AS payload";

/// The sub-select is a common table expression because a plain one may run more than once, and then locks
/// more rows than its limit. As with the engine, a claim does not wait for the disk.
const CLAIM: &str = "WITH due AS MATERIALIZED (
        SELECT id FROM windlass.delayed_jobs
        WHERE queue = 'bench' AND priority = 5 AND locked_at IS NULL AND gate IS NULL AND scheduled_at <= now()
        ORDER BY scheduled_at, id LIMIT $2::bigint FOR UPDATE SKIP LOCKED
    ), without_sync AS MATERIALIZED (
        SELECT set_config('synchronous_commit', 'off', true)
    )
    UPDATE windlass.delayed_jobs j
    SET locked_at = now(), locked_by = $1::text::uuid, token = $1::text::uuid, attempts = j.attempts + 1, boosted = false
    FROM without_sync, due WHERE j.id = due.id
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

pub(super) async fn measure(part: Part, url: &str, schema: &str, jobs: u64) -> Result<Figures> {
    if let Part::Pickup(count) = part {
        return pickup::measure(Single::new(url, schema).await?, count).await;
    }
    let bulk = enqueue(url, schema, jobs).await?;
    let Part::Drain(history) = part else {
        return Ok(Figures::default().with("limit_bulk_per_second", bulk));
    };
    let done = Arc::new(AtomicU64::new(0));
    let mut callers = Vec::new();
    for _ in 0..CONNECTIONS {
        callers.push(Caller::new(url, schema, history, &done).await?);
    }
    quiesce::vacuum(url).await?;
    let started = Instant::now();
    workload::join(callers.into_iter().map(Caller::drain).collect()).await?;
    let took = started.elapsed();
    let done = done.load(Ordering::Relaxed);
    ensure!(done == jobs, "expected {jobs} jobs done by the baseline, got {done}");
    Ok(Figures::default().with("limit_jobs_per_second", per_second(jobs, took)))
}

async fn enqueue(url: &str, schema: &str, jobs: u64) -> Result<f64> {
    let next = Arc::new(AtomicU64::new(0));
    let mut sessions = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = connect(url).await?;
        let enqueue = prepare(&client, ENQUEUE, schema).await?;
        sessions.push((client, enqueue, Arc::clone(&next)));
    }
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for (client, enqueue, next) in sessions {
        callers.spawn(async move {
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= jobs {
                    return Ok(());
                }
                client.execute(&enqueue, &[&payloads(BATCH.min(jobs - first))?]).await?;
            }
        });
    }
    workload::join(callers).await?;
    Ok(per_second(jobs, started.elapsed()))
}

fn payloads(count: u64) -> Result<Vec<String>> {
    (0..count).map(|_| Ok(serde_json::to_string(&Work::new())?)).collect()
}

/// One connection that claims and settles.
struct Caller {
    client: Client,
    claim: Statement,
    settle: Statement,
    done: Arc<AtomicU64>,
}

impl Caller {
    async fn new(url: &str, schema: &str, history: History, done: &Arc<AtomicU64>) -> Result<Self> {
        let client = connect(url).await?;
        let claim = prepare(&client, CLAIM, schema).await?;
        let settle = prepare(&client, if history == History::On { KEEP } else { FORGET }, schema).await?;
        Ok(Self { client, claim, settle, done: Arc::clone(done) })
    }

    async fn drain(self) -> Result<()> {
        let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
        loop {
            let token = format!("{:032x}", fastrand::u128(..));
            let rows = self.client.query(&self.claim, &[&token, &limit]).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut ids: Vec<i64> = Vec::with_capacity(rows.len());
            for row in &rows {
                // A handler needs the payload, so the baseline reads it too.
                std::hint::black_box(row.try_get::<_, &str>(1)?);
                ids.push(row.try_get(0)?);
            }
            let settled = self.client.execute(&self.settle, &[&ids, &token]).await?;
            self.done.fetch_add(settled, Ordering::Relaxed);
        }
    }
}

/// One connection that enqueues, claims and settles one job at a time.
struct Single {
    enqueue: Statement,
    caller: Caller,
}

impl Single {
    async fn new(url: &str, schema: &str) -> Result<Self> {
        let caller = Caller::new(url, schema, History::On, &Arc::default()).await?;
        Ok(Self { enqueue: prepare(&caller.client, ENQUEUE, schema).await?, caller })
    }
}

impl pickup::OneByOne for Single {
    type Claimed = (String, i64);

    async fn enqueue_and_claim(&mut self) -> Result<(String, i64)> {
        let (client, payloads) = (&self.caller.client, payloads(1)?);
        let token = format!("{:032x}", fastrand::u128(..));
        let enqueue: [&(dyn ToSql + Sync); 1] = [&payloads];
        let claim: [&(dyn ToSql + Sync); 2] = [&token, &1_i64];
        let (enqueued, claimed) = tokio::join!(
            client.execute(&self.enqueue, &enqueue),
            client.query_one(&self.caller.claim, &claim)
        );
        enqueued?;
        let row = claimed?;
        std::hint::black_box(row.try_get::<_, &str>(1)?);
        Ok((token, row.try_get(0)?))
    }

    async fn settle(&mut self, (token, id): (String, i64)) -> Result<()> {
        self.caller.client.execute(&self.caller.settle, &[&vec![id], &token]).await?;
        Ok(())
    }
}

async fn connect(url: &str) -> Result<Client> {
    let client = session::connect(url).await?;
    client.batch_execute(SESSION).await?;
    Ok(client)
}

async fn prepare(client: &Client, text: &str, schema: &str) -> Result<Statement> {
    Ok(client.prepare(&text.replace("windlass.", &format!("{schema}."))).await?)
}
