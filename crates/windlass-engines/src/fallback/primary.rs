//! The primary engine. It may be away when the process starts, so it is opened when it can be.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use windlass_core::engine::{Engine, HintListener, Result};
use windlass_core::error::EngineError;

/// Opens the primary. Called again until it succeeds.
pub type Connect = Arc<dyn Fn() -> Connecting + Send + Sync>;

/// A primary that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = Result<Arc<dyn Engine>>> + Send>>;

/// The configured engine, which may not be open yet.
pub(super) struct Primary {
    pub(super) name: &'static str,
    connect: Connect,
    engine: RwLock<Option<Arc<dyn Engine>>>,
    /// Held by the task that opens it.
    opening: tokio::sync::Mutex<()>,
    /// Listeners that registered before it was open.
    listeners: Mutex<Vec<Weak<dyn HintListener>>>,
}

impl Primary {
    pub(super) fn new(name: &'static str, connect: Connect) -> Self {
        Self {
            name,
            connect,
            engine: RwLock::default(),
            opening: tokio::sync::Mutex::default(),
            listeners: Mutex::default(),
        }
    }

    /// Returns the engine, if it was ever reached.
    pub(super) fn engine(&self) -> Result<Arc<dyn Engine>> {
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        engine.clone().ok_or_else(|| EngineError::Unavailable {
            why: format!("{} has not been reached since this process started", self.name),
        })
    }

    /// Returns the engine, and opens it if necessary. Only one task opens it, and no task waits for
    /// another.
    pub(super) async fn open(&self) -> Result<Arc<dyn Engine>> {
        let Ok(_only_me) = self.opening.try_lock() else {
            return Err(EngineError::Unavailable { why: format!("{} is being opened", self.name) });
        };
        if let Ok(engine) = self.engine() {
            return Ok(engine);
        }
        let engine = (self.connect)().await?;
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&engine));
        self.waiting_listeners().drain(..).for_each(|listener| engine.on_hint(listener));
        Ok(engine)
    }

    pub(super) fn on_hint(&self, listener: Weak<dyn HintListener>) {
        let mut waiting = self.waiting_listeners();
        match self.engine() {
            Ok(engine) => engine.on_hint(listener),
            Err(_) => waiting.push(listener),
        }
    }

    fn waiting_listeners(&self) -> MutexGuard<'_, Vec<Weak<dyn HintListener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a call in a task of its own, so that it is never dropped half way, and waits for it within a time
/// limit.
pub(super) async fn within<T: Send + 'static>(
    limit: Duration,
    call: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::time::timeout(limit, tokio::spawn(call)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(ended)) => Err(EngineError::Unknown { why: format!("the call ended early: {ended}") }),
        Err(_) => Err(EngineError::Unknown { why: format!("no answer within {limit:?}") }),
    }
}
