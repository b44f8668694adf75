//! What each role of docs/engines/postgres-roles.sql may do, and what it may not do.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue stops")]

#[path = "workers/words.rs"]
mod words;

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use windlass_conformance::harness::HintLog;
use windlass_core::admin::{CancelAnswer, Changed, ListRequest, RetryAnswer};
use windlass_core::breaker::BreakerState;
use windlass_core::claim::{ClaimAnswer, Claimed};
use windlass_core::engine::{Admin, Engine, Hint};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, RequestId};
use windlass_core::error::EngineError;
use windlass_core::key::{KeyClaim, OnConflict};
use windlass_core::lease::{
    LeaseFence, LeaseRelease, LeaseRequest, Leases, LockHolder, LockRecord, LockRequest, Released, Renewal,
    Renewed, Taking, TermId,
};
use windlass_core::names::{BreakerName, DutyName, Key, LimitName, OrderingKey, ScheduleName, TriggerName};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::policies::{Policies, Saved, Take};
use windlass_core::rate_limit::RateLimit;
use windlass_core::rollups::roll_up::roll_up;
use windlass_core::rollups::{RollupOutcome, Rollups, RollupsRequest, Sample};
use windlass_core::schedule::Schedule;
use windlass_core::schedules::{
    self, JobTemplate, Origin, ScheduleChanged, ScheduleSpec, Schedules, WhichSchedules,
};
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_core::triggers::{
    self, CompletionTrigger, CompletionTriggers, TriggerFired, Watched, WhichTriggers,
};
use windlass_core::worker::{Heartbeat, Liveness, WorkerCard, WorkerId};
use windlass_engines::postgres::{Address, Grade, Periods, PostgresEngine, PostgresOptions, enqueue_in};

use words::{card, claim_request, declaration, kind, queue, request};

const ROLES: &str = include_str!("../../../docs/engines/postgres-roles.sql");

const NAMES: [&str; 4] = ["worker", "producer", "client", "reader"];

/// A schema with its roles, and a session for each. Its owner is no superuser, and may create no roles.
struct TestStore {
    schema: String,
    url: String,
    owner: PostgresEngine,
}

impl TestStore {
    async fn new() -> Self {
        let (schema, url) = with_an_owner().await;
        let owner = open(&url_of(&url, &schema, "owner"), &schema, true).await.expect("a fresh schema");
        let place = Self { schema, url, owner };
        place.grant().await;
        place.owner.declare(declaration()).await.unwrap();
        place
    }

    /// Runs the script of grants as the owner.
    async fn grant(&self) {
        grant(&self.url_of("owner"), &self.schema).await;
    }

    async fn as_role(&self, role: &str) -> PostgresEngine {
        open(&self.url_of(role), &self.schema, false).await.expect("the role may connect")
    }

    fn url_of(&self, role: &str) -> String {
        url_of(&self.url, &self.schema, role)
    }

    /// Opens a session without an engine.
    async fn session_of(&self, role: &str) -> Client {
        connect(&self.url_of(role)).await
    }

    /// Fails unless the server refuses a role all of these statements for lack of a right. The schema is
    /// called `windlass` in the texts.
    async fn assert_refused(&self, role: &str, texts: &[&str]) {
        let client = self.session_of(role).await;
        for text in texts {
            let text = text.replace("windlass", &self.schema);
            let refused = client.batch_execute(&text).await.expect_err(&text);
            assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{text}: {refused}");
        }
    }

    /// Returns the names of our tables on which a role has a right, also of tables that are created later.
    async fn tables_with(&self, role: &str, right: &str) -> Vec<String> {
        let text = "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = $1::text::regnamespace
            AND c.relkind IN ('r', 'p', 'v') AND has_table_privilege($2::text, c.oid, $3::text) ORDER BY 1";
        let role = format!("{}_{role}", self.schema);
        let rows = connect(&self.url).await.query(text, &[&self.schema, &role, &right]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Returns the functions with the owner's rights that a role may call.
    async fn powers_of(&self, role: &str) -> Vec<String> {
        let text = "SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = $1::text::regnamespace AND p.prosecdef
            AND p.prorettype <> 'trigger'::regtype AND has_function_privilege($2::text, p.oid, 'EXECUTE') ORDER BY 1";
        let role = format!("{}_{role}", self.schema);
        let rows = connect(&self.url).await.query(text, &[&self.schema, &role]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

/// Creates an empty schema whose owner has no other right, and the four roles, which this owner could not
/// create.
async fn with_an_owner() -> (String, String) {
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let schema = format!("roles_{:016x}", fastrand::u64(..));
    let admin = connect(&url).await;
    let owner =
        format!("CREATE ROLE {schema}_owner LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {schema}_owner");
    admin.batch_execute(&owner).await.unwrap();
    for role in NAMES {
        admin.batch_execute(&format!("CREATE ROLE {schema}_{role} LOGIN")).await.unwrap();
    }
    (schema, url)
}

async fn open(url: &str, schema: &str, migrate: bool) -> Result<PostgresEngine, EngineError> {
    let options = PostgresOptions { schema: schema.to_owned(), migrate, ..PostgresOptions::default() };
    PostgresEngine::connect(url, options).await
}

/// Returns the script of grants, for another schema than the one that it names.
fn roles_of(schema: &str) -> String {
    ROLES.replace("windlass_", &format!("{schema}_")).replace("windlass", schema)
}

async fn grant(url: &str, schema: &str) {
    connect(url).await.batch_execute(&roles_of(schema)).await.unwrap();
}

async fn connect(url: &str) -> Client {
    Address::parse(url).unwrap().connect().await.expect("the role may connect")
}

fn url_of(url: &str, schema: &str, role: &str) -> String {
    let mut config: tokio_postgres::Config = url.parse().unwrap();
    let host = match &config.get_hosts()[0] {
        tokio_postgres::config::Host::Tcp(host) => host.clone(),
        other => panic!("expected a host to connect to, got {other:?}"),
    };
    let user = format!("{schema}_{role}");
    config.user(&user);
    let (port, database) = (config.get_ports()[0], config.get_dbname().unwrap_or("postgres"));
    format!("postgres://{user}@{host}:{port}/{database}")
}

async fn enqueue_one(engine: &PostgresEngine) -> Result<Vec<EnqueueAnswer>, EngineError> {
    engine.enqueue(request(vec![NewJob::new(kind(), Payload::default())])).await
}

async fn register(engine: &PostgresEngine, id: WorkerId) -> Result<(), EngineError> {
    engine.register(card(id)).await
}

async fn claim(engine: &PostgresEngine, worker: WorkerId) -> Result<ClaimAnswer, EngineError> {
    engine.claim(claim_request(worker, 10)).await
}

/// Makes every call of a worker and of the commands beside it, except listening.
async fn do_everything(engine: &PostgresEngine) {
    let worker = WorkerId::from_random(fastrand::u128(..));
    register(engine, worker).await.unwrap();
    for _ in 0..4 {
        enqueue_one(engine).await.unwrap();
    }
    let mut jobs = claimed(claim(engine, worker).await.unwrap());
    let (stopped, dead) = (jobs.remove(0), jobs.remove(0));
    assert_eq!(engine.cancel(stopped.job.id, "not needed").await.unwrap(), CancelAnswer::Requested);
    let heartbeat = Heartbeat { worker, lease: Duration::from_secs(30), idle: false };
    assert_eq!(engine.extend(heartbeat).await.unwrap(), Liveness::Alive { cancel: vec![stopped.fence()] });
    let bury = Transition::Bury { error: JobError::new(ErrorKind::Failed, "oops") };
    let id = dead.job.id;
    let mut ends = vec![dead.settled(bury, AttemptReport::default())];
    ends.extend(jobs.into_iter().chain([stopped]).map(succeeded));
    assert_eq!(engine.settle(ends).await.unwrap(), [Settled::Applied; 4]);
    assert_eq!(engine.retry(id).await.unwrap(), RetryAnswer::Retried);
    assert_eq!(engine.cancel(id, "not needed").await.unwrap(), CancelAnswer::Cancelled);
    assert_eq!(engine.pause(&queue(), Some("a walk"), None).await.unwrap(), Changed::Done);
    assert_eq!(engine.resume(&queue()).await.unwrap(), Changed::Done);
    assert_eq!(engine.set_shut(&queue(), true).await.unwrap(), Changed::Done);
    assert_eq!(engine.set_shut(&queue(), false).await.unwrap(), Changed::Done);
    use_limits_and_leases(engine, worker).await;
    use_rollups(engine).await;
    schedule(engine).await;
    trigger(engine, worker).await;
    engine.sweep(100).await.unwrap();
    engine.prune(100).await.unwrap();
    engine.retire(worker).await.unwrap();
}

/// Uses breakers, rate limits and leases.
async fn use_limits_and_leases(engine: &PostgresEngine, worker: WorkerId) {
    let name = BreakerName::parse("shop").unwrap();
    let saved = engine.save_breaker(&name, 0, &BreakerState::default()).await.unwrap();
    assert_eq!(saved, Saved::Done);
    assert_eq!(engine.breakers().await.unwrap().breakers.len(), 1);
    let pace = RateLimit::new(1, Duration::from_secs(1)).shared_pace();
    let take = Take { limit: LimitName::parse("shop").unwrap(), key: String::new(), pace, wanted: 1 };
    engine.take_tokens(&[take]).await.unwrap();
    let duty = DutyName::parse("tidy").unwrap();
    let duties = vec![(duty.clone(), Duration::from_secs(600))];
    let request = LeaseRequest { worker, id: TermId::from_random(fastrand::u128(..)), duties };
    let [Taking::Taken(term, _)] = engine.take_leases(&request).await.unwrap()[..] else {
        panic!("the lease is free")
    };
    let lease = LeaseFence { duty: duty.clone(), term };
    let renewal = Renewal { lease: lease.clone(), metadata: None };
    assert_eq!(engine.renew_leases(&[renewal]).await.unwrap(), [Renewed::Kept]);
    assert_eq!(engine.step_down(&duty).await.unwrap(), Changed::Done);
    assert_eq!(engine.release_leases(&[LeaseRelease::from(&lease)]).await.unwrap(), [Released::Done]);
    let wanted = LockRequest { worker, duties: vec![duty.clone()], good_for: Duration::from_secs(10) };
    assert_eq!(engine.lock_duties(&wanted).await.unwrap(), [true]);
    let locks = engine.leases().await.unwrap().locks;
    let noted =
        |lock: &LockRecord| lock.duty == duty && lock.holder.as_ref().is_some_and(|by| by.noted.is_some());
    assert!(locks.iter().any(noted), "{locks:?}");
    engine.unlock_duties(worker, &[duty]).await.unwrap();
}

/// Appends a sample, rolls it up, reads the rollups and prunes them.
async fn use_rollups(engine: &PostgresEngine) {
    let sample = Sample { ago: Duration::ZERO, text: format!("{} {} 1 a1 a1\n", queue(), kind()) };
    engine.append_samples(&[sample]).await.unwrap();
    let roll_up = roll_up(engine.rollup_input(10).await.unwrap()).expect("there are samples");
    let kept = engine.rollups_of(&roll_up.keys()).await.unwrap();
    assert_eq!(engine.apply_rollup(&roll_up.onto(kept.rows)).await.unwrap(), RollupOutcome::Done);
    assert_eq!(rollups(engine).await, 1);
    let ages = Duration::from_secs(60 * 60);
    assert_eq!(engine.forget_rollups(ages, 10).await.unwrap().changed, 0);
}

/// Stores a schedule, reads it as due, fires and forgets it.
async fn schedule(engine: &PostgresEngine) {
    let name = ScheduleName::parse(&format!("nightly-{}", fastrand::u32(..))).unwrap();
    let every_hour = Schedule::parse("every 1h").unwrap();
    let spec = ScheduleSpec::new(name.clone(), every_hour, JobTemplate::new(kind()));
    let now = engine.now().await.unwrap();
    let declared = schedules::acts::declare(&spec, Origin::Code, None, now).unwrap();
    engine.change_schedules(&[declared]).await.unwrap();
    engine.schedules(&WhichSchedules::Due(None, 10)).await.unwrap();
    engine.schedules(&WhichSchedules::After(None, 10)).await.unwrap();
    let read = engine.schedules(&WhichSchedules::Named(vec![name.clone()])).await.unwrap();
    let later = now.plus(Duration::from_secs(2 * 60 * 60));
    let firing = schedules::fire::fire(&read.schedules[0], later).expect("a tick has come by then");
    let fired = engine.change_schedules(&[firing.change]).await.unwrap();
    let [ScheduleChanged::Done { version, jobs }] = &fired[..] else {
        panic!("no other process was faster: {fired:?}")
    };
    let job = jobs[0].new_job().expect("the job is the first of its tick");
    assert_eq!(engine.cancel(job, "not needed").await.unwrap(), CancelAnswer::Cancelled);
    engine.change_schedules(&[schedules::acts::remove(&name, *version)]).await.unwrap();
}

/// Stores a completion trigger, marks it by the end of a job, fires and forgets it.
async fn trigger(engine: &PostgresEngine, worker: WorkerId) {
    let name = TriggerName::parse(&format!("hook-{}", fastrand::u32(..))).unwrap();
    let spec = CompletionTrigger::new(name.clone(), Watched::Queue(queue()), JobTemplate::new(kind()));
    let now = engine.now().await.unwrap();
    engine
        .change_triggers(&[triggers::acts::declare(&spec, Origin::Code, None, now).unwrap()])
        .await
        .unwrap();
    enqueue_one(engine).await.unwrap();
    let jobs = claimed(claim(engine, worker).await.unwrap());
    let count = jobs.len();
    let ended = engine.settle(jobs.into_iter().map(succeeded).collect()).await.unwrap();
    assert_eq!(ended, vec![Settled::Applied; count]);
    engine.triggers(&WhichTriggers::After(None, 10)).await.unwrap();
    let marked = engine.triggers(&WhichTriggers::Marked(10)).await.unwrap();
    let stored = marked
        .triggers
        .iter()
        .find(|stored| *stored.name() == name)
        .expect("all jobs of its queue have ended");
    let fired = engine.fire_triggers(&[triggers::acts::fire(stored, marked.now)]).await.unwrap();
    let [TriggerFired::Fired { version, job: EnqueueAnswer::New(job) }] = fired[..] else {
        panic!("{fired:?}")
    };
    assert_eq!(engine.cancel(job, "not needed").await.unwrap(), CancelAnswer::Cancelled);
    engine.change_triggers(&[triggers::acts::remove(&name, version)]).await.unwrap();
}

/// Counts the rollups that this engine reads.
async fn rollups(engine: &PostgresEngine) -> usize {
    let now = engine.now().await.unwrap();
    let hour = Duration::from_secs(60 * 60);
    let request = RollupsRequest::between(now.minus(hour), now.plus(hour));
    engine.rollups(&request).await.unwrap().rows.len()
}

fn claimed(answer: ClaimAnswer) -> Vec<Claimed> {
    match answer {
        ClaimAnswer::Claimed { jobs, .. } => jobs,
        ClaimAnswer::WorkerDead => panic!("the worker is live"),
    }
}

fn succeeded(job: Claimed) -> Settlement {
    job.settled(Transition::Succeed { result: None }, AttemptReport::default())
}

#[tokio::test]
async fn a_worker_does_everything_but_change_the_schema() {
    let place = TestStore::new().await;
    do_everything(&place.as_role("worker").await).await;
    let changes = [
        "CREATE TABLE windlass.mine (n integer)",
        "CREATE INDEX mine ON windlass.delayed_jobs (id)",
        "CREATE VIEW windlass.mine AS SELECT 1",
        "CREATE FUNCTION windlass.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "CREATE TRIGGER mine AFTER INSERT ON windlass.delayed_jobs EXECUTE FUNCTION windlass.wake()",
        "CREATE OR REPLACE FUNCTION windlass.shown(value text) RETURNS text LANGUAGE sql AS 'SELECT 1'",
        "ALTER TABLE windlass.delayed_jobs ADD COLUMN mine integer",
        "ALTER TABLE windlass.delayed_jobs DISABLE TRIGGER ALL",
        "ALTER FUNCTION windlass.create_partitions SECURITY INVOKER",
        "ALTER SEQUENCE windlass.job_ids RESTART",
        "TRUNCATE windlass.delayed_jobs",
        "DROP TABLE windlass.attempts",
        "DROP INDEX windlass.delayed_jobs_ready",
        "DROP FUNCTION windlass.complete",
        "DROP SCHEMA windlass CASCADE",
    ];
    place.assert_refused("worker", &changes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_woken_by_what_others_put_in() {
    let place = TestStore::new().await;
    let periods = Periods { scan_every: Duration::from_secs(3600), ..Periods::default() };
    let options = PostgresOptions {
        schema: place.schema.clone(),
        migrate: false,
        periods: Periods { scans_after_idle: Vec::new(), ..periods },
        ..PostgresOptions::default()
    };
    let engine = PostgresEngine::connect(&place.url_of("worker"), options).await.unwrap();
    let hints = Arc::<HintLog>::default();
    engine.on_hint(Arc::<HintLog>::downgrade(&hints));
    // The listener sends this hint once it listens.
    tokio::task::block_in_place(|| hints.wait_for(&Hint::Any));
    let worker = WorkerId::from_random(fastrand::u128(..));
    register(&engine, worker).await.unwrap();
    assert!(claimed(claim(&engine, worker).await.unwrap()).is_empty());
    // The worker is woken once it is registered as idle.
    tokio::task::block_in_place(|| hints.wait_for(&Hint::Queue(queue())));
    hints.forget();
    let put = format!("SELECT {}.enqueue('work')", place.schema);
    place.session_of("producer").await.batch_execute(&put).await.unwrap();
    tokio::task::block_in_place(|| hints.wait_for(&Hint::Queue(queue())));
    assert_eq!(claimed(claim(&engine, worker).await.unwrap()).len(), 1);
}

#[tokio::test]
async fn an_owner_without_any_other_right_migrates_and_looks_after_everything() {
    let place = TestStore::new().await;
    do_everything(&place.owner).await;
    let client = place.session_of("owner").await;
    let ask = async |text: &str| {
        let text = text.replace("windlass", &place.schema);
        client.query_one(&text, &[]).await.unwrap().get::<_, i64>(0)
    };
    let days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'windlass.job_history'::regclass";
    let made = ask(days).await;
    assert!(made > 1, "the partitions ahead were created, beside the other work: {made}");
    let later = "SELECT windlass.create_partitions(now() + interval '30 days')::bigint";
    let added = ask(later).await;
    assert!(added > 0);
    assert_eq!(ask(days).await, made + added);
    let drop = "SELECT count(*) FROM windlass.drop_partitions(now() + interval '100 years')";
    for left in (1..made + added).rev() {
        ask(drop).await;
        assert_eq!(ask(days).await, left, "one partition was dropped");
    }
}

#[tokio::test]
async fn the_file_can_be_run_again_and_then_makes_what_is_missing() {
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let schema = format!("roles_{:016x}", fastrand::u64(..));
    let owner = open(&url, &schema, true).await.unwrap();
    owner.declare(declaration()).await.unwrap();
    grant(&url, &schema).await;
    let place = TestStore { schema, url, owner };
    let spoil = "GRANT UPDATE ON windlass.delayed_jobs TO windlass_client; REVOKE SELECT ON windlass.workers FROM windlass_reader;
        REASSIGN OWNED BY windlass_producer TO CURRENT_USER; DROP OWNED BY windlass_producer; DROP ROLE windlass_producer";
    connect(&place.url).await.batch_execute(&spoil.replace("windlass", &place.schema)).await.unwrap();
    grant(&place.url, &place.schema).await;
    grant(&place.url, &place.schema).await;
    for role in NAMES {
        let login = format!("ALTER ROLE {}_{role} LOGIN", place.schema);
        connect(&place.url).await.batch_execute(&login).await.unwrap();
    }
    do_everything(&place.as_role("worker").await).await;
    assert_eq!(place.powers_of("producer").await, ["enqueue", "enqueue_many"]);
    assert_eq!(place.tables_with("client", "UPDATE").await, ["delayed_jobs_dlq", "job_keys", "receipts"]);
    let all = place.tables_with("worker", "SELECT").await;
    assert_eq!(place.tables_with("reader", "SELECT").await, all);
}

#[tokio::test]
async fn roles_that_were_made_before_a_migration_have_their_rights_on_what_it_adds() {
    let place = TestStore::new().await;
    let add = "CREATE TABLE windlass.later (n integer); CREATE SEQUENCE windlass.later_ids;
        CREATE FUNCTION windlass.later_act() RETURNS bigint LANGUAGE sql SECURITY DEFINER
        AS 'INSERT INTO windlass.later VALUES (1); SELECT count(*) FROM windlass.later';
        REVOKE EXECUTE ON FUNCTION windlass.later_act FROM PUBLIC";
    let add = add.replace("windlass", &place.schema);
    place.session_of("owner").await.batch_execute(&add).await.unwrap();
    let act = "SELECT nextval('windlass.later_ids'), windlass.later_act()".replace("windlass", &place.schema);
    place.session_of("worker").await.batch_execute(&act).await.unwrap();
    let sees = async |role| place.tables_with(role, "SELECT").await.contains(&"later".to_owned());
    assert!(sees("worker").await && sees("reader").await);
    assert!(!sees("producer").await && !sees("client").await);
    for role in ["producer", "client", "reader"] {
        place.assert_refused(role, &["SELECT windlass.later_act()"]).await;
    }
    place.assert_refused("reader", &["INSERT INTO windlass.later VALUES (2)"]).await;
}

#[tokio::test]
async fn a_producer_puts_jobs_in_with_the_functions_and_can_do_nothing_else() {
    let place = TestStore::new().await;
    let mut client = place.session_of("producer").await;
    let schema = &place.schema;
    client
        .batch_execute(&format!("SELECT {schema}.enqueue('work', key => 'a', ordering_key => 's')"))
        .await
        .unwrap();
    let tx = client.transaction().await.unwrap();
    let jobs = vec![NewJob::new(kind(), Payload::default())];
    assert!(matches!(enqueue_in(&tx, schema, jobs).await.unwrap()[..], [EnqueueAnswer::New(_)]));
    tx.commit().await.unwrap();
    assert_eq!(place.owner.queues().await.unwrap()[0].counts.ready, 2);
    let others = [
        "SELECT payload FROM windlass.delayed_jobs",
        "SELECT * FROM windlass.job_keys",
        "SELECT * FROM windlass.running",
        "UPDATE windlass.delayed_jobs SET priority = 0",
        "UPDATE windlass.delayed_jobs SET locked_by = gen_random_uuid(), locked_at = now()",
        "DELETE FROM windlass.delayed_jobs",
        "INSERT INTO windlass.count_deltas DEFAULT VALUES",
        "SELECT nextval('windlass.job_ids')",
        "SELECT windlass.complete(1, '00000000-0000-0000-0000-000000000000')",
        "SELECT windlass.create_partitions(now())",
        "SELECT windlass.drop_partitions(now())",
        // Functions that these functions call run with the caller's own rights.
        "SELECT windlass.unfinished('main')",
        "SELECT windlass.start_over(1, now())",
    ];
    place.assert_refused("producer", &others).await;
    for right in ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"] {
        assert!(place.tables_with("producer", right).await.is_empty(), "{right}");
    }
    assert_eq!(place.powers_of("producer").await, ["enqueue", "enqueue_many"]);
    let refused = open(&place.url_of("producer"), schema, false).await.unwrap_err();
    assert!(matches!(&refused, EngineError::Unusable { why } if why.contains("lacks a right")), "{refused}");
}

#[tokio::test]
async fn a_client_puts_jobs_in_and_claims_none() {
    let place = TestStore::new().await;
    let engine = place.as_role("client").await;
    assert!(matches!(enqueue_one(&engine).await.unwrap()[..], [EnqueueAnswer::New(_)]));
    let refused = register(&engine, WorkerId::from_random(fastrand::u128(..))).await.unwrap_err();
    assert!(matches!(&refused, EngineError::Unusable { why } if why.contains("lacks a right")), "{refused}");
    let others = [
        "UPDATE windlass.delayed_jobs SET locked_by = gen_random_uuid(), locked_at = now(), token = gen_random_uuid()",
        "UPDATE windlass.delayed_jobs SET cancel_requested = 'no'",
        "DELETE FROM windlass.delayed_jobs",
        "INSERT INTO windlass.claims (token, at) VALUES (gen_random_uuid(), now())",
        "SELECT windlass.complete(1, '00000000-0000-0000-0000-000000000000')",
        "SELECT windlass.drop_partitions('2100-01-01')",
        "UPDATE windlass.queues SET shut = true",
        "INSERT INTO windlass.rollup_samples (at, seen) VALUES (now(), '')",
        "SELECT * FROM windlass.job_rollups",
        "UPDATE windlass.rollup_watermark SET version = 0",
    ];
    place.assert_refused("client", &others).await;
    assert_eq!(
        place.powers_of("client").await,
        ["advance_ordering_key", "enqueue", "enqueue_many", "mark_put_off"]
    );
    assert_eq!(place.owner.queues().await.unwrap()[0].counts.ready, 1);
}

#[tokio::test]
async fn a_reader_sees_all_and_changes_nothing() {
    let place = TestStore::new().await;
    enqueue_one(&place.owner).await.unwrap();
    let engine = place.as_role("reader").await;
    assert_eq!(rollups(&engine).await, 0);
    assert_eq!(engine.list(ListRequest { limit: 10, ..ListRequest::default() }).await.unwrap().len(), 1);
    assert_eq!(engine.queues().await.unwrap()[0].counts.ready, 1);
    let refused = enqueue_one(&engine).await.unwrap_err();
    assert!(
        matches!(&refused, EngineError::Unusable { why } if why.contains("docs/engines/postgres.md")),
        "{refused}"
    );
    for right in ["INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"] {
        assert!(place.tables_with("reader", right).await.is_empty(), "{right}");
    }
    assert!(place.powers_of("reader").await.is_empty());
    let changes = [
        "SELECT windlass.drop_partitions('2100-01-01')",
        "SELECT windlass.enqueue('work')",
        "SELECT 1 FROM windlass.delayed_jobs FOR UPDATE",
        "SELECT nextval('windlass.job_ids')",
        "UPDATE windlass.queues SET pause = NULL",
        "CREATE TABLE windlass.mine (n integer)",
    ];
    place.assert_refused("reader", &changes).await;
    assert_eq!(place.owner.queues().await.unwrap()[0].counts.ready, 1);
}

#[tokio::test]
async fn a_client_puts_jobs_of_an_ordering_key_in_and_the_first_goes_out() {
    let place = TestStore::new().await;
    let engine = place.as_role("client").await;
    let ordering_key = || OrderingKey::parse("a").expect("a plain name");
    let jobs =
        vec![NewJob { ordering_key: Some(ordering_key()), ..NewJob::new(kind(), Payload::default()) }; 2];
    let request = EnqueueRequest { request: RequestId::from_random(fastrand::u128(..)), jobs };
    let answers = engine.enqueue(request).await.unwrap();
    assert_eq!(engine.head_of(&kind(), &ordering_key()).await.unwrap(), answers[0].job().ok());
    let counts = place.owner.queues().await.unwrap()[0].counts;
    assert_eq!((counts.ready, counts.parked), (1, 1));
}

#[tokio::test]
async fn a_client_may_replace_what_waits_and_revive_what_is_dead() {
    let place = TestStore::new().await;
    let engine = place.as_role("client").await;
    let keyed = |on_conflict| NewJob {
        key: Some(KeyClaim { on_conflict, ..KeyClaim::backfill(Key::parse("a").expect("a plain key")) }),
        ..NewJob::new(kind(), Payload::default())
    };
    let put = async |new| engine.enqueue(request(vec![new])).await.unwrap().remove(0);
    let EnqueueAnswer::New(id) = put(keyed(OnConflict::Keep)).await else { panic!("the job is new") };
    assert_eq!(put(keyed(OnConflict::Keep)).await, EnqueueAnswer::Duplicate(id));
    assert_eq!(put(keyed(OnConflict::Replace)).await, EnqueueAnswer::Replaced(id));
    let worker = WorkerId::from_random(fastrand::u128(..));
    register(&place.owner, worker).await.unwrap();
    let ClaimAnswer::Claimed { mut jobs, .. } = claim(&place.owner, worker).await.unwrap() else { panic!() };
    let bury = Transition::Bury { error: JobError::new(ErrorKind::Failed, "oops") };
    place.owner.settle(vec![jobs.remove(0).settled(bury, AttemptReport::default())]).await.unwrap();
    assert_eq!(put(keyed(OnConflict::Revive)).await, EnqueueAnswer::Revived(id));
}

#[tokio::test]
async fn a_role_that_may_not_see_other_sessions_is_not_told_that_no_session_holds_back_vacuum() {
    let place = TestStore::new().await;
    let findings = place.as_role("reader").await.examine().await.unwrap();
    let finding = findings.iter().find(|finding| finding.about == "vacuum").unwrap();
    assert_eq!(finding.grade, Grade::Unread, "{finding:?}");
    assert!(finding.advice.as_ref().unwrap().contains("pg_read_all_stats"), "{finding:?}");
}

#[tokio::test]
async fn who_listens_by_a_role_without_any_right_has_locks_all_the_same_and_people_see_its_session() {
    let place = TestStore::new().await;
    let options = PostgresOptions {
        schema: place.schema.clone(),
        migrate: false,
        listen_url: Some(place.url_of("client")),
        ..PostgresOptions::default()
    };
    let engine = PostgresEngine::connect(&place.url_of("worker"), options).await.unwrap();
    let worker = WorkerId::from_random(fastrand::u128(..));
    let totals = DutyName::parse("totals").unwrap();
    engine.register(WorkerCard { duties: vec![totals.clone()], ..card(worker) }).await.unwrap();
    let wanted = LockRequest { worker, duties: vec![totals.clone()], good_for: Duration::from_secs(600) };
    assert_eq!(engine.lock_duties(&wanted).await.unwrap(), [true]);
    let locks = engine.leases().await.unwrap().locks;
    let by_a_session = matches!(&locks[..], [LockRecord { duty, holder: Some(LockHolder { noted: None, .. }) }] if *duty == totals);
    assert!(by_a_session, "{locks:?}");
}
