//! The store is unavailable while handlers run and end. This costs them nothing, and the store later shows
//! what really happened.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use windlass::handler::ProgressError;
use windlass::types::admin::{AttemptEnding, StoredAttempt, StoredJob};
use windlass::types::clock::Timestamp;
use windlass::types::engine::Engine;
use windlass::types::job::{JobId, JobState, Progress};
use windlass::{Context, Handlers, JobType, RetryPolicy, State, TypeSpec, Worker, WorkerOptions};
use windlass_servers::proxy::Proxy;

use crate::bench::PATIENCE;
use crate::struck::{self, Server};

/// Long enough for the worker's lease to last while the store is unavailable.
const LEASE: Duration = Duration::from_secs(300);

/// A job that reports its progress as soon as the test allows it, then waits until the test lets it end.
#[derive(Serialize, Deserialize)]
struct Row;

impl JobType for Row {
    const NAME: &'static str = "row";
    fn defaults(spec: TypeSpec) -> TypeSpec {
        TypeSpec { retry: RetryPolicy::Never, ..spec }
    }
}

#[derive(Clone)]
struct Signs {
    reports: mpsc::UnboundedSender<&'static str>,
    go_on: Arc<Notify>,
}

async fn row(_: Row, ctx: Context, State(signs): State<Signs>) -> Result<(), ProgressError> {
    let report = |what| signs.reports.send(what).expect("the test listens to its end");
    report("started");
    signs.go_on.notified().await;
    for percent in 1..=50 {
        ctx.progress(percent, Some("rowing")).await?;
    }
    report("progress reported");
    signs.go_on.notified().await;
    report("ended");
    Ok(())
}

/// The fixture: a server, and a worker behind a proxy.
struct TestStore {
    _server: Server,
    proxy: Proxy,
    direct: Arc<dyn Engine>,
    worker: Worker,
    reports: mpsc::UnboundedReceiver<&'static str>,
    go_on: Arc<Notify>,
}

impl TestStore {
    async fn start() -> Self {
        let server = struck::start();
        let proxy = Proxy::start(server.address()).expect("the proxy starts");
        let (sender, reports) = mpsc::unbounded_channel();
        let go_on = Arc::new(Notify::new());
        let handlers = Handlers::new(Signs { reports: sender, go_on: Arc::clone(&go_on) }).handle(row);
        let options = WorkerOptions { lease: LEASE, ..WorkerOptions::default() };
        let engine = struck::open(&proxy.url(&server.url())).await;
        let worker = Worker::start(engine, handlers, options).await.expect("the worker starts");
        let direct = struck::open(&server.url()).await;
        Self { _server: server, proxy, direct, worker, reports, go_on }
    }

    async fn put(&self) -> JobId {
        self.worker.client().enqueue(Row).await.expect("the job is accepted").id
    }

    async fn expect_report(&mut self, what: &str) {
        let report =
            tokio::time::timeout(PATIENCE, self.reports.recv()).await.expect("the handler continues");
        assert_eq!(report, Some(what));
    }

    fn cut(&self) {
        self.proxy.refuse(true);
        self.proxy.cut_all();
    }

    /// Polls until the job satisfies the condition.
    async fn until(&self, id: JobId, is_so: impl Fn(&StoredJob) -> bool) -> StoredJob {
        let look = async {
            loop {
                let record = self.direct.job(id).await.expect("the server is up").expect("the job is stored");
                if is_so(&record) {
                    return record;
                }
                // may sleep: the worker reports to the store in its own time, and another process sends no
                // signal.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.expect("expected the job to satisfy the condition in time")
    }

    async fn attempt(&self, id: JobId) -> StoredAttempt {
        let attempts = self.direct.attempts(id).await.expect("the server is up");
        <[StoredAttempt; 1]>::try_from(attempts).expect("one attempt").into_iter().next().expect("one")
    }

    async fn now(&self) -> Timestamp {
        self.direct.now().await.expect("the server is up")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_costs_nothing_while_the_store_is_away_and_the_newest_is_stored_when_it_is_back() {
    let mut place = TestStore::start().await;
    let id = place.put().await;
    place.expect_report("started").await;
    place.cut();
    place.go_on.notify_one();
    place.expect_report("progress reported").await;
    place.proxy.refuse(false);
    let newest = Some(Progress { percent: 50, note: Some("rowing".to_owned()) });
    let record = place.until(id, |record| record.job.progress == newest).await;
    assert_eq!(record.job_state(), JobState::Running);
    place.go_on.notify_one();
    place.expect_report("ended").await;
    place.until(id, |record| record.job_state() == JobState::Succeeded).await;
    place.worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_ended_while_the_store_was_away_is_shown_when_it_was() {
    let mut place = TestStore::start().await;
    let id = place.put().await;
    place.expect_report("started").await;
    place.cut();
    place.go_on.notify_one();
    place.expect_report("progress reported").await;
    place.go_on.notify_one();
    place.expect_report("ended").await;
    // may sleep: the store is unavailable for this long after the end, far longer than it takes to send a
    // report.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let still_away = place.now().await;
    place.proxy.refuse(false);
    place.until(id, |record| record.job_state() == JobState::Succeeded).await;
    let attempt = place.attempt(id).await;
    assert_eq!(attempt.ending, AttemptEnding::Succeeded);
    let ended_at = attempt.ended_at.expect("the attempt has ended");
    assert!(attempt.started_at <= ended_at && ended_at <= still_away, "{attempt:?}, away at {still_away}");
    place.worker.stop().await;
}
