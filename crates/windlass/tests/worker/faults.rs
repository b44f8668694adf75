//! A real worker and a real client, with prefetching, batches, heartbeats, keyed jobs and retries, while
//! the server is killed, connections are cut, answers are lost, and a process is frozen. The history
//! checker judges the result. The test program that includes this file chooses the server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass::duties::LeaseTiming;
use windlass::types::admin::{AttemptEnding, ListRequest};
use windlass::types::job::{JobId, JobState, StoredState};
use windlass::types::limits::LIST_PAGE_MAX;
use windlass::types::worker::{WorkerId, WorkerSighting};
use windlass::{Client, EnqueueError, Worker, WorkerOptions};
use windlass_conformance::history::{Event, FaultKind, Rules, Uid, check, dump};
use windlass_servers::proxy::Proxy;

use crate::bench::PATIENCE;
use crate::struck::{self, Server};
use errand::{Errand, handlers};
use process::{Process, work_if_asked};
use shared_ledger::SharedLedger;

#[path = "../../../windlass-engines/tests/workers/shared_ledger.rs"]
mod shared_ledger;
#[path = "faults/errand.rs"]
mod errand;
#[path = "faults/process.rs"]
mod process;

/// The length of a worker lease.
const LEASE: Duration = Duration::from_millis(500);
/// How long after the server is back a worker may be declared dead because it lost the connection while the
/// server was unavailable.
const AFTERMATH: Duration = Duration::from_secs(2);
/// The interval between two jobs of a producer.
const PACE: Duration = Duration::from_millis(3);
/// The interval of polling the store where no notification reports a change.
const POLL_EVERY: Duration = Duration::from_millis(50);
/// The minimum number of jobs of a run; fewer prove little.
const JOBS_MIN: usize = 200;
const KILLS: usize = 5;
const CUTS: usize = 25;
const FREEZES_MAX: usize = 20;

fn options(lease: Duration) -> WorkerOptions {
    WorkerOptions {
        lease,
        heartbeat_every: lease / 5,
        sweep_every: lease / 5,
        duty_leases: LeaseTiming { heartbeat: lease / 5, expiry: lease },
        ..WorkerOptions::default()
    }
}

/// The fixture: a server, two workers, one of them behind a proxy, and four producers behind it.
struct TestStore {
    server: Server,
    proxy: Proxy,
    shared_ledger: Arc<SharedLedger>,
    workers: Vec<Worker>,
    producers: JoinSet<()>,
    stop: Arc<AtomicBool>,
    /// How often a job began or ended in this process.
    worked: watch::Sender<usize>,
}

impl TestStore {
    async fn start() -> Self {
        Self::start_with(LEASE).await
    }

    async fn start_with(lease: Duration) -> Self {
        let server = struck::start();
        let proxy = Proxy::start(server.address()).expect("the proxy starts");
        let (shared_ledger, stop) = (Arc::new(SharedLedger::begin()), Arc::<AtomicBool>::default());
        let (mut workers, worked) = (Vec::new(), watch::Sender::default());
        for url in [server.url(), proxy.url(&server.url())] {
            let handlers = handlers(&shared_ledger, "here", &worked);
            workers.push(
                Worker::start(struck::open(&url).await, handlers, options(lease))
                    .await
                    .expect("the worker starts"),
            );
        }
        let mut producers = JoinSet::new();
        for name in 0..4 {
            let client = workers[1].client().clone();
            producers.spawn(produce(client, Arc::clone(&shared_ledger), name, Arc::clone(&stop)));
        }
        Self { server, proxy, shared_ledger, workers, producers, stop, worked }
    }

    fn client(&self) -> &Client {
        self.workers[0].client()
    }

    /// Waits until `more` further jobs have begun or ended here, so that the next fault hits running work.
    async fn let_work(&self, more: usize) {
        let so_far = *self.worked.borrow();
        self.let_work_until(so_far + more).await;
    }

    async fn let_work_until(&self, enough: usize) {
        let mut worked = self.worked.subscribe();
        let waited = tokio::time::timeout(PATIENCE, worked.wait_for(|count| *count >= enough)).await;
        assert!(waited.is_ok(), "expected all workers to continue after a fault");
    }

    /// Stops the producers once there are enough jobs, waits for all jobs, and checks the history.
    async fn end(mut self) {
        self.let_work_until(4 * JOBS_MIN).await;
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.producers.join_next().await {
            ended.expect("a producer ends without a panic");
        }
        let (start, mut worked) = (Instant::now(), self.worked.subscribe());
        while self.unfinished().await > 0 {
            assert!(
                start.elapsed() < PATIENCE,
                "expected all jobs to end, {} are unfinished",
                self.unfinished().await
            );
            // The end of the last job is stored a little after the end of its handler.
            let _ = tokio::time::timeout(POLL_EVERY, worked.changed()).await;
        }
        let mut history = self.shared_ledger.read();
        let engine = self.client().engine();
        let uid_of = |record: &windlass::types::admin::StoredJob| {
            record.job.payload.decode::<Errand>().ok().map(|errand| errand.uid)
        };
        history.entries.extend(dump(&**engine, uid_of).await.expect("the server is up"));
        for entry in &history.entries {
            let Event::Final { job, .. } = &entry.event else { continue };
            let attempts = engine.attempts(*job).await.expect("the server is up");
            let ends = attempts.iter().filter(|attempt| attempt.ending == AttemptEnding::Succeeded);
            assert_eq!(ends.count(), 1, "{attempts:?}");
        }
        let verdict = check(&history, &Rules::default());
        println!("{verdict}");
        assert!(verdict.is_clean(), "{verdict}");
        assert!(verdict.jobs >= JOBS_MIN, "expected at least {JOBS_MIN} jobs: {verdict}");
    }

    async fn unfinished(&self) -> u64 {
        let queues = self.client().queues().await.expect("the server is up");
        queues.iter().map(|queue| queue.counts.unfinished()).sum()
    }
}

/// Enqueues jobs, one of three with a key. An enqueue without an answer has no answer in the ledger either.
async fn produce(client: Client, shared_ledger: Arc<SharedLedger>, name: u8, stop: Arc<AtomicBool>) {
    let mut pace = tokio::time::interval(PACE);
    for n in 0.. {
        pace.tick().await;
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let uid = Uid(format!("{name}/{n}"));
        shared_ledger.note(Event::Invoke { uid: uid.clone(), due: None });
        let enqueue = client.enqueue(Errand { uid: uid.clone() });
        let enqueued = if n % 3 == 0 { enqueue.key(&uid.0).await } else { enqueue.await };
        match enqueued {
            Ok(enqueued) => shared_ledger.note(Event::Acknowledged { uid, job: enqueued.id }),
            Err(EnqueueError::Unknown(_)) => {}
            Err(EnqueueError::NotStored(_)) => shared_ledger.note(Event::Refused { uid }),
            Err(error) => panic!("expected a transient error, got {error:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_ended_twice_by_a_worker_whose_server_is_killed_again_and_again() {
    let mut place = TestStore::start().await;
    for _ in 0..KILLS {
        place.let_work(200).await;
        let server = &mut place.server;
        let kill = || server.kill().and_then(|()| server.restart());
        let killed = place.shared_ledger.fault(FaultKind::StoreAway, || tokio::task::block_in_place(kill));
        killed.expect("the server starts again");
        let back = place.shared_ledger.now();
        place.shared_ledger.note_fault_until(FaultKind::StoreAway, None, back, back.plus(AFTERMATH));
    }
    place.let_work(200).await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_ended_twice_by_a_worker_whose_connections_are_cut_and_answers_swallowed() {
    let place = TestStore::start().await;
    place.let_work(200).await;
    let from = place.shared_ledger.now();
    for cut in 0..CUTS {
        match cut % 3 {
            0 => place.proxy.cut_all(),
            1 => place.proxy.cut_after_answers(fastrand::usize(0..20_000)),
            _ => {
                place.proxy.swallow_answers(true);
                // may sleep: answers are lost for this long, and a caller that waits for one does nothing
                // else.
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1..150))).await;
                place.proxy.cut_all();
                place.proxy.swallow_answers(false);
                // A call that was sent in between has lost its answer too, and would wait for it.
                place.proxy.cut_all();
            }
        }
        place.let_work(30).await;
    }
    place.proxy.cut_after_answers(usize::MAX);
    place.shared_ledger.note_fault_until(
        FaultKind::LostAnswer,
        None,
        from,
        place.shared_ledger.now().plus(AFTERMATH),
    );
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_worker_is_declared_dead_because_the_server_stood_still_for_twice_its_lease() {
    // A busy machine gives a process no processor for half a second now and then, which is no fault of the
    // server.
    let lease = 4 * LEASE;
    let place = TestStore::start_with(lease).await;
    place.let_work(200).await;
    let before = workers(&place).await;
    let frozen = place.shared_ledger.fault(FaultKind::StoreAway, || {
        place.server.freeze().expect("the server is frozen");
        // may sleep: the server is frozen for this long.
        tokio::task::block_in_place(|| std::thread::sleep(2 * lease));
        place.server.thaw()
    });
    frozen.expect("the server resumes");
    place.let_work(200).await;
    let after = workers(&place).await;
    assert!(before.is_subset(&after), "expected {before:?} to be live, got {after:?}");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stands_still_until_its_jobs_were_rescued_ends_none_of_them_when_it_is_woken() {
    if work_if_asked().await {
        return;
    }
    let place = TestStore::start().await;
    let process = Process::start(&place.server.url(), &place.shared_ledger);
    let mut rescued = 0;
    for _ in 0..FREEZES_MAX {
        place.let_work(100).await;
        rescued += freeze_until_rescued(&place, &process).await;
        if rescued > 0 {
            break;
        }
    }
    assert!(rescued > 0, "expected the process to hold a job in one of {FREEZES_MAX} attempts");
    process.end();
    place.end().await;
}

/// Freezes a process that holds jobs until they are rescued, and resumes it. Returns how many jobs were
/// rescued.
async fn freeze_until_rescued(place: &TestStore, process: &Process) -> usize {
    let of_process = |seen: &[WorkerSighting]| {
        seen.iter().find(|one| one.card.pid == process.pid() && one.running > 0).map(|one| one.card.id)
    };
    let worker = seen(place, of_process).await;
    let from = place.shared_ledger.now();
    process.freeze();
    let held = held_by(place, worker).await;
    let is_gone = |seen: &[WorkerSighting]| seen.iter().all(|one| one.card.id != worker).then_some(());
    seen(place, is_gone).await;
    process.wake();
    let is_back = |seen: &[WorkerSighting]| {
        seen.iter().any(|one| one.card.pid == process.pid() && one.card.id != worker).then_some(())
    };
    seen(place, is_back).await;
    place.shared_ledger.note_fault(FaultKind::Freeze, Some(process.name()), from);
    let mut rescued = 0;
    for id in held {
        let attempts = place.client().engine().attempts(id).await.expect("the server is up");
        let ends = attempts.iter().filter(|attempt| attempt.worker == worker).map(|attempt| &attempt.ending);
        let ends: Vec<_> = ends.collect();
        // A job that it had ended before the freeze has ended. A job that was rescued from it must not be
        // ended by it any more.
        if ends.contains(&&AttemptEnding::Crashed) {
            assert!(!ends.contains(&&AttemptEnding::Succeeded), "{attempts:?}");
            rescued += 1;
        }
    }
    rescued
}

/// The jobs that a worker holds.
async fn held_by(place: &TestStore, worker: WorkerId) -> Vec<JobId> {
    let running =
        ListRequest { job_state: Some(JobState::Running), limit: LIST_PAGE_MAX, ..ListRequest::default() };
    let running = place.client().engine().list(running).await.expect("the server is up");
    let is_theirs =
        |state: &StoredState| matches!(state, StoredState::Running { worker: by, .. } if *by == worker);
    running.iter().filter(|record| is_theirs(&record.state)).map(|record| record.job.id).collect()
}

/// The workers that were not declared dead.
async fn workers(place: &TestStore) -> BTreeSet<WorkerId> {
    let seen = place.client().engine().workers().await.expect("the server is up");
    seen.iter().map(|one| one.card.id).collect()
}

/// Polls the workers until there is an answer.
async fn seen<T>(place: &TestStore, look: impl Fn(&[WorkerSighting]) -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        let seen = place.client().engine().workers().await.expect("the server is up");
        if let Some(answer) = look(&seen) {
            return answer;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "expected the workers to change within {PATIENCE:?}, got {seen:?}"
        );
        // may sleep: other processes send no signal, and the server under test has other things to do.
        tokio::time::sleep(POLL_EVERY / 10).await;
    }
}
