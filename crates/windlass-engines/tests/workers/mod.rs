//! Producers, workers and a rescuer that trust an engine's answers and record what they do, so that the
//! history checker can judge whether the answers were true. An error that says *nothing was written* is
//! trusted; one that says *unknown* leads to a query. Several test programs include this folder, each with
//! engines of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_conformance::history::{Entry, Event, History, Uid, dump};
use windlass_core::engine::{Engine, RescueRequest};
use windlass_core::enqueue::NewJob;
use windlass_core::key::KeyClaim;
use windlass_core::lease_watch::{LeaseWatch, Own, WatchPace};
use windlass_core::limits::CRASHES_MAX;
use windlass_core::names::Key;
use windlass_core::payload::Payload;
use windlass_core::worker::{Heartbeat, Liveness, WorkerCard, WorkerId};

pub(crate) mod words;
pub(crate) mod shared_ledger;
pub(crate) mod surely;
pub(crate) mod worker;

use shared_ledger::SharedLedger;
use surely::enqueue_surely;
use words::{bits, card, kind, request};
use worker::Worker;

/// The longest wait, sufficient for a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// How often the rescuer scans.
const SWEEP: Duration = Duration::from_millis(100);

/// The producers, workers and rescuers of one store.
pub(crate) struct Workers {
    pub(crate) shared_ledger: Arc<SharedLedger>,
    /// How long a worker works on the jobs of one claim.
    pub(crate) lasts: Duration,
    /// Whether one of three jobs has a key of its own.
    pub(crate) has_keys: bool,
    lease: Duration,
    stop_producing: Arc<AtomicBool>,
    stop_working: Arc<AtomicBool>,
    producers: JoinSet<()>,
    others: JoinSet<()>,
    enqueued: watch::Sender<u64>,
}

impl Workers {
    pub(crate) fn new(lease: Duration) -> Self {
        Self::with(SharedLedger::begin(), lease)
    }

    /// Creates workers that write to a shared ledger.
    pub(crate) fn with(shared_ledger: SharedLedger, lease: Duration) -> Self {
        Self {
            shared_ledger: Arc::new(shared_ledger),
            lasts: Duration::ZERO,
            has_keys: false,
            lease,
            stop_producing: Arc::default(),
            stop_working: Arc::default(),
            producers: JoinSet::new(),
            others: JoinSet::new(),
            enqueued: watch::Sender::new(0),
        }
    }

    /// Starts a producer that enqueues jobs one after the other, each a little later than the one before.
    pub(crate) fn producer(&mut self, engine: Arc<dyn Engine>, pace: Duration) {
        let shared_ledger = Arc::clone(&self.shared_ledger);
        let (stop, enqueued, name) = (Arc::clone(&self.stop_producing), self.enqueued.clone(), bits());
        let has_keys = self.has_keys;
        self.producers.spawn(async move {
            for n in 0_u64.. {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let uid = Uid(format!("{name:x}/{n}"));
                let key = (has_keys && n % 3 == 0).then(|| KeyClaim::new(Key::parse(&uid.0).unwrap()));
                enqueue_and_note(&*engine, &shared_ledger, uid, key).await;
                enqueued.send_modify(|count| *count += 1);
                // may sleep: this is the pace of the enqueues.
                tokio::time::sleep(pace).await;
            }
        });
    }

    pub(crate) fn worker(&mut self, engine: Arc<dyn Engine>) {
        let worker = Worker {
            engine,
            shared_ledger: Arc::clone(&self.shared_ledger),
            lease: self.lease,
            lasts: self.lasts,
            stop: Arc::clone(&self.stop_working),
        };
        self.others.spawn(worker.run());
    }

    pub(crate) fn rescuer(&mut self, engine: Arc<dyn Engine>) {
        let (stop, lease) = (Arc::clone(&self.stop_working), self.lease);
        self.others.spawn(async move {
            let pace = WatchPace { heartbeat: SWEEP, sweep: SWEEP };
            let (mut watch, mut last, mut own) = (LeaseWatch::new(pace), Instant::now(), None);
            while !stop.load(Ordering::SeqCst) {
                // may sleep: this is how often the rescuer scans.
                tokio::time::sleep(SWEEP).await;
                own = still_registered(&*engine, own, lease).await;
                let Some(me) = own else { continue };
                let Ok(seen) = engine.workers().await else { continue };
                let silent = watch.observe(Own { worker: me, failed: 0 }, &seen, last.elapsed());
                last = Instant::now();
                // A failed call is repeated by the next scan.
                let _ = engine.rescue(RescueRequest { silent, crashes_max: CRASHES_MAX, limit: 100 }).await;
                let _ = engine.sweep(100).await;
            }
        });
    }

    /// Returns how many jobs were enqueued so far, or refused.
    pub(crate) fn enqueued(&self) -> u64 {
        *self.enqueued.borrow()
    }

    /// Waits until this number of further jobs were enqueued, so that the next fault hits something.
    pub(crate) async fn let_work(&self, jobs: u64) {
        let enough = self.enqueued() + jobs;
        let mut enqueued = self.enqueued.subscribe();
        let waited = tokio::time::timeout(WAIT_MAX, enqueued.wait_for(|count| *count >= enough)).await;
        assert!(waited.is_ok(), "expected jobs to be enqueued again after a fault");
    }

    /// Stops the producers, waits until no work is left, and returns the history. `and_then` ends the
    /// workers that are not part of this value.
    pub(crate) async fn end(self, engine: &dyn Engine, and_then: impl FnOnce()) -> History {
        let mut history = self.rest(engine, and_then).await.read();
        history.entries.extend(finals(engine).await);
        history
    }

    /// Stops the producers and waits like [`end`](Self::end), and returns the ledger.
    pub(crate) async fn rest(mut self, engine: &dyn Engine, and_then: impl FnOnce()) -> Arc<SharedLedger> {
        self.stop_producing.store(true, Ordering::SeqCst);
        while let Some(ended) = self.producers.join_next().await {
            ended.expect("a producer ends without a panic");
        }
        drain(engine).await;
        and_then();
        self.stop_working.store(true, Ordering::SeqCst);
        while let Some(ended) = self.others.join_next().await {
            ended.expect("a worker ends without a panic");
        }
        self.shared_ledger
    }
}

/// Dumps the jobs of a store at the end.
pub(crate) async fn finals(engine: &dyn Engine) -> Vec<Entry> {
    dump(engine, |record| record.job.payload.decode().ok()).await.expect("the store is up")
}

/// Waits until no job is left, for as long as the number of jobs falls.
async fn drain(engine: &dyn Engine) {
    let (mut since, mut least) = (Instant::now(), u64::MAX);
    loop {
        let left = engine.queues().await.map(|queues| queues[0].counts.unfinished());
        match left {
            Ok(0) => return,
            Ok(left) if left < least => (since, least) = (Instant::now(), left),
            _ => {}
        }
        assert!(since.elapsed() < WAIT_MAX, "expected everything to end, got {left:?}");
        // may sleep: there is no signal for the end of all jobs.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Renews the rescuer's own heartbeat: it trusts the silence of other workers only while its own heartbeats
/// arrive.
async fn still_registered(engine: &dyn Engine, own: Option<WorkerId>, lease: Duration) -> Option<WorkerId> {
    let Some(worker) = own else {
        let worker = WorkerId::from_random(bits());
        let card = WorkerCard { lease, slots: 0, ..card(worker) };
        return engine.register(card).await.ok().map(|()| worker);
    };
    let beat = engine.extend(Heartbeat { worker, lease, idle: true }).await;
    if matches!(beat, Ok(Liveness::Dead)) { None } else { Some(worker) }
}

async fn enqueue_and_note(
    engine: &dyn Engine,
    shared_ledger: &SharedLedger,
    uid: Uid,
    key: Option<KeyClaim>,
) {
    shared_ledger.note(Event::Invoke { uid: uid.clone(), due: None });
    let job = NewJob { key, ..NewJob::new(kind(), Payload::encode(&uid).unwrap()) };
    match enqueue_surely(engine, request(vec![job])).await {
        Ok(answers) => {
            let job = answers[0].job().expect("jobs are accepted, and no other job has their keys");
            shared_ledger.note(Event::Acknowledged { uid, job });
        }
        Err(_) => shared_ledger.note(Event::Refused { uid }),
    }
}
