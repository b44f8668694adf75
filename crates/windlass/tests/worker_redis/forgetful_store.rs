//! The store loses everything, or its latest writes: a worker starts again by itself and continues.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use windlass::redis::{RedisEngine, RedisOptions};
use windlass::types::job::{JobId, JobState};
use windlass::{CompletionTrigger, EnqueueError, JobTemplate, WorkerOptions};
use windlass_servers::redis::{Options, Server};

use crate::bench::{Act, Bench, PATIENCE};
use crate::schedules::every_second;

/// A server that keeps only what it was ordered to save.
fn forgetful_server() -> Server {
    let settings = vec![("appendonly".to_owned(), "no".to_owned())];
    Server::start(&Options { settings, ..Options::default() }).expect("a Redis server")
}

async fn worker_on(server: &Server) -> Bench {
    worker_with(server, WorkerOptions::default()).await
}

async fn worker_with(server: &Server, options: WorkerOptions) -> Bench {
    let engine =
        RedisEngine::connect(&server.url(), RedisOptions::default()).await.expect("the server is up");
    Bench::on(Arc::new(engine), options).await
}

/// Sends the server a command whose answer is a plain OK.
fn send_command(server: &Server, command: &str) {
    let mut stream = TcpStream::connect(server.address()).expect("the server is up");
    stream.write_all(format!("{command}\r\n").as_bytes()).expect("the server reads");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).expect("the server answers");
    assert_eq!(&answer, b"+OK\r\n");
}

/// Enqueues a job, repeating the call for as long as the store is unavailable, and waits until it has run.
async fn run_one_job(bench: &Bench) -> JobId {
    let enqueued = loop {
        match bench.client.enqueue(Act::Succeed).await {
            Ok(enqueued) => break enqueued,
            Err(EnqueueError::Unknown(_)) => {}
            Err(EnqueueError::NotStored(why)) => assert!(why.is_passing(), "{why}"),
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    };
    bench.until(enqueued.id, JobState::Succeeded).await;
    enqueued.id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_in_a_store_that_was_emptied() {
    let server = forgetful_server();
    let bench = worker_on(&server).await;
    run_one_job(&bench).await;
    tokio::task::block_in_place(|| send_command(&server, "FLUSHALL"));
    run_one_job(&bench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stores_its_schedules_and_triggers_again_in_a_store_that_was_emptied() {
    let server = forgetful_server();
    let (tick, when_finished) =
        (every_second("quick"), windlass::Watched::Queue("default".parse().expect("a valid name")));
    let (name, job) =
        ("hook".parse().expect("a valid name"), JobTemplate::new("act".parse().expect("a valid name")));
    let options = WorkerOptions {
        schedules: vec![tick.clone()],
        triggers: vec![CompletionTrigger::new(name, when_finished, job)],
        heartbeat_every: Duration::from_millis(200),
        ..WorkerOptions::default()
    };
    let mut bench = worker_with(&server, options).await;
    bench.started().await;
    tokio::task::block_in_place(|| send_command(&server, "FLUSHALL"));
    let (schedules, triggers) = (bench.client.schedules(), bench.client.triggers());
    let is_back = async || {
        schedules.find(&tick.name).await.is_ok_and(|(stored, _)| stored.last_job.is_some())
            && triggers.find(&"hook".parse().expect("a valid name")).await.is_ok()
    };
    let looking = async {
        while !is_back().await {
            // may sleep: no notification reports to a test that something was stored.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("both are stored again, and the schedule fires");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_in_a_store_that_came_back_older() {
    let mut server = forgetful_server();
    let bench = worker_on(&server).await;
    run_one_job(&bench).await;
    tokio::task::block_in_place(|| send_command(&server, "SAVE"));
    let forgotten = run_one_job(&bench).await;
    let before = bench.engine.workers().await.expect("the server is up").remove(0).card.id;
    tokio::task::block_in_place(|| {
        server.kill().expect("the server runs");
        server.restart().expect("the server starts again");
    });
    assert!(run_one_job(&bench).await > forgotten, "a job id must not be given twice");
    let after = bench.engine.workers().await.expect("the server is up").remove(0).card.id;
    assert_ne!(after, before, "expected the worker to start again under another identity");
}
