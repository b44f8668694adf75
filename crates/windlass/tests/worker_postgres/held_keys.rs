//! A key that another session's open transaction holds delays only callers that enqueue with this key.

use windlass::{EnqueueOutcome, WorkerOptions};
use windlass_servers::postgres::Session;

use crate::bench::{Act, Bench};

#[tokio::test]
async fn a_caller_that_wants_a_held_key_keeps_no_caller_without_a_key_waiting() {
    let schema = crate::fresh_schema();
    let bench = Bench::on(crate::open(&schema), WorkerOptions::default()).await;
    let mut psql = Session::start(&crate::url()).expect("psql starts");
    psql.run(&format!(
        r#"BEGIN; SELECT {schema}.enqueue('act', '"Succeed"', key => 'held', delay => '1 hour');"#
    ))
    .expect("the job is accepted");
    let wanting: Vec<_> = (0..8)
        .map(|_| {
            let client = bench.client.clone();
            tokio::spawn(async move { client.enqueue(Act::Succeed).key("held").await })
        })
        .collect();
    for _ in 0..20 {
        let enqueued = bench.client.enqueue(Act::Succeed).await.expect("no lock is in the way");
        assert_eq!(enqueued.outcome, EnqueueOutcome::New);
    }
    assert!(
        wanting.iter().all(|caller| !caller.is_finished()),
        "expected these callers to wait for the key, and no caller to wait for them"
    );
    psql.run("COMMIT;").expect("the transaction is committed");
    for caller in wanting {
        assert_eq!(
            caller.await.expect("no panic").expect("the key can be read").outcome,
            EnqueueOutcome::Duplicate
        );
    }
}
