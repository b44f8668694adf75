use windlass_core::claim::ClaimToken;
use windlass_core::retry::RetryPolicy;

use super::*;

#[tokio::test]
async fn if_a_pool_panics_the_worker_falls_silent_and_all_its_handlers_are_ended() {
    let (inbox, mut events) = mpsc::channel(1);
    let controls = Arc::new(Controls::default());
    let heart = HeartHandle::default();
    let claimed = Arc::new(pool::tests::claimed(1, ClaimToken::from_random(1), 0));
    let handler = controls.start(&claimed, RetryPolicy::default(), Duration::MAX);
    let alarm = Alarm {
        pools: vec![inbox],
        controls: Arc::clone(&controls),
        heart: heart.clone(),
        runtime: Handle::current(),
    };
    let pool = tokio::spawn(watch(async { panic!("on purpose") }, alarm));
    assert!(pool.await.is_err_and(|end| end.is_panic()), "whoever waits for the pool learns it");
    assert!(heart.is_silent());
    assert!(matches!(events.recv().await, Some(Event::Stop { grace: Duration::ZERO })));
    handler.aborted().await;
}
