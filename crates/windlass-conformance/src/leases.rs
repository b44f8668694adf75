//! The right to do a duty: one process at a time, each term under a fence of its own.

#![allow(missing_docs, reason = "the name of a behaviour is its sentence")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::admin::Changed;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Hint;
use windlass_core::lease::{
    LeaseFence, LeaseMetadata, LeaseRelease, LeaseRequest, Released, Renewal, Renewed, StoredLease, Taking,
    Term, TermId,
};
use windlass_core::limits::{DUTIES_MAX, DUTIES_PER_CALL_MAX, DUTY_EXPIRY, DUTY_EXPIRY_MAX, LEASE_KEPT};
use windlass_core::names::DutyName;
use windlass_core::worker::WorkerId;

use crate::harness::*;

const RESCUE: &str = "rescue";
const PRUNE: &str = "prune";

fn duty(name: &str) -> DutyName {
    DutyName::parse(name).expect("behaviours use plain names")
}

/// Creates a request of a new process for these duties.
fn request(h: &Harness, names: &[&str]) -> LeaseRequest {
    let duties = names.iter().map(|name| (duty(name), DUTY_EXPIRY)).collect();
    LeaseRequest {
        worker: WorkerId::from_random(h.fresh_bits()),
        id: TermId::from_random(h.fresh_bits()),
        duties,
    }
}

async fn ask(h: &Harness, request: &LeaseRequest) -> Vec<Taking> {
    h.engine.take_leases(request).await.expect(UP)
}

/// Lets a new process take the lease of one duty, which must be free.
async fn take(h: &Harness, name: &str) -> LeaseFence {
    match only(ask(h, &request(h, &[name])).await) {
        Taking::Taken(term, _) => LeaseFence { duty: duty(name), term },
        other => panic!("expected {name} to be free, got {other:?}"),
    }
}

async fn renew(h: &Harness, lease: &LeaseFence) -> Renewed {
    let renewal = Renewal { lease: lease.clone(), metadata: None };
    only(h.engine.renew_leases(&[renewal]).await.expect(UP))
}

async fn release(h: &Harness, lease: &LeaseFence) -> Released {
    only(h.engine.release_leases(&[LeaseRelease::from(lease)]).await.expect(UP))
}

async fn holds(h: &Harness, lease: &LeaseFence) -> bool {
    only(h.engine.leases_hold(std::slice::from_ref(lease)).await.expect(UP))
}

async fn stored(h: &Harness) -> Vec<StoredLease> {
    let read = h.engine.leases().await.expect(UP);
    assert_eq!(read.now, h.now());
    read.leases
}

pub async fn a_fresh_store_has_no_leases(h: &Harness) {
    assert_eq!(stored(h).await, []);
}

pub async fn a_lease_without_a_holder_is_taken(h: &Harness) {
    let request = request(h, &[RESCUE]);
    let Taking::Taken(term, _) = only(ask(h, &request).await) else { panic!("the lease is free") };
    assert_eq!(term.id, request.id);
    let expected = StoredLease {
        duty: duty(RESCUE),
        holder: Some(request.worker),
        term,
        since: h.now(),
        heartbeat: h.now(),
        expiry: DUTY_EXPIRY,
        takeovers: 0,
        asked_to_step_down: false,
        metadata: LeaseMetadata::default(),
    };
    assert_eq!(stored(h).await, [expected]);
    assert!(holds(h, &LeaseFence { duty: duty(RESCUE), term }).await);
}

pub async fn of_many_who_ask_at_once_one_gets_the_lease(h: &Harness) {
    let every_worker = async |h: &Harness| {
        let askers = (0..20).map(|_| {
            let (engine, request) = (Arc::clone(&h.engine), request(h, &[RESCUE, PRUNE]));
            async move { engine.take_leases(&request).await.expect(UP) }
        });
        let answers = h.at_once(askers.collect()).await;
        for place in 0..2 {
            let takers = answers.iter().filter(|takings| matches!(takings[place], Taking::Taken(..)));
            assert_eq!(takers.count(), 1);
        }
    };
    every_worker(h).await;
    h.advance(DUTY_EXPIRY);
    every_worker(h).await;
    assert!(stored(h).await.iter().all(|lease| lease.takeovers == 1));
}

pub async fn who_comes_second_is_told_who_holds_it_and_for_how_long(h: &Harness) {
    let first = request(h, &[RESCUE]);
    ask(h, &first).await;
    for (waited, expires_in) in [(secs(0), DUTY_EXPIRY), (secs(3), DUTY_EXPIRY - secs(3))] {
        h.advance(waited);
        let held = Taking::Held { by: first.worker, expires_in };
        assert_eq!(only(ask(h, &request(h, &[RESCUE])).await), held);
    }
}

pub async fn a_renewal_keeps_a_lease_from_expiring(h: &Harness) {
    let lease = take(h, RESCUE).await;
    for _ in 0..5 {
        h.advance(DUTY_EXPIRY - secs(1));
        assert_eq!(renew(h, &lease).await, Renewed::Kept);
        assert!(matches!(only(ask(h, &request(h, &[RESCUE])).await), Taking::Held { .. }));
    }
    assert_eq!(only(stored(h).await).heartbeat, h.now());
}

pub async fn an_expired_lease_is_taken_over_with_a_higher_fence(h: &Harness) {
    let first = take(h, RESCUE).await;
    h.advance(DUTY_EXPIRY);
    let second = take(h, RESCUE).await;
    assert!(second.term.fence > first.term.fence);
    assert_eq!(only(stored(h).await).takeovers, 1);
}

pub async fn after_a_takeover_the_old_term_writes_nothing(h: &Harness) {
    let old = take(h, RESCUE).await;
    h.advance(DUTY_EXPIRY);
    let new = take(h, RESCUE).await;
    let before = stored(h).await;
    h.advance(secs(1));
    let metadata = LeaseMetadata::parse(r#"{"late": true}"#).expect("an object");
    let late = Renewal { lease: old.clone(), metadata: Some(metadata) };
    assert_eq!(h.engine.renew_leases(&[late]).await.expect(UP), [Renewed::Lost]);
    assert_eq!(release(h, &old).await, Released::Lost);
    assert!(!holds(h, &old).await);
    assert_eq!(stored(h).await, before);
    assert!(holds(h, &new).await);
}

pub async fn a_forged_term_writes_nothing(h: &Harness) {
    let lease = take(h, RESCUE).await;
    let before = stored(h).await;
    h.advance(secs(1));
    let other_id = Term { id: TermId::from_random(h.fresh_bits()), ..lease.term };
    let other_fence = Term { fence: lease.term.fence + 1, ..lease.term };
    for term in [other_id, other_fence] {
        let forged = LeaseFence { term, ..lease.clone() };
        assert_eq!(renew(h, &forged).await, Renewed::Lost);
        assert!(!holds(h, &forged).await);
    }
    let forged = LeaseFence { term: other_id, ..lease.clone() };
    assert_eq!(release(h, &forged).await, Released::Lost);
    let elsewhere = LeaseFence { duty: duty(PRUNE), ..lease };
    assert_eq!(renew(h, &elsewhere).await, Renewed::Lost);
    assert_eq!(stored(h).await, before);
}

pub async fn a_term_that_expired_is_over_even_if_no_process_took_the_lease(h: &Harness) {
    let lease = take(h, RESCUE).await;
    h.advance(DUTY_EXPIRY - Duration::from_micros(1));
    assert!(holds(h, &lease).await);
    h.advance(Duration::from_micros(1));
    assert!(!holds(h, &lease).await);
    assert_eq!(renew(h, &lease).await, Renewed::Lost);
}

pub async fn a_released_lease_is_free_at_once_and_its_next_fence_is_higher(h: &Harness) {
    let mut last = 0;
    for _ in 0..3 {
        let lease = take(h, RESCUE).await;
        assert!(lease.term.fence > last);
        last = lease.term.fence;
        assert_eq!(release(h, &lease).await, Released::Done);
        assert!(!holds(h, &lease).await);
        assert_eq!(renew(h, &lease).await, Renewed::Lost);
        let free = only(stored(h).await);
        assert_eq!((free.holder, free.term, free.takeovers), (None, lease.term, 0));
    }
}

pub async fn a_repeated_request_is_answered_as_the_first_time(h: &Harness) {
    let other = request(h, &[PRUNE]);
    ask(h, &other).await;
    let request = request(h, &[RESCUE, PRUNE]);
    let first = ask(h, &request).await;
    assert!(matches!(first[..], [Taking::Taken(..), Taking::Held { .. }]));
    assert_eq!(ask(h, &request).await, first);
    h.advance(secs(3));
    assert_eq!(ask(h, &request).await[0], first[0]);
    let lease = &stored(h).await[1];
    assert_eq!(
        (lease.heartbeat, lease.since),
        (h.now(), h.now().minus(secs(3))),
        "taking the lease counts as a heartbeat"
    );
}

pub async fn a_request_twice_at_once_begins_one_term(h: &Harness) {
    let request = request(h, &[RESCUE]);
    let askers = (0..10).map(|_| {
        let (engine, request) = (Arc::clone(&h.engine), request.clone());
        async move { engine.take_leases(&request).await.expect(UP) }
    });
    let answers = h.at_once(askers.collect()).await;
    let term = only(stored(h).await).term;
    let taken = Taking::Taken(term, LeaseMetadata::default());
    assert!(answers.iter().all(|takings| *takings == [taken.clone()]), "{answers:?}");
}

pub async fn a_repeat_of_a_request_whose_term_is_over_takes_nothing(h: &Harness) {
    let given_back = request(h, &[RESCUE]);
    let Taking::Taken(term, _) = only(ask(h, &given_back).await) else { panic!("the lease is free") };
    release(h, &LeaseFence { duty: duty(RESCUE), term }).await;
    assert_eq!(ask(h, &given_back).await, [Taking::Over]);
    let expired = request(h, &[PRUNE]);
    ask(h, &expired).await;
    h.advance(DUTY_EXPIRY);
    assert_eq!(ask(h, &expired).await, [Taking::Over]);
    assert!(stored(h).await.iter().all(|lease| !lease.is_held(h.now())));
    take(h, RESCUE).await;
    take(h, PRUNE).await;
}

pub async fn a_repeated_release_is_answered_as_the_first_time(h: &Harness) {
    let lease = take(h, RESCUE).await;
    assert_eq!(release(h, &lease).await, Released::Done);
    let before = stored(h).await;
    assert_eq!(release(h, &lease).await, Released::Done);
    assert_eq!(stored(h).await, before);
    let next = take(h, RESCUE).await;
    assert_eq!(release(h, &lease).await, Released::Lost, "another process has taken it by now");
    assert!(holds(h, &next).await);
}

pub async fn a_request_to_step_down_is_told_to_the_holder_until_it_gives_way(h: &Harness) {
    let lease = take(h, RESCUE).await;
    assert_eq!(renew(h, &lease).await, Renewed::Kept);
    assert_eq!(h.engine.step_down(&duty(RESCUE)).await.expect(UP), Changed::Done);
    assert_eq!(h.engine.step_down(&duty(RESCUE)).await.expect(UP), Changed::Unchanged);
    for _ in 0..2 {
        h.advance(secs(2));
        assert_eq!(renew(h, &lease).await, Renewed::GiveWay);
    }
    assert!(holds(h, &lease).await, "the lease holds until it is released");
    release(h, &lease).await;
    let next = take(h, RESCUE).await;
    assert_eq!(renew(h, &next).await, Renewed::Kept, "the next lease was not tested");
}

pub async fn stepping_down_from_a_lease_without_a_holder_changes_nothing(h: &Harness) {
    assert_eq!(h.engine.step_down(&duty(RESCUE)).await.expect(UP), Changed::NotFound);
    let lease = take(h, RESCUE).await;
    h.advance(DUTY_EXPIRY);
    assert_eq!(h.engine.step_down(&duty(RESCUE)).await.expect(UP), Changed::Unchanged);
    release(h, &lease).await;
    assert_eq!(h.engine.step_down(&duty(RESCUE)).await.expect(UP), Changed::Unchanged);
}

pub async fn metadata_survive_renewals_releases_and_takeovers(h: &Harness) {
    let metadata = LeaseMetadata::parse(r#"{ "items": 9007199254740993, "b": "ü'\"\n😀", "a": null }"#)
        .expect("an object");
    let lease = take(h, RESCUE).await;
    let noted = Renewal { lease: lease.clone(), metadata: Some(metadata.clone()) };
    assert_eq!(h.engine.renew_leases(&[noted]).await.expect(UP), [Renewed::Kept]);
    renew(h, &lease).await;
    assert_eq!(only(stored(h).await).metadata, metadata);
    release(h, &lease).await;
    assert_eq!(only(stored(h).await).metadata, metadata);
    take(h, RESCUE).await;
    h.advance(DUTY_EXPIRY);
    take(h, RESCUE).await;
    assert_eq!(only(stored(h).await).metadata, metadata);
}

pub async fn a_clock_that_steps_back_keeps_who_lives_and_misses_who_died_one_expiry_later(h: &Harness) {
    h.advance(minutes(60));
    let (alive, dead) = (take(h, RESCUE).await, take(h, PRUNE).await);
    h.clock.set(h.now().minus(minutes(60)));
    assert_eq!(renew(h, &alive).await, Renewed::Kept);
    for takings in [ask(h, &request(h, &[RESCUE, PRUNE])).await, ask(h, &request(h, &[PRUNE])).await] {
        for taking in takings {
            assert!(matches!(taking, Taking::Held { expires_in: DUTY_EXPIRY, .. }), "{taking:?}");
        }
    }
    h.advance(DUTY_EXPIRY - secs(1));
    assert_eq!(renew(h, &alive).await, Renewed::Kept);
    h.advance(secs(1));
    let next = take(h, PRUNE).await;
    assert!(next.term.fence > dead.term.fence, "though the clock shows an earlier time");
    assert!(holds(h, &alive).await && !holds(h, &dead).await);
}

pub async fn the_duty_of_another_process_is_not_touched(h: &Harness) {
    let other = take(h, PRUNE).await;
    let untouched = stored(h).await;
    h.advance(secs(1));
    let lease = take(h, RESCUE).await;
    h.engine.step_down(&duty(RESCUE)).await.expect(UP);
    renew(h, &lease).await;
    release(h, &lease).await;
    let lease = take(h, RESCUE).await;
    assert_eq!(stored(h).await[..1], untouched);
    assert_eq!(h.engine.leases_hold(&[lease, other]).await.expect(UP), [true, true]);
}

pub async fn a_batch_is_answered_in_its_order(h: &Harness) {
    let middle = request(h, &["b"]);
    ask(h, &middle).await;
    let batch = request(h, &["c", "b", "a"]);
    let takings = ask(h, &batch).await;
    let [Taking::Taken(c, _), Taking::Held { by, .. }, Taking::Taken(a, _)] = takings[..] else {
        panic!("{takings:?}")
    };
    assert_eq!(by, middle.worker);
    let fence = |name, term| LeaseFence { duty: duty(name), term };
    let leases = [fence("c", c), fence("b", c), fence("a", a)];
    let releases = leases.each_ref().map(LeaseRelease::from);
    let renewals = leases.clone().map(|lease| Renewal { lease, metadata: None });
    let renewed = h.engine.renew_leases(&renewals).await.expect(UP);
    assert_eq!(renewed, [Renewed::Kept, Renewed::Lost, Renewed::Kept]);
    assert_eq!(h.engine.leases_hold(&leases).await.expect(UP), [true, false, true]);
    let released = h.engine.release_leases(&releases).await.expect(UP);
    assert_eq!(released, [Released::Done, Released::Lost, Released::Done]);
}

pub async fn leases_are_listed_by_name(h: &Harness) {
    for name in ["sweep", "prune", "a.b", "a-b", "rescue"] {
        take(h, name).await;
    }
    let names: Vec<_> = stored(h).await.iter().map(|lease| lease.duty.as_str().to_owned()).collect();
    assert_eq!(names, ["a-b", "a.b", "prune", "rescue", "sweep"]);
}

pub async fn calls_about_no_duty_are_answered_with_nothing(h: &Harness) {
    assert_eq!(ask(h, &request(h, &[])).await, []);
    assert_eq!(h.engine.renew_leases(&[]).await.expect(UP), []);
    assert_eq!(h.engine.release_leases(&[]).await.expect(UP), []);
    assert!(h.engine.leases_hold(&[]).await.expect(UP).is_empty());
}

pub async fn wrong_calls_are_refused_and_change_nothing(h: &Harness) {
    let lease = take(h, RESCUE).await;
    let before = stored(h).await;
    let names: Vec<_> = (0..=DUTIES_PER_CALL_MAX).map(|n| format!("duty-{n}")).collect();
    let many: Vec<_> = names.iter().map(|name| (duty(name), DUTY_EXPIRY)).collect();
    for duties in [
        many,
        vec![(duty("a"), DUTY_EXPIRY), (duty("b"), Duration::ZERO)],
        vec![(duty("a"), DUTY_EXPIRY_MAX + secs(1))],
        vec![(duty("a"), DUTY_EXPIRY); 2],
    ] {
        let wrong = LeaseRequest { duties, ..request(h, &[]) };
        assert!(h.engine.take_leases(&wrong).await.is_err());
    }
    h.advance(secs(1));
    let renewal = Renewal { lease: lease.clone(), metadata: None };
    assert!(h.engine.renew_leases(&[renewal.clone(), renewal]).await.is_err());
    let release = LeaseRelease::from(&lease);
    assert!(h.engine.release_leases(&[release.clone(), release]).await.is_err());
    let many: Vec<_> = names.iter().map(|name| LeaseFence { duty: duty(name), ..lease.clone() }).collect();
    let releases: Vec<_> = many.iter().map(LeaseRelease::from).collect();
    assert!(h.engine.release_leases(&releases).await.is_err());
    assert!(h.engine.leases_hold(&many).await.is_err());
    assert_eq!(stored(h).await, before);
}

pub async fn a_store_keeps_a_limited_number_of_leases(h: &Harness) {
    let names: Vec<_> = (0..DUTIES_MAX).map(|n| format!("duty-{n:04}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for part in names.chunks(DUTIES_PER_CALL_MAX) {
        ask(h, &request(h, part)).await;
    }
    let takings = ask(h, &request(h, &["one-more", names[0]])).await;
    assert!(matches!(takings[..], [Taking::NoRoom, Taking::Held { .. }]), "{takings:?}");
    assert_eq!(stored(h).await.len(), DUTIES_MAX as usize);
    h.advance(DUTY_EXPIRY);
    let takings = ask(h, &request(h, &["one-more", names[0]])).await;
    assert!(matches!(takings[..], [Taking::NoRoom, Taking::Taken(..)]), "{takings:?}");
}

pub async fn a_full_store_forgets_leases_without_a_holder_for_a_month(h: &Harness) {
    let names: Vec<_> = (0..DUTIES_MAX).map(|n| format!("duty-{n:04}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for part in names[1..].chunks(DUTIES_PER_CALL_MAX) {
        ask(h, &request(h, part)).await;
    }
    h.advance(secs(1));
    let last = take(h, names[0]).await;
    h.advance(LEASE_KEPT - secs(1) - Duration::from_micros(1));
    assert_eq!(ask(h, &request(h, &["one-more"])).await, [Taking::NoRoom], "a microsecond too early");
    h.advance(Duration::from_micros(1));
    let takings = ask(h, &request(h, &["one-more", names[1], "another"])).await;
    assert!(takings.iter().all(|taking| matches!(taking, Taking::Taken(..))), "{takings:?}");
    let left: Vec<_> = stored(h).await.iter().map(|lease| lease.duty.as_str().to_owned()).collect();
    assert_eq!(left, ["another", names[0], names[1], "one-more"]);
    assert!(take(h, names[2]).await.term.fence > last.term.fence, "a forgotten lease gets a higher fence");
}

pub async fn a_lease_is_given_back_by_its_request_alone_and_its_metadata_go_to_the_next(h: &Harness) {
    let unheard = request(h, &[RESCUE]);
    ask(h, &unheard).await;
    let metadata = LeaseMetadata::parse(r#"{ "runs": 7, "ü": "'\\" }"#).expect("an object");
    let release = LeaseRelease { duty: duty(RESCUE), id: unheard.id, metadata: Some(metadata.clone()) };
    assert_eq!(h.engine.release_leases(std::slice::from_ref(&release)).await.expect(UP), [Released::Done]);
    let next = request(h, &[RESCUE]);
    let Taking::Taken(term, kept) = only(ask(h, &next).await) else { panic!("the lease is free") };
    assert_eq!((term.id, kept), (next.id, metadata.clone()));
    assert_eq!(only(ask(h, &next).await), Taking::Taken(term, metadata), "a repeat gets the metadata too");
    assert_eq!(h.engine.release_leases(&[release]).await.expect(UP), [Released::Lost]);
}

pub async fn a_lease_that_is_given_back_is_hinted(h: &Harness) {
    let lease = take(h, RESCUE).await;
    let log = h.listen();
    release(h, &lease).await;
    log.wait_for(&Hint::Lease(duty(RESCUE)));
}

pub async fn a_request_to_step_down_is_hinted(h: &Harness) {
    take(h, RESCUE).await;
    let log = h.listen();
    h.engine.step_down(&duty(RESCUE)).await.expect(UP);
    log.wait_for(&Hint::Lease(duty(RESCUE)));
}

/// The answers of core to the same calls.
#[derive(Default)]
struct Model {
    leases: BTreeMap<DutyName, StoredLease>,
}

impl Model {
    fn save<T>(&mut self, (answer, after): (T, Option<StoredLease>)) -> T {
        self.leases.extend(after.map(|lease| (lease.duty.clone(), lease)));
        answer
    }

    fn take(&mut self, request: &LeaseRequest, now: Timestamp) -> Vec<Taking> {
        let each = |(duty, expiry): &(DutyName, Duration)| {
            let decided = StoredLease::take(self.leases.get(duty), duty, *expiry, request, now);
            self.save(decided)
        };
        request.duties.iter().map(each).collect()
    }
}

/// Makes one call on both, chosen by some bits; the answers must be equal.
async fn call_both(h: &Harness, model: &mut Model, requests: &mut Vec<LeaseRequest>, bits: u128) {
    let names =
        [["a", "b", "c"], ["b", "c", "d"], ["d", "a", "b"], ["c", "d", "a"]][(bits >> 8) as usize % 4];
    let names = &names[..1 + (bits >> 16) as usize % 3];
    let is_old = (bits >> 48).is_multiple_of(4);
    let old = requests[requests.len() - 1 - (bits >> 40) as usize % requests.len().min(6)].clone();
    // Chooses the newest term of each duty, or a term that may be over.
    let lease = |name: &&str| {
        let newest = model.leases.get(&duty(name)).map(|lease| lease.term);
        let term = newest.filter(|_| !is_old).unwrap_or(Term { fence: 1, id: old.id });
        LeaseFence { duty: duty(name), term }
    };
    let leases: Vec<_> = names.iter().map(lease).collect();
    let now = h.now();
    match (bits % 10) as u32 {
        0..=2 => {
            let expiry = DUTY_EXPIRY / (1 << ((bits >> 24) as u32 % 3));
            let duties = names.iter().map(|name| (duty(name), expiry)).collect();
            let request = LeaseRequest { duties, ..request(h, &[]) };
            assert_eq!(ask(h, &request).await, model.take(&request, now));
            requests.push(request);
        }
        3 => assert_eq!(ask(h, &old).await, model.take(&old, now), "a repeat"),
        4..=6 => {
            let note = LeaseMetadata::parse(&format!(r#"{{"n":{}}}"#, bits >> 100)).expect("an object");
            let metadata = (bits >> 32).is_multiple_of(2).then_some(note);
            let renewals: Vec<_> =
                leases.into_iter().map(|lease| Renewal { lease, metadata: metadata.clone() }).collect();
            let each = |renewal: &Renewal| {
                let decided = StoredLease::renew(model.leases.get(&renewal.lease.duty), renewal, now);
                model.save(decided)
            };
            let expected: Vec<_> = renewals.iter().map(each).collect();
            assert_eq!(h.engine.renew_leases(&renewals).await.expect(UP), expected);
        }
        7 => {
            let note = LeaseMetadata::parse(&format!(r#"{{"m":{}}}"#, bits >> 100)).expect("an object");
            let metadata = (bits >> 32).is_multiple_of(2).then_some(note);
            let releases: Vec<_> = leases
                .iter()
                .map(|lease| LeaseRelease { metadata: metadata.clone(), ..LeaseRelease::from(lease) })
                .collect();
            let each = |release: &LeaseRelease| {
                let decided = StoredLease::release(model.leases.get(&release.duty), release);
                model.save(decided)
            };
            let expected: Vec<_> = releases.iter().map(each).collect();
            assert_eq!(h.engine.release_leases(&releases).await.expect(UP), expected);
        }
        8 => {
            let held = |lease: &LeaseFence| {
                model.leases.get(&lease.duty).is_some_and(|stored| stored.holds(lease.term, now))
            };
            let expected: Vec<_> = leases.iter().map(held).collect();
            assert_eq!(h.engine.leases_hold(&leases).await.expect(UP), expected);
        }
        _ => {
            let decided = StoredLease::step_down(model.leases.get(&duty(names[0])), now);
            let expected = model.save(decided);
            assert_eq!(h.engine.step_down(&duty(names[0])).await.expect(UP), expected);
        }
    }
}

pub async fn leases_go_as_core_decides(h: &Harness) {
    let (mut model, mut requests) = (Model::default(), vec![request(h, &[RESCUE])]);
    for step in 0..400_u32 {
        let bits = h.fresh_bits().rotate_left(61).wrapping_mul(0xD1B5_4A32_D192_ED03_8CB9_2BA7_2F3D_8DD7);
        let bits = bits ^ (bits >> 67);
        call_both(h, &mut model, &mut requests, bits).await;
        let expected: Vec<_> = model.leases.values().cloned().collect();
        assert_eq!(stored(h).await, expected, "after step {step}");
        match (bits >> 56) as u32 % 40 {
            0 => h.clock.set(h.now().minus(minutes(3))),
            1..=25 => h.advance(Duration::from_millis((bits >> 64) as u64 % 3_000)),
            _ => {}
        }
    }
    let takeovers: u64 = model.leases.values().map(|lease| lease.takeovers).sum();
    assert!(takeovers > 3, "leases changed hands: {takeovers}");
}
