//! What marks a trigger: every way in which a job that held it can stop holding it, and what still holds
//! it.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use windlass_core::enqueue::{EnqueueAnswer, NewJob, When};
use windlass_core::job::JobState;
use windlass_core::key::{KeyClaim, OnConflict};
use windlass_core::names::OrderingKey;
use windlass_core::queue::QueueSpec;
use windlass_core::triggers::Watched;

use crate::harness::*;
use crate::triggers::{
    IMPORT, apart, claim, declare, evaluate, fires, fires_not, group, grouped, made, of_group, of_queue,
    of_type, watching,
};

pub async fn cancelling_a_ready_job_marks(h: &Harness) {
    declare(h, &of_group()).await;
    let waiting = h.enqueue(grouped()).await;
    h.engine.cancel(waiting, "never mind").await.expect(UP);
    let hook = fires(h).await;
    h.enqueue(grouped()).await;
    let (_, claimed) = apart(h.claim(3).await, hook);
    h.engine.cancel(claimed.job.id, "never mind").await.expect(UP);
    fires_not(h).await;
    h.succeed(&claimed).await;
    assert_eq!(h.job_state_of(claimed.job.id).await, JobState::Cancelled);
    fires(h).await;
}

pub async fn expiry_marks(h: &Harness) {
    declare(h, &of_group()).await;
    h.enqueue(NewJob { expires: Some(When::In(secs(10))), ..grouped() }).await;
    h.advance(secs(11));
    assert_eq!(h.sweep().await, 1);
    fires(h).await;
    h.enqueue(NewJob { expires: Some(When::In(secs(10))), ..grouped() }).await;
    h.advance(secs(11));
    let claimed = h.claim(5).await;
    assert_eq!(claimed.len(), 1, "only the hook's job: the other expired before the claim reached it");
    h.sweep().await;
    fires(h).await;
}

pub async fn a_purge_marks(h: &Harness) {
    declare(h, &of_group()).await;
    h.enqueue_all(vec![grouped(); 3]).await;
    assert_eq!(h.engine.purge(&queue(MAIN), 2).await.expect(UP).changed, 2);
    fires_not(h).await;
    assert_eq!(h.engine.purge(&queue(MAIN), 2).await.expect(UP).changed, 1);
    fires(h).await;
}

pub async fn parking_marks(h: &Harness) {
    declare(h, &of_group()).await;
    let claimed = claim(h, grouped()).await;
    h.park(&claimed, "breaker:shop").await;
    let hook = fires(h).await;
    h.engine.open_gate(&windlass_core::gate::Gate::named("breaker:shop"), 10).await.expect(UP);
    fires_not(h).await;
    let again = h.claim(2).await;
    let again = again.iter().find(|again| again.job.id != hook).expect("the job is ready again");
    h.succeed(again).await;
    fires(h).await;
}

pub async fn parking_for_want_of_a_handler_marks(h: &Harness) {
    let declaration = windlass_core::engine::Declaration {
        queues: vec![QueueSpec::new(queue(MAIN))],
        types: vec![type_spec("orphan", MAIN)],
    };
    h.engine.declare(declaration).await.expect(UP);
    declare(h, &of_group()).await;
    let orphan = NewJob { group: Some(group(IMPORT)), ..job_of("orphan") };
    let orphan = h.enqueue(orphan).await;
    assert_eq!(evaluate(h).await, []);
    h.sweep().await;
    assert_eq!(h.job_state_of(orphan).await, JobState::Parked);
    fires(h).await;
}

pub async fn snoozing_and_giving_back_mark_as_far_as_the_job_cannot_run(h: &Harness) {
    declare(h, &of_group()).await;
    let claimed = claim(h, grouped()).await;
    h.release(&claimed).await;
    assert_eq!(evaluate(h).await, [], "the job is ready again");
    let again = h.claim_one().await;
    h.end(&again, windlass_core::settle::Transition::Snooze { after: minutes(5) }).await;
    fires(h).await;
}

pub async fn a_job_that_is_put_off_by_its_key_marks(h: &Harness) {
    declare(h, &of_group()).await;
    let keyed = |when| NewJob {
        when,
        key: Some(KeyClaim { on_conflict: OnConflict::Replace, ..KeyClaim::new(key("k")) }),
        ..grouped()
    };
    h.enqueue(keyed(When::Now)).await;
    assert_eq!(evaluate(h).await, []);
    let put_off = h.offer(keyed(When::In(minutes(5)))).await;
    assert!(matches!(put_off, EnqueueAnswer::Replaced(_)), "{put_off:?}");
    fires(h).await;
    h.offer(keyed(When::In(minutes(6)))).await;
    assert_eq!(evaluate(h).await, [], "the job held no trigger any more");
}

pub async fn a_suspect_holds_the_trigger_and_its_burial_marks(h: &Harness) {
    declare(h, &of_group()).await;
    declare(h, &of_queue("queue")).await;
    declare(h, &of_type("type")).await;
    let id = h.enqueue(grouped()).await;
    assert_eq!(h.crash_once().await.returned, [id]);
    h.beat(h.worker).await;
    let other = claim(h, grouped()).await;
    h.succeed(&other).await;
    fires_not(h).await;
    assert_eq!(h.crash_suspect().await.returned, [id]);
    assert_eq!(h.crash_suspect().await.buried, [id]);
    assert_eq!(evaluate(h).await.iter().map(made).count(), 3);
}

pub async fn a_line_of_an_ordering_key_holds_the_trigger(h: &Harness) {
    declare(h, &of_group()).await;
    declare(h, &of_queue("queue")).await;
    declare(h, &of_type("type")).await;
    let ordering_key = Some(OrderingKey::parse("s").expect("a plain name"));
    h.enqueue_all(vec![NewJob { ordering_key, ..grouped() }; 3]).await;
    for _ in 0..2 {
        let out = h.claim_one().await;
        h.fail(&out, minutes(1)).await;
        fires_not(h).await;
        h.advance(minutes(1));
        let out = h.claim_one().await;
        h.succeed(&out).await;
        fires_not(h).await;
    }
    let last = h.claim_one().await;
    h.succeed(&last).await;
    assert_eq!(evaluate(h).await.iter().map(made).count(), 3);
}

pub async fn jobs_that_leave_nothing_behind_mark_too(h: &Harness) {
    declare(h, &watching("fleeting", Watched::Type(type_name(FLEETING)))).await;
    for _ in 0..3 {
        h.enqueue_all(vec![job_of(FLEETING); 3]).await;
        let claimed = h.claim(5).await;
        let (own, hooks): (Vec<_>, Vec<_>) =
            claimed.into_iter().partition(|claimed| claimed.job.job_type == type_name(FLEETING));
        for hook in &hooks {
            h.succeed(hook).await;
        }
        for claimed in &own[1..] {
            h.succeed(claimed).await;
        }
        fires_not(h).await;
        h.succeed(&own[0]).await;
        fires(h).await;
    }
}

pub async fn a_settled_batch_marks_once_for_all_of_it(h: &Harness) {
    declare(h, &of_group()).await;
    declare(h, &of_queue("queue")).await;
    let mixed = vec![grouped(), grouped(), work(), NewJob { group: Some(group("another")), ..job_of(KEPT) }];
    h.enqueue_all(mixed).await;
    let claimed = h.claim(5).await;
    let ends = claimed.into_iter().map(|claimed| {
        claimed.settled(
            windlass_core::settle::Transition::Succeed { result: None },
            windlass_core::settle::AttemptReport::default(),
        )
    });
    let settled = h.engine.settle(ends.collect()).await.expect(UP);
    settled.into_iter().for_each(assert_applied);
    assert_eq!(evaluate(h).await.iter().map(made).count(), 2);
}

pub async fn a_retry_and_an_end_in_one_batch_mark_the_triggers_that_wait_for_retries_too(h: &Harness) {
    declare(h, &of_type("impatient")).await;
    declare(h, &windlass_core::triggers::CompletionTrigger { wait_for_retries: true, ..of_type("patient") })
        .await;
    h.enqueue_many(2).await;
    let claimed = h.claim(2).await;
    let later = windlass_core::settle::Transition::Retry { after: minutes(5), error: oops() };
    let success = windlass_core::settle::Transition::Succeed { result: None };
    let end = |at: usize, transition| claimed[at].clone().settled(transition, Default::default());
    h.engine.settle(vec![end(0, later), end(1, success)]).await.expect(UP);
    let marked =
        h.engine.triggers(&windlass_core::triggers::WhichTriggers::Marked(10)).await.expect(UP).triggers;
    let marked: Vec<_> = marked.iter().map(|trigger| trigger.record.spec.name.to_string()).collect();
    assert_eq!(marked, ["impatient", "patient"]);
}

pub async fn a_clock_that_steps_back_does_not_keep_a_trigger_from_being_looked_at(h: &Harness) {
    declare(h, &of_group()).await;
    let hook = crate::triggers::run(h, grouped()).await;
    assert_eq!(h.job_state_of(hook).await, JobState::Succeeded);
    let hook = fires(h).await;
    h.enqueue(grouped()).await;
    let (_, other) = apart(h.claim(3).await, hook);
    h.clock.set(h.now().minus(days(1)));
    h.succeed(&other).await;
    fires(h).await;
}
