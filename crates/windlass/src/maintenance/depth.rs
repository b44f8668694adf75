//! Logs the state of the store periodically: a line with the numbers of waiting and running jobs, whenever
//! they have changed; and a warning when a queue's backlog exceeds its `warn_depth`, once when it does, not
//! in every round.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::admin::QueueStatus;
use windlass_core::engine::Engine;
use windlass_core::names::QueueName;

use crate::duties::mailbox::Mailbox;
use crate::snapshot::Snapshot;
use crate::store;

/// The interval of rounds: counting due jobs costs the store something.
const CHECK_EVERY: Duration = Duration::from_secs(30);
/// The longest interval. The more processes count, the more rarely each does; but no more rarely than this,
/// since each has a log of its own.
const CHECK_EVERY_MAX: Duration = Duration::from_secs(600);

#[derive(Default)]
struct DepthWatch {
    deep: HashSet<QueueName>,
    logged: Option<Snapshot>,
}

/// Logs the state of the store for as long as the future is kept.
pub(crate) async fn watch_depth(engine: Arc<dyn Engine>, mailbox: Mailbox) {
    let mut watch = DepthWatch::default();
    loop {
        watch.look(&engine).await;
        // may sleep: no event announces changed counts.
        tokio::time::sleep(scan_every(mailbox.live())).await;
    }
}

/// The interval of each process when this number of processes count.
fn scan_every(live: u32) -> Duration {
    CHECK_EVERY.saturating_mul(live.max(1)).min(CHECK_EVERY_MAX)
}

impl DepthWatch {
    async fn look(&mut self, engine: &Arc<dyn Engine>) {
        let read =
            |engine: Arc<dyn Engine>| async move { Ok((engine.queues().await?, engine.fallback().await?)) };
        let Ok((queues, fallback)) = store::call(engine, read).await else { return };
        for queue in self.newly_deep(&queues) {
            let depth = queue.counts.unfinished();
            tracing::warn!(queue = %queue.spec.name, depth, "the backlog has passed its warn_depth");
        }
        if let Some(snapshot) = self.changed(Snapshot::new(engine.info().name, queues, fallback)) {
            log(snapshot);
        }
    }

    /// The snapshot to log; none if it was logged already.
    fn changed(&mut self, snapshot: Snapshot) -> Option<&Snapshot> {
        let queues = Vec::new();
        let now = Some(Snapshot { queues, ..snapshot });
        let is_new = self.logged != now;
        self.logged = now;
        self.logged.as_ref().filter(|_| is_new)
    }

    fn newly_deep<'a>(&mut self, queues: &'a [QueueStatus]) -> Vec<&'a QueueStatus> {
        let is_deep = |queue: &&QueueStatus| {
            queue.spec.warn_depth.is_some_and(|warn_depth| queue.counts.unfinished() > warn_depth)
        };
        let deep: Vec<_> = queues.iter().filter(is_deep).collect();
        let names: HashSet<_> = deep.iter().map(|queue| queue.spec.name.clone()).collect();
        let before = std::mem::replace(&mut self.deep, names);
        deep.into_iter().filter(|queue| !before.contains(&queue.spec.name)).collect()
    }
}

fn log(snapshot: &Snapshot) {
    let Snapshot { depth, ready, scheduled, parked, running, shut_down, .. } = snapshot;
    let Snapshot { active_engine, primary_healthy, spool_size, fallback, .. } = snapshot;
    tracing::info!(
        depth,
        ready,
        scheduled,
        parked,
        running,
        shut_down,
        active_engine,
        primary_healthy,
        spool_size,
        switches = fallback.as_ref().map(|fallback| fallback.switches),
        spooled = fallback.as_ref().map(|fallback| fallback.spooled),
        returned = fallback.as_ref().map(|fallback| fallback.returned),
        "waiting and running jobs",
    );
}

#[cfg(test)]
mod tests {
    use windlass_core::admin::{Counts, Totals};
    use windlass_core::queue::QueueSpec;

    use super::*;

    fn queue(ready: u64) -> QueueStatus {
        let name = QueueName::parse("mail").unwrap();
        QueueStatus {
            spec: QueueSpec { warn_depth: Some(10), ..QueueSpec::new(name) },
            unreadable: None,
            pause: None,
            shut: false,
            counts: Counts { ready, ..Counts::default() },
            totals: Totals::default(),
            oldest_ready: None,
        }
    }

    #[test]
    fn what_waits_and_runs_is_told_again_only_when_it_has_changed() {
        let mut watch = DepthWatch::default();
        let mut is_told = |ready| watch.changed(Snapshot::new("memory", vec![queue(ready)], None)).is_some();
        assert_eq!([0, 0, 5, 5, 0].map(&mut is_told), [true, false, true, false, true]);
    }

    #[test]
    fn many_processes_look_no_more_often_in_all_than_a_few() {
        assert_eq!([0, 1, 4, 20, 1_000].map(|live| scan_every(live).as_secs()), [30, 30, 120, 600, 600]);
    }

    #[test]
    fn a_backlog_is_reported_once_each_time_it_passes_the_mark() {
        let mut watch = DepthWatch::default();
        let reports: Vec<_> =
            [5, 10, 11, 12, 3, 50].map(|ready| watch.newly_deep(&[queue(ready)]).len()).into();
        assert_eq!(reports, [0, 0, 1, 0, 0, 1]);
    }
}
