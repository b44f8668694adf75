//! A warning when a queue's backlog passes its `warn_depth`: once when it passes, not at every look.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::admin::QueueStatus;
use windlass_core::engine::Engine;
use windlass_core::names::QueueName;

use crate::store;

/// Counting what is due costs the store something.
const LOOK_EVERY: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct DepthWatch {
    deep: HashSet<QueueName>,
    looked_at: Option<Instant>,
}

impl DepthWatch {
    pub(super) async fn look(&mut self, engine: &Arc<dyn Engine>) {
        if self.looked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return;
        }
        self.looked_at = Some(Instant::now());
        if let Ok(queues) = store::call(engine, |engine| async move { engine.queues().await }).await {
            for queue in self.newly_deep(&queues) {
                let depth = queue.counts.unfinished();
                tracing::warn!(queue = %queue.spec.name, depth, "the backlog has passed its warn_depth");
            }
        }
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

#[cfg(test)]
mod tests {
    use windlass_core::admin::{Counts, Totals};
    use windlass_core::queue::QueueSpec;

    use super::*;

    fn queue(ready: u64) -> QueueStatus {
        let name = QueueName::parse("mail").unwrap();
        QueueStatus {
            spec: QueueSpec { warn_depth: Some(10), ..QueueSpec::new(name) },
            pause: None,
            shut: false,
            counts: Counts { ready, ..Counts::default() },
            totals: Totals::default(),
            oldest_ready: None,
        }
    }

    #[test]
    fn a_backlog_is_reported_once_each_time_it_passes_the_mark() {
        let mut watch = DepthWatch::default();
        let reports: Vec<_> =
            [5, 10, 11, 12, 3, 50].map(|ready| watch.newly_deep(&[queue(ready)]).len()).into();
        assert_eq!(reports, [0, 0, 1, 0, 0, 1]);
    }
}
