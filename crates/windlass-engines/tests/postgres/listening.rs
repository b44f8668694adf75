//! How a process learns of the jobs that another one has enqueued: by a notification, also after its
//! listener was disconnected, and by polling when there is no listener.

use std::sync::Arc;
use std::time::Duration;

use windlass_conformance::harness::HintLog;
use windlass_core::engine::{Engine, Hint};
use windlass_engines::postgres::{Periods, PostgresEngine, PostgresOptions};
use windlass_servers::proxy::Proxy;

use super::{TestStore, WORKER, claim, enqueue, eventually, queue, server};

/// An engine that waits for work, and an engine that enqueues jobs.
pub(super) struct Pair {
    pub(super) waits: PostgresEngine,
    pub(super) other: PostgresEngine,
    hints: Arc<HintLog>,
}

impl Pair {
    pub(super) fn new(waits: PostgresEngine, other: PostgresEngine) -> Self {
        let hints = Arc::<HintLog>::default();
        waits.on_hint(Arc::<HintLog>::downgrade(&hints));
        Self { waits, other, hints }
    }

    /// Asserts that a notification wakes the idle engine: it finds nothing and registers as idle; a job
    /// that the other enqueues then wakes it, and it claims the job.
    pub(super) async fn assert_wakes(&self, place: &TestStore) {
        assert!(claim(&self.waits, 10).await.is_empty());
        until_marked(place);
        self.assert_is_woken().await;
    }

    /// Asserts that an engine that cannot register as idle finds the job.
    pub(super) async fn assert_finds(&self) {
        assert!(claim(&self.waits, 10).await.is_empty());
        self.assert_is_woken().await;
    }

    async fn assert_is_woken(&self) {
        self.hints.forget();
        enqueue(&self.other, 1).await;
        tokio::task::block_in_place(|| self.hints.wait_for(&Hint::Queue(queue())));
        assert_eq!(claim(&self.waits, 10).await.len(), 1);
    }
}

/// Returns periods in which no poll helps a listener.
pub(super) fn blind() -> Periods {
    Periods { scan_every: Duration::from_secs(3600), scans_after_idle: Vec::new(), ..Periods::default() }
}

/// Waits until a worker is registered as idle.
fn until_marked(place: &TestStore) {
    eventually("it waits", || (place.count("windlass.waiting") == 1).then_some(()));
}

/// Returns the sessions that listen, by their process ids. The last statement of such a session is the
/// `LISTEN`, or one for its own bookkeeping.
fn listeners(place: &TestStore) -> Vec<String> {
    let numbers = format!(
        "SELECT pid FROM pg_stat_activity WHERE state = 'idle' AND query SIMILAR TO '(LISTEN|NOTIFY) %{}%'",
        place.schema
    );
    place.sql(&numbers).lines().map(str::to_owned).collect()
}

/// Waits until the only engine that listens does so. Returns its session.
pub(super) fn until_listening(place: &TestStore) -> String {
    until_listening_anew(place, "none")
}

/// Waits until the engine listens in another session than before; the server may not have ended the old one
/// yet.
fn until_listening_anew(place: &TestStore, before: &str) -> String {
    eventually("it listens", || listeners(place).into_iter().find(|session| session != before))
}

/// Waits until this session has ended.
fn until_ended(place: &TestStore, session: &str) {
    let there = format!("pg_stat_activity WHERE pid = {session}");
    eventually("the session has ended", || (place.count(&there) == 0).then_some(()));
}

/// Opens a pair whose first engine listens through a proxy and does everything else without it. Returns the
/// session in which it listens, too.
async fn listening_through_a_proxy(periods: Periods) -> (Pair, TestStore, Proxy, String) {
    let proxy = Proxy::start(server().address()).unwrap();
    let place = TestStore::on(server().url());
    let listen_url = Some(proxy.url(&server().url()));
    let waits = place.open_with(PostgresOptions { listen_url, periods, ..place.options() }).await;
    super::make_ready(&waits).await;
    let other = place.open_with(PostgresOptions { listen: false, ..place.options() }).await;
    let session = until_listening(&place);
    (Pair::new(waits, other), place, proxy, session)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_leaves_is_not_sent_notifications_that_would_wake_no_worker() {
    let place = TestStore::on(server().url());
    let engine = place.ready().await;
    assert!(claim(&engine, 10).await.is_empty());
    until_marked(&place);
    engine.retire(WORKER).await.unwrap();
    assert_eq!(place.count("windlass.waiting"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_whose_connection_is_cut_listens_again() {
    let (pair, place, proxy, mut session) = listening_through_a_proxy(blind()).await;
    pair.assert_wakes(&place).await;
    for _ in 0..3 {
        proxy.cut_all();
        session = until_listening_anew(&place, &session);
        pair.assert_wakes(&place).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_whose_peer_falls_silent_notices_it_and_listens_again() {
    let (probe_every, probe_answer_within) = (Duration::from_millis(300), Duration::from_secs(3));
    let periods = Periods { probe_every, probe_answer_within, ..blind() };
    let (pair, place, proxy, session) = listening_through_a_proxy(periods).await;
    let connections = proxy.connections();
    proxy.freeze(true);
    eventually("the listener connects again", || (proxy.connections() > connections).then_some(()));
    // The frozen connection stays frozen for ever; a new connection opens.
    proxy.cut_all();
    proxy.freeze(false);
    until_listening_anew(&place, &session);
    pair.assert_wakes(&place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_listener_is_cut_off_work_is_found_by_looking() {
    let (pair, place, proxy, session) = listening_through_a_proxy(Periods::default()).await;
    proxy.refuse(true);
    proxy.cut_all();
    until_ended(&place, &session);
    assert!(listeners(&place).is_empty());
    pair.assert_wakes(&place).await;
}
