//! Other processes work between the read of a dead worker's jobs and their return to the queue.

use std::sync::Arc;

use windlass_core::engine::{Engine, RescueRequest};
use windlass_core::lease_watch::Suspicion;
use windlass_core::worker::WorkerId;

use super::locks::{PATIENT, keyed, until_waiting, with_settings};
use super::{WORKER, bits, card, claim, on_a_clock, request, session};

/// Another process has taken the job back and claimed it again. The rescue is blocked between its two steps
/// by the table of keys, which only the second step reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_live_worker_holds_by_now_stays_with_it() {
    let place = with_settings(PATIENT);
    let (engine, clock) = on_a_clock(&place).await;
    let engine = Arc::new(engine);
    engine.enqueue(request(vec![keyed("a")])).await.unwrap();
    assert_eq!(claim(&engine, 1).await.len(), 1);
    clock.advance(std::time::Duration::from_secs(60));
    engine.register(card(WorkerId::from_random(bits()))).await.unwrap();
    let other = session(&place.direct).await;
    let in_schema = |text: &str| text.replace("windlass.", &format!("{}.", place.schema));
    let hold_up = "BEGIN; LOCK TABLE windlass.job_keys IN ACCESS EXCLUSIVE MODE";
    other.batch_execute(&in_schema(hold_up)).await.unwrap();

    let rescuer = Arc::clone(&engine);
    let rescuing = tokio::spawn(async move {
        let silent = vec![Suspicion { worker: WORKER, beats: 0 }];
        rescuer.rescue(RescueRequest { silent, crashes_max: 3, limit: 500 }).await
    });
    until_waiting(&place, 1, "the rescue is about to take the job back");
    let given_out_again = "UPDATE windlass.delayed_jobs
        SET token = gen_random_uuid(), locked_by = (SELECT id FROM windlass.workers WHERE died IS NULL); COMMIT";
    other.batch_execute(&in_schema(given_out_again)).await.unwrap();

    let rescued = rescuing.await.unwrap().unwrap();
    assert_eq!((rescued.returned, rescued.buried), (vec![], vec![]));
    let held = "windlass.delayed_jobs j JOIN windlass.workers w ON w.id = j.locked_by
        WHERE w.died IS NULL AND j.gate IS NULL AND j.crashes = 0";
    assert_eq!(place.count(held), 1);
}
