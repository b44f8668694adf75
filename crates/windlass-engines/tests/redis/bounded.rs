//! However much there is to do, no script does all of it at once: while a script runs, the server does
//! nothing else. These tests count work: scripts, and the commands inside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use windlass_core::claim::{ClaimAnswer, ClaimRequest};
use windlass_core::clock::{Clock, ManualClock, Timestamp};
use windlass_core::engine::{Admin, Engine, RescueRequest};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::job::JobId;
use windlass_core::lease_watch::Suspicion;
use windlass_core::names::TypeName;
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::worker::{Heartbeat, Liveness, WorkerCard, WorkerId};
use windlass_engines::redis::{RedisEngine, RedisOptions};

use crate::test_store::{TestStore, WORKER, ask, card, claim_request, claimed, enqueue, kind, server};
use crate::words;

/// The number of jobs that one worker holds.
const JOBS: usize = 200_000;
/// The number of these jobs that are requested to stop.
const STOPPED: usize = 1_200;
/// The number of jobs that a worker holds when it dies.
const HELD_AT_DEATH: usize = 50_000;
/// The number of jobs that one script processes.
const BATCH: usize = 500;
/// The largest number of commands of a script for each job: its state, its notes, the list that it leaves
/// and the list that it enters.
const COMMANDS_A_JOB_MAX: usize = 8;
/// The commands that the test itself sends to the server.
const OWN: [&str; 6] = ["evalsha", "eval", "info", "config|resetstat", "hset", "client|setinfo"];

const SECOND: WorkerId = WorkerId::from_random(2);
const THIRD: WorkerId = WorkerId::from_random(3);

/// Returns the calls of each command since the last call of this function.
fn calls(url: &str) -> Vec<(String, usize)> {
    let info: String = ask(url, &["INFO", "commandstats"]);
    ask::<()>(url, &["CONFIG", "RESETSTAT"]);
    counts_in(&info)
}

fn counts_in(info: &str) -> Vec<(String, usize)> {
    let read = |line: &str| {
        let (name, rest) = line.split_once(":calls=").unwrap();
        (name.to_owned(), rest.split(',').next().unwrap().parse().unwrap())
    };
    info.lines().filter_map(|line| line.strip_prefix("cmdstat_")).map(read).collect()
}

/// Returns how many scripts ran, and how many commands inside them.
fn work_in(calls: &[(String, usize)]) -> (usize, usize) {
    let is_script = |name: &str| name == "evalsha" || name == "eval";
    let scripts = calls.iter().filter(|(name, _)| is_script(name)).map(|(_, calls)| calls);
    let inside = calls.iter().filter(|(name, _)| !OWN.contains(&name.as_str())).map(|(_, calls)| calls);
    (scripts.sum(), inside.sum())
}

/// Reads the server's counters all the time, from a connection of its own. The server answers between two
/// scripts, so there are only a few scripts between two answers: one that did everything at once shows, also
/// where the average over all scripts is small.
struct Watch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Watch {
    fn start(url: &str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let ((mut scripts, mut inside), mut most) = ((0, 0), 0);
            while !over.load(Ordering::SeqCst) {
                let info: String =
                    redis::cmd("INFO").arg("commandstats").query(&mut connection).expect("the server is up");
                let now = work_in(&counts_in(&info));
                // The test resets the counters from time to time.
                if now.0 > scripts && now.1 >= inside {
                    most = most.max((now.1 - inside) / (now.0 - scripts));
                }
                (scripts, inside) = now;
            }
            most
        });
        Self { is_over, thread }
    }

    /// Asserts that no script of all that were watched did the work of very many.
    fn assert_in_steps(self) {
        self.is_over.store(true, Ordering::SeqCst);
        let most = self.thread.join().expect("the server answers");
        println!("at most {most} commands in a script");
        assert!(most <= BATCH * COMMANDS_A_JOB_MAX, "{most} commands in a script");
    }
}

/// Asserts that all work since the last check was done by scripts of limited size.
fn assert_in_steps(url: &str, what: &str, rows: usize) {
    let calls = calls(url);
    let of = |name: &str| calls.iter().find(|(of, _)| of == name).map_or(0, |(_, calls)| *calls);
    let (scripts, inside) = work_in(&calls);
    let in_each = inside / scripts;
    println!("{what}: {scripts} scripts, {in_each} commands in each");
    assert!(scripts >= rows / BATCH, "{what}: {scripts} scripts for {rows} rows");
    assert_eq!(of("smembers"), 0, "{what} reads a whole set");
    assert!(in_each <= BATCH * COMMANDS_A_JOB_MAX, "{what}: {in_each} commands in a script");
}

async fn on_a_clock(place: &TestStore) -> (RedisEngine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::starting_at(Timestamp::parse("2026-01-01T00:00:00Z").unwrap()));
    let engine = place.ready_with(RedisOptions { clock: Some(clock.clone()), ..place.options() }).await;
    (engine, clock)
}

/// Claims all jobs for a worker. Returns the jobs, and the last claim that returned any.
async fn claim_all(engine: &RedisEngine, worker: WorkerId) -> (Vec<JobId>, ClaimRequest) {
    let (mut all, mut last) = (Vec::new(), claim_request(0));
    loop {
        let request = ClaimRequest { worker, ..claim_request(1_000) };
        let jobs = claimed(engine.claim(request.clone()).await.unwrap());
        if jobs.is_empty() {
            return (all, last);
        }
        all.extend(jobs.into_iter().map(|claimed| claimed.job.id));
        last = request;
    }
}

async fn ready(engine: &RedisEngine) -> u64 {
    engine.queues().await.unwrap()[0].counts.ready
}

#[tokio::test]
async fn what_a_worker_with_very_many_jobs_leaves_behind_is_given_back_step_by_step() {
    let server = server(&[("appendonly", "no")]);
    let url = server.url();
    let place = TestStore::on(server.url());
    let (engine, clock) = on_a_clock(&place).await;
    calls(&url);
    let watch = Watch::start(&url);
    for _ in 0..JOBS / 1_000 {
        enqueue(&engine, 1_000).await;
    }
    assert_in_steps(&url, "enqueue", 0);
    let (jobs, last) = claim_all(&engine, WORKER).await;
    assert_eq!(jobs.len(), JOBS);
    assert_in_steps(&url, "claim", 0);

    let repeat = engine.claim(ClaimRequest { repeat: true, ..last }).await.unwrap();
    assert_eq!(claimed(repeat).len(), 1_000);
    assert_in_steps(&url, "repeat a claim", JOBS / 2);

    for id in &jobs[..STOPPED] {
        engine.cancel(*id, "enough").await.unwrap();
    }
    assert_in_steps(&url, "cancel", STOPPED);
    let asked = engine.asked_to_stop(WORKER).await.unwrap();
    assert_eq!(asked.iter().map(|fence| fence.job).collect::<Vec<_>>(), jobs[..STOPPED]);
    let beat = engine
        .extend(Heartbeat { worker: WORKER, lease: Duration::from_secs(30), idle: false })
        .await
        .unwrap();
    let Liveness::Alive { cancel } = beat else { panic!("the worker is live") };
    assert_eq!(cancel.len(), BATCH, "a heartbeat returns some of them");
    assert_in_steps(&url, "requested to stop", STOPPED / 2);

    engine.retire(WORKER).await.unwrap();
    let left = JOBS - STOPPED;
    assert_in_steps(&url, "retire", JOBS);
    assert_eq!(ready(&engine).await, left as u64);

    engine.register(card(SECOND)).await.unwrap();
    assert_eq!(claim_all(&engine, SECOND).await.0.len(), left);
    engine.extend(Heartbeat { worker: SECOND, lease: Duration::from_secs(30), idle: false }).await.unwrap();
    // Sets the state of a store that came back older.
    ask::<i64>(&url, &["HSET", &place.key("layout"), "beats", "0"]);
    calls(&url);
    engine.now().await.unwrap();
    // The catalogue, read anew, contains a set of shut queues.
    let scripts = calls(&url).iter().find(|(name, _)| name == "evalsha").map_or(0, |(_, calls)| *calls);
    assert!(scripts >= left / BATCH, "renew: {scripts} scripts");
    assert_eq!(ready(&engine).await, left as u64);
    let answer = engine.claim(ClaimRequest { worker: SECOND, ..claim_request(1) }).await.unwrap();
    assert_eq!(answer, ClaimAnswer::WorkerDead);

    engine.register(card(THIRD)).await.unwrap();
    for _ in 0..HELD_AT_DEATH / 1_000 {
        engine.claim(ClaimRequest { worker: THIRD, ..claim_request(1_000) }).await.unwrap();
    }
    clock.advance(Duration::from_secs(60));
    calls(&url);
    let silent = vec![Suspicion { worker: THIRD, beats: 0 }];
    let dead = RescueRequest { silent, crashes_max: 3, limit: 500 };
    let mut returned = 0;
    loop {
        let rescued = engine.rescue(dead.clone()).await.unwrap();
        returned += rescued.returned.len();
        if !rescued.more {
            break;
        }
    }
    assert_eq!(returned, HELD_AT_DEATH);
    assert_in_steps(&url, "rescue", HELD_AT_DEATH);
    watch.assert_in_steps();
    assert_eq!(engine.queues().await.unwrap()[0].counts.parked, HELD_AT_DEATH as u64);
}

#[tokio::test]
async fn jobs_for_instants_in_the_past_are_looked_through_with_few_commands() {
    let server = server(&[]);
    let url = server.url();
    let place = TestStore::on(server.url());
    let (engine, clock) = on_a_clock(&place).await;
    let day = Duration::from_secs(24 * 60 * 60);
    for priority in Priority::all() {
        let when = When::At(clock.now().minus(day));
        let job = NewJob { priority: Some(priority), when, ..NewJob::new(kind(), Payload::default()) };
        engine.enqueue(words::request(vec![job; 100])).await.unwrap();
    }
    calls(&url);
    clock.advance(Duration::from_secs(7));
    let status = engine.queues().await.unwrap().remove(0);
    assert_eq!((status.counts.ready, status.oldest_ready), (1_100, Some(Duration::from_secs(7))));
    let run = calls(&url);
    assert!(work_in(&run).1 < 200, "{run:?}");
}

#[tokio::test]
async fn what_waited_for_a_handler_is_let_through_step_by_step() {
    const WAITING: usize = 20_000;
    let server = server(&[("appendonly", "no")]);
    let url = server.url();
    let place = TestStore::on(server.url());
    let engine = place.open_with(place.options()).await;
    engine.declare(crate::test_store::declaration()).await.unwrap();
    let other = WorkerCard { types: vec![TypeName::parse("other").unwrap()], ..card(SECOND) };
    engine.register(other).await.unwrap();
    for _ in 0..WAITING / 1_000 {
        enqueue(&engine, 1_000).await;
    }
    calls(&url);
    let watch = Watch::start(&url);
    let mut parked = 0;
    loop {
        let done = engine.sweep(BATCH as u32).await.unwrap();
        parked += done.changed;
        if !done.more {
            break;
        }
    }
    assert_eq!(parked, WAITING as u64);
    assert_in_steps(&url, "sweep", WAITING);
    engine.register(card(WORKER)).await.unwrap();
    assert_in_steps(&url, "register", WAITING);
    watch.assert_in_steps();
    assert_eq!(ready(&engine).await, WAITING as u64);
}

#[tokio::test]
async fn a_worker_that_ended_while_it_gave_its_jobs_back_costs_them_nothing() {
    const NAME: &str = "0123456789abcdef";
    let worker = WorkerId::from_bytes(NAME.as_bytes().try_into().unwrap());
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    engine.register(card(worker)).await.unwrap();
    let ids = enqueue(&engine, 1).await;
    claim_all(&engine, worker).await;
    // The mark that the first of several steps leaves.
    ask::<i64>(&place.url, &["HSET", &place.key(&format!("worker:{NAME}")), "leaving", "1"]);
    let request = ClaimRequest { worker, ..claim_request(1) };
    assert_eq!(engine.claim(request).await.unwrap(), ClaimAnswer::WorkerDead, "the worker gets no new job");
    clock.advance(Duration::from_secs(60));
    let silent = vec![Suspicion { worker, beats: 0 }];
    let rescued = engine.rescue(RescueRequest { silent, crashes_max: 1, limit: 500 }).await.unwrap();
    assert_eq!((rescued.returned, rescued.more), (ids.clone(), false));
    let record = engine.job(ids[0]).await.unwrap().unwrap();
    assert_eq!((record.job.counters.crashes, record.job.counters.failures), (0, 0));
}

#[tokio::test]
async fn engines_that_went_away_are_not_listed_for_ever() {
    let place = TestStore::shared();
    let engine = place.ready().await;
    let waiters = place.key("waiters:main");
    for first in (0..5_000).step_by(500) {
        let gone: Vec<_> = (first..first + 500).flat_map(|n| ["1".to_owned(), format!("gone{n}")]).collect();
        let words: Vec<_> = ["ZADD", &waiters].into_iter().chain(gone.iter().map(String::as_str)).collect();
        ask::<i64>(&place.url, &words);
    }
    claim_all(&engine, WORKER).await;
    assert_eq!(ask::<usize>(&place.url, &["ZCARD", &waiters]), 1_000);
    // Each enqueue meets the other waiters that are gone, some at a time.
    for _ in 0..99 {
        enqueue(&engine, 1).await;
    }
    assert_eq!(ask::<usize>(&place.url, &["ZCARD", &waiters]), 10);
}

#[tokio::test]
async fn graves_whose_jobs_are_not_yet_rescued_do_not_keep_others_from_being_forgotten() {
    let place = TestStore::shared();
    let (engine, clock) = on_a_clock(&place).await;
    let holds: Vec<_> = (10..15).map(WorkerId::from_random).collect();
    for worker in &holds {
        engine.register(card(*worker)).await.unwrap();
        enqueue(&engine, 1).await;
        claim_all(&engine, *worker).await;
    }
    clock.advance(Duration::from_secs(1));
    engine.register(card(SECOND)).await.unwrap();
    clock.advance(Duration::from_secs(60));
    let silent =
        holds.iter().chain([&SECOND]).map(|worker| Suspicion { worker: *worker, beats: 0 }).collect();
    // No process takes their jobs back.
    engine.rescue(RescueRequest { silent, crashes_max: 3, limit: 0 }).await.unwrap();
    clock.advance(Duration::from_secs(25 * 60 * 60));
    let graves = place.key("graves");
    assert_eq!(ask::<usize>(&place.url, &["ZCARD", &graves]), 6);
    for _ in 0..6 {
        engine.prune(1).await.unwrap();
    }
    assert_eq!(ask::<usize>(&place.url, &["ZCARD", &graves]), 5);
    assert_eq!(engine.job(JobId(1)).await.unwrap().unwrap().job.job_type, kind());
}
