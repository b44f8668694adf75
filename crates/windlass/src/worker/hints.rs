//! Hints from the engine, passed to the parts of the worker that use them. Each kind has a flag rather than
//! a channel: a thousand hints are one, and no queue can fill up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use windlass_core::engine::{Engine, Hint, HintListener};
use windlass_core::names::QueueName;

use super::controls::Controls;
use super::heartbeat::HeartHandle;
use super::pool::Event;
use crate::duties::mailbox::Mailbox;

/// The engine's hints about some queues: that jobs may be claimable, or that none is due.
pub(crate) struct HintFlag {
    queues: Vec<QueueName>,
    raised: AtomicBool,
    quiet: AtomicBool,
    changed: Notify,
}

impl HintFlag {
    pub(crate) fn new(queues: Vec<QueueName>) -> Arc<Self> {
        let (raised, quiet) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { queues, raised, quiet, changed: Notify::new() })
    }

    fn raise(&self) {
        self.set(&self.raised);
    }

    fn is_quiet(&self, queues: &[QueueName]) {
        if self.queues.iter().all(|queue| queues.contains(queue)) {
            self.set(&self.quiet);
        }
    }

    fn set(&self, flag: &AtomicBool) {
        if !flag.swap(true, Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    /// Waits for a flag and clears it.
    pub(crate) async fn raised(&self) -> Event {
        loop {
            if self.raised.swap(false, Ordering::SeqCst) {
                return Event::Hint;
            }
            if self.quiet.swap(false, Ordering::SeqCst) {
                return Event::Quiet;
            }
            self.changed.notified().await;
        }
    }
}

/// Passes hints to flags, running jobs and the heartbeat thread, for as long as it is kept.
pub(crate) struct Listener {
    flags: Vec<Arc<HintFlag>>,
    controls: Arc<Controls>,
    heart: HeartHandle,
    duties: Mailbox,
    /// Whether the engine has one store only: a scan of one of two stores says nothing of the other.
    has_one_store: bool,
}

impl Listener {
    /// Registers a listener with the engine.
    pub(crate) fn start(
        engine: &Arc<dyn Engine>,
        flags: Vec<Arc<HintFlag>>,
        controls: Arc<Controls>,
        heart: HeartHandle,
        duties: Mailbox,
    ) -> Arc<Self> {
        let listener =
            Arc::new(Self { flags, controls, heart, duties, has_one_store: engine.spool().is_none() });
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
            Hint::Quiet(queues) if self.has_one_store => {
                self.flags.iter().for_each(|flag| flag.is_quiet(&queues));
            }
            Hint::Quiet(_) => {}
            Hint::Lease(duty) => self.duties.hint(duty),
            // The trigger poller has a listener of its own.
            Hint::Trigger => {}
            Hint::Any => {
                self.flags.iter().for_each(|flag| flag.raise());
                self.duties.hint_of_anything();
                // Another process wrote, perhaps a request to stop one of our jobs: the heartbeat thread
                // queries the store.
                if !self.controls.is_empty() {
                    self.heart.hint();
                }
            }
        }
    }
}
