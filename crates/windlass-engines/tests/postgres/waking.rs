//! Which worker a notification wakes, and when none is sent. Each notification takes a lock of the whole
//! server at commit, so no process sends one for which no worker waits. A third session listens to all of
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, NoTls};
use windlass_conformance::harness::HintLog;
use windlass_core::claim::ClaimRequest;
use windlass_core::engine::{Declaration, Engine, Hint};
use windlass_core::enqueue::{NewJob, When};
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::queue::QueueSpec;
use windlass_core::settle::{AttemptReport, Transition};
use windlass_core::worker::WorkerId;
use windlass_engines::postgres::{Periods, PostgresEngine, PostgresOptions};

use super::listening::blind;
use super::{
    TestStore, WAIT_MAX, WORKER, card, claim, claim_request, claimed, declare, enqueue, eventually, new_job,
    queue, request, server, session,
};

/// The payload that a spy sends to itself. It is no queue's name.
const MARK: &str = "up to here";

/// A session that receives every notification that is sent to the engines of one schema.
struct Spy {
    client: Client,
    channel: String,
    notifications: UnboundedReceiver<(String, String)>,
}

impl Spy {
    async fn on(place: &TestStore, channels: impl IntoIterator<Item = &String>) -> Self {
        let (client, mut connection) = tokio_postgres::connect(&place.direct, NoTls).await.unwrap();
        let (sender, notifications) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(note) = message {
                    let _ = sender.send((note.channel().to_owned(), note.payload().to_owned()));
                }
            }
        });
        let channel = format!("wl_{}", place.schema);
        client.batch_execute(&format!("LISTEN {channel}")).await.unwrap();
        for own in channels {
            client.batch_execute(&format!("LISTEN {own}")).await.unwrap();
        }
        Self { client, channel, notifications }
    }

    /// Returns the notified channels and queues since the last call. Notifications arrive in the order of
    /// the commits that send them, so a notification that has not come before the spy's own was not sent.
    async fn notified(&mut self) -> Vec<(String, String)> {
        self.client.batch_execute(&format!("NOTIFY {}, '{MARK}'", self.channel)).await.unwrap();
        let mut notified = Vec::new();
        loop {
            match self.next().await {
                (_, payload) if payload == MARK => return notified,
                note => notified.push(note),
            }
        }
    }

    /// Waits for the next notification.
    async fn next(&mut self) -> (String, String) {
        let received = tokio::time::timeout(WAIT_MAX, self.notifications.recv()).await;
        received.expect("a notification arrives").expect("the session is open")
    }
}

/// Returns the channel of each listening engine of a schema. The last statement of a listening session
/// names it.
fn channels_of(place: &TestStore, engines: usize) -> BTreeSet<String> {
    let said = format!(
        "SELECT substring(query FROM 'LISTEN (wl_{0}_[0-9a-f]+)') FROM pg_stat_activity
         WHERE state = 'idle' AND query LIKE 'LISTEN wl_{0};%'",
        place.schema
    );
    eventually("all engines listen", || {
        let channels: BTreeSet<_> = place.sql(&said).lines().map(str::to_owned).collect();
        (channels.len() == engines).then_some(channels)
    })
}

/// Opens engines that do not poll, by the channels on which they are woken.
async fn waiters(place: &TestStore, count: usize) -> BTreeMap<String, PostgresEngine> {
    let mut waiters = BTreeMap::new();
    for n in 0..count {
        let engine = place.open_with(PostgresOptions { periods: blind(), ..place.options() }).await;
        declare(&engine).await;
        let all = channels_of(place, n + 1);
        let own = all.into_iter().find(|channel| !waiters.contains_key(channel)).expect("one channel is new");
        waiters.insert(own, engine);
    }
    waiters.values().next().expect("there is a waiting engine").register(card(WORKER)).await.unwrap();
    waiters
}

/// Opens an engine that waits, and returns its channel and a spy on it.
async fn one_waiter(place: &TestStore) -> (PostgresEngine, String, Spy) {
    let (channel, engine) = waiters(place, 1).await.pop_first().unwrap();
    let spy = Spy::on(place, [&channel]).await;
    (engine, channel, spy)
}

/// Opens an engine that enqueues jobs, and neither waits nor listens.
pub(super) async fn producer(place: &TestStore) -> PostgresEngine {
    place.open_with(PostgresOptions { listen: false, ..place.options() }).await
}

pub(super) fn until_marked(place: &TestStore, count: u64) {
    eventually("they wait", || (place.count("windlass.waiting") == count).then_some(()));
}

fn main_notified(channel: &str) -> Vec<(String, String)> {
    vec![(channel.to_owned(), queue().to_string())]
}

/// Declares a second queue, and a second type in the first one.
async fn declare_more(engine: &PostgresEngine) -> (QueueName, TypeName, TypeName) {
    let side = QueueName::parse("side").unwrap();
    let (aside, other) = (TypeName::parse("aside").unwrap(), TypeName::parse("other").unwrap());
    let types = vec![TypeSpec::new(aside.clone(), side.clone()), TypeSpec::new(other.clone(), queue())];
    engine.declare(Declaration { queues: vec![QueueSpec::new(side.clone())], types }).await.unwrap();
    (side, aside, other)
}

fn put(place: &TestStore, job_type: &str) {
    place.sql(&format!("SELECT windlass.enqueue('{job_type}')"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_notifies_no_worker_until_one_of_its_queue_says_that_it_waits() {
    let place = TestStore::on(server().url());
    let (waits, channel, mut spy) = one_waiter(&place).await;
    let producer = producer(&place).await;
    // A full claim does not register the worker as idle.
    enqueue(&producer, 1).await;
    assert_eq!(claim(&waits, 1).await.len(), 1);
    enqueue(&producer, 3).await;
    put(&place, "work");
    assert_eq!(spy.notified().await, [], "no worker is idle");
    assert_eq!(claim(&waits, 5).await.len(), 4);
    until_marked(&place, 1);
    enqueue(&producer, 1).await;
    assert_eq!(spy.notified().await, main_notified(&channel), "an engine's enqueue wakes it");
    put(&place, "work");
    assert_eq!(spy.notified().await, main_notified(&channel), "and so does the function");
    waits.retire(WORKER).await.unwrap();
    spy.notified().await;
    enqueue(&producer, 1).await;
    put(&place, "work");
    assert_eq!(spy.notified().await, [], "the worker has left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_not_notified_of_queues_and_types_that_it_does_not_wait_for() {
    let place = TestStore::on(server().url());
    let (waits, channel, mut spy) = one_waiter(&place).await;
    let (side, aside, other) = declare_more(&waits).await;
    assert!(claim(&waits, 5).await.is_empty());
    until_marked(&place, 1);
    put(&place, aside.as_str());
    put(&place, other.as_str());
    assert_eq!(spy.notified().await, []);
    put(&place, "work");
    assert_eq!(spy.notified().await, main_notified(&channel));
    let request =
        ClaimRequest { queues: vec![side.clone()], types: vec![aside.clone()], ..claim_request(WORKER, 5) };
    assert_eq!(claimed(waits.claim(request).await.unwrap()).len(), 1);
    until_marked(&place, 2);
    put(&place, aside.as_str());
    assert_eq!(spy.notified().await, [(channel, side.to_string())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_wakes_itself_by_its_own_enqueue_sends_no_notification() {
    let place = TestStore::on(server().url());
    let (waits, _, mut spy) = one_waiter(&place).await;
    assert!(claim(&waits, 5).await.is_empty());
    until_marked(&place, 1);
    enqueue(&waits, 1).await;
    assert_eq!(spy.notified().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_rolled_back_wakes_no_worker() {
    let place = TestStore::on(server().url());
    let (waits, _, mut spy) = one_waiter(&place).await;
    assert!(claim(&waits, 5).await.is_empty());
    until_marked(&place, 1);
    place.sql("BEGIN; SELECT windlass.enqueue('work'); ROLLBACK");
    assert_eq!(spy.notified().await, []);
}

/// The idle workers are read at commit: a worker may become idle while the transaction is still open.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_says_that_it_waits_between_an_enqueue_and_its_commit_is_woken_by_the_commit() {
    let place = TestStore::on(server().url());
    let (waits, channel, mut spy) = one_waiter(&place).await;
    let user = session(&place.direct).await;
    user.batch_execute(&format!("BEGIN; SELECT {}.enqueue('work')", place.schema)).await.unwrap();
    assert!(claim(&waits, 5).await.is_empty(), "no other session sees the job yet");
    until_marked(&place, 1);
    assert_eq!(spy.notified().await, [], "no worker is woken for a job that is not committed");
    user.batch_execute("COMMIT").await.unwrap();
    assert_eq!(spy.notified().await, main_notified(&channel));
    assert_eq!(claim(&waits, 5).await.len(), 1);
}

/// The last gap: the commit has read the idle workers and is not done yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_says_that_it_waits_too_late_for_a_commit_under_way_looks_again_by_itself() {
    let place = TestStore::on(server().url());
    let scans_after_idle = (1..30).map(Duration::from_secs).collect();
    let periods = Periods { scans_after_idle, ..blind() };
    let waits = place.open_with(PostgresOptions { periods, ..place.options() }).await;
    super::make_ready(&waits).await;
    let channels = channels_of(&place, 1);
    let mut spy = Spy::on(&place, &channels).await;
    let hints = Arc::<HintLog>::default();
    waits.on_hint(Arc::<HintLog>::downgrade(&hints));
    let gate = block_commits(&place).await;
    let user = session(&place.direct).await;
    let put = format!("SELECT {}.enqueue('work')", place.schema);
    let committing = tokio::spawn(async move { user.batch_execute(&put).await.map(|()| user) });
    until_blocked(&place);
    assert!(claim(&waits, 5).await.is_empty());
    until_marked(&place, 1);
    gate.batch_execute("ROLLBACK").await.unwrap();
    let _user = committing.await.unwrap().unwrap();
    assert_eq!(spy.notified().await, [], "the worker became idle too late for a notification");
    hints.forget();
    tokio::task::block_in_place(|| hints.wait_for(&Hint::Queue(queue())));
    assert_eq!(claim(&waits, 5).await.len(), 1);
}

/// Blocks commits from now on after they have read the idle workers, until the returned session ends its
/// transaction. Triggers of a row run in the order of their names.
async fn block_commits(place: &TestStore) -> Client {
    place.sql(
        "CREATE FUNCTION windlass.stop() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM 1 FROM windlass.gate FOR SHARE; RETURN NULL; END $$;
         CREATE TABLE windlass.gate AS SELECT 1;
         CREATE CONSTRAINT TRIGGER zz_stop AFTER INSERT ON windlass.count_deltas
         DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION windlass.stop()",
    );
    let gate = session(&place.direct).await;
    let shut = format!("BEGIN; SELECT 1 FROM {}.gate FOR UPDATE", place.schema);
    gate.batch_execute(&shut).await.unwrap();
    gate
}

fn until_blocked(place: &TestStore) {
    let blocked =
        format!("pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}.%'", place.schema);
    eventually("the commit is blocked", || (place.count(&blocked) == 1).then_some(()));
}

/// Waits for the one engine that is woken next, which claims one job. Returns its channel.
async fn woken(spy: &mut Spy, waiters: &BTreeMap<String, PostgresEngine>) -> String {
    let (channel, notified) = spy.next().await;
    assert_eq!(notified, queue().as_str());
    let woken = waiters.get(&channel).expect("the channel of a waiting engine");
    assert_eq!(claim(woken, 1).await.len(), 1);
    channel
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_who_wait_one_is_woken() {
    let place = TestStore::on(server().url());
    let waiters = waiters(&place, 3).await;
    for engine in waiters.values() {
        assert!(claim(engine, 1).await.is_empty());
    }
    until_marked(&place, 3);
    let mut spy = Spy::on(&place, waiters.keys()).await;
    let mut chosen = BTreeSet::new();
    // Each engine is as likely as the others; that one of three is never chosen in 100 rounds happens once
    // in 10^17.
    for _ in 0..100 {
        put(&place, "work");
        let notified = spy.notified().await;
        assert_eq!(notified.len(), 1, "{notified:?}");
        chosen.insert(notified[0].0.clone());
    }
    assert_eq!(chosen.len(), 3, "no engine is left out");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_woken_wakes_the_next_as_long_as_there_is_more_than_it_takes() {
    let place = TestStore::on(server().url());
    let waiters = waiters(&place, 4).await;
    for engine in waiters.values() {
        assert!(claim(engine, 1).await.is_empty());
    }
    until_marked(&place, 4);
    let mut spy = Spy::on(&place, waiters.keys()).await;
    let producer = producer(&place).await;
    enqueue(&producer, 3).await;
    let mut woken_so_far = BTreeSet::new();
    for _ in 0..3 {
        woken_so_far.insert(woken(&mut spy, &waiters).await);
    }
    assert_eq!(woken_so_far.len(), 3, "each woken engine is another one");
    // The engine that took the last job also registers as idle, and only then sends no further
    // notification.
    until_marked(&place, 1);
    assert_eq!(spy.notified().await, [], "no job is left, so the fourth engine sleeps on");
}

/// Opens an engine that does not poll, whose claims have read far past this moment, and which waits for
/// more jobs.
pub(super) async fn far_ahead(place: &TestStore) -> (PostgresEngine, Arc<HintLog>) {
    let waits = waiters(place, 1).await.pop_first().unwrap().1;
    for _ in 0..3 {
        enqueue(&waits, 500).await;
        assert_eq!(claim(&waits, 500).await.len(), 500);
    }
    assert!(claim(&waits, 5).await.is_empty());
    until_marked(place, 1);
    let hints = Arc::<HintLog>::default();
    waits.on_hint(Arc::<HintLog>::downgrade(&hints));
    (waits, hints)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_enqueued_long_before_its_commit_is_claimed_by_the_worker_that_the_commit_wakes() {
    let place = TestStore::on(server().url());
    declare(&place.open().await).await;
    let open = session(&place.direct).await;
    open.batch_execute(&format!("BEGIN; SELECT {}.enqueue('work')", place.schema)).await.unwrap();
    let (waits, hints) = far_ahead(&place).await;
    open.batch_execute("COMMIT").await.unwrap();
    hints.wait_for(&Hint::Queue(queue()));
    assert_eq!(claim(&waits, 5).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_since_long_ago_is_claimed_by_the_worker_that_its_enqueue_wakes() {
    let place = TestStore::on(server().url());
    let (waits, hints) = far_ahead(&place).await;
    place.sql("SELECT windlass.enqueue('work', run_at => now() - interval '1 hour')");
    hints.wait_for(&Hint::Queue(queue()));
    assert_eq!(claim(&waits, 5).await.len(), 1, "another process has enqueued it");
    let when = When::At(waits.now().await.unwrap().minus(Duration::from_secs(60)));
    waits.enqueue(request(vec![NewJob { when, ..new_job() }])).await.unwrap();
    assert_eq!(claim(&waits, 5).await.len(), 1, "its own process has enqueued it");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_gives_back_is_claimed_by_the_worker_that_it_wakes() {
    let place = TestStore::on(server().url());
    let other = producer(&place).await;
    declare(&other).await;
    let elsewhere = WorkerId::from_random(0xb0b);
    other.register(card(elsewhere)).await.unwrap();
    enqueue(&other, 1).await;
    let held = claimed(other.claim(claim_request(elsewhere, 1)).await.unwrap()).remove(0);
    let (waits, hints) = far_ahead(&place).await;
    let back = held.settled(Transition::Release { started: false }, AttemptReport::default());
    other.settle(vec![back]).await.unwrap();
    hints.wait_for(&Hint::Queue(queue()));
    assert_eq!(claim(&waits, 5).await.len(), 1);
}
