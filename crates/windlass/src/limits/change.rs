//! Changes a breaker that processes share: read, decide, write; and again if another process wrote in
//! between.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::breaker::{BreakerEvent, BreakerOptions, BreakerState, decide};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::names::BreakerName;
use windlass_core::policies::{BreakersRead, Saved};
use windlass_core::stored::Unreadable;

use super::platform::found;
use crate::{random, store};

/// The most attempts. After this many, another process has surely made the change, or the next round makes
/// it.
const TRIES_MAX: u32 = 20;

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerChange<T> {
    /// The state of the breaker now.
    pub state: BreakerState,
    /// The store's time when the state was read.
    pub now: Timestamp,
    /// The decision; none if other processes wrote first each time.
    pub answer: Option<T>,
}

/// Reads all breakers.
pub(super) async fn read_all(engine: &Arc<dyn Engine>) -> Result<BreakersRead, EngineError> {
    store::call(engine, |engine| async move { engine.breakers().await }).await
}

/// Changes a breaker by the result of `decide`, which may be called several times.
pub(super) async fn change<T>(
    engine: &Arc<dyn Engine>,
    name: &BreakerName,
    mut decide: impl FnMut(&BreakerState, Timestamp) -> (BreakerState, T),
) -> Result<BreakerChange<T>, EngineError> {
    change_read(engine, name, |before, now| Ok(decide(&before?, now))).await
}

/// Changes a breaker that perhaps cannot be read.
async fn change_read<T>(
    engine: &Arc<dyn Engine>,
    name: &BreakerName,
    mut decide: impl FnMut(Result<BreakerState, Unreadable>, Timestamp) -> Result<(BreakerState, T), Unreadable>,
) -> Result<BreakerChange<T>, EngineError> {
    for tries in 0..TRIES_MAX {
        let read = read_all(engine).await?;
        let (version, before) = found(&read, name);
        let (state, answer) = decide(before.clone(), read.now)?;
        if Ok(&state) == before.as_ref() || save(engine, name, version, &state).await? == Saved::Done {
            return Ok(BreakerChange { state, now: read.now, answer: Some(answer) });
        }
        // may sleep: processes that collide here spread out, or they would collide again.
        tokio::time::sleep(Duration::from_micros(u64::from(random::byte()) * u64::from(tries + 1))).await;
    }
    let read = read_all(engine).await?;
    Ok(BreakerChange { state: found(&read, name).1?, now: read.now, answer: None })
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

/// Applies a person's act to a breaker that processes share: opens, closes or resets it. A reset also
/// replaces a state that cannot be read.
pub async fn change_breaker(
    engine: &Arc<dyn Engine>,
    name: &BreakerName,
    event: &BreakerEvent,
) -> Result<BreakerChange<()>, EngineError> {
    // A person's act depends on no option.
    let options = BreakerOptions::default();
    change_read(engine, name, |state, now| {
        let state = if *event == BreakerEvent::Reset { state.unwrap_or_default() } else { state? };
        Ok((decide(&state, event, now, &options), ()))
    })
    .await
}
