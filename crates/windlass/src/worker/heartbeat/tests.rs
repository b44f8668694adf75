use std::sync::atomic::AtomicU32;

use windlass_core::claim::ClaimToken;
use windlass_core::retry::RetryPolicy;

use super::*;
use crate::worker::options::card;
use crate::worker::pool::tests::claimed;
use stub::Stub;

mod stub;

const MILLI: Duration = Duration::from_millis(1);
/// Nothing here takes this long; a call to the store may.
const PATIENCE: Duration = Duration::from_secs(5);

/// A heart that beats fast, for one pool. Its worker was registered before the store's trouble started.
fn heart(store: Stub, inbox: &mpsc::Sender<Event>) -> HeartThread {
    let options =
        WorkerOptions { lease: MILLI * 100, heartbeat_every: MILLI * 30, ..WorkerOptions::default() };
    let card = card(random::worker_id(), &[], options.lease);
    let identity = Identity { engine: Arc::new(store), card };
    HeartThread::start(identity, Arc::default(), vec![inbox.clone()], &options)
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it happens soon")
}

#[tokio::test]
async fn while_heartbeats_hang_the_lease_runs_out_on_time() {
    let (inbox, mut events) = mpsc::channel(1);
    let _heart = heart(Stub::Hangs, &inbox);
    assert!(matches!(soon(events.recv()).await, Some(Event::LeaseRanOut)));
}

#[tokio::test]
async fn a_heart_that_cannot_register_again_still_stops() {
    let (inbox, _events) = mpsc::channel(1);
    let tried = Arc::new(Notify::new());
    let mut heart = heart(Stub::SaysDead { tried: Arc::clone(&tried) }, &inbox);
    soon(tried.notified()).await;
    let ended = heart.ended.take().expect("it runs");
    heart.handle.stop();
    soon(ended).await.expect("the thread ended");
}

#[tokio::test]
async fn a_pool_with_a_full_inbox_learns_its_new_identity_all_the_same() {
    let (inbox, mut events) = mpsc::channel(1);
    inbox.try_send(Event::Hint).expect("it was empty");
    let _heart = heart(Stub::SaysDeadFor(AtomicU32::new(1)), &inbox);
    // One sender is the test's, one the heart's, the third waits for room.
    let waits_for_room = async {
        while inbox.strong_count() < 3 {
            tokio::task::yield_now().await;
        }
    };
    soon(waits_for_room).await;
    assert!(matches!(soon(events.recv()).await, Some(Event::Hint)));
    assert!(matches!(soon(events.recv()).await, Some(Event::Reborn(_))));
}

#[tokio::test]
async fn ends_from_outside_that_the_store_does_not_take_stay_overdue() {
    let controls = Arc::new(Controls::default());
    let job = Arc::new(claimed(1, ClaimToken::from_random(1), 0));
    controls.start(&job, RetryPolicy::default(), Duration::ZERO);
    let late = Instant::now() + Duration::from_secs(60);
    let overdue = controls.overdue(late);
    assert_eq!(overdue.len(), 1);
    settle_from_outside(Arc::new(Stub::Hangs), Arc::clone(&controls), overdue).await;
    assert_eq!(controls.overdue(late).len(), 1);
}
