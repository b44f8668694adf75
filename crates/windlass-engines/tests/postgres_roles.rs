//! What each role of docs/engines/postgres-roles.sql may do, and what it may not.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

#[path = "crew/words.rs"]
mod words;

use tokio_postgres::error::SqlState;
use windlass_core::admin::ListRequest;
use windlass_core::claim::ClaimAnswer;
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::{EnqueueRequest, Enqueued, NewJob, RequestId};
use windlass_core::error::EngineError;
use windlass_core::key::{KeyClaim, OnConflict};
use windlass_core::names::Key;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::settle::{AttemptReport, Settled, Transition};
use windlass_core::worker::WorkerId;
use windlass_engines::postgres::{Address, Grade, PostgresEngine, PostgresOptions, enqueue_in};

use words::{card, claim_request, declaration, kind, request};

const ROLES: &str = include_str!("../../../docs/engines/postgres-roles.sql");

/// A schema with its roles, and a way in for each.
struct Place {
    schema: String,
    url: String,
    owner: PostgresEngine,
}

impl Place {
    async fn new() -> Self {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let schema = format!("roles_{:016x}", fastrand::u64(..));
        let options = PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() };
        let owner = PostgresEngine::connect(&url, options).await.expect("a fresh schema");
        owner.declare(declaration()).await.unwrap();
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let roles = ROLES.replace("windlass_", &format!("{schema}_")).replace("windlass", &schema);
        client.batch_execute(&roles).await.unwrap();
        for role in ["worker", "producer", "client", "reader"] {
            client.batch_execute(&format!("ALTER ROLE {schema}_{role} LOGIN")).await.unwrap();
        }
        Self { schema, url, owner }
    }

    async fn as_role(&self, role: &str) -> PostgresEngine {
        let options =
            PostgresOptions { schema: self.schema.clone(), migrate: false, ..PostgresOptions::default() };
        PostgresEngine::connect(&self.url_of(role), options).await.expect("the role may come in")
    }

    fn url_of(&self, role: &str) -> String {
        let mut config: tokio_postgres::Config = self.url.parse().unwrap();
        let host = match &config.get_hosts()[0] {
            tokio_postgres::config::Host::Tcp(host) => host.clone(),
            other => panic!("expected a host to connect to, got {other:?}"),
        };
        let user = format!("{}_{role}", self.schema);
        config.user(&user);
        let (port, database) = (config.get_ports()[0], config.get_dbname().unwrap_or("postgres"));
        format!("postgres://{user}@{host}:{port}/{database}")
    }

    /// A session without an engine.
    async fn session_of(&self, role: &str) -> tokio_postgres::Client {
        Address::parse(&self.url_of(role)).unwrap().connect().await.expect("the role may come in")
    }
}

async fn put_in(engine: &PostgresEngine) -> Result<Vec<Enqueued>, EngineError> {
    engine.enqueue(request(vec![NewJob::new(kind(), Payload::default())])).await
}

async fn register(engine: &PostgresEngine, id: WorkerId) -> Result<(), EngineError> {
    engine.register(card(id)).await
}

async fn claim(engine: &PostgresEngine, worker: WorkerId) -> Result<ClaimAnswer, EngineError> {
    engine.claim(claim_request(worker, 10)).await
}

#[tokio::test]
async fn a_worker_does_everything_but_change_the_schema() {
    let place = Place::new().await;
    let engine = place.as_role("worker").await;
    let worker = WorkerId::from_random(fastrand::u128(..));
    put_in(&engine).await.unwrap();
    register(&engine, worker).await.unwrap();
    let ClaimAnswer::Claimed { jobs, .. } = claim(&engine, worker).await.unwrap() else { panic!("it lives") };
    let done = jobs
        .into_iter()
        .map(|job| job.settled(Transition::Succeed { result: None }, AttemptReport::default()));
    assert_eq!(engine.settle(done.collect()).await.unwrap(), [Settled::Applied]);
    engine.sweep(100).await.unwrap();
    engine.prune(100).await.unwrap();
    engine.retire(worker).await.unwrap();
}

#[tokio::test]
async fn a_producer_puts_jobs_in_with_the_functions_and_can_do_nothing_else() {
    let place = Place::new().await;
    let mut client = place.session_of("producer").await;
    let schema = &place.schema;
    client.batch_execute(&format!("SELECT {schema}.enqueue('work', key => 'a')")).await.unwrap();
    let tx = client.transaction().await.unwrap();
    let jobs = vec![NewJob::new(kind(), Payload::default())];
    assert!(matches!(enqueue_in(&tx, schema, jobs).await.unwrap()[..], [Enqueued::New(_)]));
    tx.commit().await.unwrap();
    assert_eq!(place.owner.queues().await.unwrap()[0].counts.ready, 2);
    for (what, text) in [
        ("read jobs", format!("SELECT * FROM {schema}.delayed_jobs")),
        ("read keys", format!("SELECT * FROM {schema}.job_keys")),
        ("change jobs", format!("UPDATE {schema}.delayed_jobs SET priority = 0")),
        ("put jobs in past the door", format!("INSERT INTO {schema}.count_deltas DEFAULT VALUES")),
        ("end jobs", format!("SELECT {schema}.complete(1, '00000000-0000-0000-0000-000000000000')")),
        ("make days", format!("SELECT {schema}.make_days(now())")),
        ("drop days", format!("SELECT {schema}.drop_days(now())")),
    ] {
        let refused = client.batch_execute(&text).await.expect_err(what);
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{what}: {refused}");
    }
}

#[tokio::test]
async fn a_client_puts_jobs_in_and_claims_none() {
    let place = Place::new().await;
    let engine = place.as_role("client").await;
    assert!(matches!(put_in(&engine).await.unwrap()[..], [Enqueued::New(_)]));
    let refused = register(&engine, WorkerId::from_random(fastrand::u128(..))).await.unwrap_err();
    assert!(matches!(&refused, EngineError::Unusable { why } if why.contains("lacks a right")), "{refused}");
    assert_eq!(place.owner.queues().await.unwrap()[0].counts.ready, 1);
}

#[tokio::test]
async fn a_reader_sees_all_and_changes_nothing() {
    let place = Place::new().await;
    put_in(&place.owner).await.unwrap();
    let engine = place.as_role("reader").await;
    assert_eq!(engine.list(ListRequest { limit: 10, ..ListRequest::default() }).await.unwrap().len(), 1);
    assert_eq!(engine.queues().await.unwrap()[0].counts.ready, 1);
    let refused = put_in(&engine).await.unwrap_err();
    assert!(
        matches!(&refused, EngineError::Unusable { why } if why.contains("docs/engines/postgres.md")),
        "{refused}"
    );
    let drop_all = format!("SELECT {}.drop_days('2100-01-01')", place.schema);
    let refused = place.session_of("reader").await.batch_execute(&drop_all).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{refused}");
}

#[tokio::test]
async fn a_client_may_replace_what_waits_and_revive_what_is_dead() {
    let place = Place::new().await;
    let engine = place.as_role("client").await;
    let keyed = |on_conflict| NewJob {
        key: Some(KeyClaim { on_conflict, ..KeyClaim::backfill(Key::parse("a").expect("a plain key")) }),
        ..NewJob::new(kind(), Payload::default())
    };
    let put = async |new| {
        let request = RequestId::from_random(fastrand::u128(..));
        engine.enqueue(EnqueueRequest { request, jobs: vec![new] }).await.unwrap().remove(0)
    };
    let Enqueued::New(id) = put(keyed(OnConflict::Keep)).await else { panic!("it is new") };
    assert_eq!(put(keyed(OnConflict::Keep)).await, Enqueued::Kept(id));
    assert_eq!(put(keyed(OnConflict::Replace)).await, Enqueued::Replaced(id));
    let worker = WorkerId::from_random(fastrand::u128(..));
    register(&place.owner, worker).await.unwrap();
    let ClaimAnswer::Claimed { mut jobs, .. } = claim(&place.owner, worker).await.unwrap() else {
        panic!("it lives")
    };
    let bury = Transition::Bury { error: JobError::new(ErrorKind::Failed, "oops") };
    place.owner.settle(vec![jobs.remove(0).settled(bury, AttemptReport::default())]).await.unwrap();
    assert_eq!(put(keyed(OnConflict::Revive)).await, Enqueued::Revived(id));
}

#[tokio::test]
async fn a_role_that_may_not_see_other_sessions_is_not_told_that_nobody_holds_back_vacuum() {
    let place = Place::new().await;
    let findings = place.as_role("reader").await.examine().await.unwrap();
    let finding = findings.iter().find(|finding| finding.about == "vacuum").unwrap();
    assert_eq!(finding.grade, Grade::Unread, "{finding:?}");
    assert!(finding.advice.as_ref().unwrap().contains("pg_read_all_stats"), "{finding:?}");
}
