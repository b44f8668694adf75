//! A process that enqueues jobs wakes one worker that waits for them, and no other.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::timeout;
use windlass_core::claim::ClaimRequest;
use windlass_core::clock::ManualClock;
use windlass_core::engine::{Declaration, Engine, Hint, HintListener};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::job_type::TypeSpec;
use windlass_core::names::TypeName;
use windlass_core::worker::{WorkerCard, WorkerId};
use windlass_engines::redis::{Periods, RedisEngine, RedisOptions};
use windlass_servers::proxy::Proxy;

use crate::test_store::{
    TestStore, ask, card, claim_request, claimed, enqueue, kind, queue, request, server,
};
use crate::words;

/// The longest wait of a test.
const WAIT_MAX: Duration = Duration::from_secs(120);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Receives the hint that there is work.
struct Listener(Sender<()>);

impl HintListener for Listener {
    fn hint(&self, hint: Hint) {
        if hint == Hint::Queue(queue()) {
            self.0.try_send(()).expect("the channel has space for a few hints");
        }
    }
}

/// A process with a worker that can be woken.
struct Process {
    engine: RedisEngine,
    worker: WorkerId,
    hints: Receiver<()>,
    _listener: Arc<dyn HintListener>,
}

impl Process {
    async fn start(place: &TestStore, options: RedisOptions, number: u128) -> Self {
        let engine = place.open_with(options).await;
        let worker = WorkerId::from_random(number);
        engine.declare(words::declaration()).await.unwrap();
        engine.register(card(worker)).await.unwrap();
        let (sender, hints) = channel(100);
        let listener: Arc<dyn HintListener> = Arc::new(Listener(sender));
        engine.on_hint(Arc::downgrade(&listener));
        Self { engine, worker, hints, _listener: listener }
    }

    /// Claims at most this number of jobs. Returns how many it got.
    async fn claim(&self, limit: u32) -> usize {
        let request = ClaimRequest { worker: self.worker, ..claim_request(limit) };
        claimed(self.engine.claim(request).await.unwrap()).len()
    }

    async fn is_woken(&mut self) {
        timeout(WAIT_MAX, self.hints.recv())
            .await
            .expect("a hint wakes the worker")
            .expect("the listener is open");
    }

    fn was_woken(&mut self) -> bool {
        self.hints.try_recv().is_ok()
    }
}

/// Opens two processes that listen and one that enqueues jobs; returns their clock, too.
async fn env(place: &TestStore) -> (Process, Process, RedisEngine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let options = RedisOptions { clock: Some(clock.clone()), ..never_looks(place.options()) };
    let first = Process::start(place, options.clone(), 1).await;
    let second = Process::start(place, options.clone(), 2).await;
    let producer = place.open_with(RedisOptions { listen: false, ..options }).await;
    until_listening(2, place, &place.url).await;
    (first, second, producer, clock)
}

/// Returns options without polling: such an engine learns only from notifications.
fn never_looks(options: RedisOptions) -> RedisOptions {
    RedisOptions { periods: Periods { scan_every: HOUR, ..options.periods }, ..options }
}

/// Waits until this number of engines listen on this server.
pub(crate) async fn until_listening(count: usize, place: &TestStore, url: &str) {
    let listen = async {
        while ask::<Vec<String>>(url, &["PUBSUB", "CHANNELS", &place.key("wake:*")]).len() != count {
            tokio::task::yield_now().await;
        }
    };
    timeout(WAIT_MAX, listen).await.expect("the engines listen there");
}

fn in_a_while(seconds: u64) -> NewJob {
    NewJob { when: When::In(Duration::from_secs(seconds)), ..NewJob::new(kind(), Default::default()) }
}

/// Lets two workers wait, the first for longer. Then enqueues jobs that fall due later; only the first
/// worker is notified.
async fn only_the_first_knows_of(jobs: &[u64], env: &mut (Process, Process, RedisEngine, Arc<ManualClock>)) {
    let (first, second, producer, clock) = env;
    assert_eq!(first.claim(1).await, 0);
    clock.advance(Duration::from_millis(1));
    assert_eq!(second.claim(1).await, 0);
    while first.was_woken() || second.was_woken() {}
    producer.enqueue(words::request(jobs.iter().map(|after| in_a_while(*after)).collect())).await.unwrap();
    first.is_woken().await;
    assert_eq!(first.claim(1).await, 0);
    assert!(!second.was_woken());
}

#[tokio::test]
async fn what_falls_due_next_is_told_to_another_if_the_one_who_knows_of_it_has_no_room_any_more() {
    let place = TestStore::shared();
    let mut env = env(&place).await;
    only_the_first_knows_of(&[2, 5], &mut env).await;
    let (first, mut second, _producer, clock) = env;
    clock.advance(Duration::from_secs(3));
    assert_eq!(
        first.claim(1).await,
        1,
        "the first worker is busy from now on, with the second job still to come"
    );
    second.is_woken().await;
    assert_eq!(second.claim(1).await, 0, "now the second worker knows when that job falls due");
}

#[tokio::test]
async fn what_falls_due_next_is_told_to_another_if_the_one_who_knows_of_it_leaves() {
    let place = TestStore::shared();
    let mut env = env(&place).await;
    only_the_first_knows_of(&[5], &mut env).await;
    let (first, mut second, _producer, _clock) = env;
    first.engine.retire(first.worker).await.unwrap();
    second.is_woken().await;
}

#[tokio::test]
async fn what_falls_due_is_found_by_polling_if_no_process_is_left_that_knew_of_it() {
    let place = TestStore::shared();
    let gone = Process::start(&place, never_looks(place.options()), 1).await;
    assert_eq!(gone.claim(1).await, 0);
    // The other process can find the job in time only because it polls.
    let periods = Periods { probe_every: HOUR, scan_every: Duration::from_millis(700), ..Periods::default() };
    let mut other = Process::start(&place, RedisOptions { periods, ..place.options() }, 2).await;
    assert_eq!(other.claim(1).await, 0);
    until_listening(2, &place, &place.url).await;
    while other.was_woken() {}
    let soon = NewJob { when: When::In(Duration::from_secs(1)), ..in_a_while(0) };
    // The job is enqueued by the same process that then disappears without a notification, like a killed
    // process.
    gone.engine.enqueue(words::request(vec![soon])).await.unwrap();
    assert_eq!(gone.claim(1).await, 0);
    drop(gone);
    while other.claim(1).await == 0 {
        other.is_woken().await;
    }
}

/// A type that only one of two workers handles.
fn rare() -> TypeName {
    TypeName::parse("rare").unwrap()
}

#[tokio::test]
async fn a_worker_that_asks_all_the_time_keeps_no_look_from_what_another_of_its_process_handles() {
    let place = TestStore::shared();
    // No notification reaches this process, so that it learns of the job only by polling.
    let options = RedisOptions { listen: false, ..place.options() };
    let mut busy = Process::start(&place, options.clone(), 1).await;
    let types = vec![TypeSpec::new(rare(), queue())];
    busy.engine.declare(Declaration { queues: vec![], types }).await.unwrap();
    let idle = WorkerId::from_random(2);
    busy.engine.register(WorkerCard { types: vec![rare()], ..card(idle) }).await.unwrap();
    let of_idle = || ClaimRequest { worker: idle, types: vec![rare()], ..claim_request(1) };
    assert_eq!(claimed(busy.engine.claim(of_idle()).await.unwrap()), []);
    let producer = place.open_with(options).await;
    producer.enqueue(words::request(vec![NewJob::new(rare(), Default::default())])).await.unwrap();
    let told = async {
        while !busy.was_woken() {
            assert_eq!(busy.claim(1).await, 0, "the busy worker handles another type");
            // may sleep: this is a busy worker, not one that claims as fast as it can.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WAIT_MAX, told).await.expect("a poll finds the job");
    assert_eq!(claimed(busy.engine.claim(of_idle()).await.unwrap()).len(), 1);
}

#[tokio::test]
async fn a_busy_worker_does_not_wake_an_idle_one_again_for_what_that_one_knows() {
    let place = TestStore::shared();
    let (mut busy, mut idle, producer, clock) = env(&place).await;
    producer.enqueue(words::request(vec![in_a_while(5)])).await.unwrap();
    assert_eq!(busy.claim(1).await, 0);
    clock.advance(Duration::from_millis(1));
    assert_eq!(idle.claim(5).await, 0, "the worker knows of the next due job");
    while busy.was_woken() || idle.was_woken() {}
    enqueue(&producer, 1).await;
    busy.is_woken().await;
    assert_eq!(busy.claim(1).await, 1);
    let waiters: usize = ask(&place.url, &["ZCARD", &place.key("waiters:main")]);
    assert_eq!((waiters, idle.was_woken()), (1, false), "the worker still waits");
}

#[tokio::test]
async fn who_waits_in_the_process_of_the_producer_is_told_before_the_enqueue_is_answered() {
    let server = server(&[]);
    let proxy = Proxy::start(server.address()).unwrap();
    let place = TestStore::on(proxy.url(&server.url()));
    let mut process = Process::start(&place, never_looks(place.impatient()), 1).await;
    enqueue(&process.engine, 1).await;
    assert_eq!(process.claim(5).await, 1, "now the server has the scripts");
    until_listening(1, &place, &server.url()).await;
    while process.was_woken() {}
    proxy.swallow_answers(true);
    tokio::select! {
        biased;
        answer = process.engine.enqueue(request(1)) => panic!("expected no answer, got {answer:?}"),
        heard = process.hints.recv() => assert!(heard.is_some()),
    }
}

/// More concurrent calls than one connection accepts.
const VERY_MANY: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_put_in_beside_very_many_calls_is_found_by_its_hint_alone() {
    let place = TestStore::shared();
    let Process { engine, worker, mut hints, _listener } =
        Process::start(&place, never_looks(place.options()), 1).await;
    let engine = Arc::new(engine);
    let claim = async || {
        let request = ClaimRequest { worker, ..claim_request(5) };
        claimed(engine.claim(request).await.unwrap()).len()
    };
    enqueue(&engine, 1).await;
    assert_eq!(claim().await, 1, "now the server has the scripts");
    for round in 0..100 {
        while hints.try_recv().is_ok() {}
        let mut calls = JoinSet::new();
        for _ in 0..VERY_MANY {
            let engine = engine.clone();
            calls.spawn(async move { engine.now().await });
        }
        let found = async {
            loop {
                let heard = timeout(WAIT_MAX, hints.recv()).await;
                assert!(
                    heard.is_ok(),
                    "a claim overtook the enqueue in round {round}, and no notification was sent"
                );
                if claim().await > 0 {
                    break;
                }
            }
        };
        let (stored, ()) = tokio::join!(engine.enqueue(request(1)), found);
        assert_eq!(stored.unwrap().len(), 1);
        calls.join_all().await;
    }
}

#[tokio::test]
async fn a_process_that_waits_for_what_it_puts_in_is_told_once_and_not_by_the_server() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let mut process = Process::start(&place, never_looks(place.options()), 1).await;
    until_listening(1, &place, &server.url()).await;
    enqueue(&process.engine, 1).await;
    assert_eq!(process.claim(5).await, 1, "now the server has the scripts, and the worker waits");
    while process.was_woken() {}
    for _ in 0..5 {
        enqueue(&process.engine, 1).await;
        process.is_woken().await;
        assert_eq!(process.claim(5).await, 1);
        assert!(!process.was_woken(), "a second claim would find nothing");
    }
    let run: String = ask(&server.url(), &["INFO", "commandstats"]);
    assert!(!run.contains("cmdstat_publish"), "{run}");
}

#[tokio::test]
async fn a_worker_that_has_no_room_any_more_is_not_woken_in_place_of_one_that_has() {
    let place = TestStore::shared();
    let (mut busy, mut idle, producer, clock) = env(&place).await;
    // Two jobs that fall due later: no worker is woken when they do.
    producer.enqueue(words::request(vec![in_a_while(5); 2])).await.unwrap();
    assert_eq!(busy.claim(2).await, 0, "this worker has waited longest");
    clock.advance(Duration::from_secs(6));
    assert_eq!(busy.claim(2).await, 2, "and found work by itself");
    assert_eq!(idle.claim(2).await, 0);
    while busy.was_woken() || idle.was_woken() {}
    enqueue(&producer, 1).await;
    idle.is_woken().await;
    assert_eq!(idle.claim(2).await, 1);
    assert!(!busy.was_woken(), "the worker cannot run the job");
}

#[tokio::test]
async fn a_worker_that_went_is_not_woken_in_place_of_one_that_waits() {
    let place = TestStore::shared();
    let (mut gone, mut idle, producer, clock) = env(&place).await;
    assert_eq!(gone.claim(2).await, 0);
    clock.advance(Duration::from_secs(1));
    assert_eq!(idle.claim(2).await, 0);
    gone.engine.retire(gone.worker).await.unwrap();
    idle.is_woken().await;
    assert_eq!(idle.claim(2).await, 0, "the worker waits again");
    enqueue(&producer, 1).await;
    idle.is_woken().await;
    assert!(!gone.was_woken(), "its process continues, and has no worker to wake");
}

#[tokio::test]
async fn of_two_workers_of_one_process_the_busy_one_does_not_keep_the_other_from_being_woken() {
    let place = TestStore::shared();
    let (mut both, _, producer, _clock) = env(&place).await;
    let other = WorkerId::from_random(3);
    both.engine.register(card(other)).await.unwrap();
    let request = |limit| ClaimRequest { worker: other, ..claim_request(limit) };
    assert_eq!(claimed(both.engine.claim(request(5)).await.unwrap()), [], "the other worker waits");
    enqueue(&producer, 1).await;
    both.is_woken().await;
    assert_eq!(claimed(both.engine.claim(request(5)).await.unwrap()).len(), 1, "and waits for more");
    assert_eq!(both.claim(1).await, 0);
    enqueue(&producer, 1).await;
    both.is_woken().await;
    assert_eq!(both.claim(1).await, 1, "this worker is busy now");
    enqueue(&producer, 1).await;
    both.is_woken().await;
}
