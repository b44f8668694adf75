//! The spool has troubles of its own: its disk is full, or its file cannot be opened yet. That keeps no
//! process from a primary that answers.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use windlass_core::engine::Result;
use windlass_core::error::EngineError;
use windlass_core::fallback::Side;

use super::{Inner, unfinished};

impl Inner {
    /// Looks at the spool when the process starts.
    pub(super) async fn meet_spool(&self) -> Result<()> {
        let met = self.look_into_spool().await;
        self.unless_passing(met)
    }

    /// Hands on what the spool answered, unless it is in a trouble that passes: then that is said, and made
    /// up for later.
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
                "the spool is in trouble, not the store; if the store goes away before that is over, new jobs are refused"
            );
        }
    }

    /// Makes up for what the spool did not learn while it was in trouble.
    pub(super) async fn make_up_for_trouble(&self) {
        if self.spool_trouble().is_none() || self.spool.trouble().is_some() {
            return;
        }
        if let Err(error) = self.teach_spool().await {
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

    async fn teach_spool(&self) -> Result<()> {
        self.look_into_spool().await?;
        let declared = self.declared().clone();
        self.tell_spool(declared).await
    }

    /// Counts what is in the spool. One that took jobs before may hold receipts.
    async fn look_into_spool(&self) -> Result<()> {
        let queues = self.spool.queues().await?;
        self.in_spool.store(unfinished(&queues), Ordering::Relaxed);
        if queues.iter().any(|queue| queue.totals.enqueued > 0) {
            self.spooling();
        }
        Ok(())
    }

    /// What the spool has of something that both stores have; nothing while it cannot be read and the primary
    /// answers.
    pub(super) fn beside_primary<T: Default>(&self, read: Result<T>) -> Result<T> {
        match read {
            Err(error) if error.is_passing() && self.side() == Side::Primary => {
                tracing::debug!(%error, "the spool cannot be read; the store is shown alone");
                Ok(T::default())
            }
            answered => answered,
        }
    }

    /// Says that it is the spool that failed, and why it was asked at all.
    pub(super) fn of_spool(&self, error: EngineError, away: &EngineError) -> EngineError {
        let spool = self.spool.info().name;
        let told = |why: String| {
            format!(
                "new jobs go into the spool ({spool}) now, and the spool failed: {why}; before that, {away}"
            )
        };
        match error {
            EngineError::Full { why } => EngineError::Full { why: told(why) },
            EngineError::Unavailable { why } => EngineError::Unavailable { why: told(why) },
            EngineError::Busy { why } => EngineError::Busy { why: told(why) },
            EngineError::Unknown { why } => EngineError::Unknown { why: told(why) },
            EngineError::Unusable { why } => EngineError::Unusable { why: told(why) },
            other => other,
        }
    }

    pub(super) fn spool_trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.spool_trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
