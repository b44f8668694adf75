//! Counts of jobs by state. No count reads the jobs one by one.

use windlass_core::admin::{Counts, QueueStatus, TypeStatus};
use windlass_core::clock::Timestamp;
use windlass_core::job::{JobId, waits_longest};

use super::state::{QueueRow, State, TypeAt};

impl State {
    /// Lists all queues, by priority and name.
    pub(super) fn queue_statuses(&mut self, now: Timestamp) -> Vec<QueueStatus> {
        for at in self.index.types() {
            self.index.type_row_mut(at).lanes.count_until(now);
        }
        let mut statuses: Vec<_> = self.index.queues().map(|queue| self.queue_status(queue, now)).collect();
        statuses.sort_by(|a, b| (a.spec.priority, &a.spec.name).cmp(&(b.spec.priority, &b.spec.name)));
        statuses
    }

    fn queue_status(&self, queue: &QueueRow, now: Timestamp) -> QueueStatus {
        let lanes = || queue.types.iter().map(|at| &self.index.type_row(*at).lanes);
        let waits = |(due, id): (_, JobId)| Some((due, self.live.get(&id)?.job.waits_since()));
        let oldest = lanes()
            .flat_map(|lanes| lanes.ready_lanes(now))
            .fold(None, |so_far, lane| waits_longest(lane.filter_map(waits), so_far));
        QueueStatus {
            spec: queue.spec.clone(),
            unreadable: None,
            pause: queue.pause.clone().filter(|pause| pause.holds(now)),
            shut: queue.shut,
            counts: Counts {
                ready: lanes().map(|lanes| lanes.ready()).sum(),
                scheduled: lanes().map(|lanes| lanes.scheduled()).sum(),
                parked: queue.parked,
                running: queue.running,
                dead_letters: queue.dead_letters,
            },
            totals: queue.totals,
            oldest_ready: oldest.map(|since| now.since(since)),
        }
    }

    /// Lists all types, by name.
    pub(super) fn type_statuses(&self) -> Vec<TypeStatus> {
        let mut statuses: Vec<_> = self.index.types().map(|at| self.type_status(at)).collect();
        statuses.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
        statuses
    }

    fn type_status(&self, at: TypeAt) -> TypeStatus {
        let row = self.index.type_row(at);
        let live = self.workers.values().filter(|worker| !worker.declared_dead);
        let workers = live.filter(|worker| worker.card.types.contains(&row.spec.name)).count() as u64;
        TypeStatus { spec: row.spec.clone(), unreadable: None, workers, unfinished: row.unfinished }
    }
}
