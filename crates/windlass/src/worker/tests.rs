use std::sync::Weak;

use windlass_core::claim::ClaimToken;
use windlass_core::retry::RetryPolicy;
use windlass_engines::memory::MemoryEngine;

use super::*;

#[tokio::test]
async fn if_a_pool_panics_the_worker_falls_silent_and_all_its_handlers_are_ended() {
    let (inbox, mut events) = mpsc::channel(1);
    let controls = Arc::new(Controls::default());
    let heart = HeartHandle::default();
    let claimed = Arc::new(pool::tests::claimed(1, ClaimToken::from_random(1), 0));
    let handler = controls.start(&claimed, RetryPolicy::default(), Duration::MAX);
    let pool_panic = PoolPanic {
        pools: vec![inbox],
        controls: Arc::clone(&controls),
        heart: heart.clone(),
        runtime: Handle::current(),
    };
    let pool = tokio::spawn(watch(async { panic!("on purpose") }, pool_panic));
    assert!(pool.await.is_err_and(|end| end.is_panic()), "the task that joins the pool learns of the panic");
    assert!(heart.is_silent());
    assert!(matches!(events.recv().await, Some(Event::Stop { grace: Duration::ZERO })));
    handler.aborted().await;
}

/// A worker, and its listener.
async fn worker_that_listens() -> (Worker, Weak<Listener>) {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Mail;
    impl crate::JobType for Mail {
        const NAME: &'static str = "mail";
    }
    async fn send(_: Mail) {}
    let handlers = Handlers::new(()).handle(send);
    let worker = Worker::start(Arc::new(MemoryEngine::new()), handlers, WorkerOptions::default()).await;
    let worker = worker.expect("the worker starts");
    let listener = Arc::downgrade(worker.listener.as_ref().expect("the worker listens"));
    (worker, listener)
}

#[tokio::test]
async fn a_dropped_worker_leaves_no_listener_behind() {
    let (worker, listener) = worker_that_listens().await;
    assert!(listener.upgrade().is_some());
    drop(worker);
    assert!(listener.upgrade().is_none());
}

#[tokio::test]
async fn a_worker_that_has_ended_listens_no_more() {
    let (mut worker, listener) = worker_that_listens().await;
    assert_eq!(worker.stop().await, Stopped::Clean);
    assert!(listener.upgrade().is_none());
}
