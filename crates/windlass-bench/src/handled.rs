//! Counts the handlers that have ended, and when certain numbers of them had.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::sync::Notify;

/// If no handler ends for this long, the worker is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// How often the count is compared with the one before. Rarely, so that it costs the measurement nothing.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The number of handlers that have ended since it was created.
#[derive(Debug)]
pub(crate) struct Handled {
    started: Instant,
    count: AtomicU64,
    milestones: Vec<Milestone>,
}

/// A count whose moment is measured.
#[derive(Debug)]
struct Milestone {
    number: u64,
    reached: OnceLock<Duration>,
    notify: Notify,
}

impl Handled {
    /// Starts the clock. Notes when the count reaches each of these numbers.
    pub(crate) fn with_milestones(numbers: &[u64]) -> Arc<Self> {
        let milestone =
            |number: &u64| Milestone { number: *number, reached: OnceLock::new(), notify: Notify::new() };
        let milestones = numbers.iter().map(milestone).collect();
        Arc::new(Self { started: Instant::now(), count: AtomicU64::new(0), milestones })
    }

    /// Adds a handler that has ended.
    pub(crate) fn add_one(&self) {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        for milestone in self.milestones.iter().filter(|milestone| milestone.number == number) {
            let _ = milestone.reached.set(self.started.elapsed());
            milestone.notify.notify_one();
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// When the count reached a milestone.
    pub(crate) fn reached(&self, number: u64) -> Result<Duration> {
        let reached = self.milestone(number)?.reached.get().copied();
        reached.with_context(|| format!("expected {number} handlers to end, got {}", self.count()))
    }

    /// Waits until the count reaches a milestone.
    pub(crate) async fn wait_for(&self, number: u64) -> Result<Duration> {
        self.while_handling(self.milestone(number)?.notify.notified()).await?;
        self.reached(number)
    }

    fn milestone(&self, number: u64) -> Result<&Milestone> {
        let milestone = self.milestones.iter().find(|milestone| milestone.number == number);
        milestone.with_context(|| format!("{number} is no milestone"))
    }

    /// Waits for work that ends after handlers have, as long as handlers do end.
    pub(crate) async fn while_handling<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::pin!(work);
        let (mut seen, mut changed) = (self.count(), Instant::now());
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                // may sleep: a signal for each job would cost the measurement something.
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
            }
            if self.count() != seen {
                (seen, changed) = (self.count(), Instant::now());
            }
            if changed.elapsed() > STUCK_AFTER {
                bail!("no handler has ended for {STUCK_AFTER:?}, after {seen} that have");
            }
        }
    }
}
