//! What a process wants, notes, and is told of leases that cannot be taken.

use super::*;

fn noted(items: u64) -> LeaseMetadata {
    LeaseMetadata::parse(&format!(r#"{{"items":{items}}}"#)).unwrap()
}

/// What the renewal that is due carries.
fn carried(keeper: &mut LeaseKeeper, now: Moment) -> Option<LeaseMetadata> {
    match keeper.effects(now, id(2)).as_slice() {
        [LeaseEffect::Renew { renewals, .. }] => renewals[0].metadata.clone(),
        other => panic!("expected a renewal, got {other:?}"),
    }
}

#[test]
fn a_duty_that_is_not_wanted_is_given_back_and_not_asked_for_until_it_is() {
    let mut keeper = holder();
    assert_eq!(keeper.want(&rescue(), false, at(1)), gives_back());
    assert_eq!((keeper.wake_at(), keeper.effects(at(3600), id(2))), (Moment::MAX, vec![]));
    keeper.hinted(&rescue(), at(3600));
    assert_eq!(keeper.wake_at(), Moment::MAX, "not even if it is free");
    assert_eq!(keeper.want(&rescue(), true, at(4000)), []);
    assert_eq!(ask(&mut keeper, at(4000)), [rescue()]);
}

#[test]
fn a_grant_of_what_is_not_wanted_any_more_is_given_back() {
    let mut keeper = keeper();
    ask(&mut keeper, Moment::ZERO);
    assert_eq!(keeper.want(&rescue(), false, MILLI), []);
    let release = LeaseEffect::Release(vec![LeaseRelease::from(&fence(7))]);
    assert_eq!(hear(&mut keeper, Ok(vec![granted(7)]), at(1)), [release]);
}

#[test]
fn who_gives_way_and_is_alone_does_not_rest() {
    let mut keeper = holder();
    assert!(keeper.is_alone(&rescue()));
    assert_eq!(keeper.give_way(&rescue(), None, at(1)), gives_back());
    assert_eq!(keeper.wake_at(), at(1));
    assert_eq!(ask(&mut keeper, at(1)), [rescue()]);
    let next = LeaseFence { duty: rescue(), term: Term { fence: 8, id: id(2) } };
    let taken = Taking::Taken(next.term, LeaseMetadata::default());
    let start = LeaseEffect::Start { lease: next, metadata: Some(LeaseMetadata::default()) };
    assert_eq!(hear(&mut keeper, Ok(vec![taken]), at(1)), [start]);
}

#[test]
fn a_note_goes_with_each_renewal_until_the_store_has_it() {
    let mut keeper = holder();
    keeper.note(&rescue(), noted(1), at(1));
    assert_eq!(carried(&mut keeper, at(2)), Some(noted(1)));
    keeper.renewed(last_call(&keeper), Err(unavailable()), at(2));
    let again = keeper.wake_at();
    assert_eq!(carried(&mut keeper, again), Some(noted(1)));
    keeper.note(&rescue(), noted(2), again + MILLI);
    answer(&mut keeper, Renewed::Kept, again + MILLI);
    let next = keeper.wake_at();
    assert_eq!(carried(&mut keeper, next), Some(noted(2)), "it was noted while the last one was under way");
    answer(&mut keeper, Renewed::Kept, next);
    assert_eq!(carried(&mut keeper, next + DUTY_HEARTBEAT), None);
}

#[test]
fn a_note_goes_with_the_lease_that_is_given_back() {
    let release = |metadata| LeaseEffect::Release(vec![LeaseRelease { metadata, ..(&fence(7)).into() }]);
    let mut keeper = holder();
    keeper.note(&rescue(), noted(1), at(1));
    assert_eq!(keeper.stop()[1], release(Some(noted(1))));
    let mut keeper = holder();
    keeper.note(&rescue(), noted(1), at(1));
    assert_eq!(keeper.give_way(&rescue(), Some(noted(2)), at(1))[1], release(Some(noted(2))));
}

#[test]
fn a_lease_that_nobody_holds_and_that_cannot_be_taken_is_told_of_once() {
    let mut keeper = keeper();
    let mut told = Vec::new();
    while keeper.wake_at() < at(120) {
        let now = keeper.wake_at();
        ask(&mut keeper, now);
        told.extend(hear(&mut keeper, Ok(vec![Taking::Busy]), now));
    }
    assert_eq!(told, [LeaseEffect::Blocked { duty: rescue(), lasting: DUTY_EXPIRY * 3 }]);
    let now = keeper.wake_at();
    ask(&mut keeper, now);
    assert_eq!(hear(&mut keeper, Ok(vec![granted(7)]), now), [started(7)]);
}

#[test]
fn a_lease_for_which_the_store_has_no_room_is_told_of_once() {
    let mut keeper = keeper();
    let mut told = Vec::new();
    while keeper.wake_at() < at(600) {
        let now = keeper.wake_at();
        ask(&mut keeper, now);
        told.extend(hear(&mut keeper, Ok(vec![Taking::NoRoom]), now));
    }
    let [LeaseEffect::NoRoom { duty, lasting }] = &told[..] else { panic!("expected it once, got {told:?}") };
    assert!(*duty == rescue() && *lasting >= DUTY_EXPIRY * 3, "{lasting:?}");
}

#[test]
fn a_hint_that_names_no_lease_makes_no_holder_renew() {
    let mut keeper = holder();
    keeper.hinted_of_anything(at(1));
    assert_eq!(keeper.wake_at(), at(2), "its renewal is such a hint for others, and theirs for it");
}

#[test]
fn a_holder_in_doubt_asks_less_and_less_often_while_the_store_is_away() {
    let mut keeper = holder();
    let mut calls = 0;
    while keeper.wake_at() < at(900) {
        let now = keeper.wake_at();
        for effect in keeper.effects(now, id(2)) {
            if let LeaseEffect::Renew { call, .. } = effect {
                calls += 1;
                keeper.renewed(call, Err(unavailable()), now);
            }
        }
    }
    assert!((80..130).contains(&calls), "{calls} calls in a quarter of an hour");
}
