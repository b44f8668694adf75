//! What the handlers report: which job ran, how often, and when first. It lives outside the store, so that a job that
//! was lost or ran twice cannot hide.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// One line for each job, by its number.
#[derive(Debug)]
pub(crate) struct Tally {
    begun: OnceLock<Instant>,
    lines: Vec<Line>,
    distinct: AtomicU64,
    tell_from: u64,
    told: Notify,
}

#[derive(Debug, Default)]
struct Line {
    runs: AtomicU32,
    /// Nothing until then.
    first_run_nanos: AtomicU64,
}

impl Tally {
    /// An empty tally for jobs with the numbers from nothing up. Handlers wake whoever waits only when `tell_from` jobs
    /// have run: to do it for every job would be work that is measured.
    pub(crate) fn new(jobs: u64, tell_from: u64) -> Self {
        Self {
            begun: OnceLock::new(),
            lines: (0..jobs).map(|_| Line::default()).collect(),
            distinct: AtomicU64::new(0),
            tell_from,
            told: Notify::new(),
        }
    }

    /// Starts the clock: when the worker starts, whose set-up needs the tally before.
    pub(crate) fn begin(&self) {
        self.begun.get_or_init(Instant::now);
    }

    /// All that a handler does.
    pub(crate) fn ran(&self, number: u64) {
        let now = self.elapsed();
        let line = usize::try_from(number).ok().and_then(|index| self.lines.get(index));
        let line = line.expect("only jobs of this measurement are in its database");
        if line.runs.fetch_add(1, SeqCst) > 0 {
            return;
        }
        line.first_run_nanos.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).max(1), SeqCst);
        if self.distinct.fetch_add(1, SeqCst) + 1 >= self.tell_from {
            self.told.notify_one();
        }
    }

    /// Waits until it is so. Says no if it was not within `cap`.
    pub(crate) async fn until(&self, so: impl Fn(&Self) -> bool, cap: Duration) -> bool {
        let told = async {
            while !so(self) {
                // A handler that came after the question left a permit here.
                self.told.notified().await;
            }
        };
        tokio::time::timeout(cap, told).await.is_ok()
    }

    /// Since the start of the worker.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.get_or_init(Instant::now).elapsed()
    }

    pub(crate) fn distinct(&self) -> u64 {
        self.distinct.load(SeqCst)
    }

    /// How many jobs ran more than once.
    pub(crate) fn ran_twice(&self) -> u64 {
        self.lines.iter().filter(|line| line.runs.load(SeqCst) > 1).count() as u64
    }

    /// When the job ran first, since the start.
    pub(crate) fn first_run(&self, number: u64) -> Option<Duration> {
        let line = self.lines.get(usize::try_from(number).ok()?)?;
        let nanos = line.first_run_nanos.load(SeqCst);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }

    /// When the last job ran that had not run before, since the start.
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
    async fn whoever_waits_is_told_by_the_last_handler() {
        let tally = Tally::new(2, 2);
        let all = tally.until(|tally| tally.distinct() == 2, Duration::from_secs(60));
        let handlers = async { [0, 1].into_iter().for_each(|number| tally.ran(number)) };
        let (all, ()) = tokio::join!(all, handlers);
        assert!(all && tally.last_first_run() <= tally.elapsed());
    }
}
