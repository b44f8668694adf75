//! A drain that cannot be read, as a newer version or somebody's hand may leave it, and a worker that has others.

use windlass::core::names::DrainName;
use windlass::core::schedules::Origin;
use windlass::sqlite::rusqlite::Connection;
use windlass::{Client, DrainSpec, WorkerOptions};

use crate::bench::{Act, Bench};
use crate::drains::when_all_is_done;

#[tokio::test]
async fn a_drain_that_cannot_be_read_keeps_neither_a_worker_from_starting_nor_the_others_from_firing() {
    let file = crate::fresh_file();
    let engine = crate::open(&file);
    let broken = DrainSpec { name: DrainName::parse("broken").expect("a plain name"), ..when_all_is_done() };
    let client = Client::new(engine.clone());
    client.drains().declare(std::slice::from_ref(&broken), Origin::Code).await.expect("it is stored");
    let connection = Connection::open(&file).expect("the file opens");
    connection.execute("UPDATE job_drains SET record = '{'", []).expect("the row is there");
    let drains = vec![broken.clone(), when_all_is_done()];
    let mut bench = Bench::on(engine, WorkerOptions { drains, ..WorkerOptions::default() }).await;
    let first = bench.put(Act::Succeed).await;
    assert_eq!(bench.started().await.0, first);
    let (hook, _) = bench.started().await;
    assert_ne!(hook, first);
    let all = bench.client.drains().all().await.expect("it answers");
    assert_eq!((all.drains.len(), all.damaged.len()), (1, 1));
    assert!(bench.client.drains().declare(&[broken], Origin::Code).await.is_err(), "people are told");
}
