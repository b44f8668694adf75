//! PostgreSQL, with fsync on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::engine::Engine;
use windlass_core::job::JobId;
use windlass_core::worker::WorkerId;
use windlass_engines::postgres::{Periods, PostgresEngine, PostgresOptions};
use windlass_servers::Error;
use windlass_servers::postgres::{Options, Server};
use windlass_servers::proxy::Proxy;

use crate::plan::{Fault, Plan};
use crate::process::{Way, work_if_asked};
use crate::run::strike_as;
use crate::store::Store;

const SCHEMA: &str = "windlass";

#[tokio::test(flavor = "multi_thread")]
async fn faults_in_turn_lose_nothing_and_end_nothing_twice() {
    if work_if_asked(async |url, schema| open(&url, options(&schema)).await).await {
        return;
    }
    strike(Plan::asked_for(&Fault::ALL)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_under_load_loses_nothing_and_ends_nothing_twice() {
    strike(Plan::short(&[Fault::Kill, Fault::Kill, Fault::Restart])).await;
}

crate::run::faults_of_every_store!();

async fn strike(plan: Plan) {
    let server = Server::start(&Options::default()).unwrap();
    let proxy = Proxy::start(server.address()).unwrap();
    // In a short run the server ends idle transactions sooner, since a worker that is stopped inside a
    // transaction is rescued only after that.
    let settings = if plan.is_long { "" } else { "-c%20idle_in_transaction_session_timeout%3D2s" };
    let url = format!("{}?options={settings}", proxy.url(&server.url()));
    strike_as(plan, Postgres { server, proxy, url }).await;
}

struct Postgres {
    server: Server,
    proxy: Proxy,
    /// The URL that leads through the proxy.
    url: String,
}

#[async_trait]
impl Store for Postgres {
    fn way(&self) -> Way {
        let test_name = "postgres::faults_in_turn_lose_nothing_and_end_nothing_twice";
        Way { test_name, url: self.url.clone(), place: SCHEMA.to_owned() }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    async fn direct(&self) -> Arc<dyn Engine> {
        open(&self.server.url(), options(SCHEMA)).await
    }

    /// Opens two engines. The second abandons a silent connection sooner than the first, and keeps no state
    /// in a session.
    async fn engines(&self) -> [Arc<dyn Engine>; 2] {
        let periods = Periods { answer_within: Duration::from_secs(1), ..Periods::default() };
        let impatient = PostgresOptions { periods, pooled: true, ..options(SCHEMA) };
        [open(&self.url, options(SCHEMA)).await, open(&self.url, impatient).await]
    }

    fn kill(&mut self) -> Result<(), Error> {
        self.server.kill()
    }

    fn restart(&mut self) -> Result<(), Error> {
        self.server.restart()
    }

    fn freeze(&self) -> Result<(), Error> {
        self.server.freeze()
    }

    fn thaw(&self) -> Result<(), Error> {
        self.server.thaw()
    }

    /// Reads the jobs of a worker. A worker is printed as the beginning of its id.
    fn held_by(&self, worker: WorkerId) -> Vec<JobId> {
        let theirs = format!("replace(locked_by::text, '-', '') LIKE '{worker}%'");
        let ids = self.server.psql(&format!("SELECT id FROM {SCHEMA}.delayed_jobs WHERE {theirs}")).unwrap();
        ids.lines().map(|id| JobId(id.parse().expect("a number"))).collect()
    }

    /// Counts the open transactions; all sessions of this server are ours.
    fn left_open(&self) -> u64 {
        let open = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
        self.server.psql(open).unwrap().parse().expect("a count")
    }
}

fn options(schema: &str) -> PostgresOptions {
    PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::default() }
}

async fn open(url: &str, options: PostgresOptions) -> Arc<dyn Engine> {
    Arc::new(PostgresEngine::connect(url, options).await.expect("the server is up"))
}
