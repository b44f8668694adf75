//! A summary of all queues and the store.

use serde::Serialize;
use windlass_core::admin::QueueStatus;
use windlass_core::fallback::FallbackStatus;

/// The jobs that wait and run in all queues, which engine takes new jobs, and the health of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// The number of jobs that have not ended.
    pub depth: u64,
    /// The number of these that are due.
    pub ready: u64,
    /// The number of these that are not yet due.
    pub scheduled: u64,
    /// The number of these that a gate holds back.
    pub parked: u64,
    /// The number of these that run.
    pub running: u64,
    /// Whether every queue is shut.
    pub shut_down: bool,
    /// The engine that takes new jobs now.
    pub active_engine: &'static str,
    /// Whether the last contact with the store succeeded. Without a fallback no snapshot would be returned
    /// if it had not.
    pub primary_healthy: bool,
    /// The number of jobs in the spool that have not ended.
    pub spool_size: u64,
    /// Details of the fallback, if the engine has one.
    pub fallback: Option<FallbackStatus>,
    /// The status of each queue.
    #[serde(skip)]
    pub queues: Vec<QueueStatus>,
}

impl Snapshot {
    /// Sums up what an engine of this name reported.
    pub fn new(engine: &'static str, queues: Vec<QueueStatus>, fallback: Option<FallbackStatus>) -> Self {
        let sum = |count: fn(&QueueStatus) -> u64| queues.iter().map(count).sum();
        Self {
            depth: sum(|queue| queue.counts.unfinished()),
            ready: sum(|queue| queue.counts.ready),
            scheduled: sum(|queue| queue.counts.scheduled),
            parked: sum(|queue| queue.counts.parked),
            running: sum(|queue| queue.counts.running),
            shut_down: !queues.is_empty() && queues.iter().all(|queue| queue.shut),
            active_engine: fallback.as_ref().map_or(engine, |fallback| fallback.active),
            primary_healthy: fallback.as_ref().is_none_or(|fallback| fallback.primary_healthy),
            spool_size: fallback.as_ref().map_or(0, |fallback| fallback.spool_size),
            fallback,
            queues,
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::admin::{Counts, Totals};
    use windlass_core::queue::QueueSpec;

    use super::*;

    fn queue(ready: u64, running: u64, shut: bool) -> QueueStatus {
        QueueStatus {
            spec: QueueSpec::new("main".parse().unwrap()),
            unreadable: None,
            pause: None,
            shut,
            counts: Counts { ready, running, ..Counts::default() },
            totals: Totals::default(),
            oldest_ready: None,
        }
    }

    #[test]
    fn a_snapshot_sums_up_all_queues_and_says_which_engine_is_active() {
        let alone = Snapshot::new("redis", vec![queue(2, 1, true), queue(3, 0, false)], None);
        assert_eq!((alone.depth, alone.ready, alone.running, alone.shut_down), (6, 5, 1, false));
        assert_eq!((alone.active_engine, alone.primary_healthy, alone.spool_size), ("redis", true, 0));
        let away = FallbackStatus {
            active: "sqlite",
            primary: "redis",
            spool: "sqlite",
            primary_healthy: false,
            switches: 1,
            spooled: 9,
            returned: 0,
            spool_size: 7,
            uncertain: 0,
            spool_trouble: None,
        };
        let joined = Snapshot::new("redis", vec![queue(0, 0, true)], Some(away));
        assert_eq!((joined.active_engine, joined.primary_healthy, joined.spool_size), ("sqlite", false, 7));
        assert!(joined.shut_down);
    }
}
