//! Jobs that no live worker handles are parked, and finished jobs are pruned.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::engine::Declaration;
use windlass_core::enqueue::{EnqueueAnswer, NewJob};
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, JobState, StoredState};
use windlass_core::job_type::TypeSpec;
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::limits::RETENTION_DAYS_DEFAULT;
use windlass_core::worker::WorkerCard;

use crate::harness::*;

/// Enqueues a ready job in [`MAIN`] of a type that no worker lists.
async fn orphan(h: &Harness) -> JobId {
    let types = vec![type_spec("orphan", MAIN)];
    h.engine.declare(Declaration { queues: vec![], types }).await.expect(UP);
    h.enqueue(job_of("orphan")).await
}

fn orphanage() -> StoredState {
    StoredState::Waiting { gate: Some(Gate::no_handler(&type_name("orphan"))) }
}

pub async fn a_job_without_a_handler_is_parked_while_its_queue_is_served(h: &Harness) {
    let id = orphan(h).await;
    assert_eq!(h.sweep().await, 1);
    assert_eq!(h.state_of(id).await, orphanage());
}

pub async fn a_job_of_a_queue_without_workers_just_waits(h: &Harness) {
    let id = orphan(h).await;
    h.engine.retire(h.worker).await.expect(UP);
    let elsewhere = WorkerCard { queues: vec![queue(OTHER)], ..h.card() };
    h.register(elsewhere).await;
    assert_eq!(h.sweep().await, 0);
    assert_eq!(h.job_state_of(id).await, JobState::Ready);
}

pub async fn a_job_that_some_worker_handles_is_not_parked(h: &Harness) {
    let id = h.enqueue(work()).await;
    assert_eq!(h.sweep().await, 0);
    assert_eq!(h.job_state_of(id).await, JobState::Ready);
}

pub async fn a_job_waits_for_its_handler_no_longer_once_a_worker_brings_it(h: &Harness) {
    let id = orphan(h).await;
    h.sweep().await;
    h.register(WorkerCard { types: vec![type_name("orphan")], ..h.card() }).await;
    assert_eq!(h.state_of(id).await, StoredState::Waiting { gate: None });
}

pub async fn a_worker_of_another_type_lets_no_job_through(h: &Harness) {
    let id = orphan(h).await;
    h.sweep().await;
    h.register_worker().await;
    assert_eq!(h.state_of(id).await, orphanage());
}

pub async fn waiting_for_a_handler_costs_nothing(h: &Harness) {
    let id = orphan(h).await;
    let before = h.record(id).await.job;
    h.sweep().await;
    assert_eq!(h.record(id).await.job, before);
}

pub async fn a_finished_job_is_kept_for_the_days_of_its_type(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.succeed(&claimed).await;
    h.advance(days(u64::from(RETENTION_DAYS_DEFAULT)) - secs(60));
    h.prune().await;
    assert!(h.exists(id).await);
}

pub async fn a_job_that_ends_after_a_prune_is_kept_to_its_last_hour_through_all_others(h: &Harness) {
    // Some stores drop expired records by the day. The job ends at noon, so that half a day is left of the
    // day on which its retention ends.
    h.advance(minutes(12 * 60));
    h.prune().await;
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.succeed(&claimed).await;
    for _ in 0..4 * RETENTION_DAYS_DEFAULT {
        h.prune().await;
        assert!(h.exists(id).await, "at {}", h.now());
        h.advance(minutes(6 * 60));
    }
    h.advance(days(1));
    h.prune().await;
    assert!(!h.exists(id).await);
}

pub async fn a_job_that_is_kept_for_months_is_kept_to_the_last_hour_of_a_month(h: &Harness) {
    const KEPT_FOR: u64 = 120;
    // Some stores drop records with a long retention by the month. The job ends at such a time that its
    // retention ends half a day before a month does.
    h.advance(minutes(12 * 60));
    while !h.now().plus(days(KEPT_FOR + 1)).to_string().contains("-01T") {
        h.advance(days(1));
    }
    let types = vec![TypeSpec { retention_days: 120, ..type_spec(WORK, MAIN) }];
    h.engine.declare(Declaration { queues: vec![], types }).await.expect(UP);
    h.prune().await;
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.succeed(&claimed).await;
    h.advance(days(KEPT_FOR) - minutes(6 * 60));
    h.prune().await;
    assert!(h.exists(id).await);
    h.advance(days(1));
    h.prune().await;
    assert!(!h.exists(id).await);
}

pub async fn a_finished_job_past_its_retention_is_gone_with_its_attempts(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.succeed(&claimed).await;
    h.advance(days(u64::from(RETENTION_DAYS_DEFAULT) + 1));
    assert!(h.prune().await >= 1);
    assert!(!h.exists(id).await);
    assert_eq!(h.attempts_of(id).await, []);
}

pub async fn a_cancelled_job_past_its_retention_is_gone(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.engine.cancel(id, "not needed").await.expect(UP);
    h.advance(days(u64::from(RETENTION_DAYS_DEFAULT) + 1));
    h.prune().await;
    assert!(!h.exists(id).await);
}

pub async fn a_job_cancelled_between_two_tries_is_gone_with_its_attempts(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.fail(&claimed, minutes(5)).await;
    h.engine.cancel(id, "not needed").await.expect(UP);
    assert_eq!(h.attempts_of(id).await.len(), 1);
    h.advance(days(u64::from(RETENTION_DAYS_DEFAULT) + 1));
    h.prune().await;
    assert_eq!(h.attempts_of(id).await, []);
}

pub async fn a_dead_letter_that_succeeded_after_all_is_gone_with_its_attempts(h: &Harness) {
    let id = h.dead_letter().await;
    h.engine.retry(id).await.expect(UP);
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    assert_eq!(h.attempts_of(id).await.len(), 2);
    h.advance(days(u64::from(RETENTION_DAYS_DEFAULT) + 1));
    h.prune().await;
    assert_eq!(h.attempts_of(id).await, []);
}

pub async fn a_dead_letter_that_succeeded_after_all_leaves_nothing_if_its_type_keeps_nothing(h: &Harness) {
    let id = h.dead_letter().await;
    let types = vec![TypeSpec { retention_days: 0, ..type_spec(WORK, MAIN) }];
    h.engine.declare(Declaration { queues: vec![], types }).await.expect(UP);
    h.engine.retry(id).await.expect(UP);
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    assert_eq!(h.attempts_of(id).await, []);
}

pub async fn each_type_has_its_own_retention(h: &Harness) {
    let types = vec![TypeSpec { retention_days: 1, ..type_spec("brief", MAIN) }];
    h.engine.declare(Declaration { queues: vec![], types }).await.expect(UP);
    let [brief, long] = [h.enqueue(job_of("brief")).await, h.enqueue(work()).await];
    for id in [brief, long] {
        h.engine.cancel(id, "not needed").await.expect(UP);
    }
    h.advance(days(2));
    h.prune().await;
    assert_eq!((h.exists(brief).await, h.exists(long).await), (false, true));
}

pub async fn another_retention_does_not_change_what_has_already_ended(h: &Harness) {
    let keep_for = |days| Declaration {
        queues: vec![],
        types: vec![TypeSpec { retention_days: days, ..type_spec(WORK, MAIN) }],
    };
    let mut ended = Vec::new();
    for retention in [9, 1, 5] {
        h.engine.declare(keep_for(retention)).await.expect(UP);
        let claimed = h.enqueue_and_claim_one().await;
        ended.push(h.succeed(&claimed).await);
    }
    let mut left = Vec::new();
    for past in [2, 4, 4] {
        h.advance(days(past));
        h.prune().await;
        left.push([h.exists(ended[0]).await, h.exists(ended[1]).await, h.exists(ended[2]).await]);
    }
    assert_eq!(left, [[true, false, true], [true, false, false], [false, false, false]]);
}

pub async fn keys_whose_period_is_over_are_pruned_in_batches_too(h: &Harness) {
    let scope = KeyScope::For(minutes(10));
    let keyed = |n: u32| {
        let claim = KeyClaim { key: key(&format!("k{n}")), scope, on_conflict: OnConflict::Keep };
        NewJob { key: Some(claim), ..job_of(FLEETING) }
    };
    h.enqueue_all((0..6).map(keyed).collect()).await;
    for claimed in h.claim(5).await {
        h.succeed(&claimed).await;
    }
    h.advance(minutes(30));
    let mut calls = 0;
    while h.engine.prune(2).await.expect(UP).more {
        calls += 1;
        assert!(calls < 10, "the key of a job that is still live must not keep a prune going");
    }
    assert!(calls >= 2, "five keys go in batches of two");
    assert!(matches!(h.offer(keyed(5)).await, EnqueueAnswer::Duplicate(_)), "a live job holds its key");
}

pub async fn dead_letters_stay_until_they_are_discarded(h: &Harness) {
    let id = h.dead_letter().await;
    h.advance(days(4000));
    h.prune().await;
    assert_eq!(h.job_state_of(id).await, JobState::Dead);
}

pub async fn unfinished_jobs_are_never_pruned(h: &Harness) {
    let waiting = h.enqueue(work()).await;
    let running = h.enqueue_and_claim_one_of(KEPT).await;
    h.advance(days(4000));
    h.prune().await;
    assert!(h.exists(waiting).await && h.exists(running).await);
}

pub async fn a_prune_goes_in_batches_and_says_whether_there_is_more(h: &Harness) {
    h.enqueue_many(5).await;
    h.engine.purge(&queue(MAIN), 100).await.expect(UP);
    h.advance(days(u64::from(RETENTION_DAYS_DEFAULT) + 1));
    let first = h.engine.prune(2).await.expect(UP);
    assert!(first.more && first.changed >= 2, "{first:?}");
    let mut calls = 1;
    while h.engine.prune(2).await.expect(UP).more {
        calls += 1;
        assert!(calls < 10, "a prune must come to its end");
    }
    let all = windlass_core::admin::ListRequest { limit: 100, ..Default::default() };
    assert_eq!(h.engine.list(all).await.expect(UP), []);
}

pub async fn totals_outlive_what_is_pruned(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.succeed(&claimed).await;
    h.advance(days(u64::from(RETENTION_DAYS_DEFAULT) + 1));
    let before = h.totals().await;
    h.prune().await;
    assert_eq!((h.totals().await, before.succeeded), (before, 1));
}

pub async fn a_gate_lets_the_oldest_through_first(h: &Harness) {
    let ids = h.enqueue_many(3).await;
    for claimed in h.claim(3).await {
        h.park(&claimed, "semaphore:screenshot").await;
    }
    let opened = h.engine.open_gate(&Gate::named("semaphore:screenshot"), 2).await.expect(UP);
    assert_eq!((opened.changed, opened.more), (2, true));
    let job_states =
        [h.job_state_of(ids[0]).await, h.job_state_of(ids[1]).await, h.job_state_of(ids[2]).await];
    assert_eq!(job_states, [JobState::Ready, JobState::Ready, JobState::Parked]);
}

pub async fn a_gate_lets_no_job_through_that_waits_at_another(h: &Harness) {
    let id = h.parked_job("semaphore:screenshot").await;
    let opened = h.engine.open_gate(&Gate::named("semaphore:mail"), 10).await.expect(UP);
    assert_eq!((opened.changed, opened.more), (0, false));
    assert_eq!(h.job_state_of(id).await, JobState::Parked);
}

pub async fn what_a_gate_let_through_keeps_its_age(h: &Harness) {
    let id = h.parked_job("semaphore:screenshot").await;
    h.advance(secs(30));
    h.engine.open_gate(&Gate::named("semaphore:screenshot"), 10).await.expect(UP);
    let claimed = h.claim_one().await;
    assert_eq!((claimed.job.id, claimed.waited), (id, secs(30)));
}

impl Harness {
    /// Enqueues a job of the given type and claims it.
    async fn enqueue_and_claim_one_of(&self, name: &str) -> JobId {
        let id = self.enqueue(NewJob { priority: Some(level(0)), ..job_of(name) }).await;
        let claimed = self.claim(1).await;
        assert_eq!(ids(&claimed), [id]);
        id
    }
}

pub async fn ends_of_one_batch_are_kept_each_for_the_days_of_its_own_type(h: &Harness) {
    let named = |name: &str, retention_days| TypeSpec { retention_days, ..type_spec(name, MAIN) };
    let types = vec![named("long", 30), named("short", 1)];
    h.engine.declare(Declaration { queues: vec![], types }).await.expect(UP);
    h.enqueue_all(vec![job_of("long"), job_of("short"), job_of("long")]).await;
    let types = vec![type_name("long"), type_name("short")];
    let claimed = h.claim_with(windlass_core::claim::ClaimRequest { types, ..h.claim_request(3) }).await;
    let success = windlass_core::settle::Transition::Succeed { result: None };
    let ends = claimed.iter().map(|one| one.clone().settled(success.clone(), Default::default()));
    h.engine.settle(ends.collect()).await.expect(UP);
    h.advance(days(3));
    h.prune().await;
    for one in claimed {
        assert_eq!(h.exists(one.job.id).await, one.job.job_type == type_name("long"));
    }
}

/// Returns a job that a sweep has parked while the lease of the only worker that handles its type had
/// expired.
async fn parked_while_its_worker_was_silent(h: &Harness) -> (JobId, windlass_core::worker::WorkerId) {
    let id = orphan(h).await;
    let silent = h.register(WorkerCard { types: vec![type_name("orphan")], ..h.card() }).await;
    h.let_leases_run_out();
    h.beat(h.worker).await;
    assert_eq!(h.sweep().await, 1);
    assert_eq!(h.state_of(id).await, orphanage());
    (id, silent)
}

pub async fn a_late_heartbeat_lets_through_what_waited_for_a_handler(h: &Harness) {
    let (id, silent) = parked_while_its_worker_was_silent(h).await;
    h.beat(silent).await;
    assert_eq!(h.state_of(id).await, StoredState::Waiting { gate: None });
}

pub async fn a_sweep_lets_through_what_was_parked_while_the_clock_was_ahead(h: &Harness) {
    let (id, silent) = parked_while_its_worker_was_silent(h).await;
    h.clock.set(h.now().minus(windlass_core::limits::WORKER_LEASE));
    h.beat(silent).await;
    h.sweep().await;
    assert_eq!(h.state_of(id).await, StoredState::Waiting { gate: None });
}
