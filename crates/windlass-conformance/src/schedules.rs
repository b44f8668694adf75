//! Schedules: kept as declared, changed only by a process that has read the latest version, and one job for
//! each tick.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::engine::{Declaration, Hint};
use windlass_core::enqueue::{EnqueueAnswer, Refusal};
use windlass_core::job::{JobId, JobState};
use windlass_core::limits::{SCHEDULES_MAX, SCHEDULES_PER_CALL_MAX, TICK_KEPT};
use windlass_core::names::{ScheduleName, Tag};
use windlass_core::queue::QueueSpec;
use windlass_core::retry::RetryPolicy;
use windlass_core::schedule::{CatchUp, Holidays, Missed, Schedule};
use windlass_core::schedules::fire::{Firing, fire};
use windlass_core::schedules::{
    JobTemplate, Origin, Overlap, Put, ScheduleAlert, ScheduleChange, ScheduleChanged, ScheduleSpec,
    SchedulesRead, StoredSchedule, WhichSchedules, acts,
};

use crate::harness::*;

const NIGHTLY: &str = "nightly";
const MINUTE: Duration = Duration::from_secs(60);

fn name(text: &str) -> ScheduleName {
    ScheduleName::parse(text).expect("behaviours use plain names")
}

/// Creates a schedule of every minute that enqueues plain jobs.
fn every_minute(called: &str) -> ScheduleSpec {
    let schedule = Schedule::parse("every 1m").expect("the text is a schedule");
    ScheduleSpec::new(name(called), schedule, JobTemplate::new(type_name(WORK)))
}

async fn read(h: &Harness, which: WhichSchedules) -> SchedulesRead {
    let read = h.engine.schedules(&which).await.expect(UP);
    assert_eq!((read.now, &read.damaged[..]), (h.now(), &[][..]));
    read
}

async fn find(h: &Harness, called: &str) -> Option<StoredSchedule> {
    let mut found = read(h, WhichSchedules::Named(vec![name(called)])).await.schedules;
    assert!(found.len() <= 1);
    found.pop()
}

async fn stored(h: &Harness, called: &str) -> StoredSchedule {
    find(h, called).await.expect("the schedule was stored")
}

async fn due(h: &Harness) -> Vec<StoredSchedule> {
    read(h, WhichSchedules::Due(None, 1_000)).await.schedules
}

async fn change(h: &Harness, change: ScheduleChange) -> ScheduleChanged {
    only(h.engine.change_schedules(&[change]).await.expect(UP))
}

async fn apply(h: &Harness, wanted: ScheduleChange) -> Vec<Put> {
    match change(h, wanted).await {
        ScheduleChanged::Done { jobs, .. } => jobs,
        other => panic!("expected the change to be applied, got {other:?}"),
    }
}

async fn declare(h: &Harness, spec: &ScheduleSpec) -> StoredSchedule {
    let before = find(h, spec.name.as_str()).await;
    let wanted = acts::declare(spec, Origin::Code, before.as_ref(), h.now()).expect("the schedule is new");
    apply(h, wanted).await;
    stored(h, spec.name.as_str()).await
}

/// Decides about a schedule a minute later.
async fn a_minute_later(h: &Harness, called: &str) -> Firing {
    h.advance(MINUTE);
    fire(&stored(h, called).await, h.now()).expect("a tick has come")
}

/// Lets a minute pass, and the tick that comes enqueue its job.
async fn tick(h: &Harness, called: &str) -> Put {
    only(apply(h, a_minute_later(h, called).await.change).await)
}

fn new_job(put: &Put) -> JobId {
    put.new_job().unwrap_or_else(|| panic!("expected a new job, got {put:?}"))
}

async fn unfinished(h: &Harness) -> u64 {
    let counts = h.counts().await;
    counts.ready + counts.scheduled + counts.running
}

pub async fn a_fresh_store_has_no_schedules(h: &Harness) {
    let all = read(h, WhichSchedules::After(None, 10)).await;
    assert_eq!((all.schedules.len(), all.next), (0, None));
    assert_eq!(find(h, NIGHTLY).await, None);
    assert_eq!(due(h).await, []);
}

pub async fn a_schedule_is_kept_as_it_was_declared(h: &Harness) {
    let text = "daily at 02:00, except holidays, Europe/Berlin";
    let spec = ScheduleSpec {
        name: name(NIGHTLY),
        schedule: Schedule::parse(text).expect("the text is a schedule"),
        holidays: Holidays::parse("2027-12-24 Christmas Eve\n").expect("the text is a list"),
        job: JobTemplate {
            payload: payload("{\"n\": 18446744073709551615, \"ä\": \"\\n'\"}"),
            queue: Some(queue(MAIN)),
            priority: Some(level(2)),
            tags: vec![Tag::parse("übernacht").expect("a plain tag")],
            timeout: Some(Duration::from_secs(90)),
            retry: Some(RetryPolicy::default().with_attempts(2)),
            provenance: provenance(),
            ..JobTemplate::new(type_name(WORK))
        },
        catch_up: CatchUp {
            missed: Missed::RunAll,
            limit: 7,
            lateness: Some(60 * MINUTE),
            grace: 2 * MINUTE,
        },
        overlap: Overlap::Replace,
    };
    let kept = declare(h, &spec).await;
    assert_eq!((&kept.record.spec, kept.record.origin, kept.last_job), (&spec, Origin::Code, None));
    assert_eq!((kept.record.stored_at, kept.record.decided_until), (h.now(), h.now()));
    assert!(kept.version > 0);
    let listed = read(h, WhichSchedules::After(None, 10)).await;
    assert_eq!((listed.next, only(listed.schedules)), (kept.record.look_at(), kept));
}

pub async fn schedules_are_listed_by_name_page_by_page(h: &Harness) {
    for called in ["b", "a-1", "c", "a_1", "a.1"] {
        declare(h, &every_minute(called)).await;
    }
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = read(h, WhichSchedules::After(after.clone(), 2)).await;
        assert!(page.schedules.len() <= 2);
        after = page.end;
        if after.is_none() {
            break;
        }
        names.extend(page.schedules.iter().map(|schedule| schedule.name().to_string()));
    }
    assert_eq!(names, ["a-1", "a.1", "a_1", "b", "c"]);
}

pub async fn what_is_due_comes_longest_due_first_and_the_next_is_told(h: &Harness) {
    let spans = [("slow", "every 3m"), ("quick", "every 1m"), ("middle", "every 2m")];
    for (called, text) in spans {
        let schedule = Schedule::parse(text).expect("the text is a schedule");
        declare(h, &ScheduleSpec { schedule, ..every_minute(called) }).await;
    }
    let first = read(h, WhichSchedules::Due(None, 10)).await;
    assert_eq!(first.schedules, []);
    let next = first.next.expect("the schedule has a next tick");
    h.advance(next.since(h.now()));
    assert!(!due(h).await.is_empty(), "the schedule is due at exactly the returned instant");
    h.advance(10 * MINUTE);
    let all = read(h, WhichSchedules::Due(None, 10)).await;
    let looks: Vec<_> = all.schedules.iter().map(|schedule| schedule.record.look_at()).collect();
    assert!(looks.is_sorted() && looks.len() == 3, "{looks:?}");
    assert_eq!(all.next, None);
    assert_eq!(read(h, WhichSchedules::Due(None, 2)).await.schedules, all.schedules[..2]);
}

pub async fn what_is_due_can_be_passed_over_page_by_page(h: &Harness) {
    for called in ["b", "a-1", "c", "a_1", "a.1", "d", "a"] {
        declare(h, &every_minute(called)).await;
    }
    h.advance(Duration::from_secs(1));
    let schedule = Schedule::parse("every 1m from 2020-01-01T00:00:07Z").expect("the text is a schedule");
    declare(h, &ScheduleSpec { schedule, ..every_minute("0") }).await;
    h.advance(MINUTE);
    let all: Vec<_> = due(h).await.iter().map(|schedule| schedule.name().to_string()).collect();
    assert_eq!(all.len(), 8);
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = read(h, WhichSchedules::Due(after.clone(), 3)).await;
        assert!(page.schedules.len() <= 3);
        after = page.end;
        if after.is_none() {
            break;
        }
        names.extend(page.schedules.iter().map(|schedule| schedule.name().to_string()));
    }
    assert_eq!(names, all, "each once, though no process has fired any");
}

pub async fn a_tick_makes_its_job_and_the_schedule_is_due_no_more(h: &Harness) {
    declare(h, &every_minute(NIGHTLY)).await;
    let firing = a_minute_later(h, NIGHTLY).await;
    let id = new_job(&only(apply(h, firing.change.clone()).await));
    assert_eq!(h.job_state_of(id).await, JobState::Ready);
    let after = stored(h, NIGHTLY).await;
    assert_eq!((after.last_job, after.record.last_tick), (Some(id), firing.change.ticks.last().copied()));
    assert_eq!((due(h).await, after.record.decided_until), (vec![], h.now()));
    assert_eq!(h.claim_one().await.job.id, id);
}

pub async fn every_field_of_a_template_reaches_the_job(h: &Harness) {
    let mut spec = every_minute(NIGHTLY);
    spec.job = JobTemplate {
        payload: payload("{\"big\": 18446744073709551615}"),
        queue: Some(queue(OTHER)),
        priority: Some(level(1)),
        tags: vec![Tag::parse("a").expect("a plain tag")],
        timeout: Some(Duration::from_secs(5)),
        retry: Some(RetryPolicy::default().with_attempts(9)),
        ..JobTemplate::new(type_name(OTHER_WORK))
    };
    declare(h, &spec).await;
    let firing = a_minute_later(h, NIGHTLY).await;
    let at = firing.change.ticks[0];
    let job = h.record(new_job(&only(apply(h, firing.change).await))).await.job;
    assert_eq!((job.job_type, job.queue), (spec.job.job_type, queue(OTHER)));
    assert_eq!((job.payload, job.priority, job.tags), (spec.job.payload, level(1), spec.job.tags));
    assert_eq!((job.timeout, job.retry, job.due), (spec.job.timeout, spec.job.retry, h.now()));
    let called = stored(h, NIGHTLY).await.record.job_of(at);
    assert_eq!((job.key, job.correlation), (called.key, called.correlation));
}

pub async fn of_many_who_fire_one_tick_one_makes_its_job(h: &Harness) {
    declare(h, &every_minute(NIGHTLY)).await;
    for round in 1..=5 {
        let decided = a_minute_later(h, NIGHTLY).await.change;
        let firers = (0..8).map(|_| {
            let (engine, decided) = (Arc::clone(&h.engine), [decided.clone()]);
            async move { only(engine.change_schedules(&decided).await.expect(UP)) }
        });
        let answers = h.at_once(firers.collect()).await;
        let applied = answers.iter().filter(|answer| **answer != ScheduleChanged::Changed).count();
        assert_eq!((applied, unfinished(h).await), (1, round), "{answers:?}");
    }
}

pub async fn a_decision_whose_answer_was_lost_makes_no_second_job(h: &Harness) {
    declare(h, &every_minute(NIGHTLY)).await;
    let decided = a_minute_later(h, NIGHTLY).await.change;
    apply(h, decided.clone()).await;
    h.succeed(&h.claim_one().await).await;
    assert_eq!(change(h, decided.clone()).await, ScheduleChanged::Changed);
    h.advance(Duration::from_secs(2 * 60 * 60));
    h.prune().await;
    assert_eq!(change(h, decided).await, ScheduleChanged::Changed);
    assert_eq!(unfinished(h).await, 0);
}

pub async fn a_decision_made_before_a_pause_writes_nothing(h: &Harness) {
    let before = declare(h, &every_minute(NIGHTLY)).await;
    let decided = a_minute_later(h, NIGHTLY).await.change;
    apply(h, acts::pause(&before, Some("not today"), None, h.now()).expect("it runs")).await;
    assert_eq!(change(h, decided).await, ScheduleChanged::Changed);
    assert_eq!(unfinished(h).await, 0);
    let paused = stored(h, NIGHTLY).await;
    let pause = paused.record.pause.clone().expect("the schedule is paused");
    assert_eq!((pause.since, pause.reason.as_deref()), (h.now(), Some("not today")));
    h.advance(60 * MINUTE);
    assert_eq!(due(h).await, []);
    apply(h, acts::resume(&paused, h.now()).expect("the schedule is paused")).await;
    assert_eq!(due(h).await, []);
    new_job(&tick(h, NIGHTLY).await);
}

pub async fn a_schedule_that_was_stored_anew_takes_no_old_decision(h: &Harness) {
    let first = declare(h, &every_minute(NIGHTLY)).await;
    let decided = a_minute_later(h, NIGHTLY).await.change;
    apply(h, acts::remove(first.name(), first.version)).await;
    assert_eq!(find(h, NIGHTLY).await, None);
    assert_eq!(change(h, decided.clone()).await, ScheduleChanged::Changed);
    let second = declare(h, &every_minute(NIGHTLY)).await;
    assert!(second.version > first.version);
    assert_eq!(change(h, decided).await, ScheduleChanged::Changed);
    assert_eq!(unfinished(h).await, 0);
}

pub async fn a_schedule_stored_by_two_at_once_is_stored_once(h: &Harness) {
    let (now, spec) = (h.now(), every_minute(NIGHTLY));
    let wanted = acts::declare(&spec, Origin::Cli, None, now).expect("the schedule is new");
    let callers = (0..6).map(|_| {
        let (engine, wanted) = (Arc::clone(&h.engine), [wanted.clone()]);
        async move { only(engine.change_schedules(&wanted).await.expect(UP)) }
    });
    let answers = h.at_once(callers.collect()).await;
    let stored = answers.iter().filter(|answer| matches!(answer, ScheduleChanged::Done { .. })).count();
    assert_eq!(stored, 1, "{answers:?}");
    assert_eq!(acts::declare(&spec, Origin::Cli, find(h, NIGHTLY).await.as_ref(), now), None);
}

pub async fn a_tick_that_made_its_job_makes_no_second_one_for_a_month(h: &Harness) {
    declare(h, &every_minute(NIGHTLY)).await;
    let firing = a_minute_later(h, NIGHTLY).await;
    let (at, id) = (firing.change.ticks[0], new_job(&only(apply(h, firing.change).await)));
    h.succeed(&h.claim_one().await).await;
    let again = |schedule: StoredSchedule| acts::run(&schedule, &[at]);
    h.advance(TICK_KEPT - 2 * MINUTE);
    while h.prune().await > 0 {}
    let put = only(apply(h, again(stored(h, NIGHTLY).await)).await);
    assert_eq!(put, Put::Answered(EnqueueAnswer::Duplicate(id)));
    h.advance(3 * MINUTE);
    while h.prune().await > 0 {}
    let put = only(apply(h, again(stored(h, NIGHTLY).await)).await);
    assert_ne!(new_job(&put), id);
}

pub async fn jobs_by_hand_are_no_ticks_and_later_ticks_do_not_mind_them(h: &Harness) {
    declare(h, &ScheduleSpec { overlap: Overlap::Skip, ..every_minute(NIGHTLY) }).await;
    let by_hand = |schedule: StoredSchedule| acts::run(&schedule, &[h.now()]);
    let before = new_job(&only(apply(h, by_hand(stored(h, NIGHTLY).await)).await));
    assert_eq!(stored(h, NIGHTLY).await.last_job, None);
    let first = new_job(&tick(h, NIGHTLY).await);
    h.advance(Duration::from_secs(1));
    let after = new_job(&only(apply(h, by_hand(stored(h, NIGHTLY).await)).await));
    assert_eq!(stored(h, NIGHTLY).await.last_job, Some(first));
    for id in [before, after] {
        h.engine.cancel(id, "enough").await.expect(UP);
    }
    assert_eq!(tick(h, NIGHTLY).await, Put::Overlaps(first), "the job of the last tick is still live");
}

pub async fn ticks_of_a_range_make_a_job_each_and_none_twice(h: &Harness) {
    let schedule = declare(h, &every_minute(NIGHTLY)).await;
    let minutes = |range: std::ops::Range<u32>| -> Vec<Timestamp> {
        range.map(|n| h.now().minus(n * MINUTE)).collect()
    };
    let first = apply(h, acts::run(&schedule, &minutes(0..50))).await;
    assert_eq!(first.iter().filter_map(Put::new_job).count(), 50);
    let second = apply(h, acts::run(&stored(h, NIGHTLY).await, &minutes(40..60))).await;
    assert_eq!(second.iter().filter_map(Put::new_job).count(), 10);
    assert_eq!(unfinished(h).await, 60);
}

pub async fn a_job_that_is_refused_does_not_spoil_the_others(h: &Harness) {
    let mut unknown = every_minute("unknown");
    unknown.job.job_type = type_name("unregistered");
    let mut full = every_minute("full");
    full.job.job_type = type_name(SMALL_WORK);
    for spec in [&unknown, &full, &every_minute("good")] {
        declare(h, spec).await;
    }
    for _ in 0..SMALL_CAPACITY {
        h.enqueue(job_of(SMALL_WORK)).await;
    }
    h.advance(MINUTE);
    let firings: Vec<_> = due(h).await.iter().filter_map(|schedule| fire(schedule, h.now())).collect();
    let changes: Vec<_> = firings.iter().map(|firing| firing.change.clone()).collect();
    let answers = h.engine.change_schedules(&changes).await.expect(UP);
    let mut refused = Vec::new();
    for (firing, answer) in firings.iter().zip(&answers) {
        let ScheduleChanged::Done { jobs, .. } = answer else { panic!("expected Done, got {answer:?}") };
        match &jobs[..] {
            [Put::Answered(EnqueueAnswer::New(_))] => assert_eq!(firing.change.name, name("good")),
            [Put::Answered(EnqueueAnswer::Refused(why))] => {
                refused.push((firing.change.name.clone(), why.clone()))
            }
            other => panic!("expected a job or a refusal, got {other:?}"),
        }
    }
    refused.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(
        matches!(&refused[..], [(_, Refusal::QueueFull { .. }), (_, Refusal::UnknownType { .. })]),
        "{refused:?}"
    );
    let alert = stored(h, "unknown").await.record.alert.expect("the alert was stored with the firing");
    let tick =
        firings.iter().find(|firing| firing.change.name == name("unknown")).map(|one| one.change.ticks[0]);
    assert!(
        matches!(&alert.what, ScheduleAlert::Refused { tick: told, .. } if Some(*told) == tick),
        "{alert:?}"
    );
    assert_eq!(alert.at, h.now());
    assert!(stored(h, "full").await.record.alert.is_some());
    assert_eq!(stored(h, "good").await.record.alert, None);
    assert_eq!(due(h).await, []);
}

pub async fn a_tick_is_left_out_while_the_last_job_is_live(h: &Harness) {
    declare(h, &ScheduleSpec { overlap: Overlap::Skip, ..every_minute(NIGHTLY) }).await;
    let first = new_job(&tick(h, NIGHTLY).await);
    assert_eq!(tick(h, NIGHTLY).await, Put::Overlaps(first), "it waits");
    let claimed = h.claim_one().await;
    assert_eq!(tick(h, NIGHTLY).await, Put::Overlaps(first), "it runs");
    assert_eq!(stored(h, NIGHTLY).await.last_job, Some(first));
    h.park(&claimed, "breaker:anything").await;
    assert_eq!(tick(h, NIGHTLY).await, Put::Overlaps(first), "the job is parked");
    h.engine.cancel(first, "enough").await.expect(UP);
    let second = new_job(&tick(h, NIGHTLY).await);
    h.bury(&h.claim_one().await).await;
    assert_eq!(h.job_state_of(second).await, JobState::Dead);
    new_job(&tick(h, NIGHTLY).await);
}

pub async fn a_tick_that_is_left_out_is_told_once_by_the_step_that_fires(h: &Harness) {
    declare(h, &ScheduleSpec { overlap: Overlap::Skip, ..every_minute(NIGHTLY) }).await;
    let job = new_job(&tick(h, NIGHTLY).await);
    assert_eq!(stored(h, NIGHTLY).await.record.alert, None);
    tick(h, NIGHTLY).await;
    let told = stored(h, NIGHTLY).await.record;
    let alert =
        told.alert.clone().expect("the alert is stored, since no other process may be there to report it");
    let tick_left_out = told.last_tick.expect("the tick was processed");
    assert_eq!(
        (alert.at, alert.what.clone()),
        (h.now(), ScheduleAlert::Overlaps { tick: tick_left_out, job })
    );
    tick(h, NIGHTLY).await;
    assert_eq!(stored(h, NIGHTLY).await.record.alert, Some(alert), "one alert for each live job");
}

pub async fn a_waiting_job_gives_way_to_that_of_the_next_tick(h: &Harness) {
    declare(h, &ScheduleSpec { overlap: Overlap::Replace, ..every_minute(NIGHTLY) }).await;
    let first = new_job(&tick(h, NIGHTLY).await);
    let second = new_job(&tick(h, NIGHTLY).await);
    assert_eq!(h.why_cancelled(first).await, "replaced by the next tick of schedule nightly");
    assert_eq!((h.job_state_of(second).await, unfinished(h).await), (JobState::Ready, 1));
    assert_eq!(stored(h, NIGHTLY).await.last_job, Some(second));
}

pub async fn a_running_job_does_not_give_way(h: &Harness) {
    declare(h, &ScheduleSpec { overlap: Overlap::Replace, ..every_minute(NIGHTLY) }).await;
    let first = new_job(&tick(h, NIGHTLY).await);
    let claimed = h.claim_one().await;
    let second = new_job(&tick(h, NIGHTLY).await);
    assert_eq!(
        (h.job_state_of(first).await, h.job_state_of(second).await),
        (JobState::Running, JobState::Ready)
    );
    h.succeed(&claimed).await;
    assert_eq!(h.job_state_of(first).await, JobState::Succeeded);
}

pub async fn a_waiting_job_does_not_give_way_to_one_that_is_refused(h: &Harness) {
    declare(h, &ScheduleSpec { overlap: Overlap::Replace, ..every_minute(NIGHTLY) }).await;
    let first = new_job(&tick(h, NIGHTLY).await);
    h.engine.set_shut(&queue(MAIN), true).await.expect(UP);
    let refused = tick(h, NIGHTLY).await;
    assert!(
        matches!(refused, Put::Answered(EnqueueAnswer::Refused(Refusal::QueueShut { .. }))),
        "{refused:?}"
    );
    assert_eq!((h.job_state_of(first).await, unfinished(h).await), (JobState::Ready, 1));
    h.engine.set_shut(&queue(MAIN), false).await.expect(UP);
    let second = new_job(&tick(h, NIGHTLY).await);
    assert_eq!(
        (h.job_state_of(first).await, h.job_state_of(second).await),
        (JobState::Cancelled, JobState::Ready)
    );
}

pub async fn a_tick_that_was_filled_before_it_was_seen_keeps_its_job(h: &Harness) {
    declare(h, &ScheduleSpec { overlap: Overlap::Replace, ..every_minute(NIGHTLY) }).await;
    new_job(&tick(h, NIGHTLY).await);
    let at = a_minute_later(h, NIGHTLY).await.change.ticks[0];
    let filled = new_job(&only(apply(h, acts::run(&stored(h, NIGHTLY).await, &[at])).await));
    let seen = fire(&stored(h, NIGHTLY).await, h.now()).expect("no process has fired the tick");
    assert_eq!(only(apply(h, seen.change).await), Put::Answered(EnqueueAnswer::Duplicate(filled)));
    assert_eq!(h.job_state_of(filled).await, JobState::Ready);
}

/// Creates a schedule whose job is in a queue without room for another.
async fn last_of_a_full_queue(h: &Harness) -> JobId {
    let mut spec = ScheduleSpec { overlap: Overlap::Replace, ..every_minute(NIGHTLY) };
    spec.job.job_type = type_name(SMALL_WORK);
    declare(h, &spec).await;
    for _ in 1..SMALL_CAPACITY {
        h.enqueue(job_of(SMALL_WORK)).await;
    }
    new_job(&tick(h, NIGHTLY).await)
}

pub async fn a_full_queue_lets_in_what_takes_the_place_of_another(h: &Harness) {
    let first = last_of_a_full_queue(h).await;
    let second = new_job(&tick(h, NIGHTLY).await);
    assert_eq!(
        (h.job_state_of(first).await, h.job_state_of(second).await),
        (JobState::Cancelled, JobState::Ready)
    );
    let third = new_job(&tick(h, NIGHTLY).await);
    assert_eq!(
        (h.job_state_of(second).await, h.job_state_of(third).await),
        (JobState::Cancelled, JobState::Ready)
    );
}

pub async fn a_queue_that_stays_full_keeps_the_job_that_waits(h: &Harness) {
    let first = last_of_a_full_queue(h).await;
    let smaller = QueueSpec { capacity: Some(1), ..QueueSpec::new(queue(SMALL)) };
    h.engine.declare(Declaration { queues: vec![smaller], types: Vec::new() }).await.expect(UP);
    let refused = tick(h, NIGHTLY).await;
    assert!(
        matches!(refused, Put::Answered(EnqueueAnswer::Refused(Refusal::QueueFull { .. }))),
        "{refused:?}"
    );
    assert_eq!(h.job_state_of(first).await, JobState::Ready);
    assert_eq!(stored(h, NIGHTLY).await.last_job, Some(first));
}

pub async fn a_whole_batch_of_schedules_is_fired_by_one_call(h: &Harness) {
    let called = |n: usize| format!("s{n:03}");
    let specs = (0..SCHEDULES_PER_CALL_MAX).map(|n| every_minute(&called(n)));
    let declared =
        specs.map(|spec| acts::declare(&spec, Origin::Code, None, h.now()).expect("the schedule is new"));
    h.engine.change_schedules(&declared.collect::<Vec<_>>()).await.expect(UP);
    h.advance(MINUTE);
    let due = due(h).await;
    assert_eq!(due.len(), SCHEDULES_PER_CALL_MAX);
    let changes: Vec<_> =
        due.iter().filter_map(|schedule| fire(schedule, h.now())).map(|f| f.change).collect();
    let answers = h.engine.change_schedules(&changes).await.expect(UP);
    let made = answers.iter().filter(|answer| match answer {
        ScheduleChanged::Done { jobs, .. } => matches!(&jobs[..], [put] if put.new_job().is_some()),
        ScheduleChanged::Changed | ScheduleChanged::NoRoom => false,
    });
    assert_eq!((made.count(), unfinished(h).await), (SCHEDULES_PER_CALL_MAX, SCHEDULES_PER_CALL_MAX as u64));
}

pub async fn wrong_changes_are_refused_whole(h: &Harness) {
    let schedule = declare(h, &every_minute(NIGHTLY)).await;
    let run = acts::run(&schedule, &[h.now()]);
    let mut wrong = every_minute("wrong");
    wrong.catch_up.limit = 0;
    let wrong = acts::declare(&wrong, Origin::Code, None, h.now()).expect("the schedule is new");
    for refused in [
        vec![run.clone(), run.clone()],
        vec![run.clone(), wrong],
        vec![ScheduleChange { to: None, ..run.clone() }],
    ] {
        assert!(h.engine.change_schedules(&refused).await.is_err(), "{refused:?}");
    }
    let many = vec![name(NIGHTLY); SCHEDULES_PER_CALL_MAX + 1];
    assert!(h.engine.schedules(&WhichSchedules::Named(many)).await.is_err());
    assert_eq!((unfinished(h).await, stored(h, NIGHTLY).await), (0, schedule));
    assert_eq!(h.engine.change_schedules(&[]).await.expect(UP), []);
}

pub async fn a_store_keeps_a_limited_number_of_schedules(h: &Harness) {
    let names: Vec<_> = (0..SCHEDULES_MAX).map(|n| format!("s{n}")).collect();
    for part in names.chunks(SCHEDULES_PER_CALL_MAX) {
        let declared = part.iter().map(|called| {
            acts::declare(&every_minute(called), Origin::Code, None, h.now()).expect("the schedule is new")
        });
        h.engine.change_schedules(&declared.collect::<Vec<_>>()).await.expect(UP);
    }
    let one_more =
        acts::declare(&every_minute("more"), Origin::Code, None, h.now()).expect("the schedule is new");
    assert_eq!(change(h, one_more.clone()).await, ScheduleChanged::NoRoom);
    let seventh = stored(h, "s7").await;
    apply(h, acts::remove(seventh.name(), seventh.version)).await;
    apply(h, one_more).await;
}

pub async fn a_job_of_a_schedule_is_hinted(h: &Harness) {
    declare(h, &every_minute(NIGHTLY)).await;
    let log = h.listen();
    new_job(&tick(h, NIGHTLY).await);
    log.wait_for(&Hint::Queue(queue(MAIN)));
}
