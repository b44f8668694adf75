//! The behaviour that is specific to PostgreSQL: how a store is opened, which connection errors occur, and
//! what happens when the server dies. Most tests run on the server that all tests share, each in a schema
//! of its own; a test that kills or freezes a server starts one.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

mod errors;
mod opening;
mod tls;
mod tables;
mod damaged_rows;
mod sweep;
mod poison;
#[path = "../workers/mod.rs"]
mod workers;
#[path = "../workers/rollup_rounds.rs"]
mod rollup_rounds;
mod lost_answers;
mod killed_server;
mod listening;
mod waking;
mod pooled;
mod locks;
mod deadlocks;
mod traces;
mod going_on;
mod gates;
mod claims;
mod scans;
mod failover;
mod leases;
mod fairness_keys;
mod rollups;
mod durable;
mod rescued;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use windlass_core::claim::{ClaimAnswer, Claimed};
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Engine, RescueRequest};
use windlass_core::enqueue::NewJob;
use windlass_core::job::JobId;
use windlass_core::lease_watch::Suspicion;
use windlass_core::payload::Payload;
use windlass_core::worker::WorkerId;
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};
use windlass_servers::postgres::{Options, Server, psql};
use windlass_servers::proxy::Proxy;

use workers::words;
use workers::words::{bits, card, claim_request, declaration, kind, queue, request};

const WORKER: WorkerId = WorkerId::from_random(0xfeed);

/// The longest wait, sufficient for a busy machine. Short durations are asserted where they matter.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Polls until there is an answer. For acts of other processes, which send no signal.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = look() {
            return answer;
        }
        assert!(start.elapsed() < WAIT_MAX, "expected within {WAIT_MAX:?}: {what}");
        // may sleep: there is no signal to wait for, so it polls.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Opens a session that belongs to no engine.
async fn session(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Returns a server of our own, which no test kills, and on which the user `guarded` needs a password.
fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let hba = vec!["host all guarded 127.0.0.1/32 scram-sha-256".to_owned()];
        Server::start(&Options { hba, ..quick() }).unwrap()
    })
}

/// Returns options that suffice for tests without a power cut.
fn quick() -> Options {
    Options { fsync: false, ..Options::default() }
}

/// Creates a schema, and a proxy in front of its server.
fn proxied() -> (TestStore, Proxy) {
    let proxy = Proxy::start(server().address()).unwrap();
    (TestStore { url: proxy.url(&server().url()), ..TestStore::on(server().url()) }, proxy)
}

/// A schema that is not created yet.
struct TestStore {
    url: String,
    /// The URL of the same server without a proxy or pooler, for the queries of the test itself.
    direct: String,
    schema: String,
}

impl TestStore {
    /// Chooses the server that all tests share.
    fn shared() -> Self {
        Self::on(windlass_servers::shared::postgres_url().expect("a PostgreSQL server"))
    }

    fn on(url: String) -> Self {
        Self::at(url, format!("test_{:016x}", fastrand::u64(..)))
    }

    fn at(url: String, schema: String) -> Self {
        Self { direct: url.clone(), url, schema }
    }

    fn options(&self) -> PostgresOptions {
        PostgresOptions { schema: self.schema.clone(), ..PostgresOptions::default() }
    }

    async fn open(&self) -> PostgresEngine {
        self.open_with(self.options()).await
    }

    async fn open_with(&self, options: PostgresOptions) -> PostgresEngine {
        PostgresEngine::connect(&self.url, options).await.expect("the server is up")
    }

    /// Opens an engine with a queue, a type and a worker.
    async fn ready(&self) -> PostgresEngine {
        let engine = self.open().await;
        make_ready(&engine).await;
        engine
    }

    /// Runs a statement of another session in the same schema, which is called `windlass` in the text.
    fn sql(&self, text: &str) -> String {
        psql(&self.direct, &text.replace("windlass.", &format!("{}.", self.schema)))
            .expect("the statement is valid")
    }

    fn count(&self, what: &str) -> u64 {
        self.sql(&format!("SELECT count(*) FROM {what}")).parse().expect("a count")
    }
}

fn new_job() -> NewJob {
    NewJob::new(kind(), Payload::default())
}

async fn make_ready(engine: &PostgresEngine) {
    declare(engine).await;
    engine.register(card(WORKER)).await.unwrap();
}

async fn declare(engine: &PostgresEngine) {
    engine.declare(declaration()).await.unwrap();
}

async fn enqueue(engine: &PostgresEngine, count: usize) -> Vec<JobId> {
    let answers = engine.enqueue(request(vec![new_job(); count])).await.unwrap();
    answers.iter().map(|answer| answer.job().expect("plain jobs are accepted")).collect()
}

async fn claim(engine: &PostgresEngine, limit: u32) -> Vec<Claimed> {
    claimed(engine.claim(claim_request(WORKER, limit)).await.unwrap())
}

fn claimed(answer: ClaimAnswer) -> Vec<Claimed> {
    match answer {
        ClaimAnswer::Claimed { jobs, .. } => jobs,
        ClaimAnswer::WorkerDead => panic!("the worker is live"),
    }
}

/// Opens an engine whose clock stays until a test moves it.
async fn on_a_clock(place: &TestStore) -> (PostgresEngine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::starting_at(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()));
    let given: Arc<dyn Clock> = clock.clone();
    let engine = place.open_with(PostgresOptions { clock: Some(given), ..place.options() }).await;
    make_ready(&engine).await;
    (engine, clock)
}

/// Lets the worker send no heartbeat any more; returns the jobs that are taken back from it.
async fn rescue(engine: &PostgresEngine, clock: &ManualClock) -> Vec<JobId> {
    clock.advance(Duration::from_secs(60));
    let silent = vec![Suspicion { worker: WORKER, beats: 0 }];
    let rescued = engine.rescue(RescueRequest { silent, crashes_max: 3, limit: 500 }).await.unwrap();
    let mut returned = rescued.returned;
    returned.sort_unstable();
    returned
}
