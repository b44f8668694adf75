//! A listener that records its hints.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use windlass_core::engine::{Hint, HintListener};

use super::Harness;

/// The time after which a hint counts as lost. Hints come soon, not at once: another thread may deliver
/// them.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// The hints that an engine sent to its listener.
#[derive(Debug, Default)]
pub struct HintLog {
    received: Mutex<Vec<Hint>>,
    more: Condvar,
}

impl HintListener for HintLog {
    fn hint(&self, hint: Hint) {
        self.received.lock().expect(WHOLE).push(hint);
        self.more.notify_all();
    }
}

const WHOLE: &str = "no thread panics while holding the lock of the log";

impl HintLog {
    /// Waits for a hint that would wake a caller that waits for `wanted`.
    pub fn wait_for(&self, wanted: &Hint) {
        let wakes = |hint: &Hint| hint == wanted || *hint == Hint::Any;
        let received = self.received.lock().expect(WHOLE);
        let (received, waited) = self
            .more
            .wait_timeout_while(received, LOST_AFTER, |received| !received.iter().any(wakes))
            .expect(WHOLE);
        assert!(!waited.timed_out(), "expected the hint {wanted:?}, got only {received:?}");
    }

    /// Discards the recorded hints.
    pub fn forget(&self) {
        self.received.lock().expect(WHOLE).clear();
    }
}

impl Harness {
    /// Records hints from now on, for as long as the log is kept.
    pub fn listen(&self) -> Arc<HintLog> {
        let log = Arc::new(HintLog::default());
        self.engine.on_hint(Arc::<HintLog>::downgrade(&log));
        log
    }
}
