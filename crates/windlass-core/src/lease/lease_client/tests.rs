mod many;
mod trouble;
mod late;
mod requests;
mod traffic;

use super::*;
use crate::error::EngineError;
use crate::lease::membership::{DutyCount, MemberCount, Peer};
use crate::lease::{Renewed, Taking};
use crate::limits::{DUTY_EXPIRY, DUTY_HEARTBEAT};
use crate::worker::WorkerId;

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

fn at(seconds: u32) -> Moment {
    SECOND * seconds
}

fn duty(name: &str) -> DutyName {
    DutyName::parse(name).unwrap()
}

fn rescue() -> DutyName {
    duty("rescue")
}

fn id(bits: u128) -> TermId {
    TermId::from_random(bits)
}

fn fence(number: i64) -> LeaseFence {
    LeaseFence { duty: rescue(), term: Term { fence: number, id: id(1) } }
}

fn alone() -> Membership {
    Membership::alone()
}

/// The membership of one of two processes, both of which stand by.
fn of_two() -> Membership {
    let count = MemberCount { live: 2, duties: vec![DutyCount { duty: rescue(), able: 2, before: 0 }] };
    Membership::new(WorkerId::from_random(1), count)
}

/// The membership of one of `count` processes that does not stand by.
fn one_of(count: u128) -> Membership {
    let peer = |bits| Peer { worker: WorkerId::from_random(bits), duties: vec![rescue()] };
    let peers: Vec<_> = (0..count).map(peer).collect();
    let mut membership = peers.iter().map(|peer| Membership::of(peer.worker, &peer.duties, &peers));
    membership.find(|membership| !membership.of_duty(&rescue()).stands_by()).unwrap()
}

fn lease_client() -> LeaseClient {
    LeaseClient::new([rescue()], LeaseTiming::default(), alone(), Moment::ZERO)
}

/// A process that requested the lease at 0 and holds it.
fn holder() -> LeaseClient {
    let mut lease_client = lease_client();
    assert_eq!(ask(&mut lease_client, Moment::ZERO), [rescue()]);
    let call = last_call(&lease_client);
    let taken = lease_client.tried(call, Ok(vec![granted(7)]), MILLI);
    assert_eq!(taken, [started(7)]);
    lease_client
}

fn granted(number: i64) -> Taking {
    Taking::Taken(fence(number).term, LeaseMetadata::default())
}

/// The effect that starts a duty in a new term.
fn started(number: i64) -> LeaseEffect {
    LeaseEffect::Start { lease: fence(number), metadata: Some(LeaseMetadata::default()) }
}

/// The last call that was sent.
fn last_call(lease_client: &LeaseClient) -> LeaseCall {
    LeaseCall(lease_client.next_call)
}

fn receive(
    lease_client: &mut LeaseClient,
    answer: Result<Vec<Taking>, EngineError>,
    now: Moment,
) -> Vec<LeaseEffect> {
    lease_client.tried(last_call(lease_client), answer, now)
}

/// Returns the requested duties; the request must be the only effect.
fn ask(lease_client: &mut LeaseClient, now: Moment) -> Vec<DutyName> {
    match lease_client.effects(now, id(1)).as_slice() {
        [LeaseEffect::Try { duties, .. }] => duties.iter().map(|(duty, _)| duty.clone()).collect(),
        other => panic!("expected a request, got {other:?}"),
    }
}

/// The last renewal that was sent.
fn renewal(lease_client: &LeaseClient) -> LeaseEffect {
    let renewals = vec![Renewal { lease: fence(7), metadata: None }];
    LeaseEffect::Renew { call: last_call(lease_client), renewals }
}

fn renews(lease_client: &mut LeaseClient, now: Moment) {
    let effects = lease_client.effects(now, id(2));
    assert_eq!(effects, [renewal(lease_client)]);
}

fn answer(lease_client: &mut LeaseClient, renewed: Renewed, now: Moment) -> Vec<LeaseEffect> {
    lease_client.renewed(last_call(lease_client), Ok(vec![(fence(7), renewed)]), now)
}

/// The effects that stop the duty and release its lease.
fn gives_back() -> Vec<LeaseEffect> {
    vec![LeaseEffect::Stop(fence(7)), LeaseEffect::Release(vec![LeaseRelease::from(&fence(7))])]
}

fn held(expires_in: Duration) -> Result<Vec<Taking>, EngineError> {
    Ok(vec![Taking::Held { by: WorkerId::from_random(9), expires_in }])
}

fn unknown() -> EngineError {
    EngineError::Unknown { why: "no answer came".to_owned() }
}

fn unavailable() -> EngineError {
    EngineError::Unavailable { why: "the store is down".to_owned() }
}

#[test]
fn a_holder_renews_every_heartbeat_counted_from_when_the_last_one_left() {
    let mut lease_client = holder();
    assert_eq!(lease_client.wake_at(), at(2));
    renews(&mut lease_client, at(2));
    assert_eq!(lease_client.effects(at(3), id(2)), [], "a renewal is in flight");
    assert_eq!(answer(&mut lease_client, Renewed::Kept, at(3)), []);
    assert_eq!(lease_client.wake_at(), at(4));
}

#[test]
fn a_lease_is_trusted_from_when_its_request_left_less_a_margin() {
    let mut lease_client = holder();
    renews(&mut lease_client, at(2));
    answer(&mut lease_client, Renewed::Kept, at(8));
    let deadline = at(2) + LeaseTiming::default().trust();
    assert_eq!(lease_client.term(&rescue(), deadline - MILLI), Some(fence(7).term));
    assert_eq!(lease_client.term(&rescue(), deadline), None);
}

#[test]
fn renewals_that_fail_change_nothing_until_the_local_deadline_and_end_it_there() {
    let mut lease_client = holder();
    let mut now = at(2);
    while now < at(9) {
        renews(&mut lease_client, now);
        assert_eq!(lease_client.renewed(last_call(&lease_client), Err(unavailable()), now), []);
        assert!(lease_client.term(&rescue(), now).is_some());
        now = lease_client.wake_at();
    }
    assert_eq!(now, at(9), "it wakes for the deadline");
    assert_eq!(lease_client.effects(now, id(2))[0], LeaseEffect::Stop(fence(7)));
    assert_eq!(lease_client.term(&rescue(), now), None);
}

#[test]
fn a_renewal_whose_answer_comes_after_the_deadline_does_not_make_it_leader_without_a_fresh_look() {
    let mut lease_client = holder();
    renews(&mut lease_client, at(8));
    let before = last_call(&lease_client);
    let effects = lease_client.effects(at(9), id(2));
    assert_eq!(effects, [LeaseEffect::Stop(fence(7)), renewal(&lease_client)]);
    assert_eq!(lease_client.renewed(before, Ok(vec![(fence(7), Renewed::Kept)]), at(10)), []);
    assert_eq!(lease_client.term(&rescue(), at(10)), None, "it was sent before the doubt");
    let goes_on = LeaseEffect::Start { lease: fence(7), metadata: None };
    assert_eq!(answer(&mut lease_client, Renewed::Kept, at(11)), [goes_on]);
    assert_eq!(lease_client.term(&rescue(), at(11)), Some(fence(7).term));
}

#[test]
fn a_late_answer_stops_the_duty_even_without_a_check_of_the_deadline() {
    let mut lease_client = holder();
    renews(&mut lease_client, at(8));
    assert_eq!(answer(&mut lease_client, Renewed::Kept, at(10)), [LeaseEffect::Stop(fence(7))]);
    assert_eq!(lease_client.term(&rescue(), at(10)), None);
    renews(&mut lease_client, at(10));
}

#[test]
fn a_holder_that_slept_past_its_term_stops_before_anything_else_and_learns_that_it_is_lost() {
    let mut lease_client = holder();
    assert_eq!(lease_client.term(&rescue(), at(3600)), None, "even before the store answered");
    let effects = lease_client.effects(at(3600), id(2));
    assert_eq!(effects, [LeaseEffect::Stop(fence(7)), renewal(&lease_client)]);
    assert_eq!(answer(&mut lease_client, Renewed::Lost, at(3600)), [], "it has stopped already");
    assert_eq!(ask(&mut lease_client, at(3600)), [rescue()]);
}

#[test]
fn a_holder_frozen_between_question_and_answer_does_not_trust_the_answer() {
    let mut lease_client = lease_client();
    ask(&mut lease_client, Moment::ZERO);
    assert_eq!(receive(&mut lease_client, Ok(vec![granted(7)]), at(60)), []);
    assert_eq!(lease_client.term(&rescue(), at(60)), None);
    renews(&mut lease_client, at(60));
    assert_eq!(answer(&mut lease_client, Renewed::Lost, at(61)), []);
}

#[test]
fn a_lease_that_was_lost_stops_the_duty_at_once() {
    let mut lease_client = holder();
    renews(&mut lease_client, at(2));
    assert_eq!(answer(&mut lease_client, Renewed::Lost, at(3)), [LeaseEffect::Stop(fence(7))]);
    assert_eq!(lease_client.term(&rescue(), at(3)), None);
}

#[test]
fn who_stands_by_sleeps_exactly_until_the_lease_could_have_expired() {
    let mut lease_client = lease_client();
    ask(&mut lease_client, Moment::ZERO);
    receive(&mut lease_client, held(SECOND * 8), at(1));
    assert_eq!(lease_client.wake_at(), at(9));
    assert_eq!(lease_client.effects(at(9) - MILLI, id(1)), []);
    assert_eq!(ask(&mut lease_client, at(9)), [rescue()]);
}

#[test]
fn a_lease_about_to_expire_is_not_asked_for_in_a_tight_loop() {
    let mut lease_client = lease_client();
    ask(&mut lease_client, Moment::ZERO);
    receive(&mut lease_client, held(Duration::ZERO), at(1));
    assert!(lease_client.wake_at() > at(1));
}

#[test]
fn one_of_a_thousand_looks_once_in_a_thousand_seconds_and_not_at_once_at_the_start() {
    let members = one_of(1_000);
    let mut lease_client =
        LeaseClient::new([rescue()], LeaseTiming::default(), members.clone(), Moment::ZERO);
    let first = lease_client.wake_at();
    assert_eq!(first, members.of_duty(&rescue()).first_look_after());
    ask(&mut lease_client, first);
    receive(&mut lease_client, held(SECOND * 8), first);
    assert_eq!(lease_client.wake_at(), first + at(1_000));
    lease_client.hinted(&rescue(), first);
    assert_eq!(lease_client.wake_at(), first + at(1_000), "only standbys act on a hint");
    lease_client.saw(alone(), first + SECOND);
    assert_eq!(lease_client.wake_at(), first + SECOND, "now it stands by");
}

#[test]
fn one_that_hears_of_many_more_looks_as_much_later_and_of_fewer_as_much_sooner() {
    let mut lease_client = LeaseClient::new([rescue()], LeaseTiming::default(), one_of(10), Moment::ZERO);
    let first = lease_client.wake_at();
    assert!(!first.is_zero() && first <= at(10), "{first:?}");
    lease_client.saw(one_of(1_000), Moment::ZERO);
    let later = lease_client.wake_at();
    assert!((first * 99..=first * 101).contains(&later), "{later:?} after {first:?}");
    lease_client.saw(one_of(10), Moment::ZERO);
    let again = lease_client.wake_at();
    assert!((first - MILLI..=first + MILLI).contains(&again), "{again:?} after {first:?}");
}

#[test]
fn one_request_asks_for_all_duties_that_others_hold_and_one_renewal_is_for_all_of_ours() {
    let duties = ["prune", "rescue", "sweep"].map(duty);
    let mut lease_client = LeaseClient::new(duties.clone(), LeaseTiming::default(), alone(), Moment::ZERO);
    assert_eq!(ask(&mut lease_client, Moment::ZERO), duties);
    let term = granted(7);
    let elsewhere = Taking::Held { by: WorkerId::from_random(9), expires_in: SECOND };
    receive(&mut lease_client, Ok(vec![term.clone(), elsewhere, term.clone()]), Moment::ZERO);
    assert_eq!(ask(&mut lease_client, at(1)), [rescue()]);
    receive(&mut lease_client, Ok(vec![term]), at(1));
    let effects = lease_client.effects(at(2), id(1));
    let [LeaseEffect::Renew { renewals, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(renewals.iter().map(|renewal| renewal.lease.duty.clone()).collect::<Vec<_>>(), duties);
}

#[test]
fn a_request_without_an_answer_is_repeated_under_its_own_id() {
    let mut lease_client = lease_client();
    assert_eq!(ask(&mut lease_client, Moment::ZERO), [rescue()]);
    receive(&mut lease_client, Err(unknown()), at(1));
    let again = lease_client.wake_at();
    assert!(again > at(1));
    let request = |lease_client: &LeaseClient, bits| LeaseEffect::Try {
        call: last_call(lease_client),
        id: id(bits),
        duties: vec![(rescue(), DUTY_EXPIRY)],
    };
    assert_eq!(lease_client.effects(again, id(99)), [request(&lease_client, 1)]);
    assert_eq!(receive(&mut lease_client, Ok(vec![Taking::Over]), again), []);
    let effects = lease_client.effects(again, id(99));
    assert_eq!(effects, [request(&lease_client, 99)], "its term is over, so it requests another");
}

#[test]
fn a_store_that_is_away_is_asked_again_after_a_pause() {
    let mut lease_client = lease_client();
    ask(&mut lease_client, Moment::ZERO);
    receive(&mut lease_client, Err(unavailable()), at(1));
    assert_eq!(lease_client.wake_at(), at(1) + DUTY_HEARTBEAT);
}

#[test]
fn a_lease_that_is_given_back_is_asked_for_at_once_by_who_stands_by() {
    let mut lease_client = lease_client();
    ask(&mut lease_client, Moment::ZERO);
    receive(&mut lease_client, held(SECOND * 8), at(1));
    lease_client.hinted(&rescue(), at(3));
    assert_eq!(lease_client.wake_at(), at(3));
    assert_eq!(ask(&mut lease_client, at(3)), [rescue()]);
}

#[test]
fn a_hint_that_comes_while_an_answer_is_under_way_is_not_lost() {
    let mut lease_client = lease_client();
    ask(&mut lease_client, Moment::ZERO);
    lease_client.hinted(&rescue(), at(1));
    receive(&mut lease_client, held(SECOND * 8), at(2));
    assert_eq!(ask(&mut lease_client, at(2)), [rescue()]);
    receive(&mut lease_client, held(SECOND * 8), at(2));
    assert_eq!(lease_client.wake_at(), at(10), "it counts once");
}

#[test]
fn who_is_asked_to_give_way_is_told_once_renews_until_it_has_and_then_leaves_it_to_others_for_a_while() {
    let mut lease_client = holder();
    lease_client.saw(of_two(), Moment::ZERO);
    lease_client.hinted(&rescue(), at(1));
    renews(&mut lease_client, at(1));
    assert_eq!(answer(&mut lease_client, Renewed::GiveWay, at(1)), [LeaseEffect::GiveWay(fence(7))]);
    renews(&mut lease_client, at(3));
    assert_eq!(answer(&mut lease_client, Renewed::GiveWay, at(3)), []);
    assert_eq!(lease_client.give_way(&rescue(), None, at(4)), gives_back());
    assert_eq!(lease_client.term(&rescue(), at(4)), None);
    lease_client.hinted(&rescue(), at(4));
    assert_eq!(lease_client.wake_at(), at(4) + DUTY_EXPIRY);
}

#[test]
fn an_answer_about_a_term_that_is_no_longer_ours_is_ignored() {
    let mut lease_client = holder();
    renews(&mut lease_client, at(2));
    assert_eq!(lease_client.give_way(&rescue(), None, at(2)), gives_back());
    assert_eq!(answer(&mut lease_client, Renewed::Kept, at(3)), []);
    assert_eq!(lease_client.term(&rescue(), at(3)), None);
}

#[test]
fn timings_in_which_no_heartbeat_may_fail_are_refused() {
    assert!(LeaseTiming::default().check().is_ok());
    for (heartbeat, expiry) in [(SECOND * 5, SECOND * 10), (Duration::ZERO, SECOND), (MILLI, Duration::ZERO)]
    {
        assert!(LeaseTiming { heartbeat, expiry }.check().is_err(), "{heartbeat:?} {expiry:?}");
    }
}
