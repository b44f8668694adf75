//! Breakers and rate limits, as users of a worker see them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass::limits::{LimitAt, LimitScope};
use windlass::types::breaker::{BreakerOptions, BreakerState, CircuitState};
use windlass::types::claim::{ClaimAnswer, ClaimRequest, ClaimToken, Fence, Suspects};
use windlass::types::engine::{Engine, RescueRequest};
use windlass::types::gate::Gate;
use windlass::types::job::{JobState, StoredState};
use windlass::types::lease_watch::Suspicion;
use windlass::types::names::{BreakerName, LimitName, QueueName, TypeName};
use windlass::types::policies::Saved;
use windlass::types::rate_limit::{KeyBy, RateLimit};
use windlass::types::worker::{WorkerCard, WorkerId};
use windlass::{
    BreakerSpec, Client, ClientOptions, EnqueueError, LimitOptions, RateLimitSpec, Stopped, WorkerOptions,
};

use crate::bench::{Act, Bench, PATIENCE};

const HOUR: Duration = Duration::from_secs(3600);

fn act_type() -> Vec<TypeName> {
    vec![TypeName::parse("act").expect("the name is valid")]
}

/// The options of a worker whose jobs call the shop, with a breaker of these settings.
fn shop(failures: u32, cooldown: Duration, scope: LimitScope) -> WorkerOptions {
    let name = BreakerName::parse("shop").expect("the name is valid");
    let options = BreakerOptions {
        failures_in_a_row: Some(failures),
        open_cooldown: cooldown,
        ..BreakerOptions::default()
    };
    let breakers = vec![BreakerSpec { options, scope, types: act_type(), ..BreakerSpec::new(name) }];
    WorkerOptions { limits: LimitOptions { breakers, ..LimitOptions::default() }, ..WorkerOptions::default() }
}

fn limited(limit: RateLimit, at: LimitAt, scope: LimitScope) -> LimitOptions {
    let name = LimitName::parse("acts").expect("the name is valid");
    let spec = RateLimitSpec { name, limit, scope, at, types: act_type() };
    LimitOptions { rate_limits: vec![spec], ..LimitOptions::default() }
}

async fn jobs_wait_while_a_breaker_is_open(scope: LimitScope) {
    let mut bench = Bench::with(shop(1, HOUR, scope)).await;
    let failing = bench.put(Act::Fail).await;
    let record = bench.until(failing, JobState::Parked).await;
    let gate = Some(Gate::named("breaker:shop"));
    assert_eq!(record.state, StoredState::Waiting { gate: gate.clone() });
    assert_eq!(
        (record.job.counters.attempts, record.job.counters.failures),
        (1, 1),
        "one failure opens the breaker"
    );
    let waiting = bench.put(Act::Succeed).await;
    let record = bench.until(waiting, JobState::Parked).await;
    assert_eq!(record.state, StoredState::Waiting { gate });
    assert_eq!((record.job.counters.attempts, record.job.counters.holds), (0, 1), "a wait costs no attempt");
    assert_eq!(bench.started().await.0, failing);
    assert!(bench.reports.try_recv().is_err(), "no other job was started");
}

#[tokio::test]
async fn jobs_wait_at_no_cost_while_a_shared_breaker_is_open() {
    jobs_wait_while_a_breaker_is_open(LimitScope::Store).await;
}

#[tokio::test]
async fn jobs_wait_at_no_cost_while_the_breaker_of_a_process_is_open() {
    jobs_wait_while_a_breaker_is_open(LimitScope::Process).await;
}

async fn a_probe_lets_the_others_through(scope: LimitScope) {
    // Long enough for a busy machine to observe that the job waits.
    let bench = Bench::with(shop(1, Duration::from_secs(3), scope)).await;
    let probe = bench.put(Act::FailTimes(1)).await;
    bench.until(probe, JobState::Parked).await;
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(bench.put(Act::Succeed).await);
    }
    let record = bench.until(probe, JobState::Succeeded).await;
    assert_eq!(record.job.counters.attempts, 2);
    for other in others {
        assert_eq!(bench.until(other, JobState::Succeeded).await.job.counters.attempts, 1);
    }
}

#[tokio::test]
async fn a_probe_that_succeeds_closes_a_shared_breaker_and_lets_the_others_through() {
    a_probe_lets_the_others_through(LimitScope::Store).await;
}

#[tokio::test]
async fn a_probe_that_succeeds_closes_the_breaker_of_a_process_and_lets_the_others_through() {
    a_probe_lets_the_others_through(LimitScope::Process).await;
}

#[tokio::test]
async fn what_one_worker_learns_of_a_platform_holds_for_all() {
    let mut first = Bench::with(shop(1, HOUR, LimitScope::Store)).await;
    let failing = first.put(Act::Fail).await;
    first.until(failing, JobState::Parked).await;
    first.worker.stop().await;
    let mut second = Bench::on(Arc::clone(&first.engine), shop(1, HOUR, LimitScope::Store)).await;
    let waiting = second.put(Act::Succeed).await;
    second.until(waiting, JobState::Parked).await;
    assert!(second.reports.try_recv().is_err(), "the second worker never called the shop");
}

/// Claims the one ready job, as a worker whose lease expires at once.
async fn claim_and_die(engine: &Arc<dyn Engine>) -> (WorkerId, Fence) {
    let worker = WorkerId::from_random(u128::MAX - 1);
    let queue = QueueName::parse("default").expect("the name is valid");
    let card = WorkerCard {
        id: worker,
        host: "elsewhere".to_owned(),
        pid: 1,
        version: "test".to_owned(),
        queues: vec![queue.clone()],
        types: act_type(),
        duties: Vec::new(),
        slots: 1,
        lease: Duration::from_millis(1),
    };
    engine.register(card).await.expect("the engine is up");
    let request = ClaimRequest {
        token: ClaimToken::from_random(u128::MAX / 3),
        repeat: false,
        worker,
        queues: vec![queue],
        types: act_type(),
        limit: 1,
        boosted_max: 0,
        suspects: Suspects::LeaveOut,
    };
    match engine.claim(request).await.expect("the engine is up") {
        ClaimAnswer::Claimed { jobs, .. } => (worker, jobs[0].fence()),
        ClaimAnswer::WorkerDead => panic!("the worker was just registered"),
    }
}

/// Rescues the job. The lease has expired as soon as the store's clock has moved on.
async fn rescue(engine: &Arc<dyn Engine>, worker: WorkerId, fence: Fence) {
    let rescued = async {
        while engine.still_hold(&[fence]).await.expect("the engine is up") == [true] {
            let silent = vec![Suspicion { worker, beats: 0 }];
            let request = RescueRequest { silent, crashes_max: 3, limit: 10 };
            engine.rescue(request).await.expect("the engine is up");
        }
    };
    tokio::time::timeout(PATIENCE, rescued).await.expect("the job is rescued");
}

#[tokio::test]
async fn when_the_worker_of_the_probe_has_died_another_probes() {
    let mut first = Bench::start().await;
    assert_eq!(first.worker.stop().await, Stopped::Clean);
    let producer = Client::new(Arc::clone(&first.engine));
    let probe = producer.enqueue(Act::Succeed).await.expect("the job is accepted").id;
    let (worker, fence) = claim_and_die(&first.engine).await;
    assert_eq!(fence.job, probe);
    let name = BreakerName::parse("shop").expect("the name is valid");
    let held =
        BreakerState { circuit: CircuitState::HalfOpen, probes: vec![fence], ..BreakerState::default() };
    let saved = first.engine.save_breaker(&name, 0, &held).await.expect("the engine is up");
    assert_eq!(saved, Saved::Done);
    // Without maintenance: only the test rescues the job of the dead worker.
    let options = WorkerOptions { maintenance: false, ..shop(1, HOUR, LimitScope::Store) };
    let second = Bench::on(Arc::clone(&first.engine), options).await;
    let waiting = second.put(Act::Succeed).await;
    second.until(waiting, JobState::Parked).await;

    rescue(&second.engine, worker, fence).await;

    second.until(waiting, JobState::Succeeded).await;
    second.until(probe, JobState::Succeeded).await;
}

async fn jobs_run_no_faster_than_the_limit(scope: LimitScope) {
    let limit = RateLimit { burst: 2, ..RateLimit::new(4, Duration::from_secs(1)) };
    let limits = limited(limit, LimitAt::Run, scope);
    let mut bench = Bench::with(WorkerOptions { limits, ..WorkerOptions::default() }).await;
    let began = Instant::now();
    let mut jobs = Vec::new();
    for _ in 0..6 {
        jobs.push(bench.put(Act::Succeed).await);
    }
    for _ in 0..6 {
        bench.started().await;
    }
    // Two tokens are available at once, and one more each quarter of a second. The last start may be
    // observed late, never early.
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    for job in jobs {
        let record = bench.until(job, JobState::Succeeded).await;
        assert_eq!(
            (record.job.counters.attempts, record.job.counters.failures),
            (1, 0),
            "waiting costs nothing"
        );
    }
}

#[tokio::test]
async fn jobs_run_no_faster_than_a_shared_limit_and_waiting_costs_nothing() {
    jobs_run_no_faster_than_the_limit(LimitScope::Store).await;
}

#[tokio::test]
async fn jobs_run_no_faster_than_the_limit_of_a_process_and_waiting_costs_nothing() {
    jobs_run_no_faster_than_the_limit(LimitScope::Process).await;
}

#[tokio::test]
async fn a_fast_limit_is_not_exceeded() {
    let limit = RateLimit { burst: 1, ..RateLimit::new(100, Duration::from_secs(1)) };
    let limits = limited(limit, LimitAt::Run, LimitScope::Store);
    let mut bench = Bench::with(WorkerOptions { limits, ..WorkerOptions::default() }).await;
    let drafts: Vec<_> = (0..100).map(|_| Act::Succeed).collect();
    let began = Instant::now();
    bench.client.enqueue_many(drafts).await.expect("the jobs are accepted");
    for _ in 0..100 {
        bench.started().await;
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(900), "expected no run faster than the limit, took {took:?}");
}

#[tokio::test]
async fn enqueue_refuses_callers_that_enqueue_too_much_and_says_when_to_come_back() {
    for scope in [LimitScope::Store, LimitScope::Process] {
        let bench = Bench::start().await;
        let by = KeyBy::Payload("/Log".to_owned());
        let limit = RateLimit { burst: 2, by, ..RateLimit::new(1, HOUR) };
        let options =
            ClientOptions { limits: limited(limit, LimitAt::Enqueue, scope), ..ClientOptions::default() };
        let client = Client::with_options(Arc::clone(&bench.engine), options);
        let tenant = |name: &str| Act::Log(name.to_owned());
        client.enqueue(tenant("ada")).await.expect("the first job has a token");
        client.enqueue(tenant("ada")).await.expect("the burst has a token");
        let refused = client.enqueue(tenant("ada")).await.expect_err("the third job has no token");
        let EnqueueError::RateLimited(refused) = refused else { panic!("{refused:?}") };
        assert_eq!((refused.limit.as_str(), refused.key.as_str()), ("acts", "ada"));
        assert!(refused.retry_after > HOUR - Duration::from_secs(60) && refused.retry_after <= HOUR);
        client.enqueue(tenant("bob")).await.expect("each key has its own tokens");
    }
}

#[tokio::test]
async fn of_a_batch_only_what_is_too_much_is_refused_and_answers_keep_their_places() {
    let bench = Bench::start().await;
    let by = KeyBy::Payload("/Log".to_owned());
    let limit = RateLimit { burst: 1, by, ..RateLimit::new(1, HOUR) };
    let limits = limited(limit, LimitAt::Enqueue, LimitScope::Store);
    let client =
        Client::with_options(Arc::clone(&bench.engine), ClientOptions { limits, ..ClientOptions::default() });
    let jobs = ["ada", "ada", "bob", "ada", "eve"].map(|name| Act::Log(name.to_owned()));
    let answers = client.enqueue_many(jobs).await.expect("some jobs are accepted");
    let taken: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(taken, [true, false, true, false, true]);
}
