//! Which worker gets which job, and in which order.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::claim::{ClaimAnswer, ClaimRequest};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::error::EngineError;
use windlass_core::job::{JobState, StoredState};
use windlass_core::limits::{CLAIM_BATCH_MAX, ENQUEUE_BATCH_MAX, QUEUES_PER_CLAIM_MAX};
use windlass_core::worker::WorkerId;

use crate::harness::*;

pub async fn a_claimed_job_runs_under_its_worker(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let running = StoredState::Running { worker: h.worker, since: h.now(), cancel_requested: None };
    assert_eq!(h.state_of(claimed.job.id).await, running);
}

pub async fn a_claim_counts_an_attempt(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    assert_eq!(claimed.job.counters.attempts, 1);
    assert_eq!(h.counters_of(claimed.job.id).await.attempts, 1);
}

pub async fn a_claim_carries_the_token_of_its_request(h: &Harness) {
    h.enqueue_many(2).await;
    let request = h.claim_request(2);
    let token = request.token;
    let claimed = h.claim_with(request).await;
    assert!(claimed.len() == 2 && claimed.iter().all(|claimed| claimed.token == token));
}

pub async fn a_claimed_job_is_not_claimed_again(h: &Harness) {
    h.enqueue_and_claim_one().await;
    assert_eq!(h.claim(10).await, []);
}

pub async fn an_unregistered_worker_gets_nothing(h: &Harness) {
    let id = h.enqueue(work()).await;
    let stranger = WorkerId::from_random(h.fresh_bits());
    let answer = h.engine.claim(ClaimRequest { worker: stranger, ..h.claim_request(1) }).await.expect(UP);
    assert_eq!(answer, ClaimAnswer::WorkerDead);
    assert_eq!(h.job_state_of(id).await, JobState::Ready);
}

pub async fn a_worker_declared_dead_gets_nothing(h: &Harness) {
    let victim = h.register_worker().await;
    h.kill(victim).await;
    h.enqueue(work()).await;
    let answer = h.engine.claim(ClaimRequest { worker: victim, ..h.claim_request(1) }).await.expect(UP);
    assert_eq!(answer, ClaimAnswer::WorkerDead);
}

pub async fn a_worker_that_was_let_out_gets_nothing(h: &Harness) {
    let leaver = h.register_worker().await;
    h.engine.retire(leaver).await.expect(UP);
    h.enqueue(work()).await;
    let answer = h.engine.claim(ClaimRequest { worker: leaver, ..h.claim_request(1) }).await.expect(UP);
    assert_eq!(answer, ClaimAnswer::WorkerDead);
}

pub async fn more_urgent_jobs_leave_first(h: &Harness) {
    let mut expected = Vec::new();
    for number in [10, 3, 0, 7] {
        expected.push((number, h.enqueue(urgent(number)).await));
    }
    expected.sort();
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids(&h.claim(10).await), expected);
}

pub async fn jobs_of_one_priority_leave_by_due_time(h: &Harness) {
    let late = h.enqueue(due_in(secs(3))).await;
    let early = h.enqueue(due_in(secs(1))).await;
    let middle = h.enqueue(due_in(secs(2))).await;
    h.advance(secs(5));
    assert_eq!(ids(&h.claim(10).await), [early, middle, late]);
}

pub async fn jobs_due_at_the_same_instant_leave_in_the_order_of_arrival(h: &Harness) {
    let stored = h.enqueue_many(5).await;
    assert_eq!(ids(&h.claim(10).await), stored);
}

pub async fn queues_are_served_in_the_order_asked_for(h: &Harness) {
    let main = h.enqueue(urgent(0)).await;
    let other = h.enqueue(NewJob { priority: Some(level(10)), ..job_of(OTHER_WORK) }).await;
    let queues = vec![queue(OTHER), queue(MAIN)];
    let claimed = h.claim_with(ClaimRequest { queues, ..h.claim_request(10) }).await;
    assert_eq!(ids(&claimed), [other, main]);
}

pub async fn queues_not_asked_for_are_left_alone(h: &Harness) {
    h.enqueue(job_of(OTHER_WORK)).await;
    let claimed = h.claim_with(ClaimRequest { queues: vec![queue(MAIN)], ..h.claim_request(10) }).await;
    assert_eq!(claimed, []);
}

pub async fn a_queue_that_does_not_exist_gives_nothing(h: &Harness) {
    let claimed = h.claim_with(ClaimRequest { queues: vec![queue("nowhere")], ..h.claim_request(10) }).await;
    assert_eq!(claimed, []);
}

pub async fn types_not_asked_for_are_left_to_others(h: &Harness) {
    let left = h.enqueue(urgent(0)).await;
    let kept = h.enqueue(job_of(KEPT)).await;
    let claimed = h.claim_with(ClaimRequest { types: vec![type_name(KEPT)], ..h.claim_request(10) }).await;
    assert_eq!(ids(&claimed), [kept]);
    assert_eq!(h.job_state_of(left).await, JobState::Ready);
}

pub async fn a_few_jobs_behind_many_of_other_types_are_found(h: &Harness) {
    h.enqueue_all(vec![urgent(0); 1000]).await;
    let wanted = h.enqueue(NewJob { priority: Some(level(10)), ..job_of(KEPT) }).await;
    let claimed = h.claim_with(ClaimRequest { types: vec![type_name(KEPT)], ..h.claim_request(1) }).await;
    assert_eq!(ids(&claimed), [wanted]);
}

pub async fn a_job_is_never_claimed_before_it_is_due(h: &Harness) {
    h.enqueue(due_in(secs(10))).await;
    h.advance(secs(10) - MICROSECOND);
    assert_eq!(h.claim(1).await, []);
}

pub async fn a_job_is_claimable_exactly_when_it_is_due(h: &Harness) {
    let id = h.enqueue(due_in(secs(10))).await;
    h.advance(secs(10));
    assert_eq!(ids(&h.claim(1).await), [id]);
}

pub async fn future_jobs_of_high_priority_hold_no_job_up(h: &Harness) {
    h.enqueue_all(vec![NewJob { when: When::In(minutes(9)), ..urgent(0) }; 200]).await;
    let ready = h.enqueue(urgent(10)).await;
    assert_eq!(ids(&h.claim(10).await), [ready]);
}

pub async fn never_more_than_asked_for(h: &Harness) {
    h.enqueue_many(10).await;
    assert_eq!(h.claim(3).await.len(), 3);
    assert_eq!(h.counts().await.running, 3);
}

pub async fn a_claim_of_nothing_claims_nothing(h: &Harness) {
    h.enqueue_many(3).await;
    assert_eq!(h.claim(0).await, []);
    assert_eq!(h.counts().await.ready, 3);
}

pub async fn one_limit_covers_all_queues(h: &Harness) {
    h.enqueue_many(3).await;
    h.enqueue_all(vec![job_of(OTHER_WORK); 3]).await;
    assert_eq!(h.claim(4).await.len(), 4);
}

pub async fn two_claimers_at_once_get_every_job_once(h: &Harness) {
    for number in [0, 5, 10] {
        h.enqueue_all(vec![urgent(number); 5]).await;
    }
    let second = h.register_worker().await;
    let calls = [h.worker, second].map(|worker| {
        // Each worker gets half: a claim that locks more rows than it takes leaves too few to the other.
        let (engine, request) = (h.engine.clone(), ClaimRequest { worker, ..h.claim_request(8) });
        async move { engine.claim(request).await.expect(UP) }
    });
    let mut claimed = Vec::new();
    for answer in h.at_once(calls.into()).await {
        let ClaimAnswer::Claimed { jobs, .. } = answer else { panic!("both workers are live") };
        claimed.extend(ids(&jobs));
    }
    claimed.sort();
    claimed.dedup();
    assert_eq!(claimed.len(), 15, "each job once");
}

pub async fn eight_claimers_at_once_never_share_a_job(h: &Harness) {
    h.enqueue_many(100).await;
    let calls = (0..8).map(|_| {
        let (engine, requests) = (h.engine.clone(), [(); 5].map(|()| h.claim_request(3)));
        async move {
            let mut claimed = Vec::new();
            for request in requests {
                let ClaimAnswer::Claimed { jobs, .. } = engine.claim(request).await.expect(UP) else {
                    panic!("the worker is live")
                };
                claimed.extend(ids(&jobs));
            }
            claimed
        }
    });
    let mut claimed = h.at_once(calls.collect()).await.concat();
    claimed.sort();
    claimed.dedup();
    assert_eq!(claimed.len(), 100, "8 times 5 claims of 3 are more than the store has");
}

pub async fn waiting_time_and_age_go_by_the_stores_clock(h: &Harness) {
    h.enqueue(due_in(secs(10))).await;
    h.advance(secs(25));
    let claimed = h.claim_one().await;
    assert_eq!((claimed.waited, claimed.age), (secs(15), secs(25)));
}

pub async fn a_paused_queue_gives_nothing(h: &Harness) {
    h.enqueue(work()).await;
    h.engine.pause(&queue(MAIN), Some("repairs"), None).await.expect(UP);
    h.advance(minutes(60));
    assert_eq!(h.claim(1).await, []);
}

pub async fn a_paused_queue_does_not_hold_up_the_next(h: &Harness) {
    h.enqueue(work()).await;
    let other = h.enqueue(job_of(OTHER_WORK)).await;
    h.engine.pause(&queue(MAIN), None, None).await.expect(UP);
    assert_eq!(ids(&h.claim(10).await), [other]);
}

pub async fn a_resumed_queue_gives_again(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.engine.pause(&queue(MAIN), None, None).await.expect(UP);
    h.engine.resume(&queue(MAIN)).await.expect(UP);
    assert_eq!(ids(&h.claim(1).await), [id]);
}

pub async fn a_pause_with_an_end_ends_by_itself(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.engine.pause(&queue(MAIN), None, Some(secs(10))).await.expect(UP);
    h.advance(secs(9));
    assert_eq!(h.claim(1).await, []);
    h.advance(secs(1));
    assert_eq!(ids(&h.claim(1).await), [id]);
}

pub async fn a_shut_queue_still_gives_what_it_has(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.engine.set_shut(&queue(MAIN), true).await.expect(UP);
    assert_eq!(ids(&h.claim(1).await), [id]);
}

pub async fn a_parked_job_is_not_claimed(h: &Harness) {
    h.parked_job("semaphore:screenshot").await;
    h.advance(minutes(60));
    assert_eq!(h.claim(1).await, []);
}

pub async fn the_clock_may_step_back_without_harm(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.clock.set(h.now().minus(minutes(10)));
    assert_eq!(h.claim(1).await, [], "not due yet by the store's clock");
    h.advance(minutes(10));
    assert_eq!(ids(&h.claim(1).await), [id]);
}

pub async fn a_claim_of_too_many_queues_is_refused(h: &Harness) {
    let queues = vec![queue(MAIN); QUEUES_PER_CLAIM_MAX + 1];
    let answer = h.engine.claim(ClaimRequest { queues, ..h.claim_request(1) }).await;
    assert!(matches!(answer, Err(EngineError::Refused(_))), "{answer:?}");
}

pub async fn a_claim_is_never_bigger_than_the_limit_of_the_house(h: &Harness) {
    for _ in 0..2 {
        h.enqueue_many(ENQUEUE_BATCH_MAX).await;
    }
    assert_eq!(h.claim(u32::MAX).await.len(), CLAIM_BATCH_MAX as usize);
}

pub async fn a_queue_named_twice_gives_each_job_once(h: &Harness) {
    let stored = h.enqueue_many(2).await;
    let queues = vec![queue(MAIN), queue(MAIN)];
    let claimed = h.claim_with(ClaimRequest { queues, ..h.claim_request(10) }).await;
    assert_eq!(ids(&claimed), stored);
}

pub async fn jobs_of_several_types_leave_in_their_order_however_many_are_of_one(h: &Harness) {
    let early = h.enqueue_many(40).await;
    let late = h.enqueue(job_of(KEPT)).await;
    h.enqueue(job_of(FLEETING)).await;
    let claimed = ids(&h.claim(41).await);
    assert_eq!(claimed, [&early[..], &[late]].concat());
}
