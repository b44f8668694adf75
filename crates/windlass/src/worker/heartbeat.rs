//! The heartbeat thread. It has a runtime of its own, so that a handler that blocks the application's
//! runtime does not get its worker declared dead. The same thread enforces deadlines, receives requests to
//! stop, and watches the application's runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use windlass_core::clock::Clock;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::limits::SETTLE_BATCH_MAX;
use windlass_core::settle::Settlement;
use windlass_core::worker::{Heartbeat, HeartbeatAnswer, Liveness, WorkerCard, WorkerId};
use windlass_engines::clock::SystemClock;

use super::Moment;
use super::controls::Controls;
use super::heart::{Heart, HeartEffect};
use super::options::WorkerOptions;
use super::pool::{CallFailure, Event};
use super::stop_requests;
use crate::alerts::{Alert, Alerts};
use crate::duties::mailbox::{HeardHeartbeat, Mailbox};
use crate::{random, store};

/// The interval at which the thread checks deadlines and the application's runtime.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// The longest pause between two attempts of a worker that was declared dead to register again. One outage
/// may have killed many workers.
const REGISTER_AGAIN_MAX: Duration = Duration::from_secs(30);
/// How soon a heartbeat is sent if its answer may carry news.
const SOON: Duration = Duration::from_millis(500);
/// The interval of log lines while heartbeats fail.
const LOG_FAILURES_EVERY: Duration = Duration::from_secs(30);
/// A runtime that has run no timer for this long is reported.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// The identity of this process in a store.
pub(crate) struct Identity {
    engine: Arc<dyn Engine>,
    card: WorkerCard,
}

impl Identity {
    /// Registers the worker. If the store is unavailable and the process has another store to work on,
    /// registration happens later.
    pub(crate) async fn register(
        engine: Arc<dyn Engine>,
        card: WorkerCard,
        may_come_later: bool,
    ) -> Result<Self, EngineError> {
        let copy = card.clone();
        let registered = store::call(&engine, |engine| async move { engine.register(copy).await }).await;
        match registered {
            // A worker that the store does not know gets that answer to its first heartbeat, and registers
            // then.
            Err(error) if error.is_passing() && may_come_later => {
                let store = engine.info().name;
                tracing::warn!(%error, store, "registering later: the store cannot be used now");
            }
            answered => answered?,
        }
        Ok(Self { engine, card })
    }

    pub(crate) fn worker(&self) -> WorkerId {
        self.card.id
    }

    /// The store of this identity.
    pub(crate) fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Registers under a new identity. Tries until the store accepts, or until the worker is stopped.
    async fn start_over(&mut self, handle: &HeartHandle) -> Option<WorkerId> {
        let mut wait = CHECK_EVERY;
        while !handle.is_stopped() {
            self.card.id = random::worker_id();
            let card = self.card.clone();
            match store::call(&self.engine, |engine| async move { engine.register(card).await }).await {
                Ok(()) => return Some(self.card.id),
                Err(error) => tracing::warn!(%error, "registering again failed; trying again"),
            }
            tokio::select! {
                () = tokio::time::sleep(random::part_of(wait)) => {}
                () = handle.0.changed.notified() => {}
            }
            wait = wait.saturating_mul(2).min(REGISTER_AGAIN_MAX);
        }
        None
    }
}

/// A handle with which other code requests a heartbeat.
#[derive(Clone, Default)]
pub(crate) struct HeartHandle(Arc<Wake>);

#[derive(Default)]
struct Wake {
    soon: AtomicBool,
    stop: AtomicBool,
    silent: AtomicBool,
    changed: Notify,
    hinted: Notify,
}

impl HeartHandle {
    /// Requests a heartbeat soon, because its answer may carry news.
    pub(crate) fn beat_soon(&self) {
        if !self.0.soon.swap(true, Ordering::SeqCst) {
            self.0.changed.notify_one();
        }
    }

    /// Notes that one of this worker's jobs may have been asked to stop.
    pub(crate) fn hint(&self) {
        self.0.hinted.notify_one();
    }

    /// Waits for a hint. All hints since the last wait count as one.
    pub(super) async fn hinted(&self) {
        self.0.hinted.notified().await;
    }

    /// Stops the heartbeats without unregistering the worker: the store takes back its jobs when its lease
    /// has expired.
    pub(crate) fn fall_silent(&self) {
        self.0.silent.store(true, Ordering::SeqCst);
        self.stop();
    }

    fn stop(&self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.changed.notify_one();
    }

    fn is_stopped(&self) -> bool {
        self.0.stop.load(Ordering::SeqCst)
    }

    pub(super) fn is_silent(&self) -> bool {
        self.0.silent.load(Ordering::SeqCst)
    }
}

/// The running thread.
pub(crate) struct HeartThread {
    handle: HeartHandle,
    ended: Option<oneshot::Receiver<()>>,
    ticking: JoinHandle<()>,
}

impl HeartThread {
    pub(crate) fn start(
        identity: Identity,
        controls: Arc<Controls>,
        pools: Vec<mpsc::Sender<Event>>,
        options: &WorkerOptions,
        duties: Mailbox,
    ) -> Self {
        let handle = HeartHandle::default();
        let (ended, end) = oneshot::channel();
        let ticks = Arc::new(AtomicU64::new(0));
        let body = Body {
            identity,
            controls,
            pools,
            handle: handle.clone(),
            runtime: RuntimeWatch::new(Arc::clone(&ticks)),
            started: Instant::now(),
            lease: options.lease,
            every: options.heartbeat_every,
            stop_requests: None,
            duties,
            alerts: options.alerts(),
            failures: Failures::default(),
        };
        std::thread::Builder::new()
            .name("windlass-heart".to_owned())
            .spawn(move || {
                body.run_thread();
                let _ = ended.send(());
            })
            .expect("a process that can start can start one more thread");
        Self { handle, ended: Some(end), ticking: tokio::spawn(tick(ticks)) }
    }

    pub(crate) fn handle(&self) -> HeartHandle {
        self.handle.clone()
    }

    /// Unregisters the worker from the store and ends the thread.
    pub(crate) async fn stop(&mut self) {
        self.handle.stop();
        if let Some(ended) = self.ended.take() {
            let _ = tokio::time::timeout(Duration::from_secs(5), ended).await;
        }
        self.ticking.abort();
    }
}

impl Drop for HeartThread {
    /// Stops the heartbeats. A thread that is dropped without a stop cannot know which handlers still run,
    /// so it releases no jobs.
    fn drop(&mut self) {
        if !self.handle.is_stopped() {
            self.handle.fall_silent();
        }
        self.ticking.abort();
    }
}

struct Body {
    identity: Identity,
    controls: Arc<Controls>,
    pools: Vec<mpsc::Sender<Event>>,
    handle: HeartHandle,
    runtime: RuntimeWatch,
    started: Instant,
    lease: Duration,
    every: Duration,
    /// The task that passes on requests to stop, for the present identity.
    stop_requests: Option<JoinHandle<()>>,
    /// The duties, which learn from each answer how many other workers there are.
    duties: Mailbox,
    alerts: Alerts,
    failures: Failures,
}

impl Body {
    fn run_thread(self) {
        match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime.block_on(self.run()),
            Err(error) => {
                tracing::error!(%error, "creating the runtime of the heartbeats failed; this worker sends none")
            }
        }
    }

    async fn run(mut self) {
        let mut heart = Heart::new(self.lease, self.every, self.started.elapsed());
        // The first heartbeat is sent at once: its answer reports the number of other workers, for which
        // the duties wait.
        heart.beat_by(self.started.elapsed(), Duration::ZERO);
        self.hand_on_stop_requests();
        while !self.handle.is_stopped() {
            for effect in heart.effects(self.started.elapsed()) {
                self.perform(effect, &mut heart).await;
            }
            self.settle_overdue();
            self.runtime.look();
            self.wait(&mut heart).await;
        }
        if !self.handle.is_silent() {
            self.retire().await;
        }
    }

    async fn wait(&self, heart: &mut Heart) {
        let until_wake = heart.wake_at().saturating_sub(self.started.elapsed()).min(CHECK_EVERY);
        tokio::select! {
            () = tokio::time::sleep(until_wake) => {}
            () = self.handle.0.changed.notified() => {}
        }
        if self.handle.0.soon.swap(false, Ordering::SeqCst) {
            heart.beat_by(self.started.elapsed(), SOON);
        }
    }

    async fn perform(&mut self, effect: HeartEffect, heart: &mut Heart) {
        match effect {
            HeartEffect::Send => {
                let answer = self.beat(heart).await;
                if let Some(effect) = heart.answered(answer, self.started.elapsed()) {
                    Box::pin(self.perform(effect, heart)).await;
                }
            }
            HeartEffect::Cancel(fences) => fences.into_iter().for_each(|fence| self.controls.cancel(fence)),
            HeartEffect::LeaseRanOut => {
                tracing::warn!(
                    "the store has not answered for a whole lease; releasing the jobs that have not started"
                );
                self.send_to_pools(|| Event::LeaseRanOut);
            }
            HeartEffect::Died => {
                tracing::info!("this worker was declared dead; starting over under another identity");
                if let Some(worker) = self.identity.start_over(&self.handle).await {
                    *heart = Heart::new(self.lease, self.every, self.started.elapsed());
                    heart.beat_by(self.started.elapsed(), Duration::ZERO);
                    self.hand_on_stop_requests();
                    self.send_to_pools(|| Event::Reborn(worker));
                    self.duties.was_reborn();
                    self.alerts.raise(&Alert::StartedOver { worker });
                }
            }
        }
    }

    /// Passes on requests to stop, in a task of its own, so that neither it nor the heartbeat waits for the
    /// other's answer.
    fn hand_on_stop_requests(&mut self) {
        let engine = Arc::clone(&self.identity.engine);
        let (controls, handle) = (Arc::clone(&self.controls), self.handle.clone());
        let task = stop_requests::hand_on(engine, self.identity.worker(), controls, handle);
        if let Some(of_old_identity) = self.stop_requests.replace(tokio::spawn(task)) {
            of_old_identity.abort();
        }
    }

    /// Sends a heartbeat. The lease may run out while the store takes its time to answer, and that event
    /// must not wait for the answer.
    async fn beat(&mut self, heart: &mut Heart) -> Result<Liveness, CallFailure> {
        let heartbeat =
            Heartbeat { worker: self.identity.worker(), lease: self.lease, idle: self.controls.is_empty() };
        let engine = Arc::clone(&self.identity.engine);
        let clock = SystemClock.now();
        let call =
            store::call(
                &engine,
                |engine| async move { engine.heartbeat_with_members(heartbeat, clock).await },
            );
        // When the next heartbeat is due, the answer to this one counts as lost.
        let mut answer = std::pin::pin!(tokio::time::timeout(self.every, call));
        loop {
            let until_lease = heart.wake_at().saturating_sub(self.started.elapsed());
            tokio::select! {
                biased;
                answer = &mut answer => {
                    let heartbeat_answer = self.answered(answer)?;
                    self.report_members(&heartbeat_answer);
                    return Ok(heartbeat_answer.beat);
                }
                () = tokio::time::sleep(until_lease) => {
                    for effect in heart.effects(self.started.elapsed()) {
                        Box::pin(self.perform(effect, heart)).await;
                    }
                }
            }
        }
    }

    /// Evaluates the answer to a heartbeat. Attempts follow each other quickly while the lease runs out, so
    /// not each failure is logged.
    fn answered(
        &mut self,
        answer: Result<Result<HeartbeatAnswer, EngineError>, tokio::time::error::Elapsed>,
    ) -> Result<HeartbeatAnswer, CallFailure> {
        let error = match answer {
            Ok(Ok(heartbeat_answer)) => {
                if let Some(failed) = self.failures.end() {
                    tracing::info!(failed, "heartbeats are stored again");
                }
                return Ok(heartbeat_answer);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the store did not answer within {:?}", self.every),
        };
        self.duties.heartbeat_failed();
        if let Some(failed) = self.failures.log_at(self.started.elapsed()) {
            tracing::warn!(%error, failed, "heartbeats fail; trying again until the store accepts one");
        }
        Err(CallFailure::Unknown)
    }

    fn report_members(&self, heartbeat_answer: &HeartbeatAnswer) {
        if heartbeat_answer.beat != Liveness::Dead {
            let (members, store_now) = (heartbeat_answer.members.clone(), heartbeat_answer.now);
            let worker = self.identity.worker();
            self.duties.heartbeat_with_members(HeardHeartbeat {
                worker,
                members,
                store_now,
                at: Instant::now(),
            });
        }
    }

    /// Settles the jobs whose runtime is too blocked to time them out. The calls run in tasks of their own,
    /// so that heartbeats do not wait for a store that hangs.
    fn settle_overdue(&self) {
        let overdue = self.controls.overdue(Instant::now());
        if !overdue.is_empty() {
            tracing::error!(
                jobs = overdue.len(),
                "jobs are past their time-out and did not end by themselves; settling them from outside"
            );
        }
        for batch in overdue.chunks(SETTLE_BATCH_MAX) {
            let (engine, controls) = (Arc::clone(&self.identity.engine), Arc::clone(&self.controls));
            tokio::spawn(settle_from_outside(engine, controls, batch.to_vec()));
        }
    }

    async fn retire(&self) {
        let worker = self.identity.worker();
        let retired = store::call(&self.identity.engine, |engine| async move { engine.retire(worker).await });
        if let Err(error) = retired.await {
            tracing::warn!(%error, "unregistering from the store failed; the lease will expire");
        }
    }

    fn send_to_pools(&self, event: impl Fn() -> Event) {
        for pool in &self.pools {
            // A full inbox is waited for: a pool that never learns its new identity would claim nothing any
            // more.
            if let Err(mpsc::error::TrySendError::Full(event)) = pool.try_send(event()) {
                let pool = pool.clone();
                tokio::spawn(async move { pool.send(event).await });
            }
        }
    }
}

/// Settles jobs that are past their time-out. Settlements that the store does not accept now are sent again
/// later.
async fn settle_from_outside(engine: Arc<dyn Engine>, controls: Arc<Controls>, batch: Vec<Settlement>) {
    let fences: Vec<_> = batch.iter().map(|settlement| settlement.fence).collect();
    if let Err(error) = store::call(&engine, |engine| async move { engine.settle(batch).await }).await {
        tracing::warn!(%error, "settling overdue jobs failed; trying again");
        controls.still_overdue(&fences, Instant::now());
    }
}

/// Ticks on the application's runtime.
async fn tick(ticks: Arc<AtomicU64>) {
    loop {
        ticks.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(CHECK_EVERY / 4).await;
    }
}

/// Notices when the application's runtime runs no timers.
struct RuntimeWatch {
    ticks: Arc<AtomicU64>,
    seen: u64,
    since: Instant,
    reported: bool,
}

impl RuntimeWatch {
    fn new(ticks: Arc<AtomicU64>) -> Self {
        Self { ticks, seen: 0, since: Instant::now(), reported: false }
    }

    fn look(&mut self) {
        let ticks = self.ticks.load(Ordering::Relaxed);
        if ticks != self.seen {
            (self.seen, self.since, self.reported) = (ticks, Instant::now(), false);
        } else if !self.reported && self.since.elapsed() >= STALLED_AFTER {
            self.reported = true;
            let stalled_for = self.since.elapsed();
            tracing::warn!(
                ?stalled_for,
                "the runtime runs no timers: a handler blocks it; use spawn_blocking for blocking work"
            );
        }
    }
}

/// Heartbeats that failed in a row, for the log.
#[derive(Debug, Default)]
struct Failures {
    count: u64,
    logged_at: Option<Moment>,
}

impl Failures {
    /// Counts a failure at `now`. Returns the number of failures in a row if a log line is due: for the
    /// first failure, and then once in [`LOG_FAILURES_EVERY`].
    fn log_at(&mut self, now: Moment) -> Option<u64> {
        self.count = self.count.saturating_add(1);
        let is_due = self.logged_at.is_none_or(|at| now.saturating_sub(at) >= LOG_FAILURES_EVERY);
        is_due.then(|| self.logged_at = Some(now)).map(|()| self.count)
    }

    /// Ends the row of failures, because a heartbeat was stored. Returns how many had failed before it, if
    /// any.
    fn end(&mut self) -> Option<u64> {
        let Self { count, .. } = std::mem::take(self);
        (count > 0).then_some(count)
    }
}

#[cfg(test)]
mod tests;
