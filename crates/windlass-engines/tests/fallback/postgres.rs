//! PostgreSQL as the primary.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::engine::Engine;
use windlass_core::enqueue::{EnqueueAnswer, NewJob};
use windlass_core::key::KeyClaim;
use windlass_core::names::Key;
use windlass_engines::fallback::{Connect, FallbackOptions, KeysWhileAway};
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};
use windlass_servers::proxy::Proxy;

use crate::primary::{
    Primary, job, memory, payloads, put, quick, request, spool, sqlite, status, until, until_away,
    until_replayed,
};

pub(crate) async fn on_postgres() -> Primary {
    in_schema(&format!("home_{:016x}", fastrand::u64(..))).await
}

async fn in_schema(schema: &str) -> Primary {
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let address = url.split('@').nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let proxy = Proxy::start(address.parse().unwrap()).unwrap();
    let options = PostgresOptions { schema: schema.to_owned(), ..PostgresOptions::default() };
    let store = Arc::new(PostgresEngine::connect(&url, options.clone()).await.unwrap());
    let through = proxy.url(&url);
    let connect: Connect = Arc::new(move || {
        let (url, options) = (through.clone(), options.clone());
        Box::pin(
            async move { Ok(Arc::new(PostgresEngine::connect(&url, options).await?) as Arc<dyn Engine>) },
        )
    });
    Primary { proxy, name: "postgres", namespace: schema.to_owned(), connect, store }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_into_the_spool_while_postgres_is_away_and_are_replayed_when_it_is_back() {
    let primary = on_postgres().await;
    let folder = tempfile::tempdir().unwrap();
    let engine = primary.with(sqlite(folder.path()), quick()).await;
    assert!(matches!(put(&engine, job(0)).await, EnqueueAnswer::New(_)));
    primary.go();
    until_away(&engine).await;
    for number in 1..20 {
        spool(&engine, job(number)).await;
    }
    primary.come_back();
    until_replayed(&engine).await;
    assert_eq!(payloads(&*primary.store).await, (0..20).collect::<Vec<_>>());
    assert_eq!(status(&engine).await.returned, 19);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_an_open_transaction_holds_keeps_its_own_job_in_the_spool_and_no_other() {
    let schema = format!("home_{:016x}", fastrand::u64(..));
    let primary = in_schema(&schema).await;
    // The time is long enough for the job to be kept here again while another transaction holds its key.
    let adopt_after = Duration::from_secs(30);
    let options = FallbackOptions { keys: KeysWhileAway::Accept, adopt_after, ..quick() };
    let beside = memory();
    let engine = primary.with(Arc::clone(&beside), options).await;
    primary.go();
    until_away(&engine).await;
    let keyed = NewJob { key: Some(KeyClaim::new(Key::parse("mine").unwrap())), ..job(1) };
    spool(&engine, keyed).await;
    spool(&engine, job(2)).await;
    let url = windlass_servers::shared::postgres_url().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let hold = format!("BEGIN; INSERT INTO {schema}.job_keys (job_type, key) VALUES ('work', 'mine')");
    client.batch_execute(&hold).await.unwrap();
    primary.come_back();
    until(&engine, "the other job is replayed", async || payloads(&*primary.store).await == [2]).await;
    assert_eq!(status(&engine).await.active, "postgres", "the primary is available");
    // The spool forgets the other job after the primary has stored it.
    until(&engine, "the job with the key is in the spool, and no other", async || {
        let counts = beside.queues().await.unwrap()[0].counts;
        (counts.ready + counts.parked, counts.unfinished()) == (1, 1)
    })
    .await;
    client.batch_execute("ROLLBACK").await.unwrap();
    until_replayed(&engine).await;
    let mut there = payloads(&*primary.store).await;
    there.sort_unstable();
    assert_eq!(there, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_waits_for_an_open_transaction_does_not_count_against_the_primary() {
    let schema = format!("home_{:016x}", fastrand::u64(..));
    let primary = in_schema(&schema).await;
    let engine = primary.with(memory(), quick()).await;
    let asked = request(vec![job(1)]).request;
    let url = windlass_servers::shared::postgres_url().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let hold = format!("BEGIN; INSERT INTO {schema}.receipts (request, at) VALUES ('{asked}', now())");
    client.batch_execute(&hold).await.unwrap();
    let error = engine.ask(asked).await.unwrap_err();
    assert!(!error.is_away(), "the primary is available: {error:?}");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(engine.ask(asked).await.unwrap(), None);
}
