//! A leader that is frozen until another leads, and then resumed, writes nothing under its old fence.

use super::at_length;
use super::killed::{SHORT, assert_in_order};
use super::ledger::Line;
use super::test_store::TestStore;
use super::workers::{Leader, PATIENCE, Workers};

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_a_leader_that_stood_still_writes_nothing_under_its_old_fence() {
    freeze_and_resume(TestStore::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_a_leader_that_stood_still_writes_nothing_under_its_old_fence() {
    freeze_and_resume(TestStore::redis()).await;
}

async fn freeze_and_resume(place: TestStore) {
    let (name, rounds) = (place.name(), if at_length() { 100 } else { 3 });
    let mut workers = Workers::start(place, SHORT).await;
    for _ in 0..rounds {
        let leader = frozen_leader(&mut workers).await;
        let next = workers.leader_after(leader.fence).await;
        until_written(&mut workers, next.fence).await;
        workers.process(leader.pid).wake();
        until_refused(&mut workers, leader).await;
        assert_in_order(&mut workers).await;
    }
    println!(
        "{name}: {rounds} leaders frozen past their term and resumed: each was refused, and wrote nothing"
    );
}

/// Freezes the leader, once it has written: only then is there a write that can be refused. On a busy machine
/// a lease as short as these may expire before, and then the next leader is taken.
async fn frozen_leader(workers: &mut Workers) -> Leader {
    loop {
        let leader = workers.leader().await;
        until_written(workers, leader.fence).await;
        workers.process(leader.pid).freeze();
        let line = Line { fence: leader.fence, pid: leader.pid.into() };
        let has_written = workers.ledger.lines().await.contains(&line);
        if has_written && workers.leader().await.fence == leader.fence {
            return leader;
        }
        workers.process(leader.pid).wake();
    }
}

async fn until_written(workers: &mut Workers, fence: i64) {
    until(async || workers.ledger.lines().await.last().is_some_and(|line| line.fence >= fence)).await;
}

async fn until_refused(workers: &mut Workers, leader: Leader) {
    let refused = Line { fence: leader.fence, pid: leader.pid.into() };
    until(async || workers.ledger.refusals().await.contains(&refused)).await;
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let look = async {
        while !is_so().await {
            // may sleep: no notification reports what was written.
            tokio::time::sleep(SHORT / 50).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("expected it within the limit of all waits");
}
