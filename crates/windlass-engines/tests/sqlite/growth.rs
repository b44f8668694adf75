//! What a file keeps of what goes on for ever must have an end.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::engine::{Admin, Engine, RescueRequest};
use windlass_core::lease_watch::Suspicion;
use windlass_core::limits::{ATTEMPTS_SHOWN_MAX, DEAD_WORKER_KEPT};
use windlass_core::settle::{AttemptReport, Transition};
use windlass_core::worker::WorkerId;
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

use super::{Place, card, claim, enqueue, ready_engine};

fn rows(place: &Place, table: &str) -> u32 {
    let sql = format!("SELECT count(*) FROM {table}");
    place.connect().query_row(&sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_job_that_snoozes_again_and_again_keeps_only_its_newest_attempts() {
    let place = Place::new();
    let engine = ready_engine(&place).await;
    let id = enqueue(&engine, 1).await[0];
    let turns = ATTEMPTS_SHOWN_MAX * 3;
    for _ in 0..turns {
        let claimed = claim(&engine, 1).await.remove(0);
        let snooze = Transition::Snooze { after: Duration::ZERO };
        engine.settle(vec![claimed.settled(snooze, AttemptReport::default())]).await.unwrap();
    }
    assert!(rows(&place, "attempts") < ATTEMPTS_SHOWN_MAX * 2);
    let shown: Vec<_> = engine.attempts(id).await.unwrap().iter().map(|attempt| attempt.number).collect();
    assert_eq!(shown, Vec::from_iter(turns - ATTEMPTS_SHOWN_MAX + 1..=turns));
}

#[tokio::test]
async fn workers_that_died_long_ago_leave_no_row() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    let engine = SqliteEngine::open(place.path(), options).unwrap();
    let workers = [1, 2, 3].map(WorkerId::from_random);
    for worker in workers {
        engine.register(card(worker)).await.unwrap();
    }
    clock.advance(Duration::from_secs(60));
    let silent = workers[..2].iter().map(|worker| Suspicion { worker: *worker, beats: 0 }).collect();
    engine.rescue(RescueRequest { silent, crashes_max: 3, limit: 10 }).await.unwrap();
    engine.prune(10).await.unwrap();
    assert_eq!(rows(&place, "workers"), 3, "not at once");
    clock.advance(DEAD_WORKER_KEPT);
    engine.prune(10).await.unwrap();
    assert_eq!(rows(&place, "workers"), 1, "one is only silent");
}
