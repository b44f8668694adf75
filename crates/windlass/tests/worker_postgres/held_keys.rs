//! A key that somebody's open transaction holds keeps waiting only those who want it.

use windlass::{EnqueueOutcome, WorkerOptions};
use windlass_servers::postgres::Session;

use crate::bench::{Act, Bench};

#[tokio::test]
async fn whoever_wants_a_key_that_is_held_keeps_nobody_without_a_key_waiting() {
    let schema = crate::fresh_schema();
    let bench = Bench::on(crate::open(&schema), WorkerOptions::default()).await;
    let mut psql = Session::start(&crate::url()).expect("psql starts");
    psql.run(&format!(
        r#"BEGIN; SELECT {schema}.enqueue('act', '"Succeed"', key => 'held', delay => '1 hour');"#
    ))
    .expect("it is taken");
    let wanting: Vec<_> = (0..8)
        .map(|_| {
            let client = bench.client.clone();
            tokio::spawn(async move { client.enqueue(Act::Succeed).key("held").await })
        })
        .collect();
    for _ in 0..20 {
        let placed = bench.client.enqueue(Act::Succeed).await.expect("nobody is in the way");
        assert_eq!(placed.outcome, EnqueueOutcome::New);
    }
    assert!(wanting.iter().all(|caller| !caller.is_finished()), "they wait for the key, and nobody for them");
    psql.run("COMMIT;").expect("it is stored");
    for caller in wanting {
        assert_eq!(
            caller.await.expect("no panic").expect("the key is free to look at").outcome,
            EnqueueOutcome::Duplicate
        );
    }
}
