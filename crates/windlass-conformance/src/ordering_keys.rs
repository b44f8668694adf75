//! Jobs of one ordering key run one at a time, in the order in which they were enqueued.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use std::sync::Arc;

use windlass_core::admin::{CancelAnswer, Changed, RetryAnswer};
use windlass_core::enqueue::{EnqueueAnswer, NewJob, When};
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, JobState, StoredState};
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::names::OrderingKey;
use windlass_core::settle::{AttemptReport, Transition};

use crate::harness::*;

fn ordering_key(name: &str) -> OrderingKey {
    OrderingKey::parse(name).expect("behaviours use plain names")
}

fn of(name: &str) -> NewJob {
    NewJob { ordering_key: Some(ordering_key(name)), ..work() }
}

/// Enqueues three jobs of one ordering key.
async fn three(h: &Harness) -> [JobId; 3] {
    [h.enqueue(of("a")).await, h.enqueue(of("a")).await, h.enqueue(of("a")).await]
}

async fn gate_of(h: &Harness, id: JobId) -> Option<Gate> {
    match h.state_of(id).await {
        StoredState::Waiting { gate } => gate,
        other => panic!("expected a job that waits, got {other:?}"),
    }
}

async fn is_in_line(h: &Harness, id: JobId) -> bool {
    gate_of(h, id).await.is_some_and(|gate| gate.is_of_ordering_key())
}

async fn head(h: &Harness) -> Option<JobId> {
    h.engine.head_of(&type_name(WORK), &ordering_key("a")).await.expect(UP)
}

pub async fn jobs_of_an_ordering_key_run_one_at_a_time_in_the_order_of_their_arrival(h: &Harness) {
    let jobs = three(h).await;
    for id in jobs {
        let claimed = h.claim(10).await;
        assert_eq!(ids(&claimed), [id]);
        assert_eq!(h.claim(10).await, [], "the others wait");
        h.succeed(&claimed[0]).await;
    }
    assert_eq!(h.claim(10).await, []);
}

pub async fn a_batch_of_one_ordering_key_keeps_its_order(h: &Harness) {
    let answers = h.enqueue_all(vec![of("a"); 5]).await;
    let jobs: Vec<_> = answers.iter().map(|answer| answer.job().expect("taken")).collect();
    let mut ran = Vec::new();
    while let [claimed] = h.claim(10).await.as_slice() {
        ran.push(h.succeed(claimed).await);
    }
    assert_eq!(ran, jobs);
}

pub async fn ordering_keys_do_not_hold_each_other_up(h: &Harness) {
    let jobs = [h.enqueue(of("a")).await, h.enqueue(of("b")).await, h.enqueue(work()).await];
    h.enqueue(of("a")).await;
    assert_eq!(ids(&h.claim(10).await), jobs);
}

pub async fn an_ordering_key_counts_within_its_type_only(h: &Harness) {
    let here = h.enqueue(of("a")).await;
    let there = h.enqueue(NewJob { ordering_key: Some(ordering_key("a")), ..job_of(KEPT) }).await;
    assert_eq!(ids(&h.claim(10).await), [here, there]);
}

pub async fn who_waits_in_line_is_parked_and_uses_no_attempt(h: &Harness) {
    let [first, second, third] = three(h).await;
    assert_eq!(h.job_state_of(first).await, JobState::Ready);
    for id in [second, third] {
        assert_eq!(gate_of(h, id).await, Some(Gate::ordering_key(&type_name(WORK), &ordering_key("a"))));
    }
    let counts = h.counts().await;
    assert_eq!((counts.ready, counts.parked), (1, 2));
    let due = h.now();
    h.advance(minutes(1));
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    let job = h.claim_one().await.job;
    assert_eq!((job.id, job.due, job.enqueued_at), (second, due, due));
    assert_eq!((job.counters.attempts, job.counters.holds), (1, 0));
}

pub async fn the_head_of_an_ordering_key_can_be_asked_for(h: &Harness) {
    assert_eq!(head(h).await, None);
    let [first, second, _] = three(h).await;
    assert_eq!(head(h).await, Some(first));
    let claimed = h.claim_one().await;
    assert_eq!(head(h).await, Some(first));
    h.succeed(&claimed).await;
    assert_eq!(head(h).await, Some(second));
}

pub async fn a_retry_of_the_head_lets_no_job_pass(h: &Harness) {
    let [first, second, _] = three(h).await;
    let claimed = h.claim_one().await;
    h.fail(&claimed, minutes(1)).await;
    assert_eq!(h.claim(10).await, []);
    h.advance(minutes(1));
    let claimed = h.claim_one().await;
    assert_eq!(claimed.job.id, first);
    h.succeed(&claimed).await;
    assert_eq!(ids(&h.claim(10).await), [second]);
}

pub async fn a_head_that_lies_in_the_future_is_waited_for(h: &Harness) {
    let first = h.enqueue(NewJob { when: When::In(minutes(5)), ..of("a") }).await;
    let second = h.enqueue(of("a")).await;
    assert_eq!(h.claim(10).await, []);
    h.advance(minutes(5));
    let claimed = h.claim_one().await;
    assert_eq!(claimed.job.id, first);
    h.succeed(&claimed).await;
    assert_eq!(ids(&h.claim(10).await), [second]);
}

pub async fn order_goes_by_arrival_and_not_by_due_time_or_priority(h: &Harness) {
    let first = h.enqueue(of("a")).await;
    let late = h.enqueue(NewJob { when: When::In(minutes(5)), ..of("a") }).await;
    let urgent = h.enqueue(NewJob { priority: Some(level(0)), ..of("a") }).await;
    let claimed = h.claim_one().await;
    assert_eq!(claimed.job.id, first);
    h.succeed(&claimed).await;
    assert_eq!(h.job_state_of(late).await, JobState::Scheduled);
    assert_eq!(h.claim(10).await, []);
    assert!(is_in_line(h, urgent).await);
}

pub async fn a_head_that_a_policy_holds_back_is_waited_for(h: &Harness) {
    let [first, _, _] = three(h).await;
    let claimed = h.claim_one().await;
    h.park(&claimed, "semaphore:screenshot").await;
    assert_eq!(h.claim(10).await, []);
    let done = h.engine.open_gate(&Gate::named("semaphore:screenshot"), 10).await.expect(UP);
    assert_eq!(done.changed, 1);
    assert_eq!(ids(&h.claim(10).await), [first]);
}

pub async fn a_head_that_is_given_back_stays_the_head(h: &Harness) {
    let [first, _, _] = three(h).await;
    let claimed = h.claim_one().await;
    h.release(&claimed).await;
    assert_eq!(ids(&h.claim(10).await), [first]);
}

pub async fn a_crashed_head_is_run_again_before_the_next(h: &Harness) {
    let [first, second, _] = three(h).await;
    h.crash_once().await;
    assert_eq!(h.claim(10).await, []);
    let suspect = h.claim_suspect().await.expect("the head is due");
    assert_eq!(suspect.job.id, first);
    h.succeed(&suspect).await;
    assert_eq!(ids(&h.claim(10).await), [second]);
}

pub async fn a_head_that_dies_does_not_block(h: &Harness) {
    let [_, second, _] = three(h).await;
    let claimed = h.claim_one().await;
    h.bury(&claimed).await;
    assert_eq!(ids(&h.claim(10).await), [second]);
}

pub async fn a_head_that_dies_of_crashes_does_not_block(h: &Harness) {
    let [_, second, _] = three(h).await;
    h.crash_once().await;
    h.crash_suspect().await;
    let rescued = h.crash_suspect().await;
    assert_eq!(rescued.buried.len(), 1);
    assert_eq!(ids(&h.claim(10).await), [second]);
}

pub async fn a_head_that_is_cancelled_while_it_waits_lets_the_next_go(h: &Harness) {
    let [first, second, _] = three(h).await;
    assert_eq!(h.engine.cancel(first, "no").await.expect(UP), CancelAnswer::Cancelled);
    assert_eq!(ids(&h.claim(10).await), [second]);
}

pub async fn a_running_head_that_is_cancelled_lets_the_next_go_when_it_ends(h: &Harness) {
    let [first, second, _] = three(h).await;
    let claimed = h.claim_one().await;
    assert_eq!(h.engine.cancel(first, "no").await.expect(UP), CancelAnswer::Requested);
    assert_eq!(h.claim(10).await, []);
    h.succeed(&claimed).await;
    assert_eq!(h.job_state_of(first).await, JobState::Cancelled);
    assert_eq!(ids(&h.claim(10).await), [second]);
}

pub async fn one_that_is_cancelled_in_line_is_passed_over(h: &Harness) {
    let [first, second, third] = three(h).await;
    assert_eq!(h.engine.cancel(second, "no").await.expect(UP), CancelAnswer::Cancelled);
    let claimed = h.claim_one().await;
    assert_eq!(claimed.job.id, first);
    h.succeed(&claimed).await;
    assert_eq!(ids(&h.claim(10).await), [third]);
}

pub async fn a_head_that_expires_lets_the_next_go(h: &Harness) {
    h.enqueue(NewJob { when: When::In(minutes(5)), expires: Some(When::In(secs(5))), ..of("a") }).await;
    let second = h.enqueue(of("a")).await;
    h.advance(secs(6));
    assert_eq!(h.sweep().await, 1);
    assert_eq!(ids(&h.claim(10).await), [second]);
}

pub async fn a_head_whose_expiry_a_claim_meets_lets_the_next_go(h: &Harness) {
    h.enqueue(NewJob { expires: Some(When::In(secs(5))), ..of("a") }).await;
    let second = h.enqueue(of("a")).await;
    h.advance(secs(6));
    let mut claimed = h.claim(10).await;
    if claimed.is_empty() {
        claimed = h.claim(10).await;
    }
    assert_eq!(ids(&claimed), [second]);
}

pub async fn one_that_expires_in_line_is_passed_over(h: &Harness) {
    let first = h.enqueue(of("a")).await;
    let fleeting = h.enqueue(NewJob { expires: Some(When::In(secs(5))), ..of("a") }).await;
    let third = h.enqueue(of("a")).await;
    h.advance(secs(6));
    assert_eq!(h.sweep().await, 1);
    assert_eq!(h.job_state_of(fleeting).await, JobState::Cancelled);
    assert!(is_in_line(h, third).await);
    let claimed = h.claim_one().await;
    assert_eq!(claimed.job.id, first);
    h.succeed(&claimed).await;
    assert_eq!(ids(&h.claim(10).await), [third]);
}

pub async fn one_in_line_that_gets_another_priority_keeps_its_place(h: &Harness) {
    let [first, second, third] = three(h).await;
    assert_eq!(h.engine.set_priority(third, level(0)).await.expect(UP), Changed::Done);
    assert!(is_in_line(h, third).await);
    for id in [first, second] {
        let claimed = h.claim_one().await;
        assert_eq!(claimed.job.id, id);
        h.succeed(&claimed).await;
    }
    let plain = h.enqueue(urgent(1)).await;
    let claimed = h.claim(10).await;
    assert_eq!(ids(&claimed), [third, plain], "once it is the head, its priority counts");
    assert_eq!(claimed[0].job.priority, level(0));
}

pub async fn a_head_of_a_type_that_keeps_nothing_lets_the_next_go(h: &Harness) {
    let fleeting = || NewJob { ordering_key: Some(ordering_key("a")), ..job_of(FLEETING) };
    let jobs = [h.enqueue(fleeting()).await, h.enqueue(fleeting()).await, h.enqueue(fleeting()).await];
    for id in jobs {
        let claimed = h.claim_one().await;
        assert_eq!(claimed.job.id, id);
        h.succeed(&claimed).await;
    }
}

pub async fn a_head_that_leaves_nothing_among_others_that_do_so_lets_the_next_go(h: &Harness) {
    let fleeting = || NewJob { ordering_key: Some(ordering_key("a")), ..job_of(FLEETING) };
    let jobs = [h.enqueue(fleeting()).await, h.enqueue(fleeting()).await, h.enqueue(fleeting()).await];
    for id in jobs {
        let claimed = h.claim_one().await;
        assert_eq!(claimed.job.id, id);
        h.succeed_leaving_nothing().await;
        h.succeed(&claimed).await;
    }
}

pub async fn a_purge_ends_the_whole_ordering_key_and_the_next_one_starts_anew(h: &Harness) {
    three(h).await;
    let done = h.engine.purge(&queue(MAIN), 100).await.expect(UP);
    assert_eq!((done.changed, head(h).await), (3, None));
    let fresh = h.enqueue(of("a")).await;
    assert_eq!(ids(&h.claim(10).await), [fresh]);
}

pub async fn a_purge_in_parts_leaves_one_that_may_go(h: &Harness) {
    h.enqueue_all(vec![of("a"); 5]).await;
    let done = h.engine.purge(&queue(MAIN), 2).await.expect(UP);
    assert_eq!((done.changed, done.more), (2, true));
    let claimed = h.claim(10).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(head(h).await, Some(claimed[0].job.id));
}

pub async fn a_dead_letter_that_is_started_over_waits_its_turn(h: &Harness) {
    let [first, second, third] = three(h).await;
    let claimed = h.claim_one().await;
    h.bury(&claimed).await;
    let claimed = h.claim_one().await;
    assert_eq!(claimed.job.id, second);
    assert_eq!(h.engine.retry(first).await.expect(UP), RetryAnswer::Retried);
    assert!(is_in_line(h, first).await);
    assert_eq!(h.claim(10).await, []);
    h.succeed(&claimed).await;
    let claimed = h.claim_one().await;
    assert_eq!(claimed.job.id, first, "the job was enqueued before the third");
    h.succeed(&claimed).await;
    assert_eq!(ids(&h.claim(10).await), [third]);
}

pub async fn a_dead_letter_alone_in_its_ordering_key_starts_over_at_once(h: &Harness) {
    let id = h.enqueue(of("a")).await;
    let claimed = h.claim_one().await;
    h.bury(&claimed).await;
    assert_eq!(h.engine.retry(id).await.expect(UP), RetryAnswer::Retried);
    assert_eq!(ids(&h.claim(10).await), [id]);
}

pub async fn a_letter_that_its_key_revives_waits_its_turn(h: &Harness) {
    let claim = KeyClaim { key: key("k"), scope: KeyScope::WhileLiveOrDead, on_conflict: OnConflict::Revive };
    let keyed = NewJob { key: Some(claim), ..of("a") };
    let first = h.enqueue(keyed.clone()).await;
    let second = h.enqueue(of("a")).await;
    let claimed = h.claim_one().await;
    h.bury(&claimed).await;
    assert_eq!(h.offer(keyed).await, EnqueueAnswer::Revived(first));
    assert!(is_in_line(h, first).await);
    let claimed = h.claim_one().await;
    assert_eq!(claimed.job.id, second);
    h.succeed(&claimed).await;
    assert_eq!(ids(&h.claim(10).await), [first]);
}

pub async fn one_in_line_that_is_replaced_keeps_its_place(h: &Harness) {
    let claim = KeyClaim { key: key("k"), scope: KeyScope::WhileLive, on_conflict: OnConflict::Replace };
    let keyed = NewJob { key: Some(claim), ..of("a") };
    h.enqueue(of("a")).await;
    let second = h.enqueue(keyed.clone()).await;
    let third = h.enqueue(of("a")).await;
    let newer = NewJob { payload: payload("new"), ..keyed };
    assert_eq!(h.offer(newer).await, EnqueueAnswer::Replaced(second));
    assert!(is_in_line(h, second).await);
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    let claimed = h.claim_one().await;
    assert_eq!((claimed.job.id, claimed.job.payload.clone()), (second, payload("new")));
    h.succeed(&claimed).await;
    assert_eq!(ids(&h.claim(10).await), [third]);
}

pub async fn an_operator_cannot_open_the_gate_of_an_ordering_key(h: &Harness) {
    let [first, second, _] = three(h).await;
    let gate = gate_of(h, second).await.expect("the job waits for its ordering key");
    let done = h.engine.open_gate(&gate, 10).await.expect(UP);
    assert_eq!((done.changed, done.more), (0, false));
    assert_eq!(h.engine.retry(second).await.expect(UP), RetryAnswer::Retried, "the job is due at once");
    assert!(is_in_line(h, second).await);
    assert_eq!(ids(&h.claim(10).await), [first]);
}

pub async fn the_gates_of_ordering_keys_are_not_listed_among_those_of_policies(h: &Harness) {
    three(h).await;
    let claimed = h.claim_one().await;
    h.park(&claimed, "semaphore:screenshot").await;
    h.parked_job("tariff:late").await;
    let gates = h.engine.gates(None, 10).await.expect(UP);
    assert_eq!(gates, [Gate::named("semaphore:screenshot"), Gate::named("tariff:late")]);
    assert_eq!(h.engine.gates(Some(&gates[0]), 10).await.expect(UP), gates[1..]);
}

pub async fn ends_of_many_ordering_keys_in_one_batch_let_each_next_go(h: &Harness) {
    let names = ["a", "b", "c", "d"];
    h.enqueue_all(names.iter().flat_map(|name| vec![of(name); 2]).chain([work()]).collect()).await;
    let first = h.claim(20).await;
    assert_eq!(first.len(), names.len() + 1);
    let ends = first.into_iter().map(|claimed| {
        let end = Transition::Succeed { result: None };
        claimed.settled(end, AttemptReport::default())
    });
    h.engine.settle(ends.collect()).await.expect(UP);
    assert_eq!(h.claim(20).await.len(), names.len());
}

pub async fn a_repeated_end_lets_no_other_job_go(h: &Harness) {
    let [_, second, third] = three(h).await;
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    let next = h.claim_one().await;
    assert_eq!(next.job.id, second);
    h.succeed(&claimed).await;
    assert_eq!(h.claim(10).await, []);
    h.succeed(&next).await;
    assert_eq!(ids(&h.claim(10).await), [third]);
}

pub async fn many_callers_at_once_keep_one_ordering_key_in_order_and_leave_no_job_behind(h: &Harness) {
    const CALLERS: usize = 6;
    const EACH: usize = 4;
    let calls = (0..CALLERS).map(|_| {
        let engine = Arc::clone(&h.engine);
        let requests: Vec<_> = (0..EACH).map(|_| h.request(vec![of("a")])).collect();
        async move {
            for request in requests {
                engine.enqueue(request).await.expect(UP);
            }
        }
    });
    h.at_once(calls.collect()).await;
    let mut ran = Vec::new();
    while ran.len() < CALLERS * EACH {
        let claimed = h.claim(10).await;
        match claimed.as_slice() {
            [claimed] => ran.push(h.succeed(claimed).await),
            // An enqueue that met another enqueue leaves the release to a sweep.
            [] => assert!(h.sweep_until_one_is_out("a").await, "{ran:?} ran, and no next job was released"),
            several => panic!("one at a time, got {:?}", ids(several)),
        }
    }
    assert_eq!(head(h).await, None);
}

pub async fn an_end_and_a_newcomer_at_once_do_not_leave_the_ordering_key_stuck(h: &Harness) {
    for _ in 0..10 {
        h.enqueue(of("a")).await;
        let claimed = h.claim_one().await;
        let (one, other) = (Arc::clone(&h.engine), Arc::clone(&h.engine));
        let end = claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
        let request = h.request(vec![of("a")]);
        let settle: Task = Box::pin(async move { drop(one.settle(vec![end]).await.expect(UP)) });
        let enqueue: Task = Box::pin(async move { drop(other.enqueue(request).await.expect(UP)) });
        h.at_once(vec![settle, enqueue]).await;
        if head(h).await.is_none() {
            assert!(h.sweep_until_one_is_out("a").await, "the ordering key is stuck");
        }
        let claimed = h.claim_one().await;
        h.succeed(&claimed).await;
    }
}

impl Harness {
    /// Sweeps, as maintenance would; returns whether a job of the ordering key may run now.
    async fn sweep_until_one_is_out(&self, name: &str) -> bool {
        self.sweep().await;
        self.engine.head_of(&type_name(WORK), &ordering_key(name)).await.expect(UP).is_some()
    }
}
