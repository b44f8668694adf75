use std::time::Duration;

use super::acts;
use super::fire::fire;
use super::spec::check_all;
use super::*;
use crate::enqueue::Refusal;
use crate::key::HolderStage;
use crate::limits::SCHEDULE_RECORD_BYTES_MAX;
use crate::names::{QueueName, TypeName};
use crate::payload::Payload;
use crate::schedule::{CatchUp, Holidays, Missed, Schedule};

const MINUTE: Duration = Duration::from_secs(60);

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn spec(text: &str) -> ScheduleSpec {
    let job = JobTemplate::new(TypeName::parse("work").unwrap());
    ScheduleSpec::new(ScheduleName::parse("nightly").unwrap(), Schedule::parse(text).unwrap(), job)
}

/// A schedule that was stored at nine o'clock.
fn stored(spec: &ScheduleSpec) -> StoredSchedule {
    let change = acts::declare(spec, Origin::Code, None, at("2027-06-01T09:00:00Z")).unwrap();
    applied(&change)
}

/// Returns the schedule in a store after a change.
fn applied(change: &ScheduleChange) -> StoredSchedule {
    let record = *change.to.clone().unwrap();
    StoredSchedule { version: change.read + 1, last_job: None, record }
}

#[test]
fn a_tick_that_has_come_makes_one_job_under_its_own_key() {
    let stored = stored(&spec("every 5m"));
    assert_eq!(fire(&stored, at("2027-06-01T09:04:59Z")), None);
    let firing = fire(&stored, at("2027-06-01T09:05:00Z")).unwrap();
    assert_eq!(firing.change.ticks, [at("2027-06-01T09:05:00Z")]);
    let [job] = &firing.change.jobs[..] else { panic!("one tick is one job") };
    assert_eq!(job.key.as_ref().unwrap().key.as_str(), "schedule/nightly/2027-06-01T09:05:00Z");
    assert_eq!((firing.change.read, firing.alert), (stored.version, None));
    let after = applied(&firing.change);
    assert_eq!(after.record.last_tick, Some(at("2027-06-01T09:05:00Z")));
    assert_eq!(after.record.look_at(), Some(at("2027-06-01T09:10:00Z")));
}

#[test]
fn a_tick_that_no_process_saw_raises_an_alert_and_runs_once() {
    let firing = fire(&stored(&spec("every 5m")), at("2027-06-01T10:02:00Z")).unwrap();
    assert_eq!(firing.change.ticks, [at("2027-06-01T10:00:00Z")]);
    let what = ScheduleAlert::Missed { count: 12, first: at("2027-06-01T09:05:00Z") };
    assert_eq!(firing.alert.clone().unwrap().what, what);
    assert_eq!(applied(&firing.change).record.alert, firing.alert);
    assert_eq!(what.to_string(), "missed 12 ticks since 2027-06-01T09:05:00.000Z");
}

#[test]
fn of_several_ticks_at_once_only_the_newest_runs_if_jobs_must_not_overlap() {
    let catch_up = CatchUp { missed: Missed::RunAll, ..CatchUp::default() };
    for overlap in [Overlap::Skip, Overlap::Replace] {
        let spec = ScheduleSpec { catch_up, overlap, ..spec("every 5m") };
        let firing = fire(&stored(&spec), at("2027-06-01T10:02:00Z")).unwrap();
        assert_eq!(firing.change.ticks, [at("2027-06-01T10:00:00Z")], "{overlap:?}");
        check_changes(&[firing.change]).unwrap();
    }
    let all =
        fire(&stored(&ScheduleSpec { catch_up, ..spec("every 5m") }), at("2027-06-01T10:02:00Z")).unwrap();
    assert_eq!(all.change.ticks.len(), 12);
}

#[test]
fn overlap_is_decided_by_where_the_last_job_is() {
    use Overlapping::{CancelLast, LeaveOut, Put};
    let all = [HolderStage::Waiting, HolderStage::Running, HolderStage::Dead, HolderStage::Ended];
    assert_eq!(all.map(|stage| Overlap::Allow.decide(stage)), [Put, Put, Put, Put]);
    assert_eq!(all.map(|stage| Overlap::Skip.decide(stage)), [LeaveOut, LeaveOut, Put, Put]);
    assert_eq!(all.map(|stage| Overlap::Replace.decide(stage)), [CancelLast, Put, Put, Put]);
}

#[test]
fn the_last_job_gives_way_only_to_one_that_comes_in() {
    let (queue, job_type) = (QueueName::parse("main").unwrap(), TypeName::parse("work").unwrap());
    let full = Refusal::QueueFull { queue: queue.clone(), capacity: 1 };
    assert_eq!(GivesWay::to(&EnqueueAnswer::New(JobId(2))), GivesWay::Now);
    assert_eq!(GivesWay::to(&EnqueueAnswer::Refused(full.clone())), GivesWay::IfThatMakesRoom);
    let shut = Refusal::QueueShut { queue: queue.clone() };
    for refusal in [shut.clone(), Refusal::UnknownType { job_type }] {
        assert_eq!(GivesWay::to(&EnqueueAnswer::Refused(refusal)), GivesWay::No);
    }
    assert_eq!(GivesWay::to(&EnqueueAnswer::Duplicate(JobId(1))), GivesWay::No);
    assert!(end_makes_room(&queue, 1, &full) && !end_makes_room(&queue, 2, &full));
    assert!(
        !end_makes_room(&QueueName::parse("other").unwrap(), 1, &full) && !end_makes_room(&queue, 1, &shut)
    );
}

#[test]
fn what_falls_due_in_a_pause_is_dropped_whether_it_is_resumed_or_ends_by_itself() {
    let stored = stored(&spec("every 5m"));
    let noon = at("2027-06-01T12:00:00Z");
    let paused = applied(&acts::pause(&stored, Some("moving house"), Some(60 * MINUTE), noon).unwrap());
    assert_eq!(paused.record.look_at(), Some(at("2027-06-01T13:00:00Z")));
    assert_eq!(fire(&paused, at("2027-06-01T12:59:00Z")), None);
    assert_eq!(paused.record.next_tick(noon), Some(at("2027-06-01T13:05:00Z")));
    let firing = fire(&paused, at("2027-06-01T13:05:01Z")).unwrap();
    assert_eq!((firing.change.ticks, firing.alert), (vec![at("2027-06-01T13:05:00Z")], None));
    let resumed = applied(&acts::resume(&paused, at("2027-06-01T12:30:01Z")).unwrap());
    assert_eq!(resumed.record.look_at(), Some(at("2027-06-01T12:35:00Z")));
    assert_eq!(acts::resume(&resumed, noon), None);
    let for_good = applied(&acts::pause(&stored, None, None, noon).unwrap());
    assert_eq!((for_good.record.look_at(), for_good.record.next_tick(noon)), (None, None));
}

#[test]
fn the_next_tick_is_left_out_once() {
    let stored = stored(&spec("every 5m"));
    let now = at("2027-06-01T09:01:00Z");
    let (tick, change) = acts::skip_next(&stored, now).unwrap();
    assert_eq!(tick, at("2027-06-01T09:05:00Z"));
    let skipping = applied(&change.unwrap());
    assert_eq!(acts::skip_next(&skipping, now), Some((tick, None)));
    assert_eq!(skipping.record.next_tick(now), Some(at("2027-06-01T09:10:00Z")));
    let firing = fire(&skipping, at("2027-06-01T09:05:00Z")).unwrap();
    assert_eq!((firing.change.ticks.len(), firing.due.skipped), (0, Some(tick)));
    let after = applied(&firing.change);
    assert_eq!((after.record.skip, after.record.look_at()), (None, Some(at("2027-06-01T09:10:00Z"))));
}

#[test]
fn declaring_the_same_again_changes_nothing_and_another_text_counts_from_now_on() {
    let before = stored(&spec("every 5m"));
    let later = at("2027-06-01T10:02:00Z");
    assert_eq!(acts::declare(&spec("every 5 minutes"), Origin::Code, Some(&before), later), None);
    let other = applied(&acts::declare(&spec("every 1h"), Origin::Code, Some(&before), later).unwrap());
    assert_eq!(other.record.look_at(), Some(at("2027-06-01T11:00:00Z")));
    let overlap = ScheduleSpec { overlap: Overlap::Skip, ..spec("every 5m") };
    let kept = applied(&acts::declare(&overlap, Origin::Code, Some(&before), later).unwrap());
    assert_eq!(kept.record.decided_until, before.record.decided_until);
}

#[test]
fn a_refused_job_is_written_down_where_people_look() {
    let change = fire(&stored(&spec("every 5m")), at("2027-06-01T09:05:00Z")).unwrap().change;
    let why = Refusal::UnknownType { job_type: TypeName::parse("work").unwrap() };
    let kept = |answer| change.kept(&[Put::Answered(answer)], at("2027-06-01T09:05:01Z")).unwrap();
    let alert = kept(EnqueueAnswer::Refused(why)).alert.unwrap();
    assert_eq!(alert.at, at("2027-06-01T09:05:01Z"));
    let what = alert.what.to_string();
    assert!(what.contains("expected a registered job type, got work"), "{what}");
    assert_eq!(kept(EnqueueAnswer::New(JobId(1))), *change.to.clone().unwrap());
}

#[test]
fn a_tick_that_is_left_out_is_written_down_once_for_each_job_that_is_live() {
    let spec = ScheduleSpec { overlap: Overlap::Skip, ..spec("every 5m") };
    let (first, later) = (at("2027-06-01T09:05:00Z"), at("2027-06-01T09:10:00Z"));
    let kept = |stored: &StoredSchedule, job, now| {
        let change = fire(stored, now).unwrap().change;
        let record = change.kept(&[Put::Overlaps(JobId(job))], now);
        applied(&ScheduleChange { to: record.map(Box::new), ..change })
    };
    let overlapped = kept(&stored(&spec), 7, first);
    assert_eq!(overlapped.record.last_tick, Some(first), "its time came, though it made no job");
    let alert = overlapped.record.alert.clone().unwrap();
    assert_eq!(alert.what.to_string(), "left ticks out since 2027-06-01T09:05:00.000Z, while job 7 was live");
    assert_eq!(kept(&overlapped, 7, later).record.alert, Some(alert));
    let next = kept(&overlapped, 8, later).record.alert.unwrap();
    assert_eq!((next.at, next.what), (later, ScheduleAlert::Overlaps { tick: later, job: JobId(8) }));
}

#[test]
fn what_a_store_adds_about_a_tick_that_made_no_job_is_read_as_an_alert() {
    let (tick, now) = (at("2027-06-01T09:05:00Z"), at("2027-06-01T09:05:01Z"));
    let change = fire(&stored(&spec("every 5m")), tick).unwrap().change;
    let why = Refusal::UnknownType { job_type: TypeName::parse("work").unwrap() };
    let put = Put::Answered(EnqueueAnswer::Refused(why.clone()));
    let mut text: serde_json::Value = serde_json::from_str(&change.to.as_ref().unwrap().to_text()).unwrap();
    text["made_none"] = serde_json::json!({ "at": now, "tick": tick, "refusal": why });
    let read = StoredSchedule::from_store(&change.name, 7, None, &text.to_string()).unwrap();
    assert_eq!(Some(read.record), change.kept(&[put], now));
    text["made_none"] = serde_json::json!({ "at": now, "tick": tick, "overlaps": 7 });
    let read = StoredSchedule::from_store(&change.name, 7, None, &text.to_string()).unwrap();
    assert_eq!(Some(read.record), change.kept(&[Put::Overlaps(JobId(7))], now));
}

#[test]
fn what_only_another_version_knows_does_not_cost_the_schedule() {
    let stored = stored(&spec("every 5m"));
    let mut text: serde_json::Value = serde_json::from_str(&stored.record.to_text()).unwrap();
    text["new"] = 1.into();
    text["spec"]["new"] = 1.into();
    text["spec"]["catch_up"]["new"] = 1.into();
    text["alert"] = serde_json::json!({ "at": 5, "what": { "struck": { "by": "lightning" } } });
    let read = StoredSchedule::from_store(stored.name(), stored.version, None, &text.to_string());
    assert_eq!(read, Some(stored));
}

#[test]
fn a_schedule_that_a_clock_decided_ahead_goes_on_from_now_by_another_text_or_a_resume() {
    let ahead = at("2028-06-01T09:00:00Z");
    let before = applied(&acts::declare(&spec("every 5m"), Origin::Code, None, ahead).unwrap());
    let now = at("2027-06-01T09:00:00Z");
    assert_eq!((before.record.decided_ahead(now), before.record.decided_ahead(ahead)), (Some(ahead), None));
    let other = applied(&acts::declare(&spec("every 1h"), Origin::Code, Some(&before), now).unwrap());
    assert_eq!(other.record.next_tick(now), Some(at("2027-06-01T10:00:00Z")));
    let paused = applied(&acts::pause(&before, None, None, now).unwrap());
    let resumed = applied(&acts::resume(&paused, now).unwrap());
    assert_eq!(resumed.record.next_tick(now), Some(at("2027-06-01T09:05:00Z")));
}

#[test]
fn what_comes_after_a_long_pause_is_counted_from_its_end() {
    let now = at("2027-06-01T09:00:00Z");
    let ten_years = Duration::from_secs(3_650 * 24 * 60 * 60);
    let paused = applied(&acts::pause(&stored(&spec("every 1s")), None, Some(ten_years), now).unwrap());
    let upcoming: Vec<_> = paused.record.upcoming(now).take(2).collect();
    assert_eq!(upcoming, [1, 2].map(|n| now.plus(ten_years).plus(Duration::from_secs(n))));
}

#[test]
fn jobs_by_hand_are_not_the_last_job() {
    let stored = stored(&spec("every 5m"));
    let new = [Put::Answered(EnqueueAnswer::New(JobId(8)))];
    let run = acts::run(&stored, &[at("2027-06-01T09:05:00Z")]);
    assert_eq!(run.last_job(&new, Some(JobId(7))), Some(JobId(7)));
    let firing = fire(&stored, at("2027-06-01T09:05:00Z")).unwrap();
    assert_eq!(firing.change.last_job(&new, Some(JobId(7))), Some(JobId(8)));
    assert_eq!(firing.change.last_job(&[], Some(JobId(7))), Some(JobId(7)));
}

#[test]
fn except_holidays_without_a_list_is_refused_when_it_is_declared_and_kept_if_it_was() {
    let spec = spec("daily at 09:30, except holidays");
    let why = spec.check().unwrap_err().to_string();
    assert!(why.contains("schedule nightly says `except holidays`"), "{why}");
    let stored = stored(&spec);
    let read = StoredSchedule::from_store(stored.name(), stored.version, None, &stored.record.to_text());
    assert_eq!(read, Some(stored));
}

#[test]
fn two_schedules_of_one_name_and_what_is_too_big_are_refused() {
    let twice = check_all(&[spec("every 5m"), spec("every 1h")]).unwrap_err().to_string();
    assert!(twice.contains("two of the name nightly"), "{twice}");
    let mut big = spec("every 5m");
    big.job.payload = Payload::encode(&"x".repeat(SCHEDULE_RECORD_BYTES_MAX)).unwrap();
    assert!(matches!(big.check(), Err(ScheduleSpecError::TooBig { .. })));
    let mut no_limit = spec("every 5m");
    no_limit.catch_up.limit = 0;
    assert!(no_limit.check().unwrap_err().to_string().contains("schedule nightly: expected a `limit`"));
    let mut no_time = spec("every 5m");
    no_time.job.timeout = Some(Duration::ZERO);
    assert!(no_time.check().unwrap_err().to_string().contains("time-out"));
}

#[test]
fn requests_that_no_store_could_apply_are_refused() {
    let stored = stored(&spec("every 5m"));
    let run = acts::run(&stored, &[at("2027-06-01T09:05:00Z"), at("2027-06-01T09:10:00Z")]);
    let why = |change: ScheduleChange| check_changes(&[change]).unwrap_err().to_string();
    assert!(why(ScheduleChange { overlap: Overlap::Skip, ..run.clone() }).contains("one job"));
    assert!(why(ScheduleChange { to: None, ..run.clone() }).contains("no jobs"));
    let twice = check_changes(&[run.clone(), run]).unwrap_err().to_string();
    assert!(twice.contains("nightly twice"), "{twice}");
}

#[test]
fn a_record_survives_its_text_and_one_of_another_name_or_that_no_store_would_take_is_damaged() {
    let holidays = Holidays::parse("2027-12-24 Christmas Eve\n2027-01-01 New Year\n").unwrap();
    let text = "daily at 09:30, except holidays, Europe/Berlin";
    let stored = stored(&ScheduleSpec { holidays, ..spec(text) });
    let kept = stored.record.to_text();
    assert_eq!(StoredSchedule::from_store(stored.name(), stored.version, None, &kept), Some(stored.clone()));
    let other = ScheduleName::parse("other").unwrap();
    assert_eq!(StoredSchedule::from_store(&other, 1, None, &kept), None);
    assert_eq!(StoredSchedule::from_store(stored.name(), 1, None, "{"), None);
    let mut wrong = stored.record.clone();
    wrong.spec.catch_up.limit = 0;
    assert_eq!(StoredSchedule::from_store(stored.name(), 1, None, &wrong.to_text()), None);
}

#[test]
fn a_version_is_never_given_again_to_a_schedule_that_was_removed_and_stored_again() {
    let now = at("2027-06-01T09:05:00Z");
    let first = next_version(0, now);
    assert!(next_version(0, now.plus(MINUTE)) > first);
    assert_eq!(next_version(first, now), first + 1);
}
