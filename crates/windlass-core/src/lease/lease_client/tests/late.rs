//! Answers that come after their subject has changed.

use super::*;

/// A holder with two calls of one request in flight, of which the older was granted.
fn holder_with_a_call_under_way() -> (LeaseClient, LeaseCall) {
    let mut lease_client = lease_client();
    lease_client.saw(of_two(), Moment::ZERO);
    ask(&mut lease_client, Moment::ZERO);
    let older = last_call(&lease_client);
    let again = lease_client.wake_at();
    ask(&mut lease_client, again);
    let newer = last_call(&lease_client);
    assert_eq!(lease_client.tried(older, Ok(vec![granted(7)]), again), [started(7)]);
    (lease_client, newer)
}

#[test]
fn a_late_grant_does_not_bring_back_a_lease_that_was_given_back() {
    let (mut lease_client, newer) = holder_with_a_call_under_way();
    assert_eq!(lease_client.give_way(&rescue(), None, at(4)), gives_back());
    let effects = lease_client.tried(newer, Ok(vec![granted(7)]), at(4));
    assert_eq!(effects, [LeaseEffect::Release(vec![LeaseRelease::from(&fence(7))])], "to be sure");
    assert_eq!(lease_client.term(&rescue(), at(4)), None);
}

#[test]
fn a_late_refusal_of_a_lease_that_was_given_back_does_not_make_the_keeper_turn_in_a_circle() {
    for answer in [Ok(vec![Taking::Over]), held(SECOND), Ok(vec![Taking::Busy]), Err(unavailable())] {
        let (mut lease_client, newer) = holder_with_a_call_under_way();
        lease_client.give_way(&rescue(), None, at(4));
        let said = format!("{answer:?}");
        assert_eq!(lease_client.tried(newer, answer, at(4)), []);
        assert_eq!(lease_client.effects(at(4), id(5)), [], "{said}");
        assert!(lease_client.wake_at() >= at(4) + DUTY_EXPIRY, "{said}: it rests until then");
    }
}

#[test]
fn a_lease_granted_to_an_abandoned_request_is_taken_if_it_is_still_wanted() {
    let mut lease_client = lease_client();
    ask(&mut lease_client, Moment::ZERO);
    let older = last_call(&lease_client);
    ask(&mut lease_client, at(2));
    assert_eq!(receive(&mut lease_client, held(SECOND * 8), at(2)), [], "the newer call decides");
    assert_eq!(
        lease_client.tried(older, Ok(vec![granted(7)]), at(3)),
        [started(7)],
        "the older arrived later"
    );
    assert_eq!(lease_client.term(&rescue(), at(8)), Some(fence(7).term), "it is trusted from when it left");
    assert_eq!(lease_client.term(&rescue(), at(9)), None);
}

#[test]
fn what_is_granted_after_the_stop_is_given_back() {
    let mut lease_client = lease_client();
    ask(&mut lease_client, Moment::ZERO);
    let call = last_call(&lease_client);
    let unheard = LeaseRelease { duty: rescue(), id: id(1), metadata: None };
    assert_eq!(lease_client.stop(), [LeaseEffect::Release(vec![unheard.clone()])]);
    assert!(lease_client.is_waiting());
    // The release may have overtaken the request.
    assert_eq!(lease_client.tried(call, Ok(vec![granted(7)]), at(1)), [LeaseEffect::Release(vec![unheard])]);
    assert!(!lease_client.is_waiting());
}

#[test]
fn a_lease_that_an_abandoned_call_may_have_got_is_given_back_unless_it_is_ours() {
    let mut lease_client = lease_client();
    ask(&mut lease_client, Moment::ZERO);
    let older = last_call(&lease_client);
    ask(&mut lease_client, at(2));
    receive(&mut lease_client, held(SECOND * 8), at(2));
    let unheard = LeaseRelease { duty: rescue(), id: id(1), metadata: None };
    assert_eq!(lease_client.tried(older, Err(unknown()), at(3)), [LeaseEffect::Release(vec![unheard])]);

    let mut lease_client = super::lease_client();
    ask(&mut lease_client, Moment::ZERO);
    let older = last_call(&lease_client);
    ask(&mut lease_client, at(2));
    assert_eq!(receive(&mut lease_client, Ok(vec![granted(7)]), at(2)), [started(7)]);
    assert_eq!(
        lease_client.tried(older, Err(unknown()), at(3)),
        [],
        "it holds the lease that the call requested"
    );
}

#[test]
fn an_answer_about_too_few_duties_is_no_answer() {
    let mut lease_client =
        LeaseClient::new([rescue(), duty("prune")], LeaseTiming::default(), alone(), Moment::ZERO);
    ask(&mut lease_client, Moment::ZERO);
    assert_eq!(receive(&mut lease_client, held(SECOND), Moment::ZERO), []);
    assert!(lease_client.wake_at() > Moment::ZERO, "it does not send requests in a tight loop");
    let again = lease_client.wake_at();
    assert_eq!(ask(&mut lease_client, again).len(), 2);
}
