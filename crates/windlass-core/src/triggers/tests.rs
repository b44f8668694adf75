use std::time::Duration;

use super::rules::{JobStanding, Left, could_run, has_finished, look_again, marks, may_look};
use super::spec::check_all;
use super::*;
use crate::enqueue::Refusal;
use crate::gate::Gate;
use crate::job::JobId;
use crate::limits::{TAGS_MAX, TRIGGER_PAUSE, TRIGGER_PAUSE_MAX, TRIGGER_RECORD_BYTES_MAX};
use crate::names::{GroupName, QueueName, Tag, TypeName};
use crate::payload::Payload;
use crate::schedules::{JobTemplate, Origin};
use crate::settle::NewState;

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
const LATER: Timestamp = Timestamp::from_micros(1_000_000_001);

fn spec(name: &str) -> CompletionTrigger {
    let job = JobTemplate::new(TypeName::parse("recalculate").unwrap());
    let watch = Watched::Queue(QueueName::parse("backfill").unwrap());
    CompletionTrigger::new(TriggerName::parse(name).unwrap(), watch, job)
}

fn stored(version: u64) -> StoredTrigger {
    let change = acts::declare(&spec("done"), Origin::Code, None, NOW).unwrap();
    StoredTrigger { version, last_job: None, is_marked: true, record: *change.to.unwrap() }
}

#[test]
fn only_what_runs_or_could_run_holds_a_trigger_unless_it_waits_for_retries() {
    let (nothing, unfinished) = (Left::default(), Left { unfinished: true, ..Left::default() });
    let running = Left { running: true, ..unfinished };
    let ready = Left { could_run: true, ..unfinished };
    let finished = |wait| [nothing, unfinished, running, ready].map(|left| has_finished(left, wait));
    assert_eq!(finished(false), [true, true, false, false]);
    assert_eq!(finished(true), [true, false, false, false]);
}

#[test]
fn what_is_due_could_run_if_only_its_history_or_its_ordering_key_holds_it_back() {
    for gate in [None, Some(Gate::suspect()), Some(Gate::named("ordering_key:t:a"))] {
        assert!(could_run(gate.as_ref(), NOW, NOW), "{gate:?}");
        assert!(!could_run(gate.as_ref(), LATER, NOW), "{gate:?} lies in the future");
    }
    assert!(!could_run(Some(&Gate::named("breaker:shop")), NOW, NOW));
}

#[test]
fn a_job_leaves_a_mark_where_it_held_the_trigger_and_holds_it_no_more() {
    let parked = Gate::named("breaker:shop");
    let ready = JobStanding::Waiting { due: NOW, gate: None };
    let later = JobStanding::Waiting { due: LATER, gate: None };
    let behind = JobStanding::Waiting { due: NOW, gate: Some(&parked) };
    let ended = JobStanding::at(&NewState::Succeeded { result: None });
    for (from, to, impatient, patient) in [
        (JobStanding::Running, ended, true, true),
        (JobStanding::Running, later, true, false),
        (JobStanding::Running, behind, true, false),
        (JobStanding::Running, ready, false, false),
        (ready, ended, true, true),
        (ready, behind, true, false),
        (ready, later, true, false),
        (later, ended, false, true),
        (behind, ended, false, true),
        (behind, ready, false, false),
    ] {
        assert_eq!(marks(from, to, false, NOW), impatient, "{from:?} to {to:?}");
        assert_eq!(marks(from, to, true, NOW), patient, "{from:?} to {to:?}, waiting for retries");
    }
}

#[test]
fn looks_are_some_time_apart_and_long_ones_further() {
    assert_eq!(look_again(NOW, Duration::ZERO), NOW.plus(TRIGGER_PAUSE));
    assert_eq!(look_again(NOW, Duration::from_secs(1)), NOW.plus(Duration::from_secs(20)));
    assert_eq!(look_again(NOW, Duration::MAX), NOW.plus(TRIGGER_PAUSE_MAX));
    assert!(may_look(None, NOW) && may_look(Some(NOW), NOW) && !may_look(Some(LATER), NOW));
    let of_another_clock = NOW.plus(TRIGGER_PAUSE_MAX + Duration::from_secs(1));
    assert!(may_look(Some(of_another_clock), NOW));
}

#[test]
fn a_group_is_a_name_a_queue_or_a_type() {
    let (job_type, queue) = (TypeName::parse("t").unwrap(), QueueName::parse("q").unwrap());
    let group = GroupName::parse("import 7").unwrap();
    let other = GroupName::parse("import 8").unwrap();
    assert!(Watched::Group(group.clone()).has(&job_type, &queue, Some(&group), None));
    assert!(!Watched::Group(group.clone()).has(&job_type, &queue, Some(&other), None));
    assert!(!Watched::Group(group).has(&job_type, &queue, None, None));
    assert!(Watched::Queue(queue.clone()).has(&job_type, &queue, None, None));
    assert!(Watched::Type(job_type.clone()).has(&job_type, &queue, None, None));
    assert_eq!(Watched::Type(job_type).to_string(), "type t");
    for text in ["group import 7", "queue q", "type T"] {
        assert_eq!(text.parse::<Watched>().unwrap().to_string(), text);
    }
    for wrong in ["", "queue", "queue a b", "type ä", "group ", "tag x", "import 7"] {
        assert!(wrong.parse::<Watched>().is_err(), "{wrong:?}");
    }
}

#[test]
fn a_firing_counts_and_its_job_bears_the_name_of_the_trigger_and_the_version() {
    let firing = acts::fire(&stored(7), LATER);
    assert_eq!(firing.job.key.as_ref().unwrap().key.as_str(), "trigger/done/7");
    assert_eq!(firing.job.correlation.as_ref().unwrap().as_str(), "trigger/done/7");
    assert_eq!((firing.read, firing.to.fired, firing.to.last_fired), (7, 1, Some(LATER)));
}

#[test]
fn the_job_of_a_trigger_is_known_by_its_key() {
    let done = TriggerName::parse("done").unwrap();
    assert_eq!(spec::maker(Some("trigger/done/7")), Some(done));
    for of_none in
        [None, Some("trigger/done"), Some("trigger/Done/7"), Some("trigger//7"), Some("a/trigger/done/7")]
    {
        assert_eq!(spec::maker(of_none), None, "{of_none:?}");
    }
}

#[test]
fn the_job_of_a_trigger_is_not_of_the_group_that_this_trigger_watches_whichever_watches_it() {
    let (job_type, queue) = (TypeName::parse("t").unwrap(), QueueName::parse("q").unwrap());
    let (of_queue, of_type) = (Watched::Queue(queue.clone()), Watched::Type(job_type.clone()));
    assert!(of_queue.has(&job_type, &queue, None, None));
    assert!(!of_queue.has(&job_type, &queue, None, Some(&of_queue)));
    assert!(
        of_queue.has(&job_type, &queue, None, Some(&of_type)),
        "a completion trigger of another group enqueued it"
    );
}

#[test]
fn a_refused_job_is_told_with_the_trigger_and_not_tried_again() {
    let firing = acts::fire(&stored(7), NOW);
    let why = Refusal::UnknownType { job_type: TypeName::parse("recalculate").unwrap() };
    let text = firing.to.to_text();
    let whole = text.strip_suffix('}').unwrap();
    let with_refusal = format!("{whole},\"refusal\":{}}}", serde_json::to_string(&why).unwrap());
    let record = firing.kept(&EnqueueAnswer::Refused(why));
    assert_eq!((record.fired, record.alert.as_ref().unwrap().at), (1, NOW));
    assert!(record.alert.as_ref().unwrap().why.contains("recalculate"));
    assert_eq!(firing.kept(&EnqueueAnswer::New(JobId(1))), *firing.to);
    let name = TriggerName::parse("done").unwrap();
    let read = StoredTrigger::from_store(&name, 8, None, false, &with_refusal).unwrap();
    assert_eq!(read.record, record, "a store may add the refusal as it is");
}

#[test]
fn declaring_the_same_again_changes_nothing_and_something_else_keeps_what_happened() {
    let mut before = stored(3);
    assert_eq!(acts::declare(&spec("done"), Origin::Code, Some(&before), LATER), None);
    before.record.fired = 5;
    let patient = CompletionTrigger { wait_for_retries: true, ..spec("done") };
    let change = acts::declare(&patient, Origin::Cli, Some(&before), LATER).unwrap();
    let record = change.to.unwrap();
    assert_eq!((change.read, record.fired, record.stored_at), (3, 5, NOW));
    assert!(record.spec.wait_for_retries && record.origin == Origin::Cli);
}

#[test]
fn a_record_can_be_read_back_and_nothing_else() {
    let trigger = stored(7);
    let text = trigger.record.to_text();
    let name = trigger.name().clone();
    assert_eq!(StoredTrigger::from_store(&name, 7, None, true, &text).unwrap(), trigger);
    let other = TriggerName::parse("other").unwrap();
    assert_eq!(StoredTrigger::from_store(&other, 7, None, true, &text), None);
    assert_eq!(StoredTrigger::from_store(&name, 7, None, true, "{}"), None);
}

#[test]
fn what_is_wrong_with_a_trigger_is_said_before_anything_is_stored() {
    let mut tagged = spec("done");
    tagged.job.tags = vec![Tag::parse("t").unwrap(); TAGS_MAX + 1];
    assert!(matches!(tagged.check(), Err(CompletionTriggerError::Job { .. })));
    let mut big = spec("done");
    big.job.payload = Payload::parse(&format!("\"{}\"", "x".repeat(TRIGGER_RECORD_BYTES_MAX))).unwrap();
    assert!(matches!(big.check(), Err(CompletionTriggerError::TooBig { .. })));
    let twice = [spec("done"), spec("DONE")];
    assert!(matches!(check_all(&twice), Err(CompletionTriggerError::Twice { .. })));
    let change = |spec: &CompletionTrigger| acts::declare(spec, Origin::Code, None, NOW).unwrap();
    assert!(check_changes(&[change(&tagged)]).is_err());
    assert!(check_changes(&[change(&spec("done")), change(&spec("done"))]).is_err());
    assert!(check_changes(&[change(&spec("a")), change(&spec("b"))]).is_ok());
}

#[test]
fn more_than_one_call_may_ask_for_is_refused() {
    let many: Vec<_> =
        (0..=TRIGGERS_PER_CALL_MAX).map(|n| TriggerName::parse(&format!("d{n}")).unwrap()).collect();
    assert!(WhichTriggers::Named(many.clone()).check().is_err());
    assert!(WhichTriggers::Named(many[1..].to_vec()).check().is_ok());
    assert_eq!(WhichTriggers::After(None, 10_000).limit(), LIST_PAGE_MAX);
}
