//! The thread of the connections to a server, owned by the engine, with a runtime of its own. A handler
//! that blocks the application's runtime must not keep heartbeats from being sent, and no call is ever
//! dropped half way.

use std::thread::JoinHandle;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use windlass_core::error::EngineError;

/// The thread on which all connections live.
#[derive(Debug)]
pub(crate) struct IoThread {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl IoThread {
    pub(crate) fn start(name: &str) -> Result<Self, EngineError> {
        let no_thread = |error: std::io::Error| EngineError::Unavailable {
            why: format!(
                "starting a thread for connections failed ({error}); check the limits of threads and open files"
            ),
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // An error means that the engine is gone, which is as good a reason to end.
                let _ = runtime.block_on(stopped);
            })
            .map_err(no_thread)?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Runs a call on the thread of the connections to its end, whether or not the caller goes on waiting.
    pub(crate) async fn run<T, E, F>(&self, work: F) -> Result<T, EngineError>
    where
        T: Send + 'static,
        E: Into<EngineError> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.begin(work).await
    }

    /// Starts a call before it returns: calls that are started later on this thread come later.
    pub(crate) fn begin<T, E, F>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, EngineError>> + use<T, E, F>
    where
        T: Send + 'static,
        E: Into<EngineError> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let task = self.handle.spawn(work);
        async {
            match task.await {
                Ok(done) => done.map_err(Into::into),
                Err(error) => Err(EngineError::Unknown { why: format!("the call was aborted ({error})") }),
            }
        }
    }

    /// Starts a background task.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.stop.take();
        let own = std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != own) {
            let _ = thread.join();
        }
    }
}
