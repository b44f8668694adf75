//! A job that has not started before its expiry is cancelled.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::claim::{ClaimRequest, Suspects};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::job::JobState;

use crate::harness::*;

const WHY: &str = "expired before it started";

fn expiring(after: u64) -> NewJob {
    NewJob { expires: Some(When::In(secs(after))), ..work() }
}

pub async fn an_expired_job_is_cancelled_by_a_sweep(h: &Harness) {
    let id = h.enqueue(expiring(5)).await;
    h.advance(secs(6));
    assert_eq!(h.sweep().await, 1);
    assert_eq!(h.why_cancelled(id).await, WHY);
}

pub async fn an_expired_job_is_cancelled_by_a_claim_that_meets_it(h: &Harness) {
    let id = h.enqueue(expiring(5)).await;
    h.advance(secs(6));
    assert_eq!(h.claim(1).await, []);
    assert_eq!(h.why_cancelled(id).await, WHY);
}

pub async fn a_claim_passes_over_expired_jobs_to_good_ones(h: &Harness) {
    h.enqueue_all(vec![expiring(5); 10]).await;
    let good = h.enqueue(work()).await;
    h.advance(secs(6));
    assert_eq!(ids(&h.claim(1).await), [good]);
}

pub async fn a_job_is_claimed_up_to_its_expiry(h: &Harness) {
    let id = h.enqueue(expiring(5)).await;
    h.advance(secs(5) - std::time::Duration::from_micros(1));
    assert_eq!(ids(&h.claim(1).await), [id]);
}

pub async fn a_running_job_does_not_expire(h: &Harness) {
    h.enqueue(expiring(5)).await;
    let claimed = h.claim_one().await;
    h.advance(secs(60));
    h.sweep().await;
    let id = h.succeed(&claimed).await;
    assert_eq!(h.job_state_of(id).await, JobState::Succeeded);
}

pub async fn a_parked_job_expires(h: &Harness) {
    h.enqueue(expiring(5)).await;
    let claimed = h.claim_one().await;
    let id = h.park(&claimed, "semaphore:screenshot").await;
    h.advance(secs(6));
    h.sweep().await;
    assert_eq!(h.why_cancelled(id).await, WHY);
}

pub async fn a_scheduled_job_expires(h: &Harness) {
    let id = h.enqueue(NewJob { when: When::In(minutes(5)), ..expiring(5) }).await;
    h.advance(secs(6));
    h.sweep().await;
    assert_eq!(h.why_cancelled(id).await, WHY);
}

pub async fn a_job_that_was_started_once_no_longer_expires(h: &Harness) {
    let id = h.enqueue(expiring(60)).await;
    h.crash_once().await;
    h.advance(minutes(2));
    h.sweep().await;
    assert_eq!(h.job_state_of(id).await, JobState::Parked);
    let suspects = Suspects::One { crashes_max: 3 };
    assert_eq!(h.claim_with(ClaimRequest { suspects, ..h.claim_request(1) }).await.len(), 1);
}

pub async fn a_sweep_goes_in_batches_and_says_whether_there_is_more(h: &Harness) {
    h.enqueue_all(vec![expiring(5); 5]).await;
    h.advance(secs(6));
    let mut done = Vec::new();
    loop {
        let batch = h.engine.sweep(2).await.expect(UP);
        done.push(batch.changed);
        if !batch.more {
            break;
        }
        assert!(done.len() < 10, "a sweep must come to its end: {done:?}");
    }
    assert_eq!(done.iter().sum::<u64>(), 5);
    assert!(done.iter().all(|changed| *changed <= 2), "{done:?}");
}

pub async fn what_has_not_expired_is_left_by_a_sweep(h: &Harness) {
    let id = h.enqueue(expiring(5)).await;
    assert_eq!(h.sweep().await, 0);
    assert_eq!(h.job_state_of(id).await, JobState::Ready);
}

/// Returns expiring jobs of a queue without fairness keys, and then of a queue where some have a fairness
/// key and some have none. In the latter, a job without one came first.
fn with_and_without_fairness_keys(after: u64) -> [Vec<NewJob>; 2] {
    let fairness_key = Some(windlass_core::names::FairnessKey::parse("tenant").expect("a plain name"));
    let nameless = || expiring(after);
    [vec![nameless()], vec![nameless(), NewJob { fairness_key, ..expiring(after) }, nameless()]]
}

pub async fn a_claim_meets_what_has_expired_also_where_jobs_have_fairness_keys(h: &Harness) {
    for jobs in with_and_without_fairness_keys(5) {
        let mut ids = Vec::new();
        for job in jobs {
            ids.push(h.enqueue(job).await);
        }
        h.advance(secs(6));
        assert_eq!(h.claim(4).await, []);
        for id in ids {
            assert_eq!(h.why_cancelled(id).await, WHY);
        }
    }
}

pub async fn a_claim_takes_what_is_tried_again_though_it_would_have_expired(h: &Harness) {
    for jobs in with_and_without_fairness_keys(60) {
        let count = jobs.len();
        for job in jobs {
            h.enqueue(job).await;
        }
        for claimed in h.claim(4).await {
            h.fail(&claimed, minutes(2)).await;
        }
        h.advance(minutes(2));
        let again = h.claim(4).await;
        assert_eq!(again.len(), count);
        for claimed in again {
            h.succeed(&claimed).await;
        }
    }
}
