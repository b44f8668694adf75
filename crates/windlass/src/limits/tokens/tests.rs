//! Several processes share a limit through one store, as they really run: each with its own caches and its
//! own clock, with batches that lapse, callers that wait for each other, and a store whose answers come
//! late or not at all. Time is virtual.

use async_trait::async_trait;
use proptest::prelude::*;
use tokio::task::JoinSet;
use tokio::time::Instant;
use windlass_core::policies::Policies;
use windlass_core::rate_limit::RateLimit;
use windlass_engines::memory::MemoryEngine;

use super::*;
use crate::limits::LimitAt;

const PROCESSES: usize = 3;

/// A clock that runs with the time of the test, by some offset ahead.
#[derive(Debug)]
struct VirtualClock {
    began: Instant,
    ahead: Duration,
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.plus(self.ahead + self.began.elapsed())
    }
}

/// The faults of a store.
#[derive(Debug, Clone, Copy)]
struct CallFailure {
    /// The longest time for an answer, part of it before the decision and the rest after.
    answer_max: Duration,
    /// How many of a hundred answers are lost, half of them after the tokens were taken.
    lost: u64,
}

/// A store behind an unreliable connection.
struct FaultyStore {
    store: MemoryEngine,
    failure: CallFailure,
    rng: Mutex<fastrand::Rng>,
}

impl FaultyStore {
    fn roll(&self, below: u64) -> u64 {
        self.rng.lock().unwrap().u64(0..below.max(1))
    }

    fn is_lost(&self) -> bool {
        self.roll(200) < self.failure.lost
    }

    /// A random delay in two parts: before the decision and after it.
    fn ways(&self) -> (Duration, Duration) {
        // Timers have a resolution of a millisecond; most answers are quick, as they are in practice.
        let most = u64::try_from(self.failure.answer_max.as_millis()).unwrap();
        let all = if self.roll(3) == 0 { self.roll(most + 1) } else { self.roll(most.min(3) + 1) };
        let out = self.roll(all + 1);
        (Duration::from_millis(out), Duration::from_millis(all - out))
    }
}

#[async_trait]
impl Policies for FaultyStore {
    async fn take_tokens(&self, takes: &[Take]) -> Result<Vec<Taken>, EngineError> {
        let lost = || Err(EngineError::Unknown { why: "no answer".to_owned() });
        let (out, back) = self.ways();
        // may sleep: the request takes this long, by a clock that the test moves.
        tokio::time::sleep(out).await;
        if self.is_lost() {
            return lost();
        }
        let taken = self.store.take_tokens(takes).await;
        // may sleep: and the answer takes this long.
        tokio::time::sleep(back).await;
        if self.is_lost() { lost() } else { taken }
    }
}

/// A caller that comes to one of the processes after a pause, and the longest time that it waits.
#[derive(Debug, Clone, Copy)]
struct Caller {
    pause_millis: u64,
    process: usize,
    max_wait_millis: u64,
}

fn any_caller() -> impl Strategy<Value = Caller> {
    let pause = prop_oneof![8 => Just(0_u64), 4 => 1_u64..10, 1 => 150_u64..=210];
    (pause, 0..PROCESSES, prop_oneof![Just(0_u64), Just(100_u64)]).prop_map(
        |(pause_millis, process, max_wait_millis)| Caller { pause_millis, process, max_wait_millis },
    )
}

fn any_limit() -> impl Strategy<Value = RateLimit> {
    (1_u32..300, 1_u32..150, 100_u64..2_000).prop_map(|(limit, burst, millis)| RateLimit {
        burst,
        ..RateLimit::new(limit, Duration::from_millis(millis))
    })
}

/// When a token was used, in microseconds, and by which process.
type Use = (u64, usize);

/// Lets all callers come and take a token or go without. Returns the uses in order.
fn uses(limit: &RateLimit, failure: CallFailure, seed: u64, all: &[Caller]) -> Vec<Use> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let began = Instant::now();
        let clock = |seconds| VirtualClock { began, ahead: Duration::from_secs(seconds) };
        let store: Arc<dyn Policies> = Arc::new(FaultyStore {
            store: MemoryEngine::with_clock(Arc::new(clock(1_000_000))),
            failure,
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
        });
        // The clocks of no two processes agree.
        let processes: Vec<_> = (0..PROCESSES)
            .map(|n| Arc::new(Tokens::new(Arc::clone(&store), Arc::new(clock(n as u64 * 7_777)))))
            .collect();
        let spec = Arc::new(RateLimitSpec {
            name: LimitName::parse("shared").unwrap(),
            limit: limit.clone(),
            scope: LimitScope::Store,
            at: LimitAt::Run,
            types: Vec::new(),
        });
        let mut callers = JoinSet::new();
        for Caller { pause_millis, process, max_wait_millis } in all.iter().copied() {
            // may sleep: the next caller comes then, by a clock that the test moves.
            tokio::time::sleep(Duration::from_millis(pause_millis)).await;
            let (tokens, spec) = (Arc::clone(&processes[process]), Arc::clone(&spec));
            callers.spawn(async move {
                let max_wait = Duration::from_millis(max_wait_millis);
                let taken = tokens.take(&spec, "", max_wait).await;
                taken.is_ok().then(|| (u64::try_from(began.elapsed().as_micros()).unwrap(), process))
            });
        }
        let mut used: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
        used.sort_unstable();
        used
    })
}

/// The most uses within any span of time as long as the period.
fn most_in_a_period<'a>(used: impl IntoIterator<Item = &'a Use>, per: Duration) -> usize {
    let per = u64::try_from(per.as_micros()).unwrap();
    let instants: Vec<_> = used.into_iter().map(|(at, _)| *at).collect();
    let from = |first: usize| instants[first..].iter().take_while(|at| **at < instants[first] + per).count();
    (0..instants.len()).map(from).max().unwrap_or(0)
}

fn allowed(limit: &RateLimit) -> usize {
    (limit.limit + limit.burst) as usize
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn processes_use_no_more_than_limit_and_burst_in_any_period_while_the_store_answers_in_time(
        limit in any_limit(),
        seed: u64,
        all in proptest::collection::vec(any_caller(), 1..500),
    ) {
        let failure = CallFailure { answer_max: limit.answer_within(), lost: 0 };
        let used = uses(&limit, failure, seed, &all);
        prop_assert!(!used.is_empty(), "{limit:?} admits no caller");
        let most = most_in_a_period(&used, limit.per);
        prop_assert!(most <= allowed(&limit), "{most} of {limit:?}");
    }

    #[test]
    fn a_process_uses_no_more_than_limit_and_burst_in_any_period_whatever_the_store_does(
        limit in any_limit(),
        seed: u64,
        lost in 0_u64..100,
        answer_millis in 0_u64..3_000,
        all in proptest::collection::vec(any_caller(), 1..500),
    ) {
        let failure = CallFailure { answer_max: Duration::from_millis(answer_millis), lost };
        let used = uses(&limit, failure, seed, &all);
        for process in 0..PROCESSES {
            let most = most_in_a_period(used.iter().filter(|(_, by)| *by == process), limit.per);
            prop_assert!(most <= allowed(&limit), "{most} of {limit:?}");
        }
    }
}

/// Shows what the two tests above would not notice: a limit that is kept because hardly any caller is
/// admitted.
#[test]
fn processes_use_the_whole_limit_and_what_is_left_of_the_burst_if_enough_come() {
    let limit = RateLimit { burst: 50, ..RateLimit::new(100, Duration::from_secs(1)) };
    let failure = CallFailure { answer_max: Duration::from_millis(10), lost: 0 };
    let come = |n: usize| Caller { pause_millis: 1, process: n % PROCESSES, max_wait_millis: 100 };
    let all: Vec<_> = (0..3_000).map(come).collect();
    let used = uses(&limit, failure, 7, &all);
    // Three seconds bring 300, and the burst 50 but for the tokens that 200 ms bring.
    assert!(used.len() >= 290, "{} of 330 were used", used.len());
    let most = most_in_a_period(&used, limit.per);
    assert!((120..=allowed(&limit)).contains(&most), "{most} in a second");
}

/// A store that counts the queries.
#[derive(Default)]
struct Counting {
    store: MemoryEngine,
    asked: Mutex<Vec<usize>>,
}

#[async_trait]
impl Policies for Counting {
    async fn take_tokens(&self, takes: &[Take]) -> Result<Vec<Taken>, EngineError> {
        self.asked.lock().unwrap().push(takes.len());
        self.store.take_tokens(takes).await
    }
}

fn spec(name: &str, limit: u32) -> RateLimitSpec {
    RateLimitSpec {
        name: LimitName::parse(name).unwrap(),
        limit: RateLimit { burst: limit, ..RateLimit::new(limit, Duration::from_secs(3_600)) },
        scope: LimitScope::Store,
        at: LimitAt::Run,
        types: Vec::new(),
    }
}

fn tokens(store: &Arc<Counting>) -> Tokens {
    Tokens::new(Arc::<Counting>::clone(store), Arc::new(crate::limits::ProcessClock::default()))
}

#[tokio::test]
async fn who_is_refused_by_one_of_two_limits_uses_up_no_token_of_the_other() {
    for scope in [LimitScope::Store, LimitScope::Process] {
        let (many, one) =
            (RateLimitSpec { scope, ..spec("many", 10) }, RateLimitSpec { scope, ..spec("one", 1) });
        let tokens = tokens(&Arc::default());
        let both = [(&many, "ada"), (&one, "ada")];
        assert_eq!(tokens.take_each(&both, Duration::ZERO).await, Ok(()));
        for _ in 0..20 {
            let refused = tokens.take_each(&both, Duration::ZERO).await;
            assert!(matches!(refused, Err((1, after)) if after > Duration::ZERO), "{refused:?}");
        }
        let mut left = 0;
        while tokens.take(&many, "ada", Duration::ZERO).await.is_ok() {
            left += 1;
        }
        assert_eq!(left, 9, "{scope:?}");
    }
}

#[tokio::test]
async fn another_process_that_is_refused_by_one_of_two_limits_uses_up_no_token_of_the_other_either() {
    let (many, one) = (spec("many", 10), spec("one", 1));
    let store = Arc::default();
    let both = [(&many, "ada"), (&one, "ada")];
    assert_eq!(tokens(&store).take_each(&both, Duration::ZERO).await, Ok(()));
    let elsewhere = tokens(&store);
    assert!(elsewhere.take_each(&both, Duration::ZERO).await.is_err());
    let mut left = 0;
    while elsewhere.take(&many, "ada", Duration::ZERO).await.is_ok() {
        left += 1;
    }
    assert_eq!(left, 9);
}

#[tokio::test]
async fn the_store_is_asked_at_once_when_many_keys_have_a_token() {
    let (store, limit) = (Arc::default(), spec("each", 1));
    let names: Vec<_> = (0..250).map(|n| format!("tenant-{n}")).collect();
    let tokens = tokens(&store);
    tokens.take(&limit, &names[0], Duration::ZERO).await.unwrap();
    store.asked.lock().unwrap().clear();
    let keys: Vec<_> = names.iter().map(|name| (&limit, name.as_str())).collect();
    let due = tokens.due_in(&keys).await;
    assert!(due[0].is_some() && due[1..].iter().all(Option::is_none));
    assert_eq!(*store.asked.lock().unwrap(), [100, 100, 50]);
}
