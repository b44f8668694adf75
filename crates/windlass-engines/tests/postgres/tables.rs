//! What operators see who read the tables themselves, and keys that many processes want at once.

use windlass_core::claim::Claimed;
use windlass_core::engine::Engine;
use windlass_core::enqueue::{EnqueueAnswer, NewJob};
use windlass_core::job::Progress;
use windlass_core::key::KeyClaim;
use windlass_core::names::Key;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::settle::{AttemptReport, Settled, Transition};

use super::{TestStore, claim, declare, enqueue, new_job, request};

/// The columns of a job that has not ended.
const COLUMNS: &str = "id, queue, job_type, priority, payload, scheduled_at, locked_at, locked_by, attempts, max_attempts, \
                       last_error, created_at";

/// The expressions over these columns that do not depend on the time.
const STEADY: &str = "queue, job_type, priority, payload->>'n', attempts, max_attempts, locked_at IS NOT NULL, \
                      locked_by, scheduled_at = created_at";

#[tokio::test]
async fn a_job_can_be_read_in_its_table_by_the_names_of_its_columns() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let new = NewJob { payload: Payload::parse(r#"{"n": 7}"#).unwrap(), ..new_job() };
    engine.enqueue(request(vec![new])).await.unwrap();
    let row = || place.sql(&format!("SELECT {STEADY} FROM windlass.delayed_jobs"));
    assert_eq!(row(), "main|work|5|7|0|5|f||t");
    let claimed = claim(&engine, 1).await.remove(0);
    assert_eq!(row(), "main|work|5|7|1|5|t|00000000-0000-0000-0000-00000000feed|t");
    let error = JobError::new(ErrorKind::Failed, "no such wallet");
    let settled = claimed.settled(Transition::Bury { error }, AttemptReport::default());
    assert_eq!(engine.settle(vec![settled]).await.unwrap(), [Settled::Applied]);
    assert_eq!(place.count("windlass.delayed_jobs"), 0);
    let dead = place.sql("SELECT queue, job_type, attempts, last_error FROM windlass.delayed_jobs_dlq");
    assert!(dead.starts_with("main|work|1|") && dead.contains("no such wallet"), "{dead}");
    assert_eq!(place.sql(&format!("SELECT {COLUMNS} FROM windlass.delayed_jobs")), "");
}

#[tokio::test]
async fn jobs_whose_rows_were_written_since_their_claim_are_settled_beside_the_others() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 4).await;
    let claimed = claim(&engine, 4).await;
    let progress = Progress { percent: 50, note: None };
    engine.report(vec![(claimed[0].fence(), progress)]).await.unwrap();
    // A statement of another session moves a row without the engine knowing.
    let moved = claimed[1].job.id.0;
    place.sql(&format!("UPDATE windlass.delayed_jobs SET tags = tags WHERE id = {moved}"));
    let succeed =
        |claimed: Claimed| claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
    let ends: Vec<_> = claimed.into_iter().map(succeed).collect();
    assert_eq!(engine.settle(ends.clone()).await.unwrap(), [Settled::Applied; 4]);
    assert_eq!(engine.settle(ends).await.unwrap(), [Settled::Applied; 4], "a repeat gets the same answers");
    assert_eq!(place.count("windlass.delayed_jobs"), 0);
    assert_eq!(place.count("windlass.job_history"), 4);
}

#[tokio::test]
async fn a_stale_token_ends_nothing_at_the_place_where_its_row_lay() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 2).await;
    let mut claimed = claim(&engine, 2).await;
    let stolen = claimed.remove(0);
    // The state that another worker's claim would leave, in a row that lies where the old one did.
    let thief = "token = '00000000-0000-0000-0000-0000000000ff'";
    place.sql(&format!("UPDATE windlass.delayed_jobs SET {thief} WHERE id = {}", stolen.job.id.0));
    let succeed =
        |claimed: Claimed| claimed.settled(Transition::Succeed { result: None }, AttemptReport::default());
    let ends = vec![succeed(stolen), succeed(claimed.remove(0))];
    assert_eq!(engine.settle(ends).await.unwrap(), [Settled::ClaimLost, Settled::Applied]);
    assert_eq!(place.count("windlass.delayed_jobs"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_engines_that_put_in_one_key_at_once_one_makes_the_job() {
    let place = TestStore::shared();
    let mut engines = Vec::new();
    for _ in 0..6 {
        engines.push(std::sync::Arc::new(place.open().await));
    }
    declare(&engines[0]).await;
    for n in 0..20 {
        let key = KeyClaim::new(Key::parse(&format!("key-{n}")).unwrap());
        let mut callers = tokio::task::JoinSet::new();
        for engine in engines.clone() {
            let jobs = vec![NewJob { key: Some(key.clone()), ..new_job() }];
            callers.spawn(async move { engine.enqueue(request(jobs)).await.unwrap().remove(0) });
        }
        let answers = callers.join_all().await;
        let made = answers.iter().filter(|answer| matches!(answer, EnqueueAnswer::New(_))).count();
        let kept = answers.iter().filter(|answer| matches!(answer, EnqueueAnswer::Duplicate(_))).count();
        assert_eq!((made, kept), (1, engines.len() - 1), "{answers:?}");
    }
    assert_eq!(place.count("windlass.delayed_jobs"), 20);
}

/// A claim of one priority then reads few pages, and each page is pruned once, not by every priority again.
#[tokio::test]
async fn of_a_request_with_several_priorities_those_of_one_lie_together_and_numbers_are_in_the_order_of_the_request()
 {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let in_turn = (0..90).flat_map(|_| Priority::all());
    let jobs: Vec<_> = in_turn.map(|priority| NewJob { priority: Some(priority), ..new_job() }).collect();
    let answers = engine.enqueue(request(jobs)).await.unwrap();
    let id = |answer: &EnqueueAnswer| {
        if let EnqueueAnswer::New(id) = answer { id.0 } else { panic!("{answer:?}") }
    };
    let ids: Vec<_> = answers.iter().map(id).collect();
    assert!(ids.is_sorted());
    let level = place.sql(&format!("SELECT priority FROM windlass.delayed_jobs WHERE id = {}", ids[12]));
    assert_eq!(level, "1", "each id belongs to its own job");
    let pages = place.count("(SELECT DISTINCT (ctid::text::point)[0] FROM windlass.delayed_jobs) AS pages");
    let parts =
        place.count("(SELECT DISTINCT (ctid::text::point)[0], priority FROM windlass.delayed_jobs) AS parts");
    assert!(pages > 20 && parts <= pages + 10, "{parts} parts of {pages} pages");
}
