//! The store forgets everything, or what happened lately: a worker starts over by itself and goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use windlass::core::job::{JobId, Phase};
use windlass::redis::{RedisEngine, RedisOptions};
use windlass::{EnqueueError, WorkerOptions};
use windlass_servers::redis::{Options, Server};

use crate::bench::{Act, Bench};

/// A server that keeps what it was told to save, and nothing else.
fn forgetful_server() -> Server {
    let settings = vec![("appendonly".to_owned(), "no".to_owned())];
    Server::start(&Options { settings, ..Options::default() }).expect("a Redis server")
}

async fn worker_on(server: &Server) -> Bench {
    let engine = RedisEngine::connect(&server.url(), RedisOptions::default()).await.expect("it is up");
    Bench::on(Arc::new(engine), WorkerOptions::default()).await
}

/// Tells the server something that it answers with a plain yes.
fn tell(server: &Server, command: &str) {
    let mut stream = TcpStream::connect(server.address()).expect("it is up");
    stream.write_all(format!("{command}\r\n").as_bytes()).expect("it listens");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).expect("it answers");
    assert_eq!(&answer, b"+OK\r\n");
}

/// Puts a job in, asking again for as long as the store is away, and waits until it has run.
async fn goes_on(bench: &Bench) -> JobId {
    let placed = loop {
        match bench.client.enqueue(Act::Succeed).await {
            Ok(placed) => break placed,
            Err(EnqueueError::Unknown(_)) => {}
            Err(EnqueueError::NotStored(why)) => assert!(why.is_passing(), "{why}"),
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    };
    bench.until(placed.id, Phase::Succeeded).await;
    placed.id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_in_a_store_that_was_emptied() {
    let server = forgetful_server();
    let bench = worker_on(&server).await;
    goes_on(&bench).await;
    tokio::task::block_in_place(|| tell(&server, "FLUSHALL"));
    goes_on(&bench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_in_a_store_that_came_back_older() {
    let mut server = forgetful_server();
    let bench = worker_on(&server).await;
    goes_on(&bench).await;
    tokio::task::block_in_place(|| tell(&server, "SAVE"));
    let forgotten = goes_on(&bench).await;
    let before = bench.engine.workers().await.expect("it is up").remove(0).card.id;
    tokio::task::block_in_place(|| {
        server.kill().expect("it runs");
        server.restart().expect("it starts again");
    });
    assert!(goes_on(&bench).await > forgotten, "a number that was given is not given again");
    let after = bench.engine.workers().await.expect("it is up").remove(0).card.id;
    assert_ne!(after, before, "it started over under another identity");
}
