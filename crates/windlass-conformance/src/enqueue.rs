//! Accepting jobs: what is stored, what is refused, and that one invalid job does not affect the others.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::clock::Timestamp;
use windlass_core::engine::Declaration;
use windlass_core::enqueue::{EnqueueAnswer, NewJob, Refusal, When};
use windlass_core::error::EngineError;
use windlass_core::job::{Counters, JobState, StoredState};
use windlass_core::job_type::TypeSpec;
use windlass_core::key::KeyClaim;
use windlass_core::limits::{DELAY_MAX, ENQUEUE_BATCH_MAX, TAGS_MAX};
use windlass_core::names::{CorrelationId, FairnessKey, GroupName, OrderingKey, PriorityLabel, Tag};
use windlass_core::payload::Payload;
use windlass_core::queue::QueueSpec;
use windlass_core::retry::RetryPolicy;

use crate::harness::*;

pub async fn a_new_job_is_ready(h: &Harness) {
    let id = h.enqueue(work()).await;
    assert_eq!(h.state_of(id).await, StoredState::Waiting { gate: None });
    assert_eq!(h.job_state_of(id).await, JobState::Ready);
}

pub async fn a_new_job_has_done_nothing_yet(h: &Harness) {
    let id = h.enqueue(work()).await;
    let record = h.record(id).await;
    assert_eq!(record.job.counters, Counters::default());
    assert_eq!((record.last_error, record.job.progress), (None, None));
    assert_eq!(h.attempts_of(id).await, []);
}

pub async fn every_field_of_a_new_job_is_kept(h: &Harness) {
    let new = job_with_everything(h);
    let id = h.enqueue(new.clone()).await;
    let job = h.record(id).await.job;
    assert_eq!((job.id, &job.job_type, job.queue.as_str()), (id, &new.job_type, MAIN));
    assert_eq!((&job.payload, job.priority, &job.label), (&new.payload, level(2), &new.label));
    assert_eq!((job.enqueued_at, job.due), (h.now(), h.now().plus(minutes(5))));
    assert_eq!(job.expires_at, Some(h.now().plus(minutes(50))));
    assert_eq!((&job.key, &job.correlation, &job.tags), (&new.key, &new.correlation, &new.tags));
    assert_eq!((&job.ordering_key, &job.fairness_key), (&new.ordering_key, &new.fairness_key));
    assert_eq!(job.provenance, new.provenance);
    assert_eq!((&job.group, &job.retry, job.timeout), (&new.group, &new.retry, new.timeout));
}

pub async fn a_claim_hands_out_the_job_as_it_is_stored(h: &Harness) {
    let id = h.enqueue(job_with_everything(h)).await;
    h.advance(minutes(5));
    let claimed = h.claim_one().await;
    assert_eq!(claimed.job, h.record(id).await.job);
}

pub async fn where_a_job_comes_from_is_known_until_its_history_ends(h: &Harness) {
    let job = NewJob { provenance: provenance(), ..work() };
    let [succeeds, dies] = [h.enqueue(job.clone()).await, h.enqueue(job).await];
    let claimed = h.claim(2).await;
    assert_eq!(claimed.iter().filter(|claimed| claimed.job.provenance == provenance()).count(), 2);
    h.succeed(&claimed[0]).await;
    h.bury(&claimed[1]).await;
    for (id, job_state) in [(succeeds, JobState::Succeeded), (dies, JobState::Dead)] {
        assert_eq!((h.record(id).await.job.provenance, h.job_state_of(id).await), (provenance(), job_state));
    }
    h.engine.retry(dies).await.expect(UP);
    assert_eq!(h.record(dies).await.job.provenance, provenance());
}

fn job_with_everything(h: &Harness) -> NewJob {
    NewJob {
        queue: Some(queue(MAIN)),
        payload: Payload::parse(r#"{"big": 123456789012345678901234567890, "text": "grüße 🦀"}"#)
            .expect("this is JSON"),
        priority: Some(level(2)),
        label: Some(PriorityLabel::parse("soonish").expect("a plain label")),
        when: When::At(h.now().plus(minutes(5))),
        expires: Some(When::In(minutes(50))),
        key: Some(KeyClaim::backfill(key("wallet:мережа/1"))),
        ordering_key: Some(OrderingKey::parse("account:7").expect("a plain name")),
        fairness_key: Some(FairnessKey::parse("tenant:42").expect("a plain name")),
        correlation: Some(CorrelationId::parse("event-7").expect("a plain id")),
        provenance: provenance(),
        tags: ["one", "two"].map(|tag| Tag::parse(tag).expect("a plain tag")).to_vec(),
        group: Some(GroupName::parse("import 3").expect("a plain group")),
        retry: Some(RetryPolicy::Fixed { every: secs(7), attempts: 9 }),
        timeout: Some(secs(90)),
        ..work()
    }
}

pub async fn a_delayed_job_is_scheduled_and_ready_exactly_when_due(h: &Harness) {
    let id = h.enqueue(due_in(secs(10))).await;
    assert_eq!(h.job_state_of(id).await, JobState::Scheduled);
    h.advance(secs(10) - std::time::Duration::from_micros(1));
    assert_eq!(h.job_state_of(id).await, JobState::Scheduled);
    h.advance(std::time::Duration::from_micros(1));
    assert_eq!(h.job_state_of(id).await, JobState::Ready);
}

pub async fn a_job_for_an_instant_in_the_past_is_ready_and_keeps_its_instant(h: &Harness) {
    let due = h.now().minus(minutes(3));
    let id = h.enqueue(NewJob { when: When::At(due), ..work() }).await;
    assert_eq!((h.record(id).await.job.due, h.job_state_of(id).await), (due, JobState::Ready));
}

pub async fn numbers_rise_in_the_order_of_a_batch(h: &Harness) {
    let ids = h.enqueue_many(50).await;
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

pub async fn numbers_rise_from_request_to_request(h: &Harness) {
    let first = h.enqueue(work()).await;
    let second = h.enqueue(work()).await;
    assert!(first < second);
}

pub async fn the_number_of_a_job_that_is_gone_is_not_given_again(h: &Harness) {
    h.enqueue(job_of(FLEETING)).await;
    let claimed = h.claim_one().await;
    let gone = h.succeed(&claimed).await;
    assert!(h.enqueue(work()).await > gone);
}

pub async fn an_empty_batch_has_no_answers(h: &Harness) {
    assert_eq!(h.enqueue_all(vec![]).await, []);
}

pub async fn a_batch_of_the_greatest_size_is_taken(h: &Harness) {
    assert_eq!(h.enqueue_many(ENQUEUE_BATCH_MAX).await.len(), ENQUEUE_BATCH_MAX);
    assert_eq!(h.counts().await.ready, ENQUEUE_BATCH_MAX as u64);
}

pub async fn a_batch_over_the_limit_is_refused_whole(h: &Harness) {
    let request = h.request(vec![work(); ENQUEUE_BATCH_MAX + 1]);
    let answer = h.engine.enqueue(request).await;
    assert!(matches!(answer, Err(EngineError::Refused(_))), "{answer:?}");
    assert_eq!(h.totals().await.enqueued, 0);
}

pub async fn one_refused_job_does_not_spoil_the_others(h: &Harness) {
    let mut jobs = vec![work(); 500];
    jobs[250] = job_of("not.registered");
    let answers = h.enqueue_all(jobs).await;
    let stored = answers.iter().filter(|answer| matches!(answer, EnqueueAnswer::New(_))).count();
    assert_eq!(stored, 499);
    assert!(
        matches!(&answers[250], EnqueueAnswer::Refused(Refusal::UnknownType { .. })),
        "{:?}",
        answers[250]
    );
    assert_eq!(h.counts().await.ready, 499);
}

pub async fn an_unknown_type_is_refused(h: &Harness) {
    let why = h.refusal(job_of("not.registered")).await;
    assert_eq!(why, Refusal::UnknownType { job_type: type_name("not.registered") });
}

pub async fn another_queue_than_the_types_is_refused_naming_both(h: &Harness) {
    let why = h.refusal(NewJob { queue: Some(queue(OTHER)), ..work() }).await;
    let (job_type, registered, got) = (type_name(WORK), queue(MAIN), queue(OTHER));
    assert_eq!(why, Refusal::OtherQueue { job_type, registered, got });
}

pub async fn an_undeclared_queue_is_refused(h: &Harness) {
    let why = h.refusal(NewJob { queue: Some(queue("nowhere")), ..work() }).await;
    assert!(matches!(why, Refusal::OtherQueue { .. } | Refusal::UnknownQueue { .. }), "{why:?}");
    assert_eq!(h.totals().await.enqueued, 0);
}

pub async fn a_shut_queue_refuses_and_opens_again(h: &Harness) {
    h.engine.set_shut(&queue(MAIN), true).await.expect(UP);
    assert_eq!(h.refusal(work()).await, Refusal::QueueShut { queue: queue(MAIN) });
    h.engine.set_shut(&queue(MAIN), false).await.expect(UP);
    h.enqueue(work()).await;
}

pub async fn a_full_queue_refuses_and_the_batch_itself_counts(h: &Harness) {
    let answers = h.enqueue_all(vec![job_of(SMALL_WORK); 5]).await;
    let full = Refusal::QueueFull { queue: queue(SMALL), capacity: SMALL_CAPACITY };
    assert!(answers[..3].iter().all(|answer| matches!(answer, EnqueueAnswer::New(_))), "{answers:?}");
    assert_eq!(answers[3..], [EnqueueAnswer::Refused(full.clone()), EnqueueAnswer::Refused(full)]);
}

pub async fn capacity_counts_running_scheduled_and_parked_jobs(h: &Harness) {
    h.enqueue_all(vec![job_of(SMALL_WORK); 2]).await;
    let claimed = h.claim(2).await;
    h.park(&claimed[0], "semaphore:screenshot").await;
    h.enqueue(NewJob { when: When::In(minutes(1)), ..job_of(SMALL_WORK) }).await;
    assert!(matches!(h.refusal(job_of(SMALL_WORK)).await, Refusal::QueueFull { .. }));
}

pub async fn capacity_does_not_count_what_has_ended(h: &Harness) {
    h.enqueue_all(vec![job_of(SMALL_WORK); 3]).await;
    let claimed = h.claim(3).await;
    h.succeed(&claimed[0]).await;
    h.bury(&claimed[1]).await;
    let answers = h.enqueue_all(vec![job_of(SMALL_WORK); 3]).await;
    let stored = answers.iter().filter(|answer| matches!(answer, EnqueueAnswer::New(_))).count();
    assert_eq!(stored, 2, "{answers:?}");
}

pub async fn absurd_times_are_refused(h: &Harness) {
    let absurd = [
        When::In(DELAY_MAX * 2),
        When::At(h.now().plus(DELAY_MAX * 2)),
        When::At(Timestamp::from_micros(-1)),
    ];
    for when in absurd {
        assert_eq!(h.refusal(NewJob { when, ..work() }).await, Refusal::TooFar, "{when:?}");
        let expiring = NewJob { expires: Some(when), ..work() };
        assert_eq!(h.refusal(expiring).await, Refusal::TooFar, "{when:?}");
    }
}

pub async fn absurd_options_are_refused(h: &Harness) {
    let tags = vec![Tag::parse("t").expect("a plain tag"); TAGS_MAX + 1];
    let why = h.refusal(NewJob { tags, ..work() }).await;
    assert_eq!(why, Refusal::TooManyTags { got: TAGS_MAX + 1 });
    assert_eq!(h.refusal(NewJob { timeout: Some(secs(0)), ..work() }).await, Refusal::Timeout);
    let retry = Some(RetryPolicy::default().with_attempts(0));
    assert!(matches!(h.refusal(NewJob { retry, ..work() }).await, Refusal::Retry(_)));
}

pub async fn nothing_of_a_refused_job_is_stored(h: &Harness) {
    let claim = Some(KeyClaim::new(key("k")));
    h.refusal(NewJob { when: When::In(DELAY_MAX * 2), key: claim.clone(), ..work() }).await;
    assert_eq!(h.totals().await.enqueued, 0);
    assert_eq!(h.counts().await.unfinished(), 0);
    h.enqueue(NewJob { key: claim, ..work() }).await;
}

pub async fn a_job_without_a_priority_takes_its_types_and_else_its_queues(h: &Harness) {
    let urgent_queue = QueueSpec { priority: level(1), ..QueueSpec::new(queue("ranked")) };
    let plain = type_spec("ranked.plain", "ranked");
    let own = TypeSpec { priority: Some(level(8)), ..type_spec("ranked.own", "ranked") };
    let declaration = Declaration { queues: vec![urgent_queue], types: vec![plain, own] };
    h.engine.declare(declaration).await.expect(UP);
    let of_queue = h.enqueue(job_of("ranked.plain")).await;
    let of_type = h.enqueue(job_of("ranked.own")).await;
    assert_eq!(h.record(of_queue).await.job.priority, level(1));
    assert_eq!(h.record(of_type).await.job.priority, level(8));
}

pub async fn many_callers_at_once_lose_nothing(h: &Harness) {
    let calls = (0..8).map(|_| {
        let (engine, request) = (h.engine.clone(), h.request(vec![work(); 25]));
        async move { engine.enqueue(request).await.expect(UP) }
    });
    let answers = h.at_once(calls.collect()).await.concat();
    let mut ids: Vec<_> =
        answers.iter().map(|answer| answer.job().expect("plain jobs are accepted")).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 200);
    assert_eq!(h.counts().await.ready, 200);
}
