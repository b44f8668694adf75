//! Producers, workers and a rescuer who believe what an engine says and write down what they do, so that the checker of
//! histories can tell whether it was true. An error that says *nothing was written* is taken at its word; one that says
//! *unknown* is asked about.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_conformance::history::{Event, History, Rules, Uid, Verdict, check, dump};
use windlass_core::engine::{Admin, Engine, RescueRequest};
use windlass_core::enqueue::{Enqueued, NewJob};
use windlass_core::job::JobId;
use windlass_core::lease_watch::LeaseWatch;
use windlass_core::limits::CRASHES_MAX;
use windlass_core::payload::Payload;
use windlass_engines::postgres::PostgresEngine;

mod book;
mod surely;
mod worker;
mod process;

pub(super) use book::Book;
pub(super) use process::{Process, work_if_asked};
pub(super) use surely::{at_last, claim_surely, enqueue_surely, settle_surely};

use super::{PATIENCE, Place, bits, kind, request};
use worker::Worker;

/// The rescuer looks this often.
const SWEEP: Duration = Duration::from_millis(100);

/// Everybody who works on one store.
pub(super) struct Crew {
    pub(super) book: Arc<Book>,
    pub(super) processes: Vec<Process>,
    lease: Duration,
    stop_producing: Arc<AtomicBool>,
    stop_working: Arc<AtomicBool>,
    producers: JoinSet<()>,
    others: JoinSet<()>,
    put_in: watch::Sender<u64>,
    /// Workers in this process.
    workers: usize,
}

impl Crew {
    pub(super) fn new(lease: Duration) -> Self {
        Self {
            book: Arc::new(Book::begin()),
            processes: Vec::new(),
            lease,
            stop_producing: Arc::default(),
            stop_working: Arc::default(),
            producers: JoinSet::new(),
            others: JoinSet::new(),
            put_in: watch::Sender::new(0),
            workers: 0,
        }
    }

    /// Puts jobs in, one after the other, each a little later than the one before.
    pub(super) fn producer(&mut self, engine: &Arc<PostgresEngine>, pace: Duration) {
        let (engine, book) = (Arc::clone(engine), Arc::clone(&self.book));
        let (stop, put_in, name) = (Arc::clone(&self.stop_producing), self.put_in.clone(), bits());
        self.producers.spawn(async move {
            for n in 0_u64.. {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                put_in_and_note(&engine, &book, Uid(format!("{name:x}/{n}"))).await;
                put_in.send_modify(|count| *count += 1);
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
            lasts: Duration::ZERO,
            stop: Arc::clone(&self.stop_working),
        };
        self.workers += 1;
        self.others.spawn(worker.run());
    }

    /// How many workers there are, here and in other processes.
    pub(super) fn workers(&self) -> usize {
        self.workers + self.processes.len()
    }

    /// A worker in a process of its own.
    pub(super) fn process(&mut self, place: &Place, lease: Duration) {
        self.processes.push(Process::start(place, &self.book, lease));
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
        *self.put_in.borrow()
    }

    /// Waits until so many more jobs were put in, so that the next fault hits something.
    pub(super) async fn let_work(&self, jobs: u64) {
        let enough = self.put_in() + jobs;
        let mut put_in = self.put_in.subscribe();
        let waited = tokio::time::timeout(PATIENCE, put_in.wait_for(|count| *count >= enough)).await;
        assert!(waited.is_ok(), "expected jobs to be put in again after a fault");
    }

    /// Lets the producers end, waits until nothing is left to do, and judges what happened.
    pub(super) async fn judge(self, engine: &PostgresEngine) -> Verdict {
        check(&self.end(engine).await, &Rules::default())
    }

    /// The same, and gives what happened.
    pub(super) async fn end(mut self, engine: &PostgresEngine) -> History {
        self.stop_producing.store(true, Ordering::SeqCst);
        while let Some(ended) = self.producers.join_next().await {
            ended.expect("a producer ends well");
        }
        drain(engine).await;
        self.processes.drain(..).for_each(Process::end);
        self.stop_working.store(true, Ordering::SeqCst);
        while let Some(ended) = self.others.join_next().await {
            ended.expect("a worker ends well");
        }
        let mut history = self.book.read();
        let finals = dump(engine, |record| record.job.payload.decode().ok()).await.expect("the store is up");
        history.entries.extend(finals);
        history
    }
}

/// Waits until nothing is left, for as long as it gets less.
async fn drain(engine: &PostgresEngine) {
    let (mut since, mut least) = (Instant::now(), u64::MAX);
    loop {
        let left = engine.queues().await.map(|queues| queues[0].counts.unfinished());
        match left {
            Ok(0) => return,
            Ok(left) if left < least => (since, least) = (Instant::now(), left),
            _ => {}
        }
        assert!(since.elapsed() < PATIENCE, "expected everything to end, got {left:?}");
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

/// The numbers of all jobs that the store has, wherever they are.
pub(super) async fn all_jobs(engine: &PostgresEngine) -> Vec<JobId> {
    let request = windlass_core::admin::ListRequest { limit: 200, ..Default::default() };
    engine.list(request).await.unwrap().iter().map(|record| record.job.id).collect()
}
