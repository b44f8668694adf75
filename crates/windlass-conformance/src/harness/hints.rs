//! A listener that remembers what it was told.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use windlass_core::engine::{Hint, HintListener};

use super::Harness;

/// Hints are soon, not at once: another thread may bring them. Past this they count as lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an engine told its listener.
#[derive(Debug, Default)]
pub struct HintLog {
    heard: Mutex<Vec<Hint>>,
    more: Condvar,
}

impl HintListener for HintLog {
    fn hint(&self, hint: Hint) {
        self.heard.lock().expect(WHOLE).push(hint);
        self.more.notify_all();
    }
}

const WHOLE: &str = "nobody panics while holding the log";

impl HintLog {
    /// Waits for a hint that would wake whoever waits for `wanted`.
    pub fn wait_for(&self, wanted: &Hint) {
        let wakes = |hint: &Hint| hint == wanted || *hint == Hint::Any;
        let heard = self.heard.lock().expect(WHOLE);
        let (heard, waited) =
            self.more.wait_timeout_while(heard, PATIENCE, |heard| !heard.iter().any(wakes)).expect(WHOLE);
        assert!(!waited.timed_out(), "expected the hint {wanted:?}, heard only {heard:?}");
    }

    /// Forgets what was heard so far.
    pub fn forget(&self) {
        self.heard.lock().expect(WHOLE).clear();
    }
}

impl Harness {
    /// Listens from now on, for as long as the log is kept.
    pub fn listen(&self) -> Arc<HintLog> {
        let log = Arc::new(HintLog::default());
        self.engine.on_hint(Arc::<HintLog>::downgrade(&log));
        log
    }
}
