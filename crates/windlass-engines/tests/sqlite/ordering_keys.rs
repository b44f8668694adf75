//! An ordering key continues, also if an operator removed the head.

use windlass_core::engine::Engine;
use windlass_core::enqueue::NewJob;
use windlass_core::job::JobId;
use windlass_core::names::OrderingKey;
use windlass_core::settle::{AttemptReport, Transition};
use windlass_engines::sqlite::SqliteEngine;

use super::{TestStore, claim, new_job, ready_engine, stored};
use crate::words::request;

async fn put(engine: &SqliteEngine, count: usize) -> Vec<JobId> {
    let ordered = NewJob { ordering_key: Some(OrderingKey::parse("a").unwrap()), ..new_job() };
    stored(&engine.enqueue(request(vec![ordered; count])).await.unwrap())
}

#[tokio::test]
async fn a_newcomer_does_not_pass_a_line_in_which_no_job_is_out_and_the_oldest_goes_on() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    let jobs = put(&engine, 3).await;
    let gone = place.connect().execute("DELETE FROM delayed_jobs WHERE id = ?1", [jobs[0].0]).unwrap();
    assert_eq!(gone, 1);
    let newcomer = put(&engine, 1).await[0];
    for id in [jobs[1], jobs[2], newcomer] {
        let claimed = claim(&engine, 10).await;
        assert_eq!(claimed.iter().map(|claimed| claimed.job.id).collect::<Vec<_>>(), [id]);
        let end = Transition::Succeed { result: None };
        let ends = claimed.into_iter().map(|claimed| claimed.settled(end.clone(), AttemptReport::default()));
        engine.settle(ends.collect()).await.unwrap();
    }
}
