//! A real worker and a real client, with prefetching, batches, heartbeats, keyed jobs and retries, while the server is
//! killed, connections are cut, answers are lost, and a process stands still. The checker of histories judges. Which server
//! it is, the test program says that takes this in.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass::duties::LeaseTiming;
use windlass::types::admin::{AttemptEnding, ListRequest};
use windlass::types::job::{JobId, JobState, Phase};
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

/// A heartbeat is good for so long.
const LEASE: Duration = Duration::from_millis(500);
/// Somebody who lost touch while a server was away may be declared dead when it is back.
const AFTERMATH: Duration = Duration::from_secs(2);
/// Each producer puts in a job so often.
const PACE: Duration = Duration::from_millis(3);
/// Where nothing tells, the store is asked no more often than this.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A run with fewer jobs says little.
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

/// A server, two workers, one of them behind a proxy, and four producers behind it.
struct Place {
    server: Server,
    proxy: Proxy,
    shared_ledger: Arc<SharedLedger>,
    workers: Vec<Worker>,
    producers: JoinSet<()>,
    stop: Arc<AtomicBool>,
    /// How often a job began or ended in this process.
    worked: watch::Sender<usize>,
}

impl Place {
    async fn start() -> Self {
        Self::start_with(LEASE).await
    }

    async fn start_with(lease: Duration) -> Self {
        let server = struck::start();
        let proxy = Proxy::start(server.address()).expect("it starts");
        let (shared_ledger, stop) = (Arc::new(SharedLedger::begin()), Arc::<AtomicBool>::default());
        let (mut workers, worked) = (Vec::new(), watch::Sender::default());
        for url in [server.url(), proxy.url(&server.url())] {
            let handlers = handlers(&shared_ledger, "here", &worked);
            workers.push(
                Worker::start(struck::open(&url).await, handlers, options(lease)).await.expect("it starts"),
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

    /// Waits until so many more jobs have begun or ended here, so that the next fault hits something.
    async fn let_work(&self, more: usize) {
        let so_far = *self.worked.borrow();
        self.let_work_until(so_far + more).await;
    }

    async fn let_work_until(&self, enough: usize) {
        let mut worked = self.worked.subscribe();
        let waited = tokio::time::timeout(PATIENCE, worked.wait_for(|count| *count >= enough)).await;
        assert!(waited.is_ok(), "expected everybody to go on after a fault");
    }

    /// Lets everything end once there is enough to judge, and judges.
    async fn end(mut self) {
        self.let_work_until(4 * JOBS_MIN).await;
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.producers.join_next().await {
            ended.expect("a producer ends well");
        }
        let (start, mut worked) = (Instant::now(), self.worked.subscribe());
        while self.unfinished().await > 0 {
            assert!(
                start.elapsed() < PATIENCE,
                "expected everything to end, {} left",
                self.unfinished().await
            );
            // The end of the last one is stored a little after its handler's.
            let _ = tokio::time::timeout(LOOK_EVERY, worked.changed()).await;
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
        assert!(verdict.jobs >= JOBS_MIN, "a run worth checking: {verdict}");
    }

    async fn unfinished(&self) -> u64 {
        let queues = self.client().queues().await.expect("the server is up");
        queues.iter().map(|queue| queue.counts.unfinished()).sum()
    }
}

/// Puts jobs in, one of three with a key. What has no answer has none in the book.
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
        let placed = if n % 3 == 0 { enqueue.key(&uid.0).await } else { enqueue.await };
        match placed {
            Ok(placed) => shared_ledger.note(Event::Acknowledged { uid, job: placed.id }),
            Err(EnqueueError::Unknown(_)) => {}
            Err(EnqueueError::NotStored(_)) => shared_ledger.note(Event::Refused { uid }),
            Err(error) => panic!("expected an error that passes, got {error:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_ended_twice_by_a_worker_whose_server_is_killed_again_and_again() {
    let mut place = Place::start().await;
    for _ in 0..KILLS {
        place.let_work(200).await;
        let server = &mut place.server;
        let kill = || server.kill().and_then(|()| server.restart());
        let killed = place.shared_ledger.fault(FaultKind::StoreAway, || tokio::task::block_in_place(kill));
        killed.expect("it starts again");
        let back = place.shared_ledger.now();
        place.shared_ledger.note_fault_until(FaultKind::StoreAway, None, back, back.plus(AFTERMATH));
    }
    place.let_work(200).await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_ended_twice_by_a_worker_whose_connections_are_cut_and_answers_swallowed() {
    let place = Place::start().await;
    place.let_work(200).await;
    let from = place.shared_ledger.now();
    for cut in 0..CUTS {
        match cut % 3 {
            0 => place.proxy.cut_all(),
            1 => place.proxy.cut_after_answers(fastrand::usize(0..20_000)),
            _ => {
                place.proxy.swallow_answers(true);
                // may sleep: so long are answers lost, and whoever waits for one does nothing else.
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1..150))).await;
                place.proxy.cut_all();
                place.proxy.swallow_answers(false);
                // Whoever came in between has lost something too, and would wait for it.
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
    // A busy machine gives a process no processor for half a second now and then, and that is no fault of the server's.
    let lease = 4 * LEASE;
    let place = Place::start_with(lease).await;
    place.let_work(200).await;
    let before = workers(&place).await;
    let frozen = place.shared_ledger.fault(FaultKind::StoreAway, || {
        place.server.freeze().expect("it is stopped");
        // may sleep: so long the server stands still.
        tokio::task::block_in_place(|| std::thread::sleep(2 * lease));
        place.server.thaw()
    });
    frozen.expect("it goes on");
    place.let_work(200).await;
    let after = workers(&place).await;
    assert!(before.is_subset(&after), "expected {before:?} to live, got {after:?}");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stands_still_until_its_jobs_were_rescued_ends_none_of_them_when_it_is_woken() {
    if work_if_asked().await {
        return;
    }
    let place = Place::start().await;
    let process = Process::start(&place.server.url(), &place.shared_ledger);
    let mut robbed = 0;
    for _ in 0..FREEZES_MAX {
        place.let_work(100).await;
        robbed += freeze_until_rescued(&place, &process).await;
        if robbed > 0 {
            break;
        }
    }
    assert!(robbed > 0, "expected it to have something in its hands in one of {FREEZES_MAX} tries");
    process.end();
    place.end().await;
}

/// Stops a process that holds jobs until they were taken back, and wakes it. Gives how many it had in its hands.
async fn freeze_until_rescued(place: &Place, process: &Process) -> usize {
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
    let mut robbed = 0;
    for id in held {
        let attempts = place.client().engine().attempts(id).await.expect("the server is up");
        let ends = attempts.iter().filter(|attempt| attempt.worker == worker).map(|attempt| &attempt.ending);
        let ends: Vec<_> = ends.collect();
        // What it had ended before it stood still is over; what was taken back from it, it ends no more.
        if ends.contains(&&AttemptEnding::Crashed) {
            assert!(!ends.contains(&&AttemptEnding::Succeeded), "{attempts:?}");
            robbed += 1;
        }
    }
    robbed
}

/// The jobs that a worker has in its hands.
async fn held_by(place: &Place, worker: WorkerId) -> Vec<JobId> {
    let running = ListRequest { phase: Some(Phase::Running), limit: LIST_PAGE_MAX, ..ListRequest::default() };
    let running = place.client().engine().list(running).await.expect("the server is up");
    let is_theirs = |state: &JobState| matches!(state, JobState::Running { worker: by, .. } if *by == worker);
    running.iter().filter(|record| is_theirs(&record.state)).map(|record| record.job.id).collect()
}

/// Those whom nobody has declared dead.
async fn workers(place: &Place) -> BTreeSet<WorkerId> {
    let seen = place.client().engine().workers().await.expect("the server is up");
    seen.iter().map(|one| one.card.id).collect()
}

/// Looks at the workers until there is an answer.
async fn seen<T>(place: &Place, look: impl Fn(&[WorkerSighting]) -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        let seen = place.client().engine().workers().await.expect("the server is up");
        if let Some(answer) = look(&seen) {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "expected another sight within {PATIENCE:?}, got {seen:?}");
        // may sleep: other processes send no signal, and the server under test has more to do than to answer this.
        tokio::time::sleep(LOOK_EVERY / 10).await;
    }
}
