//! Queues: declared, listed, paused, shut and purged.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::admin::Changed;
use windlass_core::engine::Declaration;
use windlass_core::error::EngineError;
use windlass_core::job::JobState;
use windlass_core::queue::{Pause, QueueSpec};

use crate::harness::*;

async fn declare(h: &Harness, queues: Vec<QueueSpec>) -> Result<(), EngineError> {
    h.engine.declare(Declaration { queues, types: vec![] }).await
}

pub async fn queues_are_listed_by_priority_and_name(h: &Harness) {
    declare(h, QueueSpec::built_in()).await.expect(UP);
    let queues = h.engine.queues().await.expect(UP);
    let names: Vec<_> = queues.iter().map(|status| status.spec.name.as_str()).collect();
    assert_eq!(names, ["high", "default", "main", "other", "small", "screenshot", "low", "bulk"]);
}

pub async fn a_queue_is_kept_as_it_was_declared(h: &Harness) {
    for spec in QueueSpec::built_in() {
        declare(h, vec![spec.clone()]).await.expect(UP);
        assert_eq!(h.status_of(spec.name.as_str()).await.spec, spec);
        assert!(h.engine.queue_specs().await.expect(UP).contains(&spec));
    }
}

pub async fn declaring_a_queue_again_updates_it_and_keeps_its_jobs(h: &Harness) {
    h.enqueue(work()).await;
    let spec = QueueSpec { concurrency: 9, capacity: Some(1), ..QueueSpec::new(queue(MAIN)) };
    declare(h, vec![spec.clone()]).await.expect(UP);
    let status = h.status_of(MAIN).await;
    assert_eq!((status.spec, status.counts.ready), (spec, 1));
    h.refusal(work()).await;
}

pub async fn declaring_a_queue_again_leaves_its_pause(h: &Harness) {
    h.engine.pause(&queue(MAIN), None, None).await.expect(UP);
    declare(h, vec![QueueSpec::new(queue(MAIN))]).await.expect(UP);
    assert!(h.status_of(MAIN).await.pause.is_some());
}

pub async fn a_wrong_queue_is_refused_with_the_whole_declaration(h: &Harness) {
    let wrong = QueueSpec { concurrency: 0, ..QueueSpec::new(queue("wrong")) };
    let answer = declare(h, vec![QueueSpec::new(queue("right")), wrong]).await;
    assert!(matches!(answer, Err(EngineError::Queue(_))), "{answer:?}");
    assert_eq!(h.engine.queues().await.expect(UP).len(), 3, "not even the valid queue is declared");
}

pub async fn a_pause_is_shown_with_its_reason_and_end(h: &Harness) {
    let answer = h.engine.pause(&queue(MAIN), Some("repairs"), Some(secs(10))).await.expect(UP);
    assert_eq!(answer, Changed::Done);
    let until = Some(h.now().plus(secs(10)));
    let pause = Pause { since: h.now(), reason: Some("repairs".to_owned()), until };
    assert_eq!(h.status_of(MAIN).await.pause, Some(pause));
}

pub async fn a_pause_that_is_over_is_not_shown(h: &Harness) {
    h.engine.pause(&queue(MAIN), None, Some(secs(10))).await.expect(UP);
    h.advance(secs(10));
    assert_eq!(h.status_of(MAIN).await.pause, None);
}

pub async fn a_resumed_queue_shows_no_pause(h: &Harness) {
    h.engine.pause(&queue(MAIN), None, None).await.expect(UP);
    assert_eq!(h.engine.resume(&queue(MAIN)).await.expect(UP), Changed::Done);
    assert_eq!(h.status_of(MAIN).await.pause, None);
    assert_eq!(h.engine.resume(&queue(MAIN)).await.expect(UP), Changed::Unchanged);
}

pub async fn a_paused_queue_takes_new_jobs(h: &Harness) {
    h.engine.pause(&queue(MAIN), None, None).await.expect(UP);
    h.enqueue(work()).await;
}

pub async fn a_pause_leaves_running_jobs_alone(h: &Harness) {
    let claimed = h.enqueue_and_claim_one().await;
    h.engine.pause(&queue(MAIN), None, None).await.expect(UP);
    let id = h.succeed(&claimed).await;
    assert_eq!(h.job_state_of(id).await, JobState::Succeeded);
}

pub async fn a_shut_queue_is_shown_as_shut(h: &Harness) {
    assert_eq!(h.engine.set_shut(&queue(MAIN), true).await.expect(UP), Changed::Done);
    assert!(h.status_of(MAIN).await.shut);
    assert_eq!(h.engine.set_shut(&queue(MAIN), true).await.expect(UP), Changed::Unchanged);
    assert_eq!(h.engine.set_shut(&queue(MAIN), false).await.expect(UP), Changed::Done);
    assert!(!h.status_of(MAIN).await.shut);
}

pub async fn acts_on_a_queue_that_does_not_exist_find_nothing(h: &Harness) {
    let nowhere = queue("nowhere");
    assert_eq!(h.engine.pause(&nowhere, None, None).await.expect(UP), Changed::NotFound);
    assert_eq!(h.engine.resume(&nowhere).await.expect(UP), Changed::NotFound);
    assert_eq!(h.engine.set_shut(&nowhere, true).await.expect(UP), Changed::NotFound);
}

pub async fn a_purge_cancels_all_that_waits_and_nothing_that_runs(h: &Harness) {
    let parked = h.parked_job("semaphore:screenshot").await;
    let running = h.enqueue_and_claim_one().await.job.id;
    let ready = h.enqueue(work()).await;
    let scheduled = h.enqueue(due_in(minutes(5))).await;
    let done = h.engine.purge(&queue(MAIN), 100).await.expect(UP);
    assert_eq!((done.changed, done.more), (3, false));
    for id in [parked, ready, scheduled] {
        assert_eq!(h.job_state_of(id).await, JobState::Cancelled);
    }
    assert_eq!(h.job_state_of(running).await, JobState::Running);
}

pub async fn a_purge_leaves_dead_letters_and_other_queues(h: &Harness) {
    let dead = h.dead_letter().await;
    let other = h.enqueue(job_of(OTHER_WORK)).await;
    assert_eq!(h.engine.purge(&queue(MAIN), 100).await.expect(UP).changed, 0);
    assert_eq!((h.job_state_of(dead).await, h.job_state_of(other).await), (JobState::Dead, JobState::Ready));
}

pub async fn a_purge_goes_in_batches_and_says_whether_there_is_more(h: &Harness) {
    h.enqueue_many(5).await;
    let first = h.engine.purge(&queue(MAIN), 3).await.expect(UP);
    assert_eq!((first.changed, first.more), (3, true));
    let second = h.engine.purge(&queue(MAIN), 3).await.expect(UP);
    assert_eq!((second.changed, second.more), (2, false));
}

pub async fn the_oldest_ready_job_shows_how_far_a_queue_is_behind(h: &Harness) {
    assert_eq!(h.status_of(MAIN).await.oldest_ready, None);
    h.enqueue(urgent(9)).await;
    h.advance(secs(40));
    h.enqueue(urgent(0)).await;
    assert_eq!(h.status_of(MAIN).await.oldest_ready, Some(secs(40)));
}

pub async fn a_job_that_is_not_due_is_not_the_oldest_ready_one(h: &Harness) {
    h.enqueue(due_in(minutes(5))).await;
    assert_eq!(h.status_of(MAIN).await.oldest_ready, None);
}
