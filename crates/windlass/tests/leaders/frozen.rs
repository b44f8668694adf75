//! A leader that stands still until another leads, and goes on where it was, writes nothing under its old fence.

use super::at_length;
use super::crew::{Crew, Leader, PATIENCE};
use super::killed::{SHORT, assert_in_order};
use super::ledger::Line;
use super::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_a_leader_that_stood_still_writes_nothing_under_its_old_fence() {
    stand_still_and_go_on(Place::postgres()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_redis_a_leader_that_stood_still_writes_nothing_under_its_old_fence() {
    stand_still_and_go_on(Place::redis()).await;
}

async fn stand_still_and_go_on(place: Place) {
    let (name, rounds) = (place.name(), if at_length() { 100 } else { 3 });
    let mut crew = Crew::start(place, SHORT).await;
    for _ in 0..rounds {
        let leader = writing_leader(&mut crew).await;
        crew.process(leader.pid).freeze();
        let next = crew.leader_after(leader.fence).await;
        until_written(&mut crew, next.fence).await;
        crew.process(leader.pid).wake();
        until_refused(&mut crew, leader).await;
        assert_in_order(&mut crew).await;
    }
    println!(
        "{name}: {rounds} leaders frozen past their term and woken: each was refused, and wrote nothing"
    );
}

/// Who leads and has written: only then there is something to be refused.
async fn writing_leader(crew: &mut Crew) -> Leader {
    let leader = crew.leader().await;
    until_written(crew, leader.fence).await;
    leader
}

async fn until_written(crew: &mut Crew, fence: i64) {
    until(async || crew.ledger.lines().await.last().is_some_and(|line| line.fence >= fence)).await;
}

async fn until_refused(crew: &mut Crew, leader: Leader) {
    let refused = Line { fence: leader.fence, pid: leader.pid.into() };
    until(async || crew.ledger.refusals().await.contains(&refused)).await;
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let look = async {
        while !is_so().await {
            // may sleep: nobody is told what was written.
            tokio::time::sleep(SHORT / 50).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("expected it within a minute");
}
