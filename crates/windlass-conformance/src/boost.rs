//! Old jobs rise in priority, and get no more than their share.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::boost::BOOST_STEP;
use windlass_core::claim::{ClaimRequest, Claimed};
use windlass_core::enqueue::{NewJob, When};

use crate::harness::*;

async fn claim_boosted(h: &Harness, limit: u32, boosted_max: u32) -> Vec<Claimed> {
    h.claim_with(ClaimRequest { boosted_max, ..h.claim_request(limit) }).await
}

pub async fn ten_minutes_raise_a_job_by_one_step(h: &Harness) {
    let old = h.enqueue(urgent(6)).await;
    h.advance(BOOST_STEP);
    let fresh = h.enqueue(urgent(5)).await;
    let claimed = claim_boosted(h, 2, 1).await;
    assert_eq!(ids(&claimed), [old, fresh]);
    assert_eq!(claimed.iter().map(|claimed| claimed.boosted).collect::<Vec<_>>(), [true, false]);
}

pub async fn a_moment_less_than_ten_minutes_raises_nothing(h: &Harness) {
    let old = h.enqueue(urgent(6)).await;
    h.advance(BOOST_STEP - secs(1));
    let fresh = h.enqueue(urgent(5)).await;
    assert_eq!(ids(&claim_boosted(h, 2, 2).await), [fresh, old]);
}

pub async fn a_job_that_leaves_in_its_turn_is_not_called_boosted(h: &Harness) {
    h.enqueue(urgent(6)).await;
    let claimed = claim_boosted(h, 1, 1).await;
    assert!(!only(claimed).boosted);
}

pub async fn without_credit_nothing_is_boosted(h: &Harness) {
    let old = h.enqueue(urgent(10)).await;
    h.advance(BOOST_STEP * 20);
    let fresh = h.enqueue(urgent(9)).await;
    let claimed = claim_boosted(h, 2, 0).await;
    assert_eq!(ids(&claimed), [fresh, old]);
    assert!(claimed.iter().all(|claimed| !claimed.boosted));
}

pub async fn boosted_jobs_get_no_more_than_their_share(h: &Harness) {
    h.enqueue_all(vec![urgent(10); 20]).await;
    h.advance(BOOST_STEP * 10);
    h.enqueue_all(vec![urgent(0); 20]).await;
    let claimed = claim_boosted(h, 8, 2).await;
    let boosted = claimed.iter().filter(|claimed| claimed.boosted).count();
    assert_eq!((claimed.len(), boosted), (8, 2));
    assert!(claimed.iter().all(|claimed| claimed.boosted || claimed.job.priority == level(0)));
}

pub async fn what_has_risen_fills_free_slots_in_its_plain_turn(h: &Harness) {
    h.enqueue_all(vec![urgent(10); 6]).await;
    h.advance(BOOST_STEP * 10);
    let claimed = claim_boosted(h, 10, 2).await;
    assert_eq!(claimed.len(), 6, "the share limits which jobs come early, not which jobs come");
}

pub async fn no_job_comes_twice_in_one_claim(h: &Harness) {
    for number in [8, 9, 10] {
        h.enqueue_all(vec![urgent(number); 5]).await;
        h.advance(BOOST_STEP * 2);
    }
    let mut claimed = ids(&claim_boosted(h, 15, 5).await);
    claimed.sort();
    claimed.dedup();
    assert_eq!(claimed.len(), 15);
}

pub async fn the_oldest_of_the_risen_come_first(h: &Harness) {
    let oldest = h.enqueue(urgent(9)).await;
    h.advance(secs(1));
    let second = h.enqueue(urgent(9)).await;
    h.advance(BOOST_STEP * 3);
    h.enqueue_all(vec![urgent(7); 4]).await;
    let claimed = claim_boosted(h, 3, 2).await;
    assert_eq!(ids(&claimed)[..2], [oldest, second]);
}

pub async fn age_counts_from_the_due_time_not_from_the_enqueue(h: &Harness) {
    let late = h.enqueue(NewJob { when: When::In(BOOST_STEP), ..urgent(6) }).await;
    h.advance(BOOST_STEP + secs(1));
    let fresh = h.enqueue(urgent(5)).await;
    assert_eq!(ids(&claim_boosted(h, 2, 2).await), [fresh, late]);
}

pub async fn the_stored_priority_of_a_boosted_job_stays(h: &Harness) {
    let old = h.enqueue(urgent(10)).await;
    h.advance(BOOST_STEP * 20);
    let claimed = only(claim_boosted(h, 1, 1).await);
    assert_eq!((claimed.job.priority, h.record(old).await.job.priority), (level(10), level(10)));
}
