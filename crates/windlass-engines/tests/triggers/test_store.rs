//! A store that several engines open, a trigger in it, and short verbs.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use windlass_core::claim::{ClaimAnswer, Claimed};
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Declaration, Engine};
use windlass_core::enqueue::NewJob;
use windlass_core::job_type::TypeSpec;
use windlass_core::limits::TRIGGER_PAUSE;
use windlass_core::names::{GroupName, QueueName, TriggerName, TypeName};
use windlass_core::payload::Payload;
use windlass_core::queue::QueueSpec;
use windlass_core::schedules::{JobTemplate, Origin};
use windlass_core::settle::{AttemptReport, Settled, Transition};
use windlass_core::triggers::acts::{declare, fire};
use windlass_core::triggers::{CompletionTrigger, TriggerFired, Watched, WhichTriggers};
use windlass_core::worker::{WorkerCard, WorkerId};
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};
use windlass_engines::redis::{RedisEngine, RedisOptions};
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

use crate::words::{card, claim_request, declaration, kind, request};

/// A store that several engines open.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    Sqlite(String),
    Postgres(String, String),
    Redis(String, String),
}

impl Store {
    pub(crate) fn sqlite(folder: &TempDir) -> Self {
        Self::Sqlite(folder.path().join("jobs.db").display().to_string())
    }

    pub(crate) fn postgres() -> Self {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        Self::Postgres(url, format!("triggers_{:016x}", fastrand::u64(..)))
    }

    pub(crate) fn redis() -> Self {
        let url = windlass_servers::shared::redis_url().expect("a Redis server");
        Self::Redis(url, format!("triggers-{:016x}", fastrand::u64(..)))
    }

    /// Formats the store as one line, for another process.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite {path}"),
            Self::Postgres(url, schema) => format!("postgres {url} {schema}"),
            Self::Redis(url, namespace) => format!("redis {url} {namespace}"),
        }
    }

    pub(crate) fn from_line(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        match &words[..] {
            [kind, path] if kind == "sqlite" => Self::Sqlite(path.clone()),
            [kind, url, schema] if kind == "postgres" => Self::Postgres(url.clone(), schema.clone()),
            [kind, url, namespace] if kind == "redis" => Self::Redis(url.clone(), namespace.clone()),
            _ => panic!("{line} is no store"),
        }
    }

    pub(crate) async fn open(&self, clock: &Arc<ManualClock>) -> Arc<dyn Engine> {
        let clock: Arc<dyn Clock> = clock.clone();
        match self {
            Self::Sqlite(path) => {
                let options = SqliteOptions { clock, ..SqliteOptions::default() };
                Arc::new(SqliteEngine::open(path, options).unwrap())
            }
            Self::Postgres(url, schema) => {
                let options = PostgresOptions {
                    schema: schema.clone(),
                    clock: Some(clock),
                    listen: false,
                    ..PostgresOptions::default()
                };
                Arc::new(PostgresEngine::connect(url, options).await.unwrap())
            }
            Self::Redis(url, namespace) => {
                let options = RedisOptions {
                    namespace: namespace.clone(),
                    clock: Some(clock),
                    listen: false,
                    ..RedisOptions::default()
                };
                Arc::new(RedisEngine::connect(url, options).await.unwrap())
            }
        }
    }
}

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::starting_at(Timestamp::parse("2027-01-01T00:00:00Z").unwrap()))
}

pub(crate) fn hooks() -> QueueName {
    QueueName::parse("hooks").unwrap()
}

/// Creates a job of the watched group.
pub(crate) fn grouped() -> NewJob {
    NewJob { group: Some(GroupName::parse("import 7").unwrap()), ..NewJob::new(kind(), Payload::default()) }
}

/// Declares the queues and types, and a trigger of this group whose jobs go to another queue.
pub(crate) async fn set_up(engine: &Arc<dyn Engine>, watch: Watched) {
    set_up_with(engine, &[("done", watch)]).await;
}

/// Declares the queues and types, and triggers with these names.
pub(crate) async fn set_up_with(engine: &Arc<dyn Engine>, triggers: &[(&str, Watched)]) {
    engine.declare(declaration()).await.unwrap();
    let hook = TypeName::parse("hook").unwrap();
    let types = vec![TypeSpec::new(hook.clone(), hooks())];
    engine.declare(Declaration { queues: vec![QueueSpec::new(hooks())], types }).await.unwrap();
    let now = engine.now().await.unwrap();
    let change = |(name, watch): &(&str, Watched)| {
        let job = JobTemplate::new(hook.clone());
        let spec = CompletionTrigger::new(TriggerName::parse(name).unwrap(), watch.clone(), job);
        declare(&spec, Origin::Code, None, now).unwrap()
    };
    let changes: Vec<_> = triggers.iter().map(change).collect();
    engine.change_triggers(&changes).await.unwrap();
}

pub(crate) async fn register(engine: &Arc<dyn Engine>) -> WorkerId {
    let id = WorkerId::from_random(fastrand::u128(..));
    engine.register(WorkerCard { lease: Duration::from_secs(36_000), ..card(id) }).await.unwrap();
    id
}

pub(crate) async fn put(engine: &Arc<dyn Engine>, count: usize) {
    engine.enqueue(request(vec![grouped(); count])).await.unwrap();
}

pub(crate) async fn claim_one(engine: &Arc<dyn Engine>, worker: WorkerId) -> Claimed {
    match engine.claim(claim_request(worker, 1)).await.unwrap() {
        ClaimAnswer::Claimed { mut jobs, .. } => jobs.pop().expect("a job is ready"),
        ClaimAnswer::WorkerDead => panic!("the worker is live"),
    }
}

pub(crate) async fn succeed(engine: &Arc<dyn Engine>, claimed: Claimed) {
    let end = claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
    assert_eq!(engine.settle(vec![end]).await.unwrap(), [Settled::Applied]);
}

/// Evaluates the marked triggers that may be evaluated, like a worker that has ended a job. Returns how
/// many jobs were enqueued.
pub(crate) async fn evaluate(engine: &Arc<dyn Engine>) -> usize {
    let read = engine.triggers(&WhichTriggers::Marked(10)).await.unwrap();
    let firings: Vec<_> = read.triggers.iter().map(|trigger| fire(trigger, read.now)).collect();
    let fired = engine.fire_triggers(&firings).await.unwrap();
    fired.iter().filter(|fired| matches!(fired, TriggerFired::Fired { .. })).count()
}

/// Evaluates until no trigger is marked any more. Returns how many jobs were enqueued.
pub(crate) async fn evaluate_all(engine: &Arc<dyn Engine>, clock: &ManualClock) -> usize {
    let mut made = 0;
    loop {
        clock.advance(TRIGGER_PAUSE);
        let read = engine.triggers(&WhichTriggers::After(None, 10)).await.unwrap();
        if read.triggers.iter().all(|trigger| !trigger.is_marked) {
            return made;
        }
        made += evaluate(engine).await;
    }
}

/// Counts the jobs that all triggers have enqueued.
pub(crate) async fn hook_jobs(engine: &Arc<dyn Engine>) -> u64 {
    let queues = engine.queues().await.unwrap();
    queues.iter().find(|status| status.spec.name == hooks()).unwrap().totals.enqueued
}
