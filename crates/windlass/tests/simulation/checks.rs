//! The checks that must hold at every moment, and those that must hold when the history has come to rest.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass::worker::pool::UNSETTLED_MAX;
use windlass_conformance::history::{Rules, check};
use windlass_core::admin::{Counts, QueueStatus, StoredJob};
use windlass_core::job::{JobState, StoredState};
use windlass_core::key::KeyScope;
use windlass_core::limits::CRASHES_MAX;

use crate::observer::Moment;
use crate::plan::FAILURES_MAX;
use crate::world::World;

/// After the time of faults, everything must end within this span. The longest path is a job that kills its
/// worker three times behind other jobs: each crash takes a lease, some sweeps and a restart.
pub(crate) const DRAIN_WITHIN: Duration = Duration::from_secs(45 * 60);
/// How long beyond its poll interval an idle pool may leave due work alone. A claim that was lost just
/// before the end of the faults waits out its deadline of ten seconds and a back-off of up to six.
const IDLE_SLACK: Duration = Duration::from_secs(17);

impl World {
    /// Runs the checks that hold at every moment.
    pub(crate) fn check_along_the_way(&mut self) {
        let (jobs, queues) = (self.store.jobs(), self.store.queues());
        for queue in &queues {
            self.check_totals(queue);
            self.check_counts(queue, &jobs);
        }
        self.check_keys(&jobs);
        self.check_running(&jobs);
        self.check_pools();
        self.check_idle_pools(&jobs);
    }

    fn check_totals(&mut self, queue: &QueueStatus) {
        let t = &queue.totals;
        let ended = t.succeeded + t.dead + t.cancelled;
        if t.enqueued != ended + queue.counts.unfinished() {
            self.observer.broke("totals", format!("{t:?} do not add up with {:?}", queue.counts));
        }
    }

    fn check_counts(&mut self, queue: &QueueStatus, jobs: &[StoredJob]) {
        let mut counted = Counts::default();
        for record in jobs.iter().filter(|record| record.job.queue == queue.spec.name) {
            match record.job_state() {
                JobState::Ready => counted.ready += 1,
                JobState::Scheduled => counted.scheduled += 1,
                JobState::Parked => counted.parked += 1,
                JobState::Running => counted.running += 1,
                JobState::Dead => counted.dead_letters += 1,
                JobState::Succeeded | JobState::Cancelled => {}
            }
        }
        if counted != queue.counts {
            self.observer.broke("counts", format!("rows say {counted:?}, the queue {:?}", queue.counts));
        }
    }

    /// Checks that at most one job of a key is live, or dead with a scope that lasts beyond death.
    fn check_keys(&mut self, jobs: &[StoredJob]) {
        let mut holders = BTreeMap::new();
        for record in jobs {
            let Some(claim) = &record.job.key else { continue };
            let job_state = record.job_state();
            let held_in_death = job_state == JobState::Dead && claim.scope == KeyScope::WhileLiveOrDead;
            if job_state.has_ended() && !held_in_death {
                continue;
            }
            let key = (record.job.job_type.to_string(), claim.key.to_string());
            if let Some(other) = holders.insert(key, record.job.id) {
                let text = format!("jobs {other} and {} hold the same key", record.job.id);
                self.observer.broke("key held twice", text);
            }
        }
    }

    /// Checks that every worker that runs a job has a row in the store.
    fn check_running(&mut self, jobs: &[StoredJob]) {
        let workers = self.store.workers();
        for record in jobs {
            if let StoredState::Running { worker, .. } = record.state
                && !workers.iter().any(|sighting| sighting.card.id == worker)
            {
                self.observer.broke("running without a worker", format!("job {} of {worker}", record.job.id));
            }
            if record.job.counters.failures > FAILURES_MAX || record.job.counters.crashes > CRASHES_MAX {
                let text = format!("job {} has {:?}", record.job.id, record.job.counters);
                self.observer.broke("over limits", text);
            }
        }
    }

    fn check_pools(&mut self) {
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            let Some(body) = &process.body else { continue };
            let mut over = Vec::new();
            for (pool, settings) in body.pools.iter().zip(&process.plan.pools) {
                let slots = settings.concurrency as usize;
                // Handlers take at least half a millisecond, so a slot finishes at most a hundred in 50 ms.
                let held_max = slots + slots * 101 + UNSETTLED_MAX;
                if pool.running() > slots || pool.held() > held_max {
                    over.push(format!(
                        "{} run and {} are held in {slots} slots",
                        pool.running(),
                        pool.held()
                    ));
                }
            }
            over.into_iter().for_each(|text| self.observer.broke("pool over its bound", text));
        }
    }

    /// Checks that no pool stays idle for long after the faults while there are jobs that it could run.
    fn check_idle_pools(&mut self, jobs: &[StoredJob]) {
        let Some(healed) = self.healed else { return };
        let ready: Vec<_> = jobs.iter().filter(|record| record.job_state() == JobState::Ready).collect();
        let now = self.now;
        self.ready_since.retain(|id, _| ready.iter().any(|record| record.job.id == *id));
        for record in &ready {
            self.ready_since.entry(record.job.id).or_insert(now);
        }
        let mut found = Vec::new();
        for process in self.processes.iter().filter(|process| process.is_up()) {
            let Some(body) = &process.body else { continue };
            for (settings, idle_since) in process.plan.pools.iter().zip(&body.idle_since) {
                let Some(idle_since) = idle_since else { continue };
                let patience = settings.scope.poll_interval + IDLE_SLACK;
                let idle = self.now - (*idle_since).max(healed);
                let scope = &settings.scope;
                let left = ready.iter().find(|record| {
                    scope.queues.contains(&record.job.queue)
                        && scope.types.contains(&record.job.job_type)
                        && self.now - self.ready_since[&record.job.id] > patience
                });
                if let Some(record) = left.filter(|_| idle > patience) {
                    let id = record.job.id;
                    found.push(format!("a pool was idle for {idle:?} while job {id} was ready"));
                }
            }
        }
        found.into_iter().for_each(|text| self.observer.broke("idle beside work", text));
    }

    /// Whether every job has ended and no call is under way.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_quiet() && self.store.queues().iter().all(|queue| queue.counts.unfinished() == 0)
    }

    /// Runs the last checks, when the history has come to rest or its time is over.
    pub(crate) fn check_at_the_end(&mut self, drained: bool) {
        self.check_along_the_way();
        if !drained {
            let left: Vec<_> = self
                .store
                .jobs()
                .into_iter()
                .filter(|record| !record.job_state().has_ended())
                .take(3)
                .collect();
            let text = format!("after {DRAIN_WITHIN:?} some jobs are unfinished: {left:?}");
            self.observer.broke("not drained", text);
        }
        let moment = Moment { store: &self.store, now: self.now, unwritable: self.unwritable, process: None };
        self.observer.dump(&moment);
        let rules = Rules { drained: true, failures_max: Some(FAILURES_MAX), crashes_max: CRASHES_MAX };
        let verdict = check(&self.observer.history, &rules);
        for (kind, findings) in verdict.faults() {
            for finding in findings {
                self.observer.broke(kind, finding.to_string());
            }
        }
    }
}
