//! What operators see and do while jobs are in the spool.

use windlass_core::admin::CancelAnswer;
use windlass_core::engine::Admin;

use crate::primary::{Primary, job, put, spool, until_away, until_replayed};

#[tokio::test]
async fn a_job_in_the_spool_can_be_cancelled_and_stays_so() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    primary.go();
    until_away(&engine).await;
    let id = spool(&engine, job(1)).await;
    assert_eq!(engine.cancel(id, "enough").await.unwrap(), CancelAnswer::Cancelled);
    primary.come_back();
    until_replayed(&engine).await;
    assert_eq!(crate::primary::payloads(&*primary.store).await.len(), 0);
}

#[tokio::test]
async fn what_is_asked_of_a_primary_that_is_away_fails_and_says_why() {
    let primary = Primary::on_redis().await;
    let engine = primary.with_memory().await;
    let id = put(&engine, job(1)).await.job().unwrap();
    primary.go();
    until_away(&engine).await;
    assert!(engine.job(id).await.unwrap_err().is_passing());
    assert!(engine.pause(&crate::primary::queue(), None, None).await.unwrap_err().is_passing());
}
