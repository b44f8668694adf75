//! Folding: what happened since the last round is added to the minutes. It is right if several do it at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::limits::{FOLD_IDLE, SAMPLES_PER_CALL_MAX};
use windlass_core::rollups::roll_up::{Damage, roll_up};
use windlass_core::rollups::{Rollup, RollupKey, RollupOutcome};

use super::shell::DirtyFlag;
use crate::duties::DutyContext;
use crate::duties::boot_clock::BootClock;
use crate::store;
use crate::worker::Moment;

/// How many rounds one run has, because there is more or somebody was faster. What is left then waits for the next.
const ROUNDS_MAX: u32 = 20;

/// Folds.
pub(crate) struct RollupDuty {
    engine: Arc<dyn Engine>,
    dirty: DirtyFlag,
    clock: BootClock,
    /// When the last round was that found nothing.
    idle_since: Mutex<Option<Moment>>,
}

impl RollupDuty {
    pub(crate) fn new(engine: Arc<dyn Engine>, dirty: DirtyFlag) -> Self {
        Self { engine, dirty, clock: BootClock::start(), idle_since: Mutex::default() }
    }

    /// A run of the duty. Where nothing happens, most of them ask nothing.
    pub(crate) async fn run(&self, context: &DutyContext) -> Result<(), EngineError> {
        let (now, dirty) = (self.clock.now(), self.dirty.take());
        if !is_due(*self.idle_since.lock().unwrap_or_else(PoisonError::into_inner), dirty, now) {
            return Ok(());
        }
        let rolled_up = self.roll_up().await;
        if rolled_up.is_err() {
            // It is still there to be folded.
            self.dirty.tell();
        }
        let rows = rolled_up?;
        context.did(rows as u64);
        let idle_since = (rows == 0).then_some(now);
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = idle_since;
        Ok(())
    }

    /// Folds all that is there; tells how many rows that has changed.
    pub(crate) async fn roll_up(&self) -> Result<usize, EngineError> {
        let mut rows = 0;
        for _ in 0..ROUNDS_MAX {
            let Some(round) = self.round().await? else { break };
            rows += round.rows;
            if !round.more {
                break;
            }
        }
        Ok(rows)
    }

    /// One round; nothing if there was nothing to book.
    async fn round(&self) -> Result<Option<Round>, EngineError> {
        let limit = u32::try_from(SAMPLES_PER_CALL_MAX).unwrap_or(u32::MAX);
        let rollup_input =
            store::call(&self.engine, |engine| async move { engine.rollup_input(limit).await }).await?;
        let Some(roll_up) = roll_up(rollup_input) else { return Ok(None) };
        roll_up.damaged.iter().for_each(tell);
        let more = roll_up.more;
        let kept = self.kept(roll_up.keys()).await?;
        let change = roll_up.onto(kept);
        let rows = change.rows.len();
        let rolled_up =
            store::call(&self.engine, |engine| async move { engine.apply_rollup(&change).await }).await?;
        Ok(Some(match rolled_up {
            RollupOutcome::Done => Round { rows, more },
            RollupOutcome::Overtaken => Round { rows: 0, more: true },
        }))
    }

    async fn kept(&self, keys: Vec<RollupKey>) -> Result<Vec<Rollup>, EngineError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let read = store::call(&self.engine, |engine| async move { engine.rollups_of(&keys).await }).await?;
        for row in &read.damaged {
            let (queue, job_type) = (&row.queue, &row.job_type);
            tracing::error!(minute = %row.minute.start(), queue, job_type, "what was kept of a minute cannot be read, and begins anew");
        }
        Ok(read.rows)
    }
}

/// What a round did.
struct Round {
    rows: usize,
    more: bool,
}

fn is_due(idle_since: Option<Moment>, dirty: bool, now: Moment) -> bool {
    // The timer that calls may be a little early.
    let rest = FOLD_IDLE.saturating_sub(Duration::from_secs(1));
    dirty || idle_since.is_none_or(|since| now.saturating_sub(since) >= rest)
}

fn tell(damage: &Damage) {
    let why = std::error::Error::source(damage).map(ToString::to_string);
    tracing::error!(%damage, why, "what was to be added to the minutes cannot be read, and is left out");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_happens_most_runs_ask_nothing() {
        let second = Duration::from_secs;
        assert!(is_due(None, false, second(5)));
        assert!(!is_due(Some(second(5)), false, second(15)));
        assert!(is_due(Some(second(5)), true, second(15)));
        assert!(is_due(Some(second(5)), false, second(64)));
    }
}
