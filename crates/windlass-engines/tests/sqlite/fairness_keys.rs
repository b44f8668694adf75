//! Fairness keys of several processes on one file, and of a process that was restarted.

use windlass_core::engine::Engine;
use windlass_core::enqueue::NewJob;
use windlass_core::names::FairnessKey;
use windlass_engines::sqlite::SqliteEngine;

use super::{TestStore, claim, new_job, ready_engine, stored};
use crate::words::request;

async fn put(engine: &SqliteEngine, fairness_key: Option<&str>, count: usize) {
    let fairness_key = fairness_key.map(|fairness_key| FairnessKey::parse(fairness_key).unwrap());
    let jobs = vec![NewJob { fairness_key, ..new_job() }; count];
    assert_eq!(stored(&engine.enqueue(request(jobs)).await.unwrap()).len(), count);
}

fn column(place: &TestStore) -> Vec<Option<String>> {
    let conn = place.connect();
    let mut rows = conn.prepare("SELECT fairness_key FROM delayed_jobs ORDER BY id").unwrap();
    let found = rows.query_map([], |row| row.get(0)).unwrap();
    found.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn jobs_without_a_fairness_key_have_the_empty_name_only_beside_others_that_have_one() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    put(&engine, None, 1).await;
    put(&engine, Some("a"), 1).await;
    put(&engine, None, 1).await;
    assert_eq!(column(&place), [None, Some("a".to_owned()), Some(String::new())]);
    assert_eq!(claim(&engine, 10).await.len(), 3);
    put(&engine, None, 1).await;
    assert_eq!(column(&place).last(), Some(&None), "no job with a fairness key waits any more");
}

#[tokio::test]
async fn a_row_whose_fairness_key_is_damaged_keeps_no_job_from_being_claimed() {
    let place = TestStore::new();
    let engine = ready_engine(&place).await;
    put(&engine, Some("a"), 3).await;
    put(&engine, Some("b"), 3).await;
    let long = "x".repeat(300);
    let changed = place
        .connect()
        .execute("UPDATE delayed_jobs SET fairness_key = ?1 WHERE fairness_key = 'a'", [long])
        .unwrap();
    assert_eq!(changed, 3);
    assert_eq!(claim(&engine, 10).await.len(), 6);
}
