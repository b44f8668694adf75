//! What many workers ask of their server about leases while nothing happens: counted by the server itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass::postgres::tokio_postgres::{self, NoTls};
use windlass::types::limits::{HEARTBEAT_EVERY, WORKER_LEASE};

use super::at_length;
use super::client::{Asked, Hints, LeaseClient, Life};
use super::place::{Place, STATISTICS, open};

/// In all, however many workers there are.
pub(super) const STATEMENTS_A_SECOND: f64 = 5.0;
/// So many engines share the work of sending.
const ENGINES: usize = 4;

/// How many workers, how lively, and for how long they are watched.
struct Plan {
    workers: usize,
    life: Life,
    watched: Duration,
}

impl Plan {
    /// In the short form heartbeats come more often, so that all know of each other soon; leases are as they are by default.
    fn of_this_run() -> Self {
        if at_length() {
            let life = Life { every: HEARTBEAT_EVERY, lease: WORKER_LEASE };
            return Self { workers: 1_000, life, watched: Duration::from_secs(60) };
        }
        let life = Life { every: Duration::from_secs(2), lease: Duration::from_secs(6) };
        Self { workers: 200, life, watched: Duration::from_secs(8) }
    }
}

/// Workers that have heard of each other.
struct Crowd {
    workers: usize,
    asked: Arc<Asked>,
    end: watch::Sender<bool>,
    clients: JoinSet<()>,
}

impl Crowd {
    async fn start(url: &str, plan: &Plan) -> Self {
        let (asked, end) = (Arc::new(Asked::default()), watch::Sender::new(false));
        let mut engines = Vec::new();
        for _ in 0..ENGINES {
            let engine = open(url).await;
            engines.push((Hints::of(&engine), engine));
        }
        let mut clients = JoinSet::new();
        for (hints, engine) in engines.iter().cycle().take(plan.workers) {
            let (hints, engine, asked) = (Arc::clone(hints), Arc::clone(engine), Arc::clone(&asked));
            let client = LeaseClient { engine, hints, asked, life: plan.life, ends: end.subscribe() };
            clients.spawn(client.run());
            // may sleep: heartbeats are to come all the time, and not all at once.
            tokio::time::sleep(plan.life.every / u32::try_from(plan.workers).expect("not so many")).await;
        }
        let members = Self { workers: plan.workers, asked, end, clients };
        members.hear_each_other().await;
        members
    }

    /// Each shows two more heartbeats, and so knows of all others.
    async fn hear_each_other(&self) {
        let enough = self.asked.heartbeat_answers() + 2 * self.workers as u64;
        while self.asked.heartbeat_answers() < enough {
            // may sleep: they are watched, and nobody tells.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn end(mut self) {
        self.end.send_replace(true);
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("a client ends well");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_many_workers_ask_little_about_leases_in_all_and_each_says_that_it_lives_once_in_a_while()
{
    let place =
        Place::postgres_with(STATISTICS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
    let plan = Plan::of_this_run();
    let members = Crowd::start(&place.url(), &plan).await;
    let (server, connection) = tokio_postgres::connect(&place.url(), NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    server
        .batch_execute("CREATE EXTENSION pg_stat_statements")
        .await
        .expect("it is installed with the server");
    server.batch_execute("SELECT pg_stat_statements_reset()").await.expect("the server is up");
    let start = Instant::now();
    // may sleep: this is how long they are watched.
    tokio::time::sleep(plan.watched).await;
    let calls = async |name: &str| {
        let count = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements WHERE query LIKE $1";
        let row = server.query_one(count, &[&format!("-- {name}:%")]).await.expect("the server is up");
        f64::from(u32::try_from(row.get::<_, i64>(0)).expect("not so many"))
    };
    let seconds = start.elapsed().as_secs_f64();
    let (takes, renewals) = (calls("take_leases").await, calls("renew_leases").await);
    let leases = (takes + renewals + calls("release_leases").await) / seconds;
    let beats = calls("extend").await * plan.life.every.as_secs_f64() / seconds / members.workers as f64;
    let beside =
        calls("asked_to_stop").await * plan.life.every.as_secs_f64() / seconds / members.workers as f64;
    println!(
        "postgres: {} workers: {leases:.2} statements about leases a second ({:.2} to take, {:.2} to renew); each worker {beats:.2} \
         heartbeats a heartbeat, and {beside:.2} statements beside them",
        members.workers,
        takes / seconds,
        renewals / seconds
    );
    members.end().await;
    assert!(renewals > 0.0, "somebody leads");
    assert!(leases <= STATEMENTS_A_SECOND, "{leases:.2} statements a second");
    assert!((0.5..=1.2).contains(&beats), "{beats:.2} heartbeats a heartbeat");
    assert!(beside < 0.05, "who runs nothing need not ask what was asked to stop: {beside:.2}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_many_workers_ask_little_about_leases_in_all() {
    let place = Place::redis();
    let plan = Plan::of_this_run();
    let members = Crowd::start(&place.url(), &plan).await;
    let client = redis::Client::open(place.url()).expect("an address");
    let mut server = client.get_multiplexed_async_connection().await.expect("the server is up");
    let mut scripts = async || -> u64 {
        let stats: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut server).await.expect("the server is up");
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap_or("0");
        line.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number")
    };
    let (before, heartbeat_answers) = (scripts().await, members.asked.heartbeat_answers());
    let (start, asked) = (Instant::now(), members.asked.about_leases());
    // may sleep: this is how long they are watched.
    tokio::time::sleep(plan.watched).await;
    let (all, seconds) = (scripts().await - before, start.elapsed().as_secs_f64());
    // A script that is under way when they are counted may fall on either side.
    let leases = all.saturating_sub(members.asked.heartbeat_answers() - heartbeat_answers) as f64 / seconds;
    let by_clients = (members.asked.about_leases() - asked) as f64 / seconds;
    println!(
        "redis: {} workers: {leases:.2} scripts about leases a second by the server's count, {by_clients:.2} by that of the workers",
        members.workers
    );
    members.end().await;
    assert!(by_clients > 0.0, "somebody leads");
    assert!(
        leases <= STATEMENTS_A_SECOND && by_clients <= STATEMENTS_A_SECOND,
        "{leases:.2} scripts a second"
    );
}
