//! What handlers tell: how many have ended, and when some of them did.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::failed;
use super::progress::Progress;
use crate::exit::Failure;

/// If no handler ends for this long, something is stuck, and waiting on would give no figure.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// How often the progress is shown.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Counts handlers from its making on.
#[derive(Debug)]
pub(super) struct Tally {
    started: Instant,
    ended: AtomicU64,
    marks: Vec<Mark>,
}

/// A number of ends whose moment is wanted.
#[derive(Debug)]
struct Mark {
    number: u64,
    passed: OnceLock<Duration>,
    told: Notify,
}

impl Tally {
    /// Notes the moments at which so many handlers have ended.
    pub(super) fn with_marks(numbers: &[u64]) -> Arc<Self> {
        let mark = |number: &u64| Mark { number: *number, passed: OnceLock::new(), told: Notify::new() };
        let marks = numbers.iter().map(mark).collect();
        Arc::new(Self { started: Instant::now(), ended: AtomicU64::new(0), marks })
    }

    /// A handler has ended.
    pub(super) fn one(&self) {
        let number = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        for mark in self.marks.iter().filter(|mark| mark.number == number) {
            let _ = mark.passed.set(self.started.elapsed());
            mark.told.notify_one();
        }
    }

    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// When so many had ended, if they have.
    pub(super) fn passed(&self, number: u64) -> Result<Duration, Failure> {
        let mark = self.marks.iter().find(|mark| mark.number == number);
        let passed = mark.and_then(|mark| mark.passed.get()).copied();
        passed.ok_or_else(|| failed(format!("expected {number} handlers to end, got {}", self.ended())))
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits for a mark.
    pub(super) async fn reach(&self, number: u64, progress: &Progress) -> Result<Duration, Failure> {
        let mark = self.marks.iter().find(|mark| mark.number == number);
        let told = async {
            match mark {
                Some(mark) => mark.told.notified().await,
                None => std::future::pending().await,
            }
        };
        self.while_moving(told, progress).await?;
        self.passed(number)
    }

    /// Waits for something that follows from handlers ending, as long as they do end.
    pub(super) async fn while_moving<T>(
        &self,
        work: impl Future<Output = T>,
        progress: &Progress,
    ) -> Result<T, Failure> {
        tokio::pin!(work);
        let (mut seen, mut moved) = (self.ended(), Instant::now());
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                // may sleep: often enough for an eye; a signal for each job would cost the measurement something.
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            progress.at(self.ended());
            if self.ended() != seen {
                (seen, moved) = (self.ended(), Instant::now());
            }
            if moved.elapsed() > STUCK_AFTER {
                return Err(failed(format!(
                    "no handler has ended for {STUCK_AFTER:?}, after {seen} that have"
                )));
            }
        }
    }
}
