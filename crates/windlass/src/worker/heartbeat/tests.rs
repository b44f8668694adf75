use std::sync::atomic::AtomicU32;

use windlass_core::claim::ClaimToken;
use windlass_core::retry::RetryPolicy;

use super::*;
use crate::worker::options::card;
use crate::worker::pool::tests::claimed;
use stub::Stub;

mod stub;

const MILLI: Duration = Duration::from_millis(1);
/// No step of these tests takes this long; a call to the store may.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A lease that does not run out in these tests.
const LONG: Duration = Duration::from_secs(3600);

/// A heartbeat thread with a short interval, for one pool. Its worker was registered before the store began
/// to fail.
fn heart(store: Stub, lease: Duration, inbox: &mpsc::Sender<Event>) -> HeartThread {
    let options = WorkerOptions { lease, heartbeat_every: MILLI * 30, ..WorkerOptions::default() };
    let card = card(random::worker_id(), &[], Vec::new(), options.lease);
    let identity = Identity { engine: Arc::new(store), card };
    HeartThread::start(identity, Arc::default(), vec![inbox.clone()], &options, Mailbox::default())
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, what).await.expect("it happens soon")
}

#[tokio::test]
async fn while_heartbeats_hang_the_lease_runs_out_on_time() {
    let (inbox, mut events) = mpsc::channel(1);
    let _heart = heart(Stub::Hangs, MILLI * 100, &inbox);
    assert!(matches!(soon(events.recv()).await, Some(Event::LeaseRanOut)));
}

#[tokio::test]
async fn a_heart_that_cannot_register_again_still_stops() {
    let (inbox, _events) = mpsc::channel(1);
    let tried = Arc::new(Notify::new());
    let mut heart = heart(Stub::SaysDead { tried: Arc::clone(&tried) }, LONG, &inbox);
    soon(tried.notified()).await;
    let ended = heart.ended.take().expect("it runs");
    heart.handle.stop();
    soon(ended).await.expect("the thread ended");
}

#[tokio::test]
async fn a_pool_with_a_full_inbox_learns_its_new_identity_all_the_same() {
    let (inbox, mut events) = mpsc::channel(1);
    inbox.try_send(Event::Hint).expect("it was empty");
    let _heart = heart(Stub::SaysDeadFor(AtomicU32::new(1)), LONG, &inbox);
    // One sender is the test's, one the heartbeat thread's, and the third waits for room.
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

/// A running job that another process asked to stop, and a store that reports it.
fn asked_to_stop(controls: &Controls) -> (Arc<crate::handler::JobControl>, Stub, Arc<AtomicU32>) {
    let claimed = Arc::new(claimed(1, ClaimToken::from_random(1), 0));
    let control = controls.start(&claimed, RetryPolicy::default(), Duration::MAX);
    let questions = Arc::new(AtomicU32::new(0));
    let store = Stub::AskedToStop { job: claimed.fence(), questions: Arc::clone(&questions) };
    (control, store, questions)
}

#[tokio::test]
async fn after_a_hint_the_heart_asks_which_jobs_are_to_stop_and_hands_it_on() {
    let (inbox, _events) = mpsc::channel(1);
    let controls = Arc::new(Controls::default());
    let (job, store, _) = asked_to_stop(&controls);
    let options = WorkerOptions::default();
    let identity =
        Identity { engine: Arc::new(store), card: card(random::worker_id(), &[], Vec::new(), options.lease) };
    let heart = HeartThread::start(identity, controls, vec![inbox], &options, Mailbox::default());
    heart.handle().hint();
    soon(job.cancelled()).await;
}

#[tokio::test]
async fn a_request_to_stop_that_comes_with_a_heartbeat_is_handed_on_without_any_hint() {
    let (inbox, _events) = mpsc::channel(1);
    let controls = Arc::new(Controls::default());
    let claimed = Arc::new(claimed(1, ClaimToken::from_random(1), 0));
    let job = controls.start(&claimed, RetryPolicy::default(), Duration::MAX);
    let options = WorkerOptions { heartbeat_every: MILLI * 30, ..WorkerOptions::default() };
    let store = Arc::new(Stub::TellsToStop(claimed.fence()));
    let identity =
        Identity { engine: store, card: card(random::worker_id(), &[], Vec::new(), options.lease) };
    let _heart = HeartThread::start(identity, controls, vec![inbox], &options, Mailbox::default());
    soon(job.cancelled()).await;
}

#[tokio::test(start_paused = true)]
async fn however_many_hints_come_the_store_is_asked_four_times_a_second() {
    let controls = Arc::new(Controls::default());
    let (_job, store, questions) = asked_to_stop(&controls);
    let handle = HeartHandle::default();
    tokio::spawn(stop_requests::hand_on(Arc::new(store), random::worker_id(), controls, handle.clone()));
    for _ in 0..1000 {
        handle.hint();
        // may sleep: the clock is virtual.
        tokio::time::sleep(MILLI * 10).await;
    }
    let asked = questions.load(Ordering::SeqCst);
    assert!((39..=41).contains(&asked), "{asked} times in ten seconds");
    // may sleep: the clock is virtual.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = questions.load(Ordering::SeqCst);
    assert!(after - asked <= 1, "without hints no query is sent, but the last hint is not lost");
}

#[test]
fn while_heartbeats_fail_the_log_says_so_at_once_and_then_once_in_half_a_minute() {
    let mut failures = Failures::default();
    let logged: Vec<_> = (0..650).filter_map(|tenth| failures.log_at(MILLI * 100 * tenth)).collect();
    assert_eq!(logged, [1, 301, 601]);
    assert_eq!(failures.end(), Some(650));
    assert_eq!(failures.end(), None);
    assert_eq!(failures.log_at(MILLI * 65_001), Some(1), "the next failure is logged at once");
}
