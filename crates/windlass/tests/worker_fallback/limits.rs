//! Breakers and rate limits that processes share, while the shared store is unavailable.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::fallback::FallbackEngine;
use windlass::limits::{LimitAt, LimitScope};
use windlass::types::breaker::BreakerOptions;
use windlass::types::engine::{Admin, Engine};
use windlass::types::gate::Gate;
use windlass::types::names::{BreakerName, LimitName, TypeName};
use windlass::types::policies::Policies;
use windlass::types::rate_limit::{KeyBy, RateLimit};
use windlass::{
    BreakerSpec, Client, Context, EnqueueError, EnqueueOutcome, Handlers, JobType, LimitOptions,
    RateLimitSpec, RetryPolicy, State, TypeSpec, Worker, WorkerOptions,
};

use crate::primary::{Primary, memory, options, until, until_away, until_back};

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Serialize, Deserialize)]
struct CallShop {
    tenant: String,
}

impl JobType for CallShop {
    const NAME: &'static str = "shop.call";
    fn defaults(spec: TypeSpec) -> TypeSpec {
        let retry = RetryPolicy::Fixed { every: Duration::from_millis(1), attempts: 1_000 };
        TypeSpec { retry, ..spec }
    }
}

/// A platform that works or fails, and the results of calls.
#[derive(Default)]
struct Shop {
    is_broken: AtomicBool,
    called: AtomicUsize,
    served: AtomicUsize,
    /// The orders whose jobs were refused.
    refused: AtomicUsize,
    tenants: Mutex<Vec<String>>,
}

impl Shop {
    fn called(&self) -> usize {
        self.called.load(Ordering::SeqCst)
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }
}

async fn call_shop(job: CallShop, State(shop): State<Arc<Shop>>) -> Result<(), std::io::Error> {
    shop.called.fetch_add(1, Ordering::SeqCst);
    if shop.is_broken.load(Ordering::SeqCst) {
        return Err(std::io::Error::other("closed"));
    }
    shop.tenants.lock().unwrap().push(job.tenant);
    shop.served.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

/// A job that enqueues another job.
#[derive(Serialize, Deserialize)]
struct Order {
    tenant: String,
}

impl JobType for Order {
    const NAME: &'static str = "order";
}

async fn order(job: Order, ctx: Context, State(shop): State<Arc<Shop>>) -> Result<(), EnqueueError> {
    match ctx.enqueue(CallShop { tenant: job.tenant }).await {
        Err(EnqueueError::RateLimited(_)) => _ = shop.refused.fetch_add(1, Ordering::SeqCst),
        enqueued => drop(enqueued?),
    }
    Ok(())
}

async fn worker_with(engine: &Arc<FallbackEngine>, shop: &Arc<Shop>, limits: LimitOptions) -> Worker {
    let handlers = Handlers::new(Arc::clone(shop)).handle(call_shop).handle(order).calls::<CallShop>("shop");
    let options = WorkerOptions { limits, ..options() };
    Worker::start(Arc::<FallbackEngine>::clone(engine), handlers, options).await.unwrap()
}

/// A breaker that opens after three failures, for this time.
fn breaker(open_cooldown: Duration) -> LimitOptions {
    let options = BreakerOptions { failures_in_a_row: Some(3), open_cooldown, ..BreakerOptions::default() };
    let shop = BreakerSpec { options, ..BreakerSpec::new(BreakerName::parse("shop").unwrap()) };
    LimitOptions { breakers: vec![shop], ..LimitOptions::default() }
}

/// The same breaker, with the scope `process`.
fn breaker_of_a_process(open_cooldown: Duration) -> LimitOptions {
    let mut limits = breaker(open_cooldown);
    limits.breakers.iter_mut().for_each(|breaker| breaker.scope = LimitScope::Process);
    limits
}

/// A rate limit of three an hour for each tenant.
fn three_an_hour(at: LimitAt, scope: LimitScope) -> LimitOptions {
    let by = KeyBy::Payload("/tenant".to_owned());
    let rate_limits = vec![RateLimitSpec {
        name: LimitName::parse("each").unwrap(),
        limit: RateLimit { by, ..RateLimit::new(3, HOUR) },
        scope,
        at,
        types: vec![TypeName::parse(CallShop::NAME).unwrap()],
    }];
    LimitOptions { rate_limits, ..LimitOptions::default() }
}

async fn put(client: &Client, tenant: &str, count: usize) -> Vec<EnqueueOutcome> {
    let mut enqueued = Vec::new();
    for _ in 0..count {
        enqueued.push(client.enqueue(CallShop { tenant: tenant.to_owned() }).await.unwrap().outcome);
    }
    enqueued
}

/// The number of jobs of a tenant that are accepted until one is refused by the rate limit.
async fn accepted_jobs(client: &Client, tenant: &str) -> usize {
    for count in 0..100 {
        match client.enqueue(CallShop { tenant: tenant.to_owned() }).await {
            Ok(_) => {}
            Err(EnqueueError::RateLimited(_)) => return count,
            Err(other) => panic!("expected the job to be accepted or refused by its rate limit, got {other}"),
        }
    }
    panic!("expected the rate limit to refuse a job");
}

async fn parked(store: &dyn Engine) -> u64 {
    store.queues().await.unwrap().iter().map(|queue| queue.counts.parked).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_the_breaker_of_a_process_holds_the_jobs_of_its_spool_back_and_lets_them_go_on()
 {
    let mut primary = Primary::redis();
    let beside = memory();
    let engine = primary.with(Arc::clone(&beside)).await;
    let shop = Arc::new(Shop::default());
    let mut worker = worker_with(&engine, &shop, breaker(Duration::from_millis(300))).await;
    put(worker.client(), "ada", 5).await;
    until(&engine, "the store's jobs have run", async || shop.served() == 5).await;
    primary.kill();
    until_away(&engine).await;
    assert!(engine.breakers().await.unwrap_err().is_passing(), "the shared state must not be waited for");
    shop.is_broken.store(true, Ordering::SeqCst);
    assert_eq!(put(worker.client(), "ada", 20).await, [EnqueueOutcome::Spooled; 20]);
    until(&engine, "jobs wait behind the breaker", async || parked(&*beside).await >= 10).await;
    assert!(!beside.behind(&Gate::named("breaker:shop"), 1).await.unwrap().is_empty());
    shop.is_broken.store(false, Ordering::SeqCst);
    until(&engine, "all jobs have run after a probe", async || shop.served() == 25).await;
    primary.restart();
    until_back(&engine).await;
    put(worker.client(), "ada", 5).await;
    until(&engine, "the store's jobs run again", async || shop.served() == 30).await;
    assert!(engine.breakers().await.is_ok(), "breakers are shared again");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_breaker_that_opened_on_the_store_before_it_went_away_holds_its_jobs_back_when_it_is_back() {
    let mut primary = Primary::redis();
    let engine = primary.with(memory()).await;
    let shop = Arc::new(Shop::default());
    let mut worker = worker_with(&engine, &shop, breaker(HOUR)).await;
    shop.is_broken.store(true, Ordering::SeqCst);
    put(worker.client(), "ada", 10).await;
    until(&engine, "all jobs wait behind the breaker", async || {
        engine.queues().await.is_ok_and(|queues| queues.iter().any(|queue| queue.counts.parked == 10))
    })
    .await;
    primary.kill();
    until_away(&engine).await;
    shop.is_broken.store(false, Ordering::SeqCst);
    primary.restart();
    until_back(&engine).await;
    let store = primary.store().await;
    assert_eq!((parked(&*store).await, shop.served()), (10, 0), "the store has kept the breaker's state");
    let name = BreakerName::parse("shop").unwrap();
    let read = engine.breakers().await.unwrap();
    let version =
        read.breakers.iter().find(|stored| stored.name == name).expect("the breaker is stored").version;
    engine.save_breaker(&name, version, &Default::default()).await.unwrap();
    until(&engine, "all jobs run once the breaker is closed", async || shop.served() == 10).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_enqueue_a_process_keeps_a_shared_limit_alone_while_the_store_is_silent_and_forgets_nothing_of_it()
{
    let primary = Primary::redis();
    let engine = primary.with(memory()).await;
    let shop = Arc::new(Shop::default());
    let mut worker = worker_with(&engine, &shop, three_an_hour(LimitAt::Enqueue, LimitScope::Store)).await;
    assert_eq!(accepted_jobs(worker.client(), "ada").await, 3);
    primary.fall_silent(true);
    until_away(&engine).await;
    assert_eq!(accepted_jobs(worker.client(), "ada").await, 0, "tokens used before count");
    assert_eq!(accepted_jobs(worker.client(), "bob").await, 3);
    primary.fall_silent(false);
    until_back(&engine).await;
    assert_eq!(accepted_jobs(worker.client(), "bob").await, 0, "tokens used in between count, too");
    assert_eq!(accepted_jobs(worker.client(), "cleo").await, 3);
    until(&engine, "all accepted jobs have run", async || shop.served() == 9).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_the_spool_keep_the_limit_of_the_spool_and_those_of_the_store_that_of_the_store() {
    let mut primary = Primary::redis();
    let beside = memory();
    let engine = primary.with(Arc::clone(&beside)).await;
    let shop = Arc::new(Shop::default());
    let mut worker = worker_with(&engine, &shop, three_an_hour(LimitAt::Run, LimitScope::Store)).await;
    put(worker.client(), "ada", 5).await;
    until(&engine, "two jobs wait on the store", async || {
        shop.served() == 3
            && engine.queues().await.is_ok_and(|all| all.iter().any(|one| one.counts.parked == 2))
    })
    .await;
    primary.kill();
    until_away(&engine).await;
    assert_eq!(put(worker.client(), "ada", 5).await, [EnqueueOutcome::Spooled; 5]);
    until(&engine, "two jobs wait in the spool", async || shop.served() == 6 && parked(&*beside).await == 2)
        .await;
    primary.restart();
    until_back(&engine).await;
    assert_eq!(
        (parked(&*primary.store().await).await, parked(&*beside).await),
        (2, 2),
        "each job waits in its store"
    );
    assert_eq!(shop.served(), 6);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_of_a_process_is_kept_once_whichever_store_its_jobs_are_in() {
    let mut primary = Primary::redis();
    let beside = memory();
    let engine = primary.with(Arc::clone(&beside)).await;
    let shop = Arc::new(Shop::default());
    let limits = three_an_hour(LimitAt::Run, LimitScope::Process);
    let mut worker = worker_with(&engine, &shop, limits).await;
    put(worker.client(), "ada", 5).await;
    until(&engine, "two jobs wait on the store", async || {
        shop.served() == 3
            && engine.queues().await.is_ok_and(|all| all.iter().any(|one| one.counts.parked == 2))
    })
    .await;
    primary.kill();
    until_away(&engine).await;
    assert_eq!(put(worker.client(), "ada", 5).await, [EnqueueOutcome::Spooled; 5]);
    assert_eq!(put(worker.client(), "bob", 5).await, [EnqueueOutcome::Spooled; 5]);
    until(&engine, "all jobs of ada and two jobs of bob wait in the spool", async || {
        parked(&*beside).await == 7 && shop.served() == 6
    })
    .await;
    assert_eq!(shop.tenants.lock().unwrap()[3..], ["bob", "bob", "bob"]);
    primary.restart();
    until_back(&engine).await;
    put(worker.client(), "bob", 1).await;
    let store = primary.store().await;
    until(&engine, "the job of bob waits on the store, too", async || parked(&*store).await == 3).await;
    assert_eq!(shop.served(), 6);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_breaker_of_a_process_that_opened_by_jobs_of_the_store_holds_back_those_of_the_spool() {
    let mut primary = Primary::redis();
    let beside = memory();
    let engine = primary.with(Arc::clone(&beside)).await;
    let shop = Arc::new(Shop::default());
    let mut worker = worker_with(&engine, &shop, breaker_of_a_process(HOUR)).await;
    shop.is_broken.store(true, Ordering::SeqCst);
    put(worker.client(), "ada", 10).await;
    until(&engine, "all jobs wait behind the breaker", async || {
        engine.queues().await.is_ok_and(|queues| queues.iter().any(|queue| queue.counts.parked == 10))
    })
    .await;
    let called = shop.called();
    primary.kill();
    until_away(&engine).await;
    assert_eq!(put(worker.client(), "ada", 10).await, [EnqueueOutcome::Spooled; 10]);
    until(&engine, "the jobs of the spool wait, too", async || parked(&*beside).await == 10).await;
    assert_eq!(shop.called(), called, "a platform that is known to fail must not be called");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_job_of_the_spool_puts_in_is_counted_at_the_same_accept_step() {
    let mut primary = Primary::redis();
    let engine = primary.with(memory()).await;
    let shop = Arc::new(Shop::default());
    let limits = three_an_hour(LimitAt::Enqueue, LimitScope::Store);
    let mut worker = worker_with(&engine, &shop, limits).await;
    assert_eq!(accepted_jobs(worker.client(), "ada").await, 3);
    until(&engine, "the store's jobs have run", async || shop.served() == 3).await;
    primary.kill();
    until_away(&engine).await;
    for tenant in ["ada", "bob"] {
        let enqueued = worker.client().enqueue(Order { tenant: tenant.to_owned() }).await.unwrap();
        assert_eq!(enqueued.outcome, EnqueueOutcome::Spooled);
    }
    until(&engine, "the job of bob is accepted, and the job of ada is not", async || {
        shop.served() == 4 && shop.refused.load(Ordering::SeqCst) == 1
    })
    .await;
    assert_eq!(shop.tenants.lock().unwrap()[3..], ["bob"]);
    worker.stop().await;
}
