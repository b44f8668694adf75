//! Watching the primary: it is asked again and again, and what is heard of it moves the switch.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::engine::{Declaration, Engine, Result};
use windlass_core::error::EngineError;
use windlass_core::fallback::Side;

use super::Inner;
use super::primary::{is_away, within};

/// After a failure the primary is asked again sooner.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_millis(250);
/// How often the spill is looked through, if nothing else calls for it.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// After so many checks the spill learns again which queues and types the primary knows.
const CHECKS_PER_COPY: u32 = 30;

/// Checks the primary for as long as the engine is kept.
pub(super) async fn watch(inner: Weak<Inner>) {
    for checks in 1_u32.. {
        let Some(kept) = inner.upgrade() else { return };
        kept.check().await;
        if checks % CHECKS_PER_COPY == 0 && kept.side() == Side::Primary {
            kept.copy_catalogue().await;
        }
        let wait = kept.until_next_check();
        drop(kept);
        tokio::time::sleep(wait).await;
    }
}

/// Brings the spill home, whenever there may be something in it, for as long as the engine is kept.
pub(super) async fn bring_home(inner: Weak<Inner>, returned: Arc<Notify>) {
    loop {
        let Some(kept) = inner.upgrade() else { return };
        if kept.side() == Side::Primary
            && kept.spill_was_used.load(Ordering::Acquire)
            && let Err(error) = kept.bring_home().await
        {
            tracing::warn!(%error, "the spill could not be brought home; it is tried again");
        }
        drop(kept);
        tokio::select! {
            () = returned.notified() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

impl Inner {
    /// Asks the primary for a sign of life.
    pub(super) async fn check(self: &Arc<Self>) {
        let inner = Arc::clone(self);
        let asked =
            within(self.options.check_timeout, async move { inner.primary.open().await?.now().await });
        match asked.await {
            Ok(_) => self.went_well(true).await,
            Err(error) => self.went_wrong(&error),
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
        let answer = within(self.options.check_timeout, call(self.primary.engine()?)).await;
        self.note(answer)
    }

    /// Notes how a call went, and hands its answer on.
    pub(super) fn note<T>(&self, answer: Result<T>) -> Result<T> {
        match &answer {
            Ok(_) => _ = self.switch().succeeded(false, self.started.elapsed()),
            Err(error) if is_away(error) => self.went_wrong(error),
            Err(_) => {}
        }
        answer
    }

    fn went_wrong(&self, error: &EngineError) {
        if self.switch().failed(self.started.elapsed()) {
            self.counts.switches.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%error, primary = self.primary.name, spill = self.spill.info().name,
                "the store is away; new jobs go into the spill and run from there");
        }
    }

    async fn went_well(&self, by_check: bool) {
        if !self.switch().succeeded(by_check, self.started.elapsed()) {
            return;
        }
        self.counts.switches.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(primary = self.primary.name, "the store is back; new jobs go there again");
        self.introduce().await;
        self.returned.notify_one();
    }

    /// Tells the primary what was declared while it was away, for it may have come back empty, and learns what it knows.
    pub(super) async fn introduce(&self) {
        let declaration = self.declared().clone();
        let declared = self.on_primary(|primary| async move { primary.declare(declaration).await });
        if let Err(error) = declared.await {
            tracing::error!(%error, primary = self.primary.name, "queues and types could not be declared again");
        }
        self.copy_catalogue().await;
    }

    /// The spill must know every queue and type that the primary knows: else it would refuse jobs that are none of this
    /// process's own.
    async fn copy_catalogue(&self) {
        let read = self.on_primary(|primary| async move {
            let queues = primary.queues().await?.into_iter().map(|queue| queue.spec).collect();
            let types = primary.types().await?.into_iter().map(|known| known.spec).collect();
            Ok(Declaration { queues, types })
        });
        let copied = match read.await {
            Ok(declaration) => self.spill.declare(declaration).await,
            Err(error) => Err(error),
        };
        if let Err(error) = copied {
            tracing::warn!(%error, "the spill could not learn which queues and types the store knows");
        }
    }
}
