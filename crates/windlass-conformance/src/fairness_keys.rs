//! Among the due jobs of one queue and one priority, fairness keys take turns.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use std::collections::BTreeSet;

use windlass_core::claim::{ClaimRequest, Claimed};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::job::JobId;
use windlass_core::key::{KeyClaim, KeyScope, OnConflict};
use windlass_core::names::{FairnessKey, OrderingKey};
use windlass_core::settle::{AttemptReport, Transition};

use crate::harness::*;

fn fairness_key(name: &str) -> FairnessKey {
    FairnessKey::parse(name).expect("behaviours use plain names")
}

fn of(name: &str) -> NewJob {
    NewJob { fairness_key: Some(fairness_key(name)), ..work() }
}

/// Enqueues this number of jobs with one fairness key, in one batch.
async fn many(h: &Harness, name: &str, count: usize) -> Vec<JobId> {
    let answers = h.enqueue_all(vec![of(name); count]).await;
    answers.iter().map(|answer| answer.job().expect("taken")).collect()
}

/// Formats the fairness keys of claimed jobs, in order; a dash stands for none.
fn fairness_keys(claimed: &[Claimed]) -> String {
    let name =
        |claimed: &Claimed| claimed.job.fairness_key.as_ref().map_or("-".to_owned(), ToString::to_string);
    claimed.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// Counts the claimed jobs of each of these fairness keys.
fn count_of<const N: usize>(claimed: &[Claimed], names: [&str; N]) -> [usize; N] {
    let all = fairness_keys(claimed);
    names.map(|name| all.split(' ').filter(|fairness_key| *fairness_key == name).count())
}

/// Claims one job at a time, this number of times.
async fn one_by_one(h: &Harness, times: usize) -> Vec<Claimed> {
    let mut claimed = Vec::new();
    for _ in 0..times {
        claimed.extend(h.claim(1).await);
    }
    claimed
}

pub async fn a_job_keeps_the_fairness_key_it_was_given(h: &Harness) {
    let id = h.enqueue(of("tenant:42")).await;
    assert_eq!(h.record(id).await.job.fairness_key, Some(fairness_key("tenant:42")));
    let claimed = h.claim_one().await;
    assert_eq!(claimed.job.fairness_key, Some(fairness_key("tenant:42")));
    h.succeed(&claimed).await;
    let kept = h.enqueue(NewJob { fairness_key: Some(fairness_key("tenant:42")), ..job_of(KEPT) }).await;
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    assert_eq!(
        h.record(kept).await.job.fairness_key,
        Some(fairness_key("tenant:42")),
        "also when it has ended"
    );
    let plain = h.enqueue(work()).await;
    assert_eq!(h.record(plain).await.job.fairness_key, None, "beside jobs that have one");
}

pub async fn a_fairness_key_with_a_thousand_jobs_does_not_hold_up_one_with_a_single_job(h: &Harness) {
    many(h, "big", 1_000).await;
    h.claim(3).await;
    let single = h.enqueue(of("small")).await;
    let next = h.claim(2).await;
    assert!(ids(&next).contains(&single), "{}", fairness_keys(&next));
}

pub async fn fairness_keys_take_turns_when_slots_free_one_by_one(h: &Harness) {
    many(h, "a", 20).await;
    many(h, "b", 20).await;
    many(h, "c", 20).await;
    let claimed = one_by_one(h, 12).await;
    assert_eq!(fairness_keys(&claimed), "a b c a b c a b c a b c");
}

pub async fn a_big_claim_is_divided_evenly_and_what_one_cannot_use_goes_to_the_others(h: &Harness) {
    many(h, "a", 100).await;
    many(h, "b", 3).await;
    many(h, "c", 100).await;
    let claimed = h.claim(30).await;
    let [a, b, c] = count_of(&claimed, ["a", "b", "c"]);
    assert_eq!((a + b + c, b), (30, 3));
    assert!(a.abs_diff(c) <= 1, "{a} and {c}");
    assert_eq!(&fairness_keys(&claimed)[..11], "a b c a b c", "they are started in turn, too");
}

pub async fn turns_go_on_from_claim_to_claim(h: &Harness) {
    for name in ["a", "b", "c", "d", "e"] {
        many(h, name, 40).await;
    }
    let mut claimed = Vec::new();
    for limit in [2, 7, 3, 11, 1, 6] {
        claimed.extend(h.claim(limit).await);
    }
    assert_eq!(count_of(&claimed, ["a", "b", "c", "d", "e"]), [6; 5]);
}

pub async fn within_a_fairness_key_jobs_leave_by_due_time_and_number(h: &Harness) {
    let later = h.enqueue(NewJob { when: When::In(secs(2)), ..of("a") }).await;
    let sooner = h.enqueue(NewJob { when: When::In(secs(1)), ..of("a") }).await;
    let at_once = many(h, "a", 2).await;
    many(h, "b", 4).await;
    h.advance(secs(3));
    let claimed = h.claim(8).await;
    let of_a = claimed.iter().filter(|claimed| claimed.job.fairness_key == Some(fairness_key("a")));
    let of_a: Vec<_> = of_a.map(|claimed| claimed.job.id).collect();
    assert_eq!(of_a, [at_once[0], at_once[1], sooner, later]);
}

pub async fn jobs_without_a_fairness_key_are_one_fairness_key_together(h: &Harness) {
    many(h, "a", 50).await;
    many(h, "b", 50).await;
    h.enqueue_many(50).await;
    let claimed = h.claim(30).await;
    assert_eq!(count_of(&claimed, ["a", "b", "-"]), [10, 10, 10]);
    let claimed = one_by_one(h, 9).await;
    assert_eq!(count_of(&claimed, ["a", "b", "-"]), [3, 3, 3]);
}

pub async fn those_that_came_before_the_first_fairness_key_are_not_forgotten(h: &Harness) {
    let plain = h.enqueue_many(40).await;
    h.advance(secs(1));
    many(h, "a", 40).await;
    many(h, "b", 40).await;
    let claimed = one_by_one(h, 30).await;
    assert_eq!(count_of(&claimed, ["a", "b", "-"]), [10, 10, 10]);
    let without: Vec<_> = claimed.iter().filter(|claimed| claimed.job.fairness_key.is_none()).collect();
    assert_eq!(without.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), plain[..10]);
}

pub async fn priority_goes_before_fairness_keys(h: &Harness) {
    many(h, "a", 5).await;
    many(h, "b", 5).await;
    let urgent_one = h.enqueue(NewJob { fairness_key: Some(fairness_key("a")), ..urgent(1) }).await;
    let plain = h.enqueue(urgent(0)).await;
    let less = h.enqueue(NewJob { fairness_key: Some(fairness_key("c")), ..urgent(9) }).await;
    assert_eq!(ids(&h.claim(2).await), [plain, urgent_one]);
    let claimed = h.claim(20).await;
    assert_eq!(claimed.len(), 11);
    assert_eq!(claimed.last().map(|claimed| claimed.job.id), Some(less));
}

pub async fn turns_of_one_priority_are_not_those_of_another(h: &Harness) {
    many(h, "a", 4).await;
    many(h, "b", 4).await;
    assert_eq!(fairness_keys(&h.claim(1).await), "a");
    let jobs = ["a", "b"].map(|name| NewJob { fairness_key: Some(fairness_key(name)), ..urgent(0) });
    h.enqueue_all(jobs.to_vec()).await;
    assert_eq!(fairness_keys(&h.claim(2).await), "a b", "the urgent jobs");
    assert_eq!(fairness_keys(&h.claim(2).await), "b a", "the other jobs continue their turns");
}

pub async fn one_fairness_key_alone_gets_every_slot(h: &Harness) {
    let jobs = many(h, "a", 30).await;
    assert_eq!(ids(&h.claim(20).await), jobs[..20]);
    assert_eq!(ids(&h.claim(20).await), jobs[20..]);
    assert_eq!(h.claim(20).await, []);
}

pub async fn a_fairness_key_whose_jobs_lie_in_the_future_takes_no_turn(h: &Harness) {
    let future = |name: &str| NewJob { when: When::In(minutes(5)), ..of(name) };
    h.enqueue_all(vec![future("b"), future("d"), future("c")]).await;
    many(h, "a", 10).await;
    many(h, "c", 10).await;
    assert_eq!(fairness_keys(&one_by_one(h, 4).await), "a c a c");
    h.advance(minutes(5));
    let claimed = h.claim(4).await;
    assert_eq!(count_of(&claimed, ["a", "b", "c", "d"]), [1, 1, 1, 1]);
}

pub async fn a_job_with_a_fairness_key_is_never_claimed_before_it_is_due(h: &Harness) {
    let later = |job| NewJob { when: When::In(secs(10)), ..job };
    let first = h.enqueue(of("a")).await;
    let second = h.enqueue(later(of("a"))).await;
    let third = h.enqueue(later(work())).await;
    let other = h.enqueue(later(of("b"))).await;
    assert_eq!(ids(&h.claim(10).await), [first]);
    h.advance(secs(10) - MICROSECOND);
    assert_eq!(h.claim(10).await, []);
    h.enqueue(of("a")).await;
    assert_eq!(h.claim(10).await.len(), 1, "a due job does not make a job claimable that is not due");
    h.advance(MICROSECOND);
    let mut due = ids(&h.claim(10).await);
    due.sort_unstable();
    assert_eq!(due, [second, third, other]);
}

pub async fn many_fairness_keys_that_lie_in_the_future_hide_no_job(h: &Harness) {
    let future = (0..600).map(|n| NewJob { when: When::In(minutes(5)), ..of(&format!("m{n:03}")) });
    h.enqueue_all(future.collect()).await;
    many(h, "y", 30).await;
    many(h, "z", 30).await;
    let claimed = one_by_one(h, 40).await;
    let [y, z] = count_of(&claimed, ["y", "z"]);
    assert!(y >= 15 && z >= 15, "{y} and {z}");
}

pub async fn more_fairness_keys_than_a_claim_looks_at_all_come_round(h: &Harness) {
    let jobs = (0..1_000).map(|n| of(&format!("m{:03}", n % 500)));
    h.enqueue_all(jobs.collect()).await;
    let mut claimed = Vec::new();
    for _ in 0..10 {
        claimed.extend(h.claim(50).await);
    }
    let served: BTreeSet<_> = claimed.iter().map(|claimed| claimed.job.fairness_key.clone()).collect();
    assert_eq!(claimed.len(), 500);
    assert!(served.len() >= 400, "{} of 500 fairness keys were served", served.len());
}

pub async fn a_retried_job_keeps_its_fairness_key(h: &Harness) {
    let first = h.enqueue(of("a")).await;
    let claimed = h.claim_one().await;
    h.fail(&claimed, minutes(1)).await;
    many(h, "b", 30).await;
    assert_eq!(fairness_keys(&h.claim(3).await), "b b b");
    h.advance(minutes(1));
    let next = h.claim(2).await;
    assert!(ids(&next).contains(&first), "{}", fairness_keys(&next));
    let again = next.iter().find(|claimed| claimed.job.id == first).expect("just seen");
    assert_eq!(again.job.fairness_key, Some(fairness_key("a")));
    h.release(again).await;
    assert!(
        ids(&h.claim(2).await).contains(&first),
        "a released job waits for the turn of its fairness key again"
    );
}

pub async fn a_dead_letter_that_is_started_over_keeps_its_fairness_key(h: &Harness) {
    let id = h.enqueue(of("a")).await;
    let claimed = h.claim_one().await;
    h.bury(&claimed).await;
    assert_eq!(h.record(id).await.job.fairness_key, Some(fairness_key("a")));
    many(h, "b", 30).await;
    h.claim(3).await;
    h.engine.retry(id).await.expect(UP);
    let next = h.claim(2).await;
    assert!(ids(&next).contains(&id), "{}", fairness_keys(&next));
}

pub async fn a_job_without_a_fairness_key_that_comes_back_does_not_wait_behind_a_thousand_of_another(
    h: &Harness,
) {
    let id = h.enqueue(work()).await;
    let claimed = h.claim_one().await;
    many(h, "big", 300).await;
    h.fail(&claimed, minutes(1)).await;
    h.advance(minutes(1));
    let next = h.claim(2).await;
    let again =
        next.iter().find(|claimed| claimed.job.id == id).expect("the retried job is claimed in its turn");
    assert_eq!(again.job.fairness_key, None);
    h.bury(again).await;
    h.advance(minutes(1));
    h.engine.retry(id).await.expect(UP);
    let next = h.claim(2).await;
    assert!(ids(&next).contains(&id), "started over: {}", fairness_keys(&next));
}

pub async fn a_job_without_a_fairness_key_that_is_put_off_does_not_wait_behind_a_thousand_of_another(
    h: &Harness,
) {
    let key =
        KeyClaim { on_conflict: OnConflict::Replace, ..KeyClaim::new("a".parse().expect("a plain key")) };
    let keyed = |when| NewJob { key: Some(key.clone()), when, ..work() };
    let id = h.enqueue(keyed(When::Now)).await;
    many(h, "big", 300).await;
    h.offer(keyed(When::In(secs(30)))).await;
    h.advance(minutes(1));
    let next = h.claim(2).await;
    assert!(ids(&next).contains(&id), "{}", fairness_keys(&next));
}

pub async fn a_parked_job_takes_its_turn_when_its_gate_opens(h: &Harness) {
    let id = h.enqueue(of("a")).await;
    let claimed = h.claim_one().await;
    h.park(&claimed, "semaphore:x").await;
    many(h, "b", 30).await;
    assert_eq!(fairness_keys(&h.claim(2).await), "b b");
    let gate = windlass_core::gate::Gate::named("semaphore:x");
    h.engine.open_gate(&gate, 10).await.expect(UP);
    assert!(ids(&h.claim(2).await).contains(&id));
}

pub async fn a_job_with_another_priority_takes_its_turn_there(h: &Harness) {
    many(h, "a", 10).await;
    let id = h.enqueue(of("b")).await;
    h.engine.set_priority(id, level(1)).await.expect(UP);
    assert_eq!(ids(&h.claim(1).await), [id]);
    assert_eq!(fairness_keys(&h.claim(3).await), "a a a");
}

pub async fn what_is_cancelled_or_expires_takes_no_turn(h: &Harness) {
    many(h, "a", 10).await;
    let gone = many(h, "b", 3).await;
    for id in &gone {
        h.engine.cancel(*id, "no longer needed").await.expect(UP);
    }
    let late = h.enqueue(NewJob { expires: Some(When::In(secs(1))), ..of("c") }).await;
    h.advance(secs(2));
    assert_eq!(fairness_keys(&h.claim(4).await), "a a a a");
    assert!(h.why_cancelled(late).await.contains("expired"));
    assert_eq!(h.claim(20).await.len(), 6);
}

pub async fn two_claimers_at_once_get_every_job_once(h: &Harness) {
    for name in ["a", "b", "c"] {
        many(h, name, 60).await;
    }
    let claims = (0..18).map(|_| {
        let (engine, request) = (h.engine.clone(), h.claim_request(10));
        async move { engine.claim(request).await }
    });
    let answers = h.at_once(claims.collect()).await;
    let mut claimed = Vec::new();
    for answer in answers {
        match answer.expect(UP) {
            windlass_core::claim::ClaimAnswer::Claimed { jobs, .. } => claimed.extend(ids(&jobs)),
            other => panic!("expected jobs, got {other:?}"),
        }
    }
    // Two concurrent claims may both have skipped a job that both met.
    while let Some(more) = Some(h.claim(50).await).filter(|more| !more.is_empty()) {
        claimed.extend(ids(&more));
    }
    let distinct: BTreeSet<_> = claimed.iter().copied().collect();
    assert_eq!((claimed.len(), distinct.len()), (180, 180));
}

pub async fn a_job_with_fairness_key_key_and_ordering_key(h: &Harness) {
    let key_claim =
        KeyClaim { key: key("k"), scope: KeyScope::default(), on_conflict: OnConflict::default() };
    let ordering_key = OrderingKey::parse("s").expect("a plain name");
    let new = NewJob { key: Some(key_claim), ordering_key: Some(ordering_key.clone()), ..of("a") };
    let id = h.enqueue(new.clone()).await;
    assert_eq!(h.offer(new).await.job(), Ok(id), "the key is held");
    let second = h.enqueue(NewJob { ordering_key: Some(ordering_key), ..of("a") }).await;
    many(h, "b", 10).await;
    let claimed = h.claim(2).await;
    assert!(ids(&claimed).contains(&id), "{}", fairness_keys(&claimed));
    assert_eq!(fairness_keys(&h.claim(2).await), "b b", "the second job of the ordering key waits");
    let first = claimed.iter().find(|claimed| claimed.job.id == id).expect("just seen");
    h.succeed(first).await;
    let next = h.claim(2).await;
    assert!(ids(&next).contains(&second), "{}", fairness_keys(&next));
}

pub async fn a_paused_queue_and_other_types_are_left_alone(h: &Harness) {
    many(h, "a", 4).await;
    let kept = h.enqueue(NewJob { fairness_key: Some(fairness_key("b")), ..job_of(KEPT) }).await;
    let only_work = ClaimRequest { types: vec![type_name(WORK)], ..h.claim_request(3) };
    assert_eq!(fairness_keys(&h.claim_with(only_work).await), "a a a");
    h.engine.pause(&queue(MAIN), None, None).await.expect(UP);
    assert_eq!(h.claim(10).await, []);
    h.engine.resume(&queue(MAIN)).await.expect(UP);
    let claimed = h.claim(10).await;
    assert_eq!(count_of(&claimed, ["a", "b"]), [1, 1]);
    assert!(ids(&claimed).contains(&kept));
}

pub async fn fairness_keys_of_several_types_of_a_queue_take_turns_together(h: &Harness) {
    many(h, "a", 10).await;
    let kept = |name: &str| NewJob { fairness_key: Some(fairness_key(name)), ..job_of(KEPT) };
    h.enqueue_all(vec![kept("a"), kept("b"), kept("b"), kept("b")]).await;
    let claimed = h.claim(6).await;
    assert_eq!(count_of(&claimed, ["a", "b"]), [3, 3]);
}

pub async fn a_repeat_of_a_claim_by_turns_tells_what_it_holds(h: &Harness) {
    for name in ["a", "b"] {
        many(h, name, 10).await;
    }
    let request = h.claim_request(6);
    let claimed = h.claim_with(request.clone()).await;
    let again = h.claim_with(ClaimRequest { repeat: true, ..request }).await;
    let sorted = |claimed: &[Claimed]| ids(claimed).into_iter().collect::<BTreeSet<_>>();
    assert_eq!((sorted(&again), claimed.len()), (sorted(&claimed), 6));
}

pub async fn old_jobs_rise_whatever_their_share(h: &Harness) {
    let old = h.enqueue(NewJob { fairness_key: Some(fairness_key("z")), ..urgent(6) }).await;
    h.advance(minutes(11));
    many(h, "a", 10).await;
    many(h, "b", 10).await;
    let request = ClaimRequest { boosted_max: 1, ..h.claim_request(4) };
    let claimed = h.claim_with(request).await;
    assert!(ids(&claimed).contains(&old), "{}", fairness_keys(&claimed));
    assert_eq!(claimed.iter().filter(|claimed| claimed.boosted).count(), 1);
    let rest = claimed.iter().filter(|claimed| !claimed.boosted).cloned().collect::<Vec<_>>();
    assert!(count_of(&rest, ["a", "b"]).iter().all(|count| (1..=2).contains(count)));
}

pub async fn a_snoozed_job_waits_in_its_line_until_it_is_due(h: &Harness) {
    let id = h.enqueue(of("a")).await;
    let claimed = h.claim_one().await;
    let transition = Transition::Snooze { after: minutes(1) };
    h.settle_with(claimed.clone().settled(transition, AttemptReport::default())).await;
    many(h, "b", 20).await;
    assert_eq!(fairness_keys(&h.claim(2).await), "b b");
    h.advance(minutes(1));
    assert!(ids(&h.claim(2).await).contains(&id));
}
