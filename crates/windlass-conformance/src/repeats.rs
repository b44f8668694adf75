//! A claim whose answer was lost is sent again, and its first request may arrive late.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::claim::{ClaimAnswer, ClaimRequest, Suspects};
use windlass_core::job::JobState;
use windlass_core::limits::{CLAIM_TOMBSTONE_TTL, MAINTENANCE_BATCH_MAX};

use crate::harness::*;

fn repeat_of(request: &ClaimRequest) -> ClaimRequest {
    ClaimRequest { repeat: true, ..request.clone() }
}

pub async fn a_repeated_request_gives_what_it_claimed_and_claims_no_more(h: &Harness) {
    h.enqueue_many(5).await;
    let request = h.claim_request(2);
    let first = h.claim_with(request.clone()).await;
    for _ in 0..2 {
        let again = h.claim_with(repeat_of(&request)).await;
        assert_eq!(ids(&again), ids(&first));
        assert!(again.iter().all(|claimed| claimed.job.counters.attempts == 1), "{again:?}");
        assert_eq!(h.counts().await.running, 2);
    }
}

pub async fn a_repeat_of_a_request_that_never_arrived_claims_nothing(h: &Harness) {
    let id = h.enqueue(work()).await;
    let (claimed, peek) = h.claim_and_peek(repeat_of(&h.claim_request(2))).await;
    assert_eq!((claimed, peek.more_due), (vec![], true));
    assert_eq!(h.job_state_of(id).await, JobState::Ready);
    assert_eq!(ids(&h.claim(2).await), [id], "a new request claims");
}

pub async fn a_first_sending_that_arrives_after_its_repeat_claims_nothing(h: &Harness) {
    let id = h.enqueue(work()).await;
    let request = h.claim_request(2);
    h.claim_with(repeat_of(&request)).await;
    let (claimed, peek) = h.claim_and_peek(request.clone()).await;
    assert_eq!((claimed, peek.more_due), (vec![], true));
    assert_eq!(h.claim_with(repeat_of(&request)).await, [], "the claim holds nothing");
    assert_eq!(h.job_state_of(id).await, JobState::Ready);
    assert_eq!(ids(&h.claim(2).await), [id], "a new request claims");
}

pub async fn a_first_sending_for_a_suspect_after_its_repeat_claims_nothing(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    let suspects = Suspects::One { crashes_max: u32::MAX };
    let request = ClaimRequest { suspects, ..h.claim_request(1) };
    let (claimed, peek) = h.claim_and_peek(repeat_of(&request)).await;
    assert_eq!((claimed, peek.suspect_due), (vec![], true));
    assert_eq!(h.claim_with(request).await, []);
    assert!(h.claim_suspect().await.is_some(), "a new request claims");
}

pub async fn a_first_sending_claims_nothing_however_long_after_its_repeat_it_arrives(h: &Harness) {
    h.enqueue(work()).await;
    let request = h.claim_request(1);
    h.claim_with(repeat_of(&request)).await;
    h.advance(CLAIM_TOMBSTONE_TTL - secs(1));
    h.engine.prune(MAINTENANCE_BATCH_MAX).await.expect(UP);
    assert_eq!(h.claim_with(request).await, []);
}

/// Whichever of the two requests is applied first, the worker afterwards holds exactly the jobs that the
/// repeat returned.
pub async fn a_request_and_its_repeat_at_once_leave_nothing_held_that_the_repeat_did_not_tell(h: &Harness) {
    h.enqueue_many(40).await;
    for _ in 0..10 {
        let request = h.claim_request(2);
        let calls = [request.clone(), repeat_of(&request)].map(|request| {
            let engine = h.engine.clone();
            async move {
                match engine.claim(request).await.expect(UP) {
                    ClaimAnswer::Claimed { jobs, .. } => ids(&jobs),
                    ClaimAnswer::WorkerDead => panic!("the worker is live"),
                }
            }
        });
        let answers = h.at_once(calls.into()).await;
        assert_eq!(ids(&h.claim_with(repeat_of(&request)).await), answers[1], "{answers:?}");
        assert_eq!(answers[0], answers[1], "the first request claims both or nothing");
    }
}

pub async fn a_repeat_does_not_give_what_was_settled_meanwhile(h: &Harness) {
    h.enqueue_many(2).await;
    let request = h.claim_request(2);
    let first = h.claim_with(request.clone()).await;
    h.succeed(&first[0]).await;
    let again = h.claim_with(repeat_of(&request)).await;
    assert_eq!(ids(&again), [first[1].job.id]);
}

pub async fn a_token_of_anothers_claim_gives_a_stranger_nothing(h: &Harness) {
    h.enqueue(work()).await;
    let request = h.claim_request(1);
    let claimed = h.claim_with(request.clone()).await;
    let stranger = h.register_worker().await;
    assert_eq!(h.claim_with(ClaimRequest { worker: stranger, ..repeat_of(&request) }).await, []);
    assert_eq!(ids(&h.claim_with(repeat_of(&request)).await), ids(&claimed), "its own worker still gets it");
}
