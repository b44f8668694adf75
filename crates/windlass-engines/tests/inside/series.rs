//! Series and open transactions: nobody waits for another's commit, and no two miss each other.

use std::time::{Duration, Instant};

use windlass_core::claim::Claimed;
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::NewJob;
use windlass_core::job::JobId;
use windlass_core::names::SeriesName;
use windlass_core::settle::Settled;
use windlass_engines::postgres::tokio_postgres::Client;
use windlass_engines::postgres::{PostgresEngine, complete_in, enqueue_in};

use super::place::{Place, claim, enqueue, kind, queue, stored, succeed, work};

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn of(name: &str) -> NewJob {
    NewJob { series: Some(SeriesName::parse(name).unwrap()), ..work() }
}

async fn head(engine: &PostgresEngine) -> Option<JobId> {
    engine.head_of(&kind("work"), &SeriesName::parse("a").unwrap()).await.unwrap()
}

/// A running head, and one in line behind it.
async fn two(engine: &PostgresEngine) -> (Claimed, JobId) {
    enqueue(engine, vec![of("a")]).await;
    let running = claim(engine, 1).await.remove(0);
    let ids = stored(&enqueue(engine, vec![of("a")]).await);
    (running, ids[0])
}

async fn marks(place: &Place, client: &Client) -> String {
    place.ask(client, "SELECT count(*) FROM windlass.series_marks").await
}

/// Keeps everybody else from the lock of the series, as one who is at it for long.
async fn hold_the_lock(place: &Place) -> Client {
    let holder = place.connect().await;
    place.ask(&holder, "SELECT pg_advisory_lock(windlass.series_lock('work', 'a'))::text").await;
    holder
}

/// Somebody sweeps, again and again, until this job is out.
async fn sweep_until_out(engine: &PostgresEngine, id: JobId) {
    let start = Instant::now();
    loop {
        // While somebody holds the lock of a series, a sweep that works off its mark may say so.
        let swept = engine.sweep(10).await;
        if head(engine).await == Some(id) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "nobody goes on: {swept:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_open_transaction_holds_up_no_other_job_of_its_series() {
    let place = Place::new();
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
async fn a_job_of_a_series_goes_out_with_the_commit_of_its_transaction() {
    let place = Place::new();
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
    let place = Place::new();
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

/// Both have looked at the series before the other's commit: each sees what was there before.
#[tokio::test]
async fn an_end_and_a_newcomer_in_two_transactions_at_once_leave_one_out() {
    for end_first in [true, false] {
        let place = Place::new();
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
        // The second one did not wait for the first, and left its mark for whoever comes.
        engine.sweep(10).await.unwrap();
        assert_eq!(head(&engine).await, Some(newcomer), "ends first: {end_first}");
        assert_eq!(claim(&engine, 10).await.len(), 1);
    }
}

#[tokio::test]
async fn who_dies_between_an_end_and_the_next_start_leaves_a_mark_that_others_work_off() {
    let place = Place::new();
    let engine = place.ready().await;
    let (running, next) = two(&engine).await;
    let holder = hold_the_lock(&place).await;
    let mut dying = place.connect().await;
    let pid = place.ask(&dying, "SELECT pg_backend_pid()").await;
    let tx = dying.transaction().await.unwrap();
    assert_eq!(complete_in(&tx, &place.schema, running.fence()).await.unwrap(), Settled::Applied);
    tx.commit().await.unwrap();
    place.ask(&holder, &format!("SELECT pg_terminate_backend({pid})")).await;
    assert_eq!(head(&engine).await, None, "the head has ended, and nobody went on");
    assert_eq!(marks(&place, &holder).await, "1");
    drop(holder);
    let after = place.open().await;
    sweep_until_out(&after, next).await;
    assert_eq!(claim(&after, 10).await.len(), 1);
}

/// Who sees an old state cannot know who is out now.
#[tokio::test]
async fn a_transaction_that_sees_an_old_state_leaves_a_mark() {
    let place = Place::new();
    let engine = place.ready().await;
    let client = place.connect().await;
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    place.ask(&client, "SELECT windlass.enqueue('work', series => 'a')").await;
    client.batch_execute("COMMIT").await.unwrap();
    engine.sweep(10).await.unwrap();
    assert_eq!(claim(&engine, 10).await.len(), 1);
}

/// Whoever settles is not kept waiting by one who is at the series for long.
#[tokio::test]
async fn an_end_is_written_though_somebody_holds_its_series() {
    let place = Place::new();
    let engine = place.ready().await;
    let (running, next) = two(&engine).await;
    let holder = hold_the_lock(&place).await;
    assert_eq!(succeed(&engine, &running).await, Settled::Applied);
    drop(holder);
    sweep_until_out(&engine, next).await;
}

#[tokio::test]
async fn the_database_itself_lets_no_two_jobs_of_a_series_out() {
    let place = Place::new();
    let engine = place.ready().await;
    two(&engine).await;
    let client = place.connect().await;
    let by_hand = place.sql("UPDATE windlass.delayed_jobs SET gate = NULL");
    let refused = client.batch_execute(&by_hand).await.unwrap_err();
    assert!(refused.as_db_error().is_some_and(|error| error.message().contains("delayed_jobs_series_out")));
}
