//! The tally of handlers: which job ran, how often, and when first. It is kept outside the store, so that a
//! job that was lost or ran twice is always detected.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A tally with one entry for each job, by its number.
#[derive(Debug)]
pub(crate) struct Tally {
    begun: OnceLock<Instant>,
    lines: Vec<Line>,
    distinct: AtomicU64,
    notify_from: u64,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Line {
    runs: AtomicU32,
    /// Zero until the job has run.
    first_run_nanos: AtomicU64,
}

impl Tally {
    /// An empty tally for jobs numbered from 0. Handlers wake the waiting scenario only when `notify_from`
    /// jobs have run: a wake-up for every job would add measured work.
    pub(crate) fn new(jobs: u64, notify_from: u64) -> Self {
        Self {
            begun: OnceLock::new(),
            lines: (0..jobs).map(|_| Line::default()).collect(),
            distinct: AtomicU64::new(0),
            notify_from,
            changed: Notify::new(),
        }
    }

    /// Starts the clock at the start of the worker. The set-up of the worker needs the tally before that.
    pub(crate) fn begin(&self) {
        self.begun.get_or_init(Instant::now);
    }

    /// Records the run of a job; handlers do nothing else.
    pub(crate) fn ran(&self, number: u64) {
        let now = self.elapsed();
        let line = usize::try_from(number).ok().and_then(|index| self.lines.get(index));
        let line = line.expect("only jobs of this measurement are in its database");
        if line.runs.fetch_add(1, SeqCst) > 0 {
            return;
        }
        line.first_run_nanos.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).max(1), SeqCst);
        if self.distinct.fetch_add(1, SeqCst) + 1 >= self.notify_from {
            self.changed.notify_one();
        }
    }

    /// Waits until the condition holds. Returns false if it does not hold within `cap`.
    pub(crate) async fn until(&self, so: impl Fn(&Self) -> bool, cap: Duration) -> bool {
        let done = async {
            while !so(self) {
                // A handler that ran after the check has left a permit here.
                self.changed.notified().await;
            }
        };
        tokio::time::timeout(cap, done).await.is_ok()
    }

    /// The time since the start of the worker.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.get_or_init(Instant::now).elapsed()
    }

    pub(crate) fn distinct(&self) -> u64 {
        self.distinct.load(SeqCst)
    }

    /// The number of jobs that ran more than once.
    pub(crate) fn ran_twice(&self) -> u64 {
        self.lines.iter().filter(|line| line.runs.load(SeqCst) > 1).count() as u64
    }

    /// When the job ran first, since the start.
    pub(crate) fn first_run(&self, number: u64) -> Option<Duration> {
        let line = self.lines.get(usize::try_from(number).ok()?)?;
        let nanos = line.first_run_nanos.load(SeqCst);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    /// When the last job ran for the first time, since the start.
    pub(crate) fn last_first_run(&self) -> Duration {
        let nanos = self.lines.iter().map(|line| line.first_run_nanos.load(SeqCst));
        Duration::from_nanos(nanos.max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_job_that_runs_twice_counts_once_and_is_told() {
        let tally = Tally::new(3, 3);
        [0, 2, 2].into_iter().for_each(|number| tally.ran(number));
        assert_eq!((tally.distinct(), tally.ran_twice()), (2, 1));
        assert!(tally.first_run(1).is_none() && tally.first_run(2).is_some());
        assert!(!tally.until(|tally| tally.distinct() == 3, Duration::ZERO).await, "one job is missing");
    }

    #[tokio::test]
    async fn a_waiting_caller_is_told_by_the_last_handler() {
        let tally = Tally::new(2, 2);
        let all = tally.until(|tally| tally.distinct() == 2, Duration::from_secs(60));
        let handlers = async { [0, 1].into_iter().for_each(|number| tally.ran(number)) };
        let (all, ()) = tokio::join!(all, handlers);
        assert!(all && tally.last_first_run() <= tally.elapsed());
    }
}
