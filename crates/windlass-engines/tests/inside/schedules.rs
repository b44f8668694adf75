//! Schedules that are due while a transaction of the application is open.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::{Clock, ManualClock};
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::job::{JobId, JobState};
use windlass_core::names::ScheduleName;
use windlass_core::schedule::Schedule;
use windlass_core::schedules::fire::fire;
use windlass_core::schedules::{
    JobTemplate, Origin, Overlap, Put, ScheduleAlert, ScheduleChanged, ScheduleSpec, Schedules,
    WhichSchedules, acts,
};
use windlass_engines::postgres::PostgresEngine;

use super::test_store::{TestStore, WORKER, card, claim, kind};

/// Long enough for a busy machine, and much shorter than any lock timeout here.
const AT_ONCE: Duration = Duration::from_secs(60);
const MINUTE: Duration = Duration::from_secs(60);

/// Opens an engine with its own clock, and one schedule of each kind.
async fn with_schedules(place: &TestStore, clock: &Arc<ManualClock>) -> PostgresEngine {
    place.ready().await.retire(WORKER).await.unwrap();
    let engine = place.open_with_clock(clock.clone()).await;
    engine.register(card(WORKER)).await.unwrap();
    for (name, overlap) in [("plain", Overlap::Allow), ("replace", Overlap::Replace), ("skip", Overlap::Skip)]
    {
        let schedule = Schedule::parse("every 1m").unwrap();
        let job = JobTemplate::new(kind("work"));
        let spec = ScheduleSpec::new(ScheduleName::parse(name).unwrap(), schedule, job);
        let spec = ScheduleSpec { overlap, ..spec };
        let change = acts::declare(&spec, Origin::Code, None, clock.now()).unwrap();
        engine.change_schedules(&[change]).await.unwrap();
    }
    engine
}

/// Fires the tick of a minute later for `plain`, `replace` and `skip`, by one call that waits for no other
/// transaction. Returns the answer for each.
async fn tick(engine: &PostgresEngine, clock: &ManualClock) -> [Put; 3] {
    clock.advance(MINUTE);
    let due = engine.schedules(&WhichSchedules::Due(None, 10)).await.unwrap();
    let mut firings: Vec<_> = due.schedules.iter().map(|stored| fire(stored, due.now).unwrap()).collect();
    firings.sort_by(|a, b| a.change.name.cmp(&b.change.name));
    let changes: Vec<_> = firings.into_iter().map(|firing| firing.change).collect();
    let changed = tokio::time::timeout(AT_ONCE, engine.change_schedules(&changes)).await;
    let changed = changed.expect("the call waits for no other transaction").unwrap().into_iter();
    let puts = changed.map(|changed| match changed {
        ScheduleChanged::Done { mut jobs, .. } => jobs.remove(0),
        other => panic!("expected Done, got {other:?}"),
    });
    <[Put; 3]>::try_from(puts.collect::<Vec<_>>()).unwrap()
}

fn made(puts: &[Put; 3]) -> [JobId; 3] {
    puts.clone().map(|put| put.new_job().unwrap_or_else(|| panic!("expected a new job, got {put:?}")))
}

#[tokio::test]
async fn an_open_transaction_holds_up_no_schedule() {
    let place = TestStore::patient();
    let clock = Arc::new(ManualClock::default());
    let engine = with_schedules(&place, &clock).await;
    let first = made(&tick(&engine, &clock).await);
    let claimed = claim(&engine, 3).await;
    let mut caller = place.connect().await;
    let tx = caller.transaction().await.unwrap();
    for job in &claimed {
        engine.complete_in(&tx, job.fence()).await.unwrap();
    }
    let [plain, replacing, skipped] = tick(&engine, &clock).await;
    assert!(plain.new_job().is_some() && replacing.new_job().is_some(), "{plain:?} {replacing:?}");
    assert_eq!(skipped, Put::Overlaps(first[2]), "it is not known yet whether the job has ended");
    tx.commit().await.unwrap();
    assert!(tick(&engine, &clock).await[2].new_job().is_some());
}

#[tokio::test]
async fn a_waiting_job_that_a_transaction_has_locked_does_not_give_way_and_holds_up_no_other() {
    let place = TestStore::patient();
    let clock = Arc::new(ManualClock::default());
    let engine = with_schedules(&place, &clock).await;
    let first = made(&tick(&engine, &clock).await);
    let mut caller = place.connect().await;
    let tx = caller.transaction().await.unwrap();
    tx.execute(&place.sql("SELECT 1 FROM windlass.delayed_jobs FOR UPDATE"), &[]).await.unwrap();
    let [plain, replacing, skipped] = tick(&engine, &clock).await;
    assert!(plain.new_job().is_some() && replacing.new_job().is_some(), "{plain:?} {replacing:?}");
    assert_eq!(skipped, Put::Overlaps(first[2]));
    tx.rollback().await.unwrap();
    assert_eq!(engine.job(first[1]).await.unwrap().unwrap().job_state(), JobState::Ready);
}

#[tokio::test]
async fn a_job_that_the_users_own_check_refuses_is_told_with_its_schedule_and_the_others_are_made() {
    let place = TestStore::patient();
    let clock = Arc::new(ManualClock::default());
    let engine = with_schedules(&place, &clock).await;
    let check = "ALTER TABLE windlass.delayed_jobs ADD CHECK (correlation NOT LIKE 'schedule/skip/%')";
    place.connect().await.batch_execute(&place.sql(check)).await.unwrap();
    let [plain, replacing, refused] = tick(&engine, &clock).await;
    assert!(plain.new_job().is_some() && replacing.new_job().is_some(), "{plain:?} {replacing:?}");
    assert!(matches!(refused, Put::Answered(EnqueueAnswer::Refused(_))), "{refused:?}");
    let all = engine.schedules(&WhichSchedules::After(None, 10)).await.unwrap().schedules;
    let alerts: Vec<_> =
        all.iter().map(|stored| stored.record.alert.as_ref().map(|alert| &alert.what)).collect();
    assert!(matches!(alerts[..], [None, None, Some(ScheduleAlert::Refused { .. })]), "{alerts:?}");
}
