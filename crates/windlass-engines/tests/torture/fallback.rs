//! Redis becomes unavailable again and again under load. Two processes have a spool on disk, and one of
//! them is killed while it has jobs in its spool. Every acknowledged job ends once, in whichever store it
//! is by then.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_conformance::history::{FaultKind, Rules, check};
use windlass_core::engine::{Admin, Engine};
use windlass_core::fallback::SwitchRules;
use windlass_core::spool::Spool;
use windlass_engines::fallback::{Connect, FallbackEngine, FallbackOptions};
use windlass_engines::redis::{RedisEngine, RedisOptions};
use windlass_engines::sqlite::{SqliteEngine, SqliteOptions};
use windlass_servers::redis::{Options, Server};

mod report;

use crate::plan::{Fault, Plan};
use crate::process::{Asked, LASTS, Process, Way, told_to_stop};
use crate::workers::words::declaration;
use crate::workers::{Workers, finals};
use report::{Moves, Report, Tally};

/// Shorter leases expire where a busy machine gives a process no processor for that long.
const LEASE: Duration = Duration::from_secs(3);
/// The pace of each producer. Together they are faster than the workers, also where a disk is slow, so that
/// there are jobs to replay.
const PACE: Duration = Duration::from_millis(4);
/// How many jobs are enqueued between two steps.
const BETWEEN: u64 = 50;
/// The number of rounds in the short form.
const ROUNDS_MIN: u32 = 2;
/// The longest wait of a test.
const WAIT_MAX: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn faults_in_turn_lose_nothing_and_end_nothing_twice() {
    if let Some(asked) = Asked::read() {
        return work_as(asked).await;
    }
    let plan = Plan::asked_for(&Fault::ALL);
    let away = Duration::from_secs(if plan.is_long { 10 } else { 1 });
    println!("\nthe store goes away for {away:?} at a time, seed {}\n", plan.seed);
    let report = Torture::begin(plan, away).await.run().await;
    println!("\n{report}\n");
    assert!(report.is_clean(), "{report}");
    assert!(report.is_worth_checking(), "{report}");
}

/// Does the work of the process that is killed: it enqueues jobs and works on both of its stores, until it
/// is stopped and no job is left.
async fn work_as(asked: Asked) {
    let engine = Arc::new(joined(&asked.url, open_spool(asked.place.as_ref())).await);
    let mut workers = Workers::with(asked.shared_ledger, asked.lease);
    workers.lasts = LASTS;
    start_workers(&mut workers, &engine);
    told_to_stop().await;
    workers.rest(&*engine, || ()).await;
}

/// Starts two producers, and workers and rescuers on both stores.
fn start_workers(workers: &mut Workers, engine: &Arc<FallbackEngine>) {
    workers.producer(engine.clone(), PACE);
    workers.producer(engine.clone(), PACE);
    let spool = engine.spool().expect("the engine has a spool");
    for store in [engine.clone() as Arc<dyn Engine>, spool] {
        workers.worker(Arc::clone(&store));
        workers.rescuer(store);
    }
}

struct Torture {
    plan: Plan,
    away: Duration,
    rng: fastrand::Rng,
    tally: Tally,
    server: Server,
    /// The spools of this process and of the other.
    spools: [Arc<SqliteEngine>; 2],
    folder: tempfile::TempDir,
    engine: Arc<FallbackEngine>,
    workers: Workers,
    process: Option<Process>,
}

impl Torture {
    async fn begin(plan: Plan, away: Duration) -> Self {
        let settings = vec![("appendfsync".to_owned(), "always".to_owned())];
        let server = Server::start(&Options { settings, ..Options::default() }).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let spools =
            [spool_path(folder.path(), 0), spool_path(folder.path(), 1)].map(|path| open_spool(&path));
        let engine = Arc::new(joined(&server.url(), spools[0].clone()).await);
        let mut workers = Workers::new(LEASE);
        start_workers(&mut workers, &engine);
        let (rng, tally) = (fastrand::Rng::with_seed(plan.seed), Tally::default());
        let mut torture =
            Self { plan, away, rng, tally, server, spools, folder, engine, workers, process: None };
        torture.start_process();
        torture
    }

    fn start_process(&mut self) {
        let place = spool_path(self.folder.path(), 1).display().to_string();
        let test_name = "fallback::faults_in_turn_lose_nothing_and_end_nothing_twice";
        let way = Way { test_name, url: self.server.url(), place };
        self.process = Some(Process::start(way, &self.workers.shared_ledger, LEASE));
    }

    async fn run(mut self) -> Report {
        let start = Instant::now();
        while self.tally.rounds < self.plan.kills_min.max(ROUNDS_MIN) || start.elapsed() < self.plan.lasts {
            self.workers.let_work(BETWEEN).await;
            self.tally.rounds += 1;
            self.go_and_come_back().await;
            let (at, round, enqueued) =
                (start.elapsed().as_secs(), self.tally.rounds, self.workers.enqueued());
            let last = self.tally.in_spool_when_killed.last().copied().unwrap_or(0);
            println!("{at:>5} s  round {round:<4} {enqueued} jobs enqueued here  {last} in the killed spool");
        }
        self.judge().await
    }

    /// Runs one round. The server is unavailable for a while, and the other process is killed while it has
    /// a spool: in turn while the server is unavailable, and while jobs are being replayed.
    async fn go_and_come_back(&mut self) {
        let (from, start) = (self.workers.shared_ledger.now(), Instant::now());
        let killed_on_the_way = self.tally.rounds.is_multiple_of(2);
        tokio::task::block_in_place(|| self.server.kill().unwrap());
        self.until("jobs pile up in the other spool", async |torture| torture.in_spool(1).await > 20).await;
        if !killed_on_the_way {
            // may sleep: this is the fault itself; it may be killed at any moment while the server is
            // unavailable.
            tokio::time::sleep(self.away.mul_f64(self.rng.f64() * 0.8)).await;
            self.kill_process().await;
        }
        // may sleep: this is the fault itself, the time for which the server is unavailable.
        tokio::time::sleep(self.away.saturating_sub(start.elapsed())).await;
        // Jobs that were replayed before do not count.
        self.has_moved(1).await;
        tokio::task::block_in_place(|| self.server.restart().unwrap());
        self.workers.shared_ledger.note_fault(FaultKind::StoreAway, None, from);
        if killed_on_the_way {
            self.until("jobs are replayed", async |torture| torture.has_moved(1).await).await;
            self.kill_process().await;
        }
        self.until("the store is back", async |torture| torture.is_back().await).await;
        if self.rng.bool() {
            self.until("everything was replayed", async |torture| torture.in_spool(1).await == 0).await;
        }
    }

    async fn kill_process(&mut self) {
        let process = self.process.take();
        self.workers.shared_ledger.fault(FaultKind::Kill, || drop(process));
        self.tally.in_spool_when_killed.push(self.in_spool(1).await);
        self.start_process();
    }

    /// Counts the unfinished jobs in a spool.
    async fn in_spool(&self, nth: usize) -> u64 {
        let queues = self.spools[nth].queues().await.unwrap();
        queues.iter().map(|queue| queue.counts.unfinished()).sum()
    }

    /// Whether more jobs were replayed from a spool since the last call. A replayed job ended there as
    /// cancelled.
    async fn has_moved(&self, nth: usize) -> bool {
        let moved: u64 = self.spools[nth].queues().await.unwrap().iter().map(|q| q.totals.cancelled).sum();
        moved > self.tally.moved.replace(moved)
    }

    async fn is_back(&self) -> bool {
        let status = self.engine.fallback().await.unwrap().expect("the engine is a fallback");
        status.active == status.primary
    }

    async fn until(&self, what: &str, is_so: impl AsyncFn(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self).await {
            assert!(start.elapsed() < WAIT_MAX, "waited in vain until {what}");
            // may sleep: no signal reports the acts of another process, and each poll reads the file that
            // it writes.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn judge(self) -> Report {
        let mut process = self.process.expect("one runs");
        // The process is told to stop first, and waited for last: each of the two continues until no
        // producer runs and no job is left.
        process.tell_to_stop();
        let shared_ledger = self.workers.rest(&*self.engine, || ()).await;
        tokio::task::block_in_place(|| process.end());
        let primary = RedisEngine::connect(&self.server.url(), RedisOptions::default()).await.unwrap();
        let (mut history, mut moves) = (shared_ledger.read(), Moves::default());
        for spool in &self.spools {
            history.entries.extend(moves.finals(&**spool).await);
        }
        history.entries.extend(finals(&primary).await);
        moves.follow(&mut history);
        let verdict = check(&history, &Rules::default());
        Report::new(self.tally, verdict, &moves, &history)
    }
}

fn spool_path(folder: &Path, nth: usize) -> PathBuf {
    folder.join(format!("spool-{nth}.db"))
}

fn open_spool(path: &Path) -> Arc<SqliteEngine> {
    Arc::new(SqliteEngine::open(path, SqliteOptions::for_spool()).unwrap())
}

async fn joined(url: &str, spool: Arc<dyn Spool>) -> FallbackEngine {
    let url = url.to_owned();
    let connect: Connect = Arc::new(move || {
        let url = url.clone();
        Box::pin(async move {
            let engine = RedisEngine::connect(&url, RedisOptions::default()).await?;
            Ok(Arc::new(engine) as Arc<dyn Engine>)
        })
    });
    let engine = FallbackEngine::open("redis", connect, spool, quick()).await.unwrap();
    engine.declare(declaration()).await.unwrap();
    engine
}

/// Returns options that notice soon that the server is unavailable or back, so that rounds are short.
fn quick() -> FallbackOptions {
    let away = Duration::from_millis(500);
    let rules =
        SwitchRules { failures: 2, successes: 2, away_min: away, away_max: away, ..SwitchRules::default() };
    FallbackOptions {
        check_timeout: Duration::from_secs(1),
        check_every: Duration::from_millis(50),
        adopt_after: Duration::from_millis(500),
        rules,
        ..FallbackOptions::default()
    }
}
