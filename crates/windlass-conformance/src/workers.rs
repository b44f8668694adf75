//! Workers register, send heartbeats, and leave.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::claim::{ClaimAnswer, ClaimRequest};
use windlass_core::error::EngineError;
use windlass_core::job::{JobState, StoredState};
use windlass_core::lease::membership::{MemberCount, Peer, is_live};
use windlass_core::limits::{DEAD_WORKER_KEPT, WORKER_LEASE};
use windlass_core::names::DutyName;
use windlass_core::worker::{Heartbeat, Liveness, WorkerCard, WorkerId};

use crate::harness::*;

fn alive() -> Liveness {
    Liveness::Alive { cancel: vec![] }
}

pub async fn a_registered_worker_is_seen_with_its_card(h: &Harness) {
    let card = h.card();
    let id = h.register(card.clone()).await;
    let sighting = h.sighting_of(id).await.expect("the worker is registered");
    assert_eq!((sighting.card, sighting.since), (card, h.now()));
    assert_eq!((sighting.expired, sighting.silent_for, sighting.running), (false, secs(0), 0));
}

pub async fn an_identity_registers_only_once(h: &Harness) {
    let card = h.card();
    h.register(card.clone()).await;
    let answer = h.engine.register(card).await;
    assert!(matches!(answer, Err(EngineError::Refused(_))), "{answer:?}");
}

pub async fn an_identity_that_was_declared_dead_never_registers_again(h: &Harness) {
    let card = h.card();
    let victim = h.register(card.clone()).await;
    h.kill(victim).await;
    let answer = h.engine.register(card).await;
    assert!(matches!(answer, Err(EngineError::Refused(_))), "{answer:?}");
}

pub async fn a_heartbeat_raises_the_counter_and_ends_the_silence(h: &Harness) {
    h.advance(secs(7));
    let before = h.sighting_of(h.worker).await.expect("the worker is registered");
    assert_eq!(before.silent_for, secs(7));
    assert_eq!(h.beat(h.worker).await, alive());
    let after = h.sighting_of(h.worker).await.expect("the worker is registered");
    assert!(after.beats > before.beats, "{} then {}", before.beats, after.beats);
    assert_eq!(after.silent_for, secs(0));
}

pub async fn a_lease_runs_out_by_the_stores_clock(h: &Harness) {
    h.advance(WORKER_LEASE - secs(1));
    assert!(!h.sighting_of(h.worker).await.expect("the worker is registered").expired);
    h.advance(secs(2));
    assert!(h.sighting_of(h.worker).await.expect("the worker is registered").expired);
}

pub async fn a_heartbeat_extends_the_lease_from_now(h: &Harness) {
    h.advance(WORKER_LEASE - secs(1));
    h.beat(h.worker).await;
    h.advance(WORKER_LEASE - secs(1));
    assert!(!h.sighting_of(h.worker).await.expect("the worker is registered").expired);
}

pub async fn a_heartbeat_may_bring_another_length_of_lease(h: &Harness) {
    h.engine.extend(Heartbeat { worker: h.worker, lease: minutes(10), idle: false }).await.expect(UP);
    h.advance(minutes(9));
    assert!(!h.sighting_of(h.worker).await.expect("the worker is registered").expired);
}

pub async fn a_late_heartbeat_extends_until_the_worker_was_declared_dead(h: &Harness) {
    h.let_leases_run_out();
    assert_eq!(h.beat(h.worker).await, alive());
    assert!(!h.sighting_of(h.worker).await.expect("the worker is registered").expired);
}

pub async fn a_heartbeat_after_the_declaration_says_dead_for_ever(h: &Harness) {
    let victim = h.register_worker().await;
    h.kill(victim).await;
    for _ in 0..2 {
        assert_eq!(h.beat(victim).await, Liveness::Dead);
        assert_eq!(h.sighting_of(victim).await, None);
    }
}

pub async fn a_worker_that_died_long_ago_stays_dead_when_it_is_forgotten(h: &Harness) {
    let victim = h.register_worker().await;
    h.kill(victim).await;
    h.advance(DEAD_WORKER_KEPT + secs(1));
    assert!(h.prune().await >= 1);
    assert_eq!(h.beat(victim).await, Liveness::Dead);
    let request = ClaimRequest { worker: victim, ..h.claim_request(1) };
    assert_eq!(h.engine.claim(request).await.expect(UP), ClaimAnswer::WorkerDead);
}

pub async fn a_dead_worker_is_not_forgotten_while_it_holds_a_job(h: &Harness) {
    h.enqueue_many(2).await;
    let victim = h.register_worker().await;
    h.claim_as(victim, 2).await;
    h.let_leases_run_out();
    let silent = vec![h.suspect(victim).await];
    h.rescue(silent, 1).await;
    h.advance(DEAD_WORKER_KEPT + secs(1));
    h.prune().await;
    assert_eq!(touched(&h.rescue(vec![], 10).await), 1);
}

pub async fn a_stranger_is_told_that_it_is_dead(h: &Harness) {
    assert_eq!(h.beat(WorkerId::from_random(h.fresh_bits())).await, Liveness::Dead);
}

pub async fn a_sighting_counts_the_jobs_that_the_worker_holds(h: &Harness) {
    h.enqueue_many(3).await;
    let claimed = h.claim(3).await;
    h.succeed(&claimed[0]).await;
    assert_eq!(h.sighting_of(h.worker).await.expect("the worker is registered").running, 2);
}

pub async fn a_worker_that_leaves_is_no_longer_seen(h: &Harness) {
    let leaver = h.register_worker().await;
    h.engine.retire(leaver).await.expect(UP);
    assert_eq!(h.sighting_of(leaver).await, None);
    assert_eq!(h.beat(leaver).await, Liveness::Dead);
}

pub async fn a_worker_that_leaves_gives_its_jobs_back_without_cost(h: &Harness) {
    let leaver = h.register_worker().await;
    let id = h.enqueue(work()).await;
    h.claim_one_as(leaver).await;
    h.engine.retire(leaver).await.expect(UP);
    assert_eq!(h.state_of(id).await, StoredState::Waiting { gate: None });
    let counters = h.counters_of(id).await;
    assert_eq!((counters.failures, counters.crashes, counters.holds), (0, 0, 0));
    assert_eq!(h.claim_one().await.job.id, id);
}

pub async fn a_worker_that_leaves_takes_no_job_of_another_along(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let leaver = h.register_worker().await;
    h.engine.retire(leaver).await.expect(UP);
    assert_eq!(h.job_state_of(claimed.job.id).await, JobState::Running);
}

pub async fn the_end_by_a_worker_that_left_is_lost(h: &Harness) {
    let leaver = h.register_worker().await;
    h.enqueue(work()).await;
    let claimed = h.claim_one_as(leaver).await;
    h.engine.retire(leaver).await.expect(UP);
    let end = windlass_core::settle::Transition::Succeed { result: None };
    assert_eq!(h.settle(&claimed, end).await, windlass_core::settle::Settled::ClaimLost);
    assert_eq!(h.job_state_of(claimed.job.id).await, JobState::Ready);
}

pub async fn leaving_twice_does_no_harm(h: &Harness) {
    let leaver = h.register_worker().await;
    h.engine.retire(leaver).await.expect(UP);
    h.engine.retire(leaver).await.expect(UP);
}

fn duties(names: &[&str]) -> Vec<DutyName> {
    names.iter().map(|name| DutyName::parse(name).expect("behaviours use plain names")).collect()
}

/// Counts the members that core would count for a worker, from a list of all.
async fn counted_by_core(h: &Harness, me: WorkerId) -> MemberCount {
    let workers = h.engine.workers().await.expect(UP);
    let mine =
        workers.iter().find(|one| one.card.id == me).expect("the worker is registered").card.duties.clone();
    let heard = workers.into_iter().filter(|one| is_live(one.silent_for, one.card.lease));
    let peers: Vec<_> = heard.map(|one| Peer { worker: one.card.id, duties: one.card.duties }).collect();
    MemberCount::of(me, &mine, &peers)
}

pub async fn a_sign_of_life_counts_who_else_is_heard_and_could_do_the_same(h: &Harness) {
    let sets = [&["rescue", "prune"][..], &["rescue"], &["other"], &[], &["rescue", "prune"]];
    let mut workers = Vec::new();
    for set in sets.iter().cycle().take(15) {
        workers.push(h.register(WorkerCard { duties: duties(set), ..h.card() }).await);
        h.advance(secs(2));
    }
    // Some workers are without heartbeats by now, one was declared dead, one has left, and some have sent
    // heartbeats since.
    h.kill(workers[14]).await;
    h.engine.retire(workers[13]).await.expect(UP);
    for worker in &workers[..10] {
        h.beat(*worker).await;
    }
    h.advance(WORKER_LEASE / 2 - secs(3));
    h.beat(workers[0]).await;
    h.advance(secs(3));
    let alone = h.heartbeat_with_members(workers[12]).await;
    h.advance(secs(1));
    for worker in [workers[0], workers[1], workers[2], workers[3], workers[12]] {
        let expected = counted_by_core(h, worker).await;
        assert_eq!(h.heartbeat_with_members(worker).await.members, expected, "{worker}");
    }
    assert!(alone.members.live > 1, "{:?}", alone.members);
    h.advance(WORKER_LEASE);
    let last = h.heartbeat_with_members(workers[0]).await.members;
    assert_eq!((last.live, last.duties.iter().map(|one| (one.able, one.before)).max()), (1, Some((1, 0))));
}

pub async fn a_sign_of_life_is_told_the_stores_time_and_says_what_its_own_clock_shows(h: &Harness) {
    assert_eq!(h.sighting_of(h.worker).await.expect("the worker is registered").clock_ahead_micros, None);
    h.advance(secs(3));
    let (now, heartbeat) = (h.now(), Heartbeat { worker: h.worker, lease: WORKER_LEASE, idle: false });
    let heartbeat_answer = h.engine.heartbeat_with_members(heartbeat, now.plus(secs(5))).await.expect(UP);
    assert_eq!((heartbeat_answer.beat, heartbeat_answer.now), (alive(), now));
    let ahead = h.sighting_of(h.worker).await.expect("the worker is registered").clock_ahead_micros;
    assert_eq!(ahead, Some(5_000_000));
    h.advance(secs(7));
    h.engine.heartbeat_with_members(heartbeat, now).await.expect(UP);
    let behind = h.sighting_of(h.worker).await.expect("the worker is registered").clock_ahead_micros;
    assert_eq!(behind, Some(-7_000_000));
}

pub async fn a_dead_worker_that_sends_a_heartbeat_is_told_so_and_counts_for_no_type(h: &Harness) {
    let victim = h.register_worker().await;
    h.kill(victim).await;
    assert_eq!(h.heartbeat_with_members(victim).await.beat, Liveness::Dead);
    let other = h.register_worker().await;
    let count = h.heartbeat_with_members(other).await.members;
    assert_eq!(count, counted_by_core(h, other).await);
}
