//! Ordering keys and open transactions: no transaction waits for another's commit, and no two miss each
//! other.

use std::time::{Duration, Instant};

use windlass_core::claim::Claimed;
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::NewJob;
use windlass_core::job::JobId;
use windlass_core::names::OrderingKey;
use windlass_core::settle::Settled;
use windlass_engines::postgres::tokio_postgres::{Client, IsolationLevel};
use windlass_engines::postgres::{PostgresEngine, complete_in, enqueue_in};

use super::test_store::{TestStore, claim, enqueue, kind, queue, stored, succeed, work};

/// The longest wait, sufficient for a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn of(name: &str) -> NewJob {
    NewJob { ordering_key: Some(OrderingKey::parse(name).unwrap()), ..work() }
}

async fn head(engine: &PostgresEngine) -> Option<JobId> {
    engine.head_of(&kind("work"), &OrderingKey::parse("a").unwrap()).await.unwrap()
}

/// Prepares a running head, and a job that waits behind it.
async fn two(engine: &PostgresEngine) -> (Claimed, JobId) {
    enqueue(engine, vec![of("a")]).await;
    let running = claim(engine, 1).await.remove(0);
    let ids = stored(&enqueue(engine, vec![of("a")]).await);
    (running, ids[0])
}

async fn marks(place: &TestStore, client: &Client) -> String {
    place.ask(client, "SELECT count(*) FROM windlass.ordering_key_marks").await
}

/// Holds the lock of the ordering key, like a transaction that works on it for long; all other sessions
/// must wait for it.
async fn hold_the_lock(place: &TestStore) -> Client {
    let holder = place.connect().await;
    place.ask(&holder, "SELECT pg_advisory_lock(windlass.ordering_key_lock('work', 'a'))::text").await;
    holder
}

/// Sweeps, like another process, again and again, until this job is the head.
async fn sweep_until_out(engine: &PostgresEngine, id: JobId) {
    let start = Instant::now();
    loop {
        engine.sweep(10).await.expect("a sweep completes though another transaction holds an ordering key");
        if head(engine).await == Some(id) {
            return;
        }
        assert!(start.elapsed() < WAIT_MAX, "expected the next job to be released, got none");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_open_transaction_holds_up_no_other_job_of_its_ordering_key() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let tx = client.transaction().await.unwrap();
    let open = stored(&enqueue_in(&tx, &place.schema, vec![of("a")]).await.unwrap())[0];
    let other = stored(&enqueue(&engine, vec![of("a")]).await)[0];
    assert!(other > open);
    let claimed = claim(&engine, 10).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), [other]);
    tx.commit().await.unwrap();
    assert!(claim(&engine, 10).await.is_empty(), "one at a time");
    succeed(&engine, &claimed[0]).await;
    assert_eq!(head(&engine).await, Some(open));
    assert_eq!(claim(&engine, 10).await.len(), 1);
}

#[tokio::test]
async fn a_job_of_an_ordering_key_goes_out_with_the_commit_of_its_transaction() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let tx = client.transaction().await.unwrap();
    let ids = stored(&enqueue_in(&tx, &place.schema, vec![of("a"), of("a"), of("b")]).await.unwrap());
    tx.commit().await.unwrap();
    let claimed: Vec<_> = claim(&engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(claimed, [ids[0], ids[2]]);
    assert_eq!(marks(&place, &client).await, "0");
}

#[tokio::test]
async fn the_next_goes_out_when_the_transaction_that_ended_the_head_is_committed() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    for commits in [false, true] {
        let (running, next) = two(&engine).await;
        let tx = client.transaction().await.unwrap();
        assert_eq!(complete_in(&tx, &place.schema, running.fence()).await.unwrap(), Settled::Applied);
        assert_eq!(head(&engine).await, Some(running.job.id), "not before the commit");
        if commits {
            tx.commit().await.unwrap();
            assert_eq!(head(&engine).await, Some(next));
        } else {
            tx.rollback().await.unwrap();
            assert_eq!(head(&engine).await, Some(running.job.id));
            engine.purge(&queue("main"), 10).await.unwrap();
            succeed(&engine, &running).await;
            assert_eq!(head(&engine).await, None);
        }
    }
}

/// Both transactions have read the ordering key before the other's commit: each sees the earlier state.
#[tokio::test]
async fn an_end_and_a_newcomer_in_two_transactions_at_once_leave_one_out() {
    for end_first in [true, false] {
        let place = TestStore::new();
        let engine = place.ready().await;
        enqueue(&engine, vec![of("a")]).await;
        let running = claim(&engine, 1).await.remove(0);
        let (mut one, mut other) = (place.connect().await, place.connect().await);
        let ending = one.transaction().await.unwrap();
        let coming = other.transaction().await.unwrap();
        assert_eq!(complete_in(&ending, &place.schema, running.fence()).await.unwrap(), Settled::Applied);
        let newcomer = stored(&enqueue_in(&coming, &place.schema, vec![of("a")]).await.unwrap())[0];
        let now = "SET CONSTRAINTS ALL IMMEDIATE";
        if end_first {
            ending.batch_execute(now).await.unwrap();
            coming.commit().await.unwrap();
            ending.commit().await.unwrap();
        } else {
            coming.batch_execute(now).await.unwrap();
            ending.commit().await.unwrap();
            coming.commit().await.unwrap();
        }
        // The second transaction did not wait for the first, and left its mark for the next sweep.
        engine.sweep(10).await.unwrap();
        assert_eq!(head(&engine).await, Some(newcomer), "ends first: {end_first}");
        assert_eq!(claim(&engine, 10).await.len(), 1);
    }
}

#[tokio::test]
async fn who_dies_between_an_end_and_the_next_start_leaves_a_mark_that_others_work_off() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let (running, next) = two(&engine).await;
    let holder = hold_the_lock(&place).await;
    let mut dying = place.connect().await;
    let pid = place.ask(&dying, "SELECT pg_backend_pid()").await;
    let tx = dying.transaction().await.unwrap();
    assert_eq!(complete_in(&tx, &place.schema, running.fence()).await.unwrap(), Settled::Applied);
    tx.commit().await.unwrap();
    place.ask(&holder, &format!("SELECT pg_terminate_backend({pid})")).await;
    assert_eq!(head(&engine).await, None, "the head has ended, and no process released the next one");
    assert_eq!(marks(&place, &holder).await, "1");
    drop(holder);
    let after = place.open().await;
    sweep_until_out(&after, next).await;
    assert_eq!(claim(&after, 10).await.len(), 1);
}

/// A transaction that sees an old state cannot know which job is the head now.
#[tokio::test]
async fn a_transaction_that_sees_an_old_state_leaves_a_mark() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    place.ask(&client, "SELECT windlass.enqueue('work', ordering_key => 'a')").await;
    client.batch_execute("COMMIT").await.unwrap();
    engine.sweep(10).await.unwrap();
    assert_eq!(claim(&engine, 10).await.len(), 1);
}

/// A settle does not wait for a transaction that holds the ordering key for long.
#[tokio::test]
async fn an_end_is_written_though_another_session_holds_its_ordering_key() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let (running, next) = two(&engine).await;
    let holder = hold_the_lock(&place).await;
    assert_eq!(succeed(&engine, &running).await, Settled::Applied);
    drop(holder);
    sweep_until_out(&engine, next).await;
}

#[tokio::test]
async fn the_database_itself_lets_no_two_jobs_of_an_ordering_key_out() {
    let place = TestStore::new();
    let engine = place.ready().await;
    two(&engine).await;
    let client = place.connect().await;
    let by_hand = place.sql("UPDATE windlass.delayed_jobs SET gate = NULL");
    let refused = client.batch_execute(&by_hand).await.unwrap_err();
    assert!(
        refused.as_db_error().is_some_and(|error| error.message().contains("delayed_jobs_ordering_key_out"))
    );
}

/// Counts how many of these ordering keys have a released head.
async fn out(place: &TestStore, client: &Client) -> String {
    place
        .ask(
            client,
            "SELECT count(*) FROM windlass.delayed_jobs WHERE ordering_key IS NOT NULL AND gate IS NULL",
        )
        .await
}

/// The other transaction has changed the payload of the next job of the ordering key, and is open. A commit
/// that waited for it, or repeated its attempts, would be a deadlock that no server detects if the other
/// waits in turn.
#[tokio::test]
async fn the_end_of_a_head_waits_for_no_session_that_has_the_next_one_locked() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let (running, next) = two(&engine).await;
    let mut holder = place.connect().await;
    let tx = holder.transaction().await.unwrap();
    tx.execute(&place.sql("SELECT 1 FROM windlass.delayed_jobs WHERE id = $1 FOR UPDATE"), &[&next.0])
        .await
        .unwrap();
    let mut client = place.connect().await;
    client.batch_execute("SET statement_timeout = '20s'").await.unwrap();
    let ending = client.transaction().await.unwrap();
    assert_eq!(complete_in(&ending, &place.schema, running.fence()).await.unwrap(), Settled::Applied);
    ending.commit().await.expect("no transaction waits for another");
    engine.sweep(10).await.expect("a sweep does not wait either");
    assert_eq!(head(&engine).await, None, "the locked job is not passed over");
    assert_eq!(marks(&place, &client).await, "1", "the work to do is stored as a mark");
    tx.commit().await.unwrap();
    sweep_until_out(&engine, next).await;
}

#[tokio::test]
async fn thousands_of_ordering_keys_in_one_transaction_fill_no_table_of_locks_and_all_go_out() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let tx = client.transaction().await.unwrap();
    let put =
        "SELECT count(windlass.enqueue('work', ordering_key => 'a' || n)) FROM generate_series(1, 3000) AS n";
    tx.query(&place.sql(put), &[]).await.unwrap();
    tx.commit().await.unwrap();
    let start = Instant::now();
    while out(&place, &client).await != "3000" {
        assert!(start.elapsed() < WAIT_MAX, "{} keys have a released head", out(&place, &client).await);
        engine.sweep(10).await.unwrap();
    }
    assert_eq!(marks(&place, &client).await, "0");
}

#[tokio::test]
async fn of_thousands_of_jobs_of_one_ordering_key_in_one_transaction_the_first_goes_out() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let tx = client.transaction().await.unwrap();
    let put = "SELECT min(windlass.enqueue('work', ordering_key => 'a')) FROM generate_series(1, 3000)";
    let first = JobId(tx.query_one(&place.sql(put), &[]).await.unwrap().get(0));
    tx.commit().await.unwrap();
    assert_eq!(head(&engine).await, Some(first));
    assert_eq!((out(&place, &client).await, marks(&place, &client).await), ("1".to_owned(), "0".to_owned()));
}

#[tokio::test]
async fn an_ordering_key_that_a_session_holds_for_long_keeps_no_other_from_going_on() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut client = place.connect().await;
    let _holder = hold_the_lock(&place).await;
    // Another name may hash to the same lock.
    let other = place
        .ask(
            &client,
            "SELECT 'b' || n FROM generate_series(1, 100) AS n
             WHERE windlass.ordering_key_lock('work', 'b' || n) <> windlass.ordering_key_lock('work', 'a') LIMIT 1",
        )
        .await;
    // A transaction that sees an old state leaves its marks to other processes.
    let tx =
        client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    let ids = enqueue_in(&tx, &place.schema, vec![of("a"), of(&other)]).await.unwrap();
    tx.commit().await.unwrap();
    engine.sweep(10).await.expect("a busy ordering key does not make a sweep fail");
    let other = engine.head_of(&kind("work"), &OrderingKey::parse(&other).unwrap()).await.unwrap();
    assert_eq!((head(&engine).await, other), (None, Some(stored(&ids)[1])));
}

#[tokio::test]
async fn a_head_whose_options_cannot_be_read_lets_the_next_one_go() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let (running, next) = two(&engine).await;
    let client = place.connect().await;
    let damage =
        "UPDATE windlass.delayed_jobs SET options = '[]' WHERE locked_at IS NOT NULL RETURNING id::text";
    place.ask(&client, damage).await;
    engine.cancel(running.job.id, "no more").await.unwrap();
    succeed(&engine, &running).await;
    assert_eq!(head(&engine).await, Some(next));
}
