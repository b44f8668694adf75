//! Completion triggers: a job is enqueued when a group of jobs has finished, once for each time, whichever
//! process evaluates.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use std::sync::Arc;
use std::time::Duration;

use windlass_core::claim::Claimed;
use windlass_core::engine::Hint;
use windlass_core::enqueue::{EnqueueAnswer, NewJob, Refusal, When};
use windlass_core::job::{JobId, JobState};
use windlass_core::limits::{
    TAGS_MAX, TRIGGER_PAUSE, TRIGGER_PAUSE_MAX, TRIGGERS_MAX, TRIGGERS_PER_CALL_MAX,
};
use windlass_core::names::{FairnessKey, GroupName, Tag, TriggerName};
use windlass_core::schedules::{JobTemplate, Origin};
use windlass_core::triggers::acts::{self, fire};
use windlass_core::triggers::{
    CompletionTrigger, StoredTrigger, TriggerChange, TriggerChanged, TriggerFired, TriggersRead, Watched,
    WhichTriggers,
};

use crate::harness::*;

pub(crate) const DONE: &str = "done";
pub(crate) const IMPORT: &str = "import 7";

fn name(text: &str) -> TriggerName {
    TriggerName::parse(text).expect("behaviours use plain names")
}

pub(crate) fn group(text: &str) -> GroupName {
    GroupName::parse(text).expect("behaviours use plain names")
}

/// Creates a plain job of the group.
pub(crate) fn grouped() -> NewJob {
    NewJob { group: Some(group(IMPORT)), ..work() }
}

/// Creates a trigger that enqueues a job of another queue.
pub(crate) fn watching(called: &str, watch: Watched) -> CompletionTrigger {
    CompletionTrigger::new(name(called), watch, JobTemplate::new(type_name(OTHER_WORK)))
}

pub(crate) fn of_group() -> CompletionTrigger {
    watching(DONE, Watched::Group(group(IMPORT)))
}

pub(crate) fn of_queue(called: &str) -> CompletionTrigger {
    watching(called, Watched::Queue(queue(MAIN)))
}

pub(crate) fn of_type(called: &str) -> CompletionTrigger {
    watching(called, Watched::Type(type_name(WORK)))
}

async fn read(h: &Harness, which: WhichTriggers) -> TriggersRead {
    let read = h.engine.triggers(&which).await.expect(UP);
    assert_eq!((read.now, &read.damaged[..]), (h.now(), &[][..]));
    read
}

async fn find(h: &Harness, called: &str) -> Option<StoredTrigger> {
    let mut found = read(h, WhichTriggers::Named(vec![name(called)])).await.triggers;
    assert!(found.len() <= 1);
    found.pop()
}

pub(crate) async fn stored(h: &Harness, called: &str) -> StoredTrigger {
    find(h, called).await.expect("the trigger was stored")
}

async fn marked(h: &Harness) -> Vec<StoredTrigger> {
    read(h, WhichTriggers::Marked(1_000)).await.triggers
}

async fn change(h: &Harness, change: TriggerChange) -> TriggerChanged {
    only(h.engine.change_triggers(&[change]).await.expect(UP))
}

pub(crate) async fn apply(h: &Harness, wanted: TriggerChange) {
    let changed = change(h, wanted).await;
    assert!(
        matches!(changed, TriggerChanged::Done { .. }),
        "expected the change to be applied, got {changed:?}"
    );
}

pub(crate) async fn declare(h: &Harness, spec: &CompletionTrigger) -> StoredTrigger {
    let before = find(h, spec.name.as_str()).await;
    let wanted = acts::declare(spec, Origin::Code, before.as_ref(), h.now()).expect("the trigger is new");
    apply(h, wanted).await;
    stored(h, spec.name.as_str()).await
}

/// Evaluates all marked triggers, as soon as the next evaluation of each is allowed.
pub(crate) async fn evaluate(h: &Harness) -> Vec<TriggerFired> {
    h.advance(TRIGGER_PAUSE);
    // An evaluation that took long, as on a busy machine, delays the next one of its trigger for longer. The
    // store reports only the earliest of these instants, so the test reads until no trigger waits.
    while let Some(next) = read(h, WhichTriggers::Marked(1_000)).await.next {
        h.advance(next.since(h.now()));
    }
    let marked = marked(h).await;
    let firings: Vec<_> = marked.iter().map(|trigger| fire(trigger, h.now())).collect();
    h.engine.fire_triggers(&firings).await.expect(UP)
}

/// Returns the job that an evaluation enqueued.
pub(crate) fn made(fired: &TriggerFired) -> JobId {
    match fired {
        TriggerFired::Fired { job: EnqueueAnswer::New(id), .. } => *id,
        other => panic!("expected a new job, got {other:?}"),
    }
}

/// Evaluates; the only marked trigger must fire.
pub(crate) async fn fires(h: &Harness) -> JobId {
    made(&only(evaluate(h).await))
}

/// Evaluates twice; no trigger may fire, now or in the next evaluation.
pub(crate) async fn fires_not(h: &Harness) {
    for _ in 0..2 {
        let fired = evaluate(h).await;
        assert!(fired.iter().all(|fired| *fired == TriggerFired::Held), "{fired:?}");
    }
}

/// Enqueues a job, claims it and lets it succeed.
pub(crate) async fn run(h: &Harness, new: NewJob) -> JobId {
    h.enqueue(new).await;
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await
}

pub(crate) async fn claim(h: &Harness, new: NewJob) -> Claimed {
    h.enqueue(new).await;
    h.claim_one().await
}

pub async fn a_fresh_store_has_no_triggers(h: &Harness) {
    let all = read(h, WhichTriggers::After(None, 10)).await;
    assert_eq!((all.triggers.len(), all.any, all.next), (0, false, None));
    assert_eq!(find(h, DONE).await, None);
    assert_eq!(marked(h).await, []);
}

pub async fn a_trigger_is_kept_as_it_was_declared(h: &Harness) {
    let spec = CompletionTrigger {
        name: name(DONE),
        watch: Watched::Group(group("ä b/c:'\"")),
        job: JobTemplate {
            payload: payload("{\"n\": 18446744073709551615, \"ä\": \"\\n'\"}"),
            priority: Some(level(2)),
            tags: vec![Tag::parse("übernacht").expect("a plain tag")],
            timeout: Some(secs(90)),
            provenance: provenance(),
            ..JobTemplate::new(type_name(WORK))
        },
        wait_for_retries: true,
    };
    let kept = declare(h, &spec).await;
    assert_eq!((&kept.record.spec, kept.record.origin, kept.last_job), (&spec, Origin::Code, None));
    assert_eq!((kept.record.stored_at, kept.record.fired, kept.is_marked), (h.now(), 0, false));
    let listed = read(h, WhichTriggers::After(None, 10)).await;
    assert_eq!((listed.any, only(listed.triggers)), (true, kept.clone()));
    apply(h, acts::remove(&spec.name, kept.version)).await;
    assert_eq!((find(h, DONE).await, read(h, WhichTriggers::Marked(1)).await.any), (None, false));
}

pub async fn triggers_are_listed_by_name_page_by_page(h: &Harness) {
    for called in ["b", "a-1", "c", "a_1", "a.1"] {
        declare(h, &of_queue(called)).await;
    }
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = read(h, WhichTriggers::After(after.clone(), 2)).await.triggers;
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.name().clone());
        names.extend(page.iter().map(|trigger| trigger.name().to_string()));
    }
    assert_eq!(names, ["a-1", "a.1", "a_1", "b", "c"]);
}

pub async fn the_hook_runs_once_when_a_group_has_finished(h: &Harness) {
    let before = declare(h, &of_group()).await;
    run(h, grouped()).await;
    assert!(only(marked(h).await).is_marked);
    let job = fires(h).await;
    assert_eq!(evaluate(h).await, [], "once for each completion trigger");
    let after = stored(h, DONE).await;
    assert_eq!((after.last_job, after.record.fired, after.is_marked), (Some(job), 1, false));
    assert_eq!(after.record.last_fired, Some(h.now().minus(TRIGGER_PAUSE)));
    assert!(after.version > before.version);
    let made = h.record(job).await.job;
    assert_eq!((made.job_type, made.group), (type_name(OTHER_WORK), None));
    let called = format!("trigger/{DONE}/{}", before.version);
    assert_eq!(made.key.expect("the job has a key").key.as_str(), called);
    assert_eq!(made.correlation.expect("the job has a correlation id").as_str(), called);
}

pub async fn every_field_of_a_template_reaches_the_hooks_job(h: &Harness) {
    let job = JobTemplate {
        payload: payload("p"),
        queue: Some(queue(OTHER)),
        priority: Some(level(1)),
        tags: vec![Tag::parse("t").expect("a plain tag")],
        timeout: Some(secs(7)),
        ..JobTemplate::new(type_name(OTHER_WORK))
    };
    declare(h, &CompletionTrigger { job: job.clone(), ..of_group() }).await;
    run(h, grouped()).await;
    let made = h.record(fires(h).await).await.job;
    assert_eq!((made.payload, made.priority, made.tags), (job.payload, level(1), job.tags));
    assert_eq!((made.timeout, made.queue), (Some(secs(7)), queue(OTHER)));
}

pub async fn it_runs_again_after_the_next_trigger(h: &Harness) {
    declare(h, &of_group()).await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        run(h, grouped()).await;
        jobs.push(fires(h).await);
        let hook = h.claim_one().await;
        h.succeed(&hook).await;
    }
    jobs.dedup();
    assert_eq!((jobs.len(), stored(h, DONE).await.record.fired), (3, 3));
}

pub async fn it_does_not_run_while_a_job_waits_or_runs(h: &Harness) {
    declare(h, &of_group()).await;
    h.enqueue_all(vec![grouped(); 3]).await;
    let claimed = h.claim(2).await;
    h.succeed(&claimed[0]).await;
    fires_not(h).await;
    let last = h.claim_one().await;
    h.succeed(&claimed[1]).await;
    fires_not(h).await;
    h.enqueue(grouped()).await;
    h.succeed(&last).await;
    fires_not(h).await;
    let last = h.claim_one().await;
    h.succeed(&last).await;
    fires(h).await;
}

pub async fn a_job_with_a_fairness_key_holds_the_trigger(h: &Harness) {
    declare(h, &of_queue("queue")).await;
    let fairness_key = FairnessKey::parse("tenant:1").expect("a plain name");
    h.enqueue_all(vec![NewJob { fairness_key: Some(fairness_key), ..work() }; 2]).await;
    let first = h.claim(1).await;
    h.succeed(&first[0]).await;
    fires_not(h).await;
    let last = h.claim_one().await;
    h.succeed(&last).await;
    fires(h).await;
}

pub async fn a_group_in_which_nothing_ran_does_not_fire(h: &Harness) {
    declare(h, &of_group()).await;
    declare(h, &of_queue("queue")).await;
    assert_eq!(evaluate(h).await, []);
    let later = NewJob { when: When::In(minutes(5)), ..grouped() };
    let later = h.enqueue(later).await;
    h.engine.set_priority(later, level(1)).await.expect(UP);
    assert_eq!(evaluate(h).await, []);
    h.engine.cancel(later, "never mind").await.expect(UP);
    assert_eq!(evaluate(h).await, [], "a scheduled job holds no trigger");
    run(h, job_of(SMALL_WORK)).await;
    assert_eq!(evaluate(h).await, [], "the job belongs to neither");
}

pub async fn a_retry_in_the_future_does_not_hold_the_trigger(h: &Harness) {
    declare(h, &of_group()).await;
    let claimed = claim(h, grouped()).await;
    h.fail(&claimed, minutes(5)).await;
    let first = fires(h).await;
    h.advance(minutes(5));
    let again = h.claim(2).await;
    let again = again.iter().find(|again| again.job.id == claimed.job.id).expect("the job is due again");
    h.succeed(again).await;
    assert_ne!(fires(h).await, first, "its end is the next completion trigger");
}

pub async fn with_wait_for_retries_it_does(h: &Harness) {
    declare(h, &CompletionTrigger { wait_for_retries: true, ..of_group() }).await;
    declare(h, &CompletionTrigger { wait_for_retries: true, ..of_queue("queue") }).await;
    declare(h, &CompletionTrigger { wait_for_retries: true, ..of_type("type") }).await;
    let claimed = claim(h, grouped()).await;
    h.fail(&claimed, minutes(5)).await;
    fires_not(h).await;
    h.advance(minutes(5));
    let again = h.claim_one().await;
    h.park(&again, "breaker:shop").await;
    let later = h.enqueue(NewJob { when: When::In(minutes(5)), ..grouped() }).await;
    run(h, grouped()).await;
    fires_not(h).await;
    h.engine.cancel(later, "never mind").await.expect(UP);
    fires_not(h).await;
    h.engine.cancel(claimed.job.id, "never mind").await.expect(UP);
    let fired = evaluate(h).await;
    assert_eq!(
        fired.iter().map(made).count(),
        3,
        "a waiting job holds all three, and its end is the completion trigger"
    );
}

pub async fn dead_letters_do_not_hold_it(h: &Harness) {
    declare(h, &of_group()).await;
    declare(h, &CompletionTrigger { wait_for_retries: true, ..of_queue("patient") }).await;
    let claimed = claim(h, grouped()).await;
    h.bury(&claimed).await;
    assert_eq!(evaluate(h).await.iter().map(made).count(), 2);
    assert_eq!(h.job_state_of(claimed.job.id).await, JobState::Dead);
}

pub async fn a_queue_and_a_type_are_groups_by_themselves(h: &Harness) {
    declare(h, &of_queue("queue")).await;
    declare(h, &of_type("type")).await;
    let kept = claim(h, job_of(KEPT)).await;
    run(h, work()).await;
    let fired = evaluate(h).await;
    let held = fired.iter().filter(|fired| **fired == TriggerFired::Held).count();
    assert_eq!((fired.len(), held), (2, 1), "another type runs in the queue: {fired:?}");
    assert_eq!(stored(h, "type").await.record.fired, 1);
    h.succeed(&kept).await;
    fires(h).await;
    assert_eq!((stored(h, "queue").await.record.fired, stored(h, "type").await.record.fired), (1, 1));
}

pub async fn ready_jobs_of_every_priority_hold_a_queue_and_a_type(h: &Harness) {
    declare(h, &of_queue("queue")).await;
    declare(h, &of_type("type")).await;
    for priority in 0..=10 {
        let waiting = h.enqueue(urgent(priority)).await;
        let first = h.enqueue(NewJob { priority: Some(level(0)), ..work() }).await;
        let claimed = h.claim(2).await;
        let (ends, stays) = if claimed[0].job.id == first { (0, 1) } else { (1, 0) };
        h.release(&claimed[stays]).await;
        h.succeed(&claimed[ends]).await;
        fires_not(h).await;
        assert_eq!(h.job_state_of(waiting).await, JobState::Ready);
        let last = h.claim_one().await;
        h.succeed(&last).await;
        assert_eq!(evaluate(h).await.iter().map(made).count(), 2, "priority {priority}");
        for hook in h.claim(2).await {
            h.succeed(&hook).await;
        }
    }
}

pub async fn the_hooks_own_job_does_not_belong_to_the_group(h: &Harness) {
    for spec in [of_queue(DONE), of_type(DONE)] {
        for wait_for_retries in [false, true] {
            let job = JobTemplate::new(type_name(WORK));
            declare(h, &CompletionTrigger { job, wait_for_retries, ..spec.clone() }).await;
            run(h, work()).await;
            let first = fires(h).await;
            assert_eq!(evaluate(h).await, []);
            // The next trigger comes while the first hook's job runs, and another job of the type was ended
            // beside it.
            h.enqueue(work()).await;
            let (hook, other) = apart(h.claim(3).await, first);
            h.succeed(&other).await;
            let second = fires(h).await;
            h.succeed(&hook).await;
            assert_eq!(evaluate(h).await, [], "its own end marks nothing");
            h.enqueue(work()).await;
            let (hook, other) = apart(h.claim(3).await, second);
            h.fail(&hook, minutes(1)).await;
            h.succeed(&other).await;
            fires(h).await;
            assert_eq!(h.engine.purge(&queue(MAIN), 10).await.expect(UP).changed, 2, "only hooks are left");
            assert_eq!(evaluate(h).await, []);
            apply(h, acts::remove(&spec.name, stored(h, DONE).await.version)).await;
        }
    }
}

/// Separates the job of a hook from the job beside it.
pub(crate) fn apart(claimed: Vec<Claimed>, hook: JobId) -> (Claimed, Claimed) {
    let (mut hooks, mut others): (Vec<_>, Vec<_>) =
        claimed.into_iter().partition(|claimed| claimed.job.id == hook);
    assert_eq!((hooks.len(), others.len()), (1, 1));
    (hooks.remove(0), others.remove(0))
}

pub async fn a_trigger_is_looked_at_only_so_often_and_the_last_mark_is_always_followed_by_a_look(
    h: &Harness,
) {
    declare(h, &of_group()).await;
    run(h, grouped()).await;
    let hook = fires(h).await;
    run_beside(h, hook).await;
    let early = read(h, WhichTriggers::Marked(10)).await;
    assert_eq!(early.triggers, []);
    // An evaluation that took long, as on a busy machine, is followed by a longer pause.
    let pause = early.next.expect("its trigger is marked").since(h.now());
    assert!((TRIGGER_PAUSE..=TRIGGER_PAUSE_MAX).contains(&pause), "{pause:?}");
    let firing = fire(&stored(h, DONE).await, h.now());
    let fired = only(h.engine.fire_triggers(std::slice::from_ref(&firing)).await.expect(UP));
    assert_eq!(fired, TriggerFired::Later);
    assert!(stored(h, DONE).await.is_marked, "its mark stays");
    fires(h).await;
    assert_eq!(read(h, WhichTriggers::Marked(10)).await.next, None);
}

/// Runs another job of the group while the hook's job waits.
async fn run_beside(h: &Harness, hook: JobId) {
    h.enqueue(grouped()).await;
    let (_, other) = apart(h.claim(3).await, hook);
    h.succeed(&other).await;
}

pub async fn of_many_who_fire_one_trigger_one_makes_its_job(h: &Harness) {
    declare(h, &of_group()).await;
    run(h, grouped()).await;
    h.advance(TRIGGER_PAUSE);
    let firing = fire(&only(marked(h).await), h.now());
    let calls = (0..8).map(|_| {
        let (engine, firing) = (Arc::clone(&h.engine), firing.clone());
        async move { only(engine.fire_triggers(&[firing]).await.expect(UP)) }
    });
    let fired = h.at_once(calls.collect()).await;
    let count = fired.iter().filter(|fired| matches!(fired, TriggerFired::Fired { .. })).count();
    assert_eq!(count, 1, "{fired:?}");
    assert_eq!(h.status_of(OTHER).await.counts.ready, 1);
    assert_eq!((evaluate(h).await, stored(h, DONE).await.record.fired), (vec![], 1));
}

pub async fn a_firing_whose_answer_was_lost_makes_no_second_job(h: &Harness) {
    declare(h, &of_group()).await;
    run(h, grouped()).await;
    h.advance(TRIGGER_PAUSE);
    let firing = fire(&only(marked(h).await), h.now());
    let fire_it = || async { only(h.engine.fire_triggers(std::slice::from_ref(&firing)).await.expect(UP)) };
    made(&fire_it().await);
    h.advance(TRIGGER_PAUSE);
    assert_eq!(fire_it().await, TriggerFired::Changed);
    assert_eq!(h.status_of(OTHER).await.counts.ready, 1);
}

pub async fn a_firing_decided_before_a_change_writes_nothing_and_the_mark_stays(h: &Harness) {
    declare(h, &of_group()).await;
    run(h, grouped()).await;
    h.advance(TRIGGER_PAUSE);
    let firing = fire(&only(marked(h).await), h.now());
    let other = JobTemplate { payload: payload("new"), ..JobTemplate::new(type_name(OTHER_WORK)) };
    declare(h, &CompletionTrigger { job: other.clone(), ..of_group() }).await;
    let fired = only(h.engine.fire_triggers(&[firing]).await.expect(UP));
    assert_eq!(fired, TriggerFired::Changed);
    assert_eq!(h.record(fires(h).await).await.job.payload, other.payload);
}

pub async fn who_dies_between_the_end_and_the_hook_leaves_a_mark_that_a_duty_works_off(h: &Harness) {
    declare(h, &of_group()).await;
    run(h, grouped()).await;
    // No process evaluates for a day.
    h.advance(days(1));
    assert!(only(marked(h).await).is_marked);
    fires(h).await;
}

pub async fn a_removed_trigger_takes_its_marks_with_it(h: &Harness) {
    let trigger = declare(h, &of_group()).await;
    run(h, grouped()).await;
    apply(h, acts::remove(trigger.name(), trigger.version)).await;
    assert_eq!(evaluate(h).await, []);
    declare(h, &of_group()).await;
    assert_eq!(evaluate(h).await, [], "a job that ended before the declaration does not count");
    run(h, grouped()).await;
    fires(h).await;
}

pub async fn a_hooks_job_that_is_refused_is_told_and_not_tried_again(h: &Harness) {
    let job = JobTemplate::new(type_name("unknown"));
    declare(h, &CompletionTrigger { job, ..of_group() }).await;
    declare(h, &watching("sound", Watched::Group(group(IMPORT)))).await;
    run(h, grouped()).await;
    h.advance(TRIGGER_PAUSE);
    let firings: Vec<_> = marked(h).await.iter().map(|trigger| fire(trigger, h.now())).collect();
    let fired = h.engine.fire_triggers(&firings).await.expect(UP);
    let (bad, firing) = (&fired[0], &firings[0]);
    assert_eq!(firing.name, name(DONE));
    let refusal = Refusal::UnknownType { job_type: type_name("unknown") };
    assert!(
        matches!(bad, TriggerFired::Fired { job: EnqueueAnswer::Refused(why), .. } if *why == refusal),
        "{bad:?}"
    );
    made(&fired[1]);
    let after = stored(h, DONE).await;
    assert_eq!((after.record.fired, after.last_job), (1, None));
    assert!(after.record.alert.expect("the alert is stored").why.contains("unknown"));
    assert_eq!(evaluate(h).await, []);
}

pub async fn a_full_queue_refuses_the_hooks_job(h: &Harness) {
    declare(h, &CompletionTrigger { job: JobTemplate::new(type_name(SMALL_WORK)), ..of_group() }).await;
    h.enqueue_all(vec![NewJob { when: When::In(days(1)), ..job_of(SMALL_WORK) }; 3]).await;
    run(h, grouped()).await;
    let fired = only(evaluate(h).await);
    let is_full =
        matches!(&fired, TriggerFired::Fired { job: EnqueueAnswer::Refused(Refusal::QueueFull { .. }), .. });
    assert!(is_full, "{fired:?}");
    assert!(stored(h, DONE).await.record.alert.is_some(), "the alert was stored with the firing");
    assert_eq!(h.status_of(SMALL).await.counts.scheduled, 3);
}

pub async fn a_trigger_stored_by_two_at_once_is_stored_once(h: &Harness) {
    let wanted = acts::declare(&of_group(), Origin::Code, None, h.now()).expect("the trigger is new");
    let calls = (0..8).map(|_| {
        let (engine, wanted) = (Arc::clone(&h.engine), wanted.clone());
        async move { only(engine.change_triggers(&[wanted]).await.expect(UP)) }
    });
    let changed = h.at_once(calls.collect()).await;
    let done = changed.iter().filter(|changed| matches!(changed, TriggerChanged::Done { .. })).count();
    assert_eq!(done, 1, "{changed:?}");
}

pub async fn wrong_triggers_are_refused_and_nothing_is_stored(h: &Harness) {
    let sound = acts::declare(&of_queue("sound"), Origin::Code, None, h.now()).expect("the trigger is new");
    let mut tagged = of_queue("tagged");
    tagged.job.tags = vec![Tag::parse("t").expect("a plain tag"); TAGS_MAX + 1];
    let tagged = acts::declare(&tagged, Origin::Code, None, h.now()).expect("the trigger is new");
    let mut hurried = of_queue("hurried");
    hurried.job.timeout = Some(Duration::ZERO);
    let hurried = acts::declare(&hurried, Origin::Code, None, h.now()).expect("the trigger is new");
    for wrong in [vec![sound.clone(), tagged], vec![sound.clone(), hurried], vec![sound.clone(), sound]] {
        assert!(h.engine.change_triggers(&wrong).await.is_err());
    }
    let many = (0..=TRIGGERS_PER_CALL_MAX).map(|n| name(&format!("d{n}"))).collect();
    assert!(h.engine.triggers(&WhichTriggers::Named(many)).await.is_err());
    assert!(!read(h, WhichTriggers::After(None, 10)).await.any);
    assert_eq!(h.engine.change_triggers(&[]).await.expect(UP), []);
    assert_eq!(h.engine.fire_triggers(&[]).await.expect(UP), []);
}

pub async fn a_store_keeps_a_limited_number_of_triggers(h: &Harness) {
    let new = |n: u32| {
        let spec = of_queue(&format!("d{n}"));
        acts::declare(&spec, Origin::Code, None, h.now()).expect("the trigger is new")
    };
    let all: Vec<_> = (0..TRIGGERS_MAX).map(new).collect();
    for part in all.chunks(TRIGGERS_PER_CALL_MAX) {
        let changed = h.engine.change_triggers(part).await.expect(UP);
        assert!(changed.iter().all(|changed| matches!(changed, TriggerChanged::Done { .. })));
    }
    assert_eq!(change(h, new(TRIGGERS_MAX)).await, TriggerChanged::NoRoom);
    run(h, work()).await;
    let fired = evaluate(h).await;
    assert_eq!(fired.iter().map(made).count(), TRIGGERS_MAX as usize, "all triggers watch the queue");
}

pub async fn a_mark_is_hinted(h: &Harness) {
    declare(h, &of_group()).await;
    let log = h.listen();
    run(h, grouped()).await;
    log.wait_for(&Hint::Trigger);
    log.forget();
    let claimed = claim(h, grouped()).await;
    h.fail(&claimed, minutes(1)).await;
    log.wait_for(&Hint::Trigger);
}
