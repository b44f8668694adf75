//! The reads of operators: one job, and pages of jobs.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::admin::ListRequest;
use windlass_core::enqueue::NewJob;
use windlass_core::job::{JobId, JobState};
use windlass_core::key::KeyClaim;
use windlass_core::limits::{ATTEMPTS_SHOWN_MAX, LIST_PAGE_MAX};
use windlass_core::names::{CorrelationId, GroupName, Tag};

use crate::harness::*;

const ALL: ListRequest = ListRequest {
    job_state: None,
    queue: None,
    job_type: None,
    key: None,
    tag: None,
    correlation: None,
    group: None,
    before: None,
    limit: 100,
};

async fn list(h: &Harness, request: ListRequest) -> Vec<JobId> {
    let page = h.engine.list(request).await.expect(UP);
    page.into_iter().map(|record| record.job.id).collect()
}

pub async fn a_job_that_never_was_is_nothing(h: &Harness) {
    assert_eq!(h.engine.job(JobId(987_654_321)).await.expect(UP), None);
    assert_eq!(h.attempts_of(JobId(987_654_321)).await, []);
}

pub async fn a_record_says_when_it_was_read(h: &Harness) {
    let id = h.enqueue(work()).await;
    h.advance(secs(5));
    assert_eq!(h.record(id).await.read_at, h.now());
}

pub async fn the_engines_now_is_the_clocks(h: &Harness) {
    h.advance(secs(5));
    assert_eq!(h.engine.now().await.expect(UP), h.now());
}

pub async fn an_engine_says_what_it_is(h: &Harness) {
    let info = h.engine.info();
    assert!(["memory", "sqlite", "postgres", "redis"].contains(&info.name), "{info:?}");
}

pub async fn a_list_has_the_newest_first(h: &Harness) {
    let mut ids = h.enqueue_many(4).await;
    ids.reverse();
    assert_eq!(list(h, ALL).await, ids);
}

pub async fn a_list_shows_jobs_in_every_job_state(h: &Harness) {
    let parked = h.parked_job("semaphore:screenshot").await;
    let dead = h.dead_letter().await;
    let claimed = h.enqueue_and_claim_one().await;
    let succeeded = h.succeed(&claimed).await;
    let cancelled = h.enqueue(work()).await;
    h.engine.cancel(cancelled, "not needed").await.expect(UP);
    let running = h.enqueue_and_claim_one().await.job.id;
    let scheduled = h.enqueue(due_in(minutes(5))).await;
    let ready = h.enqueue(work()).await;
    assert_eq!(list(h, ALL).await, [ready, scheduled, running, cancelled, succeeded, dead, parked]);
    let job_states = [
        (JobState::Ready, ready),
        (JobState::Scheduled, scheduled),
        (JobState::Parked, parked),
        (JobState::Running, running),
        (JobState::Succeeded, succeeded),
        (JobState::Dead, dead),
        (JobState::Cancelled, cancelled),
    ];
    for (job_state, id) in job_states {
        assert_eq!(list(h, ListRequest { job_state: Some(job_state), ..ALL }).await, [id], "{job_state}");
    }
}

pub async fn a_listed_job_is_the_record_itself(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    let id = h.fail(&claimed, secs(5)).await;
    let listed = only(h.engine.list(ALL).await.expect(UP));
    assert_eq!(listed, h.record(id).await);
}

pub async fn a_list_by_job_state_moves_with_the_clock(h: &Harness) {
    let id = h.enqueue(due_in(secs(5))).await;
    let ready = ListRequest { job_state: Some(JobState::Ready), ..ALL };
    assert_eq!(list(h, ready.clone()).await, []);
    h.advance(secs(5));
    assert_eq!(list(h, ready).await, [id]);
}

pub async fn a_list_can_be_of_one_queue(h: &Harness) {
    h.enqueue(work()).await;
    let other = h.enqueue(job_of(OTHER_WORK)).await;
    assert_eq!(list(h, ListRequest { queue: Some(queue(OTHER)), ..ALL }).await, [other]);
}

pub async fn a_list_can_be_of_one_type(h: &Harness) {
    h.enqueue(work()).await;
    let kept = h.enqueue(job_of(KEPT)).await;
    assert_eq!(list(h, ListRequest { job_type: Some(type_name(KEPT)), ..ALL }).await, [kept]);
}

pub async fn a_list_can_be_of_one_key_past_and_present(h: &Harness) {
    let keyed = || NewJob { key: Some(KeyClaim::new(key("k"))), ..work() };
    let first = h.enqueue(keyed()).await;
    h.engine.cancel(first, "not needed").await.expect(UP);
    let second = h.enqueue(keyed()).await;
    h.enqueue(NewJob { key: Some(KeyClaim::new(key("other"))), ..work() }).await;
    assert_eq!(list(h, ListRequest { key: Some(key("k")), ..ALL }).await, [second, first]);
}

pub async fn a_list_can_be_of_one_tag(h: &Harness) {
    let tag = |text| Tag::parse(text).expect("a plain tag");
    let both = h.enqueue(NewJob { tags: vec![tag("red"), tag("blue")], ..work() }).await;
    h.enqueue(NewJob { tags: vec![tag("redder")], ..work() }).await;
    for text in ["red", "blue"] {
        assert_eq!(list(h, ListRequest { tag: Some(tag(text)), ..ALL }).await, [both]);
    }
}

pub async fn a_list_can_be_of_one_correlation(h: &Harness) {
    let correlation = |text| Some(CorrelationId::parse(text).expect("a plain id"));
    let found = h.enqueue(NewJob { correlation: correlation("e1"), ..work() }).await;
    h.enqueue(NewJob { correlation: correlation("e2"), ..work() }).await;
    assert_eq!(list(h, ListRequest { correlation: correlation("e1"), ..ALL }).await, [found]);
}

pub async fn a_list_can_be_of_one_group(h: &Harness) {
    let group = |text| Some(GroupName::parse(text).expect("a plain group"));
    let found = h.enqueue(NewJob { group: group("import 3"), ..work() }).await;
    h.enqueue(NewJob { group: group("import 4"), ..work() }).await;
    assert_eq!(list(h, ListRequest { group: group("import 3"), ..ALL }).await, [found]);
}

pub async fn filters_of_a_list_all_apply(h: &Harness) {
    let found = h.enqueue(work()).await;
    h.enqueue(due_in(minutes(5))).await;
    h.enqueue(job_of(OTHER_WORK)).await;
    let request = ListRequest { job_state: Some(JobState::Ready), queue: Some(queue(MAIN)), ..ALL };
    assert_eq!(list(h, request).await, [found]);
}

pub async fn a_page_has_no_more_than_asked_for(h: &Harness) {
    let ids = h.enqueue_many(5).await;
    assert_eq!(list(h, ListRequest { limit: 2, ..ALL }).await, [ids[4], ids[3]]);
}

pub async fn pages_follow_each_other_without_gap_or_repeat(h: &Harness) {
    let mut expected = h.enqueue_many(7).await;
    expected.reverse();
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = list(h, ListRequest { before, limit: 3, ..ALL }).await;
        let Some(last) = page.last() else { break };
        before = Some(*last);
        seen.extend(page);
    }
    assert_eq!(seen, expected);
}

pub async fn a_page_of_finished_and_live_jobs_keeps_the_order(h: &Harness) {
    let ids = h.enqueue_many(6).await;
    for id in [ids[1], ids[4]] {
        h.engine.cancel(id, "not needed").await.expect(UP);
    }
    let first = list(h, ListRequest { limit: 3, ..ALL }).await;
    let second = list(h, ListRequest { limit: 3, before: Some(first[2]), ..ALL }).await;
    assert_eq!((first, second), (vec![ids[5], ids[4], ids[3]], vec![ids[2], ids[1], ids[0]]));
}

pub async fn a_page_is_never_longer_than_the_limit_of_the_house(h: &Harness) {
    h.enqueue_many(LIST_PAGE_MAX as usize + 1).await;
    let page = list(h, ListRequest { limit: u32::MAX, ..ALL }).await;
    assert_eq!(page.len(), LIST_PAGE_MAX as usize);
}

pub async fn only_the_newest_attempts_are_shown(h: &Harness) {
    let id = h.enqueue(work()).await;
    for _ in 0..=ATTEMPTS_SHOWN_MAX {
        let claimed = h.claim_one().await;
        h.fail(&claimed, secs(0)).await;
    }
    let attempts = h.attempts_of(id).await;
    assert_eq!(attempts.len(), ATTEMPTS_SHOWN_MAX as usize);
    assert_eq!(attempts.last().map(|attempt| attempt.number), Some(ATTEMPTS_SHOWN_MAX + 1));
}
