//! The options of a worker, and the pools that follow from them.

use std::time::Duration;

use windlass_core::job_type::TypeSpec;
use windlass_core::limits::{
    CONCURRENCY_MAX, CRASHES_MAX, HEARTBEAT_EVERY, ROLLUPS_KEPT, ROLLUPS_KEPT_MAX, ROLLUPS_KEPT_MIN,
    SWEEP_EVERY, WORKER_LEASE,
};
use windlass_core::names::{DutyName, QueueName};
use windlass_core::priority::PriorityLabels;
use windlass_core::queue::QueueSpec;
use windlass_core::schedules::{Origin, ScheduleSpec};
use windlass_core::triggers::CompletionTrigger;
use windlass_core::worker::{WorkerCard, WorkerId};

use super::claim::Scope;
use super::pool::PoolSettings;
use crate::alerts::{AlertHook, Alerts};
use crate::client::{EnqueueHook, declared_as};
use crate::duties::{Duty, DutyMode, LeaseTiming};
use crate::handler::Table;
use crate::limits::{LimitOptions, LimitOptionsError};

/// The shortest interval of heartbeats and of sweeps for dead workers. Below it a worker only keeps its
/// store busy.
pub(crate) const SPAN_MIN: Duration = Duration::from_millis(10);
/// The longest interval of heartbeats and sweeps: the jobs of a dead worker wait this long.
pub(crate) const SPAN_MAX: Duration = Duration::from_secs(60 * 60);
/// The longest grace: a process that has to stop is killed long before this.
pub(crate) const STOP_GRACE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The options of a worker.
#[derive(Clone)]
pub struct WorkerOptions {
    /// The queues to declare, each with a pool of its own. Queues of handlers that are not listed get a
    /// pool with the defaults.
    pub queues: Vec<QueueSpec>,
    /// The only queues that this process serves, if given. With an empty list, no shared pool and
    /// `maintenance`, the process runs no jobs: it only does maintenance and duties.
    pub serve: Option<Vec<QueueName>>,
    /// Pools that serve several queues with the same slots, most urgent queue first.
    pub shared: Vec<SharedPool>,
    /// The meaning of priority labels for this worker's client.
    pub labels: PriorityLabels,
    /// The enqueue hooks of this worker's client.
    pub enqueue_hooks: Vec<EnqueueHook>,
    /// Breakers and rate limits, for jobs that this worker runs and for jobs that its client enqueues.
    pub limits: LimitOptions,
    /// How long a heartbeat keeps the worker live: at least twice `heartbeat_every`, up to 1 h.
    pub lease: Duration,
    /// The interval between heartbeats: 10 ms to 1 h.
    pub heartbeat_every: Duration,
    /// The interval between scans for dead workers: 10 ms to 1 h.
    pub sweep_every: Duration,
    /// How long running handlers may go on after a stop, up to 24 h.
    pub stop_grace: Duration,
    /// The number of crashes after which a job is dead.
    pub crashes_max: u32,
    /// Whether this process does maintenance and other duties. At least one process must.
    pub maintenance: bool,
    /// Which process does maintenance: the holder of its leases, or every worker on its own.
    pub maintenance_mode: DutyMode,
    /// The longest time for which a process leads a maintenance duty: then it gives way between two runs,
    /// if another process could lead. At least a minute. Only where there is a leader.
    pub maintenance_rotation: Option<Duration>,
    /// Further duties that this process does for all processes. None run in a process without maintenance.
    pub duties: Vec<Duty>,
    /// The timing of duty leases. It must be the same in all processes.
    pub duty_leases: LeaseTiming,
    /// The schedules to store at the start; a stored schedule of the same name is changed to what is
    /// declared here. A schedule that is no longer declared stays until it is removed.
    pub schedules: Vec<ScheduleSpec>,
    /// The origin that is stored with these schedules.
    pub schedules_origin: Origin,
    /// Whether this process may fire the schedules of its store; one process at a time does. At least one
    /// process with maintenance must: a process without maintenance fires none.
    pub fire_schedules: bool,
    /// The completion triggers to store at the start; a stored trigger of the same name is changed to what
    /// is declared here. A trigger that is no longer declared stays until it is removed.
    pub triggers: Vec<CompletionTrigger>,
    /// The origin that is stored with these triggers.
    pub triggers_origin: Origin,
    /// Whether this process evaluates a completion trigger when it has ended a job of the trigger's group.
    /// If the process does maintenance, it also evaluates the triggers of processes that died before they
    /// could. At least one process must.
    pub fire_triggers: bool,
    /// How long the rollups of each minute are kept: 1 h to 10 years.
    pub rollups_kept: Duration,
    /// The function to call, besides a log line, when a person should act: see [`alerts`](crate::alerts).
    pub on_alert: Option<AlertHook>,
}

impl Default for WorkerOptions {
    /// The five built-in queues, a lease of 30 s, a grace of 25 s, rollups kept for 30 days.
    fn default() -> Self {
        Self {
            queues: QueueSpec::built_in(),
            serve: None,
            shared: Vec::new(),
            labels: PriorityLabels::default(),
            enqueue_hooks: Vec::new(),
            limits: LimitOptions::default(),
            lease: WORKER_LEASE,
            heartbeat_every: HEARTBEAT_EVERY,
            sweep_every: SWEEP_EVERY,
            stop_grace: Duration::from_secs(25),
            crashes_max: CRASHES_MAX,
            maintenance: true,
            maintenance_mode: DutyMode::Lease,
            maintenance_rotation: None,
            duties: Vec::new(),
            duty_leases: LeaseTiming::default(),
            schedules: Vec::new(),
            schedules_origin: Origin::Code,
            fire_schedules: true,
            triggers: Vec::new(),
            triggers_origin: Origin::Code,
            fire_triggers: true,
            rollups_kept: ROLLUPS_KEPT,
            on_alert: None,
        }
    }
}

/// A pool that serves several queues.
#[derive(Debug, Clone)]
pub struct SharedPool {
    /// The queues.
    pub queues: Vec<QueueName>,
    /// How many handlers run at once.
    pub concurrency: u32,
}

/// The reason why a worker's options are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerOptionsError {
    /// The worker would have nothing to do.
    #[error(
        "expected at least one handler for a queue that this worker serves, got none; for a process that only does maintenance, set `maintenance` and an empty `serve`"
    )]
    NothingToDo,
    /// The lease is so short that one lost heartbeat would end it.
    #[error(
        "expected `lease` of at least twice `heartbeat_every`, so that one lost heartbeat ends nothing; got {lease:?} and {every:?}"
    )]
    Lease {
        /// The lease.
        lease: Duration,
        /// The interval.
        every: Duration,
    },
    /// The time is so short that the worker would spin, or so long that it makes no sense.
    #[error("expected `{option}` between {min:?} and {max:?}, got {got:?}")]
    Span {
        /// The option.
        option: &'static str,
        /// The value that was given.
        got: Duration,
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// The pool has too few or too many slots.
    #[error("expected the concurrency of a pool between 1 and {CONCURRENCY_MAX}, got {got}")]
    Concurrency {
        /// The value that was given.
        got: u32,
    },
    /// A crash limit of zero, with which jobs would be dead that never ran.
    #[error("expected `crashes_max` of at least 1, got 0")]
    Crashes,
    /// A breaker or a rate limit is invalid.
    #[error(transparent)]
    Limits(#[from] LimitOptionsError),
}

/// The queues and pools that follow from the options and the handlers.
pub(super) struct Plan {
    pub(super) queues: Vec<QueueSpec>,
    pub(super) pools: Vec<PoolSettings>,
    lease: Duration,
}

impl WorkerOptions {
    pub(super) fn plan(&self, table: &Table) -> Result<Plan, WorkerOptionsError> {
        self.check()?;
        let queues = self.all_queues(table.specs());
        let served = |name: &QueueName| self.serve.as_ref().is_none_or(|serve| serve.contains(name));
        let in_shared = |name: &QueueName| self.shared.iter().any(|pool| pool.queues.contains(name));
        let own = queues.iter().filter(|q| served(&q.name) && !in_shared(&q.name));
        let pools = own
            .map(|queue| pool(&[queue], queue.concurrency, table))
            .chain(self.shared.iter().map(|shared| self.shared_pool(shared, &queues, table)))
            .flatten()
            .collect::<Vec<_>>();
        let only_maintains = self.maintenance && self.serve.as_ref().is_some_and(Vec::is_empty);
        if pools.is_empty() && !only_maintains {
            return Err(WorkerOptionsError::NothingToDo);
        }
        Ok(Plan { queues, pools, lease: self.lease })
    }

    pub(crate) fn check(&self) -> Result<(), WorkerOptionsError> {
        check_span("lease", self.lease, SPAN_MIN, SPAN_MAX)?;
        check_span("heartbeat_every", self.heartbeat_every, SPAN_MIN, SPAN_MAX)?;
        check_span("sweep_every", self.sweep_every, SPAN_MIN, SPAN_MAX)?;
        check_span("stop_grace", self.stop_grace, Duration::ZERO, STOP_GRACE_MAX)?;
        check_span("rollups_kept", self.rollups_kept, ROLLUPS_KEPT_MIN, ROLLUPS_KEPT_MAX)?;
        if self.lease < self.heartbeat_every * 2 {
            return Err(WorkerOptionsError::Lease { lease: self.lease, every: self.heartbeat_every });
        }
        self.limits.check()?;
        if self.crashes_max == 0 {
            return Err(WorkerOptionsError::Crashes);
        }
        let wrong = |got: &u32| !(1..=CONCURRENCY_MAX).contains(got);
        let own = self.queues.iter().map(|queue| queue.concurrency);
        match own.chain(self.shared.iter().map(|shared| shared.concurrency)).find(wrong) {
            Some(got) => Err(WorkerOptionsError::Concurrency { got }),
            None => Ok(()),
        }
    }

    pub(crate) fn alerts(&self) -> Alerts {
        Alerts::to(self.on_alert.clone())
    }

    /// The limits of the options, with the platforms that handlers name.
    pub(crate) fn limits_with(&self, table: &Table) -> LimitOptions {
        let mut limits = self.limits.clone();
        for (job_type, registered) in &table.handlers {
            registered.platforms.iter().for_each(|platform| limits.note_use(platform, job_type));
        }
        limits
    }

    /// The queues of the options and those of the types.
    pub(crate) fn all_queues<'a>(&self, types: impl Iterator<Item = &'a TypeSpec>) -> Vec<QueueSpec> {
        let mut queues = self.queues.clone();
        for spec in types {
            if queues.iter().all(|queue| queue.name != spec.queue) {
                queues.push(declared_as(&spec.queue));
            }
        }
        queues
    }

    /// One pool for all served queues, most urgent first, and for all these types.
    pub(crate) fn one_pool(&self, queues: &[QueueSpec], types: &[&TypeSpec]) -> PoolSettings {
        let served = |queue: &&QueueSpec| self.serve.as_ref().is_none_or(|serve| serve.contains(&queue.name));
        let mut members: Vec<_> = queues.iter().filter(served).collect();
        members.sort_by_key(|queue| queue.priority);
        settings(&members, 1, types)
    }

    fn shared_pool(&self, shared: &SharedPool, queues: &[QueueSpec], table: &Table) -> Option<PoolSettings> {
        let mut members: Vec<_> = queues.iter().filter(|queue| shared.queues.contains(&queue.name)).collect();
        members.sort_by_key(|queue| queue.priority);
        pool(&members, shared.concurrency, table)
    }
}

fn check_span(
    option: &'static str,
    got: Duration,
    min: Duration,
    max: Duration,
) -> Result<(), WorkerOptionsError> {
    let fits = (min..=max).contains(&got);
    fits.then_some(()).ok_or(WorkerOptionsError::Span { option, got, min, max })
}

/// The pool for some queues, or none if this process handles no type of these queues.
fn pool(queues: &[&QueueSpec], concurrency: u32, table: &Table) -> Option<PoolSettings> {
    let ours = table.specs().filter(|spec| queues.iter().any(|queue| queue.name == spec.queue));
    let types: Vec<_> = ours.collect();
    (!types.is_empty()).then(|| settings(queues, concurrency, &types))
}

fn settings(queues: &[&QueueSpec], concurrency: u32, types: &[&TypeSpec]) -> PoolSettings {
    let poll_interval = queues.iter().map(|queue| queue.poll_interval).min();
    let scope = Scope {
        queues: queues.iter().map(|queue| queue.name.clone()).collect(),
        types: types.iter().map(|spec| spec.name.clone()).collect(),
        poll_interval: poll_interval.unwrap_or(Duration::MAX),
    };
    let policies = types.iter().map(|spec| (spec.name.clone(), spec.retry.clone())).collect();
    PoolSettings { scope, concurrency, policies }
}

/// The card with which a worker with these pools registers.
pub(crate) fn card(
    id: WorkerId,
    pools: &[PoolSettings],
    duties: Vec<DutyName>,
    lease: Duration,
) -> WorkerCard {
    WorkerCard {
        id,
        host: host_name(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        queues: pools.iter().flat_map(|pool| pool.scope.queues.clone()).collect(),
        types: pools.iter().flat_map(|pool| pool.scope.types.clone()).collect(),
        duties,
        slots: pools.iter().fold(0, |slots, pool| slots.saturating_add(pool.concurrency)),
        lease,
    }
}

impl Plan {
    /// The card of a worker with this plan. `duties` are the duties that one process at a time does.
    pub(super) fn card(&self, id: WorkerId, duties: Vec<DutyName>) -> WorkerCard {
        card(id, &self.pools, duties, self.lease)
    }
}

/// The host's name, for people only; never an identity.
fn host_name() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| std::fs::read_to_string("/etc/hostname").ok())
        .map_or_else(|| "unknown".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_option(options: WorkerOptions) -> &'static str {
        match options.check() {
            Err(WorkerOptionsError::Span { option, .. }) => option,
            other => panic!("expected an invalid span, got {other:?}"),
        }
    }

    #[test]
    fn spans_that_would_spin_or_never_end_are_refused_by_name() {
        let sound = WorkerOptions::default;
        for span in [Duration::ZERO, Duration::MAX] {
            assert_eq!(wrong_option(WorkerOptions { lease: span, ..sound() }), "lease");
            assert_eq!(wrong_option(WorkerOptions { heartbeat_every: span, ..sound() }), "heartbeat_every");
            assert_eq!(wrong_option(WorkerOptions { sweep_every: span, ..sound() }), "sweep_every");
            assert_eq!(wrong_option(WorkerOptions { rollups_kept: span, ..sound() }), "rollups_kept");
        }
        assert_eq!(wrong_option(WorkerOptions { stop_grace: Duration::MAX, ..sound() }), "stop_grace");
        assert_eq!(WorkerOptions { stop_grace: Duration::ZERO, ..sound() }.check(), Ok(()));
    }

    #[test]
    fn an_error_about_a_span_says_what_was_expected() {
        let refused = WorkerOptions { sweep_every: Duration::ZERO, ..WorkerOptions::default() }.check();
        let text = refused.unwrap_err().to_string();
        assert_eq!(text, "expected `sweep_every` between 10ms and 3600s, got 0ns");
    }
}
