//! A trigger that cannot be read, as a newer version or a manual change may leave it, and a worker with
//! other triggers.

use windlass::sqlite::rusqlite::Connection;
use windlass::types::names::TriggerName;
use windlass::types::schedules::Origin;
use windlass::{Client, CompletionTrigger, WorkerOptions};

use crate::bench::{Act, Bench};
use crate::triggers::when_all_is_done;

#[tokio::test]
async fn a_trigger_that_cannot_be_read_keeps_neither_a_worker_from_starting_nor_the_others_from_firing() {
    let file = crate::fresh_file();
    let engine = crate::open(&file);
    let broken =
        CompletionTrigger { name: TriggerName::parse("broken").expect("a valid name"), ..when_all_is_done() };
    let client = Client::new(engine.clone());
    client
        .triggers()
        .declare(std::slice::from_ref(&broken), Origin::Code)
        .await
        .expect("the trigger is stored");
    let connection = Connection::open(&file).expect("the file opens");
    connection.execute("UPDATE completion_triggers SET record = '{'", []).expect("the row exists");
    let triggers = vec![broken.clone(), when_all_is_done()];
    let mut bench = Bench::on(engine, WorkerOptions { triggers, ..WorkerOptions::default() }).await;
    let first = bench.put(Act::Succeed).await;
    assert_eq!(bench.started().await.0, first);
    let (hook, _) = bench.started().await;
    assert_ne!(hook, first);
    let all = bench.client.triggers().all().await.expect("the store answers");
    assert_eq!((all.triggers.len(), all.damaged.len()), (1, 1));
    assert!(
        bench.client.triggers().declare(&[broken], Origin::Code).await.is_err(),
        "a declaration of the damaged trigger must fail"
    );
}
