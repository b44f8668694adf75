//! Looking again and again until something is so: for commands that wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::engine::{Engine, Hint, HintListener};

/// The first pause between two looks; each is twice as long as the one before.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// When to look next.
pub(crate) struct Watch {
    hints: Arc<Hints>,
    pause: Duration,
    deadline: Option<Instant>,
}

impl Watch {
    /// Begins; without a time-out it never gives up.
    pub(crate) fn begin(engine: &dyn Engine, timeout: Option<Duration>) -> Self {
        let hints = Arc::new(Hints::default());
        engine.on_hint(Arc::<Hints>::downgrade(&hints));
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self { hints, pause: PAUSE_FIRST, deadline }
    }

    /// Waits until it is time to look again. False if the time is over.
    pub(crate) async fn again(&mut self) -> bool {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return false;
        }
        // A hint may be lost, so there is always another look; it may also be needless, so there is a pause.
        let longest = left.map_or(self.pause, |left| left.min(self.pause));
        let _ = tokio::time::timeout(longest, self.hints.0.notified()).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}

/// Wakes whoever waits when anything may have changed.
#[derive(Default)]
struct Hints(Notify);

impl HintListener for Hints {
    fn hint(&self, hint: Hint) {
        if !matches!(hint, Hint::Quiet(_)) {
            self.0.notify_one();
        }
    }
}
