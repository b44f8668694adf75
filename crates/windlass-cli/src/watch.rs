//! Polls until a condition holds: for commands that wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::engine::{Engine, Hint, HintListener};

/// The first pause between two polls; each pause is twice as long as the one before.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// The longest pause between two polls.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The time of the next poll.
pub(crate) struct Watch {
    hints: Arc<Hints>,
    pause: Duration,
    deadline: Option<Instant>,
}

impl Watch {
    /// Begins to poll. Without a timeout it never ends.
    pub(crate) fn begin(engine: &dyn Engine, timeout: Option<Duration>) -> Self {
        let hints = Arc::new(Hints::default());
        engine.on_hint(Arc::<Hints>::downgrade(&hints));
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self { hints, pause: PAUSE_FIRST, deadline }
    }

    /// Waits until it is time to poll again. Returns false if the timeout has expired.
    pub(crate) async fn again(&mut self) -> bool {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return false;
        }
        // A notification may be lost, so there is always another poll; it may also be needless, so there is
        // a pause.
        let longest = left.map_or(self.pause, |left| left.min(self.pause));
        let _ = tokio::time::timeout(longest, self.hints.0.notified()).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        true
    }
}

/// Wakes the waiting command when anything may have changed.
#[derive(Default)]
struct Hints(Notify);

impl HintListener for Hints {
    fn hint(&self, hint: Hint) {
        if !matches!(hint, Hint::Quiet(_)) {
            self.0.notify_one();
        }
    }
}
