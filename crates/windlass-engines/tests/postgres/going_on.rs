//! Jobs that continue are written from the values of their claim, without being read again. Changes that
//! another session made to their rows meanwhile are noticed all the same.

use std::time::Duration;

use windlass_core::claim::Claimed;
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::NewJob;
use windlass_core::gate::Gate;
use windlass_core::job::{JobState, Progress};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_engines::postgres::PostgresEngine;

use super::locks::own_database;
use super::{TestStore, claim, enqueue, new_job, request};

/// The physical place of the first row of a table.
const FIRST_OF_ALL: &str = "(0,1)";

fn parked(claimed: &Claimed) -> Settlement {
    claimed.clone().settled(Transition::Park { gate: Gate::named("test:gate") }, AttemptReport::default())
}

async fn park(engine: &PostgresEngine, claimed: &[Claimed]) -> Vec<Settled> {
    engine.settle(claimed.iter().map(parked).collect()).await.unwrap()
}

#[tokio::test]
async fn rows_that_the_server_has_moved_meanwhile_are_found_by_their_numbers() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 20).await;
    let jobs = claim(&engine, 20).await;
    place.sql("VACUUM FULL windlass.delayed_jobs");
    assert_eq!(park(&engine, &jobs).await, [Settled::Applied; 20]);
    assert_eq!(
        place.count("windlass.delayed_jobs WHERE gate = 'test:gate' AND holds = 1 AND token IS NULL"),
        20
    );
}

/// A session that locks a row and then writes it sets the row's `xmax`; a session that only writes it does
/// not.
#[tokio::test]
async fn rows_that_no_session_has_touched_are_written_without_being_locked() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 5).await;
    let jobs = claim(&engine, 5).await;
    assert_eq!(park(&engine, &jobs).await, [Settled::Applied; 5]);
    assert_eq!(place.count("windlass.delayed_jobs WHERE gate = 'test:gate' AND xmax = '0'::xid"), 5);
}

/// Half of a page are the row versions of its jobs before the claim; their space is reused once no
/// transaction sees them. A database of its own, so that no old transaction of another test sees them.
/// Without the reuse all but a few rows have to move.
#[tokio::test]
async fn most_rows_stay_on_their_page() {
    let place = own_database();
    let engine = place.ready().await;
    let payload = Payload::encode(&"x".repeat(98)).unwrap();
    let jobs = vec![NewJob { payload, ..new_job() }; 1_000];
    for _ in 0..3 {
        engine.enqueue(request(jobs.clone())).await.unwrap();
    }
    let page = "(ctid::text::point)[0] AS page";
    // Recorded before the claim: a later read by an index, or of the whole table, prunes the pages.
    place.sql(&format!("CREATE TABLE windlass.before AS SELECT id, {page} FROM windlass.delayed_jobs"));
    // The first two of such claims look ahead.
    claim(&engine, 1_000).await;
    claim(&engine, 1_000).await;
    let third = claim(&engine, 1_000).await;
    assert_eq!(park(&engine, &third).await, [Settled::Applied; 1_000]);
    let now = format!("(SELECT id, {page} FROM windlass.delayed_jobs WHERE gate IS NOT NULL) AS now");
    let moved = place.count(&format!("windlass.before p JOIN {now} USING (id) WHERE now.page <> p.page"));
    assert!(moved <= 300, "{moved} of 1,000");
}

/// The transaction that opened the gate locked and wrote the rows, and set their `xmax`.
#[tokio::test]
async fn what_was_behind_a_gate_is_not_passed_by_by_the_later_of_two_claims() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 200).await;
    let jobs = claim(&engine, 200).await;
    park(&engine, &jobs).await;
    engine.open_gate(&Gate::named("test:gate"), 200).await.unwrap();
    let (first, second) = tokio::join!(claim(&engine, 50), claim(&engine, 50));
    assert_eq!((first.len(), second.len()), (50, 50));
    // From now on the later claim skips locked rows.
    let (first, second) = tokio::join!(claim(&engine, 50), claim(&engine, 50));
    assert_eq!((first.len(), second.len()), (50, 50));
}

#[tokio::test]
async fn of_a_batch_that_goes_on_those_that_were_asked_to_stop_end_and_are_not_counted_as_waiting() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 3).await;
    let jobs = claim(&engine, 3).await;
    engine.cancel(jobs[1].job.id, "enough").await.unwrap();
    assert_eq!(park(&engine, &jobs).await, [Settled::Applied; 3]);
    let job_state = async |n: usize| engine.job(jobs[n].job.id).await.unwrap().unwrap().job_state();
    assert_eq!(
        [job_state(0).await, job_state(1).await, job_state(2).await],
        [JobState::Parked, JobState::Cancelled, JobState::Parked]
    );
    let counts =
        engine.queues().await.unwrap().into_iter().find(|queue| queue.counts.parked > 0).unwrap().counts;
    assert_eq!((counts.parked, counts.running), (2, 0));
}

#[tokio::test]
async fn one_that_goes_on_twice_lands_once_and_says_so_both_times() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 2).await;
    let jobs = claim(&engine, 2).await;
    assert_eq!(park(&engine, &jobs).await, [Settled::Applied; 2]);
    assert_eq!(park(&engine, &jobs).await, [Settled::Applied; 2], "the jobs were parked already");
    assert_eq!(place.sql("SELECT DISTINCT holds FROM windlass.delayed_jobs"), "1");
}

/// The row is where it was, but belongs to the next claim: this process's cached ctid of the first claim is
/// worthless. A database of its own, so that deleted rows free their space at once.
#[tokio::test]
async fn a_claim_that_was_taken_away_and_given_again_parks_nothing() {
    let place = own_database();
    let (engine, other) = (place.ready().await, place.open().await);
    let ids = enqueue(&engine, 2).await;
    place.sql(&format!("DELETE FROM windlass.delayed_jobs WHERE id = {}", ids[0].0));
    place.sql("VACUUM (TRUNCATE off) windlass.delayed_jobs");
    let first = claim(&engine, 1).await;
    assert_eq!(place.sql("SELECT ctid FROM windlass.delayed_jobs"), FIRST_OF_ALL);
    place.sql("UPDATE windlass.delayed_jobs SET token = NULL, locked_by = NULL, locked_at = NULL");
    let second = claim(&other, 1).await;
    place.sql("VACUUM FULL windlass.delayed_jobs");
    assert_eq!(place.sql("SELECT ctid FROM windlass.delayed_jobs"), FIRST_OF_ALL);
    assert_eq!(park(&engine, &first).await, [Settled::ClaimLost]);
    assert_eq!(place.count("windlass.delayed_jobs WHERE gate IS NULL AND token IS NOT NULL"), 1);
    assert_eq!(park(&other, &second).await, [Settled::Applied]);
}

/// Storing progress writes a new version of the row, at another place.
#[tokio::test]
async fn a_job_that_has_told_of_its_progress_and_is_tried_again_keeps_what_it_told() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 2).await;
    let jobs = claim(&engine, 2).await;
    let progress = Progress { percent: 40, note: Some("half way, nearly".to_owned()) };
    let told = engine.report(vec![(jobs[0].fence(), progress.clone())]).await.unwrap();
    assert_eq!(told, [Settled::Applied]);
    let error = JobError::new(ErrorKind::Failed, "not yet");
    let retry = Transition::Retry { after: Duration::from_secs(60), error };
    let ends = jobs.iter().map(|job| job.clone().settled(retry.clone(), AttemptReport::default())).collect();
    assert_eq!(engine.settle(ends).await.unwrap(), [Settled::Applied; 2]);
    let record = engine.job(jobs[0].job.id).await.unwrap().unwrap();
    assert_eq!((record.job_state(), record.job.progress), (JobState::Scheduled, Some(progress)));
    assert_eq!(place.sql("SELECT DISTINCT failures FROM windlass.delayed_jobs"), "1");
}

/// The server may write a new version of a row at the place of the old one.
#[tokio::test]
async fn a_row_that_lies_where_it_was_claimed_but_is_another_claims_is_left_alone() {
    let place = own_database();
    let engine = place.ready().await;
    enqueue(&engine, 1).await;
    let jobs = claim(&engine, 1).await;
    place.sql("CREATE TABLE windlass.claimed AS SELECT id, ctid AS place FROM windlass.delayed_jobs");
    let is_back = "windlass.delayed_jobs j JOIN windlass.claimed c ON c.id = j.id AND c.place = j.ctid";
    for _ in 0..100 {
        place.sql("UPDATE windlass.delayed_jobs SET token = gen_random_uuid()");
        if place.count(is_back) == 1 {
            break;
        }
        place.sql("VACUUM windlass.delayed_jobs");
    }
    assert_eq!(place.count(is_back), 1, "expected the test to bring the row back to its place");
    assert_eq!(park(&engine, &jobs).await, [Settled::ClaimLost]);
    assert_eq!(place.count("windlass.delayed_jobs WHERE gate IS NULL AND token IS NOT NULL"), 1);
}
