//! A settlement or a new job that the store cannot accept fails alone.

use windlass_core::claim::Claimed;
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::{EnqueueAnswer, NewJob, Refusal};
use windlass_core::error::EngineError;
use windlass_core::job::{JobState, StoredState};
use windlass_core::key::KeyClaim;
use windlass_core::names::Key;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};

use super::{TestStore, claim, enqueue, kind, new_job, queue, request};

/// How many ends a batch has, and the position of the rejected one.
const BATCH: usize = 500;
const BAD: usize = 321;

fn succeed(claimed: Claimed, output: Option<&str>) -> Settlement {
    let report = AttemptReport { output: output.map(str::to_owned), ..AttemptReport::default() };
    claimed.settled(Transition::Succeed { result: None }, report)
}

/// Creates a batch with the rejected end in the middle of accepted ones.
fn batch(claimed: Vec<Claimed>, bad: impl Fn(Claimed) -> Settlement) -> Vec<Settlement> {
    let each = |(place, claimed)| if place == BAD { bad(claimed) } else { succeed(claimed, Some("good")) };
    claimed.into_iter().enumerate().map(each).collect()
}

async fn full_batch(place: &TestStore) -> (windlass_engines::postgres::PostgresEngine, Vec<Claimed>) {
    let engine = place.ready().await;
    enqueue(&engine, BATCH).await;
    let claimed = claim(&engine, 500).await;
    assert_eq!(claimed.len(), BATCH);
    (engine, claimed)
}

#[tokio::test]
async fn a_row_that_the_store_refuses_is_given_up_and_the_other_499_are_stored() {
    let place = TestStore::shared();
    let (engine, claimed) = full_batch(&place).await;
    place.sql("ALTER TABLE windlass.job_history ADD CHECK (output IS DISTINCT FROM 'poison')");
    let bad = claimed[BAD].job.id;
    let batch = batch(claimed, |claimed| succeed(claimed, Some("poison")));
    assert_eq!(engine.settle(batch).await.unwrap(), vec![Settled::Applied; BATCH]);
    assert_eq!(place.count("windlass.job_history WHERE state = 1 AND output = 'good'"), 499);
    let StoredState::Dead { error, .. } = engine.job(bad).await.unwrap().unwrap().state else {
        panic!("the job is dead")
    };
    assert!(error.text.contains("its end could not be stored"), "{error:?}");
    assert_eq!(place.count("windlass.delayed_jobs"), 0);
}

#[tokio::test]
async fn a_nul_in_what_a_handler_wrote_spoils_nothing() {
    let place = TestStore::shared();
    let (engine, claimed) = full_batch(&place).await;
    let bad = claimed[BAD].job.id;
    let batch = batch(claimed, |claimed| succeed(claimed, Some("a\0b")));
    assert_eq!(engine.settle(batch).await.unwrap(), vec![Settled::Applied; BATCH]);
    assert_eq!(engine.job(bad).await.unwrap().unwrap().job_state(), JobState::Succeeded);
    let output = engine.attempts(bad).await.unwrap().remove(0).output;
    assert_eq!(output.as_deref(), Some("a\u{fffd}b"));
}

#[tokio::test]
async fn a_nul_in_an_error_comes_back_as_it_was() {
    let place = TestStore::shared();
    let (engine, claimed) = full_batch(&place).await;
    let bad = claimed[BAD].job.id;
    let batch = batch(claimed, |claimed| {
        let error = JobError::new(ErrorKind::Failed, "a\0b");
        claimed.settled(Transition::Bury { error }, AttemptReport::default())
    });
    assert_eq!(engine.settle(batch).await.unwrap(), vec![Settled::Applied; BATCH]);
    let StoredState::Dead { error, .. } = engine.job(bad).await.unwrap().unwrap().state else {
        panic!("the job is dead")
    };
    assert_eq!(error.text, "a\0b");
}

#[tokio::test]
async fn a_result_that_is_no_text_for_the_store_is_given_up_alone() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let spec = windlass_core::job_type::TypeSpec {
        keep_result: true,
        ..windlass_core::job_type::TypeSpec::new(kind(), queue())
    };
    let declaration = windlass_core::engine::Declaration { queues: Vec::new(), types: vec![spec] };
    engine.declare(declaration).await.unwrap();
    enqueue(&engine, BATCH).await;
    let claimed = claim(&engine, 500).await;
    let bad = claimed[BAD].job.id;
    let batch = batch(claimed, |claimed| {
        claimed.settled(Transition::Succeed { result: Some("\"\0\"".to_owned()) }, AttemptReport::default())
    });
    assert_eq!(engine.settle(batch).await.unwrap(), vec![Settled::Applied; BATCH]);
    assert_eq!(place.count("windlass.job_history WHERE state = 1"), 499);
    assert_eq!(engine.job(bad).await.unwrap().unwrap().job_state(), JobState::Dead);
}

#[tokio::test]
async fn a_poisoned_retry_fails_alone_too() {
    let place = TestStore::shared();
    let (engine, claimed) = full_batch(&place).await;
    place.sql("ALTER TABLE windlass.attempts ADD CHECK (output IS DISTINCT FROM 'poison')");
    let bad = claimed[BAD].job.id;
    let batch: Vec<_> = claimed
        .into_iter()
        .enumerate()
        .map(|(place, claimed)| {
            let output = if place == BAD { "poison" } else { "good" };
            let report = AttemptReport { output: Some(output.to_owned()), ..AttemptReport::default() };
            let error = JobError::new(ErrorKind::Failed, "oops");
            claimed.settled(Transition::Retry { after: std::time::Duration::from_secs(60), error }, report)
        })
        .collect();
    assert_eq!(engine.settle(batch).await.unwrap(), vec![Settled::Applied; BATCH]);
    assert_eq!(place.count("windlass.attempts WHERE output = 'good'"), 499);
    assert_eq!(engine.job(bad).await.unwrap().unwrap().job_state(), JobState::Dead);
}

#[tokio::test]
async fn what_can_be_stored_nowhere_is_refused_by_itself_and_the_others_are_stored() {
    let place = TestStore::shared();
    let (engine, claimed) = full_batch(&place).await;
    let bad = claimed[BAD].job.id;
    place.sql(&format!(
        "ALTER TABLE windlass.job_history ADD CHECK (id <> {0}); ALTER TABLE windlass.delayed_jobs_dlq ADD CHECK (id <> {0})",
        bad.0
    ));
    let batch = batch(claimed, |claimed| succeed(claimed, None));
    let error = engine.settle(batch.clone()).await.unwrap_err();
    assert!(matches!(error, EngineError::Refused(_)), "a worker then splits the batch: {error:?}");
    let (alone, others): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|settlement| settlement.fence.job == bad);
    assert_eq!(engine.settle(others).await.unwrap(), vec![Settled::Applied; BATCH - 1]);
    let error = engine.settle(alone).await.unwrap_err();
    assert!(matches!(error, EngineError::Refused(_)), "a worker then drops it: {error:?}");
    assert_eq!(place.count("windlass.job_history"), 499);
}

#[tokio::test]
async fn a_trigger_of_the_user_that_refuses_one_row_does_not_keep_the_others() {
    let place = TestStore::shared();
    let (engine, claimed) = full_batch(&place).await;
    let bad = claimed[BAD].job.id;
    place.sql(&format!(
        "CREATE FUNCTION windlass.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
         CREATE TRIGGER no BEFORE DELETE ON windlass.delayed_jobs FOR EACH ROW WHEN (OLD.id = {}) EXECUTE FUNCTION windlass.no()",
        bad.0
    ));
    let batch = batch(claimed, |claimed| succeed(claimed, None));
    let error = engine.settle(batch).await.unwrap_err();
    assert!(matches!(error, EngineError::Refused(_)), "{error:?}");
    assert_eq!(place.count("windlass.job_history"), 499);
}

/// A check constraint of the user's own on the jobs table.
const NO_TWELVE: &str = "ALTER TABLE windlass.delayed_jobs ADD CHECK (payload->>'n' IS DISTINCT FROM '12')";

fn numbered(n: usize) -> NewJob {
    NewJob { payload: Payload::parse(&format!(r#"{{"n": {n}}}"#)).unwrap(), ..new_job() }
}

/// Returns the positions of the refused jobs, and how many were accepted.
fn judged(answers: &[EnqueueAnswer]) -> (Vec<usize>, usize) {
    let is_refused =
        |answer: &EnqueueAnswer| matches!(answer, EnqueueAnswer::Refused(Refusal::Malformed { .. }));
    let refused =
        answers.iter().enumerate().filter(|(_, answer)| is_refused(answer)).map(|(n, _)| n).collect();
    (refused, answers.iter().filter(|answer| matches!(answer, EnqueueAnswer::New(_))).count())
}

#[tokio::test]
async fn a_new_job_that_the_store_refuses_is_refused_alone() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    place.sql(NO_TWELVE);
    let request = request((0..BATCH).map(numbered).collect());
    let answers = engine.enqueue(request.clone()).await.unwrap();
    assert_eq!(judged(&answers), (vec![12], BATCH - 1));
    assert_eq!(engine.enqueue(request).await.unwrap(), answers, "a repeat gets the same answers");
    assert_eq!(place.count("windlass.delayed_jobs"), 499);
}

#[tokio::test]
async fn a_new_job_with_a_key_that_the_store_refuses_is_refused_alone_and_leaves_its_key() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    place.sql(NO_TWELVE);
    let keyed = |n: usize| NewJob {
        key: Some(KeyClaim::new(Key::parse(&format!("key-{n}")).unwrap())),
        ..numbered(n)
    };
    let answers = engine.enqueue(request((0..50).map(keyed).collect())).await.unwrap();
    assert_eq!(judged(&answers), (vec![12], 49));
    assert_eq!(place.count("windlass.job_keys"), 49);
}

#[tokio::test]
async fn while_no_notification_can_be_sent_retries_fail_and_are_not_given_up() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    enqueue(&engine, 3).await;
    let claimed = claim(&engine, 3).await;
    // Raises the error that the server sends at commit when its notification queue is full.
    place.sql(
        "CREATE FUNCTION windlass.full() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000'; END $$;
         CREATE CONSTRAINT TRIGGER full_queue AFTER INSERT ON windlass.count_deltas DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW WHEN (NEW.waiting > 0) EXECUTE FUNCTION windlass.full()",
    );
    let retry = |claimed: Claimed| {
        let error = JobError::new(ErrorKind::Failed, "oops");
        let after = std::time::Duration::from_secs(60);
        claimed.settled(Transition::Retry { after, error }, AttemptReport::default())
    };
    let ends: Vec<_> = claimed.into_iter().map(retry).collect();
    let error = engine.settle(ends.clone()).await.unwrap_err();
    assert!(
        matches!(&error, EngineError::Unavailable { why } if why.contains("pg_stat_activity")),
        "{error:?}"
    );
    let error = engine.enqueue(request(vec![new_job()])).await.unwrap_err();
    assert!(matches!(error, EngineError::Unavailable { .. }), "{error:?}");
    assert_eq!(place.count("windlass.delayed_jobs_dlq"), 0);
    place.sql("DROP TRIGGER full_queue ON windlass.count_deltas");
    assert_eq!(engine.settle(ends).await.unwrap(), [Settled::Applied; 3]);
}
