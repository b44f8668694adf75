//! Jobs that are enqueued and completed in a transaction of `sqlx`.

use windlass_core::claim::{ClaimToken, Fence};
use windlass_core::engine::{Admin, Engine};
use windlass_core::enqueue::{EnqueueAnswer, EnqueueRequest, NewJob, Refusal, RequestId};
use windlass_core::error::EngineError;
use windlass_core::job::JobState;
use windlass_core::payload::Payload;
use windlass_core::settle::Settled;
use windlass_engines::postgres::PostgresEngine;
use windlass_engines::postgres::sqlx::postgres::PgConnectOptions;
use windlass_engines::postgres::sqlx::{self, AssertSqlSafe, ConnectOptions, Connection, PgConnection, Row};
use windlass_engines::postgres::with_sqlx::{complete_in, enqueue_in, enqueue_request_in};

use super::test_store::{TestStore, bits, claim, enqueue, keyed, kind, status, stored, work};

/// Opens a connection of the application, with a table of its own.
async fn with_table(place: &TestStore) -> PgConnection {
    let options: PgConnectOptions = place.url.parse().unwrap();
    let mut connection = options.connect().await.unwrap();
    run(&mut connection, place, "CREATE TABLE windlass.orders (id bigint)").await;
    connection
}

async fn run(connection: &mut PgConnection, place: &TestStore, text: &str) {
    sqlx::query(AssertSqlSafe(place.sql(text))).execute(connection).await.unwrap();
}

async fn orders(connection: &mut PgConnection, place: &TestStore) -> i64 {
    let text = place.sql("SELECT count(*) FROM windlass.orders");
    sqlx::query(AssertSqlSafe(text)).fetch_one(connection).await.unwrap().get(0)
}

const ORDER: &str = "INSERT INTO windlass.orders VALUES (1)";

#[tokio::test]
async fn a_job_is_there_as_soon_as_the_transaction_of_sqlx_is_committed() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut connection = with_table(&place).await;
    let mut tx = connection.begin().await.unwrap();
    run(&mut tx, &place, ORDER).await;
    let payload = Payload::parse(r#"{"order": 1, "name": "grüße 🦀"}"#).unwrap();
    let jobs = vec![NewJob::new(kind("work"), payload.clone()), keyed("a"), keyed("a")];
    let answers = enqueue_in(&mut tx, &place.schema, jobs).await.unwrap();
    assert!(
        matches!(answers[..], [EnqueueAnswer::New(_), EnqueueAnswer::New(one), EnqueueAnswer::Duplicate(other)] if one == other),
        "{answers:?}"
    );
    assert_eq!(status(&engine).await.counts.ready, 0, "not before the commit");
    tx.commit().await.unwrap();
    let claimed = claim(&engine, 10).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), stored(&answers)[..2]);
    assert_eq!(claimed[0].job.payload, payload);
    assert_eq!(orders(&mut connection, &place).await, 1);
}

#[tokio::test]
async fn a_rollback_of_sqlx_leaves_nothing() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut connection = with_table(&place).await;
    let mut tx = connection.begin().await.unwrap();
    run(&mut tx, &place, ORDER).await;
    let request = RequestId::from_random(bits());
    let jobs = vec![work(), keyed("a")];
    enqueue_request_in(&mut tx, &place.schema, EnqueueRequest { request, jobs }).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(orders(&mut connection, &place).await, 0);
    assert_eq!(place.traces(&place.connect().await).await, "0 jobs, 0 keys, 0 changes, 0 receipts");
    assert_eq!(engine.receipt(request).await.unwrap(), None);
}

#[tokio::test]
async fn a_transaction_of_sqlx_that_is_repeated_under_its_request_id_makes_no_second_job() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut connection = with_table(&place).await;
    let request = RequestId::from_random(bits());
    let mut answers = Vec::new();
    for _ in 0..2 {
        let mut tx = connection.begin().await.unwrap();
        let request = EnqueueRequest { request, jobs: vec![work(), keyed("a")] };
        answers.push(enqueue_request_in(&mut tx, &place.schema, request).await.unwrap());
        tx.commit().await.unwrap();
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(engine.receipt(request).await.unwrap().as_ref(), answers.first());
    assert_eq!(status(&engine).await.totals.enqueued, 2);
}

async fn claimed_fence(engine: &PostgresEngine) -> Fence {
    enqueue(engine, vec![work()]).await;
    claim(engine, 1).await[0].fence()
}

#[tokio::test]
async fn a_job_is_done_exactly_if_the_transaction_of_sqlx_is_committed() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut connection = with_table(&place).await;
    let fence = claimed_fence(&engine).await;
    for is_committed in [false, true] {
        let mut tx = connection.begin().await.unwrap();
        run(&mut tx, &place, ORDER).await;
        assert_eq!(complete_in(&mut tx, &place.schema, fence).await.unwrap(), Settled::Applied);
        if is_committed {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        let expected = if is_committed { JobState::Succeeded } else { JobState::Running };
        assert_eq!(engine.job(fence.job).await.unwrap().unwrap().job_state(), expected);
    }
    assert_eq!(orders(&mut connection, &place).await, 1);
}

#[tokio::test]
async fn a_lost_claim_ends_nothing_in_a_transaction_of_sqlx() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut connection = with_table(&place).await;
    let fence = claimed_fence(&engine).await;
    let lost = Fence { token: ClaimToken::from_random(bits()), ..fence };
    let mut tx = connection.begin().await.unwrap();
    assert_eq!(complete_in(&mut tx, &place.schema, lost).await.unwrap(), Settled::ClaimLost);
    tx.commit().await.unwrap();
    assert_eq!(engine.job(fence.job).await.unwrap().unwrap().job_state(), JobState::Running);
}

#[tokio::test]
async fn a_refusal_is_an_answer_of_sqlx_and_the_transaction_goes_on() {
    let place = TestStore::new();
    let engine = place.ready().await;
    let mut connection = with_table(&place).await;
    let mut tx = connection.begin().await.unwrap();
    let unknown = NewJob::new(kind("nope"), Payload::default());
    let answers = enqueue_in(&mut tx, &place.schema, vec![unknown, work()]).await.unwrap();
    assert!(
        matches!(&answers[..], [EnqueueAnswer::Refused(Refusal::UnknownType { .. }), EnqueueAnswer::New(_)]),
        "{answers:?}"
    );
    tx.commit().await.unwrap();
    assert_eq!(status(&engine).await.counts.ready, 1);
}

#[tokio::test]
async fn what_the_server_refuses_sqlx_is_told_with_what_to_do() {
    let place = TestStore::new();
    let mut connection = PgConnection::connect(&place.url).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let error = enqueue_in(&mut tx, "nobody_made_it", vec![work()]).await.unwrap_err();
    assert!(matches!(&error, EngineError::Unusable { why } if why.contains("windlass migrate")), "{error}");
    let error = enqueue_in(&mut tx, "not a name", vec![work()]).await.unwrap_err();
    assert!(matches!(&error, EngineError::Refused(why) if why.contains("schema")), "{error}");
}
