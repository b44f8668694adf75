//! A damaged row must not keep other rows from being claimed or shown.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::admin::{ListRequest, StoredJob};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Claimed, Suspects};
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Admin, Engine, RescueRequest};
use windlass_core::job::{JobId, JobState, StoredState};
use windlass_core::lease::{LeaseMetadata, LeaseRequest, Leases, Taking, TermId};
use windlass_core::lease_watch::Suspicion;
use windlass_core::names::{DutyName, ScheduleName, TypeName};
use windlass_core::outcome::ErrorKind;
use windlass_core::schedule::Schedule;
use windlass_core::schedules::fire::fire;
use windlass_core::schedules::{
    JobTemplate, Origin, ScheduleChanged, ScheduleSpec, Schedules, WhichSchedules, acts,
};
use windlass_core::settle::{AttemptReport, Settled, Transition};
use windlass_core::worker::WorkerId;
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

use super::{
    TestStore, WORKER, card, claim, claim_request, declare, enqueue, new_job, ready_engine, request, status,
};

/// Bytes that are no valid text, which the schema accepts as text.
const NO_TEXT: &str = "CAST(x'ff' AS TEXT)";

/// Damages a job that has not ended; the constraints of the schema are removed first, since they would
/// prevent the damage.
fn damage(place: &TestStore, id: JobId, what: &str) {
    let sql = format!("UPDATE delayed_jobs SET {what} WHERE id = ?1");
    assert_eq!(place.connect().execute(&sql, [id.0]).unwrap(), 1, "{what}");
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_given_up_and_the_others_are_claimed() {
    let no_text = ["key", "tags", "options", "payload", "correlation", "job_group", "progress", "last_error"];
    let no_text = no_text.map(|column| format!("{column} = {NO_TEXT}"));
    let others = ["options = '{'", "tags = 'nonsense'", "correlation = ''", "failures = -1"];
    for what in no_text.into_iter().chain(others.map(str::to_owned)) {
        let place = TestStore::new();
        let engine = ready_engine(&place).await;
        let ids = enqueue(&engine, 3).await;
        damage(&place, ids[1], &what);
        let claimed: Vec<_> = claim(&engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect();
        assert_eq!(claimed, [ids[0], ids[2]], "{what}");
        let record = engine.job(ids[1]).await.unwrap().expect("the job can still be read");
        let StoredState::Dead { error, .. } = record.state else { panic!("{what}: {:?}", record.state) };
        assert_eq!(error.kind, ErrorKind::Undecodable, "{what}");
        let totals = status(&engine).await.totals;
        assert_eq!((totals.enqueued, totals.dead), (3, 1), "{what}");
    }
}

#[tokio::test]
async fn a_schedule_that_says_what_no_store_takes_is_told_and_removed_and_the_others_are_fired() {
    let place = TestStore::new();
    let clock = Arc::new(ManualClock::default());
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    let engine = SqliteEngine::open(place.path(), options).unwrap();
    declare(&engine).await;
    let spec = |name: &str| {
        let job = JobTemplate::new(TypeName::parse("work").unwrap());
        ScheduleSpec::new(ScheduleName::parse(name).unwrap(), Schedule::parse("every 1m").unwrap(), job)
    };
    for spec in [spec("sound"), spec("wrong")] {
        let change = acts::declare(&spec, Origin::Code, None, clock.now()).unwrap();
        engine.change_schedules(&[change]).await.unwrap();
    }
    let sql =
        "UPDATE job_schedules SET record = json_set(record, '$.spec.catch_up.limit', 0) WHERE name = 'wrong'";
    assert_eq!(place.connect().execute(sql, []).unwrap(), 1);
    clock.advance(Duration::from_secs(60));
    let due = engine.schedules(&WhichSchedules::Due(None, 10)).await.unwrap();
    let [(wrong, version)] = &due.damaged[..] else {
        panic!("expected one damaged schedule, got {:?}", due.damaged)
    };
    assert_eq!((wrong.as_str(), due.schedules.len()), ("wrong", 1));
    let firing = fire(&due.schedules[0], due.now).unwrap();
    let changed = engine.change_schedules(&[firing.change, acts::remove(wrong, *version)]).await.unwrap();
    assert!(changed.iter().all(|changed| matches!(changed, ScheduleChanged::Done { .. })), "{changed:?}");
    let all = engine.schedules(&WhichSchedules::After(None, 10)).await.unwrap();
    assert_eq!((all.schedules.len(), all.damaged.len()), (1, 0));
}

#[tokio::test]
async fn a_row_that_was_damaged_while_it_ran_does_not_spoil_the_ends_of_others() {
    for column in ["key", "options", "cancel_requested"] {
        let place = TestStore::new();
        let engine = ready_engine(&place).await;
        enqueue(&engine, 3).await;
        let claimed = claim(&engine, 3).await;
        damage(&place, claimed[1].job.id, &format!("{column} = {NO_TEXT}"));
        let succeed = |claimed: &Claimed| {
            claimed.clone().settled(Transition::Succeed { result: None }, AttemptReport::default())
        };
        let settled = engine.settle(claimed.iter().map(succeed).collect()).await.unwrap();
        assert_eq!(settled, [Settled::Applied; 3], "{column}");
        let page = engine.list(ListRequest { limit: 10, ..ListRequest::default() }).await.unwrap();
        let ended =
            |record: &StoredJob| matches!(record.job_state(), JobState::Succeeded | JobState::Cancelled);
        assert_eq!(page.iter().filter(|record| ended(record)).count(), 3, "{column}");
    }
}

#[tokio::test]
async fn a_rescue_takes_back_what_was_damaged_and_the_next_claim_gives_it_up() {
    let place = TestStore::new();
    let clock = Arc::new(ManualClock::starting_at(Timestamp::EPOCH));
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    let engine = SqliteEngine::open(place.path(), options).unwrap();
    declare(&engine).await;
    engine.register(card(WORKER)).await.unwrap();
    let ids = enqueue(&engine, 2).await;
    claim(&engine, 2).await;
    damage(&place, ids[0], &format!("key = {NO_TEXT}"));
    place.connect().execute_batch(&format!("UPDATE workers SET held = {NO_TEXT}")).unwrap();
    clock.advance(Duration::from_secs(60));
    let silent = vec![Suspicion { worker: WORKER, beats: 0 }];
    let rescued = engine.rescue(RescueRequest { silent, crashes_max: 3, limit: 10 }).await.unwrap();
    assert_eq!((rescued.returned, rescued.more), (ids.clone(), false));
    let other = WorkerId::from_random(7);
    engine.register(card(other)).await.unwrap();
    let suspects = Suspects::One { crashes_max: 3 };
    let request = ClaimRequest { suspects, ..claim_request(other, 1) };
    let ClaimAnswer::Claimed { jobs, .. } = engine.claim(request).await.unwrap() else { panic!("it lives") };
    assert_eq!(jobs[0].job.id, ids[1]);
    assert_eq!(engine.job(ids[0]).await.unwrap().unwrap().job_state(), JobState::Dead);
}

#[tokio::test]
async fn a_queue_whose_longest_wait_cannot_be_read_is_an_error_and_no_shorter_wait() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let ids = enqueue(&engine, 2).await;
    drop(engine);
    let lenient = "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = 'delayed_jobs'";
    place.connect().execute_batch(lenient).unwrap();
    damage(&place, ids[1], "enqueued_at = 'soon', due = due - 1");
    let engine = place.open();
    let told = engine.queues().await;
    assert!(told.is_err(), "{told:?}");
}

#[tokio::test]
async fn a_payload_that_is_no_longer_json_is_left_to_its_handler() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let id = enqueue(&engine, 1).await[0];
    place.connect().execute("UPDATE delayed_jobs SET payload = '{' WHERE id = ?1", [id.0]).unwrap();
    let claimed = claim(&engine, 10).await;
    assert!(claimed[0].job.payload.decode::<serde_json::Value>().is_err());
}

#[tokio::test]
async fn damaged_rows_can_be_listed() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    enqueue(&engine, 2).await;
    place.connect().execute_batch("UPDATE delayed_jobs SET options = '{', last_error = '}'").unwrap();
    let page = engine.list(ListRequest { limit: 10, ..ListRequest::default() }).await.unwrap();
    assert_eq!(page.len(), 2);
    assert!(page.iter().all(|record| record.job_state() == JobState::Ready));
}

#[tokio::test]
async fn a_damaged_declaration_is_told_and_what_was_enqueued_before_is_claimed() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    enqueue(&engine, 1).await;
    place.connect().execute_batch("UPDATE queues SET spec = '{'; UPDATE job_types SET spec = ''").unwrap();
    assert_eq!(claim(&engine, 1).await.len(), 1);
    let (types, queues) = (engine.types().await.unwrap(), engine.queues().await.unwrap());
    assert!(types.iter().any(|known| known.unreadable.is_some()), "{types:?}");
    assert!(queues.iter().any(|queue| queue.unreadable.is_some()), "{queues:?}");
    engine.sweep(10).await.unwrap();
}

#[tokio::test]
async fn a_lease_that_was_damaged_is_taken_anew_and_spoils_no_other() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let names = ["a", "b"].map(|name| DutyName::parse(name).unwrap());
    let mut request = LeaseRequest {
        worker: WORKER,
        id: TermId::from_random(1),
        duties: names.iter().map(|name| (name.clone(), Duration::from_secs(600))).collect(),
    };
    let first = engine.take_leases(&request).await.unwrap();
    let [Taking::Taken(old, _), Taking::Taken(..)] = first[..] else { panic!("{first:?}") };
    for (bits, what) in
        (2..).zip(["term = x'07'", "term = x''", &format!("metadata = {NO_TEXT}, term = x'07'")])
    {
        place
            .connect()
            .execute(&format!("UPDATE background_job_leases SET {what} WHERE job_name = 'a'"), [])
            .unwrap();
        assert_eq!(engine.leases().await.unwrap().leases.len(), 1, "{what}");
        request.id = TermId::from_random(bits);
        let takings = engine.take_leases(&request).await.unwrap();
        let [Taking::Taken(new, ref metadata), Taking::Held { .. }] = takings[..] else {
            panic!("{what}: {takings:?}")
        };
        assert!(new.fence > old.fence, "{what}");
        assert_eq!(metadata, &LeaseMetadata::default());
    }
    place.connect().execute(&format!("UPDATE background_job_leases SET metadata = {NO_TEXT}"), []).unwrap();
    assert_eq!(engine.leases().await.unwrap().leases.len(), 2, "damaged metadata must not cost a lease");
}

#[tokio::test]
async fn a_receipt_that_cannot_be_read_leaves_the_answer_unknown_and_makes_no_second_job() {
    for what in ["'{'", "5", NO_TEXT] {
        let place = TestStore::new();
        let engine = ready_engine(&place).await;
        let request = request(vec![new_job()]);
        engine.enqueue(request.clone()).await.unwrap();
        let damaged = place.connect().execute(&format!("UPDATE receipts SET answers = {what}"), []);
        assert_eq!(damaged.unwrap(), 1, "{what}");
        let error = engine.enqueue(request.clone()).await.unwrap_err();
        assert!(error.is_unknown(), "{what}: {error:?}");
        let error = engine.ask(request.request).await.unwrap_err();
        assert!(error.is_unknown(), "{what}: {error:?}");
        assert_eq!(status(&engine).await.totals.enqueued, 1, "{what}");
    }
}
