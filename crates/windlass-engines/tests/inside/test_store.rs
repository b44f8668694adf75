//! A schema of its own for each test, and the calls that tests make in it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::admin::QueueStatus;
use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Claimed, Suspects};
use windlass_core::clock::Clock;
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, RequestId};
use windlass_core::job::JobId;
use windlass_core::job_type::TypeSpec;
use windlass_core::key::KeyClaim;
use windlass_core::names::{Key, QueueName, TypeName};
use windlass_core::payload::Payload;
use windlass_core::queue::QueueSpec;
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_core::worker::{WorkerCard, WorkerId};
use windlass_engines::postgres::tokio_postgres::{self, Client, NoTls, SimpleQueryMessage};
use windlass_engines::postgres::{Periods, PostgresEngine, PostgresOptions};

pub(crate) const WORKER: WorkerId = WorkerId::from_random(0xfeed);

/// The longest wait, sufficient for a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A schema that no other test uses. It goes with the server, or is left to the owner of the server.
pub(crate) struct TestStore {
    pub(crate) url: String,
    pub(crate) schema: String,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        Self { url, schema: format!("inside_{:016x}", fastrand::u64(..)) }
    }

    /// Creates a schema where a session that waits for a lock keeps waiting until the test has seen it, on
    /// however busy a machine.
    pub(crate) fn patient() -> Self {
        let place = Self::new();
        let options = "options=-c%20lock_timeout%3D10min%20-c%20statement_timeout%3D10min";
        let separator = if place.url.contains('?') { '&' } else { '?' };
        Self { url: format!("{}{separator}{options}", place.url), ..place }
    }

    /// Creates a schema where a session that waits for a lock soon fails.
    pub(crate) fn hasty() -> Self {
        let place = Self::new();
        let separator = if place.url.contains('?') { '&' } else { '?' };
        Self { url: format!("{}{separator}options=-c%20lock_timeout%3D100ms", place.url), ..place }
    }

    fn options(&self) -> PostgresOptions {
        // An engine also abandons a statement without an answer.
        let periods = Periods { answer_within: 2 * WAIT_MAX, ..Periods::default() };
        PostgresOptions { schema: self.schema.clone(), periods, ..PostgresOptions::default() }
    }

    pub(crate) async fn open(&self) -> PostgresEngine {
        PostgresEngine::connect(&self.url, self.options()).await.expect("a schema can be created")
    }

    pub(crate) async fn open_with_clock(&self, clock: Arc<dyn Clock>) -> PostgresEngine {
        let options = PostgresOptions { clock: Some(clock), ..self.options() };
        PostgresEngine::connect(&self.url, options).await.expect("a schema can be created")
    }

    /// Opens an engine with two queues, two types and a worker; the queue `small` takes three jobs.
    pub(crate) async fn ready(&self) -> PostgresEngine {
        let engine = self.open().await;
        let small = QueueSpec { capacity: Some(3), ..QueueSpec::new(queue("small")) };
        let declaration = Declaration {
            queues: vec![QueueSpec::new(queue("main")), small],
            types: vec![
                TypeSpec::new(kind("work"), queue("main")),
                TypeSpec::new(kind("small.work"), queue("small")),
            ],
        };
        engine.declare(declaration).await.unwrap();
        engine.register(card(WORKER)).await.unwrap();
        engine
    }

    /// Opens the connection of another program.
    pub(crate) async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Rewrites a statement for this schema; tests write it as `windlass.`, like the docs.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("windlass.", &format!("{}.", self.schema))
    }

    /// Returns the only value of a query, as text.
    pub(crate) async fn ask(&self, client: &Client, text: &str) -> String {
        let answers = client.simple_query(&self.sql(text)).await.unwrap();
        let rows = answers.iter().filter_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("null").to_owned()),
            _ => None,
        });
        rows.last().expect("one row")
    }

    /// Counts the rows of each kind that an enqueue writes: jobs, keys, changes of counts, receipts.
    pub(crate) async fn traces(&self, client: &Client) -> String {
        let text = "SELECT (SELECT count(*) FROM windlass.delayed_jobs) || ' jobs, '
            || (SELECT count(*) FROM windlass.job_keys) || ' keys, '
            || (SELECT count(*) FROM windlass.count_deltas) || ' changes, '
            || (SELECT count(*) FROM windlass.receipts) || ' receipts'";
        self.ask(client, text).await
    }

    /// Waits until this number of sessions wait for a lock on an object of this schema.
    pub(crate) async fn until_waiting(&self, client: &Client, count: usize) {
        let text = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'",
            self.schema
        );
        let start = Instant::now();
        while self.ask(client, &text).await != count.to_string() {
            assert!(start.elapsed() < WAIT_MAX, "expected {count} sessions to wait for a lock");
            // may sleep: the server notifies no client when a session begins to wait.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

pub(crate) fn kind(name: &str) -> TypeName {
    TypeName::parse(name).unwrap()
}

pub(crate) fn work() -> NewJob {
    NewJob::new(kind("work"), Payload::default())
}

pub(crate) fn keyed(key: &str) -> NewJob {
    NewJob { key: Some(KeyClaim::new(Key::parse(key).unwrap())), ..work() }
}

pub(crate) fn bits() -> u128 {
    fastrand::u128(..)
}

pub(crate) fn card(id: WorkerId) -> WorkerCard {
    WorkerCard {
        id,
        host: "here".to_owned(),
        pid: 1,
        version: "test".to_owned(),
        queues: vec![queue("main"), queue("small")],
        types: vec![kind("work"), kind("small.work")],
        duties: Vec::new(),
        slots: 0,
        lease: Duration::from_secs(30),
    }
}

pub(crate) async fn enqueue(engine: &PostgresEngine, jobs: Vec<NewJob>) -> Vec<EnqueueAnswer> {
    engine.enqueue(EnqueueRequest { request: RequestId::from_random(bits()), jobs }).await.unwrap()
}

pub(crate) fn stored(answers: &[EnqueueAnswer]) -> Vec<JobId> {
    answers.iter().map(|answer| answer.job().expect("the job is accepted")).collect()
}

pub(crate) async fn claim(engine: &PostgresEngine, limit: u32) -> Vec<Claimed> {
    let request = ClaimRequest {
        token: ClaimToken::from_random(bits()),
        repeat: false,
        worker: WORKER,
        queues: vec![queue("main"), queue("small")],
        types: vec![kind("work"), kind("small.work")],
        limit,
        boosted_max: 0,
        suspects: Suspects::LeaveOut,
    };
    match engine.claim(request).await.unwrap() {
        ClaimAnswer::Claimed { jobs, .. } => jobs,
        ClaimAnswer::WorkerDead => panic!("the worker is live"),
    }
}

pub(crate) fn done(claimed: &Claimed) -> Settlement {
    Settlement {
        fence: claimed.fence(),
        transition: Transition::Succeed { result: None },
        report: AttemptReport::default(),
    }
}

pub(crate) async fn succeed(engine: &PostgresEngine, claimed: &Claimed) -> Settled {
    engine.settle(vec![done(claimed)]).await.unwrap()[0]
}

pub(crate) async fn status(engine: &PostgresEngine) -> QueueStatus {
    let queues = engine.queues().await.unwrap();
    queues.into_iter().find(|status| status.spec.name == queue("main")).expect("the queue is declared")
}
