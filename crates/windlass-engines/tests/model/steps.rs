//! The possible steps and their frequencies. Steps name jobs, claims and workers by a number modulo their
//! count, so that any part of a sequence is a sequence again and can be shrunk.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::Union;
use proptest_state_machine::ReferenceStateMachine;

use crate::agenda::{Plan, plan};

/// One step.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Enqueue(Vec<Newcomer>),
    RepeatEnqueue(usize),
    /// A request that arrives after a query for it.
    LateEnqueue(Vec<Newcomer>),
    Claim {
        worker: usize,
        limit: u32,
        boosted_max: u32,
        other_first: bool,
        narrow: bool,
    },
    ClaimSuspect {
        worker: usize,
        crashes_max: u32,
    },
    RepeatClaim(usize),
    RepeatBeforeItsClaim {
        worker: usize,
        limit: u32,
    },
    LateClaim(usize),
    Settle(Vec<(usize, Ending)>),
    Report {
        claim: usize,
        percent: u8,
    },
    Register {
        narrow: bool,
    },
    Liveness(usize),
    Retire(usize),
    Rescue {
        worker: usize,
        too_late: bool,
    },
    Cancel(usize),
    Retry(usize),
    Discard(usize),
    SetPriority(usize, i64),
    Pause {
        other: bool,
        lasting: Option<Duration>,
    },
    Resume {
        other: bool,
    },
    SetShut {
        other: bool,
        shut: bool,
    },
    Purge {
        other: bool,
    },
    OpenGate {
        second: bool,
        limit: u32,
    },
    Sweep,
    Prune,
    Advance(Duration),
    Plan(Plan),
}

/// A job to enqueue.
#[derive(Debug, Clone)]
pub(crate) struct Newcomer {
    /// The index of its type in [`TYPES`].
    pub(crate) job_type: usize,
    pub(crate) priority: Option<i64>,
    pub(crate) delay: Option<Duration>,
    pub(crate) expires: Option<Duration>,
    pub(crate) key: Option<Keyed>,
    /// The index of its ordering key, for jobs of [`ORDERING_KEY_TYPE`].
    pub(crate) ordering_key: Option<usize>,
    /// The index of its fairness key.
    pub(crate) fairness_key: Option<usize>,
    /// Whether it is in [`GROUP`].
    pub(crate) grouped: bool,
}

impl Step {
    /// Returns the same sequences, with newcomers that have no fairness keys.
    pub(crate) fn without_fairness_keys(self) -> Self {
        let plain = |newcomers: Vec<Newcomer>| {
            newcomers.into_iter().map(|newcomer| Newcomer { fairness_key: None, ..newcomer }).collect()
        };
        match self {
            Self::Enqueue(newcomers) => Self::Enqueue(plain(newcomers)),
            Self::LateEnqueue(newcomers) => Self::LateEnqueue(plain(newcomers)),
            other => other,
        }
    }
}

/// The key of a newcomer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keyed {
    pub(crate) key: usize,
    pub(crate) scope: usize,
    pub(crate) on_conflict: usize,
}

/// How an attempt ends, and how long ago it ended.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub(crate) end: End,
    pub(crate) ago: Duration,
}

/// How an attempt ends.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Succeed,
    Retry(Duration),
    Snooze(Duration),
    Park { second: bool },
    Bury,
    Cancel,
    Release { started: bool },
}

/// The types of newcomers. The last one is not registered, and no worker handles the one before it.
pub(crate) const TYPES: [&str; 7] =
    ["work", "kept", "fleeting", "other.work", "small.work", "orphan", "not.registered"];

/// The type whose jobs may have an ordering key. They never expire: each engine chooses whether a claim
/// that ends one releases the next of its ordering key at once.
pub(crate) const ORDERING_KEY_TYPE: usize = 1;

/// The group of the jobs that have one.
pub(crate) const GROUP: &str = "import 7";

/// How many jobs, claims and workers there are to name. It holds only what a step needs to make sense; the
/// exact state is the model engine's.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known {
    enqueued: usize,
    claimed: usize,
    repeated_early: usize,
}

/// The generator of sequences.
pub(crate) struct Rows;

impl ReferenceStateMachine for Rows {
    type State = Known;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Known> {
        Just(Known::default()).boxed()
    }

    fn transitions(_: &Known) -> BoxedStrategy<Step> {
        Union::new_weighted(vec![
            (30, way_of_a_job().boxed()),
            (6, lives_of_workers().boxed()),
            (8, what_people_do().boxed()),
            (3, prop_oneof![Just(Step::Sweep), Just(Step::Prune)].boxed()),
            (9, plan().prop_map(Step::Plan).boxed()),
            (10, span().prop_map(Step::Advance).boxed()),
        ])
        .boxed()
    }

    fn apply(mut known: Known, step: &Step) -> Known {
        match step {
            Step::Enqueue(_) => known.enqueued += 1,
            Step::Claim { .. } | Step::ClaimSuspect { .. } => known.claimed += 1,
            Step::RepeatBeforeItsClaim { .. } => known.repeated_early += 1,
            _ => {}
        }
        known
    }

    fn preconditions(known: &Known, step: &Step) -> bool {
        match step {
            Step::RepeatEnqueue(_) | Step::Cancel(_) | Step::Retry(_) => known.enqueued > 0,
            Step::Discard(_) | Step::SetPriority(..) => known.enqueued > 0,
            Step::Settle(_) | Step::Report { .. } | Step::RepeatClaim(_) => known.claimed > 0,
            Step::LateClaim(_) => known.repeated_early > 0,
            _ => true,
        }
    }
}

fn way_of_a_job() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop::collection::vec(newcomer(), 1..5).prop_map(Step::Enqueue),
        1 => any::<usize>().prop_map(Step::RepeatEnqueue),
        1 => prop::collection::vec(newcomer(), 1..3).prop_map(Step::LateEnqueue),
        9 => (0..3_usize, 0..6_u32, 0..3_u32, any::<bool>(), any::<bool>()).prop_map(
            |(worker, limit, boosted_max, other_first, narrow)| {
                Step::Claim { worker, limit, boosted_max, other_first, narrow }
            }
        ),
        2 => (0..3_usize, 1..4_u32)
            .prop_map(|(worker, crashes_max)| Step::ClaimSuspect { worker, crashes_max }),
        1 => any::<usize>().prop_map(Step::RepeatClaim),
        1 => (0..3_usize, 1..6_u32)
            .prop_map(|(worker, limit)| Step::RepeatBeforeItsClaim { worker, limit }),
        1 => any::<usize>().prop_map(Step::LateClaim),
        9 => prop::collection::vec((any::<usize>(), ending()), 1..4).prop_map(Step::Settle),
        1 => (any::<usize>(), 0..=100_u8).prop_map(|(claim, percent)| Step::Report { claim, percent }),
    ]
}

fn lives_of_workers() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => any::<bool>().prop_map(|narrow| Step::Register { narrow }),
        3 => (0..5_usize).prop_map(Step::Liveness),
        1 => (0..5_usize).prop_map(Step::Retire),
        4 => (0..5_usize, prop::bool::weighted(0.2))
            .prop_map(|(worker, too_late)| Step::Rescue { worker, too_late }),
    ]
}

fn what_people_do() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<usize>().prop_map(Step::Cancel),
        4 => any::<usize>().prop_map(Step::Retry),
        2 => any::<usize>().prop_map(Step::Discard),
        2 => (any::<usize>(), 0..=10_i64).prop_map(|(job, level)| Step::SetPriority(job, level)),
        1 => (any::<bool>(), prop::option::of(span()))
            .prop_map(|(other, lasting)| Step::Pause { other, lasting }),
        2 => any::<bool>().prop_map(|other| Step::Resume { other }),
        1 => (any::<bool>(), prop::bool::weighted(0.3))
            .prop_map(|(other, shut)| Step::SetShut { other, shut }),
        1 => any::<bool>().prop_map(|other| Step::Purge { other }),
        2 => (any::<bool>(), 1..4_u32).prop_map(|(second, limit)| Step::OpenGate { second, limit }),
    ]
}

fn newcomer() -> impl Strategy<Value = Newcomer> {
    let job_type = prop_oneof![8 => 0..2_usize, 6 => 2..TYPES.len()];
    let keyed = (0..2_usize, 0..3_usize, 0..3_usize).prop_map(|(key, scope, on_conflict)| Keyed {
        key,
        scope,
        on_conflict,
    });
    let rare = |span: BoxedStrategy<Duration>, weight| prop::option::weighted(weight, span);
    (
        job_type,
        prop::option::weighted(0.4, 0..=10_i64),
        rare(span().boxed(), 0.3),
        rare(span().boxed(), 0.2),
        prop::option::weighted(0.4, keyed),
        prop::option::weighted(0.7, 0..2_usize),
        prop::option::weighted(0.3, 0..3_usize),
        prop::bool::weighted(0.3),
    )
        .prop_map(|(job_type, priority, delay, expires, key, ordering_key, fairness_key, grouped)| {
            Newcomer {
                job_type,
                priority,
                delay,
                expires: expires.filter(|_| job_type != ORDERING_KEY_TYPE),
                key,
                ordering_key: ordering_key.filter(|_| job_type == ORDERING_KEY_TYPE),
                fairness_key,
                grouped,
            }
        })
}

/// Generates an end; most ends are reported at once.
fn ending() -> impl Strategy<Value = Ending> {
    let ago = prop_oneof![3 => Just(Duration::ZERO), 1 => span()];
    (end(), ago).prop_map(|(end, ago)| Ending { end, ago })
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Succeed),
        3 => span().prop_map(End::Retry),
        1 => span().prop_map(End::Snooze),
        2 => any::<bool>().prop_map(|second| End::Park { second }),
        3 => Just(End::Bury),
        1 => Just(End::Cancel),
        2 => any::<bool>().prop_map(|started| End::Release { started }),
    ]
}

/// Generates spans near the limits: around a second, a lease, a minute, a step of boosting, an hour, days
/// of retention.
pub(crate) fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        1 => Just(Duration::ZERO),
        2 => Just(Duration::from_micros(1)),
        4 => (1..40_u64).prop_map(Duration::from_secs),
        3 => (55..70_u64).prop_map(Duration::from_secs),
        2 => (1..12_u64).prop_map(|steps| Duration::from_secs(300 * steps)),
        1 => Just(Duration::from_secs(3_600)),
        1 => (1..9_u64).prop_map(|days| Duration::from_secs(86_400 * days)),
    ]
}
