//! One bad row must not keep others from being claimed or shown.

use windlass_core::admin::ListRequest;
use windlass_core::engine::{Admin, Engine};
use windlass_core::job::{JobState, Phase};
use windlass_core::outcome::ErrorKind;

use super::{Place, claim, enqueue, ready_engine, status};

#[tokio::test]
async fn a_row_that_cannot_be_read_is_given_up_and_the_others_are_claimed() {
    for damage in ["options = '{'", "tags = 'nonsense'", "key = x'00ff'", "correlation = ''"] {
        let place = Place::new();
        let engine = ready_engine(&place).await;
        let ids = enqueue(&engine, 3).await;
        let sql = format!("UPDATE delayed_jobs SET {damage} WHERE id = ?1");
        let conn = place.connect();
        if conn.execute(&sql, [ids[1].0]).is_err() {
            // The schema itself keeps this damage out.
            continue;
        }
        let claimed: Vec<_> = claim(&engine, 10).await.into_iter().map(|claimed| claimed.job.id).collect();
        assert_eq!(claimed, [ids[0], ids[2]], "{damage}");
        let record = engine.job(ids[1]).await.unwrap().expect("it can still be looked at");
        let JobState::Dead { error, .. } = record.state else { panic!("{damage}: {:?}", record.state) };
        assert_eq!(error.kind, ErrorKind::Undecodable, "{damage}");
        let totals = status(&engine).await.totals;
        assert_eq!((totals.enqueued, totals.dead), (3, 1), "{damage}");
    }
}

#[tokio::test]
async fn a_payload_that_is_no_longer_json_is_left_to_its_handler() {
    let place = Place::new();
    let engine = ready_engine(&place).await;
    let id = enqueue(&engine, 1).await[0];
    place.connect().execute("UPDATE delayed_jobs SET payload = '{' WHERE id = ?1", [id.0]).unwrap();
    let claimed = claim(&engine, 10).await;
    assert!(claimed[0].job.payload.decode::<serde_json::Value>().is_err());
}

#[tokio::test]
async fn damaged_rows_can_be_listed() {
    let place = Place::new();
    let engine = ready_engine(&place).await;
    enqueue(&engine, 2).await;
    place.connect().execute_batch("UPDATE delayed_jobs SET options = '{', last_error = '}'").unwrap();
    let page = engine.list(ListRequest { limit: 10, ..ListRequest::default() }).await.unwrap();
    assert_eq!(page.len(), 2);
    assert!(page.iter().all(|record| record.phase() == Phase::Ready));
}

#[tokio::test]
async fn a_damaged_declaration_counts_as_one_with_the_defaults() {
    let place = Place::new();
    let engine = ready_engine(&place).await;
    place.connect().execute_batch("UPDATE queues SET spec = '{'; UPDATE job_types SET spec = ''").unwrap();
    enqueue(&engine, 1).await;
    assert_eq!(claim(&engine, 1).await.len(), 1);
    assert_eq!(engine.types().await.unwrap()[0].spec.retention_days, 7);
    engine.sweep(10).await.unwrap();
}
