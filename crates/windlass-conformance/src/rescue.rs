//! Jobs are taken back from dead workers, and only from those.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::admin::AttemptEnding;
use windlass_core::engine::RescueRequest;
use windlass_core::job::{JobState, StoredState};
use windlass_core::lease_watch::Suspicion;
use windlass_core::outcome::ErrorKind;
use windlass_core::worker::WorkerId;

use crate::harness::*;

pub async fn a_dead_workers_job_waits_again(h: &Harness) {
    let victim = h.register_worker().await;
    let id = h.enqueue(work()).await;
    h.claim_one_as(victim).await;
    let rescued = h.kill(victim).await;
    assert_eq!((rescued.returned, rescued.buried, rescued.more), (vec![id], vec![], false));
    assert_eq!(h.job_state_of(id).await, JobState::Parked, "as a suspect");
}

pub async fn a_crash_costs_no_failure_and_keeps_the_due_time(h: &Harness) {
    let id = h.enqueue(work()).await;
    let due = h.record(id).await.job.due;
    h.crash_once().await;
    let job = h.record(id).await.job;
    assert_eq!((job.counters.attempts, job.counters.failures, job.counters.crashes), (1, 0, 1));
    assert_eq!(job.due, due);
}

pub async fn the_attempt_of_a_dead_worker_is_remembered_as_crashed(h: &Harness) {
    let victim = h.register_worker().await;
    let id = h.enqueue(work()).await;
    h.claim_one_as(victim).await;
    h.kill(victim).await;
    let attempt = h.attempt_of(id).await;
    assert_eq!((attempt.worker, attempt.ending), (victim, AttemptEnding::Crashed));
    assert_eq!(attempt.ended_at, Some(h.now()));
    assert_eq!(attempt.error.map(|error| error.kind), Some(ErrorKind::Crashed));
}

pub async fn a_dead_worker_is_no_longer_seen(h: &Harness) {
    let victim = h.register_worker().await;
    h.kill(victim).await;
    assert_eq!(h.sighting_of(victim).await, None);
}

pub async fn a_worker_whose_lease_holds_is_left_alone(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let silent = vec![h.suspect(h.worker).await];
    let rescued = h.rescue(silent, 100).await;
    assert_eq!(touched(&rescued), 0);
    assert_eq!(h.job_state_of(claimed.job.id).await, JobState::Running);
    assert!(h.sighting_of(h.worker).await.is_some());
}

pub async fn a_worker_whose_counter_moved_is_left_alone(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let seen = h.suspect(h.worker).await;
    h.beat(h.worker).await;
    h.let_leases_run_out();
    assert_eq!(touched(&h.rescue(vec![seen], 100).await), 0);
    assert_eq!(h.job_state_of(claimed.job.id).await, JobState::Running);
}

pub async fn a_heartbeat_between_sighting_and_rescue_saves_the_worker(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.let_leases_run_out();
    let seen = h.suspect(h.worker).await;
    h.beat(h.worker).await;
    assert_eq!(touched(&h.rescue(vec![seen], 100).await), 0);
    assert_eq!(h.job_state_of(claimed.job.id).await, JobState::Running);
}

pub async fn an_old_job_of_a_live_worker_is_left_alone(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.advance(days(3));
    h.beat(h.worker).await;
    let silent = vec![h.suspect(h.worker).await];
    assert_eq!(touched(&h.rescue(silent, 100).await), 0);
    assert_eq!(h.job_state_of(claimed.job.id).await, JobState::Running);
}

pub async fn only_the_named_worker_is_declared_dead(h: &Harness) {
    let bystander = h.enqueue_and_claim_one().await;
    let victim = h.register_worker().await;
    h.enqueue(work()).await;
    h.claim_one_as(victim).await;
    assert_eq!(h.kill(victim).await.returned.len(), 1);
    assert_eq!(h.job_state_of(bystander.job.id).await, JobState::Running);
}

pub async fn an_unknown_worker_is_no_error(h: &Harness) {
    let stranger = Suspicion { worker: WorkerId::from_random(h.fresh_bits()), beats: 0 };
    assert_eq!(touched(&h.rescue(vec![stranger], 100).await), 0);
}

pub async fn two_rescuers_at_once_charge_one_crash(h: &Harness) {
    let victim = h.register_worker().await;
    let id = h.enqueue(work()).await;
    h.claim_one_as(victim).await;
    h.let_leases_run_out();
    let silent = vec![h.suspect(victim).await];
    let calls = (0..4).map(|_| {
        let request = RescueRequest { silent: silent.clone(), crashes_max: 3, limit: 100 };
        let engine = h.engine.clone();
        async move { touched(&engine.rescue(request).await.expect(UP)) }
    });
    assert_eq!(h.at_once(calls.collect()).await.into_iter().sum::<usize>(), 1);
    assert_eq!(h.counters_of(id).await.crashes, 1);
}

pub async fn a_rescue_goes_in_batches_and_goes_on_without_names(h: &Harness) {
    h.enqueue_many(5).await;
    let victim = h.register_worker().await;
    h.claim_as(victim, 5).await;
    h.let_leases_run_out();
    let first = h.rescue(vec![h.suspect(victim).await], 2).await;
    assert_eq!((touched(&first), first.more), (2, true));
    let second = h.rescue(vec![], 2).await;
    assert_eq!((touched(&second), second.more), (2, true));
    let third = h.rescue(vec![], 2).await;
    assert_eq!((touched(&third), third.more), (1, false));
    assert_eq!(h.counts().await.running, 0);
}

pub async fn a_worker_declared_dead_in_a_first_batch_cannot_end_a_job_of_the_next(h: &Harness) {
    h.enqueue_many(3).await;
    let victim = h.register_worker().await;
    let held = h.claim_as(victim, 3).await;
    h.let_leases_run_out();
    let first = h.rescue(vec![h.suspect(victim).await], 1).await;
    let left = held.iter().find(|claimed| !first.returned.contains(&claimed.job.id));
    let left = left.expect("one job was taken back, two are left");
    h.settle(left, windlass_core::settle::Transition::Succeed { result: None }).await;
    while h.rescue(vec![], 10).await.more {}
    assert_eq!(h.counts().await.running, 0);
    let ended = h.totals().await.succeeded + h.counts().await.parked;
    assert_eq!(ended, 3, "each job is either done or waits again, never both");
}

pub async fn the_first_and_second_crash_make_a_suspect(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.crash_once().await;
    assert_eq!(h.counters_of(id).await.crashes, 1);
    h.crash_suspect().await;
    assert_eq!(h.counters_of(id).await.crashes, 2);
    assert_eq!(h.job_state_of(id).await, JobState::Parked);
}

pub async fn the_third_crash_makes_a_dead_letter_whatever_the_attempts(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.crash_once().await;
    h.crash_suspect().await;
    let rescued = h.crash_suspect().await;
    assert_eq!((rescued.returned, rescued.buried), (vec![], vec![id]));
    let StoredState::Dead { error, at } = h.state_of(id).await else { panic!("the job is dead") };
    assert_eq!((error.kind, at), (ErrorKind::Crashed, h.now()));
}

pub async fn a_dead_letter_by_crashes_names_its_neighbours(h: &Harness) {
    let ids = h.enqueue_many(2).await;
    let victim = h.register_worker().await;
    h.claim_as(victim, 2).await;
    h.let_leases_run_out();
    let silent = vec![h.suspect(victim).await];
    let request = RescueRequest { silent, crashes_max: 1, limit: 100 };
    h.engine.rescue(request).await.expect(UP);
    for (id, neighbour) in [(ids[0], ids[1]), (ids[1], ids[0])] {
        let StoredState::Dead { error, .. } = h.state_of(id).await else { panic!("the job is dead") };
        assert!(error.text.contains(&format!("jobs {neighbour} too")), "{}", error.text);
    }
}

pub async fn every_job_that_a_dead_worker_held_is_charged(h: &Harness) {
    let ids = h.enqueue_many(3).await;
    h.crash_once().await;
    for id in ids {
        assert_eq!(h.counters_of(id).await.crashes, 1);
    }
}

pub async fn the_third_crash_buries_one_job_and_spares_its_former_neighbours(h: &Harness) {
    let ids = h.enqueue_many(3).await;
    h.crash_once().await;
    h.crash_suspect().await;
    h.crash_suspect().await;
    let crashes = [h.counters_of(ids[0]).await, h.counters_of(ids[1]).await, h.counters_of(ids[2]).await];
    assert_eq!(crashes.map(|counters| counters.crashes).iter().sum::<u32>(), 5);
    assert!(h.totals().await.dead <= 1);
}
