//! The breakers of a process: which claim may call which platform, and the results of the calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use windlass_core::breaker::{Admission, BreakerEvent, BreakerOptions, BreakerState, Verdict, ask, decide};
use windlass_core::claim::Fence;
use windlass_core::clock::{Clock, Timestamp};
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::limits::BREAKERS_MAX;
use windlass_core::names::BreakerName;
use windlass_core::policies::BreakersRead;

use super::Wake;
use super::change::{BreakerChange, change, read_all};
use super::options::{BreakerSpec, LimitScope};
use super::platform::{Asked, Known, found};
use crate::store;

/// The breakers of a process.
pub(crate) struct Breakers {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    wake: Arc<Wake>,
    platforms: RwLock<BTreeMap<BreakerName, Arc<Platform>>>,
    /// Held while breaker states are exchanged with the store: a second exchange waits until the first is
    /// done.
    syncing: tokio::sync::Mutex<()>,
}

/// A platform, and this process's knowledge of it.
pub(crate) struct Platform {
    pub(crate) spec: BreakerSpec,
    known: Mutex<Known>,
}

/// The permission of a claim to call a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Granted by what this process knows.
    ByUs,
    /// Granted by the store, with a permit.
    ByStore,
}

impl Platform {
    fn new(spec: BreakerSpec) -> Arc<Self> {
        Arc::new(Self { spec, known: Mutex::default() })
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self) -> &BreakerOptions {
        &self.spec.options
    }

    pub(super) fn is_shared(&self) -> bool {
        self.spec.scope == LimitScope::Store
    }
}

impl Breakers {
    pub(super) fn new(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        wake: Arc<Wake>,
        specs: &[BreakerSpec],
    ) -> Self {
        let platforms = specs.iter().map(|spec| (spec.name.clone(), Platform::new(spec.clone())));
        let platforms = RwLock::new(platforms.collect());
        Self { engine, clock, wake, platforms, syncing: tokio::sync::Mutex::default() }
    }

    /// The breakers for jobs of another store. A platform whose breaker belongs to this process only is
    /// shared by both.
    pub(super) fn beside(&self, engine: Arc<dyn Engine>, wake: Arc<Wake>, specs: &[BreakerSpec]) -> Self {
        let beside = Self::new(engine, Arc::clone(&self.clock), wake, specs);
        let own = self.all().into_iter().filter(|platform| !platform.is_shared());
        let own = own.map(|platform| (platform.spec.name.clone(), platform));
        beside.platforms.write().unwrap_or_else(PoisonError::into_inner).extend(own);
        beside
    }

    /// All platforms of this process.
    pub(super) fn all(&self) -> Vec<Arc<Platform>> {
        self.platforms.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// A platform by its name, with the defaults if it is not configured. None if there are too many.
    pub(crate) fn platform(&self, name: &BreakerName) -> Option<Arc<Platform>> {
        if let Some(platform) = self.platforms.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Some(Arc::clone(platform));
        }
        let mut platforms = self.platforms.write().unwrap_or_else(PoisonError::into_inner);
        if platforms.len() >= BREAKERS_MAX as usize {
            tracing::warn!(breaker = %name, "expected at most {BREAKERS_MAX} breakers, got one more; calls to this platform have no breaker");
            return None;
        }
        let new = || Platform::new(BreakerSpec::new(name.clone()));
        self.wake.soon();
        Some(Arc::clone(platforms.entry(name.clone()).or_insert_with(new)))
    }

    /// A platform by its name, if this process knows it.
    pub(super) fn known_platform(&self, name: &BreakerName) -> Option<Arc<Platform>> {
        self.platforms.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Whether a claim may call the platform now.
    pub(crate) async fn ask(&self, platform: &Platform, fence: Fence) -> Option<Allowed> {
        let asked = platform.known().ask(fence, self.now(), platform.options());
        match asked {
            Asked::Known(Admission::Wait) => None,
            Asked::Known(Admission::Go | Admission::Probe) => Some(Allowed::ByUs),
            Asked::AskStore => self.ask_store(platform, fence).await,
        }
    }

    async fn ask_store(&self, platform: &Platform, fence: Fence) -> Option<Allowed> {
        let options = *platform.options();
        let asked = change(&self.engine, &platform.spec.name, |state, now| ask(state, fence, now, &options));
        match self.learn(platform, asked.await) {
            Ok(Some(Admission::Probe)) => Some(Allowed::ByStore),
            Ok(Some(Admission::Go)) => Some(Allowed::ByUs),
            Ok(Some(Admission::Wait) | None) => None,
            // Without the store, this process decides alone.
            Err(_) => match platform.known().ask(fence, self.now(), platform.options()) {
                Asked::Known(Admission::Go | Admission::Probe) => Some(Allowed::ByUs),
                Asked::Known(Admission::Wait) | Asked::AskStore => None,
            },
        }
    }

    /// Takes in the end of a call. A caller with the store's permit waits until the store knows the result:
    /// the permit ends with the claim, and a later result of that claim counts no more.
    pub(crate) async fn ended(&self, platform: &Platform, fence: Fence, allowed: Allowed, verdict: Verdict) {
        let reports_at_once = allowed == Allowed::ByStore;
        let shared = platform.is_shared() && !reports_at_once;
        platform.known().ended(fence, verdict, shared, self.now(), platform.options());
        if reports_at_once {
            let _ = self.report(platform, &BreakerEvent::ProbeEnded(fence, verdict)).await;
        }
        if reports_at_once || verdict != Verdict::Success {
            self.wake.soon();
        }
    }

    /// Ends the permission of a claim that is over without a result of its calls.
    pub(crate) async fn left(&self, platform: &Platform, fence: Fence, allowed: Allowed) {
        let event = BreakerEvent::Left(vec![fence]);
        platform.known().happened(&event, self.now(), platform.options());
        if allowed == Allowed::ByStore {
            let _ = self.report(platform, &event).await;
        }
    }

    /// How long to make no calls after a rate-limit answer.
    pub(crate) fn pause(&self, platform: &Platform, retry_after: Option<Duration>) -> Duration {
        platform.known().pause(retry_after, platform.options())
    }

    /// Reports an event of a breaker to the store, and takes in the state that the store has now.
    pub(super) async fn report(
        &self,
        platform: &Platform,
        event: &BreakerEvent,
    ) -> Result<BreakerState, EngineError> {
        let options = *platform.options();
        let changed =
            change(&self.engine, &platform.spec.name, |state, now| (decide(state, event, now, &options), ()));
        self.learn(platform, changed.await)?;
        Ok(platform.known().stands(self.now(), platform.options()))
    }

    fn learn<T>(
        &self,
        platform: &Platform,
        changed: Result<BreakerChange<T>, EngineError>,
    ) -> Result<Option<T>, EngineError> {
        match changed {
            Ok(BreakerChange { state, now, answer }) => {
                platform.known().read(state, now, self.now());
                Ok(answer)
            }
            Err(error) => {
                tracing::debug!(%error, breaker = %platform.spec.name, "reading a breaker from the store failed; this process decides alone");
                platform.known().is_away();
                Err(error)
            }
        }
    }

    /// Reads the states of platforms from the store, and reports the results of this process.
    pub(crate) async fn sync(&self) -> Result<(), EngineError> {
        let _one_at_a_time = self.syncing.lock().await;
        let shared: Vec<_> = self.all().into_iter().filter(|platform| platform.is_shared()).collect();
        if shared.is_empty() {
            return Ok(());
        }
        self.read(&read_all(&self.engine).await?);
        for platform in shared {
            // A breaker that cannot be read keeps no other from being shared; `read` has logged it.
            match self.sync_one(&platform).await {
                Err(EngineError::Unreadable(_)) => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    async fn sync_one(&self, platform: &Platform) -> Result<(), EngineError> {
        let unsent = platform.known().take_unsent(platform.options());
        if let Some(results) = unsent {
            let reported = self.report(platform, &BreakerEvent::Ended(results)).await;
            platform.known().was_sent();
            reported?;
        }
        self.drop_void_permits(platform).await
    }

    /// Releases the permits of claims that have ended without a result.
    async fn drop_void_permits(&self, platform: &Platform) -> Result<(), EngineError> {
        let probes = platform.known().stands(self.now(), platform.options()).probes;
        if probes.is_empty() || !platform.known().is_shared(self.now()) {
            return Ok(());
        }
        let asked = probes.clone();
        let hold = store::call(&self.engine, |engine| async move { engine.still_hold(&asked).await }).await?;
        let void: Vec<_> =
            probes.into_iter().zip(hold).filter(|(_, holds)| !holds).map(|(fence, _)| fence).collect();
        if !void.is_empty() {
            self.report(platform, &BreakerEvent::Left(void)).await?;
        }
        Ok(())
    }

    /// Takes in the states that were read from the store, for every platform that processes share.
    pub(super) fn read(&self, read: &BreakersRead) {
        let now = self.now();
        for platform in self.all().iter().filter(|platform| platform.is_shared()) {
            match found(read, &platform.spec.name).1 {
                Ok(state) => platform.known().read(state, read.now, now),
                Err(error) if platform.known().cannot_be_read() => {
                    let name = &platform.spec.name;
                    tracing::error!(%error, "this process decides alone about breaker {name}, and its parked jobs wait; if no newer version wrote it, run `windlass breaker reset {name}`");
                }
                Err(_) => {}
            }
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
