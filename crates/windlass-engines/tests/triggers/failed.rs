//! The evaluation of one trigger fails again and again: the others are evaluated, and the store is not
//! queried for it all the time.

use std::sync::Arc;

use tempfile::TempDir;
use windlass_core::clock::ManualClock;
use windlass_core::engine::Engine;
use windlass_core::limits::{TRIGGER_PAUSE, TRIGGER_PAUSE_MAX};
use windlass_core::triggers::{Watched, WhichTriggers};
use windlass_engines::postgres::tokio_postgres::{self, NoTls};
use windlass_engines::sqlite::rusqlite;

use crate::test_store::{Store, claim_one, clock, evaluate, hook_jobs, put, register, set_up_with, succeed};
use crate::words::{kind, queue};

async fn check(
    store: &Store,
    engine: Arc<dyn Engine>,
    clock: &ManualClock,
    spoil: impl AsyncFn(&Store),
    mend: impl AsyncFn(&Store),
) {
    set_up_with(&engine, &[("bad", Watched::Type(kind())), ("good", Watched::Queue(queue()))]).await;
    let worker = register(&engine).await;
    put(&engine, 1).await;
    let claimed = claim_one(&engine, worker).await;
    succeed(&engine, claimed).await;
    spoil(store).await;
    assert_eq!(evaluate(&engine).await, 1, "the one behind it fires");
    assert_eq!(hook_jobs(&engine).await, 1);
    clock.advance(TRIGGER_PAUSE);
    let marked = engine.triggers(&WhichTriggers::Marked(10)).await.unwrap();
    assert_eq!(marked.triggers.len(), 0, "its next evaluation is far away");
    assert_eq!(marked.next, Some(marked.now.minus(TRIGGER_PAUSE).plus(TRIGGER_PAUSE_MAX)));
    mend(store).await;
    clock.advance(TRIGGER_PAUSE_MAX);
    assert_eq!((evaluate(&engine).await, hook_jobs(&engine).await), (1, 2), "the mark has stayed");
}

async fn in_postgres(store: &Store, script: &str) {
    let Store::Postgres(url, schema) = store else { panic!("it is PostgreSQL") };
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&script.replace("windlass.", &format!("{schema}."))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_fails_keeps_no_other_trigger_and_comes_back_later_on_postgres() {
    let (store, clock) = (Store::postgres(), clock());
    let engine = store.open(&clock).await;
    let spoil = "CREATE FUNCTION windlass.spoil() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN RAISE EXCEPTION ''on purpose'' USING ERRCODE = ''XX000''; END';
        CREATE TRIGGER spoil BEFORE UPDATE ON windlass.completion_triggers FOR EACH ROW
            WHEN (NEW.name = 'bad' AND NEW.version <> OLD.version) EXECUTE FUNCTION windlass.spoil()";
    let mend = "DROP TRIGGER spoil ON windlass.completion_triggers";
    check(
        &store,
        engine,
        &clock,
        async |store| in_postgres(store, spoil).await,
        async |store| in_postgres(store, mend).await,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_fails_keeps_no_other_trigger_and_comes_back_later_on_sqlite() {
    let folder = TempDir::new().unwrap();
    let (store, clock) = (Store::sqlite(&folder), clock());
    let engine = store.open(&clock).await;
    let run = async |store: &Store, script: &str| {
        let Store::Sqlite(path) = store else { panic!("it is SQLite") };
        rusqlite::Connection::open(path).unwrap().execute_batch(script).unwrap();
    };
    let spoil = "CREATE TRIGGER spoil BEFORE UPDATE ON completion_triggers WHEN NEW.name = 'bad' AND NEW.version <> OLD.version
        BEGIN SELECT RAISE(ABORT, 'on purpose'); END";
    let mend = "DROP TRIGGER spoil";
    check(
        &store,
        engine,
        &clock,
        async |store| run(store, spoil).await,
        async |store| run(store, mend).await,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_fails_keeps_no_other_trigger_and_comes_back_later_on_redis() {
    let (store, clock) = (Store::redis(), clock());
    let engine = store.open(&clock).await;
    check(
        &store,
        engine,
        &clock,
        async |store| spoil_redis(store, &["SET", "not a set"]),
        async |store| spoil_redis(store, &["DEL"]),
    )
    .await;
}

/// Damages the set of the jobs that the trigger has enqueued.
fn spoil_redis(store: &Store, command: &[&str]) {
    let Store::Redis(url, namespace) = store else { panic!("it is Redis") };
    let mut connection = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
    let key = format!("{{{namespace}}}:trigger_jobs:bad");
    redis::cmd(command[0]).arg(key).arg(&command[1..]).exec(&mut connection).unwrap();
}
