//! Transient errors of the spool: its disk is full, or its file cannot be opened yet. They keep no process
//! from a primary that answers.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use windlass_core::engine::Result;
use windlass_core::error::EngineError;
use windlass_core::fallback::Side;

use super::{Inner, unfinished};

impl Inner {
    /// Reads the spool when the process starts.
    pub(super) async fn open_spool(&self) -> Result<()> {
        let counted = self.count_spool().await;
        self.unless_passing(counted)
    }

    /// Returns the answer of the spool, unless it is a transient error: that is logged, and repaired later.
    pub(super) fn unless_passing(&self, answer: Result<()>) -> Result<()> {
        match answer {
            Err(error) if error.is_passing() => {
                self.spool_failed(&error);
                Ok(())
            }
            answered => answered,
        }
    }

    fn spool_failed(&self, error: &EngineError) {
        let (spool, primary) = (self.spool.info().name, self.primary.name);
        if self.spool_trouble().replace(error.to_string()).is_none() {
            tracing::warn!(
                %error, spool, primary,
                "the spool is in trouble, not the store; free its disk or make its file accessible, or new jobs are refused while the store is away"
            );
        }
    }

    /// Declares again what the spool missed during an error.
    pub(super) async fn recover_spool(&self) {
        if self.spool_trouble().is_none() || self.spool.trouble().is_some() {
            return;
        }
        if let Err(error) = self.declare_again_in_spool().await {
            *self.spool_trouble() = Some(error.to_string());
            return;
        }
        *self.spool_trouble() = None;
        tracing::warn!(spool = self.spool.info().name, "the spool can be used again");
        if self.side() == Side::Primary {
            self.copy_catalogue().await;
        }
        self.returned.notify_one();
    }

    async fn declare_again_in_spool(&self) -> Result<()> {
        self.count_spool().await?;
        let declared = self.declared().clone();
        self.declare_in_spool(declared).await
    }

    /// Counts the jobs in the spool. A spool that took jobs before may hold receipts.
    async fn count_spool(&self) -> Result<()> {
        let queues = self.spool.queues().await?;
        self.in_spool.store(unfinished(&queues), Ordering::Relaxed);
        if queues.iter().any(|queue| queue.totals.enqueued > 0) {
            self.spooling();
        }
        Ok(())
    }

    /// Returns the spool's part of data that both stores have; nothing while it cannot be read and the
    /// primary answers.
    pub(super) fn beside_primary<T: Default>(&self, read: Result<T>) -> Result<T> {
        match read {
            Err(error) if error.is_passing() && self.side() == Side::Primary => {
                tracing::debug!(%error, "the spool cannot be read; the store is shown alone");
                Ok(T::default())
            }
            answered => answered,
        }
    }

    /// Adds to an error that the spool failed, and why it was used at all.
    pub(super) fn of_spool(&self, error: EngineError, away: &EngineError) -> EngineError {
        let spool = self.spool.info().name;
        let explain = |why: String| {
            format!(
                "new jobs go into the spool ({spool}) now, and the spool failed: {why}; before that, {away}"
            )
        };
        match error {
            EngineError::Full { why } => EngineError::Full { why: explain(why) },
            EngineError::Unavailable { why } => EngineError::Unavailable { why: explain(why) },
            EngineError::Busy { why } => EngineError::Busy { why: explain(why) },
            EngineError::Unknown { why } => EngineError::Unknown { why: explain(why) },
            EngineError::Unusable { why } => EngineError::Unusable { why: explain(why) },
            other => other,
        }
    }

    pub(super) fn spool_trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.spool_trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
