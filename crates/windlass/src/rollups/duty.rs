//! The rollup duty: adds the samples and totals since the last round to the rollups. The result is correct
//! if several processes do it at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::limits::{ROLL_UP_IDLE, SAMPLES_PER_CALL_MAX};
use windlass_core::rollups::roll_up::{Damage, roll_up};
use windlass_core::rollups::{Rollup, RollupKey, RollupOutcome};

use super::shell::DirtyFlag;
use crate::duties::DutyContext;
use crate::duties::boot_clock::BootClock;
use crate::store;
use crate::worker::Moment;

/// The most rounds of one run, because there is more or another process was faster. The rest waits for the
/// next run.
const ROUNDS_MAX: u32 = 20;

/// Rolls up samples and totals.
pub(crate) struct RollupDuty {
    engine: Arc<dyn Engine>,
    dirty: DirtyFlag,
    clock: BootClock,
    /// When the last round ran, if it found nothing.
    idle_since: Mutex<Option<Moment>>,
}

impl RollupDuty {
    pub(crate) fn new(engine: Arc<dyn Engine>, dirty: DirtyFlag) -> Self {
        Self { engine, dirty, clock: BootClock::start(), idle_since: Mutex::default() }
    }

    /// Runs the duty once. Where nothing happens, most runs send no query.
    pub(crate) async fn run(&self, context: &DutyContext) -> Result<(), EngineError> {
        let (now, dirty) = (self.clock.now(), self.dirty.take());
        if !is_due(*self.idle_since.lock().unwrap_or_else(PoisonError::into_inner), dirty, now) {
            return Ok(());
        }
        let rolled_up = self.roll_up().await;
        if rolled_up.is_err() {
            // The samples are still there to be rolled up.
            self.dirty.set();
        }
        let rows = rolled_up?;
        context.did(rows as u64);
        let idle_since = (rows == 0).then_some(now);
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = idle_since;
        Ok(())
    }

    /// Rolls up all that the store has; returns how many rows that has changed.
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

    /// Runs one round; none if there was nothing to roll up.
    async fn round(&self) -> Result<Option<Round>, EngineError> {
        let limit = u32::try_from(SAMPLES_PER_CALL_MAX).unwrap_or(u32::MAX);
        let rollup_input =
            store::call(&self.engine, |engine| async move { engine.rollup_input(limit).await }).await?;
        let Some(roll_up) = roll_up(rollup_input) else { return Ok(None) };
        roll_up.damaged.iter().for_each(log_damage);
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
            tracing::error!(minute = %row.minute.start(), queue, job_type, "a stored rollup cannot be read; starting it over");
        }
        Ok(read.rows)
    }
}

/// The result of a round.
struct Round {
    rows: usize,
    more: bool,
}

fn is_due(idle_since: Option<Moment>, dirty: bool, now: Moment) -> bool {
    // The timer that calls this may be a little early.
    let rest = ROLL_UP_IDLE.saturating_sub(Duration::from_secs(1));
    dirty || idle_since.is_none_or(|since| now.saturating_sub(since) >= rest)
}

fn log_damage(damage: &Damage) {
    let why = std::error::Error::source(damage).map(ToString::to_string);
    tracing::error!(%damage, why, "a sample cannot be read; leaving it out of the rollups");
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
