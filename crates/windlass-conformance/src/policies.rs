//! The state of breakers and rate limits that processes share.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use std::sync::Arc;
use std::time::Duration;

use windlass_core::breaker::{
    Admission, BreakerEvent, BreakerOptions, BreakerState, CircuitState, Results, Verdict, ask, decide,
};
use windlass_core::claim::Fence;
use windlass_core::engine::Engine;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::names::{BreakerName, LimitName};
use windlass_core::policies::{Saved, StoredBreaker, Take};
use windlass_core::rate_limit::{RateLimit, Taken, take};
use windlass_core::settle::Transition;

use crate::harness::*;

const SHOP: &str = "shop";

fn breaker(name: &str) -> BreakerName {
    BreakerName::parse(name).expect("behaviours use plain names")
}

/// Creates a breaker state in which every field is set.
fn full_state(h: &Harness) -> BreakerState {
    let options = BreakerOptions { half_open_probe_count: 3, ..BreakerOptions::default() };
    let open = BreakerEvent::Open { lasting: Some(secs(1)), why: "no 'answer' \"ü\"".to_owned() };
    let failed = BreakerEvent::Ended(Results::of(Verdict::RateLimited(None)));
    let state = decide(&BreakerState::default(), &failed, h.now(), &options);
    let state = decide(&state, &open, h.now(), &options);
    let fence = Fence { job: JobId(7), token: windlass_core::claim::ClaimToken::from_random(h.fresh_bits()) };
    let (state, _) = ask(&state, fence, h.now().plus(secs(2)), &options);
    decide(&state, &BreakerEvent::LetThrough(vec![JobId(8)]), h.now().plus(secs(2)), &options)
}

async fn save(h: &Harness, name: &str, read: u64, state: &BreakerState) -> Saved {
    h.engine.save_breaker(&breaker(name), read, state).await.expect(UP)
}

async fn stored(engine: &Arc<dyn Engine>, name: &str) -> StoredBreaker {
    let read = engine.breakers().await.expect(UP);
    let new = StoredBreaker { name: breaker(name), version: 0, state: Ok(BreakerState::default()) };
    read.breakers.into_iter().find(|stored| stored.name == new.name).unwrap_or(new)
}

pub async fn a_fresh_store_has_no_breakers(h: &Harness) {
    let read = h.engine.breakers().await.expect(UP);
    assert_eq!((read.breakers, read.now), (vec![], h.now()));
}

pub async fn a_breaker_is_kept_as_it_was_written(h: &Harness) {
    for state in [BreakerState::default(), full_state(h)] {
        let before = stored(&h.engine, SHOP).await;
        assert_eq!(save(h, SHOP, before.version, &state).await, Saved::Done);
        let after = stored(&h.engine, SHOP).await;
        assert_eq!(after.state, Ok(state));
        assert!(after.version > before.version);
    }
}

pub async fn breakers_are_listed_by_name(h: &Harness) {
    for name in ["shop", "bank", "post"] {
        save(h, name, 0, &BreakerState::default()).await;
    }
    let read = h.engine.breakers().await.expect(UP);
    let names: Vec<_> = read.breakers.iter().map(|stored| stored.name.as_str().to_owned()).collect();
    assert_eq!(names, ["bank", "post", "shop"]);
}

pub async fn a_breaker_is_written_only_over_what_was_read(h: &Harness) {
    let state = full_state(h);
    assert_eq!(save(h, SHOP, 0, &state).await, Saved::Done);
    assert_eq!(
        save(h, SHOP, 0, &BreakerState::default()).await,
        Saved::Changed,
        "the breaker is stored already"
    );
    let version = stored(&h.engine, SHOP).await.version;
    assert_eq!(save(h, SHOP, version + 1, &BreakerState::default()).await, Saved::Changed);
    assert_eq!(
        save(h, "other", version, &BreakerState::default()).await,
        Saved::Changed,
        "the breaker is not stored"
    );
    assert_eq!(stored(&h.engine, SHOP).await.state, Ok(state));
}

pub async fn of_many_who_write_at_once_one_succeeds(h: &Harness) {
    for version in [0, 1] {
        let writers =
            (0..20).map(|_| {
                let engine = Arc::clone(&h.engine);
                async move {
                    engine.save_breaker(&breaker(SHOP), version, &BreakerState::default()).await.expect(UP)
                }
            });
        let saved = h.at_once(writers.collect()).await;
        assert_eq!(saved.iter().filter(|saved| **saved == Saved::Done).count(), 1);
    }
}

/// Takes a permit as a process does: read, decide, write, and again if another process was faster.
async fn ask_for_permit(engine: &Arc<dyn Engine>, fence: Fence) -> Admission {
    loop {
        let read = engine.breakers().await.expect(UP);
        let before = read.breakers.into_iter().find(|stored| stored.name == breaker(SHOP));
        let before = before.expect("the breaker was stored");
        let state = before.state.expect("the state can be read");
        let (after, admission) = ask(&state, fence, read.now, &BreakerOptions::default());
        if after == state {
            return admission;
        }
        let saved = engine.save_breaker(&before.name, before.version, &after).await.expect(UP);
        if saved == Saved::Done {
            return admission;
        }
    }
}

pub async fn a_hundred_claims_and_one_permit_make_one_probe(h: &Harness) {
    let open = BreakerEvent::Open { lasting: Some(secs(1)), why: String::new() };
    let open = decide(&BreakerState::default(), &open, h.now(), &BreakerOptions::default());
    save(h, SHOP, 0, &open).await;
    h.advance(secs(2));
    h.enqueue_many(100).await;
    let claims = h.claim(100).await;
    assert_eq!(claims.len(), 100);
    let askers = claims.iter().map(|claimed| {
        let (engine, fence) = (Arc::clone(&h.engine), claimed.fence());
        async move { ask_for_permit(&engine, fence).await }
    });
    let admissions = h.at_once(askers.collect()).await;
    assert_eq!(admissions.iter().filter(|admission| **admission == Admission::Probe).count(), 1);
    let state = stored(&h.engine, SHOP).await.state.expect("the state can be read");
    assert_eq!((state.circuit, state.probes.len()), (CircuitState::HalfOpen, 1));
}

async fn holds(h: &Harness, fence: Fence) -> bool {
    only(h.engine.still_hold(&[fence]).await.expect(UP))
}

pub async fn a_claim_is_good_until_its_job_is_settled(h: &Harness) {
    for transition in [
        Transition::Succeed { result: None },
        Transition::Retry { after: secs(1), error: oops() },
        Transition::Snooze { after: secs(1) },
        Transition::Park { gate: Gate::breaker(&breaker(SHOP)) },
        Transition::Bury { error: oops() },
        Transition::Cancel { why: "no longer wanted".to_owned() },
        Transition::Release { started: false },
    ] {
        let claimed = h.enqueue_and_claim_one().await;
        assert!(holds(h, claimed.fence()).await);
        let id = h.end(&claimed, transition.clone()).await;
        assert!(!holds(h, claimed.fence()).await, "{transition:?}");
        h.engine.cancel(id, "over").await.expect(UP);
    }
}

pub async fn a_claim_is_good_until_its_worker_is_dead_or_gone(h: &Harness) {
    let victim = h.register_worker().await;
    h.enqueue(work()).await;
    let claimed = h.claim_one_as(victim).await;
    h.kill(victim).await;
    assert!(!holds(h, claimed.fence()).await);
    let again = h.claim_suspect().await.expect("the job is retried");
    assert!(holds(h, again.fence()).await && !holds(h, claimed.fence()).await);
    h.succeed(&again).await;

    let leaver = h.register_worker().await;
    h.enqueue(work()).await;
    let claimed = h.claim_one_as(leaver).await;
    h.engine.retire(leaver).await.expect(UP);
    assert!(!holds(h, claimed.fence()).await);
}

pub async fn a_claim_with_another_token_is_not_good(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let forged = Fence { token: h.claim_request(1).token, ..claimed.fence() };
    let unknown = Fence { job: JobId(i64::MAX), ..claimed.fence() };
    let answers = h.engine.still_hold(&[forged, claimed.fence(), unknown]).await.expect(UP);
    assert_eq!(answers, [false, true, false]);
    assert!(h.engine.still_hold(&[]).await.expect(UP).is_empty());
}

fn ten_a_second(burst: u32) -> RateLimit {
    RateLimit { burst, ..RateLimit::new(10, secs(1)) }
}

fn request(limit: &str, key: &str, rate: &RateLimit, wanted: u32) -> Take {
    let limit = LimitName::parse(limit).expect("behaviours use plain names");
    Take { limit, key: key.to_owned(), pace: rate.shared_pace(), wanted }
}

async fn taken(h: &Harness, request: Take) -> Taken {
    only(h.engine.take_tokens(&[request]).await.expect(UP))
}

pub async fn tokens_are_taken_as_core_decides(h: &Harness) {
    let fast = RateLimit { burst: 700, ..RateLimit::new(1_000, secs(1)) };
    for rate in [ten_a_second(3), fast, RateLimit::new(7, minutes(1))] {
        let mut due = None;
        let key = format!("{rate:?}");
        for (wanted, pause) in
            [(2, 0), (0, 10), (2, 0), (1, 95), (5, 1), (700, 4), (1, 10_000), (90, 1), (1, 1)]
        {
            h.advance(Duration::from_millis(pause));
            let expected = take(rate.shared_pace(), due, wanted, h.now());
            assert_eq!(
                taken(h, request("mails", &key, &rate, wanted)).await,
                expected,
                "{wanted} of {rate:?}"
            );
            due = if expected.is_news(due) { Some(expected.due) } else { due };
        }
    }
}

pub async fn each_limit_and_key_has_tokens_of_its_own(h: &Harness) {
    let rate = ten_a_second(1);
    for (limit, key) in [("mails", "a"), ("mails", "b"), ("mails", ""), ("calls", "a"), ("mails", "ü:'\"")] {
        assert_eq!(taken(h, request(limit, key, &rate, 1)).await.granted, 1, "{limit} {key}");
        assert_eq!(taken(h, request(limit, key, &rate, 1)).await.granted, 0, "{limit} {key}");
    }
}

pub async fn who_wants_no_token_only_looks(h: &Harness) {
    let rate = ten_a_second(1);
    for _ in 0..3 {
        assert_eq!(taken(h, request("mails", "a", &rate, 0)).await.retry_after, None);
    }
    assert_eq!(taken(h, request("mails", "a", &rate, 1)).await.granted, 1);
    let look = taken(h, request("mails", "a", &rate, 0)).await;
    assert_eq!(look.retry_after, Some(Duration::from_millis(100)));
}

pub async fn a_limit_that_is_made_faster_keeps_no_caller_waiting_for_the_slower_one(h: &Harness) {
    let slow = RateLimit { burst: 1, ..RateLimit::new(1, minutes(60)) };
    for (key, wanted) in [("taken", 1), ("looked at", 0)] {
        assert_eq!(taken(h, request("mails", key, &slow, 1)).await.granted, 1);
        let wait = taken(h, request("mails", key, &ten_a_second(1), wanted)).await.retry_after;
        assert_eq!(wait, Some(Duration::from_millis(100)), "{key}");
        h.advance(Duration::from_millis(100));
        assert_eq!(taken(h, request("mails", key, &ten_a_second(1), 1)).await.granted, 1, "{key}");
    }
}

pub async fn a_batch_of_requests_for_tokens_is_answered_in_order(h: &Harness) {
    let rate = ten_a_second(2);
    let batch = ["a", "b", "a", "a"].map(|key| request("mails", key, &rate, 1));
    let answers = h.engine.take_tokens(&batch).await.expect(UP);
    let granted: Vec<_> = answers.iter().map(|taken| taken.granted).collect();
    assert_eq!(granted, [1, 1, 1, 0]);
    let too_many = vec![request("mails", "a", &rate, 1); windlass_core::limits::TAKES_MAX + 1];
    assert!(h.engine.take_tokens(&too_many).await.is_err());
}

pub async fn of_many_at_once_no_more_get_tokens_than_there_are(h: &Harness) {
    let rate = ten_a_second(7);
    let take = Take { pace: rate.pace(), ..request("mails", "a", &rate, 2) };
    let takers = (0..30).map(|_| {
        let (engine, take) = (Arc::clone(&h.engine), take.clone());
        async move { engine.take_tokens(&[take]).await.expect(UP) }
    });
    let taken = h.at_once(takers.collect()).await;
    assert_eq!(taken.iter().flatten().map(|taken| taken.granted).sum::<u32>(), 7);
}

pub async fn a_prune_forgets_keys_that_have_saved_up_everything(h: &Harness) {
    let rate = ten_a_second(1);
    taken(h, request("mails", "a", &rate, 1)).await;
    let pruned = async || h.engine.prune(100).await.expect(UP).changed;
    assert_eq!(pruned().await, 0);
    assert_eq!(taken(h, request("mails", "a", &rate, 1)).await.granted, 0, "the taken tokens are stored");
    h.advance(secs(1));
    assert_eq!(pruned().await, 1);
    assert_eq!(taken(h, request("mails", "a", &rate, 1)).await.granted, 1);
}

pub async fn gates_with_waiters_are_listed_page_by_page(h: &Harness) {
    assert_eq!(h.engine.gates(None, 10).await.expect(UP), []);
    for gate in ["rate:mails:b", "breaker:shop", "rate:mails:b", "rate:mails:a"] {
        h.parked_job(gate).await;
    }
    let (mut listed, mut after) = (Vec::new(), None);
    while let Some(gate) = h.engine.gates(after.as_ref(), 1).await.expect(UP).pop() {
        after = Some(gate.clone());
        listed.push(gate.as_str().to_owned());
    }
    let all = h.engine.gates(None, 10).await.expect(UP);
    assert_eq!(listed, all.iter().map(Gate::as_str).collect::<Vec<_>>());
    listed.sort();
    assert_eq!(listed, ["breaker:shop", "rate:mails:a", "rate:mails:b"]);
}

pub async fn a_gate_is_listed_only_while_a_job_waits_behind_it(h: &Harness) {
    h.parked_job("breaker:shop").await;
    let gate = Gate::breaker(&breaker(SHOP));
    assert_eq!(only(h.engine.gates(None, 10).await.expect(UP)), gate);
    h.engine.open_gate(&gate, 10).await.expect(UP);
    assert_eq!(h.engine.gates(None, 10).await.expect(UP), []);
}

pub async fn suspects_wait_behind_no_gate_that_is_listed(h: &Harness) {
    h.enqueue(work()).await;
    h.crash_once().await;
    assert_eq!(h.engine.gates(None, 10).await.expect(UP), []);
    assert_eq!(h.engine.behind(&Gate::suspect(), 10).await.expect(UP), []);
}

pub async fn the_oldest_behind_a_gate_come_first(h: &Harness) {
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(h.parked_job("breaker:shop").await);
        h.advance(secs(1));
    }
    h.parked_job("breaker:bank").await;
    let gate = Gate::breaker(&breaker(SHOP));
    assert_eq!(h.engine.behind(&gate, 10).await.expect(UP), waiting);
    assert_eq!(h.engine.behind(&gate, 2).await.expect(UP), waiting[..2]);
    assert_eq!(h.engine.behind(&Gate::named("breaker:none"), 2).await.expect(UP), []);
}
