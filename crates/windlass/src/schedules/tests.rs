use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use windlass_core::admin::Changed;
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Declaration, Engine};
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::names::{QueueName, ScheduleName, TypeName};
use windlass_core::queue::QueueSpec;
use windlass_core::schedule::{CatchUp, Missed, Schedule};
use windlass_core::schedules::{JobTemplate, Origin, Overlap, Put, ScheduleAlert, ScheduleSpec};
use windlass_engines::memory::MemoryEngine;

use super::duty::ScheduleDuty;
use super::{Declared, Schedules, SchedulesError};
use crate::TypeSpec;
use crate::alerts::{Alert, Alerts};

const MINUTE: Duration = Duration::from_secs(60);

struct Scenario {
    clock: Arc<ManualClock>,
    engine: Arc<dyn Engine>,
    schedules: Schedules,
}

impl Scenario {
    async fn new() -> Self {
        let start = Timestamp::parse("2027-06-01T09:00:00Z").unwrap();
        let clock = Arc::new(ManualClock::starting_at(start));
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::with_clock(clock.clone()));
        let queue = QueueName::parse("main").unwrap();
        let types = vec![TypeSpec::new(TypeName::parse("work").unwrap(), queue.clone())];
        engine.declare(Declaration { queues: vec![QueueSpec::new(queue)], types }).await.unwrap();
        Self { clock, schedules: Schedules::new(Arc::clone(&engine)), engine }
    }

    fn duty(&self) -> ScheduleDuty {
        ScheduleDuty::new(Arc::clone(&self.engine), Alerts::default())
    }

    async fn ready(&self) -> u64 {
        self.engine.queues().await.unwrap()[0].counts.ready
    }
}

fn name(text: &str) -> ScheduleName {
    ScheduleName::parse(text).unwrap()
}

fn spec(called: &str, text: &str) -> ScheduleSpec {
    let job = JobTemplate::new(TypeName::parse("work").unwrap());
    ScheduleSpec::new(name(called), Schedule::parse(text).unwrap(), job)
}

#[tokio::test]
async fn a_thousand_schedules_that_are_due_at_once_are_fired_by_one_run_and_by_no_other() {
    let scenario = Scenario::new().await;
    let specs: Vec<_> = (0..1_000).map(|n| spec(&format!("s{n}"), "every 1h")).collect();
    scenario.schedules.declare(&specs, Origin::Code).await.unwrap();
    assert_eq!(scenario.duty().run(|| true).await.unwrap().next, Some(60 * MINUTE));
    scenario.clock.advance(60 * MINUTE);
    let fired = scenario.duty().run(|| true).await.unwrap();
    assert_eq!((fired.jobs, fired.next), (1_000, Some(60 * MINUTE)));
    assert_eq!((scenario.duty().run(|| true).await.unwrap().jobs, scenario.ready().await), (0, 1_000));
}

#[tokio::test]
async fn two_who_fire_at_once_make_one_job_of_each_tick() {
    let scenario = Scenario::new().await;
    let specs: Vec<_> = (0..50).map(|n| spec(&format!("s{n}"), "every 1m")).collect();
    scenario.schedules.declare(&specs, Origin::Code).await.unwrap();
    for round in 1..=5_u64 {
        scenario.clock.advance(MINUTE);
        let (one, other) = (scenario.duty(), scenario.duty());
        let (one, other) = tokio::join!(one.run(|| true), other.run(|| true));
        assert_eq!(one.unwrap().jobs + other.unwrap().jobs, 50);
        assert_eq!(scenario.ready().await, 50 * round);
    }
}

#[tokio::test]
async fn catching_up_on_more_than_one_request_holds_goes_on_in_the_next() {
    let scenario = Scenario::new().await;
    let catch_up = CatchUp { missed: Missed::RunAll, limit: 700, ..CatchUp::default() };
    let specs = ["a", "b", "c"].map(|called| ScheduleSpec { catch_up, ..spec(called, "every 1m") });
    scenario.schedules.declare(&specs, Origin::Code).await.unwrap();
    scenario.clock.advance(24 * 60 * MINUTE);
    // The ticks of the last minute were seen in time.
    assert_eq!(scenario.duty().run(|| true).await.unwrap().jobs, 3 * 702);
    let alert = scenario.schedules.find(&name("b")).await.unwrap().0.record.alert.unwrap();
    assert!(matches!(alert.what, ScheduleAlert::Missed { count: 1_438, .. }), "{alert:?}");
}

#[tokio::test]
async fn a_run_that_is_to_end_ends_between_two_requests_and_the_next_one_goes_on() {
    let scenario = Scenario::new().await;
    let catch_up = CatchUp { missed: Missed::RunAll, limit: 700, ..CatchUp::default() };
    let specs = ["a", "b", "c"].map(|called| ScheduleSpec { catch_up, ..spec(called, "every 1m") });
    scenario.schedules.declare(&specs, Origin::Code).await.unwrap();
    scenario.clock.advance(24 * 60 * MINUTE);
    let left = AtomicU32::new(1);
    let once = || left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
    let fired = scenario.duty().run(once).await.unwrap();
    assert_eq!((fired.jobs, fired.next), (702, Some(Duration::ZERO)));
    assert_eq!(scenario.duty().run(|| true).await.unwrap().jobs, 2 * 702);
}

#[tokio::test]
async fn others_on_the_same_thread_go_on_while_many_schedules_are_decided() {
    let scenario = Scenario::new().await;
    let specs: Vec<_> = (0..100).map(|n| spec(&format!("s{n}"), "every 1h")).collect();
    scenario.schedules.declare(&specs, Origin::Code).await.unwrap();
    scenario.clock.advance(60 * MINUTE);
    let turns = Arc::new(AtomicU32::new(0));
    let other = tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, SeqCst);
                tokio::task::yield_now().await;
            }
        }
    });
    assert_eq!(scenario.duty().run(|| true).await.unwrap().jobs, 100);
    other.abort();
    assert!(turns.load(SeqCst) >= 100, "the other task ran after each");
}

#[tokio::test]
async fn a_schedule_of_an_unknown_type_is_kept_and_reported_and_the_others_go_on() {
    let scenario = Scenario::new().await;
    let mut unknown = spec("unknown", "every 1m");
    unknown.job.job_type = TypeName::parse("unregistered").unwrap();
    scenario.schedules.declare(&[unknown, spec("good", "every 1m")], Origin::Code).await.unwrap();
    scenario.clock.advance(MINUTE);
    assert_eq!(scenario.duty().run(|| true).await.unwrap().jobs, 1);
    let (kept, now) = scenario.schedules.find(&name("unknown")).await.unwrap();
    let alert = kept.record.alert.unwrap();
    assert_eq!((alert.at, now), (scenario.clock.now(), scenario.clock.now()));
    assert!(alert.what.to_string().contains("got unregistered"), "{alert:?}");
    assert_eq!(scenario.schedules.find(&name("good")).await.unwrap().0.record.alert, None);
}

#[tokio::test]
async fn a_tick_that_is_left_out_raises_an_alert_once_for_each_job_that_is_in_its_way() {
    let scenario = Scenario::new().await;
    let skips = ScheduleSpec { overlap: Overlap::Skip, ..spec("a", "every 1m") };
    scenario.schedules.declare(&[skips], Origin::Code).await.unwrap();
    let (alerts, mut raised) = Alerts::captured();
    let duty = ScheduleDuty::new(Arc::clone(&scenario.engine), alerts);
    for jobs in [1, 0, 0] {
        scenario.clock.advance(MINUTE);
        assert_eq!(duty.run(|| true).await.unwrap().jobs, jobs);
    }
    drop(duty);
    let alert = raised.recv().await;
    let Some(Alert::Schedule { schedule, what: ScheduleAlert::Overlaps { .. } }) = alert else {
        panic!("expected an overlap, got {alert:?}")
    };
    assert_eq!(schedule, name("a"));
    assert_eq!(raised.recv().await, None, "once");
}

#[tokio::test]
async fn what_code_no_longer_declares_is_told_and_what_others_declared_is_not() {
    let scenario = Scenario::new().await;
    let (a, b, c) = (spec("a", "every 1m"), spec("b", "every 1m"), spec("c", "every 1m"));
    scenario.schedules.declare(&[a.clone(), b], Origin::Code).await.unwrap();
    scenario.schedules.declare(&[c], Origin::Cli).await.unwrap();
    assert_eq!(scenario.schedules.undeclared(&[a], Origin::Code).await.unwrap(), [name("b")]);
}

#[tokio::test]
async fn declaring_again_changes_nothing_and_what_is_left_out_stays() {
    let scenario = Scenario::new().await;
    let declare = |specs: Vec<ScheduleSpec>| {
        let schedules = scenario.schedules.clone();
        async move { schedules.declare(&specs, Origin::Code).await.unwrap() }
    };
    let (a, b) = (spec("a", "every 1m"), spec("b", "every 1m"));
    assert_eq!(
        declare(vec![a.clone(), b.clone()]).await,
        [(name("a"), Declared::New), (name("b"), Declared::New)]
    );
    assert_eq!(declare(vec![a]).await, [(name("a"), Declared::Unchanged)]);
    assert_eq!(declare(vec![spec("a", "every 2m")]).await, [(name("a"), Declared::Updated)]);
    assert_eq!(scenario.schedules.all().await.unwrap().schedules.len(), 2);
}

#[tokio::test]
async fn two_schedules_of_one_name_are_refused_before_anything_is_stored() {
    let scenario = Scenario::new().await;
    let twice = [spec("c", "every 1m"), spec("a", "every 1m"), spec("a", "every 2m")];
    let error = scenario.schedules.declare(&twice, Origin::Code).await.unwrap_err();
    assert!(matches!(error, SchedulesError::Spec(_)), "{error}");
    assert_eq!(scenario.schedules.all().await.unwrap().schedules, []);
}

#[tokio::test]
async fn people_pause_resume_skip_run_fill_and_remove() {
    let scenario = Scenario::new().await;
    let (schedules, a) = (&scenario.schedules, name("a"));
    schedules.declare(&[spec("a", "every 1m")], Origin::Cli).await.unwrap();
    assert_eq!(schedules.pause(&a, Some("why"), None).await.unwrap(), Changed::Done);
    assert_eq!(schedules.pause(&a, Some("why"), None).await.unwrap(), Changed::Unchanged);
    scenario.clock.advance(5 * MINUTE);
    assert_eq!(scenario.duty().run(|| true).await.unwrap().jobs, 0);
    let (now, put) = schedules.run(&a).await.unwrap();
    assert!(put.new_job().is_some() && now == scenario.clock.now(), "{put:?}");
    assert_eq!(schedules.resume(&a).await.unwrap(), Changed::Done);
    assert_eq!(schedules.skip_next(&a).await.unwrap(), Some(now.plus(MINUTE)));
    scenario.clock.advance(2 * MINUTE);
    assert_eq!(scenario.duty().run(|| true).await.unwrap().jobs, 1, "one of two ticks was skipped");
    let ticks = schedules.ticks_of(&a, now, scenario.clock.now()).await.unwrap();
    let put = schedules.run_ticks(&a, &ticks).await.unwrap();
    let kept = put.iter().filter(|put| matches!(put, Put::Answered(EnqueueAnswer::Duplicate(_)))).count();
    assert_eq!((put.len(), kept), (2, 1), "the first was run by a person, the second was skipped");
    assert_eq!(schedules.remove(&a).await.unwrap(), Changed::Done);
    assert_eq!(schedules.remove(&a).await.unwrap(), Changed::NotFound);
    assert!(matches!(schedules.run(&a).await, Err(SchedulesError::Unknown(_))));
}

#[tokio::test]
async fn a_century_is_not_filled() {
    let scenario = Scenario::new().await;
    scenario.schedules.declare(&[spec("a", "every 1m")], Origin::Cli).await.unwrap();
    let ago = scenario.clock.now().minus(Duration::from_secs(100 * 366 * 24 * 60 * 60));
    let error = scenario.schedules.ticks_of(&name("a"), ago, scenario.clock.now()).await.unwrap_err();
    assert!(matches!(error, SchedulesError::Range(_)), "{error}");
    assert_eq!(scenario.ready().await, 0);
}
