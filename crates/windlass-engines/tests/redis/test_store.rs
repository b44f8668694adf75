//! A namespace on a server, and short verbs.

use std::time::{Duration, Instant};

use redis::FromRedisValue;
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Claimed};
use windlass_core::engine::Engine;
use windlass_core::enqueue::{EnqueueRequest, NewJob};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::payload::Payload;
use windlass_core::settle::{AttemptReport, Settlement, Transition};
use windlass_core::worker::WorkerId;
use windlass_engines::redis::{Periods, RedisEngine, RedisOptions};
use windlass_servers::redis::{Options, Server};

use crate::words;
pub(crate) use crate::words::{card, declaration, kind, queue};

pub(crate) const WORKER: WorkerId = WorkerId::from_random(0xfeed);

/// A namespace that is not created yet.
pub(crate) struct TestStore {
    pub(crate) url: String,
    pub(crate) namespace: String,
}

impl TestStore {
    /// Chooses the server that all tests share.
    pub(crate) fn shared() -> Self {
        Self::on(windlass_servers::shared::redis_url().expect("a Redis server"))
    }

    pub(crate) fn on(url: String) -> Self {
        Self { url, namespace: format!("test-{:016x}", fastrand::u64(..)) }
    }

    pub(crate) fn options(&self) -> RedisOptions {
        RedisOptions { namespace: self.namespace.clone(), ..RedisOptions::default() }
    }

    /// Returns options of an engine with a short timeout for answers.
    pub(crate) fn impatient(&self) -> RedisOptions {
        let soon = Duration::from_secs(3);
        let periods = Periods { answer_within: soon, heartbeat_within: soon, ..Periods::default() };
        RedisOptions { periods, ..self.options() }
    }

    pub(crate) async fn open_with(&self, options: RedisOptions) -> RedisEngine {
        RedisEngine::connect(&self.url, options).await.expect("the server is up")
    }

    /// Opens an engine with a queue, a type and a worker.
    pub(crate) async fn ready(&self) -> RedisEngine {
        self.ready_with(self.options()).await
    }

    pub(crate) async fn ready_with(&self, options: RedisOptions) -> RedisEngine {
        let engine = self.open_with(options).await;
        engine.declare(declaration()).await.unwrap();
        engine.register(card(WORKER)).await.unwrap();
        engine
    }

    /// Returns the full name of a key.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{{{}}}:{name}", self.namespace)
    }
}

/// Starts a server with further settings.
pub(crate) fn server(settings: &[(&str, &str)]) -> Server {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Server::start(&Options { settings, ..Options::default() }).unwrap()
}

/// Sends a command to a server, outside of any engine.
pub(crate) fn ask<T: FromRedisValue>(url: &str, words: &[&str]) -> T {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| _ = command.arg(*word));
    command.query(&mut connection).unwrap()
}

pub(crate) fn request(count: usize) -> EnqueueRequest {
    words::request(vec![NewJob::new(kind(), Payload::default()); count])
}

pub(crate) async fn enqueue(engine: &RedisEngine, count: usize) -> Vec<JobId> {
    let answers = engine.enqueue(request(count)).await.unwrap();
    answers.iter().map(|answer| answer.job().expect("plain jobs are accepted")).collect()
}

pub(crate) fn claim_request(limit: u32) -> ClaimRequest {
    words::claim_request(WORKER, limit)
}

pub(crate) async fn claim(engine: &RedisEngine, limit: u32) -> Vec<Claimed> {
    claimed(engine.claim(claim_request(limit)).await.unwrap())
}

pub(crate) fn claimed(answer: ClaimAnswer) -> Vec<Claimed> {
    match answer {
        ClaimAnswer::Claimed { jobs, .. } => jobs,
        ClaimAnswer::WorkerDead => panic!("the worker is live"),
    }
}

pub(crate) fn success(claimed: Claimed) -> Settlement {
    claimed.settled(Transition::Succeed { result: None }, AttemptReport::default())
}

/// The longest wait of a test, on however busy a machine.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// Repeats a call until the engine has found its server again. For a moment calls fail because no server
/// was there; an error that does not pass fails the test at once.
pub(crate) async fn once_it_is_back<T>(mut call: impl AsyncFnMut() -> Result<T, EngineError>) -> T {
    let start = Instant::now();
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => {
                assert!(error.is_passing(), "{error:?}");
                assert!(start.elapsed() < WAIT_MAX, "expected an answer within {WAIT_MAX:?}, got {error:?}");
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Returns the major version of a server. Assertions that depend on it exist for each version.
pub(crate) fn generation(url: &str) -> u32 {
    let info: String = ask(url, &["INFO", "server"]);
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap();
    version.split('.').next().unwrap().parse().unwrap()
}
