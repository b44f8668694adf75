//! Measures an engine without a runtime around it: enqueue, then claim and settle in batches, two at once.
//! `cargo run --release -p windlass-engines --features sqlite,postgres --example drain -- \
//! sqlite|postgres [JOBS] [BATCH]`
//! PostgreSQL is taken from DATABASE_URL, and gets schemas named drain_*.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Suspects};
use windlass_core::engine::{Declaration, Engine};
use windlass_core::enqueue::{EnqueueRequest, NewJob, RequestId};
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::payload::Payload;
use windlass_core::queue::QueueSpec;
use windlass_core::settle::{AttemptReport, Settlement, Transition};
use windlass_core::worker::{WorkerCard, WorkerId};
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};

const WORKER: WorkerId = WorkerId::from_random(1);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "sqlite".to_owned());
    let mut numbers = arguments.filter_map(|text| text.parse().ok());
    let jobs: usize = numbers.next().unwrap_or(100_000);
    let batch: usize = numbers.next().unwrap_or(1_000);
    for retention_days in [7, 0] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let engine: Arc<dyn Engine> = match name.as_str() {
            "postgres" => Arc::new(postgres(retention_days).await),
            _ => Arc::new(
                SqliteEngine::open(folder.path().join("jobs.db"), SqliteOptions::default())
                    .expect("a fresh file"),
            ),
        };
        prepare(&engine, retention_days).await;
        println!("{name}, history for {retention_days} days, batches of {batch}");
        let mut cpu = Cpu::read();
        show("bulk enqueue", jobs, enqueue_bulk(&engine, jobs).await, &mut cpu);
        show("drain", jobs, drain(&engine, batch).await, &mut cpu);
        show("single enqueue, 16 callers", 20_000, enqueue_single(&engine, 20_000, 16).await, &mut cpu);
    }
}

async fn postgres(retention_days: u32) -> PostgresEngine {
    let url = std::env::var("DATABASE_URL").expect("DATABASE_URL names a PostgreSQL server");
    let schema = format!("drain_{}_{retention_days}", std::process::id());
    let options = PostgresOptions { schema, ..PostgresOptions::default() };
    PostgresEngine::connect(&url, options).await.expect("a fresh schema")
}

fn show(what: &str, jobs: usize, took: Duration, cpu: &mut Cpu) {
    let jobs = u32::try_from(jobs).expect("a modest number");
    let now = Cpu::read();
    let (own, servers) =
        (now.own.saturating_sub(cpu.own) / jobs, now.servers.saturating_sub(cpu.servers) / jobs);
    *cpu = now;
    let per_job = took / jobs;
    let rate = 1.0 / per_job.as_secs_f64();
    println!(
        "  {what}: {rate:.0}/s, {per_job:?} a job; on processors: {own:?} engine's thread, {servers:?} servers"
    );
}

/// The processor time of the engine's own thread and of PostgreSQL's processes: the part of the figures that
/// is valid on a busy machine. Zero where the system does not report it.
struct Cpu {
    own: Duration,
    servers: Duration,
}

impl Cpu {
    fn read() -> Self {
        let is_own = |name: &str| name.starts_with("windlass-writ") || name.starts_with("windlass-post");
        Self {
            own: on_processor("/proc/self/task", is_own),
            servers: on_processor("/proc", |name| name == "postgres\n"),
        }
    }
}

fn on_processor(folder: &str, counts: impl Fn(&str) -> bool) -> Duration {
    let tasks = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|task| task.path());
    let counted =
        tasks.filter(|path| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| counts(&name)));
    let nanos = counted.filter_map(|path| {
        let stat = std::fs::read_to_string(path.join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

fn queue() -> QueueName {
    QueueName::parse("main").expect("a plain name")
}

fn kind() -> TypeName {
    TypeName::parse("work").expect("a plain name")
}

fn new_job() -> NewJob {
    NewJob::new(kind(), Payload::encode(&"x".repeat(98)).expect("a small payload"))
}

async fn prepare(engine: &Arc<dyn Engine>, retention_days: u32) {
    let spec = TypeSpec { retention_days, ..TypeSpec::new(kind(), queue()) };
    let declaration = Declaration { queues: vec![QueueSpec::new(queue())], types: vec![spec] };
    engine.declare(declaration).await.expect("the engine is up");
    let card = WorkerCard {
        id: WORKER,
        host: String::new(),
        pid: 1,
        version: String::new(),
        queues: vec![queue()],
        types: vec![kind()],
        duties: Vec::new(),
        slots: 0,
        lease: Duration::from_secs(600),
    };
    engine.register(card).await.expect("the engine is up");
}

async fn enqueue_bulk(engine: &Arc<dyn Engine>, jobs: usize) -> Duration {
    let start = Instant::now();
    for n in 0..jobs.div_ceil(1_000) {
        let request = RequestId::from_random(n as u128);
        let request = EnqueueRequest { request, jobs: vec![new_job(); 1_000.min(jobs - n * 1_000)] };
        engine.enqueue(request).await.expect("the engine is up");
    }
    start.elapsed()
}

async fn drain(engine: &Arc<dyn Engine>, batch: usize) -> Duration {
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 1..=2_u128 {
        tasks.spawn(drain_one(engine.clone(), batch, lane));
    }
    tasks.join_all().await;
    start.elapsed()
}

async fn drain_one(engine: Arc<dyn Engine>, batch: usize, lane: u128) {
    for n in 0_u128.. {
        let request = ClaimRequest {
            token: ClaimToken::from_random(lane << 64 | n),
            repeat: false,
            worker: WORKER,
            queues: vec![queue()],
            types: vec![kind()],
            limit: u32::try_from(batch).expect("a modest number"),
            boosted_max: 0,
            suspects: Suspects::LeaveOut,
        };
        let ClaimAnswer::Claimed { jobs, .. } = engine.claim(request).await.expect("the engine is up") else {
            panic!("the worker lives");
        };
        if jobs.is_empty() {
            break;
        }
        let done = jobs
            .into_iter()
            .map(|claimed| claimed.settled(Transition::Succeed { result: None }, AttemptReport::default()));
        let done: Vec<Settlement> = done.collect();
        engine.settle(done).await.expect("the engine is up");
    }
}

async fn enqueue_single(engine: &Arc<dyn Engine>, jobs: usize, callers: usize) -> Duration {
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..callers {
        let engine = engine.clone();
        tasks.spawn(async move {
            for n in 0..jobs / callers {
                let request = RequestId::from_random((1 + caller as u128) << 64 | n as u128);
                let request = EnqueueRequest { request, jobs: vec![new_job()] };
                engine.enqueue(request).await.expect("the engine is up");
            }
        });
    }
    tasks.join_all().await;
    start.elapsed()
}
