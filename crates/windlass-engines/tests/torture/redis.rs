//! Redis that syncs each write before it answers: no acknowledged write may be lost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::engine::Engine;
use windlass_core::job::JobId;
use windlass_core::worker::WorkerId;
use windlass_engines::redis::{Periods, RedisEngine, RedisOptions};
use windlass_servers::Error;
use windlass_servers::proxy::Proxy;
use windlass_servers::redis::{Options, Server};

use crate::plan::{Fault, Plan};
use crate::process::{Way, work_if_asked};
use crate::redis_everysec::{MAY_LOSE, Tail};
use crate::run::strike_as;
use crate::store::Store;

const NAMESPACE: &str = "windlass";

#[tokio::test(flavor = "multi_thread")]
async fn faults_in_turn_lose_nothing_and_end_nothing_twice() {
    if work_if_asked(async |url, namespace| open(&url, options(&namespace)).await).await {
        return;
    }
    strike(Plan::asked_for(&[&Fault::ALL[..], &Fault::REDIS].concat())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_scripts_and_runs_out_of_memory_loses_nothing_and_ends_nothing_twice() {
    strike(Plan::short(&Fault::REDIS)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_syncs_always_and_is_killed_under_load_loses_nothing_and_ends_nothing_twice() {
    strike(Plan::short(&[Fault::Kill, Fault::Kill, Fault::Restart])).await;
}

crate::run::faults_of_every_store!();

async fn strike(plan: Plan) {
    let test_name = "redis::faults_in_turn_lose_nothing_and_end_nothing_twice";
    strike_as(plan, Redis::start(&[("appendfsync", "always")], test_name)).await;
}

pub(crate) struct Redis {
    pub(crate) server: Server,
    proxy: Proxy,
    test_name: &'static str,
    /// The end of its append-only file, if it may lose some.
    pub(crate) tail: Option<Tail>,
}

impl Redis {
    pub(crate) fn start(settings: &[(&str, &str)], test_name: &'static str) -> Self {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let options = Options { settings: settings.collect(), ..Options::default() };
        let server = Server::start(&options).unwrap();
        let proxy = Proxy::start(server.address()).unwrap();
        Self { server, proxy, test_name, tail: None }
    }

    fn url(&self) -> String {
        self.proxy.url(&self.server.url())
    }

    fn connection(&self) -> redis::Connection {
        redis::Client::open(self.server.url()).unwrap().get_connection().unwrap()
    }
}

#[async_trait]
impl Store for Redis {
    fn way(&self) -> Way {
        Way { test_name: self.test_name, url: self.url(), place: NAMESPACE.to_owned() }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    async fn direct(&self) -> Arc<dyn Engine> {
        open(&self.server.url(), options(NAMESPACE)).await
    }

    /// Opens two engines. The second abandons a silent connection sooner than the first.
    async fn engines(&self) -> [Arc<dyn Engine>; 2] {
        let periods = Periods { answer_within: Duration::from_secs(1), ..Periods::default() };
        let impatient = RedisOptions { periods, ..options(NAMESPACE) };
        [open(&self.url(), options(NAMESPACE)).await, open(&self.url(), impatient).await]
    }

    fn kill(&mut self) -> Result<(), Error> {
        self.server.kill()
    }

    fn cut_power(&mut self) -> Result<(), Error> {
        let tail = self.tail.as_ref().expect("a server that syncs always loses nothing");
        self.server.kill()?;
        tail.cut_back();
        Ok(())
    }

    fn may_lose(&self) -> Duration {
        self.tail.as_ref().map_or(Duration::ZERO, |_| MAY_LOSE)
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

    fn forget_scripts(&self) {
        redis::cmd("SCRIPT").arg("FLUSH").query(&mut self.connection()).unwrap()
    }

    fn set_full(&self, full: bool) {
        let most = if full { "100kb" } else { "0" };
        redis::cmd("CONFIG").arg(&["SET", "maxmemory", most]).query(&mut self.connection()).unwrap()
    }

    fn held_by(&self, worker: WorkerId) -> Vec<JobId> {
        let mut connection = self.connection();
        let held = [format!("{{{NAMESPACE}}}:held:").as_bytes(), &worker.to_bytes()].concat();
        let ids: Vec<String> = redis::cmd("SMEMBERS").arg(held).query(&mut connection).unwrap();
        ids.iter().map(|id| JobId(id.parse().expect("a number"))).collect()
    }
}

pub(crate) fn options(namespace: &str) -> RedisOptions {
    RedisOptions { namespace: namespace.to_owned(), ..RedisOptions::default() }
}

pub(crate) async fn open(url: &str, options: RedisOptions) -> Arc<dyn Engine> {
    Arc::new(RedisEngine::connect(url, options).await.expect("the server is up"))
}
