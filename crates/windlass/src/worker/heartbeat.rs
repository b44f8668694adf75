//! The heart's thread. It has a runtime of its own, so that a handler that blocks the application's runtime
//! does not get its worker declared dead. The same thread keeps deadlines and watches the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot};
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::worker::{Heartbeat, WorkerCard, WorkerId};

use super::controls::Controls;
use super::heart::{Heart, HeartEffect};
use super::options::WorkerOptions;
use super::pool::{Event, Trouble};
use crate::{random, store};

/// The thread looks at deadlines and the runtime this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Hints may ask for a heartbeat at most this often.
const SOON: Duration = Duration::from_millis(500);
/// A runtime that has not run a timer for this long is reported.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// Who this process is in the store.
pub(crate) struct Identity {
    engine: Arc<dyn Engine>,
    card: WorkerCard,
}

impl Identity {
    pub(crate) async fn register(engine: Arc<dyn Engine>, card: WorkerCard) -> Result<Self, EngineError> {
        let copy = card.clone();
        store::call(&engine, |engine| async move { engine.register(copy).await }).await?;
        Ok(Self { engine, card })
    }

    pub(crate) fn worker(&self) -> WorkerId {
        self.card.id
    }

    /// Registers under a new identity, however long it takes.
    async fn start_over(&mut self) -> WorkerId {
        loop {
            self.card.id = random::worker_id();
            match self.engine.register(self.card.clone()).await {
                Ok(()) => return self.card.id,
                Err(error) => tracing::warn!(%error, "cannot register again yet"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Lets others ask for a heartbeat.
#[derive(Clone, Default)]
pub(crate) struct HeartHandle(Arc<Wake>);

#[derive(Default)]
struct Wake {
    soon: AtomicBool,
    stop: AtomicBool,
    changed: Notify,
}

impl HeartHandle {
    /// Something may wait in the answer to a heartbeat.
    pub(crate) fn beat_soon(&self) {
        if !self.0.soon.swap(true, Ordering::SeqCst) {
            self.0.changed.notify_one();
        }
    }
}

/// The running thread.
pub(crate) struct HeartThread {
    handle: HeartHandle,
    ended: Option<oneshot::Receiver<()>>,
    ticking: tokio::task::JoinHandle<()>,
}

impl HeartThread {
    pub(crate) fn start(
        identity: Identity,
        controls: Arc<Controls>,
        pools: Vec<mpsc::Sender<Event>>,
        options: &WorkerOptions,
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

    /// Lets the worker out of the store and ends the thread.
    pub(crate) async fn stop(&mut self) {
        self.handle.0.stop.store(true, Ordering::SeqCst);
        self.handle.0.changed.notify_one();
        if let Some(ended) = self.ended.take() {
            let _ = tokio::time::timeout(Duration::from_secs(5), ended).await;
        }
        self.ticking.abort();
    }
}

impl Drop for HeartThread {
    /// A worker that was dropped without being stopped shows no more signs of life.
    fn drop(&mut self) {
        self.handle.0.stop.store(true, Ordering::SeqCst);
        self.handle.0.changed.notify_one();
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
}

impl Body {
    fn run_thread(self) {
        match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime.block_on(self.run()),
            Err(error) => tracing::error!(%error, "no heartbeat: its runtime cannot be made"),
        }
    }

    async fn run(mut self) {
        let mut heart = Heart::new(self.lease, self.every, self.started.elapsed());
        while !self.handle.0.stop.load(Ordering::SeqCst) {
            for effect in heart.effects(self.started.elapsed()) {
                self.perform(effect, &mut heart).await;
            }
            self.settle_overdue().await;
            self.runtime.look();
            self.wait(&mut heart).await;
        }
        self.retire().await;
    }

    async fn wait(&self, heart: &mut Heart) {
        let until_wake = heart.wake_at().saturating_sub(self.started.elapsed()).min(LOOK_EVERY);
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
            HeartEffect::Beat => {
                let answer = self.beat().await;
                if let Some(effect) = heart.answered(answer, self.started.elapsed()) {
                    Box::pin(self.perform(effect, heart)).await;
                }
            }
            HeartEffect::Cancel(fences) => fences.into_iter().for_each(|fence| self.controls.cancel(fence)),
            HeartEffect::LeaseRanOut => {
                tracing::warn!(
                    "the store has not answered for a whole lease; giving back what has not started"
                );
                self.tell(|| Event::LeaseRanOut);
            }
            HeartEffect::Died => {
                tracing::warn!("this worker was declared dead; starting over under another identity");
                let worker = self.identity.start_over().await;
                *heart = Heart::new(self.lease, self.every, self.started.elapsed());
                self.tell(|| Event::Reborn(worker));
            }
        }
    }

    async fn beat(&self) -> Result<windlass_core::worker::Beat, Trouble> {
        let heartbeat = Heartbeat { worker: self.identity.worker(), lease: self.lease };
        let answer =
            store::call(&self.identity.engine, |engine| async move { engine.extend(heartbeat).await });
        answer.await.map_err(|error| {
            tracing::warn!(%error, "a heartbeat failed");
            Trouble::Unknown
        })
    }

    /// Jobs whose runtime is too blocked to time them out are settled from here.
    async fn settle_overdue(&self) {
        let overdue = self.controls.overdue(Instant::now());
        if overdue.is_empty() {
            return;
        }
        tracing::error!(
            jobs = overdue.len(),
            "jobs are past their time-out and did not end by themselves; settling them from outside"
        );
        let settled =
            store::call(&self.identity.engine, |engine| async move { engine.settle(overdue).await });
        if let Err(error) = settled.await {
            tracing::warn!(%error, "overdue jobs could not be settled; their handlers will");
        }
    }

    async fn retire(&self) {
        let worker = self.identity.worker();
        let retired = store::call(&self.identity.engine, |engine| async move { engine.retire(worker).await });
        if let Err(error) = retired.await {
            tracing::warn!(%error, "could not leave cleanly; the lease will run out");
        }
    }

    fn tell(&self, event: impl Fn() -> Event) {
        for pool in &self.pools {
            // From a full inbox the pool learns it later: the store refuses what is no longer its own.
            let _ = pool.try_send(event());
        }
    }
}

/// Ticks on the application's runtime.
async fn tick(ticks: Arc<AtomicU64>) {
    loop {
        ticks.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(LOOK_EVERY / 4).await;
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
