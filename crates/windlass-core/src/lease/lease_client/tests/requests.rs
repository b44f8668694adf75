//! Duties that a process wants, notes that it stores, and reports of leases that cannot be taken.

use super::*;

fn noted(items: u64) -> LeaseMetadata {
    LeaseMetadata::parse(&format!(r#"{{"items":{items}}}"#)).unwrap()
}

/// Returns the metadata in the renewal that is due.
fn carried(lease_client: &mut LeaseClient, now: Moment) -> Option<LeaseMetadata> {
    match lease_client.effects(now, id(2)).as_slice() {
        [LeaseEffect::Renew { renewals, .. }] => renewals[0].metadata.clone(),
        other => panic!("expected a renewal, got {other:?}"),
    }
}

#[test]
fn a_duty_that_is_not_wanted_is_given_back_and_not_asked_for_until_it_is() {
    let mut lease_client = holder();
    assert_eq!(lease_client.want(&rescue(), false, at(1)), gives_back());
    assert_eq!((lease_client.wake_at(), lease_client.effects(at(3600), id(2))), (Moment::MAX, vec![]));
    lease_client.hinted(&rescue(), at(3600));
    assert_eq!(lease_client.wake_at(), Moment::MAX, "not even if the lease is free");
    assert_eq!(lease_client.want(&rescue(), true, at(4000)), []);
    assert_eq!(ask(&mut lease_client, at(4000)), [rescue()]);
}

#[test]
fn a_grant_of_what_is_not_wanted_any_more_is_given_back() {
    let mut lease_client = lease_client();
    ask(&mut lease_client, Moment::ZERO);
    assert_eq!(lease_client.want(&rescue(), false, MILLI), []);
    let release = LeaseEffect::Release(vec![LeaseRelease::from(&fence(7))]);
    assert_eq!(receive(&mut lease_client, Ok(vec![granted(7)]), at(1)), [release]);
}

#[test]
fn who_gives_way_and_is_alone_does_not_rest() {
    let mut lease_client = holder();
    assert!(lease_client.is_alone(&rescue()));
    assert_eq!(lease_client.give_way(&rescue(), None, at(1)), gives_back());
    assert_eq!(lease_client.wake_at(), at(1));
    assert_eq!(ask(&mut lease_client, at(1)), [rescue()]);
    let next = LeaseFence { duty: rescue(), term: Term { fence: 8, id: id(2) } };
    let taken = Taking::Taken(next.term, LeaseMetadata::default());
    let start = LeaseEffect::Start { lease: next, metadata: Some(LeaseMetadata::default()) };
    assert_eq!(receive(&mut lease_client, Ok(vec![taken]), at(1)), [start]);
}

#[test]
fn a_note_goes_with_each_renewal_until_the_store_has_it() {
    let mut lease_client = holder();
    lease_client.note(&rescue(), noted(1), at(1));
    assert_eq!(carried(&mut lease_client, at(2)), Some(noted(1)));
    lease_client.renewed(last_call(&lease_client), Err(unavailable()), at(2));
    let again = lease_client.wake_at();
    assert_eq!(carried(&mut lease_client, again), Some(noted(1)));
    lease_client.note(&rescue(), noted(2), again + MILLI);
    answer(&mut lease_client, Renewed::Kept, again + MILLI);
    let next = lease_client.wake_at();
    assert_eq!(
        carried(&mut lease_client, next),
        Some(noted(2)),
        "it was noted while the last renewal was in flight"
    );
    answer(&mut lease_client, Renewed::Kept, next);
    assert_eq!(carried(&mut lease_client, next + DUTY_HEARTBEAT), None);
}

#[test]
fn a_note_goes_with_the_lease_that_is_given_back() {
    let release = |metadata| LeaseEffect::Release(vec![LeaseRelease { metadata, ..(&fence(7)).into() }]);
    let mut lease_client = holder();
    lease_client.note(&rescue(), noted(1), at(1));
    assert_eq!(lease_client.stop()[1], release(Some(noted(1))));
    let mut lease_client = holder();
    lease_client.note(&rescue(), noted(1), at(1));
    assert_eq!(lease_client.give_way(&rescue(), Some(noted(2)), at(1))[1], release(Some(noted(2))));
}

#[test]
fn a_lease_without_a_holder_that_cannot_be_taken_is_told_of_once() {
    let mut lease_client = lease_client();
    let mut reported = Vec::new();
    while lease_client.wake_at() < at(120) {
        let now = lease_client.wake_at();
        ask(&mut lease_client, now);
        reported.extend(receive(&mut lease_client, Ok(vec![Taking::Busy]), now));
    }
    assert_eq!(reported, [LeaseEffect::Blocked { duty: rescue(), lasting: DUTY_EXPIRY * 3 }]);
    let now = lease_client.wake_at();
    ask(&mut lease_client, now);
    assert_eq!(receive(&mut lease_client, Ok(vec![granted(7)]), now), [started(7)]);
}

#[test]
fn a_lease_for_which_the_store_has_no_room_is_told_of_once() {
    let mut lease_client = lease_client();
    let mut reported = Vec::new();
    while lease_client.wake_at() < at(600) {
        let now = lease_client.wake_at();
        ask(&mut lease_client, now);
        reported.extend(receive(&mut lease_client, Ok(vec![Taking::NoRoom]), now));
    }
    let [LeaseEffect::NoRoom { duty, lasting }] = &reported[..] else {
        panic!("expected one report, got {reported:?}")
    };
    assert!(*duty == rescue() && *lasting >= DUTY_EXPIRY * 3, "{lasting:?}");
}

#[test]
fn a_hint_that_names_no_lease_makes_no_holder_renew() {
    let mut lease_client = holder();
    lease_client.hinted_of_anything(at(1));
    assert_eq!(
        lease_client.wake_at(),
        at(2),
        "its renewal is such a hint for others, and their renewals are such hints for it"
    );
}

#[test]
fn a_holder_in_doubt_asks_less_and_less_often_while_the_store_is_away() {
    let mut lease_client = holder();
    let mut calls = 0;
    while lease_client.wake_at() < at(900) {
        let now = lease_client.wake_at();
        for effect in lease_client.effects(now, id(2)) {
            if let LeaseEffect::Renew { call, .. } = effect {
                calls += 1;
                lease_client.renewed(call, Err(unavailable()), now);
            }
        }
    }
    assert!((80..130).contains(&calls), "{calls} calls in a quarter of an hour");
}
