//! The spill has troubles of its own: its disk is full, or its file cannot be opened yet. That keeps no
//! process from a primary that answers.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use windlass_core::engine::Result;
use windlass_core::error::EngineError;
use windlass_core::fallback::Side;

use super::{Inner, unfinished};

impl Inner {
    /// Looks at the spill when the process starts.
    pub(super) async fn meet_spill(&self) -> Result<()> {
        let met = self.look_into_spill().await;
        self.unless_passing(met)
    }

    /// Hands on what the spill answered, unless it is in a trouble that passes: then that is said, and made
    /// up for later.
    pub(super) fn unless_passing(&self, answer: Result<()>) -> Result<()> {
        match answer {
            Err(error) if error.is_passing() => {
                self.spill_failed(&error);
                Ok(())
            }
            answered => answered,
        }
    }

    fn spill_failed(&self, error: &EngineError) {
        let (spill, primary) = (self.spill.info().name, self.primary.name);
        if self.spill_trouble().replace(error.to_string()).is_none() {
            tracing::warn!(
                %error, spill, primary,
                "the spill is in trouble, not the store; if the store goes away before that is over, new jobs are refused"
            );
        }
    }

    /// Makes up for what the spill did not learn while it was in trouble.
    pub(super) async fn make_up_for_trouble(&self) {
        if self.spill_trouble().is_none() || self.spill.trouble().is_some() {
            return;
        }
        if let Err(error) = self.teach_spill().await {
            *self.spill_trouble() = Some(error.to_string());
            return;
        }
        *self.spill_trouble() = None;
        tracing::warn!(spill = self.spill.info().name, "the spill can be used again");
        if self.side() == Side::Primary {
            self.copy_catalogue().await;
        }
        self.returned.notify_one();
    }

    async fn teach_spill(&self) -> Result<()> {
        self.look_into_spill().await?;
        let declared = self.declared().clone();
        self.tell_spill(declared).await
    }

    /// Counts what is in the spill. One that took jobs before may hold receipts.
    async fn look_into_spill(&self) -> Result<()> {
        let queues = self.spill.queues().await?;
        self.in_spill.store(unfinished(&queues), Ordering::Relaxed);
        if queues.iter().any(|queue| queue.totals.enqueued > 0) {
            self.spilling();
        }
        Ok(())
    }

    /// What the spill has of something that both stores have; nothing while it cannot be read and the primary
    /// answers.
    pub(super) fn beside_primary<T: Default>(&self, read: Result<T>) -> Result<T> {
        match read {
            Err(error) if error.is_passing() && self.side() == Side::Primary => {
                tracing::debug!(%error, "the spill cannot be read; the store is shown alone");
                Ok(T::default())
            }
            answered => answered,
        }
    }

    /// Says that it is the spill that failed, and why it was asked at all.
    pub(super) fn of_spill(&self, error: EngineError, away: &EngineError) -> EngineError {
        let spill = self.spill.info().name;
        let told = |why: String| {
            format!(
                "new jobs go into the spill ({spill}) now, and the spill failed: {why}; before that, {away}"
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

    pub(super) fn spill_trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.spill_trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
