//! A primary behind a proxy that can be cut, a spool, and short verbs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::admin::{ListRequest, StoredJob};
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::{EnqueueAnswer, NewJob};
use windlass_core::fallback::{FallbackStatus, SwitchRules};
use windlass_core::job::{JobId, StoredState};
use windlass_core::limits::LIST_PAGE_MAX;
use windlass_core::payload::Payload;
use windlass_core::spool::Spool;
use windlass_engines::fallback::{Connect, FallbackEngine, FallbackOptions};
use windlass_engines::memory::MemoryEngine;
use windlass_engines::redis::{Periods, RedisEngine, RedisOptions};
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};
use windlass_servers::proxy::Proxy;

pub(crate) use crate::words::{card, claim_request, declaration, kind, queue, request};

/// The longest wait of a test.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(120);

/// A primary that can be cut off.
pub(crate) struct Primary {
    pub(crate) proxy: Proxy,
    pub(crate) name: &'static str,
    pub(crate) namespace: String,
    pub(crate) connect: Connect,
    /// The primary's engine without the proxy.
    pub(crate) store: Arc<dyn Engine>,
}

impl Primary {
    /// Creates a namespace of its own on the server that all tests share.
    pub(crate) async fn on_redis() -> Self {
        Self::on_redis_with(Periods::default()).await
    }

    pub(crate) async fn on_redis_with(periods: Periods) -> Self {
        let url = windlass_servers::shared::redis_url().expect("a Redis server");
        let proxy = Proxy::start(url.trim_start_matches("redis://").parse().unwrap()).unwrap();
        let namespace = format!("home-{:016x}", fastrand::u64(..));
        let options = RedisOptions { namespace: namespace.clone(), periods, ..RedisOptions::default() };
        let store = Arc::new(RedisEngine::connect(&url, options.clone()).await.unwrap());
        let through = proxy.url(&url);
        let connect: Connect = Arc::new(move || {
            let (url, options) = (through.clone(), options.clone());
            Box::pin(
                async move { Ok(Arc::new(RedisEngine::connect(&url, options).await?) as Arc<dyn Engine>) },
            )
        });
        Self { proxy, name: "redis", namespace, connect, store }
    }

    pub(crate) fn go(&self) {
        self.proxy.refuse(true);
        self.proxy.cut_all();
    }

    pub(crate) fn come_back(&self) {
        self.proxy.refuse(false);
    }

    /// Creates an engine of this primary and a spool, with a queue and two types.
    pub(crate) async fn with(&self, spool: Arc<dyn Spool>, options: FallbackOptions) -> FallbackEngine {
        let engine = FallbackEngine::open(self.name, self.connect.clone(), spool, options).await.unwrap();
        engine.declare(declaration()).await.unwrap();
        engine
    }

    pub(crate) async fn with_memory(&self) -> FallbackEngine {
        self.with(memory(), quick()).await
    }
}

pub(crate) fn memory() -> Arc<dyn Spool> {
    Arc::new(MemoryEngine::for_spool())
}

pub(crate) fn sqlite(folder: &Path) -> Arc<dyn Spool> {
    Arc::new(SqliteEngine::open(folder.join("spool.db"), SqliteOptions::for_spool()).unwrap())
}

/// Returns options that switch soon, so that tests need not wait.
pub(crate) fn quick() -> FallbackOptions {
    let rules = SwitchRules {
        failures: 2,
        successes: 2,
        away_min: Duration::from_millis(50),
        away_max: Duration::from_millis(100),
        ..SwitchRules::default()
    };
    FallbackOptions {
        // Longer than a busy machine delays an answer: a check without an answer counts as a failure.
        check_timeout: Duration::from_secs(5),
        check_every: Duration::from_millis(20),
        adopt_after: Duration::from_millis(100),
        rules,
        ..FallbackOptions::default()
    }
}

pub(crate) fn job(number: usize) -> NewJob {
    NewJob::new(kind(), Payload::parse(&number.to_string()).unwrap())
}

pub(crate) async fn put(engine: &FallbackEngine, job: NewJob) -> EnqueueAnswer {
    engine.enqueue(request(vec![job])).await.unwrap().remove(0)
}

/// Enqueues a job and expects it to be spooled.
pub(crate) async fn spool(engine: &FallbackEngine, job: NewJob) -> JobId {
    match put(engine, job).await {
        EnqueueAnswer::Spooled(id) => id,
        other => panic!("expected the job to be spooled, got {other:?}"),
    }
}

pub(crate) async fn status(engine: &FallbackEngine) -> FallbackStatus {
    engine.fallback().await.unwrap().expect("the engine is a fallback")
}

/// Checks the condition after each event of the engine, until it holds.
pub(crate) async fn until(engine: &FallbackEngine, what: &str, is_so: impl AsyncFn() -> bool) {
    let mut heard = engine.heard();
    let waiting = async {
        while !is_so().await {
            heard.changed().await.expect("the engine is kept");
        }
    };
    tokio::time::timeout(WAIT_MAX, waiting).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

pub(crate) async fn until_away(engine: &FallbackEngine) {
    until(engine, "the engine has noticed that the primary is unavailable", async || {
        let status = status(engine).await;
        status.active != status.primary
    })
    .await;
}

pub(crate) async fn until_replayed(engine: &FallbackEngine) {
    until(engine, "everything was replayed", async || {
        let status = status(engine).await;
        status.active == status.primary && status.spool_size == 0
    })
    .await;
}

/// Returns the waiting jobs of a store, by id.
pub(crate) async fn waiting(store: &dyn Engine) -> Vec<StoredJob> {
    let mut jobs: Vec<StoredJob> = Vec::new();
    loop {
        let before = jobs.last().map(|record| record.job.id);
        let request = ListRequest { before, limit: LIST_PAGE_MAX, ..ListRequest::default() };
        let page = store.list(request).await.unwrap();
        if page.is_empty() {
            break;
        }
        jobs.extend(page);
    }
    jobs.retain(|record| matches!(record.state, StoredState::Waiting { .. }));
    jobs.reverse();
    jobs
}

/// Returns the payloads of the waiting jobs of a store.
pub(crate) async fn payloads(store: &dyn Engine) -> Vec<usize> {
    waiting(store).await.iter().map(|record| record.job.payload.decode().unwrap()).collect()
}

/// Returns why a job of the spool ended.
pub(crate) async fn why_ended(engine: &FallbackEngine, id: JobId) -> String {
    match engine.job(id).await.unwrap().expect("the spool keeps the job").state {
        StoredState::Cancelled { why, .. } => why,
        other => panic!("expected the job to have ended, got {other:?}"),
    }
}
