//! What is struck.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::engine::Engine;
use windlass_core::job::JobId;
use windlass_core::worker::WorkerId;
use windlass_servers::Error;
use windlass_servers::proxy::Proxy;

use crate::process::Way;

/// A store with a server of its own and a proxy before it.
#[async_trait]
pub(crate) trait Store: Send + Sync {
    /// How workers in other processes get to it: through the proxy.
    fn way(&self) -> Way;

    /// What stands in that way.
    fn proxy(&self) -> &Proxy;

    /// An engine that nothing stands in the way of, for questions.
    async fn direct(&self) -> Arc<dyn Engine>;

    /// Engines of a crew, each with habits of its own, through the proxy.
    async fn engines(&self) -> [Arc<dyn Engine>; 2];

    /// Ends the server at once, and keeps its data.
    fn kill(&mut self) -> Result<(), Error>;

    /// The same, and what the server had not synced is gone, as after a power cut.
    fn cut_power(&mut self) -> Result<(), Error> {
        self.kill()
    }

    /// What was acknowledged for so long before the server was ended may be lost.
    fn may_lose(&self) -> Duration {
        Duration::ZERO
    }

    /// Starts the server again, after ending it in good order if it runs.
    fn restart(&mut self) -> Result<(), Error>;

    /// Stops the server where it is.
    fn freeze(&self) -> Result<(), Error>;

    /// Lets it go on.
    fn thaw(&self) -> Result<(), Error>;

    /// Makes the server forget the scripts that it knows.
    fn forget_scripts(&self) {
        unreachable!("a store that is struck so knows scripts");
    }

    /// Makes the server's memory full, or gives it some again.
    fn set_full(&self, _full: bool) {
        unreachable!("a store that is struck so has a limit");
    }

    /// The jobs that a worker holds, dead or alive.
    fn held_by(&self, worker: WorkerId) -> Vec<JobId>;

    /// Transactions that somebody holds open and does nothing in.
    fn left_open(&self) -> u64 {
        0
    }
}
