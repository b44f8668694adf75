//! Breakers and rate limits on a clock that the test moves.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::handler::CallError;
use windlass::limits::{LimitAt, LimitScope};
use windlass::testing::TestWorker;
use windlass::types::breaker::{BreakerOptions, Verdict};
use windlass::types::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Suspects};
use windlass::types::gate::Gate;
use windlass::types::job::JobState;
use windlass::types::names::{BreakerName, GroupName, LimitName, QueueName, TypeName};
use windlass::types::outcome::AttemptOutcome;
use windlass::types::rate_limit::{KeyBy, RateLimit};
use windlass::types::settle::{AttemptReport, Transition};
use windlass::types::worker::{WorkerCard, WorkerId};
use windlass::{
    BreakerSpec, Context, Handlers, JobType, LimitOptions, RateLimitSpec, RetryPolicy, State, TypeSpec,
    WorkerOptions,
};

const SECOND: Duration = Duration::from_secs(1);

/// The platform of these tests: its next answers, and how often it was called.
#[derive(Clone, Default)]
struct Shop {
    answers: Arc<Mutex<Vec<Answer>>>,
    calls: Arc<AtomicU32>,
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Fine,
    Broken,
    TooMany(Option<Duration>),
}

impl Shop {
    fn answers(&self, answers: &[Answer]) {
        *self.answers.lock().expect("no handler panics while it holds the lock") =
            answers.iter().rev().copied().collect();
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    async fn fetch(&self) -> Result<(), Answer> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match self.answers.lock().expect("no handler panics while it holds the lock").pop() {
            None | Some(Answer::Fine) => Ok(()),
            Some(other) => Err(other),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Fetch {
    /// Calls through the breaker, and returns its errors as the job's errors.
    Wrapped,
    /// Calls through the breaker, and does something else if it is open.
    OrElse,
    /// Calls without the breaker; the outcome of the job is reported to the breaker.
    Plain,
}

impl JobType for Fetch {
    const NAME: &'static str = "fetch";
    fn defaults(spec: TypeSpec) -> TypeSpec {
        TypeSpec { retry: RetryPolicy::Fixed { every: SECOND, attempts: 20 }, ..spec }
    }
}

fn judge(answer: &Result<(), Answer>) -> Option<Verdict> {
    match answer {
        Err(Answer::TooMany(retry_after)) => Some(Verdict::RateLimited(*retry_after)),
        Err(_) => Some(Verdict::Failure),
        Ok(()) => Some(Verdict::Success),
    }
}

async fn fetch(job: Fetch, ctx: Context, State(shop): State<Shop>) -> Result<(), String> {
    match job {
        Fetch::Wrapped => {
            let answer = ctx.breaker("shop").call_judged(shop.fetch(), judge).await;
            answer.map_err(|why| format!("{why:?}"))
        }
        Fetch::OrElse => match ctx.breaker("shop").call(shop.fetch()).await {
            Err(CallError::Open(_)) => {
                ctx.log("from the cache");
                Ok(())
            }
            answer => answer.map_err(|why| format!("{why:?}")),
        },
        Fetch::Plain => shop.fetch().await.map_err(|why| format!("{why:?}")),
    }
}

fn breaker(failures: u32, scope: LimitScope) -> BreakerSpec {
    let options = BreakerOptions {
        failures_in_a_row: Some(failures),
        open_cooldown: SECOND * 60,
        ..BreakerOptions::default()
    };
    BreakerSpec { options, scope, ..BreakerSpec::new(BreakerName::parse("shop").expect("the name is valid")) }
}

fn worker_with(limits: LimitOptions, registered: bool) -> (TestWorker, Shop) {
    let shop = Shop::default();
    let handlers = Handlers::new(shop.clone()).handle(fetch);
    let handlers = if registered { handlers.calls::<Fetch>("shop") } else { handlers };
    (TestWorker::with_options(handlers, WorkerOptions { limits, ..WorkerOptions::default() }), shop)
}

fn wrapped(failures: u32) -> (TestWorker, Shop) {
    let breakers = vec![breaker(failures, LimitScope::Store)];
    worker_with(LimitOptions { breakers, ..LimitOptions::default() }, false)
}

fn registered(failures: u32, scope: LimitScope) -> (TestWorker, Shop) {
    let breakers = vec![breaker(failures, scope)];
    worker_with(LimitOptions { breakers, ..LimitOptions::default() }, true)
}

/// Claims the job that is due next second, as a worker that then leaves, and parks it behind a gate.
async fn park(worker: &TestWorker, gate: &str) {
    let engine = worker.engine();
    worker.advance(SECOND);
    let card = WorkerCard {
        id: WorkerId::from_random(5),
        host: String::new(),
        pid: 1,
        version: String::new(),
        queues: vec![QueueName::parse("default").expect("the name is valid")],
        types: vec![TypeName::parse("fetch").expect("the name is valid")],
        duties: Vec::new(),
        slots: 0,
        lease: SECOND,
    };
    engine.register(card.clone()).await.expect("the worker is new");
    let request = ClaimRequest {
        token: ClaimToken::from_random(7),
        repeat: false,
        worker: card.id,
        queues: card.queues,
        types: card.types,
        limit: 1,
        boosted_max: 0,
        suspects: Suspects::LeaveOut,
    };
    let answer = engine.claim(request).await.expect("the memory engine answers");
    let ClaimAnswer::Claimed { mut jobs, .. } = answer else { panic!("{answer:?}") };
    let gate = Transition::Park { gate: Gate::named(gate) };
    let parked = jobs.remove(0).settled(gate, AttemptReport::default());
    engine.settle(vec![parked]).await.expect("the memory engine answers");
    engine.retire(card.id).await.expect("the memory engine answers");
}

#[tokio::test]
async fn a_call_that_an_open_breaker_refuses_puts_the_job_back_at_no_cost() {
    let (mut worker, shop) = wrapped(1);
    shop.answers(&[Answer::Broken]);
    let first = worker.client().enqueue(Fetch::Wrapped).await.unwrap().id;
    worker.run().await;
    let second = worker.client().enqueue(Fetch::Wrapped).await.unwrap().id;
    let ran = worker.run_one().await.unwrap();
    assert!(matches!(&ran.outcome, AttemptOutcome::Held(gate) if gate.as_str() == "breaker:shop"), "{ran:?}");
    let record = worker.job(second);
    assert_eq!((record.job_state(), record.job.counters.attempts), (JobState::Parked, 0));
    assert_eq!(shop.calls(), 1);
    worker.advance(SECOND * 61);
    worker.run().await;
    worker.run().await;
    assert_eq!([first, second].map(|id| worker.job(id).job_state()), [JobState::Succeeded; 2]);
    assert_eq!(worker.job(second).job.counters.attempts, 1);
}

#[tokio::test]
async fn a_handler_may_do_without_the_platform() {
    let (mut worker, shop) = wrapped(1);
    shop.answers(&[Answer::Broken]);
    worker.client().enqueue(Fetch::Wrapped).await.unwrap();
    worker.run_one().await.unwrap();
    worker.client().enqueue(Fetch::OrElse).await.unwrap();
    assert_eq!(worker.run_one().await.unwrap().output(), "from the cache\n");
}

#[tokio::test]
async fn a_rate_limit_answer_sets_the_next_try_and_pauses_double_until_a_success() {
    let (mut worker, shop) = wrapped(100);
    let limited = Answer::TooMany(None);
    shop.answers(&[limited, limited, Answer::TooMany(Some(SECOND * 7)), limited, Answer::Fine, limited]);
    worker.client().enqueue(Fetch::Wrapped).await.unwrap();
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let ran = worker.run_one().await.unwrap();
        let Transition::Retry { after, .. } = ran.transition else { panic!("{ran:?}") };
        pauses.push(after.as_secs());
        worker.advance(after);
    }
    assert_eq!(pauses, [1, 2, 7, 8]);
    assert!(matches!(worker.run_one().await.unwrap().outcome, AttemptOutcome::Done(_)));
    worker.client().enqueue(Fetch::Wrapped).await.unwrap();
    let ran = worker.run_one().await.unwrap();
    assert!(matches!(ran.transition, Transition::Retry { after, .. } if after == SECOND), "{ran:?}");
}

#[tokio::test]
async fn the_end_of_a_job_tells_how_its_platform_is() {
    for scope in [LimitScope::Store, LimitScope::Process] {
        let (mut worker, shop) = registered(2, scope);
        shop.answers(&[Answer::Broken, Answer::Fine, Answer::Broken, Answer::Broken]);
        for _ in 0..4 {
            worker.client().enqueue(Fetch::Plain).delay(SECOND * 30).await.unwrap();
        }
        worker.advance(SECOND * 30);
        worker.run().await;
        assert_eq!(shop.calls(), 4, "a success in between resets the count");
        worker.client().enqueue(Fetch::Plain).await.unwrap();
        worker.run().await;
        assert_eq!(shop.calls(), 4, "the breaker is open");
    }
}

#[tokio::test]
async fn a_half_open_breaker_lets_one_probe_through_and_a_failure_opens_it_again() {
    for scope in [LimitScope::Store, LimitScope::Process] {
        let (mut worker, shop) = registered(1, scope);
        shop.answers(&[Answer::Broken, Answer::Broken]);
        for _ in 0..5 {
            worker.client().enqueue(Fetch::Plain).await.unwrap();
        }
        worker.run().await;
        assert_eq!(shop.calls(), 1);
        worker.advance(SECOND * 60);
        worker.run().await;
        assert_eq!(shop.calls(), 2, "one probe");
        worker.advance(SECOND * 59);
        worker.run().await;
        assert_eq!(shop.calls(), 2, "another cool-down");
        worker.advance(SECOND);
        worker.run().await;
        worker.run().await;
        assert_eq!(shop.calls(), 2 + 5, "the second probe closed the breaker, and all other jobs ran");
    }
}

#[tokio::test]
async fn jobs_that_wait_for_a_limit_which_is_no_more_go_on() {
    for gate in ["rate:gone:ada", "breaker:gone"] {
        let (mut worker, shop) = worker_with(LimitOptions::default(), false);
        let id = worker.client().enqueue(Fetch::Plain).delay(SECOND).await.unwrap().id;
        park(&worker, gate).await;
        assert_eq!(worker.job(id).job_state(), JobState::Parked);
        worker.advance(SECOND * 2);
        worker.run().await;
        assert_eq!((worker.job(id).job_state(), shop.calls()), (JobState::Succeeded, 1));
    }
}

#[tokio::test]
async fn tenants_are_limited_each_by_its_own_key() {
    for scope in [LimitScope::Store, LimitScope::Process] {
        let limit = RateLimit { burst: 1, by: KeyBy::Group, ..RateLimit::new(1, SECOND * 60) };
        let types = vec![TypeName::parse("fetch").unwrap()];
        let name = LimitName::parse("per-tenant").unwrap();
        let rate_limits = vec![RateLimitSpec { name, limit, scope, at: LimitAt::Run, types }];
        let (mut worker, shop) = worker_with(LimitOptions { rate_limits, ..LimitOptions::default() }, false);
        let mut jobs = Vec::new();
        for tenant in ["ada", "ada", "bob", "ada"] {
            jobs.push(worker.client().enqueue(Fetch::Plain).group(tenant).await.unwrap().id);
        }
        worker.run().await;
        let job_states = || jobs.iter().map(|id| worker.job(*id).job_state()).collect::<Vec<_>>();
        assert_eq!(
            job_states(),
            [JobState::Succeeded, JobState::Parked, JobState::Succeeded, JobState::Parked]
        );
        assert_eq!(worker.job(jobs[1]).job.counters.attempts, 0);
        assert_eq!(worker.job(jobs[0]).job.group, GroupName::parse("ada").ok());
        for calls in [3, 4] {
            worker.advance(SECOND * 60);
            worker.run().await;
            assert_eq!(shop.calls(), calls, "one job a minute, the oldest first");
        }
        assert_eq!(worker.job(jobs[3]).job_state(), JobState::Succeeded);
    }
}
