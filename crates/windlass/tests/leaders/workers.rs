//! Several processes that could lead, and which of them does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass::types::clock::Timestamp;
use windlass::types::engine::Engine;
use windlass::types::lease::StoredLease;

use super::ledger::Ledger;
use super::process::{DUTY, Process};
use super::test_store::{TestStore, open};

/// The limit of all waits.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);
/// The interval of polling for the leader.
const POLL_EVERY: Duration = Duration::from_millis(5);
/// The number of processes: one leads, and the others stand by.
const PROCESSES: usize = 3;

/// The processes on one server.
pub(super) struct Workers {
    pub(super) expiry: Duration,
    pub(super) ledger: Ledger,
    engine: Arc<dyn Engine>,
    processes: Vec<Process>,
    url: String,
    _place: TestStore,
}

/// A leader: a process, with its term.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leader {
    pub(super) pid: u32,
    pub(super) fence: i64,
    /// How many leaders had stopped sending heartbeats by then.
    pub(super) takeovers: u64,
    /// When its term began, by the store's clock.
    pub(super) since: Timestamp,
}

impl Workers {
    pub(super) async fn start(place: TestStore, expiry: Duration) -> Self {
        let url = place.url();
        let (engine, ledger) = (open(&url).await, Ledger::open(&url).await);
        ledger.begin().await;
        let mut workers = Self { expiry, ledger, engine, processes: Vec::new(), url, _place: place };
        for _ in 0..PROCESSES {
            workers.add().await;
        }
        workers.learn_of_each_other().await;
        workers
    }

    /// Ends all processes, and starts others with leases of another expiry on the same server.
    pub(super) async fn restart(self, expiry: Duration) -> Self {
        let Self { ledger, engine, mut processes, url, _place, .. } = self;
        // They release their leases: no lease is left of a process that is not one of ours.
        processes.iter_mut().for_each(Process::ask_to_end);
        let end = move || processes.into_iter().for_each(Process::wait);
        tokio::task::spawn_blocking(end).await.expect("the processes end cleanly");
        let mut workers = Self { expiry, ledger, engine, processes: Vec::new(), url, _place };
        workers.fill_up().await;
        workers
    }

    async fn add(&mut self) {
        let (url, expiry) = (self.url.clone(), self.expiry);
        let started = tokio::task::spawn_blocking(move || Process::start(&url, expiry)).await;
        self.processes.push(started.expect("the process starts"));
    }

    /// Starts processes until their number is the initial one again, and they know of each other.
    pub(super) async fn fill_up(&mut self) {
        while self.processes.len() < PROCESSES {
            self.add().await;
            self.learn_of_each_other().await;
        }
    }

    /// Waits until every process has sent two more heartbeats: the answers to the first count all others.
    async fn learn_of_each_other(&self) {
        let pids: Vec<_> = self.processes.iter().map(Process::pid).collect();
        let beats = async || {
            // On a busy machine a call may time out; the next one is tried.
            let workers = self.engine.workers().await.ok()?;
            let of =
                |pid: &u32| workers.iter().filter(|seen| seen.card.pid == *pid).map(|seen| seen.beats).max();
            pids.iter().map(of).collect::<Option<Vec<_>>>()
        };
        let before = self.until(async || beats().await).await;
        let enough = |now: &Vec<u64>| now.iter().zip(&before).all(|(now, before)| *now >= *before + 2);
        self.until(async || beats().await.filter(enough)).await;
    }

    /// Polls until there is an answer.
    async fn until<T>(&self, ask: impl AsyncFn() -> Option<T>) -> T {
        let asking = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                // may sleep: no notification reports which process leads.
                tokio::time::sleep(POLL_EVERY).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.expect("expected it within the limit of all waits")
    }

    pub(super) async fn lease(&self) -> Option<StoredLease> {
        let read = self.engine.leases().await.ok()?;
        read.leases.into_iter().find(|lease| lease.duty.as_str() == DUTY)
    }

    /// Waits for a leader in a later term than this one.
    pub(super) async fn leader_after(&self, fence: i64) -> Leader {
        self.until(async || {
            let lease = self.lease().await.filter(|lease| lease.term.fence > fence)?;
            let workers = self.engine.workers().await.ok()?;
            let holder = workers.iter().find(|seen| Some(seen.card.id) == lease.holder)?;
            let (pid, fence) = (holder.card.pid, lease.term.fence);
            Some(Leader { pid, fence, takeovers: lease.takeovers, since: lease.since })
        })
        .await
    }

    pub(super) async fn leader(&self) -> Leader {
        self.leader_after(0).await
    }

    /// Waits for the next leader, and measures how long that takes.
    pub(super) async fn next_after(&self, last: Leader) -> (Leader, Duration) {
        let start = Instant::now();
        (self.leader_after(last.fence).await, start.elapsed())
    }

    pub(super) fn process(&mut self, pid: u32) -> &mut Process {
        self.processes.iter_mut().find(|process| process.pid() == pid).expect("the process is one of ours")
    }

    /// Removes a process from the list.
    pub(super) fn take(&mut self, pid: u32) -> Process {
        let at = self.processes.iter().position(|process| process.pid() == pid);
        self.processes.swap_remove(at.expect("the process is one of ours"))
    }
}

/// Describes spans of time by their median and their maximum.
pub(super) fn summary(mut spans: Vec<Duration>) -> String {
    spans.sort_unstable();
    let (middle, longest) = (spans[spans.len() / 2], spans[spans.len() - 1]);
    format!("median {:.3} s, longest {:.3} s", middle.as_secs_f64(), longest.as_secs_f64())
}
