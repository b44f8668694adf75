//! Producers, workers and a rescuer who believe what an engine says and write down what they do, so that the checker of
//! histories can tell whether it was true. An error that says *nothing was written* is taken at its word; one that says
//! *unknown* is asked about.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use windlass_conformance::history::{Event, FaultKind, History, Outcome, Rules, Uid, Verdict, check, dump};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Claimed, Suspects};
use windlass_core::clock::Timestamp;
use windlass_core::engine::{Admin, Engine, RescueRequest};
use windlass_core::enqueue::{EnqueueRequest, Enqueued, NewJob};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::lease_watch::LeaseWatch;
use windlass_core::limits::CRASHES_MAX;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};
use windlass_core::worker::{Beat, Heartbeat, WorkerCard, WorkerId};
use windlass_engines::postgres::PostgresEngine;

use super::{bits, card, claim_request, kind, request};

/// After a failure a call is made again so much later.
const AGAIN: Duration = Duration::from_millis(10);
/// The rescuer looks this often.
const SWEEP: Duration = Duration::from_millis(100);

/// What everybody writes down.
#[derive(Debug)]
pub(super) struct Book {
    start: Instant,
    history: Mutex<History>,
}

impl Book {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.plus(self.start.elapsed())
    }

    pub(super) fn note(&self, event: Event) {
        // Under the lock, so that the order of lines is the order of their times.
        let mut history = self.history();
        history.push(self.now(), event);
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap()
    }

    /// Does something bad to everybody, and writes down how long it lasted.
    pub(super) fn fault<T>(&self, kind: FaultKind, act: impl FnOnce() -> T) -> T {
        let from = self.now();
        let done = act();
        let until = Some(self.now());
        self.history().push(from, Event::Fault { kind, target: None, until });
        done
    }
}

/// Everybody who works on one store.
pub(super) struct Crew {
    pub(super) book: Arc<Book>,
    lease: Duration,
    stop_producing: Arc<AtomicBool>,
    stop_working: Arc<AtomicBool>,
    producers: JoinSet<()>,
    others: JoinSet<()>,
    put_in: Arc<AtomicU64>,
}

impl Crew {
    pub(super) fn new(lease: Duration) -> Self {
        Self {
            book: Arc::new(Book { start: Instant::now(), history: Mutex::default() }),
            lease,
            stop_producing: Arc::default(),
            stop_working: Arc::default(),
            producers: JoinSet::new(),
            others: JoinSet::new(),
            put_in: Arc::default(),
        }
    }

    /// Puts jobs in, one after the other, each a little later than the one before.
    pub(super) fn producer(&mut self, engine: &Arc<PostgresEngine>, pace: Duration) {
        let (engine, book) = (Arc::clone(engine), Arc::clone(&self.book));
        let (stop, put_in, name) = (Arc::clone(&self.stop_producing), Arc::clone(&self.put_in), bits());
        self.producers.spawn(async move {
            for n in 0_u64.. {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                put_in_and_note(&engine, &book, Uid(format!("{name:x}/{n}"))).await;
                put_in.fetch_add(1, Ordering::SeqCst);
                // may sleep: this is the pace at which jobs come in.
                tokio::time::sleep(pace).await;
            }
        });
    }

    pub(super) fn worker(&mut self, engine: &Arc<PostgresEngine>) {
        let worker = Worker {
            engine: Arc::clone(engine),
            book: Arc::clone(&self.book),
            lease: self.lease,
            stop: Arc::clone(&self.stop_working),
        };
        self.others.spawn(worker.run());
    }

    pub(super) fn rescuer(&mut self, engine: &Arc<PostgresEngine>) {
        let (engine, stop) = (Arc::clone(engine), Arc::clone(&self.stop_working));
        self.others.spawn(async move {
            let (mut watch, mut last) = (LeaseWatch::default(), Instant::now());
            while !stop.load(Ordering::SeqCst) {
                // may sleep: this is how often the rescuer looks.
                tokio::time::sleep(SWEEP).await;
                let Ok(seen) = engine.workers().await else { continue };
                let silent = watch.observe(&seen, last.elapsed(), SWEEP);
                last = Instant::now();
                // What failed is tried again with the next look.
                let _ = engine.rescue(RescueRequest { silent, crashes_max: CRASHES_MAX, limit: 100 }).await;
                let _ = engine.sweep(100).await;
            }
        });
    }

    /// How many were put in so far, or refused.
    pub(super) fn put_in(&self) -> u64 {
        self.put_in.load(Ordering::SeqCst)
    }

    /// Lets the producers end, waits until nothing is left to do, and judges what happened.
    pub(super) async fn judge(mut self, engine: &PostgresEngine) -> Verdict {
        self.stop_producing.store(true, Ordering::SeqCst);
        while let Some(ended) = self.producers.join_next().await {
            ended.expect("a producer ends well");
        }
        drain(engine).await;
        self.stop_working.store(true, Ordering::SeqCst);
        while let Some(ended) = self.others.join_next().await {
            ended.expect("a worker ends well");
        }
        let finals = dump(engine, |record| record.job.payload.decode().ok()).await.expect("the store is up");
        let mut history = self.book.history();
        history.entries.extend(finals);
        check(&history, &Rules::default())
    }
}

async fn drain(engine: &PostgresEngine) {
    let start = Instant::now();
    loop {
        let left = engine.queues().await.map(|queues| queues[0].counts);
        if left.as_ref().is_ok_and(|counts| counts.unfinished() == 0) {
            return;
        }
        assert!(start.elapsed() < super::PATIENCE, "expected everything to end, got {left:?}");
        // may sleep: there is no signal for the end of everything.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn put_in_and_note(engine: &PostgresEngine, book: &Book, uid: Uid) {
    book.note(Event::Invoke { uid: uid.clone(), due: None });
    let job = NewJob::new(kind(), Payload::encode(&uid).unwrap());
    match enqueue_surely(engine, request(vec![job])).await {
        Ok(answers) => {
            let Enqueued::New(job) = answers[0] else { panic!("expected a new job, got {answers:?}") };
            book.note(Event::Acknowledged { uid, job });
        }
        Err(_) => book.note(Event::Refused { uid }),
    }
}

/// Waits a little. An error that no waiting mends is a fault of the engine.
async fn after(error: &EngineError) {
    assert!(error.is_passing(), "expected an error that passes, got {error:?}");
    // may sleep: whoever failed does not try again at once.
    tokio::time::sleep(AGAIN).await;
}

/// An error here means that nothing was written.
pub(super) async fn enqueue_surely(
    engine: &PostgresEngine,
    request: EnqueueRequest,
) -> Result<Vec<Enqueued>, EngineError> {
    let mut in_doubt = false;
    loop {
        match engine.enqueue(request.clone()).await {
            Err(error) if error.is_unknown() || in_doubt => {
                in_doubt = true;
                after(&error).await;
            }
            answer => return answer,
        }
    }
}

/// An error here means that nothing was claimed.
pub(super) async fn claim_surely(
    engine: &PostgresEngine,
    mut request: ClaimRequest,
) -> Result<ClaimAnswer, EngineError> {
    loop {
        match engine.claim(request.clone()).await {
            Err(error) if error.is_unknown() || request.repeat => {
                request.repeat = true;
                after(&error).await;
            }
            answer => return answer,
        }
    }
}

/// A settle is asked again until it is answered, whatever went wrong.
pub(super) async fn settle_surely(engine: &PostgresEngine, batch: Vec<Settlement>) -> Vec<Settled> {
    loop {
        match engine.settle(batch.clone()).await {
            Ok(answers) => return answers,
            Err(error) => after(&error).await,
        }
    }
}

struct Worker {
    engine: Arc<PostgresEngine>,
    book: Arc<Book>,
    lease: Duration,
    stop: Arc<AtomicBool>,
}

impl Worker {
    async fn run(self) {
        while !self.stop.load(Ordering::SeqCst) {
            let Some(me) = self.register().await else { continue };
            let heart = tokio::spawn(beat(Arc::clone(&self.engine), me, self.lease));
            self.live(me).await;
            heart.abort();
        }
    }

    async fn register(&self) -> Option<WorkerId> {
        let me = WorkerId::from_random(bits());
        let registered = self.engine.register(WorkerCard { lease: self.lease, ..card(me) }).await;
        if let Err(error) = &registered {
            after(error).await;
        }
        registered.ok().map(|()| me)
    }

    /// Until it is told that it is dead, or to stop.
    async fn live(&self, me: WorkerId) {
        let mut suspect_due = false;
        while !self.stop.load(Ordering::SeqCst) {
            let suspects = match suspect_due {
                true => Suspects::One { crashes_max: CRASHES_MAX },
                false => Suspects::LeaveOut,
            };
            let request = ClaimRequest { suspects, ..claim_request(me, 5) };
            match claim_surely(&self.engine, request).await {
                Ok(ClaimAnswer::WorkerDead) => return,
                Ok(ClaimAnswer::Claimed { jobs, outlook }) => {
                    let idle = jobs.is_empty() && !outlook.more_due;
                    suspect_due = outlook.suspect_due && !suspect_due;
                    self.run_all(me, jobs).await;
                    if idle && !suspect_due {
                        // may sleep: this worker polls.
                        tokio::time::sleep(AGAIN).await;
                    }
                }
                Err(error) => after(&error).await,
            }
        }
    }

    async fn run_all(&self, me: WorkerId, jobs: Vec<Claimed>) {
        let uids: Vec<Uid> = jobs.iter().map(|claimed| claimed.job.payload.decode().unwrap()).collect();
        let mut batch = Vec::new();
        for (claimed, uid) in jobs.into_iter().zip(&uids) {
            self.book.note(Event::start(uid.clone(), claimed.token, me));
            tokio::task::yield_now().await;
            batch.push(self.end(claimed, uid));
        }
        if batch.is_empty() {
            return;
        }
        let tokens: Vec<_> = batch.iter().map(|settlement| settlement.fence.token).collect();
        let answers = settle_surely(&self.engine, batch).await;
        for ((uid, token), answer) in uids.into_iter().zip(tokens).zip(answers) {
            self.book.note(match answer {
                Settled::Applied => Event::applied(uid, token),
                Settled::ClaimLost => Event::lost(uid, token),
            });
        }
    }

    /// One in ten fails and is tried again.
    fn end(&self, claimed: Claimed, uid: &Uid) -> Settlement {
        let (outcome, transition) = if fastrand::u8(..10) == 0 && claimed.job.counters.failures < 3 {
            let error = JobError::new(ErrorKind::Failed, "oops");
            (Outcome::Failed, Transition::Retry { after: Duration::from_millis(5), error })
        } else {
            (Outcome::Done, Transition::Succeed { result: None })
        };
        self.book.note(Event::end(uid.clone(), claimed.token, outcome));
        claimed.settled(transition, AttemptReport::default())
    }
}

async fn beat(engine: Arc<PostgresEngine>, worker: WorkerId, lease: Duration) {
    loop {
        // may sleep: this is how often a heart beats.
        tokio::time::sleep(lease / 5).await;
        if let Ok(Beat::Dead) = engine.extend(Heartbeat { worker, lease }).await {
            return;
        }
    }
}

/// The numbers of all jobs that the store has, wherever they are.
pub(super) async fn all_jobs(engine: &PostgresEngine) -> Vec<JobId> {
    let request = windlass_core::admin::ListRequest { limit: 200, ..Default::default() };
    engine.list(request).await.unwrap().iter().map(|record| record.job.id).collect()
}
