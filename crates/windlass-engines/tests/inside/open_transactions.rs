//! Transactions of the application that stay open: which sessions wait for them, and which must not.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::claim::Claimed;
use windlass_core::clock::ManualClock;
use windlass_core::engine::{Admin, Engine, RescueRequest};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, RequestId, When};
use windlass_core::job::JobState;
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::lease_watch::Suspicion;
use windlass_core::limits::CRASHES_MAX;
use windlass_core::names::Key;
use windlass_core::payload::Payload;
use windlass_core::settle::Settled;
use windlass_engines::postgres::PostgresEngine;
use windlass_engines::postgres::tokio_postgres::Client;

use super::test_store::{TestStore, WORKER, bits, claim, done, enqueue, keyed, stored, succeed};

/// Long enough for a busy machine, and shorter than any lock timeout here: a call that answers within it
/// did not wait for a lock.
const AT_ONCE: Duration = Duration::from_secs(60);

async fn at_once<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(AT_ONCE, what).await.expect("the call waits for no other transaction")
}

fn replacing(key: &str, payload: &str) -> NewJob {
    let claim = KeyClaim { on_conflict: OnConflict::Replace, ..KeyClaim::new(Key::parse(key).unwrap()) };
    NewJob { key: Some(claim), payload: Payload::encode(payload).unwrap(), ..keyed(key) }
}

async fn running(engine: &PostgresEngine, keys: &[&str]) -> Vec<Claimed> {
    stored(&enqueue(engine, keys.iter().map(|key| keyed(key)).collect()).await);
    claim(engine, 10).await
}

async fn keys_left(place: &TestStore, client: &Client) -> String {
    place.ask(client, "SELECT count(*) FROM windlass.job_keys").await
}

/// Two transactions enqueue a job with the same key; the first ends as `commit` says. Returns both answers.
async fn second_of_two(commit: bool, through_function: bool) -> (EnqueueAnswer, EnqueueAnswer) {
    let place = TestStore::patient();
    let engine = Arc::new(place.ready().await);
    let (mut first, mut second, watcher) =
        (place.connect().await, place.connect().await, place.connect().await);
    let tx = first.transaction().await.unwrap();
    let before = engine.enqueue_in(&tx, vec![keyed("a")]).await.unwrap().remove(0);
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move {
            if !through_function {
                return enqueue(&engine, vec![keyed("a")]).await.remove(0);
            }
            let tx = second.transaction().await.unwrap();
            let answer = engine.enqueue_in(&tx, vec![keyed("a")]).await.unwrap().remove(0);
            tx.commit().await.unwrap();
            answer
        }
    });
    place.until_waiting(&watcher, 1).await;
    if commit {
        tx.commit().await.unwrap()
    } else {
        tx.rollback().await.unwrap()
    }
    (before, waiting.await.unwrap())
}

#[tokio::test]
async fn of_two_open_transactions_with_one_key_the_second_waits_and_then_keeps() {
    for through_function in [true, false] {
        let (first, second) = second_of_two(true, through_function).await;
        assert_eq!(second, EnqueueAnswer::Duplicate(first.job().unwrap()), "{through_function}");
    }
}

#[tokio::test]
async fn if_the_first_of_two_rolls_back_the_second_puts_its_job_in() {
    for through_function in [true, false] {
        let (first, second) = second_of_two(false, through_function).await;
        assert!(matches!(second, EnqueueAnswer::New(id) if id > first.job().unwrap()), "{second:?}");
    }
}

#[tokio::test]
async fn a_request_that_an_open_transaction_holds_is_not_known_to_be_missing() {
    for commit in [true, false] {
        let place = TestStore::hasty();
        let engine = place.ready().await;
        let mut caller = place.connect().await;
        let tx = caller.transaction().await.unwrap();
        let request = EnqueueRequest { request: RequestId::from_random(7), jobs: vec![keyed("a")] };
        let answers = engine.enqueue_request_in(&tx, request.clone()).await.unwrap();
        let error = engine.ask(request.request).await.unwrap_err();
        assert!(error.is_passing(), "{error:?}");
        let told = if commit {
            tx.commit().await.unwrap();
            Some(answers)
        } else {
            tx.rollback().await.unwrap();
            None
        };
        assert_eq!(engine.ask(request.request).await.unwrap(), told);
    }
}

#[tokio::test]
async fn a_request_that_was_asked_about_stores_nothing_through_the_function_either() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let (request, client) = (RequestId::from_random(7), place.connect().await);
    assert_eq!(engine.ask(request).await.unwrap(), None);
    let one = format!("SELECT windlass.enqueue('work', request_id => '{request}')");
    let error = client.simple_query(&place.sql(&one)).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "WL011");
    assert_eq!(place.traces(&client).await, "0 jobs, 0 keys, 0 changes, 1 receipts");
}

#[tokio::test]
async fn a_caller_that_is_kept_holds_up_no_other() {
    let place = TestStore::patient();
    let engine = place.ready().await;
    let jobs = running(&engine, &["a", "b"]).await;
    let mut caller = place.connect().await;
    let tx = caller.transaction().await.unwrap();
    let kept = engine.enqueue_in(&tx, vec![keyed("a"), replacing("b", "new")]).await.unwrap();
    assert_eq!(kept, [EnqueueAnswer::Duplicate(jobs[0].job.id), EnqueueAnswer::Duplicate(jobs[1].job.id)]);
    let settled = at_once(engine.settle(jobs.iter().map(done).collect())).await.unwrap();
    assert_eq!(settled, [Settled::Applied, Settled::Applied]);
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_key_that_a_transaction_holds_does_not_hold_up_the_ends_of_other_jobs() {
    let place = TestStore::patient();
    let engine = Arc::new(place.ready().await);
    let jobs = running(&engine, &["held", "other"]).await;
    let mut caller = place.connect().await;
    let tx = caller.transaction().await.unwrap();
    tx.execute(&place.sql("SELECT 1 FROM windlass.job_keys WHERE key = 'held' FOR UPDATE"), &[])
        .await
        .unwrap();
    let batch = jobs.iter().map(done).collect();
    let settling = tokio::spawn({
        let engine = engine.clone();
        async move { engine.settle(batch).await }
    });
    let watcher = place.connect().await;
    place.until_waiting(&watcher, 1).await;
    assert_eq!(engine.job(jobs[1].job.id).await.unwrap().unwrap().job_state(), JobState::Succeeded);
    tx.commit().await.unwrap();
    assert_eq!(settling.await.unwrap().unwrap(), [Settled::Applied, Settled::Applied]);
    assert_eq!(keys_left(&place, &watcher).await, "0");
}

#[tokio::test]
async fn a_job_that_a_transaction_replaces_is_claimed_after_its_commit_and_holds_up_no_other() {
    let place = TestStore::patient();
    let engine = place.ready().await;
    let ids = stored(&enqueue(&engine, vec![keyed("a"), keyed("b")]).await);
    let mut caller = place.connect().await;
    let tx = caller.transaction().await.unwrap();
    engine.enqueue_in(&tx, vec![replacing("a", "new")]).await.unwrap();
    let claimed = at_once(claim(&engine, 10)).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), [ids[1]]);
    at_once(engine.purge(&super::test_store::queue("main"), 10)).await.unwrap();
    at_once(engine.sweep(10)).await.unwrap();
    tx.commit().await.unwrap();
    let claimed = claim(&engine, 10).await.remove(0);
    assert_eq!((claimed.job.id, claimed.job.payload), (ids[0], Payload::encode("new").unwrap()));
}

#[tokio::test]
async fn an_open_end_of_one_job_does_not_keep_the_others_of_a_dead_worker() {
    let place = TestStore::patient();
    let clock = Arc::new(ManualClock::default());
    let engine = {
        place.ready().await.retire(WORKER).await.unwrap();
        place.open_with_clock(clock.clone()).await
    };
    engine.register(super::test_store::card(WORKER)).await.unwrap();
    let jobs = running(&engine, &["a", "b"]).await;
    let mut caller = place.connect().await;
    let tx = caller.transaction().await.unwrap();
    engine.complete_in(&tx, jobs[0].fence()).await.unwrap();
    clock.advance(Duration::from_secs(60));
    let silent = vec![Suspicion { worker: WORKER, beats: engine.workers().await.unwrap()[0].beats }];
    let request = RescueRequest { silent, crashes_max: CRASHES_MAX, limit: 10 };
    let rescued = at_once(engine.rescue(request.clone())).await.unwrap();
    assert_eq!(rescued.returned, [jobs[1].job.id]);
    let again = at_once(engine.rescue(RescueRequest { silent: vec![], ..request.clone() })).await.unwrap();
    assert!(again.returned.is_empty() && !again.more, "skipped rows are left to the next call: {again:?}");
    tx.commit().await.unwrap();
    assert_eq!(engine.job(jobs[0].job.id).await.unwrap().unwrap().job_state(), JobState::Succeeded);
    assert!(engine.rescue(request).await.unwrap().returned.is_empty());
}

#[tokio::test]
async fn the_key_of_a_job_that_a_transaction_ends_is_kept_until_its_commit_and_free_after_it() {
    let place = TestStore::patient();
    let engine = place.ready().await;
    let job = running(&engine, &["a"]).await.remove(0);
    let mut caller = place.connect().await;
    let tx = caller.transaction().await.unwrap();
    engine.complete_in(&tx, job.fence()).await.unwrap();
    let meanwhile = at_once(enqueue(&engine, vec![keyed("a")])).await;
    assert_eq!(meanwhile, [EnqueueAnswer::Duplicate(job.job.id)], "and no transaction waits");
    tx.commit().await.unwrap();
    let after = enqueue(&engine, vec![keyed("a")]).await;
    assert!(matches!(after[..], [EnqueueAnswer::New(_)]), "{after:?}");
    engine.sweep(10).await.unwrap();
    assert_eq!(enqueue(&engine, vec![keyed("a")]).await, [EnqueueAnswer::Duplicate(after[0].job().unwrap())]);
}

#[tokio::test]
async fn a_sweep_frees_the_keys_of_jobs_that_ended_in_a_transaction() {
    let place = TestStore::patient();
    let engine = place.ready().await;
    let jobs = running(&engine, &["a", "b", "locked"]).await;
    let (mut caller, mut locker) = (place.connect().await, place.connect().await);
    let tx = caller.transaction().await.unwrap();
    for job in &jobs {
        engine.complete_in(&tx, job.fence()).await.unwrap();
    }
    engine.sweep(10).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(keys_left(&place, &caller).await, "3", "not before the commit");
    let held = locker.transaction().await.unwrap();
    held.execute(&place.sql("SELECT 1 FROM windlass.job_keys WHERE key = 'locked' FOR UPDATE"), &[])
        .await
        .unwrap();
    at_once(engine.sweep(10)).await.unwrap();
    assert_eq!(keys_left(&place, &caller).await, "1", "another transaction has locked one");
    held.rollback().await.unwrap();
    engine.sweep(10).await.unwrap();
    assert_eq!(keys_left(&place, &caller).await, "0");
    assert_eq!(place.ask(&caller, "SELECT count(*) FROM windlass.ended_keys").await, "0");
}

#[tokio::test]
async fn a_period_holds_the_key_of_a_job_that_ended_in_a_transaction() {
    let place = TestStore::patient();
    let clock = Arc::new(ManualClock::default());
    drop(place.ready().await);
    let engine = place.open_with_clock(clock.clone()).await;
    let hour = Duration::from_secs(3_600);
    let claim_for = KeyClaim { scope: KeyScope::For(hour), ..KeyClaim::new(Key::parse("a").unwrap()) };
    let new = || NewJob { key: Some(claim_for.clone()), when: When::Now, ..keyed("a") };
    let mut caller = place.connect().await;
    let tx = caller.transaction().await.unwrap();
    stored(&engine.enqueue_in(&tx, vec![new()]).await.unwrap());
    tx.commit().await.unwrap();
    let job = claim(&engine, 1).await.remove(0);
    let tx = caller.transaction().await.unwrap();
    engine.complete_in(&tx, job.fence()).await.unwrap();
    tx.commit().await.unwrap();
    engine.sweep(10).await.unwrap();
    assert_eq!(enqueue(&engine, vec![new()]).await, [EnqueueAnswer::Duplicate(job.job.id)]);
    clock.advance(hour);
    engine.prune(10).await.unwrap();
    assert_eq!(keys_left(&place, &caller).await, "0");
}

/// Enqueues a job while another transaction holds the lock, by the engine's own statements or by the
/// function's.
async fn enqueue_by(
    engine: &PostgresEngine,
    client: &mut Client,
    new: NewJob,
    by_function: bool,
) -> EnqueueAnswer {
    let request = EnqueueRequest { request: RequestId::from_random(bits()), jobs: vec![new] };
    if !by_function {
        return engine.enqueue(request).await.unwrap().remove(0);
    }
    let tx = client.transaction().await.unwrap();
    let answer = engine.enqueue_request_in(&tx, request).await.unwrap().remove(0);
    tx.commit().await.unwrap();
    answer
}

#[tokio::test]
async fn a_key_that_is_freed_while_a_caller_waits_for_it_is_held_by_that_callers_job() {
    for by_function in [true, false] {
        let place = TestStore::patient();
        let engine = Arc::new(place.ready().await);
        let job = running(&engine, &["a"]).await.remove(0);
        succeed(&engine, &job).await;
        let (mut freeing, mut client, watcher) =
            (place.connect().await, place.connect().await, place.connect().await);
        place
            .ask(
                &watcher,
                "INSERT INTO windlass.job_keys VALUES ('work', 'a', 0, '\"while-live\"') RETURNING 1",
            )
            .await;
        let tx = freeing.transaction().await.unwrap();
        // Locks in the order of a settle: first the lock, then the end of the key.
        tx.execute(&place.sql("SELECT 1 FROM windlass.job_keys FOR UPDATE"), &[]).await.unwrap();
        let waiting = tokio::spawn({
            let engine = engine.clone();
            async move { enqueue_by(&engine, &mut client, keyed("a"), by_function).await }
        });
        place.until_waiting(&watcher, 1).await;
        tx.execute(&place.sql("DELETE FROM windlass.job_keys"), &[]).await.unwrap();
        tx.commit().await.unwrap();
        let first = waiting.await.unwrap();
        assert!(matches!(first, EnqueueAnswer::New(_)), "{first:?}");
        let second = enqueue(&engine, vec![keyed("a")]).await;
        assert_eq!(second, [EnqueueAnswer::Duplicate(first.job().unwrap())], "by function: {by_function}");
    }
}

#[tokio::test]
async fn a_job_that_is_claimed_while_a_caller_wants_to_replace_it_is_kept() {
    for by_function in [true, false] {
        let place = TestStore::patient();
        let engine = Arc::new(place.ready().await);
        let id = stored(&enqueue(&engine, vec![keyed("a")]).await)[0];
        let (mut claiming, mut client, watcher) =
            (place.connect().await, place.connect().await, place.connect().await);
        let tx = claiming.transaction().await.unwrap();
        let text = "UPDATE windlass.delayed_jobs SET locked_at = now(), locked_by = gen_random_uuid(),
            token = gen_random_uuid(), attempts = 1";
        tx.execute(&place.sql(text), &[]).await.unwrap();
        let waiting = tokio::spawn({
            let engine = engine.clone();
            async move { enqueue_by(&engine, &mut client, replacing("a", "late"), by_function).await }
        });
        place.until_waiting(&watcher, 1).await;
        tx.commit().await.unwrap();
        assert_eq!(waiting.await.unwrap(), EnqueueAnswer::Duplicate(id), "by function: {by_function}");
        assert_eq!(engine.job(id).await.unwrap().unwrap().job.payload, Payload::default());
    }
}

#[tokio::test]
async fn a_day_of_the_history_that_is_made_meanwhile_does_not_fail_an_end() {
    let place = TestStore::patient();
    let engine = Arc::new(place.ready().await);
    let job = running(&engine, &["a"]).await.remove(0);
    let (mut making, mut client, watcher) =
        (place.connect().await, place.connect().await, place.connect().await);
    let tx = making.transaction().await.unwrap();
    tx.execute(&place.sql("SELECT windlass.create_partitions(now())"), &[]).await.unwrap();
    let ending = tokio::spawn({
        let (engine, fence) = (engine.clone(), job.fence());
        async move {
            let tx = client.transaction().await.unwrap();
            let settled = engine.complete_in(&tx, fence).await.unwrap();
            tx.commit().await.unwrap();
            settled
        }
    });
    place.until_waiting(&watcher, 1).await;
    tx.commit().await.unwrap();
    assert_eq!(ending.await.unwrap(), Settled::Applied);
    let in_rest = place.ask(&watcher, "SELECT count(*) FROM windlass.job_history_rest").await;
    assert_eq!(in_rest, "0", "the row is in the partition of its day");
}
