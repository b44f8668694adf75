//! Sweeps and heartbeats go on when a part of what they do fails, and follow when there is much to do.

use std::time::Duration;

use windlass_core::engine::{Admin, Declaration, Engine};
use windlass_core::enqueue::NewJob;
use windlass_core::job::Phase;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::TypeName;
use windlass_core::payload::Payload;
use windlass_core::worker::{Beat, Heartbeat};

use super::{Place, WORKER, enqueue, queue, request};

#[tokio::test]
async fn a_duty_that_fails_keeps_none_of_the_others_undone_and_is_told() {
    let place = Place::shared();
    let engine = place.ready().await;
    enqueue(&engine, 3).await;
    place.sql(
        "INSERT INTO windlass.ended_keys (job, job_type, key) VALUES (1, 'work', 'k');
         ALTER TABLE windlass.delayed_jobs RENAME COLUMN expires_at TO lost;
         ALTER TABLE windlass.workers RENAME COLUMN expires_at TO lost",
    );
    assert!(place.count("windlass.count_deltas") > 0);
    let error = engine.sweep(10).await.unwrap_err();
    assert!(error.to_string().contains("expires_at"), "{error}");
    assert_eq!(place.count("windlass.count_deltas"), 0, "what comes after them is done");
    assert_eq!(place.count("windlass.ended_keys"), 0);
}

#[tokio::test]
async fn one_sweep_follows_many_changes_and_frees_many_keys() {
    let place = Place::shared();
    let engine = place.ready().await;
    place.sql(
        "INSERT INTO windlass.count_deltas (job_type, queue, enqueued)
         SELECT 'work', 'main', 1 FROM generate_series(1, 45000);
         INSERT INTO windlass.ended_keys (job, job_type, key)
         SELECT n, 'work', n::text FROM generate_series(1, 95) AS n",
    );
    engine.sweep(10).await.unwrap();
    assert_eq!(place.count("windlass.count_deltas"), 0);
    assert_eq!(place.count("windlass.ended_keys"), 0);
    assert_eq!(engine.queues().await.unwrap()[0].totals.enqueued, 45_000);
}

#[tokio::test]
async fn a_sweep_looks_for_jobs_without_a_handler_only_of_types_that_have_some_waiting() {
    let place = Place::shared();
    let engine = place.ready().await;
    let name = TypeName::parse("unhandled").unwrap();
    let types = vec![TypeSpec::new(name.clone(), queue())];
    engine.declare(Declaration { queues: Vec::new(), types }).await.unwrap();
    let answers = engine.enqueue(request(vec![NewJob::new(name, Payload::default())])).await.unwrap();
    let id = answers[0].job().unwrap();
    // By the counts there is none, so nobody walks over all that waits to find it.
    place.sql("UPDATE windlass.count_deltas SET waiting = 0");
    engine.sweep(10).await.unwrap();
    assert_eq!(engine.job(id).await.unwrap().unwrap().phase(), Phase::Ready);
    place.sql("UPDATE windlass.counts SET waiting = 1 WHERE job_type = 'unhandled'");
    engine.sweep(10).await.unwrap();
    assert_eq!(engine.job(id).await.unwrap().unwrap().phase(), Phase::Parked);
}

#[tokio::test]
async fn a_heartbeat_is_stored_even_if_it_cannot_learn_what_was_asked_to_stop() {
    let place = Place::shared();
    let engine = place.ready().await;
    place.sql("ALTER TABLE windlass.delayed_jobs RENAME COLUMN cancel_requested TO lost");
    let beat = engine.extend(Heartbeat { worker: WORKER, lease: Duration::from_secs(30) }).await.unwrap();
    assert_eq!(beat, Beat::Alive { cancel: Vec::new() });
    assert_eq!(place.sql("SELECT beats FROM windlass.workers"), "1");
}
