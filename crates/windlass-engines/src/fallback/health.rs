//! Watches the primary: sends it periodic checks, whose results move the switch.

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

/// The interval of checks after a failure, which is shorter.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_millis(250);
/// How often the spool is checked, if no event requires it.
const SPOOL_CHECK_EVERY: Duration = Duration::from_secs(5);
/// The number of checks after which the spool learns again which queues and types the primary knows.
const CHECKS_PER_COPY: u32 = 30;

/// Checks the primary for as long as the engine is kept.
pub(super) async fn watch(inner: Weak<Inner>) {
    for checks in 1_u32.. {
        let Some(kept) = inner.upgrade() else { return };
        kept.check().await;
        kept.recover_spool().await;
        kept.heard.send_modify(|times| *times += 1);
        if checks % CHECKS_PER_COPY == 0 && kept.side() == Side::Primary {
            kept.copy_catalogue().await;
        }
        let wait = kept.until_next_check();
        drop(kept);
        // may sleep: checks go to the store at this interval and not more often, whether it answers or not.
        tokio::time::sleep(wait).await;
    }
}

/// Replays the spool, whenever a job may be in it, for as long as the engine is kept.
pub(super) async fn replay(inner: Weak<Inner>, returned: Arc<Notify>, adopt_after: Duration) {
    let check_every = adopt_after.clamp(Duration::from_millis(100), SPOOL_CHECK_EVERY);
    loop {
        let Some(kept) = inner.upgrade() else { return };
        if kept.spool.trouble().is_none() {
            kept.maintain_spool().await;
        }
        kept.heard.send_modify(|times| *times += 1);
        drop(kept);
        tokio::select! {
            () = returned.notified() => {}
            // may sleep: no event reports a batch that another process left behind, so it is polled, at an
            // interval.
            () = tokio::time::sleep(check_every) => {}
        }
    }
}

impl Inner {
    /// Checks the primary. A primary in doubt must show that it still writes: some stores answer queries
    /// and accept no write. It is back only when it knows all declarations of the meantime.
    async fn check(self: &Arc<Self>) {
        let (inner, began) = (Arc::clone(self), self.started.elapsed());
        let is_in_doubt = self.side() == Side::Spool || !self.switch().is_healthy();
        let checked = within(self.options.check_timeout, async move {
            let primary = inner.primary.open().await?;
            if is_in_doubt { try_to_write(&primary).await } else { primary.now().await.map(drop) }
        });
        let answered = match checked.await {
            Ok(()) if !self.is_declared.load(Ordering::Acquire) => self.declare_to_primary().await,
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

    /// Calls the primary, for no longer than a check may take, and notes the result.
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

    /// Calls the primary with a longer time limit, and notes the result.
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

    /// Notes the result of a call that began at this moment, and returns its answer. A success says little:
    /// it may have been a read.
    pub(super) fn note<T>(&self, began: Duration, answer: Result<T>) -> Result<T> {
        if let Err(error) = &answer
            && error.is_away()
        {
            self.went_wrong(began, error);
        }
        answer
    }

    fn went_wrong(&self, began: Duration, error: &EngineError) {
        // The reason may change while it is away, and an operator must act on this one: it is logged once,
        // in whatever order the errors come.
        if matches!(error, EngineError::Unusable { .. }) && !self.is_refused.swap(true, Ordering::SeqCst) {
            let primary = self.primary.name;
            tracing::error!(%error, primary, "the store is reachable and refuses to be used; fix the cause in `error`, checks go on meanwhile");
        }
        if self.switch().failed(began, self.started.elapsed()) {
            self.is_declared.store(false, Ordering::Release);
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

    /// Declares to the primary what was declared while it was away, for it may have come back empty, and
    /// copies its catalogue.
    pub(super) async fn declare_to_primary(&self) -> Result<()> {
        // A declaration from here on, while the primary is away, makes it false again.
        self.is_declared.store(true, Ordering::Release);
        let declaration = self.declared().clone();
        let declare =
            |part| self.on_primary(|primary: Arc<dyn Engine>| async move { primary.declare(part).await });
        let declared = declare_all(self.primary.name, declaration, declare).await;
        match declared {
            Ok(()) => self.copy_catalogue().await,
            Err(_) => self.is_declared.store(false, Ordering::Release),
        }
        declared
    }

    /// Copies every queue and type of the primary to the spool: otherwise the spool would refuse jobs of
    /// queues and types that this process does not declare.
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
            tracing::warn!(%error, "copying queues and types to the spool failed; it is retried with a later check");
        }
    }

    /// Declarations that cannot be read are left out, and types with their queue. What the spool knows of
    /// them already stays, so it accepts jobs that wait in it until the primary accepts them.
    async fn learn(&self, queues: Vec<QueueStatus>, types: Vec<TypeStatus>, now: Timestamp) -> Result<()> {
        let unreadable = queues.iter().map(|queue| &queue.unreadable);
        for error in unreadable.chain(types.iter().map(|known| &known.unreadable)).flatten() {
            tracing::error!(%error, "a queue or type is not copied to the spool");
        }
        let specs: Vec<_> = queues.iter().filter(|queue| queue.unreadable.is_none()).collect();
        let has_queue = |known: &TypeStatus| specs.iter().any(|queue| queue.spec.name == known.spec.queue);
        let types = types.into_iter().filter(|known| known.unreadable.is_none() && has_queue(known));
        let types = types.map(|known| known.spec).collect();
        let specs = specs.iter().map(|queue| queue.spec.clone()).collect();
        self.declare_in_spool(Declaration { queues: specs, types }).await?;
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

    /// Declares in the spool what the primary has accepted.
    pub(super) async fn declare_in_spool(&self, declaration: Declaration) -> Result<()> {
        declare_all(self.spool.info().name, declaration, |part| self.spool.declare(part)).await
    }

    async fn maintain_spool(&self) {
        if self.side() == Side::Primary
            && let Err(error) = self.replay().await
        {
            tracing::warn!(%error, "replaying the spool failed; it is retried");
        }
        self.sweep_spool().await;
    }

    /// Sweeps and prunes the spool, since no other process does so for a process without a worker. It
    /// counts the jobs in it again, after all replays.
    async fn sweep_spool(&self) {
        if let Err(error) = self.spool_size().await {
            tracing::warn!(%error, "counting the jobs in the spool failed; the last count is used");
        }
        for done in
            [self.spool.sweep(MAINTENANCE_BATCH_MAX).await, self.spool.prune(MAINTENANCE_BATCH_MAX).await]
        {
            if let Err(error) = done {
                tracing::warn!(%error, "sweeping or pruning the spool failed; it is retried");
            }
        }
    }
}

/// Declares everything to a store. A queue or type that the store refuses, because other processes have
/// declared it differently or because the stored one cannot be read, is logged and left out: it must not stop
/// the rest, nor keep the process from that store.
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
                tracing::error!(%error, store, "the store refused a queue or type, which is left out");
            }
            answered => answered?,
        }
    }
    Ok(())
}

/// Whether the same declaration will be refused again.
fn is_final(error: &EngineError) -> bool {
    use EngineError::{Queue, Refused, Type, Unreadable};
    matches!(error, Refused(_) | Queue(_) | Type(_) | Unreadable(_))
}

/// Sends a request without jobs, which stores a receipt and takes the same path as new jobs.
async fn try_to_write(primary: &Arc<dyn Engine>) -> Result<()> {
    let request = RequestId::from_random(fastrand::u128(..));
    primary.enqueue(EnqueueRequest { request, jobs: Vec::new() }).await.map(drop)
}
