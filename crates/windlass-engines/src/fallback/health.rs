//! Watching the primary: it is asked again and again, and what is heard of it moves the switch.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::admin::{QueueStatus, TypeStatus};
use windlass_core::clock::Timestamp;
use windlass_core::engine::{Declaration, Engine, Result};
use windlass_core::enqueue::{EnqueueRequest, RequestId};
use windlass_core::error::EngineError;
use windlass_core::fallback::Side;
use windlass_core::limits::MAINTENANCE_BATCH_MAX;
use windlass_core::queue::Pause;

use super::Inner;
use super::primary::within;

/// After a failure the primary is asked again sooner.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_millis(250);
/// How often the spool is looked through, if nothing else calls for it.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// After so many checks the spool learns again which queues and types the primary knows.
const CHECKS_PER_COPY: u32 = 30;

/// Checks the primary for as long as the engine is kept.
pub(super) async fn watch(inner: Weak<Inner>) {
    for checks in 1_u32.. {
        let Some(kept) = inner.upgrade() else { return };
        kept.check().await;
        kept.make_up_for_trouble().await;
        kept.heard.send_modify(|times| *times += 1);
        if checks % CHECKS_PER_COPY == 0 && kept.side() == Side::Primary {
            kept.copy_catalogue().await;
        }
        let wait = kept.until_next_check();
        drop(kept);
        // may sleep: a store is asked for heartbeats so often and not more often, in sickness and in health.
        tokio::time::sleep(wait).await;
    }
}

/// Replays the spool, whenever there may be something in it, for as long as the engine is kept.
pub(super) async fn replay(inner: Weak<Inner>, returned: Arc<Notify>, adopt_after: Duration) {
    let look_every = adopt_after.clamp(Duration::from_millis(100), LOOK_EVERY);
    loop {
        let Some(kept) = inner.upgrade() else { return };
        if kept.spool.trouble().is_none() {
            kept.look_after_spool().await;
        }
        kept.heard.send_modify(|times| *times += 1);
        drop(kept);
        tokio::select! {
            () = returned.notified() => {}
            // may sleep: nobody tells of a batch that another process left behind, so it is looked for, but not all the time.
            () = tokio::time::sleep(look_every) => {}
        }
    }
}

impl Inner {
    /// Asks the primary for a heartbeat. One that is in doubt must show that it still writes: there are stores that
    /// answer questions and take nothing. It is back only when it knows what was declared meanwhile.
    async fn check(self: &Arc<Self>) {
        let (inner, began) = (Arc::clone(self), self.started.elapsed());
        let is_in_doubt = self.side() == Side::Spool || !self.switch().is_healthy();
        let asked = within(self.options.check_timeout, async move {
            let primary = inner.primary.open().await?;
            if is_in_doubt { try_to_write(&primary).await } else { primary.now().await.map(drop) }
        });
        let answered = match asked.await {
            Ok(()) if !self.is_introduced.load(Ordering::Acquire) => self.introduce().await,
            answered => answered,
        };
        match answered {
            Ok(()) => self.went_well(),
            Err(error) => self.went_wrong(began, &error),
        }
    }

    fn until_next_check(&self) -> Duration {
        let is_trying = self.side() == Side::Primary && !self.switch().is_healthy();
        if is_trying { AGAIN_AFTER_FAILURE.min(self.options.check_every) } else { self.options.check_every }
    }

    /// Calls the primary, for not longer than a check may take, and notes how that went.
    pub(super) async fn on_primary<T, Fut>(
        &self,
        call: impl FnOnce(Arc<dyn Engine>) -> Fut + Send,
    ) -> Result<T>
    where
        T: Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        self.on_primary_within(self.options.check_timeout, call).await
    }

    /// The same for a call that may take longer.
    pub(super) async fn on_primary_within<T, Fut>(
        &self,
        limit: Duration,
        call: impl FnOnce(Arc<dyn Engine>) -> Fut + Send,
    ) -> Result<T>
    where
        T: Send + 'static,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        let (limit, began) = (limit.max(self.options.check_timeout), self.started.elapsed());
        self.note(began, within(limit, call(self.primary.engine()?)).await)
    }

    /// Notes how a call went that began at this moment, and hands its answer on. What went well says little: it may have been
    /// a read.
    pub(super) fn note<T>(&self, began: Duration, answer: Result<T>) -> Result<T> {
        if let Err(error) = &answer
            && error.is_away()
        {
            self.went_wrong(began, error);
        }
        answer
    }

    fn went_wrong(&self, began: Duration, error: &EngineError) {
        // Why it is away may change meanwhile, and this is what somebody must act on: it is said once, in whatever order they come.
        if matches!(error, EngineError::Unusable { .. }) && !self.is_refused.swap(true, Ordering::SeqCst) {
            let primary = self.primary.name;
            tracing::error!(%error, primary, "the store is there and lets nobody use it; it is asked again and again");
        }
        if self.switch().failed(began, self.started.elapsed()) {
            self.is_introduced.store(false, Ordering::Release);
            self.counts.switches.fetch_add(1, Ordering::Relaxed);
            let (primary, spool) = (self.primary.name, self.spool.info().name);
            tracing::warn!(%error, primary, spool, "the store is away; new jobs go into the spool and run from there");
        }
    }

    fn went_well(&self) {
        self.is_refused.store(false, Ordering::SeqCst);
        if self.switch().succeeded(self.started.elapsed()) {
            self.counts.switches.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(primary = self.primary.name, "the store is back; new jobs go there again");
            self.returned.notify_one();
        }
    }

    /// Tells the primary what was declared while it was away, for it may have come back empty, and learns what it knows.
    pub(super) async fn introduce(&self) -> Result<()> {
        // What is declared from here on, while the primary is away, makes it false again.
        self.is_introduced.store(true, Ordering::Release);
        let declaration = self.declared().clone();
        let declare =
            |part| self.on_primary(|primary: Arc<dyn Engine>| async move { primary.declare(part).await });
        let told = declare_all(self.primary.name, declaration, declare).await;
        match told {
            Ok(()) => self.copy_catalogue().await,
            Err(_) => self.is_introduced.store(false, Ordering::Release),
        }
        told
    }

    /// The spool must know every queue and type that the primary knows: else it would refuse jobs that are none of this
    /// process's own.
    pub(super) async fn copy_catalogue(&self) {
        if self.spool.trouble().is_some() {
            return;
        }
        let read = self.on_primary(|primary| async move {
            Ok((primary.queues().await?, primary.types().await?, primary.now().await?))
        });
        let copied = match read.await {
            Ok((queues, types, now)) => self.learn(queues, types, now).await,
            Err(error) => Err(error),
        };
        if let Err(error) = copied {
            tracing::warn!(%error, "the spool could not learn which queues and types the store knows");
        }
    }

    async fn learn(&self, queues: Vec<QueueStatus>, types: Vec<TypeStatus>, now: Timestamp) -> Result<()> {
        let specs = queues.iter().map(|queue| queue.spec.clone()).collect();
        let types = types.into_iter().map(|known| known.spec).collect();
        self.tell_spool(Declaration { queues: specs, types }).await?;
        for QueueStatus { spec, pause, shut, .. } in queues {
            match pause.filter(|pause| pause.holds(now)) {
                Some(Pause { reason, until, .. }) => {
                    let lasting = until.map(|until| until.since(now));
                    self.spool.pause(&spec.name, reason.as_deref(), lasting).await?
                }
                None => self.spool.resume(&spec.name).await?,
            };
            self.spool.set_shut(&spec.name, shut).await?;
        }
        Ok(())
    }

    /// Declares in the spool what the primary has taken.
    pub(super) async fn tell_spool(&self, declaration: Declaration) -> Result<()> {
        declare_all(self.spool.info().name, declaration, |part| self.spool.declare(part)).await
    }

    async fn look_after_spool(&self) {
        if self.side() == Side::Primary
            && let Err(error) = self.replay().await
        {
            tracing::warn!(%error, "the spool could not be replayed; it will be retried");
        }
        self.keep_spool_tidy().await;
    }

    /// A process without a worker has nobody else who sweeps its spool. How much is in it is counted again, for all that came
    /// replay.
    async fn keep_spool_tidy(&self) {
        if let Err(error) = self.spool_size().await {
            tracing::warn!(%error, "nobody knows how many jobs are in the spool");
        }
        for done in
            [self.spool.sweep(MAINTENANCE_BATCH_MAX).await, self.spool.prune(MAINTENANCE_BATCH_MAX).await]
        {
            if let Err(error) = done {
                tracing::warn!(%error, "the spool could not be swept");
            }
        }
    }
}

/// Declares all that a store takes. What it refuses, because others have declared it otherwise, is said and left: it must keep
/// neither the rest nor the process from that store.
async fn declare_all<Fut>(
    store: &str,
    all: Declaration,
    declare: impl Fn(Declaration) -> Fut + Send,
) -> Result<()>
where
    Fut: Future<Output = Result<()>> + Send,
{
    match declare(all.clone()).await {
        Err(error) if is_final(&error) => {}
        answered => return answered,
    }
    for part in all.one_by_one() {
        match declare(part).await {
            Err(error) if is_final(&error) => {
                tracing::error!(%error, store, "a queue or type was refused");
            }
            answered => answered?,
        }
    }
    Ok(())
}

/// Whether the same declaration will be refused again.
fn is_final(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused(_) | EngineError::Queue(_) | EngineError::Type(_))
}

/// A request for nothing leaves a receipt, and takes the way that new jobs take.
async fn try_to_write(primary: &Arc<dyn Engine>) -> Result<()> {
    let request = RequestId::from_random(fastrand::u128(..));
    primary.enqueue(EnqueueRequest { request, jobs: Vec::new() }).await.map(drop)
}
