use windlass_core::claim::ClaimToken;

use super::*;
use crate::worker::pool::tests::claimed;

const SECOND: Duration = Duration::from_secs(1);

/// One job that runs with a time-out of a second, and a moment at which it is overdue.
fn overdue_job(controls: &Controls) -> (Fence, Instant) {
    let job = Arc::new(claimed(1, ClaimToken::from_random(1), 0));
    controls.start(&job, RetryPolicy::default(), SECOND);
    (job.fence(), Instant::now() + SECOND + OVERDUE_GRACE)
}

#[test]
fn an_end_from_outside_that_the_store_did_not_take_is_tried_again_a_few_seconds_later() {
    let controls = Controls::default();
    let (fence, late) = overdue_job(&controls);
    assert_eq!(controls.overdue(late).len(), 1);
    assert!(controls.overdue(late + SECOND).is_empty(), "the end is on its way");
    controls.still_overdue(&[fence], late);
    assert!(controls.overdue(late + SECOND).is_empty(), "not at once");
    assert_eq!(controls.overdue(late + OVERDUE_AGAIN).len(), 1);
}

#[test]
fn a_worker_that_ends_a_job_learns_that_it_was_ended_from_outside() {
    let controls = Controls::default();
    let (fence, late) = overdue_job(&controls);
    controls.overdue(late);
    assert!(controls.end(fence));
    let (fence, _) = overdue_job(&controls);
    assert!(!controls.end(fence), "no end from outside came before");
}
