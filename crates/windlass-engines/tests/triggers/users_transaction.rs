//! A job that is completed in the application's own transaction ends for triggers at the commit.

use windlass_core::names::GroupName;
use windlass_core::triggers::Watched;
use windlass_engines::postgres::tokio_postgres::{self, NoTls};

use crate::test_store::{Store, claim_one, clock, evaluate_all, put, register, set_up};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_completed_in_sql_holds_the_trigger_until_the_commit_and_then_marks_it() {
    let (store, clock) = (Store::postgres(), clock());
    let Store::Postgres(url, schema) = &store else { panic!("it is PostgreSQL") };
    let engine = store.open(&clock).await;
    set_up(&engine, Watched::Group(GroupName::parse("import 7").unwrap())).await;
    let worker = register(&engine).await;
    put(&engine, 1).await;
    let claimed = claim_one(&engine, worker).await;
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let complete = format!("SELECT {schema}.complete($1, $2::text::uuid)");
    let (id, token) = (claimed.job.id.0, claimed.fence().token.to_string());
    let rolled_back = client.transaction().await.unwrap();
    let done: bool = rolled_back.query_one(&complete, &[&id, &token]).await.unwrap().get(0);
    assert!(done);
    rolled_back.rollback().await.unwrap();
    assert_eq!(evaluate_all(&engine, &clock).await, 0, "the end was rolled back");
    let open = client.transaction().await.unwrap();
    let done: bool = open.query_one(&complete, &[&id, &token]).await.unwrap().get(0);
    assert!(done);
    assert_eq!(evaluate_all(&engine, &clock).await, 0, "the end is not committed yet");
    open.commit().await.unwrap();
    assert_eq!(evaluate_all(&engine, &clock).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_put_in_by_an_open_transaction_does_not_hold_the_trigger_and_its_own_end_is_the_next() {
    let (store, clock) = (Store::postgres(), clock());
    let Store::Postgres(url, schema) = &store else { panic!("it is PostgreSQL") };
    let engine = store.open(&clock).await;
    set_up(&engine, Watched::Group(GroupName::parse("import 7").unwrap())).await;
    let worker = register(&engine).await;
    put(&engine, 1).await;
    let claimed = claim_one(&engine, worker).await;
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let open = client.transaction().await.unwrap();
    let enqueue = format!("SELECT {schema}.enqueue('work', job_group => 'import 7', run_at => '2027-01-01')");
    open.query_one(&enqueue, &[]).await.unwrap();
    crate::test_store::succeed(&engine, claimed).await;
    assert_eq!(evaluate_all(&engine, &clock).await, 1, "no session sees an uncommitted end");
    open.commit().await.unwrap();
    let claimed = claim_one(&engine, worker).await;
    crate::test_store::succeed(&engine, claimed).await;
    assert_eq!(evaluate_all(&engine, &clock).await, 1);
    assert_eq!(engine.info().name, "postgres");
}
