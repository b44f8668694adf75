//! Changing a breaker that processes share: read, decide, write; if somebody was faster, again.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::breaker::{BreakerEvent, BreakerOptions, BreakerState, decide};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::names::BreakerName;
use windlass_core::policies::{BreakersRead, Saved};

use super::platform::found;
use crate::{random, store};

/// After so many who were faster, somebody else has surely done what was to be done, or the next round does it.
const TRIES_MAX: u32 = 20;

/// What a change led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerChange<T> {
    /// What is known now.
    pub state: BreakerState,
    /// The store's now, when it was read.
    pub now: Timestamp,
    /// What was decided; nothing if others were faster each time.
    pub answer: Option<T>,
}

/// Reads all breakers.
pub(super) async fn read_all(engine: &Arc<dyn Engine>) -> Result<BreakersRead, EngineError> {
    store::call(engine, |engine| async move { engine.breakers().await }).await
}

/// Changes a breaker as `decide` says, which may be asked several times.
pub(super) async fn change<T>(
    engine: &Arc<dyn Engine>,
    name: &BreakerName,
    mut decide: impl FnMut(&BreakerState, Timestamp) -> (BreakerState, T),
) -> Result<BreakerChange<T>, EngineError> {
    for tries in 0..TRIES_MAX {
        let read = read_all(engine).await?;
        let (version, before) = found(&read, name);
        let (state, answer) = decide(&before, read.now);
        if state == before || save(engine, name, version, &state).await? == Saved::Done {
            return Ok(BreakerChange { state, now: read.now, answer: Some(answer) });
        }
        // may sleep: those who meet here go apart, or they would meet again.
        tokio::time::sleep(Duration::from_micros(u64::from(random::byte()) * u64::from(tries + 1))).await;
    }
    let read = read_all(engine).await?;
    Ok(BreakerChange { state: found(&read, name).1, now: read.now, answer: None })
}

async fn save(
    engine: &Arc<dyn Engine>,
    name: &BreakerName,
    version: u64,
    state: &BreakerState,
) -> Result<Saved, EngineError> {
    let (name, state) = (name.clone(), state.clone());
    store::call(engine, |engine| async move { engine.save_breaker(&name, version, &state).await }).await
}

/// What a person does to a breaker that processes share: opens, closes or resets it.
pub async fn change_breaker(
    engine: &Arc<dyn Engine>,
    name: &BreakerName,
    event: &BreakerEvent,
) -> Result<BreakerChange<()>, EngineError> {
    // What people do depends on no option.
    let options = BreakerOptions::default();
    change(engine, name, |state, now| (decide(state, event, now, &options), ())).await
}
