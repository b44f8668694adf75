//! A store with jobs of every kind: jobs that wait, run, are parked or dead, with and without a key, and
//! workers of which one is silent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{Commands, Connection};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Claimed, Suspects};
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::{EnqueueRequest, NewJob, RequestId, When};
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::job_type::TypeSpec;
use windlass_core::key::{KeyClaim, OnConflict};
use windlass_core::lease::{LeaseFence, LeaseRequest, Leases, Taking, TermId};
use windlass_core::names::{DutyName, FairnessKey, Key, OrderingKey, QueueName, TriggerName, TypeName};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::queue::QueueSpec;
use windlass_core::schedules::{JobTemplate, Origin};
use windlass_core::settle::{AttemptReport, Settlement, Transition};
use windlass_core::triggers::acts::declare;
use windlass_core::triggers::{CompletionTrigger, CompletionTriggers, StoredTrigger, Watched, WhichTriggers};
use windlass_core::worker::{WorkerCard, WorkerId};

use super::super::{RedisEngine, RedisOptions, Store};

pub(super) const AWAKE: WorkerId = WorkerId::from_random(1);
pub(super) const SILENT: WorkerId = WorkerId::from_random(2);

pub(super) fn queue() -> QueueName {
    QueueName::parse("main").unwrap()
}

pub(super) fn kind(name: &str) -> TypeName {
    TypeName::parse(name).unwrap()
}

pub(super) fn gate() -> Gate {
    Gate::named("breaker:shop")
}

pub(super) fn duty(name: &str) -> DutyName {
    DutyName::parse(name).unwrap()
}

pub(super) fn oops() -> JobError {
    JobError::new(ErrorKind::Failed, "oops")
}

pub(super) fn new_job() -> NewJob {
    NewJob::new(kind("work"), Payload::default())
}

pub(super) fn with_key(key: &str) -> NewJob {
    let key = KeyClaim { on_conflict: OnConflict::Replace, ..KeyClaim::new(Key::parse(key).unwrap()) };
    NewJob { key: Some(key), ..new_job() }
}

pub(super) fn ordered(ordering_key: &str) -> NewJob {
    NewJob { ordering_key: Some(OrderingKey::parse(ordering_key).unwrap()), ..new_job() }
}

pub(super) fn of_fairness_key(fairness_key: &str) -> NewJob {
    NewJob { fairness_key: Some(FairnessKey::parse(fairness_key).unwrap()), ..new_job() }
}

fn fleeting() -> NewJob {
    NewJob { expires: Some(When::In(Duration::from_secs(50))), ..new_job() }
}

pub(super) fn card(id: WorkerId, types: Vec<TypeName>) -> WorkerCard {
    WorkerCard {
        id,
        host: "here".to_owned(),
        pid: 1,
        version: "test".to_owned(),
        queues: vec![queue()],
        types,
        duties: Vec::new(),
        slots: 0,
        lease: Duration::from_secs(30),
    }
}

pub(super) fn claim_request(worker: WorkerId, limit: u32) -> ClaimRequest {
    ClaimRequest {
        token: ClaimToken::from_random(fastrand::u128(..)),
        repeat: false,
        worker,
        queues: vec![queue()],
        types: vec![kind("work")],
        limit,
        boosted_max: 0,
        suspects: Suspects::LeaveOut,
    }
}

pub(super) fn settled(claimed: &Claimed, transition: Transition) -> Settlement {
    claimed.clone().settled(transition, AttemptReport::default())
}

/// Everything in a namespace, by key.
pub(super) type Dump = BTreeMap<String, Vec<String>>;

pub(super) struct Scenario {
    pub(super) engine: RedisEngine,
    pub(super) clock: Arc<ManualClock>,
    /// Running jobs of the worker that is awake: the first is plain, the next have keys and were tried
    /// before, the last has other jobs of its ordering key behind it.
    pub(super) running: Vec<Claimed>,
    /// The jobs that become heads of their ordering keys when the last of these ends, and when a waiting head
    /// expires.
    pub(super) in_line: Vec<JobId>,
    pub(super) dead: JobId,
    pub(super) waiting: JobId,
    pub(super) lease: LeaseFence,
    /// A completion trigger that watches the queue, and is marked.
    pub(super) trigger: StoredTrigger,
    pub(super) claim: ClaimRequest,
    pub(super) request: RequestId,
    namespace: String,
}

impl Scenario {
    pub(super) async fn new() -> Self {
        let url = windlass_servers::shared::redis_url().expect("a Redis server");
        Self::on(&url, None).await
    }

    /// Builds the scenario on this server, with scripts of the form that servers of this version require, if
    /// not its own.
    pub(super) async fn on(url: &str, scripts_of: Option<u32>) -> Self {
        let namespace = format!("scenario-{:016x}", fastrand::u64(..));
        let clock = Arc::new(ManualClock::starting_at(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()));
        let options = RedisOptions {
            namespace: namespace.clone(),
            clock: Some(clock.clone()),
            listen: false,
            scripts_of,
            ..RedisOptions::default()
        };
        let engine = RedisEngine::connect(url, options).await.unwrap();
        Self::furnish(engine, clock, namespace).await
    }

    async fn furnish(engine: RedisEngine, clock: Arc<ManualClock>, namespace: String) -> Self {
        let types = ["work", "unhandled"].map(|name| TypeSpec::new(kind(name), queue())).to_vec();
        engine.declare(Declaration { queues: vec![QueueSpec::new(queue())], types }).await.unwrap();
        watch_queue(&engine, &clock).await;
        for worker in [AWAKE, SILENT] {
            engine.register(card(worker, vec![kind("work")])).await.unwrap();
        }
        let dead = bury(&engine).await;
        run(&engine, SILENT, vec![new_job(), with_key("silent")], 2).await;
        park(&engine).await;
        let (mut running, claim) = run_again(&engine, &clock).await;
        running.extend(run(&engine, AWAKE, vec![ordered("run")], 1).await);
        engine.cancel(running[2].job.id, "enough").await.unwrap();
        let request = RequestId::from_random(fastrand::u128(..));
        let unhandled = NewJob::new(kind("unhandled"), Payload::default());
        let fleeting_head = NewJob { expires: fleeting().expires, ..ordered("wait") };
        let next = [ordered("run"), ordered("run"), ordered("wait")];
        let mut jobs = vec![new_job(), with_key("waiting"), fleeting(), unhandled, fleeting_head];
        jobs.extend(next);
        let later = NewJob { when: When::In(Duration::from_secs(3_600)), ..of_fairness_key("later") };
        jobs.extend([of_fairness_key("a"), of_fairness_key("b"), new_job(), later]);
        let answers = engine.enqueue(EnqueueRequest { request, jobs }).await.unwrap();
        let waiting = answers[0].job().unwrap();
        let in_line = [5, 7].map(|n: usize| answers[n].job().unwrap()).to_vec();
        let lease = take(&engine).await;
        let mut marked = engine.triggers(&WhichTriggers::Marked(1)).await.unwrap();
        let trigger = marked.triggers.pop().expect("a job has ended");
        clock.advance(Duration::from_secs(20));
        engine
            .extend(windlass_core::worker::Heartbeat {
                worker: AWAKE,
                lease: Duration::from_secs(300),
                idle: false,
            })
            .await
            .unwrap();
        clock.advance(Duration::from_secs(60));
        Self { engine, clock, running, in_line, dead, waiting, lease, trigger, claim, request, namespace }
    }

    pub(super) fn store(&self) -> &Store {
        &self.engine.store
    }

    fn connection(&self) -> Connection {
        let url = windlass_servers::shared::redis_url().expect("a Redis server");
        redis::Client::open(url).unwrap().get_connection().unwrap()
    }

    fn names(&self, rows: &str) -> Vec<String> {
        let pattern = format!("{{{}}}:{rows}*", self.namespace);
        self.connection().keys(pattern).unwrap()
    }

    pub(super) fn dump(&self) -> Dump {
        let mut connection = self.connection();
        let mut dump = BTreeMap::new();
        for name in self.names("") {
            let is_of: String = redis::cmd("TYPE").arg(&name).query(&mut connection).unwrap();
            let values = read_key(&mut connection, &is_of, &name);
            let shown = values.iter().map(|value| value.escape_ascii().to_string()).collect();
            dump.insert(name, shown);
        }
        dump
    }

    /// Replaces rows of this name by values of another kind.
    pub(super) fn spoil(&self, rows: &str) {
        let names = self.names(rows);
        assert!(!names.is_empty(), "there are no {rows}");
        for name in names {
            let _: () = self.connection().set(name, "x").unwrap();
        }
    }
}

/// The key of a job's notes.
pub(super) fn notes(id: JobId) -> String {
    format!("notes:{:014}", id.0)
}

fn read_key(connection: &mut Connection, is_of: &str, name: &str) -> Vec<Vec<u8>> {
    let all = |command: &str, more: &[&str]| redis::cmd(command).arg(name).arg(more).to_owned();
    let mut values: Vec<Vec<u8>> = match is_of {
        "string" => vec![connection.get(name).unwrap()],
        "hash" => {
            let pairs: Vec<(Vec<u8>, Vec<u8>)> = all("HGETALL", &[]).query(connection).unwrap();
            pairs.into_iter().map(|(field, value)| [field, value].join(&b'=')).collect()
        }
        "set" => all("SMEMBERS", &[]).query(connection).unwrap(),
        "zset" => return all("ZRANGE", &["0", "-1", "WITHSCORES"]).query(connection).unwrap(),
        _ => return all("LRANGE", &["0", "-1"]).query(connection).unwrap(),
    };
    values.sort();
    values
}

pub(super) fn claimed(answer: ClaimAnswer) -> Vec<Claimed> {
    match answer {
        ClaimAnswer::Claimed { jobs, .. } => jobs,
        ClaimAnswer::WorkerDead => panic!("the worker lives"),
    }
}

async fn run(engine: &RedisEngine, worker: WorkerId, jobs: Vec<NewJob>, limit: u32) -> Vec<Claimed> {
    let request = RequestId::from_random(fastrand::u128(..));
    engine.enqueue(EnqueueRequest { request, jobs }).await.unwrap();
    claimed(engine.claim(claim_request(worker, limit)).await.unwrap())
}

async fn watch_queue(engine: &RedisEngine, clock: &ManualClock) {
    let name = TriggerName::parse("standing").unwrap();
    let spec = CompletionTrigger::new(name, Watched::Queue(queue()), JobTemplate::new(kind("work")));
    let change = declare(&spec, Origin::Code, None, clock.now()).unwrap();
    engine.change_triggers(&[change]).await.unwrap();
}

async fn bury(engine: &RedisEngine) -> JobId {
    let jobs = run(engine, AWAKE, vec![with_key("dead")], 1).await;
    let bury = Transition::Bury { error: oops() };
    engine.settle(vec![settled(&jobs[0], bury)]).await.unwrap();
    jobs[0].job.id
}

async fn park(engine: &RedisEngine) {
    let jobs = run(engine, AWAKE, vec![new_job(), with_key("parked")], 2).await;
    let park = |claimed| settled(claimed, Transition::Park { gate: gate() });
    engine.settle(jobs.iter().map(park).collect()).await.unwrap();
}

/// Jobs that run for the second time, except for the first job; and the claim that started them.
async fn run_again(engine: &RedisEngine, clock: &ManualClock) -> (Vec<Claimed>, ClaimRequest) {
    let jobs = run(engine, AWAKE, vec![with_key("one"), with_key("two")], 2).await;
    let retry =
        |claimed| settled(claimed, Transition::Retry { after: Duration::from_secs(1), error: oops() });
    engine.settle(jobs.iter().map(retry).collect()).await.unwrap();
    let request = RequestId::from_random(fastrand::u128(..));
    engine.enqueue(EnqueueRequest { request, jobs: vec![new_job()] }).await.unwrap();
    clock.advance(Duration::from_secs(2));
    let claim = claim_request(AWAKE, 3);
    (claimed(engine.claim(claim.clone()).await.unwrap()), claim)
}

async fn take(engine: &RedisEngine) -> LeaseFence {
    let duties = vec![(duty("rescue"), Duration::from_secs(600)), (duty("prune"), Duration::from_secs(600))];
    let request = LeaseRequest { worker: AWAKE, id: TermId::from_random(fastrand::u128(..)), duties };
    match engine.take_leases(&request).await.unwrap()[..] {
        [Taking::Taken(term, _), _] => LeaseFence { duty: duty("rescue"), term },
        ref other => panic!("expected the lease to be free, got {other:?}"),
    }
}
