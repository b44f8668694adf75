//! The statements about leases that many workers send while nothing happens, counted by the server itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass::postgres::tokio_postgres::{self, NoTls};
use windlass::types::limits::{HEARTBEAT_EVERY, WORKER_LEASE};

use super::at_length;
use super::client::{Hints, LeaseClient, Life, RequestCounts};
use super::test_store::{STATISTICS, TestStore, open};

/// The limit for all workers together, whatever their number.
pub(super) const STATEMENTS_A_SECOND: f64 = 5.0;
/// How many engines share the work of sending.
const ENGINES: usize = 4;

/// The number of workers, their heartbeats, and how long they are observed.
struct Plan {
    workers: usize,
    life: Life,
    watched: Duration,
}

impl Plan {
    /// In the short form heartbeats are sent more often, so that all workers soon know of each other;
    /// leases have their defaults.
    fn of_this_run() -> Self {
        if at_length() {
            let life = Life { every: HEARTBEAT_EVERY, lease: WORKER_LEASE };
            return Self { workers: 1_000, life, watched: Duration::from_secs(60) };
        }
        let life = Life { every: Duration::from_secs(2), lease: Duration::from_secs(6) };
        Self { workers: 200, life, watched: Duration::from_secs(8) }
    }
}

/// Workers that know of each other.
struct Members {
    workers: usize,
    requests: Arc<RequestCounts>,
    end: watch::Sender<bool>,
    clients: JoinSet<()>,
}

impl Members {
    async fn start(url: &str, plan: &Plan) -> Self {
        let (requests, end) = (Arc::new(RequestCounts::default()), watch::Sender::new(false));
        let mut engines = Vec::new();
        for _ in 0..ENGINES {
            let engine = open(url).await;
            engines.push((Hints::of(&engine), engine));
        }
        let mut clients = JoinSet::new();
        for (hints, engine) in engines.iter().cycle().take(plan.workers) {
            let (hints, engine, requests) = (Arc::clone(hints), Arc::clone(engine), Arc::clone(&requests));
            let client = LeaseClient { engine, hints, requests, life: plan.life, ends: end.subscribe() };
            clients.spawn(client.run());
            // may sleep: heartbeats must be spread over the interval, and not coincide.
            tokio::time::sleep(
                plan.life.every / u32::try_from(plan.workers).expect("the number of workers fits"),
            )
            .await;
        }
        let members = Self { workers: plan.workers, requests, end, clients };
        members.learn_of_each_other().await;
        members
    }

    /// Waits until each worker has sent two more heartbeats, and so knows of all others.
    async fn learn_of_each_other(&self) {
        let enough = self.requests.heartbeat_answers() + 2 * self.workers as u64;
        while self.requests.heartbeat_answers() < enough {
            // may sleep: the counters are polled, since no notification reports them.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn end(mut self) {
        self.end.send_replace(true);
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("a client ends without a panic");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_many_workers_ask_little_about_leases_in_all_and_each_says_that_it_lives_once_in_a_while()
{
    let place = TestStore::postgres_with(
        STATISTICS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
    );
    let plan = Plan::of_this_run();
    let members = Members::start(&place.url(), &plan).await;
    let (server, connection) = tokio_postgres::connect(&place.url(), NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    server
        .batch_execute("CREATE EXTENSION pg_stat_statements")
        .await
        .expect("the extension is installed with the server");
    server.batch_execute("SELECT pg_stat_statements_reset()").await.expect("the server is up");
    let start = Instant::now();
    // may sleep: this is how long they are observed.
    tokio::time::sleep(plan.watched).await;
    let calls = async |name: &str| {
        let count = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query LIKE $1";
        let row = server.query_one(count, &[&format!("-- {name}:%")]).await.expect("the server is up");
        f64::from(u32::try_from(row.get::<_, i64>(0)).expect("the number of calls fits"))
    };
    let seconds = start.elapsed().as_secs_f64();
    let (takes, renewals) = (calls("take_leases").await, calls("renew_leases").await);
    let leases = (takes + renewals + calls("release_leases").await) / seconds;
    let beats = calls("extend").await * plan.life.every.as_secs_f64() / seconds / members.workers as f64;
    let beside =
        calls("asked_to_stop").await * plan.life.every.as_secs_f64() / seconds / members.workers as f64;
    println!(
        "postgres: {} workers: {leases:.2} statements about leases per second ({:.2} to take, {:.2} to renew); each worker {beats:.2} \
         heartbeats per heartbeat interval, and {beside:.2} other statements",
        members.workers,
        takes / seconds,
        renewals / seconds
    );
    members.end().await;
    assert!(renewals > 0.0, "a worker leads");
    assert!(leases <= STATEMENTS_A_SECOND, "{leases:.2} statements per second");
    // Fewer, and leases would lapse.
    assert!((0.25..=1.2).contains(&beats), "{beats:.2} heartbeats per heartbeat interval");
    assert!(beside < 0.05, "an idle worker need not query which jobs were asked to stop: {beside:.2}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_many_workers_ask_little_about_leases_in_all() {
    let place = TestStore::redis();
    let plan = Plan::of_this_run();
    let members = Members::start(&place.url(), &plan).await;
    let client = redis::Client::open(place.url()).expect("a valid address");
    let mut server = client
        .get_multiplexed_async_connection_with_config(&super::ledger::patient())
        .await
        .expect("the server is up");
    let mut scripts = async || -> u64 {
        let stats: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut server).await.expect("the server is up");
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap_or("0");
        line.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number")
    };
    let (before, heartbeat_answers) = (scripts().await, members.requests.heartbeat_answers());
    let (start, requests) = (Instant::now(), members.requests.about_leases());
    // may sleep: this is how long they are observed.
    tokio::time::sleep(plan.watched).await;
    let (all, seconds) = (scripts().await - before, start.elapsed().as_secs_f64());
    // A script that is under way when they are counted may fall on either side.
    let leases =
        all.saturating_sub(members.requests.heartbeat_answers() - heartbeat_answers) as f64 / seconds;
    let by_clients = (members.requests.about_leases() - requests) as f64 / seconds;
    println!(
        "redis: {} workers: {leases:.2} scripts about leases per second by the server's count, {by_clients:.2} by the workers' count",
        members.workers
    );
    members.end().await;
    assert!(by_clients > 0.0, "a worker leads");
    assert!(
        leases <= STATEMENTS_A_SECOND && by_clients <= STATEMENTS_A_SECOND,
        "{leases:.2} scripts per second"
    );
}
