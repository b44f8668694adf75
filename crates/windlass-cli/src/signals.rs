//! Signals: the first asks to stop, the second stops at once.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use windlass::{Stopped, Worker};

use crate::exit::{Code, Failure};

/// After the second signal, this is how long the store may take for the last word.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Ctrl-C and the polite kill. Made before anything runs, so that no signal is missed.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|why| Failure::new(Code::Failed, format!("signals cannot be listened for: {why}")))
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Stops a worker; a further signal stops it at once. It takes the listener that heard the first signal, so that one
/// that comes right after it is not missed.
pub(crate) async fn stop(worker: &mut Worker, signals: &mut Signals) -> Stopped {
    let stopper = worker.stopper();
    let stopping = worker.stop();
    tokio::pin!(stopping);
    tokio::select! {
        stopped = &mut stopping => return stopped,
        () = signals.next() => stopper.stop_now(),
    }
    tokio::time::timeout(LAST_WORD, stopping).await.unwrap_or(Stopped::Unsettled)
}
