//! Leases and other processes: a process that waits for a lease gets a hint that it is free, and a store
//! that came back older gives no fence twice.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;
use windlass_core::admin::Changed;
use windlass_core::engine::{Engine, Hint, HintListener};
use windlass_core::lease::{
    LeaseFence, LeaseRelease, LeaseRequest, Leases, Released, Renewal, Renewed, Taking, TermId,
};
use windlass_core::names::DutyName;
use windlass_engines::redis::{RedisEngine, RedisOptions};

use crate::test_store::{TestStore, WORKER, ask, server};
use crate::words::bits;

/// The longest wait, sufficient for a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(120);

fn rescue() -> DutyName {
    DutyName::parse("rescue").unwrap()
}

async fn take(engine: &RedisEngine) -> LeaseFence {
    let duties = vec![(rescue(), Duration::from_secs(600))];
    let request = LeaseRequest { worker: WORKER, id: TermId::from_random(bits()), duties };
    match engine.take_leases(&request).await.unwrap()[..] {
        [Taking::Taken(term, _)] => LeaseFence { duty: rescue(), term },
        ref other => panic!("expected the lease to be free, got {other:?}"),
    }
}

/// Receives hints about leases, and the hint that it listens.
struct Listener(Sender<Hint>);

impl HintListener for Listener {
    fn hint(&self, hint: Hint) {
        if !matches!(hint, Hint::Queue(_) | Hint::Cancel(_)) {
            self.0.try_send(hint).expect("the channel has space for a few hints");
        }
    }
}

#[tokio::test]
async fn another_process_hears_at_once_of_a_lease_that_is_given_back_and_of_a_request_to_step_down() {
    let place = TestStore::shared();
    let deaf = RedisOptions { listen: false, ..place.options() };
    let (holder, person) = (place.open_with(deaf.clone()).await, place.open_with(deaf).await);
    let waits = place.open_with(place.options()).await;
    let (sender, mut hints) = channel(100);
    let listener: Arc<dyn HintListener> = Arc::new(Listener(sender));
    waits.on_hint(Arc::downgrade(&listener));
    let channel = place.key("stops");
    loop {
        let (_, listeners): (String, u64) = ask(&place.url, &["PUBSUB", "NUMSUB", &channel]);
        if listeners > 0 {
            break;
        }
        tokio::task::yield_now().await;
    }

    let lease = take(&holder).await;
    let mut hears_of_lease =
        async || while timeout(WAIT_MAX, hints.recv()).await.unwrap() != Some(Hint::Lease(rescue())) {};
    assert_eq!(person.step_down(&rescue()).await.unwrap(), Changed::Done);
    hears_of_lease().await;
    assert_eq!(holder.release_leases(&[LeaseRelease::from(&lease)]).await.unwrap(), [Released::Done]);
    hears_of_lease().await;
    take(&waits).await;
}

#[tokio::test]
async fn a_lease_that_the_store_forgot_or_that_was_damaged_is_taken_with_a_higher_fence() {
    let place = TestStore::shared();
    let engine = place.open_with(place.options()).await;
    let mut last = take(&engine).await.term.fence;
    for damage in ["", "7", "nonsense with spaces and all that", "1 2 3"] {
        let _: u64 = ask(&place.url, &["HSET", &place.key("leases"), "rescue", damage]);
        assert_eq!(engine.leases().await.unwrap().leases, []);
        let fence = take(&engine).await.term.fence;
        assert!(fence > last, "{damage}");
        last = fence;
    }
}

/// Requests the lease until it is granted. By the server's own clock, no request may be refused that was
/// sent after the lease had expired.
async fn take_when_free(engine: &RedisEngine, expiry: Duration) -> LeaseFence {
    loop {
        let before = engine.leases().await.unwrap();
        let expires = before.leases.first().map(|lease| lease.heartbeat.plus(lease.expiry));
        let duties = vec![(rescue(), expiry)];
        let request = LeaseRequest { worker: WORKER, id: TermId::from_random(bits()), duties };
        if let [Taking::Taken(term, _)] = engine.take_leases(&request).await.unwrap()[..] {
            return LeaseFence { duty: rescue(), term };
        }
        let is_held = expires.is_some_and(|expires| before.now <= expires);
        assert!(is_held, "expected a grant at {}, the lease expired at {expires:?}", before.now);
    }
}

#[tokio::test]
async fn by_the_servers_own_clock_a_silent_holder_is_followed_when_its_lease_expires_and_not_before() {
    let place = TestStore::shared();
    let (silent, waits) = (place.open_with(place.options()).await, place.open_with(place.options()).await);
    let expiry = Duration::from_millis(500);
    let old = take_when_free(&silent, expiry).await;
    let new = take_when_free(&waits, expiry).await;
    assert!(new.term.fence >= old.term.fence + 500_000, "a fence is no lower than the time in microseconds");
    assert_eq!(silent.leases_hold(&[old]).await.unwrap(), [false]);
}

#[tokio::test]
async fn a_store_that_came_back_empty_or_older_knows_the_terms_before_no_more_and_gives_higher_fences() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let engine = place.open_with(place.options()).await;
    let hash = place.key("leases");
    let first = take(&engine).await;
    let older: String = ask(&server.url(), &["HGET", &hash, "rescue"]);
    engine.release_leases(&[LeaseRelease::from(&first)]).await.unwrap();
    let second = take(&engine).await;
    // Restores the time when the first process held the lease: its lease must not become valid again beside
    // another.
    let _: u64 = ask(&server.url(), &["HSET", &hash, "rescue", &older]);
    assert_eq!(engine.leases_hold(std::slice::from_ref(&second)).await.unwrap(), [false]);
    let renewal = Renewal { lease: second.clone(), metadata: None };
    assert_eq!(engine.renew_leases(std::slice::from_ref(&renewal)).await.unwrap(), [Renewed::Lost]);
    engine.release_leases(&[LeaseRelease::from(&first)]).await.unwrap();
    let third = take(&engine).await;
    assert!(third.term.fence > second.term.fence);
    ask::<()>(&server.url(), &["FLUSHALL"]);
    assert_eq!(engine.renew_leases(&[renewal]).await.unwrap(), [Renewed::Lost]);
    assert!(take(&engine).await.term.fence > third.term.fence);
}
