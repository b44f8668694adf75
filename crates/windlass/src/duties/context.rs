//! The context of a duty's run: what the run knows, and what it can do meanwhile.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use tokio::sync::Notify;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::lease::LeaseFence;
use windlass_core::names::DutyName;

use super::DutyEnd;
use super::status::{Begin, RunReport};
use crate::client::Client;
use crate::store;

/// The context of one run. Clones share it.
#[derive(Clone)]
pub struct DutyContext(Arc<Inner>);

struct Inner {
    duty: DutyName,
    fence: Option<LeaseFence>,
    engine: Arc<dyn Engine>,
    client: Client,
    stop: AtomicBool,
    stopped: Notify,
    items: AtomicU64,
    error: Mutex<Option<String>>,
    kept: Mutex<(Map<String, Value>, bool)>,
}

impl DutyContext {
    pub(super) fn new(begin: Begin, engine: Arc<dyn Engine>, client: Client) -> Self {
        Self(Arc::new(Inner {
            duty: begin.duty,
            fence: begin.fence,
            engine,
            client,
            stop: AtomicBool::new(false),
            stopped: Notify::new(),
            items: AtomicU64::new(0),
            error: Mutex::default(),
            kept: Mutex::new((begin.kept, false)),
        }))
    }

    /// The name of the duty.
    pub fn duty(&self) -> &DutyName {
        &self.0.duty
    }

    /// The fence of the term in which the duty is done; none in modes without leases. Name it in every
    /// write, and check it in the same statement, so that a leader that was suspended writes nothing:
    /// [`windlass_core::lease`] says how, for each engine.
    pub fn fence(&self) -> Option<&LeaseFence> {
        self.0.fence.as_ref()
    }

    /// Returns whether the term still holds, by the store's record. In modes without leases it returns what
    /// this process knows: a run under a lock no longer leads once the session has lost the lock, or has not
    /// answered for so long that it may have lost it. A write after the answer may be late all the same: the
    /// fence is there for that.
    pub async fn still_leads(&self) -> Result<bool, EngineError> {
        if self.is_stopped() {
            return Ok(false);
        }
        let Some(fence) = self.0.fence.clone() else { return Ok(true) };
        let asked = |engine: Arc<dyn Engine>| async move { engine.leases_hold(&[fence]).await };
        Ok(store::call(&self.0.engine, asked).await?.first().copied().unwrap_or(false))
    }

    /// A client of the store to which the duty belongs.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Whether this run should end: another process leads now, or this one ends.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.load(Ordering::SeqCst)
    }

    /// Waits until this run should end.
    pub async fn stopped(&self) {
        loop {
            let mut notified = std::pin::pin!(self.0.stopped.notified());
            notified.as_mut().enable();
            if self.is_stopped() {
                return;
            }
            notified.await;
        }
    }

    /// Adds to the number of processed items, which `windlass lease show` displays.
    pub fn did(&self, items: u64) {
        self.0.items.fetch_add(items, Ordering::SeqCst);
    }

    /// Notes an error, though the run goes on. The run counts as failed; the last note is kept.
    pub fn failed(&self, error: impl Display) {
        *lock(&self.0.error) = Some(format!("{error:#}"));
    }

    /// The value that the duty keeps under a name with its lease, for its next run, in whichever process.
    /// In modes without leases, only values that this process kept itself.
    pub fn kept(&self, name: &str) -> Option<Value> {
        lock(&self.0.kept).0.get(name).cloned()
    }

    /// Keeps a small value with the lease once the run has ended, 2,560 bytes in all. More is not kept:
    /// then the run has failed, and the earlier values stay. The value is stored with the next heartbeat,
    /// and may be lost with this process before that.
    pub fn keep(&self, name: &str, value: Value) {
        let mut kept = lock(&self.0.kept);
        kept.0.insert(name.to_owned(), value);
        kept.1 = true;
    }

    pub(super) fn stop(&self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.stopped.notify_waiters();
    }

    /// The report of the run.
    pub(super) fn report(&self, ended: DutyEnd) -> RunReport {
        let kept = lock(&self.0.kept);
        RunReport {
            items: self.0.items.load(Ordering::SeqCst),
            error: ended.err().or_else(|| lock(&self.0.error).clone()),
            kept: kept.1.then(|| kept.0.clone()),
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The return values that the function of a duty may have: `()`, or a `Result` of it.
pub trait IntoDutyEnd {
    /// The reason why the run failed, if it did.
    fn into_duty_end(self) -> Result<(), String>;
}

impl IntoDutyEnd for () {
    fn into_duty_end(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: Display> IntoDutyEnd for Result<(), E> {
    fn into_duty_end(self) -> Result<(), String> {
        // The alternate form prints the whole chain where an error type has one.
        self.map_err(|error| format!("{error:#}"))
    }
}

#[cfg(test)]
impl DutyContext {
    /// The context of a run without a fence, as under a lock.
    pub(super) fn of_test(engine: &Arc<dyn Engine>) -> Self {
        use windlass_core::duty::runner::{DutyEffect, DutyRunner};
        use windlass_core::duty::{DutyMode, DutySpec};

        let duty = DutyName::parse("totals").expect("a plain name");
        let (interval, now) = (std::time::Duration::from_secs(1), std::time::Duration::ZERO);
        let spec = DutySpec { name: duty.clone(), interval, mode: DutyMode::EveryWorker, rotation: None };
        let effects = DutyRunner::new(spec, 0, now).effects(now);
        let [DutyEffect::Begin { run, .. }] = effects[..] else { panic!("expected a run, got {effects:?}") };
        let begin = Begin { duty, run, fence: None, kept: Map::new() };
        Self::new(begin, Arc::clone(engine), Client::new(Arc::clone(engine)))
    }
}

#[cfg(test)]
mod tests {
    use windlass_engines::memory::MemoryEngine;

    use super::*;

    #[tokio::test]
    async fn a_run_under_a_lock_leads_no_longer_once_the_lock_is_lost() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let context = DutyContext::of_test(&engine);
        assert!(context.still_leads().await.expect("no store is queried"));
        context.stop();
        assert!(!context.still_leads().await.expect("no store is queried"));
    }
}
