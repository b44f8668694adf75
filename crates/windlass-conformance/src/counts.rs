//! Counts are correct after every kind of transition.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::admin::{Counts, Totals};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::key::KeyClaim;
use windlass_core::settle::Transition;

use crate::harness::*;

/// Asserts the number of jobs in each state, and that every enqueued job is accounted for.
async fn assert_counts(h: &Harness, expected: Counts) {
    let status = h.status_of(MAIN).await;
    assert_eq!(status.counts, expected);
    assert_balanced(status.totals, status.counts);
}

fn assert_balanced(totals: Totals, counts: Counts) {
    let accounted = totals.succeeded + totals.dead + totals.cancelled + counts.unfinished();
    assert_eq!(totals.enqueued, accounted, "{totals:?} {counts:?}");
}

const NONE: Counts = Counts { ready: 0, scheduled: 0, parked: 0, running: 0, dead_letters: 0 };

pub async fn an_empty_queue_counts_nothing(h: &Harness) {
    assert_counts(h, NONE).await;
    assert_eq!(h.totals().await, Totals::default());
}

pub async fn ready_and_scheduled_jobs_are_counted_apart(h: &Harness) {
    h.enqueue_many(3).await;
    h.enqueue(due_in(minutes(5))).await;
    assert_counts(h, Counts { ready: 3, scheduled: 1, ..NONE }).await;
}

pub async fn what_is_scheduled_counts_as_ready_once_it_is_due(h: &Harness) {
    for seconds in [30, 59, 61, 119, 121, 3_600] {
        h.enqueue(due_in(secs(seconds))).await;
    }
    let start = h.now();
    for (at, ready) in [(29, 0), (30, 1), (60, 2), (61, 3), (119, 4), (120, 4), (121, 5), (3_600, 6)] {
        h.clock.set(start.plus(secs(at)));
        assert_counts(h, Counts { ready, scheduled: 6 - ready, ..NONE }).await;
    }
}

pub async fn jobs_that_fall_due_within_the_minute_are_split_to_the_second(h: &Harness) {
    h.advance(secs(17));
    for seconds in 1..=10 {
        h.enqueue(due_in(secs(seconds))).await;
    }
    for ready in 1..=10 {
        h.advance(secs(1));
        assert_counts(h, Counts { ready, scheduled: 10 - ready, ..NONE }).await;
    }
}

pub async fn a_claimed_job_counts_as_running(h: &Harness) {
    h.enqueue_many(2).await;
    h.claim(1).await;
    assert_counts(h, Counts { ready: 1, running: 1, ..NONE }).await;
}

pub async fn a_success_is_counted(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.succeed(&claimed).await;
    assert_counts(h, NONE).await;
    assert_eq!(h.totals().await, Totals { enqueued: 1, succeeded: 1, ..Totals::default() });
}

pub async fn a_retry_is_counted_and_the_job_is_scheduled(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.fail(&claimed, minutes(1)).await;
    assert_counts(h, Counts { scheduled: 1, ..NONE }).await;
    assert_eq!(h.totals().await, Totals { enqueued: 1, retried: 1, ..Totals::default() });
}

pub async fn a_snooze_is_no_retry(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.end(&claimed, Transition::Snooze { after: minutes(1) }).await;
    assert_counts(h, Counts { scheduled: 1, ..NONE }).await;
    assert_eq!(h.totals().await.retried, 0);
}

pub async fn a_parked_job_is_counted_apart(h: &Harness) {
    h.parked_job("semaphore:screenshot").await;
    assert_counts(h, Counts { parked: 1, ..NONE }).await;
}

pub async fn an_opened_gate_moves_the_count(h: &Harness) {
    h.parked_job("semaphore:screenshot").await;
    let gate = windlass_core::gate::Gate::named("semaphore:screenshot");
    h.engine.open_gate(&gate, 10).await.expect(UP);
    assert_counts(h, Counts { ready: 1, ..NONE }).await;
}

pub async fn a_job_given_back_counts_as_ready(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.release(&claimed).await;
    assert_counts(h, Counts { ready: 1, ..NONE }).await;
}

pub async fn a_dead_letter_is_counted_until_it_is_discarded(h: &Harness) {
    let id = h.dead_letter().await;
    assert_counts(h, Counts { dead_letters: 1, ..NONE }).await;
    h.engine.discard(id).await.expect(UP);
    assert_counts(h, NONE).await;
    assert_eq!(h.totals().await.dead, 1, "discarded jobs stay counted");
}

pub async fn a_dead_letter_started_over_is_no_longer_counted_as_dead(h: &Harness) {
    let id = h.dead_letter().await;
    h.engine.retry(id).await.expect(UP);
    assert_counts(h, Counts { ready: 1, ..NONE }).await;
    assert_eq!((h.totals().await.dead, h.totals().await.started_over), (0, 1));
}

pub async fn a_revived_backfill_is_no_longer_counted_as_dead(h: &Harness) {
    let backfill = || NewJob { key: Some(KeyClaim::backfill(key("k"))), ..work() };
    h.enqueue(backfill()).await;
    let claimed = h.claim_one().await;
    h.bury(&claimed).await;
    h.offer(backfill()).await;
    assert_counts(h, Counts { ready: 1, ..NONE }).await;
    assert_eq!((h.totals().await.dead, h.totals().await.enqueued), (0, 1));
}

pub async fn a_cancelled_job_is_counted(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.engine.cancel(id, "not needed").await.expect(UP);
    assert_counts(h, NONE).await;
    assert_eq!(h.totals().await.cancelled, 1);
}

pub async fn a_cancelled_scheduled_job_leaves_the_scheduled(h: &Harness) {
    let id = h.enqueue(due_in(minutes(5))).await;
    h.engine.cancel(id, "not needed").await.expect(UP);
    assert_counts(h, NONE).await;
}

pub async fn a_cancelled_running_job_is_counted_when_it_ends(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.engine.cancel(claimed.job.id, "not needed").await.expect(UP);
    assert_counts(h, Counts { running: 1, ..NONE }).await;
    h.succeed(&claimed).await;
    assert_counts(h, NONE).await;
    assert_eq!((h.totals().await.cancelled, h.totals().await.succeeded), (1, 0));
}

pub async fn an_expired_job_is_counted_as_cancelled(h: &Harness) {
    h.enqueue(NewJob { expires: Some(When::In(secs(5))), ..work() }).await;
    h.advance(secs(6));
    h.sweep().await;
    assert_counts(h, NONE).await;
    assert_eq!(h.totals().await.cancelled, 1);
}

pub async fn an_expired_job_met_by_a_claim_is_counted_as_cancelled(h: &Harness) {
    h.enqueue(NewJob { expires: Some(When::In(secs(5))), ..work() }).await;
    h.advance(secs(6));
    h.claim(1).await;
    assert_counts(h, NONE).await;
    assert_eq!(h.totals().await.cancelled, 1);
}

pub async fn a_purge_is_counted(h: &Harness) {
    h.enqueue_many(3).await;
    h.enqueue(due_in(minutes(5))).await;
    h.engine.purge(&queue(MAIN), 100).await.expect(UP);
    assert_counts(h, NONE).await;
    assert_eq!(h.totals().await.cancelled, 4);
}

pub async fn a_rescued_job_counts_as_parked(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    assert_counts(h, Counts { parked: 1, ..NONE }).await;
}

pub async fn a_job_buried_by_crashes_is_counted_as_dead(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    h.crash_suspect().await;
    h.crash_suspect().await;
    assert_counts(h, Counts { dead_letters: 1, ..NONE }).await;
    assert_eq!(h.totals().await.dead, 1);
}

pub async fn a_worker_that_leaves_moves_its_counts(h: &Harness) {
    let leaver = h.register_worker().await;
    h.enqueue_many(2).await;
    h.claim_as(leaver, 2).await;
    h.engine.retire(leaver).await.expect(UP);
    assert_counts(h, Counts { ready: 2, ..NONE }).await;
}

pub async fn a_job_made_due_at_once_moves_from_scheduled_to_ready(h: &Harness) {
    let id = h.enqueue(due_in(minutes(5))).await;
    h.engine.retry(id).await.expect(UP);
    assert_counts(h, Counts { ready: 1, ..NONE }).await;
}

pub async fn a_replaced_job_moves_to_its_new_time(h: &Harness) {
    let mut claim = KeyClaim::new(key("k"));
    claim.on_conflict = windlass_core::key::OnConflict::Replace;
    h.enqueue(NewJob { key: Some(claim.clone()), ..work() }).await;
    h.offer(NewJob { key: Some(claim), when: When::In(minutes(5)), ..work() }).await;
    assert_counts(h, Counts { scheduled: 1, ..NONE }).await;
}

pub async fn kept_and_refused_jobs_are_not_counted(h: &Harness) {
    let keyed = || NewJob { key: Some(KeyClaim::new(key("k"))), ..work() };
    h.enqueue(keyed()).await;
    h.offer(keyed()).await;
    h.refusal(NewJob { timeout: Some(secs(0)), ..work() }).await;
    assert_counts(h, Counts { ready: 1, ..NONE }).await;
}

pub async fn a_prune_changes_no_count(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.succeed(&claimed).await;
    h.enqueue(work()).await;
    h.advance(days(30));
    h.prune().await;
    assert_counts(h, Counts { ready: 1, ..NONE }).await;
}

pub async fn counts_survive_a_long_row_of_mixed_moves(h: &Harness) {
    for round in 0..20 {
        h.enqueue_many(5).await;
        let claimed = h.claim(4).await;
        let mut left = claimed.iter();
        if let Some(claimed) = left.next() {
            h.succeed(claimed).await;
        }
        if let Some(claimed) = left.next() {
            h.fail(claimed, secs(round)).await;
        }
        if let Some(claimed) = left.next() {
            h.bury(claimed).await;
        }
        h.advance(secs(20));
        let status = h.status_of(MAIN).await;
        assert_balanced(status.totals, status.counts);
        assert_eq!(status.totals.enqueued, 5 * (round + 1));
    }
}
