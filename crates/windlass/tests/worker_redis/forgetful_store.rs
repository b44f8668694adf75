//! The store forgets everything, or what happened lately: a worker starts over by itself and goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use windlass::redis::{RedisEngine, RedisOptions};
use windlass::types::job::{JobId, Phase};
use windlass::{CompletionTrigger, EnqueueError, JobTemplate, WorkerOptions};
use windlass_servers::redis::{Options, Server};

use crate::bench::{Act, Bench, PATIENCE};
use crate::schedules::every_second;

/// A server that keeps what it was told to save, and nothing else.
fn forgetful_server() -> Server {
    let settings = vec![("appendonly".to_owned(), "no".to_owned())];
    Server::start(&Options { settings, ..Options::default() }).expect("a Redis server")
}

async fn worker_on(server: &Server) -> Bench {
    worker_with(server, WorkerOptions::default()).await
}

async fn worker_with(server: &Server, options: WorkerOptions) -> Bench {
    let engine = RedisEngine::connect(&server.url(), RedisOptions::default()).await.expect("it is up");
    Bench::on(Arc::new(engine), options).await
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
async fn a_worker_stores_its_schedules_and_drains_again_in_a_store_that_was_emptied() {
    let server = forgetful_server();
    let (tick, when_drained) =
        (every_second("quick"), windlass::Watched::Queue("default".parse().expect("a name")));
    let (name, job) = ("hook".parse().expect("a name"), JobTemplate::new("act".parse().expect("a name")));
    let options = WorkerOptions {
        schedules: vec![tick.clone()],
        triggers: vec![CompletionTrigger::new(name, when_drained, job)],
        heartbeat_every: Duration::from_millis(200),
        ..WorkerOptions::default()
    };
    let mut bench = worker_with(&server, options).await;
    bench.started().await;
    tokio::task::block_in_place(|| tell(&server, "FLUSHALL"));
    let (schedules, triggers) = (bench.client.schedules(), bench.client.triggers());
    let is_back = async || {
        schedules.find(&tick.name).await.is_ok_and(|(stored, _)| stored.last_job.is_some())
            && triggers.find(&"hook".parse().expect("a name")).await.is_ok()
    };
    let looking = async {
        while !is_back().await {
            // may sleep: nobody tells a test that something was stored.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("both are there again, and the schedule fires");
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
