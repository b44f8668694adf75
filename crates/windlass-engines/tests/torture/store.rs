//! The store that the faults hit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::engine::Engine;
use windlass_core::job::JobId;
use windlass_core::worker::WorkerId;
use windlass_servers::Error;
use windlass_servers::proxy::Proxy;

use crate::process::Way;

/// A store with a server of its own and a proxy in front of it.
#[async_trait]
pub(crate) trait Store: Send + Sync {
    /// Returns how workers in other processes open it: through the proxy.
    fn way(&self) -> Way;

    /// Returns the proxy in front of the server.
    fn proxy(&self) -> &Proxy;

    /// Opens an engine without a proxy, for queries.
    async fn direct(&self) -> Arc<dyn Engine>;

    /// Opens the engines of the workers, each with other options, through the proxy.
    async fn engines(&self) -> [Arc<dyn Engine>; 2];

    /// Kills the server, and keeps its data.
    fn kill(&mut self) -> Result<(), Error>;

    /// Kills the server and drops the writes that it had not synced, as after a power cut.
    fn cut_power(&mut self) -> Result<(), Error> {
        self.kill()
    }

    /// Returns the span before a stop of the server in which acknowledged writes may be lost.
    fn may_lose(&self) -> Duration {
        Duration::ZERO
    }

    /// Starts the server again, after stopping it cleanly if it runs.
    fn restart(&mut self) -> Result<(), Error>;

    /// Freezes the server.
    fn freeze(&self) -> Result<(), Error>;

    /// Resumes the server.
    fn thaw(&self) -> Result<(), Error>;

    /// Makes the server forget the scripts that were sent to it.
    fn forget_scripts(&self) {
        unreachable!("a store with this fault has scripts");
    }

    /// Makes the server's memory full, or frees some.
    fn set_full(&self, _full: bool) {
        unreachable!("a store with this fault has a memory limit");
    }

    /// Returns the jobs that a worker holds, dead or alive.
    fn held_by(&self, worker: WorkerId) -> Vec<JobId>;

    /// Counts the transactions that a session holds open and idle.
    fn left_open(&self) -> u64 {
        0
    }
}
