//! Signals: the first one stops the process cleanly, the second one at once.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use windlass::{Stopped, Worker};

use crate::exit::{Code, Failure};

/// How long the worker may still take to store results after the second signal.
const STOP_NOW_TIMEOUT: Duration = Duration::from_secs(2);

/// Listeners for SIGINT and SIGTERM. They are created before anything runs, so that no signal is missed.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|why| Failure::new(Code::Failed, format!("listening for signals failed: {why}")))
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Stops a worker; a further signal stops it at once. It uses the listener that received the first signal,
/// so that a signal right after it is not missed.
pub(crate) async fn stop(worker: &mut Worker, signals: &mut Signals) -> Stopped {
    let stopper = worker.stopper();
    let stopping = worker.stop();
    tokio::pin!(stopping);
    tokio::select! {
        stopped = &mut stopping => return stopped,
        () = signals.next() => stopper.stop_now(),
    }
    tokio::time::timeout(STOP_NOW_TIMEOUT, stopping).await.unwrap_or(Stopped::Unsettled)
}
