//! Specs that stores keep as JSON: fields of newer versions survive, and an unreadable spec is reported and
//! not replaced.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use serde_json::{Value, json};
use windlass_core::breaker::{BreakerEvent, BreakerOptions, BreakerState, decide};
use windlass_core::engine::Declaration;
use windlass_core::enqueue::Refusal;
use windlass_core::error::EngineError;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{BreakerName, ScheduleName};
use windlass_core::policies::Saved;
use windlass_core::queue::QueueSpec;
use windlass_core::retry::RetryPolicy;
use windlass_core::schedule::Schedule;
use windlass_core::schedules::fire::fire;
use windlass_core::schedules::{
    JobTemplate, Origin, ScheduleChange, ScheduleChanged, ScheduleSpec, StoredSchedule, WhichSchedules, acts,
};
use windlass_core::stored::Unreadable;
use windlass_core::triggers::acts::fire as fire_trigger;
use windlass_core::triggers::{
    CompletionTrigger, StoredTrigger, TriggerChange, TriggerFired, acts as trigger_acts,
};

use crate::harness::*;
use crate::triggers::{
    apply as apply_trigger, declare as declare_trigger, grouped, of_group, stored as stored_trigger,
};

/// The field that only a newer version knows, with a number that only text can represent.
const LATER: &str = r#"{"n":123456789012345678901234567890,"x":1.10}"#;

fn of_queue() -> RawSpec {
    RawSpec::Queue(queue(MAIN))
}

fn of_type() -> RawSpec {
    RawSpec::Type(type_name(WORK))
}

fn shop() -> BreakerName {
    BreakerName::parse("shop").expect("behaviours use plain names")
}

/// Adds the field to a text: beside the others, and in the object of one of them.
fn with_later(text: &str, inside: Option<&str>) -> String {
    let text = format!("{{\"later\":{LATER},{}", text.strip_prefix('{').expect("the text is an object"));
    match inside {
        Some(field) => {
            text.replacen(&format!("\"{field}\":{{"), &format!("\"{field}\":{{\"later\":{LATER},"), 1)
        }
        None => text,
    }
}

fn count_later(text: &str) -> usize {
    text.matches(LATER).count()
}

async fn add_later(raw: &dyn RawStore, spec: &RawSpec, inside: Option<&str>) -> String {
    let text = with_later(&raw.read(spec).await, inside);
    raw.write(spec, &text).await;
    text
}

async fn declare(h: &Harness, queues: Vec<QueueSpec>, types: Vec<TypeSpec>) -> Result<(), EngineError> {
    h.engine.declare(Declaration { queues, types }).await
}

async fn type_spec_of(h: &Harness, name: &str) -> TypeSpec {
    let types = h.engine.types().await.expect(UP);
    types
        .into_iter()
        .map(|status| status.spec)
        .find(|spec| spec.name == type_name(name))
        .expect("the name is registered")
}

pub async fn fields_of_newer_versions_in_a_queue_survive_a_change_by_an_older_one(h: &Harness) {
    let Some(raw) = h.raw() else { return };
    add_later(raw, &of_queue(), None).await;
    let spec = h.status_of(MAIN).await.spec;
    assert_eq!(spec, QueueSpec::new(queue(MAIN)), "the field is ignored");
    let changed = QueueSpec { concurrency: 9, ..spec };
    declare(h, vec![changed.clone()], vec![]).await.expect(UP);
    assert_eq!(h.status_of(MAIN).await.spec, changed);
    h.engine.pause(&queue(MAIN), None, None).await.expect(UP);
    h.engine.resume(&queue(MAIN)).await.expect(UP);
    h.engine.set_shut(&queue(MAIN), true).await.expect(UP);
    let text = raw.read(&of_queue()).await;
    assert_eq!(count_later(&text), 1, "{text}");
}

pub async fn fields_of_newer_versions_in_a_type_and_its_retry_policy_survive_a_change_by_an_older_one(
    h: &Harness,
) {
    let Some(raw) = h.raw() else { return };
    add_later(raw, &of_type(), Some("retry")).await;
    let spec = type_spec_of(h, WORK).await;
    assert_eq!(spec, type_spec(WORK, MAIN), "the fields are ignored");
    let changed = TypeSpec { retry: RetryPolicy::default().with_attempts(9), retention_days: 3, ..spec };
    declare(h, vec![], vec![changed.clone()]).await.expect(UP);
    assert_eq!(type_spec_of(h, WORK).await, changed);
    h.enqueue_and_claim_one().await;
    let text = raw.read(&of_type()).await;
    assert_eq!(count_later(&text), 2, "{text}");
}

pub async fn a_declaration_that_says_what_is_stored_leaves_the_stored_text_as_it_is(h: &Harness) {
    let Some(raw) = h.raw() else { return };
    let texts = (add_later(raw, &of_queue(), None).await, add_later(raw, &of_type(), Some("retry")).await);
    for _ in 0..2 {
        let (queues, types) = (vec![QueueSpec::new(queue(MAIN))], vec![type_spec(WORK, MAIN)]);
        declare(h, queues, types).await.expect(UP);
        assert_eq!((raw.read(&of_queue()).await, raw.read(&of_type()).await), texts);
    }
}

pub async fn fields_of_newer_versions_in_a_breaker_survive_a_change_by_an_older_one(h: &Harness) {
    let Some(raw) = h.raw() else { return };
    let state = BreakerState::default();
    assert_eq!(h.engine.save_breaker(&shop(), 0, &state).await.expect(UP), Saved::Done);
    let spec = RawSpec::Breaker(shop());
    add_later(raw, &spec, None).await;
    let stored = only(h.engine.breakers().await.expect(UP).breakers);
    let read = stored.state.expect("the state can be read");
    assert_eq!(read, state, "the field is ignored");
    let state = BreakerState { failures_in_a_row: 7, ..read };
    assert_eq!(h.engine.save_breaker(&shop(), stored.version, &state).await.expect(UP), Saved::Done);
    assert_eq!(h.engine.save_breaker(&shop(), stored.version, &state).await.expect(UP), Saved::Changed);
    assert_eq!(only(h.engine.breakers().await.expect(UP).breakers).state, Ok(state));
    let text = raw.read(&spec).await;
    assert_eq!(count_later(&text), 1, "{text}");
}

async fn schedule_of(h: &Harness, name: &ScheduleName) -> StoredSchedule {
    let which = WhichSchedules::Named(vec![name.clone()]);
    only(h.engine.schedules(&which).await.expect(UP).schedules)
}

async fn change(h: &Harness, change: ScheduleChange) {
    let changed = only(h.engine.change_schedules(&[change]).await.expect(UP));
    assert!(matches!(changed, ScheduleChanged::Done { .. }), "{changed:?}");
}

pub async fn fields_of_newer_versions_in_a_schedule_survive_changes_and_firings_by_an_older_one(h: &Harness) {
    let name = ScheduleName::parse("nightly").expect("a plain name");
    let schedule = Schedule::parse("every 1m").expect("the text is a schedule");
    // The type is not registered, so that each tick is refused and the store notes the refusal.
    let spec = ScheduleSpec::new(name.clone(), schedule, JobTemplate::new(type_name("nowhere.work")));
    change(h, acts::declare(&spec, Origin::Code, None, h.now()).expect("the schedule is new")).await;
    let known = schedule_of(h, &name).await;
    let text = with_later(&with_later(&known.record.to_text(), Some("job")), Some("catch_up"));
    let text = text.replacen(&format!("\"later\":{LATER},"), "", 1);
    let newer = StoredSchedule::from_store(&name, known.version, None, &text).expect("the text can be read");
    assert_eq!(newer, known, "the fields are ignored");
    change(h, acts::pause(&newer, None, None, h.now()).expect("the schedule is not paused")).await;
    let paused = schedule_of(h, &name).await;
    change(h, acts::resume(&paused, h.now()).expect("the schedule is paused")).await;
    let resumed = schedule_of(h, &name).await;
    assert_eq!(
        acts::declare(&spec, Origin::Code, Some(&resumed), h.now()),
        None,
        "the declaration is no change"
    );
    h.advance(minutes(1));
    change(h, fire(&resumed, h.now()).expect("a tick has come").change).await;
    let fired = schedule_of(h, &name).await;
    assert!(fired.record.alert.is_some(), "{fired:?}");
    let later =
        ScheduleSpec { schedule: Schedule::parse("every 5m").expect("the text is a schedule"), ..spec };
    change(h, acts::declare(&later, Origin::Cli, Some(&fired), h.now()).expect("the declaration differs"))
        .await;
    let changed = schedule_of(h, &name).await;
    assert_eq!(changed.record.spec, later);
    let text = changed.record.to_text();
    assert_eq!(count_later(&text), 3, "{text}");
    let text: Value = serde_json::from_str(&text).expect("the text is JSON");
    assert_eq!(text.get("made_none"), None, "the store's note for its reader is not kept as a field");
}

pub async fn fields_of_newer_versions_in_a_completion_trigger_survive_changes_and_firings_by_an_older_one(
    h: &Harness,
) {
    let spec = CompletionTrigger { job: JobTemplate::new(type_name("nowhere.work")), ..of_group() };
    let known = declare_trigger(h, &spec).await;
    let text = with_later(&known.record.to_text(), Some("spec"));
    let newer = StoredTrigger::from_store(&spec.name, known.version, None, known.is_marked, &text);
    let newer = newer.expect("the text can be read");
    assert_eq!(newer, known, "the fields are ignored");
    assert_eq!(
        trigger_acts::declare(&spec, Origin::Code, Some(&newer), h.now()),
        None,
        "the declaration is no change"
    );
    let patient = CompletionTrigger { wait_for_retries: true, ..spec };
    let wanted =
        trigger_acts::declare(&patient, Origin::Cli, Some(&newer), h.now()).expect("the declaration differs");
    apply_trigger(h, TriggerChange { ..wanted }).await;
    h.enqueue(grouped()).await;
    let claimed = h.claim_one().await;
    h.succeed(&claimed).await;
    h.advance(windlass_core::limits::TRIGGER_PAUSE);
    let marked = stored_trigger(h, patient.name.as_str()).await;
    let fired = only(h.engine.fire_triggers(&[fire_trigger(&marked, h.now())]).await.expect(UP));
    assert!(matches!(fired, TriggerFired::Fired { .. }), "{fired:?}");
    let fired = stored_trigger(h, patient.name.as_str()).await;
    assert!(fired.record.alert.is_some(), "{fired:?}");
    let text = fired.record.to_text();
    assert_eq!(count_later(&text), 2, "{text}");
    let text: Value = serde_json::from_str(&text).expect("the text is JSON");
    assert_eq!(text.get("refusal"), None, "the store's note for its reader is not kept as a field");
}

fn assert_names<T: std::fmt::Debug>(answer: Result<T, EngineError>, what: &str, field: &str) {
    match answer {
        Err(EngineError::Unreadable(why)) => assert_unreadable(&why, what, field),
        other => panic!("expected {what} to be unreadable, got {other:?}"),
    }
}

/// Asserts that one of a list is unreadable, and returns how many others there are.
fn others_beside<'a>(listed: impl Iterator<Item = Option<&'a Unreadable>>, what: &str, field: &str) -> usize {
    let (unreadable, others): (Vec<_>, Vec<_>) = listed.partition(Option::is_some);
    assert_unreadable(only(unreadable).expect("it is unreadable"), what, field);
    others.len()
}

fn assert_unreadable(why: &Unreadable, what: &str, field: &str) {
    assert_eq!((why.what.as_str(), why.field.as_deref()), (what, Some(field)), "{why}");
}

fn assert_refused(refusal: &Refusal, what: &str, field: &str) {
    match refusal {
        Refusal::Unreadable(why) => assert_unreadable(why, what, field),
        other => panic!("expected {what} to be unreadable, got {other:?}"),
    }
}

pub async fn an_unreadable_queue_is_an_error_that_names_the_field_and_changes_nothing(h: &Harness) {
    let Some(raw) = h.raw() else { return };
    let text = json!({ "name": MAIN, "concurrency": "many" }).to_string();
    raw.write(&of_queue(), &text).await;
    let listed = h.engine.queues().await.expect(UP);
    let others =
        others_beside(listed.iter().map(|queue| queue.unreadable.as_ref()), "queue main", "concurrency");
    assert_eq!(others, listed.len() - 1, "the other queues are listed all the same");
    let specs = h.engine.queue_specs().await.expect(UP);
    assert_eq!((specs.len(), specs.iter().any(|spec| spec.name == queue(MAIN))), (others, false));
    let other = QueueSpec { concurrency: 9, ..QueueSpec::new(queue(OTHER)) };
    let declared = declare(h, vec![other, QueueSpec::new(queue(MAIN))], vec![]).await;
    assert_names(declared, "queue main", "concurrency");
    assert_refused(&h.refusal(work()).await, "queue main", "concurrency");
    assert_eq!(raw.read(&of_queue()).await, text);
    h.enqueue(job_of(OTHER_WORK)).await;
    raw.write(&of_queue(), &json!({ "name": MAIN }).to_string()).await;
    assert_eq!(
        h.status_of(OTHER).await.spec,
        QueueSpec::new(queue(OTHER)),
        "none of the declaration was stored"
    );
    h.enqueue(work()).await;
}

pub async fn an_unreadable_type_is_an_error_that_names_the_field_and_changes_nothing(h: &Harness) {
    let Some(raw) = h.raw() else { return };
    let claimed = h.enqueue_and_claim_one().await;
    let text = json!({ "name": WORK, "queue": MAIN, "retry": { "policy": "lunar" } }).to_string();
    raw.write(&of_type(), &text).await;
    let listed = h.engine.types().await.expect(UP);
    let others =
        others_beside(listed.iter().map(|known| known.unreadable.as_ref()), "job type work", "retry");
    assert_eq!(others, listed.len() - 1, "the other types are listed all the same");
    assert_names(declare(h, vec![], vec![type_spec(WORK, MAIN)]).await, "job type work", "retry");
    assert_refused(&h.refusal(work()).await, "job type work", "retry");
    h.succeed(&claimed).await;
    assert_eq!(raw.read(&of_type()).await, text);
    h.enqueue(job_of(KEPT)).await;
}

pub async fn an_unreadable_breaker_is_named_beside_the_others_and_a_reset_replaces_it(h: &Harness) {
    let Some(raw) = h.raw() else { return };
    let other = BreakerName::parse("bank").expect("a plain name");
    for name in [&other, &shop()] {
        h.engine.save_breaker(name, 0, &BreakerState::default()).await.expect(UP);
    }
    let (spec, text) = (RawSpec::Breaker(shop()), json!({ "failures_in_a_row": -1 }).to_string());
    raw.write(&spec, &text).await;
    let listed = h.engine.breakers().await.expect(UP).breakers;
    let states = listed.iter().map(|stored| stored.state.as_ref().err());
    assert_eq!(others_beside(states, "breaker shop", "failures_in_a_row"), 1);
    assert_eq!(raw.read(&spec).await, text, "reading changes nothing");
    let version = listed.iter().find(|stored| stored.name == shop()).expect("it is listed").version;
    let reset = decide(&BreakerState::default(), &BreakerEvent::Reset, h.now(), &BreakerOptions::default());
    assert_eq!(h.engine.save_breaker(&shop(), version, &reset).await.expect(UP), Saved::Done);
    let listed = h.engine.breakers().await.expect(UP).breakers;
    let stored = listed.iter().find(|stored| stored.name == shop()).expect("it is listed");
    assert_eq!(stored.state, Ok(reset));
}
