//! How one process learns what another one has put in: by a notification, also after its listener was cut off, and by
//! looking when there is no listener.

use std::sync::Arc;
use std::time::Duration;

use windlass_conformance::harness::HintLog;
use windlass_core::engine::{Engine, Hint};
use windlass_engines::postgres::{Periods, PostgresEngine, PostgresOptions};
use windlass_servers::proxy::Proxy;

use super::{Place, WORKER, claim, enqueue, eventually, queue, server};

/// An engine that waits for work, and one that puts some in.
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

    /// One finds nothing and waits; what the other puts in then wakes it, and it claims it.
    pub(super) async fn assert_wakes(&self) {
        assert!(claim(&self.waits, 10).await.is_empty());
        // may sleep: whoever begins to wait looks again up to a quarter of a second later, which is not meant here.
        tokio::time::sleep(Duration::from_millis(400)).await;
        self.hints.forget();
        enqueue(&self.other, 1).await;
        tokio::task::block_in_place(|| self.hints.wait_for(&Hint::Queue(queue())));
        assert_eq!(claim(&self.waits, 10).await.len(), 1);
    }
}

/// No look comes to the help of a listener.
pub(super) fn blind() -> Periods {
    Periods { look_every: Duration::from_secs(3600), ..Periods::default() }
}

fn is_listening(place: &Place) -> bool {
    let listening =
        format!("pg_stat_activity WHERE state = 'idle' AND query LIKE 'LISTEN %{}%'", place.schema);
    place.count(&listening) == 1
}

/// Waits until the one engine that listens does.
pub(super) fn until_listening(place: &Place) {
    eventually("it listens", || is_listening(place).then_some(()));
}

/// A pair whose first listens through a proxy, and does everything else without.
async fn listening_through_a_proxy(periods: Periods) -> (Pair, Place, Proxy) {
    let proxy = Proxy::start(server().address()).unwrap();
    let place = Place::on(server().url());
    let listen_url = Some(proxy.url(&server().url()));
    let waits = place.open_with(PostgresOptions { listen_url, periods, ..place.options() }).await;
    super::make_ready(&waits).await;
    let other = place.open_with(PostgresOptions { listen: false, ..place.options() }).await;
    until_listening(&place);
    (Pair::new(waits, other), place, proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_leaves_is_not_sent_notifications_that_would_wake_nobody() {
    let place = Place::on(server().url());
    let engine = place.ready().await;
    assert!(claim(&engine, 10).await.is_empty());
    let marks = format!("{}.waiting", place.schema);
    eventually("it waits", || (place.count(&marks) == 1).then_some(()));
    engine.retire(WORKER).await.unwrap();
    assert_eq!(place.count(&marks), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_whose_connection_is_cut_listens_again() {
    let (pair, place, proxy) = listening_through_a_proxy(blind()).await;
    pair.assert_wakes().await;
    for cuts in 1..4 {
        proxy.cut_all();
        eventually("it connects again", || (proxy.connections() > cuts).then_some(()));
        until_listening(&place);
        pair.assert_wakes().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_whose_peer_falls_silent_notices_it_and_listens_again() {
    let soon = Duration::from_millis(300);
    let periods = Periods { probe_every: soon, heard_within: soon, ..blind() };
    let (pair, place, proxy) = listening_through_a_proxy(periods).await;
    proxy.freeze(true);
    eventually("it connects again", || (proxy.connections() > 1).then_some(()));
    // What was frozen stays so for ever; a way around it opens.
    proxy.cut_all();
    proxy.freeze(false);
    until_listening(&place);
    pair.assert_wakes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_listener_is_cut_off_work_is_found_by_looking() {
    let (pair, place, proxy) = listening_through_a_proxy(Periods::default()).await;
    proxy.refuse(true);
    proxy.cut_all();
    eventually("nobody listens", || (!is_listening(&place)).then_some(()));
    pair.assert_wakes().await;
}
