//! Completion triggers on PostgreSQL only: their marks are rows, and several statements read them.

use std::time::Duration;

use windlass_core::names::{GroupName, TriggerName, TypeName};
use windlass_core::schedules::{JobTemplate, Origin};
use windlass_core::triggers::acts::declare;
use windlass_core::triggers::{CompletionTrigger, TriggerChanged, Watched, WhichTriggers};
use windlass_engines::postgres::tokio_postgres::{self, Client, NoTls};

use crate::test_store::{Store, claim_one, clock, evaluate_all, put, register, set_up, succeed};

/// Opens a connection of our own to the store, and returns its schema.
async fn beside(store: &Store) -> (Client, String) {
    let Store::Postgres(url, schema) = store else { panic!("it is PostgreSQL") };
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    (client, schema.clone())
}

fn group() -> Watched {
    Watched::Group(GroupName::parse("import 7").unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_fires_once_however_many_marks_have_gathered() {
    let (store, clock) = (Store::postgres(), clock());
    let engine = store.open(&clock).await;
    set_up(&engine, group()).await;
    let worker = register(&engine).await;
    put(&engine, 1).await;
    let claimed = claim_one(&engine, worker).await;
    let (client, schema) = beside(&store).await;
    let marks = format!(
        "INSERT INTO {schema}.completion_trigger_marks (trigger) SELECT 'done' FROM generate_series(1, 200000)"
    );
    client.batch_execute(&marks).await.unwrap();
    assert_eq!(evaluate_all(&engine, &clock).await, 0, "the job still runs");
    client.batch_execute(&marks).await.unwrap();
    succeed(&engine, claimed).await;
    assert_eq!(evaluate_all(&engine, &clock).await, 1);
}

fn spec(name: &str) -> CompletionTrigger {
    let job = JobTemplate::new(TypeName::parse("hook").unwrap());
    CompletionTrigger::new(TriggerName::parse(name).unwrap(), group(), job)
}

/// Waits until a session waits for a row that we have locked.
async fn until_a_session_waits(client: &Client, schema: &str) {
    let waits = format!(
        "SELECT EXISTS (SELECT 1 FROM pg_stat_activity
         WHERE wait_event_type = 'Lock' AND state = 'active' AND query LIKE '%{schema}.completion_triggers%')"
    );
    while !client.query_one(&waits, &[]).await.unwrap().get::<_, bool>(0) {
        // may sleep: no signal says that a session waits.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One process has read that a trigger does not exist, and is blocked; meanwhile another stores the
/// trigger, and a job ends.
#[tokio::test(flavor = "multi_thread")]
async fn who_loses_the_race_to_store_a_trigger_leaves_the_marks_of_the_winner_alone() {
    let (store, clock) = (Store::postgres(), clock());
    let engine = store.open(&clock).await;
    set_up(&engine, group()).await;
    let now = engine.now().await.unwrap();
    let named = WhichTriggers::Named(vec![TriggerName::parse("done").unwrap()]);
    let done = engine.triggers(&named).await.unwrap().triggers.remove(0);
    let patient = CompletionTrigger { wait_for_retries: true, ..done.record.spec.clone() };
    let new = declare(&spec("another"), Origin::Code, None, now).unwrap();
    let changed = declare(&patient, Origin::Code, Some(&done), now).unwrap();
    let ((locker, schema), (trigger_poller, _)) = (beside(&store).await, beside(&store).await);
    let lock = format!("BEGIN; SELECT 1 FROM {schema}.completion_triggers WHERE name = 'done' FOR UPDATE");
    locker.batch_execute(&lock).await.unwrap();
    let loser = std::sync::Arc::clone(&engine);
    let changes = [new.clone(), changed];
    let losing = tokio::spawn(async move { loser.change_triggers(&changes).await.unwrap() });
    until_a_session_waits(&trigger_poller, &schema).await;
    engine.change_triggers(&[new]).await.unwrap();
    let worker = register(&engine).await;
    put(&engine, 1).await;
    let claimed = claim_one(&engine, worker).await;
    succeed(&engine, claimed).await;
    locker.batch_execute("COMMIT").await.unwrap();
    let answers = losing.await.unwrap();
    assert!(matches!(answers[..], [TriggerChanged::Changed, TriggerChanged::Done { .. }]), "{answers:?}");
    let all = engine.triggers(&WhichTriggers::After(None, 10)).await.unwrap().triggers;
    assert!(all.iter().all(|trigger| trigger.is_marked), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_marks_of_a_trigger_that_cannot_be_read_do_not_gather() {
    let (store, clock) = (Store::postgres(), clock());
    let engine = store.open(&clock).await;
    set_up(&engine, group()).await;
    let (client, schema) = beside(&store).await;
    let record = format!("SELECT record FROM {schema}.completion_triggers");
    let record: String = client.query_one(&record, &[]).await.unwrap().get(0);
    let spoil = format!(
        "UPDATE {schema}.completion_triggers SET record = '{{';
         INSERT INTO {schema}.completion_trigger_marks (trigger) SELECT 'done' FROM generate_series(1, 1000)"
    );
    client.batch_execute(&spoil).await.unwrap();
    let read = engine.triggers(&WhichTriggers::Marked(10)).await.unwrap();
    assert_eq!((read.triggers.len(), read.damaged.len()), (0, 1));
    let marks = format!("SELECT count(*) FROM {schema}.completion_trigger_marks");
    assert_eq!(client.query_one(&marks, &[]).await.unwrap().get::<_, i64>(0), 1);
    client
        .execute(&format!("UPDATE {schema}.completion_triggers SET record = $1"), &[&record])
        .await
        .unwrap();
    assert_eq!(evaluate_all(&engine, &clock).await, 1, "a process that can read it still finds a mark");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_of_a_trigger_that_is_completed_in_sql_marks_no_trigger_of_the_same_group() {
    let (store, clock) = (Store::postgres(), clock());
    let engine = store.open(&clock).await;
    set_up(&engine, group()).await;
    let now = engine.now().await.unwrap();
    let another = declare(&spec("another"), Origin::Code, None, now).unwrap();
    engine.change_triggers(&[another]).await.unwrap();
    let worker = register(&engine).await;
    let (client, schema) = beside(&store).await;
    let marks = format!("SELECT count(*) FROM {schema}.completion_trigger_marks");
    for (key, marked) in [("trigger/another/1", 0_i64), ("trigger/missing/1", 2)] {
        put(&engine, 1).await;
        let fence = claim_one(&engine, worker).await.fence();
        let end = format!(
            "UPDATE {schema}.delayed_jobs SET key = '{key}'; SELECT {schema}.complete(id, token) FROM {schema}.delayed_jobs WHERE id = {}",
            fence.job.0
        );
        client.batch_execute(&end).await.unwrap();
        assert_eq!(client.query_one(&marks, &[]).await.unwrap().get::<_, i64>(0), marked, "{key}");
    }
}
