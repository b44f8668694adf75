//! Stores that hang or become unavailable, holders that must give way, and more duties than one call may
//! contain.

use super::*;

/// Returns the id of the request, and checks that it is for the lease.
fn request(lease_client: &mut LeaseClient, now: Moment, fresh: u128) -> TermId {
    match lease_client.effects(now, id(fresh)).as_slice() {
        [LeaseEffect::Try { id, .. }] => *id,
        other => panic!("expected a request, got {other:?}"),
    }
}

#[test]
fn a_request_that_may_have_been_granted_keeps_its_id_while_the_store_is_away() {
    let mut lease_client = lease_client();
    assert_eq!(request(&mut lease_client, Moment::ZERO, 1), id(1));
    receive(&mut lease_client, Err(unknown()), at(1));
    for fresh in 2..5 {
        let again = lease_client.wake_at();
        assert_eq!(request(&mut lease_client, again, fresh), id(1));
        receive(&mut lease_client, Err(unavailable()), again);
    }
    let again = lease_client.wake_at();
    request(&mut lease_client, again, 9);
    assert_eq!(receive(&mut lease_client, Ok(vec![granted(7)]), again), [started(7)]);
}

#[test]
fn a_renewal_without_an_answer_is_sent_again_after_a_heartbeat_and_saves_the_lease() {
    let mut lease_client = holder();
    renews(&mut lease_client, at(2));
    let hung = last_call(&lease_client);
    assert_eq!(lease_client.wake_at(), at(4));
    renews(&mut lease_client, at(4));
    assert_eq!(answer(&mut lease_client, Renewed::Kept, at(4)), []);
    assert!(lease_client.term(&rescue(), at(12)).is_some());
    // An answer to a much older call neither ends the trust nor prolongs it.
    assert_eq!(lease_client.renewed(hung, Ok(vec![(fence(7), Renewed::Kept)]), at(12)), []);
    assert!(lease_client.term(&rescue(), at(12)).is_some());
    assert_eq!(lease_client.term(&rescue(), at(13)), None);
}

#[test]
fn a_request_without_an_answer_is_sent_again_after_a_heartbeat_under_its_id() {
    let mut lease_client = lease_client();
    request(&mut lease_client, Moment::ZERO, 1);
    let hung = last_call(&lease_client);
    assert_eq!(lease_client.wake_at(), DUTY_HEARTBEAT);
    assert_eq!(request(&mut lease_client, DUTY_HEARTBEAT, 2), id(1));
    assert_eq!(receive(&mut lease_client, Ok(vec![granted(7)]), at(3)), [started(7)]);
    assert_eq!(lease_client.tried(hung, Ok(vec![granted(7)]), at(4)), [], "it begins once");
    assert_eq!(lease_client.term(&rescue(), at(10)), Some(fence(7).term));
}

#[test]
fn what_an_older_call_was_granted_counts_and_what_it_was_refused_does_not() {
    let mut lease_client = lease_client();
    request(&mut lease_client, Moment::ZERO, 1);
    let older = last_call(&lease_client);
    request(&mut lease_client, at(2), 2);
    assert_eq!(lease_client.tried(older, held(SECOND * 8), at(3)), []);
    assert_eq!(receive(&mut lease_client, Ok(vec![granted(7)]), at(3)), [started(7)]);

    let mut lease_client = super::lease_client();
    request(&mut lease_client, Moment::ZERO, 1);
    let older = last_call(&lease_client);
    request(&mut lease_client, at(2), 2);
    assert_eq!(lease_client.tried(older, Ok(vec![granted(7)]), at(3)), [started(7)]);
    assert_eq!(receive(&mut lease_client, Ok(vec![granted(7)]), at(3)), [], "it counts as a heartbeat");
    assert_eq!(lease_client.term(&rescue(), at(10)), Some(fence(7).term));
}

#[test]
fn who_was_told_to_give_way_and_then_lost_its_trust_does_not_begin_again() {
    let mut lease_client = holder();
    renews(&mut lease_client, at(2));
    assert_eq!(answer(&mut lease_client, Renewed::GiveWay, at(2)), [LeaseEffect::GiveWay(fence(7))]);
    renews(&mut lease_client, at(4));
    let hung = last_call(&lease_client);
    // No answer comes until the trust ends.
    assert_eq!(lease_client.effects(at(11), id(2)), [LeaseEffect::Stop(fence(7))]);
    assert_eq!(lease_client.renewed(hung, Ok(vec![(fence(7), Renewed::GiveWay)]), at(11)), []);
    assert_eq!(lease_client.wake_at(), at(11) + DUTY_EXPIRY, "it leaves the lease to others");
}

#[test]
fn who_lost_a_lease_that_it_was_to_give_back_leaves_it_to_others() {
    let mut lease_client = holder();
    renews(&mut lease_client, at(2));
    answer(&mut lease_client, Renewed::GiveWay, at(2));
    renews(&mut lease_client, at(4));
    assert_eq!(answer(&mut lease_client, Renewed::Lost, at(4)), [LeaseEffect::Stop(fence(7))]);
    assert_eq!(lease_client.wake_at(), at(4) + DUTY_EXPIRY);
}

#[test]
fn who_never_gives_way_is_not_renewed_for_ever() {
    let mut lease_client = holder();
    renews(&mut lease_client, at(2));
    answer(&mut lease_client, Renewed::GiveWay, at(2));
    let mut now = lease_client.wake_at();
    loop {
        let effects = lease_client.effects(now, id(2));
        if effects == [LeaseEffect::Stop(fence(7))] {
            break;
        }
        assert!(effects.len() <= 1, "{effects:?}");
        if !effects.is_empty() {
            answer(&mut lease_client, Renewed::GiveWay, now);
        }
        assert!(lease_client.wake_at() > now, "it does not busy-loop");
        now = lease_client.wake_at();
    }
    assert!(now <= at(2) + DUTY_EXPIRY * 2, "{now:?}");
}

#[test]
fn more_duties_than_one_call_takes_are_asked_for_and_renewed_in_parts() {
    let duties: Vec<_> = (0..250).map(|number| duty(&format!("duty-{number:03}"))).collect();
    let mut lease_client = LeaseClient::new(duties.clone(), LeaseTiming::default(), alone(), Moment::ZERO);
    let mut started = 0;
    for size in [100, 100, 50] {
        assert_eq!(ask(&mut lease_client, Moment::ZERO).len(), size);
        started += receive(&mut lease_client, Ok(vec![granted(7); size]), Moment::ZERO).len();
    }
    assert_eq!(started, 250);
    let sizes: Vec<_> = lease_client
        .effects(at(2), id(2))
        .iter()
        .map(|effect| match effect {
            LeaseEffect::Renew { renewals, .. } => renewals.len(),
            other => panic!("expected a renewal, got {other:?}"),
        })
        .collect();
    assert_eq!(sizes, [100, 100, 50]);
    let releases = lease_client.stop();
    assert_eq!(releases.iter().filter(|effect| matches!(effect, LeaseEffect::Release(_))).count(), 3);
}

#[test]
fn who_stops_gives_back_what_it_holds_and_what_it_may_hold() {
    let mut lease_client =
        LeaseClient::new([rescue(), duty("prune")], LeaseTiming::default(), alone(), Moment::ZERO);
    ask(&mut lease_client, Moment::ZERO);
    let elsewhere = Taking::Held { by: WorkerId::from_random(9), expires_in: SECOND };
    receive(&mut lease_client, Ok(vec![elsewhere, granted(7)]), Moment::ZERO);
    assert_eq!(request(&mut lease_client, at(1), 5), id(5));
    let prune = LeaseRelease { duty: duty("prune"), id: id(5), metadata: None };
    let release = LeaseEffect::Release(vec![LeaseRelease::from(&fence(7)), prune.clone()]);
    assert_eq!(lease_client.stop(), [LeaseEffect::Stop(fence(7)), release]);
    assert_eq!((lease_client.wake_at(), lease_client.effects(at(2), id(6))), (Moment::MAX, vec![]));
    let late = LeaseRelease { id: id(1), ..prune };
    let given_back = receive(&mut lease_client, Ok(vec![granted(7)]), at(2));
    assert_eq!(given_back, [LeaseEffect::Release(vec![late])], "no duty begins any more");
}

#[test]
fn a_lease_that_is_busy_or_has_no_room_is_asked_for_again_after_a_while() {
    for (taking, wait) in
        [(Taking::Busy, DUTY_HEARTBEAT / crate::lease::timing::AGAIN_PART), (Taking::NoRoom, DUTY_EXPIRY)]
    {
        let mut lease_client = lease_client();
        ask(&mut lease_client, Moment::ZERO);
        assert_eq!(receive(&mut lease_client, Ok(vec![taking]), at(1)), []);
        assert_eq!(lease_client.wake_at(), at(1) + wait);
    }
}

#[test]
fn a_hint_that_names_no_lease_makes_who_stands_by_look_but_not_all_the_time() {
    let mut lease_client = lease_client();
    ask(&mut lease_client, Moment::ZERO);
    receive(&mut lease_client, held(SECOND * 8), at(1));
    lease_client.hinted_of_anything(at(3));
    assert_eq!(ask(&mut lease_client, at(3)), [rescue()]);
    receive(&mut lease_client, held(SECOND * 6), at(3));
    lease_client.hinted_of_anything(at(3) + MILLI);
    assert_eq!(lease_client.wake_at(), at(3) + ANY_HINT_PAUSE);
}

#[test]
fn an_expiry_of_ages_is_refused_and_does_not_overflow() {
    assert!(LeaseTiming { heartbeat: Duration::MAX, expiry: SECOND }.check().is_err());
}
