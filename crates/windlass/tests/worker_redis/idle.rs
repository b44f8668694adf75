//! The load of an idle worker with all five queues on its server.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass::redis::{RedisEngine, RedisOptions};
use windlass::{Handlers, JobType, Worker, WorkerOptions};
use windlass_servers::redis::{Options, Server};

use crate::bench::PATIENCE;

/// How long a worker is observed: a heartbeat interval.
const WATCHED: Duration = Duration::from_secs(10);
/// The time in which a worker at rest stays within its limit.
const AT_REST: Duration = Duration::from_secs(2);

/// The maximum number of scripts per second, for polls, heartbeats, leases and maintenance together.
const SCRIPTS_A_SECOND: u64 = 4;
/// The maximum number of commands per second on the server, including those of scripts.
const COMMANDS_A_SECOND: u64 = 40;

/// For each queue: its name, and the name of a type of it.
const QUEUES: [(&str, &str); 5] = [
    ("high", "errand_high"),
    ("default", "errand_default"),
    ("screenshot", "errand_screenshot"),
    ("low", "errand_low"),
    ("bulk", "errand_bulk"),
];

/// A job of one of the queues, which is never enqueued.
#[derive(Debug, Serialize, Deserialize)]
struct Errand<const QUEUE: usize>;

impl<const QUEUE: usize> JobType for Errand<QUEUE> {
    const NAME: &'static str = QUEUES[QUEUE].1;
    const QUEUE: &'static str = QUEUES[QUEUE].0;
}

async fn run<const QUEUE: usize>(_: Errand<QUEUE>) {}

/// How often the server has run each command since its start, including those of scripts.
fn commands(server: &Server) -> BTreeMap<String, u64> {
    let mut stream = TcpStream::connect(server.address()).expect("the server is up");
    stream.write_all(b"INFO commandstats\r\n").expect("the server reads");
    let mut reader = BufReader::new(stream);
    let mut length = String::new();
    reader.read_line(&mut length).expect("the server answers");
    let length: u64 = length.trim_start_matches('$').trim().parse().expect("a length");
    let mut answer = String::new();
    reader.take(length).read_to_string(&mut answer).expect("the server answers");
    answer.lines().filter_map(command).collect()
}

/// Parses a line such as `cmdstat_evalsha:calls=7,usec=…`.
fn command(line: &str) -> Option<(String, u64)> {
    let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    Some((name.to_owned(), figures.split(',').next()?.parse().ok()?))
}

/// The commands that ran within a time, without those of the measurement itself.
async fn run_within(server: &Server, time: Duration) -> BTreeMap<String, u64> {
    let before = tokio::task::block_in_place(|| commands(server));
    // may sleep: this is how long it is observed.
    tokio::time::sleep(time).await;
    let after = tokio::task::block_in_place(|| commands(server));
    let more = |(name, count): (String, u64)| {
        let more = count - before.get(&name).copied().unwrap_or(0);
        (more > 0 && name != "info").then_some((name, more))
    };
    after.into_iter().filter_map(more).collect()
}

fn scripts(run: &BTreeMap<String, u64>) -> u64 {
    ["eval", "evalsha"].iter().filter_map(|name| run.get(*name)).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_of_five_queues_polls_nothing_busily() {
    let server = Server::start(&Options::default()).expect("the server starts");
    let engine =
        RedisEngine::connect(&server.url(), RedisOptions::default()).await.expect("the server is up");
    let handlers = Handlers::new(()).handle(run::<0>).handle(run::<1>).handle(run::<2>).handle(run::<3>);
    let handlers = handlers.handle(run::<4>);
    let _worker =
        Worker::start(Arc::new(engine), handlers, WorkerOptions::default()).await.expect("the worker starts");
    let start = Instant::now();
    while scripts(&run_within(&server, AT_REST).await) > SCRIPTS_A_SECOND * AT_REST.as_secs() {
        assert!(start.elapsed() < PATIENCE, "expected the worker to come to rest");
    }
    let run = run_within(&server, WATCHED).await;
    let (scripts, commands) = (scripts(&run), run.values().sum::<u64>());
    println!("within {WATCHED:?}: {scripts} scripts, {commands} commands: {run:?}");
    assert!((1..=SCRIPTS_A_SECOND * WATCHED.as_secs()).contains(&scripts), "{run:?}");
    assert!(commands <= COMMANDS_A_SECOND * WATCHED.as_secs(), "{run:?}");
}
