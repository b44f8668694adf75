//! The fixture: a server behind a proxy, a spool, and helpers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use windlass::fallback::{Connect, FallbackEngine, FallbackOptions};
use windlass::postgres::{PostgresEngine, PostgresOptions};
use windlass::redis::{RedisEngine, RedisOptions};
use windlass::sqlite::{SqliteEngine, SqliteOptions};
use windlass::types::admin::Totals;
use windlass::types::engine::{Admin, Engine};
use windlass::types::fallback::{FallbackStatus, SwitchRules};
use windlass::types::spool::Spool;
use windlass::{MemoryEngine, WorkerOptions};
use windlass_servers::proxy::Proxy;
use windlass_servers::{postgres, redis};

/// A limit that no test reaches.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A server that loses nothing when it is killed, behind a proxy that can cut it off.
pub(crate) struct Primary {
    server: Server,
    proxy: Proxy,
}

enum Server {
    Redis(redis::Server),
    Postgres(postgres::Server),
}

impl Primary {
    pub(crate) fn redis() -> Self {
        let settings = vec![("appendfsync".to_owned(), "always".to_owned())];
        let server = redis::Server::start(&redis::Options { settings, ..redis::Options::default() }).unwrap();
        let proxy = Proxy::start(server.address()).unwrap();
        Self { server: Server::Redis(server), proxy }
    }

    pub(crate) fn postgres() -> Self {
        let server = postgres::Server::start(&postgres::Options::default()).unwrap();
        let proxy = Proxy::start(server.address()).unwrap();
        Self { server: Server::Postgres(server), proxy }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.server {
            Server::Redis(_) => "redis",
            Server::Postgres(_) => "postgres",
        }
    }

    fn url(&self) -> String {
        match &self.server {
            Server::Redis(server) => server.url(),
            Server::Postgres(server) => server.url(),
        }
    }

    /// Opens the server directly, without proxy and spool.
    pub(crate) async fn store(&self) -> Arc<dyn Engine> {
        open(self.name(), self.url()).await.unwrap()
    }

    pub(crate) fn kill(&mut self) {
        tokio::task::block_in_place(|| match &mut self.server {
            Server::Redis(server) => server.kill().unwrap(),
            Server::Postgres(server) => server.kill().unwrap(),
        });
    }

    pub(crate) fn restart(&mut self) {
        tokio::task::block_in_place(|| match &mut self.server {
            Server::Redis(server) => server.restart().unwrap(),
            Server::Postgres(server) => server.restart().unwrap(),
        });
    }

    /// Cuts the server off: it runs, and no connection reaches it.
    pub(crate) fn cut(&self) {
        self.proxy.refuse(true);
        self.proxy.cut_all();
    }

    pub(crate) fn reconnect(&self) {
        self.proxy.refuse(false);
    }

    /// Lets the proxy accept calls without answering them, or ends that.
    pub(crate) fn fall_silent(&self, is_silent: bool) {
        self.proxy.freeze(is_silent);
    }

    /// Opens an engine with this server as the primary and a spool.
    pub(crate) async fn with(&self, spool: Arc<dyn Spool>) -> Arc<FallbackEngine> {
        self.with_options(spool, quick()).await
    }

    pub(crate) async fn with_options(
        &self,
        spool: Arc<dyn Spool>,
        options: FallbackOptions,
    ) -> Arc<FallbackEngine> {
        let (name, url) = (self.name(), self.proxy.url(&self.url()));
        let connect: Connect = Arc::new(move || Box::pin(open(name, url.clone())));
        Arc::new(FallbackEngine::open(name, connect, spool, options).await.unwrap())
    }
}

async fn open(name: &'static str, url: String) -> windlass::types::engine::Result<Arc<dyn Engine>> {
    Ok(match name {
        "redis" => Arc::new(RedisEngine::connect(&url, RedisOptions::default()).await?),
        _ => Arc::new(PostgresEngine::connect(&url, PostgresOptions::default()).await?),
    })
}

pub(crate) fn quick() -> FallbackOptions {
    let rules = SwitchRules {
        failures: 2,
        successes: 2,
        away_min: Duration::from_millis(100),
        away_max: Duration::from_millis(100),
        ..SwitchRules::default()
    };
    FallbackOptions {
        // Longer than a busy machine delays an answer: a check without an answer counts as a failure.
        check_timeout: Duration::from_secs(5),
        check_every: Duration::from_millis(20),
        adopt_after: Duration::from_millis(500),
        rules,
        ..FallbackOptions::default()
    }
}

pub(crate) fn memory() -> Arc<dyn Spool> {
    Arc::new(MemoryEngine::for_spool())
}

pub(crate) fn sqlite(folder: &Path) -> Arc<dyn Spool> {
    Arc::new(SqliteEngine::open(folder.join("spool.db"), SqliteOptions::for_spool()).unwrap())
}

pub(crate) fn options() -> WorkerOptions {
    WorkerOptions {
        // A busy machine sends heartbeats in time for this lease.
        lease: Duration::from_secs(10),
        heartbeat_every: Duration::from_millis(500),
        sweep_every: Duration::from_millis(200),
        ..WorkerOptions::default()
    }
}

pub(crate) async fn status(engine: &FallbackEngine) -> FallbackStatus {
    engine.fallback().await.unwrap().expect("the engine has a fallback")
}

/// Waits until the condition holds, checking it after each event of the engine.
pub(crate) async fn until(engine: &FallbackEngine, what: &str, is_so: impl AsyncFn() -> bool) {
    let mut heard = engine.heard();
    let waiting = async {
        while !is_so().await {
            heard.changed().await.expect("the engine is not dropped");
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("expected this within {PATIENCE:?}: {what}"));
}

pub(crate) async fn until_away(engine: &FallbackEngine) {
    until(engine, "the store is away", async || {
        let status = status(engine).await;
        status.active != status.primary
    })
    .await;
}

pub(crate) async fn until_back(engine: &FallbackEngine) {
    until(engine, "the store is back", async || {
        let status = status(engine).await;
        status.active == status.primary
    })
    .await;
}

/// The totals of the built-in queue `default`.
pub(crate) async fn totals(store: &dyn Engine) -> Totals {
    let all = store.queues().await.unwrap();
    all.into_iter().find(|queue| queue.spec.name.as_str() == "default").expect("the queue is built in").totals
}
