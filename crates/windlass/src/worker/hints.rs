//! Hints from the engine, handed to whoever can use them. A flag rather than a channel: a thousand hints are
//! one, and there is nothing to fill up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use windlass_core::engine::{Engine, Hint, HintListener};
use windlass_core::names::QueueName;

use super::controls::Controls;
use super::heartbeat::HeartHandle;

/// Something may be claimable in these queues.
pub(crate) struct HintFlag {
    queues: Vec<QueueName>,
    raised: AtomicBool,
    changed: Notify,
}

impl HintFlag {
    pub(crate) fn new(queues: Vec<QueueName>) -> Arc<Self> {
        Arc::new(Self { queues, raised: AtomicBool::new(false), changed: Notify::new() })
    }

    fn raise(&self) {
        if !self.raised.swap(true, Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    /// Waits for the flag and takes it down.
    pub(crate) async fn raised(&self) {
        while !self.raised.swap(false, Ordering::SeqCst) {
            self.changed.notified().await;
        }
    }
}

/// Hands hints to flags, running jobs and the heart, for as long as it is kept.
pub(crate) struct Listener {
    flags: Vec<Arc<HintFlag>>,
    controls: Arc<Controls>,
    heart: HeartHandle,
}

impl Listener {
    /// Listens from now on.
    pub(crate) fn start(
        engine: &Arc<dyn Engine>,
        flags: Vec<Arc<HintFlag>>,
        controls: Arc<Controls>,
        heart: HeartHandle,
    ) -> Arc<Self> {
        let listener = Arc::new(Self { flags, controls, heart });
        engine.on_hint(Arc::<Self>::downgrade(&listener));
        listener
    }
}

impl HintListener for Listener {
    fn hint(&self, hint: Hint) {
        match hint {
            Hint::Queue(queue) => {
                self.flags.iter().filter(|flag| flag.queues.contains(&queue)).for_each(|flag| flag.raise());
            }
            Hint::Cancel(fence) => self.controls.cancel(fence),
            // Workers hold no leases.
            Hint::Lease(_) => {}
            Hint::Any => {
                self.flags.iter().for_each(|flag| flag.raise());
                // Somebody else wrote, perhaps a request to stop one of our jobs: the heart's thread asks.
                if !self.controls.is_empty() {
                    self.heart.hint();
                }
            }
        }
    }
}
