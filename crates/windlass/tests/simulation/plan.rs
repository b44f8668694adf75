//! The decisions that a seed makes before the history begins: the size of the cluster, its queues and
//! types, its network.

use std::collections::HashMap;
use std::time::Duration;

use windlass::worker::claim::Scope;
use windlass::worker::pool::PoolSettings;
use windlass_core::engine::Declaration;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::queue::QueueSpec;
use windlass_core::retry::RetryPolicy;

use crate::store::Weather;
use crate::test_rng::TestRng;

/// The maximum number of attempts of a failing job.
pub(crate) const FAILURES_MAX: u32 = 3;
/// The length of a worker lease.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const BEAT_EVERY: Duration = Duration::from_secs(10);
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// The parameters of a history.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) processes: Vec<ProcessPlan>,
    pub(crate) producers: u64,
    /// The length of the time of faults. Afterwards all faults end.
    pub(crate) trouble: Duration,
    pub(crate) jobs_max: u64,
    pub(crate) weather: Weather,
    pub(crate) pace: Pace,
    /// Whether faults include steps of the store's clock. They do in half of the histories.
    pub(crate) clock_steps: bool,
}

/// How long handlers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Milliseconds, so that pools prefetch.
    Fast,
    /// Up to a few seconds.
    Mixed,
    /// Some run longer than a lease.
    Slow,
}

/// The parameters of a process.
#[derive(Debug, Clone)]
pub(crate) struct ProcessPlan {
    pub(crate) pools: Vec<PoolSettings>,
    pub(crate) queues: Vec<QueueName>,
    pub(crate) types: Vec<TypeName>,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = TestRng::of(seed, 1);
        let count = rng.between(2, 4);
        let processes = (0..count).map(|at| ProcessPlan::of(at, &mut rng)).collect();
        let pace = [Pace::Fast, Pace::Mixed, Pace::Mixed, Pace::Slow][rng.below(4) as usize];
        let bad = rng.below(4);
        Self {
            seed,
            processes,
            producers: rng.between(1, 3),
            trouble: Duration::from_secs(rng.between(60, 300)),
            jobs_max: rng.between(20, 120),
            weather: Weather { refused: bad * 15, lost: bad * 15, slow: bad * 8, late: bad * 8 },
            pace,
            clock_steps: rng.per_mille(500),
        }
    }
}

impl ProcessPlan {
    /// Chooses the parameters of a process. The first process handles all types; another may leave one out.
    fn of(at: u64, rng: &mut TestRng) -> Self {
        let mut types = type_names();
        if at > 0 && rng.per_mille(250) {
            types.pop();
        }
        let queues = queue_names();
        let poll = rng.millis(1000, 10_000);
        let pool = |queues: Vec<QueueName>, slots: u64| PoolSettings {
            scope: Scope { queues, types: types.clone(), poll_interval: poll },
            concurrency: u32::try_from(slots).expect("a few slots"),
            policies: policies(),
        };
        let pools = if rng.per_mille(400) {
            queues.iter().map(|queue| pool(vec![queue.clone()], rng.between(2, 4))).collect()
        } else {
            vec![pool(queues.clone(), rng.between(2, 5))]
        };
        Self { pools, queues, types }
    }
}

pub(crate) fn queue_names() -> Vec<QueueName> {
    ["high", "low"].iter().map(|name| QueueName::parse(name).expect("a valid name")).collect()
}

pub(crate) fn type_names() -> Vec<TypeName> {
    ["mail", "image", "report"].iter().map(|name| TypeName::parse(name).expect("a valid name")).collect()
}

fn policies() -> HashMap<TypeName, RetryPolicy> {
    type_names().into_iter().map(|name| (name, policy())).collect()
}

fn policy() -> RetryPolicy {
    RetryPolicy::Fixed { every: Duration::from_secs(2), attempts: FAILURES_MAX }
}

pub(crate) fn declaration() -> Declaration {
    let queues = queue_names();
    let types = type_names().into_iter().enumerate().map(|(at, name)| TypeSpec {
        retry: policy(),
        ..TypeSpec::new(name, queues[at % queues.len()].clone())
    });
    Declaration { types: types.collect(), queues: queues.into_iter().map(QueueSpec::new).collect() }
}
