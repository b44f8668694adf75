//! Whoever puts jobs in wakes somebody who waits for them, and nobody else.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;
use windlass_core::claim::ClaimRequest;
use windlass_core::clock::ManualClock;
use windlass_core::engine::{Engine, Hint, HintListener};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::worker::WorkerId;
use windlass_engines::redis::{RedisEngine, RedisOptions};

use crate::place::{Place, ask, card, claim_request, claimed, enqueue, kind, queue};
use crate::words;

/// Nothing in a test takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Hears that there is work.
struct Ear(Sender<()>);

impl HintListener for Ear {
    fn hint(&self, hint: Hint) {
        if hint == Hint::Queue(queue()) {
            self.0.try_send(()).expect("a handful of hints fit in");
        }
    }
}

/// A process with a worker that can be woken.
struct Process {
    engine: RedisEngine,
    worker: WorkerId,
    hears: Receiver<()>,
    _ear: Arc<dyn HintListener>,
}

impl Process {
    async fn start(place: &Place, options: RedisOptions, number: u128) -> Self {
        let engine = place.open_with(options).await;
        let worker = WorkerId::from_random(number);
        engine.declare(words::declaration()).await.unwrap();
        engine.register(card(worker)).await.unwrap();
        let (tells, hears) = channel(100);
        let ear: Arc<dyn HintListener> = Arc::new(Ear(tells));
        engine.on_hint(Arc::downgrade(&ear));
        Self { engine, worker, hears, _ear: ear }
    }

    /// Asks for so many jobs. Gives how many it got.
    async fn claim(&self, limit: u32) -> usize {
        let request = ClaimRequest { worker: self.worker, ..claim_request(limit) };
        claimed(self.engine.claim(request).await.unwrap()).len()
    }

    async fn is_woken(&mut self) {
        timeout(PATIENCE, self.hears.recv()).await.expect("somebody wakes it").expect("it listens");
    }

    fn was_woken(&mut self) -> bool {
        self.hears.try_recv().is_ok()
    }
}

/// Two processes whose listeners are there, one that puts jobs in, and their clock.
async fn scene(place: &Place) -> (Process, Process, RedisEngine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let options = RedisOptions { clock: Some(clock.clone()), ..place.options() };
    let first = Process::start(place, options.clone(), 1).await;
    let second = Process::start(place, options.clone(), 2).await;
    let producer = place.open_with(RedisOptions { listen: false, ..options }).await;
    loop {
        let channels: Vec<String> = ask(&place.url, &["PUBSUB", "CHANNELS", &place.key("wake:*")]);
        if channels.len() == 2 {
            break;
        }
        tokio::task::yield_now().await;
    }
    (first, second, producer, clock)
}

#[tokio::test]
async fn a_worker_that_has_no_room_any_more_is_not_woken_in_place_of_one_that_has() {
    let place = Place::shared();
    let (mut busy, mut idle, producer, clock) = scene(&place).await;
    // Two jobs that fall due later: nobody is woken when they do.
    let later = NewJob { when: When::In(Duration::from_secs(5)), ..NewJob::new(kind(), Default::default()) };
    producer.enqueue(words::request(vec![later; 2])).await.unwrap();
    assert_eq!(busy.claim(2).await, 0, "it has waited longest");
    clock.advance(Duration::from_secs(6));
    assert_eq!(busy.claim(2).await, 2, "and found work by itself");
    assert_eq!(idle.claim(2).await, 0);
    while busy.was_woken() || idle.was_woken() {}
    enqueue(&producer, 1).await;
    idle.is_woken().await;
    assert_eq!(idle.claim(2).await, 1);
    assert!(!busy.was_woken(), "it could do nothing with it");
}

#[tokio::test]
async fn a_worker_that_went_is_not_woken_in_place_of_one_that_waits() {
    let place = Place::shared();
    let (mut gone, mut idle, producer, clock) = scene(&place).await;
    assert_eq!(gone.claim(2).await, 0);
    clock.advance(Duration::from_secs(1));
    assert_eq!(idle.claim(2).await, 0);
    gone.engine.retire(gone.worker).await.unwrap();
    enqueue(&producer, 1).await;
    idle.is_woken().await;
    assert!(!gone.was_woken(), "its process goes on, and has nobody to wake");
}

#[tokio::test]
async fn of_two_workers_of_one_process_the_busy_one_does_not_keep_the_other_from_being_woken() {
    let place = Place::shared();
    let (mut both, _, producer, _clock) = scene(&place).await;
    let other = WorkerId::from_random(3);
    both.engine.register(card(other)).await.unwrap();
    let request = |limit| ClaimRequest { worker: other, ..claim_request(limit) };
    assert_eq!(claimed(both.engine.claim(request(5)).await.unwrap()), [], "the other waits");
    enqueue(&producer, 1).await;
    both.is_woken().await;
    assert_eq!(claimed(both.engine.claim(request(5)).await.unwrap()).len(), 1, "and waits for more");
    assert_eq!(both.claim(1).await, 0);
    enqueue(&producer, 1).await;
    both.is_woken().await;
    assert_eq!(both.claim(1).await, 1, "this one is busy now");
    enqueue(&producer, 1).await;
    both.is_woken().await;
}
