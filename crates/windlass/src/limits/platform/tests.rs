use windlass_core::claim::ClaimToken;
use windlass_core::job::JobId;

use super::*;

const START: Timestamp = Timestamp::from_micros(1_000_000_000);
/// The store's clock shows another time than this process's.
const STORE: Timestamp = Timestamp::from_micros(77_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn claim(job: i64) -> Fence {
    Fence { job: JobId(job), token: ClaimToken::from_random(1) }
}

fn options() -> BreakerOptions {
    BreakerOptions { failures_in_a_row: Some(2), open_cooldown: SECOND * 30, ..BreakerOptions::default() }
}

/// The store's state after two failures at `STORE`.
fn open() -> BreakerState {
    let mut results = Results::of(Verdict::Failure);
    results.add(Verdict::Failure);
    decide(&BreakerState::default(), &BreakerEvent::Ended(results), STORE, &options())
}

fn with_copy(state: BreakerState) -> Known {
    let mut known = Known::default();
    known.read(state, STORE, START);
    known
}

fn fail(known: &mut Known, times: usize) {
    for _ in 0..times {
        known.ended(claim(1), Verdict::Failure, true, START, &options());
    }
}

#[test]
fn a_process_that_never_read_the_store_decides_alone() {
    let mut known = Known::default();
    assert_eq!(known.ask(claim(1), START, &options()), Asked::Known(Admission::Go));
    fail(&mut known, 2);
    assert_eq!(known.ask(claim(1), START, &options()), Asked::Known(Admission::Wait));
    let cooled = START.plus(SECOND * 30);
    assert_eq!(known.ask(claim(1), cooled, &options()), Asked::Known(Admission::Probe));
    assert_eq!(known.ask(claim(2), cooled, &options()), Asked::Known(Admission::Wait));
}

#[test]
fn while_the_store_is_there_its_word_counts() {
    let mut known = Known::default();
    fail(&mut known, 2);
    let _ = known.take_unsent(&options());
    known.was_sent();
    known.read(BreakerState::default(), STORE, START);
    assert_eq!(
        known.ask(claim(1), START, &options()),
        Asked::Known(Admission::Go),
        "other processes had successes"
    );
    assert_eq!(with_copy(open()).ask(claim(1), START, &options()), Asked::Known(Admission::Wait));
}

#[test]
fn a_store_that_has_been_silent_for_long_is_away() {
    let mut known = with_copy(open());
    let later = START.plus(COPY_GOOD_FOR + SECOND);
    assert!(known.is_shared(START) && !known.is_shared(later));
    assert_eq!(known.ask(claim(1), later, &options()), Asked::Known(Admission::Go));
}

#[test]
fn the_cool_down_is_over_by_the_clock_of_the_store() {
    let mut known = Known::default();
    known.read(open(), STORE.plus(SECOND * 29), START);
    assert_eq!(known.ask(claim(1), START, &options()), Asked::Known(Admission::Wait));
    assert_eq!(known.ask(claim(1), START.plus(SECOND), &options()), Asked::AskStore);
}

#[test]
fn permits_that_are_taken_cost_no_question() {
    let cooled = STORE.plus(SECOND * 30);
    let (taken, _) = ask(&open(), claim(1), cooled, &options());
    let mut known = Known::default();
    known.read(taken, cooled, START);
    assert_eq!(known.ask(claim(2), START, &options()), Asked::Known(Admission::Wait));
    assert_eq!(known.ask(claim(1), START, &options()), Asked::AskStore, "the permit may be its own");
}

#[test]
fn of_two_readings_that_cross_the_later_one_counts() {
    let mut known = with_copy(open());
    known.read(BreakerState::default(), STORE.minus(SECOND), START.plus(SECOND));
    assert_eq!(known.stands(START.plus(SECOND), &options()).circuit, open().circuit);
}

#[test]
fn the_store_is_told_what_is_news_to_it() {
    let mut known = with_copy(BreakerState::default());
    known.ended(claim(1), Verdict::Success, true, START, &options());
    assert_eq!(known.take_unsent(&options()), None, "there is nothing to reset");
    fail(&mut known, 1);
    assert_eq!(known.take_unsent(&options()), Some(Results::of(Verdict::Failure)));
    assert_eq!(known.take_unsent(&options()), None);

    let counted = BreakerState { failures_in_a_row: 1, ..BreakerState::default() };
    let mut known = with_copy(counted);
    known.ended(claim(1), Verdict::Success, true, START, &options());
    assert_eq!(known.take_unsent(&options()), Some(Results::of(Verdict::Success)));
}

#[test]
fn what_the_store_is_yet_to_be_told_counts_here_already() {
    let mut known = with_copy(BreakerState { failures_in_a_row: 1, ..BreakerState::default() });
    fail(&mut known, 1);
    assert_eq!(known.ask(claim(2), START, &options()), Asked::Known(Admission::Wait));
    assert!(known.take_unsent(&options()).is_some());
    assert_eq!(
        known.ask(claim(2), START, &options()),
        Asked::Known(Admission::Wait),
        "the result is on its way"
    );
    known.was_sent();
    assert_eq!(
        known.ask(claim(2), START, &options()),
        Asked::Known(Admission::Go),
        "the store's state counts now"
    );
}

#[test]
fn pauses_go_on_doubling_where_other_processes_left_off() {
    let limited = BreakerState { rate_limits_in_a_row: 3, ..BreakerState::default() };
    let mut known = with_copy(limited);
    known.ended(claim(1), Verdict::RateLimited(None), true, START, &options());
    assert_eq!(known.pause(None, &options()), SECOND * 8);
    known.ended(claim(1), Verdict::Success, true, START, &options());
    known.ended(claim(1), Verdict::RateLimited(None), true, START, &options());
    assert_eq!(known.pause(None, &options()), SECOND);
    assert_eq!(known.pause(Some(SECOND * 5), &options()), SECOND * 5);
}

#[test]
fn a_state_that_cannot_be_read_is_news_once_and_holds_parked_jobs_until_it_can_be() {
    let mut known = with_copy(BreakerState::default());
    assert!(known.may_release());
    assert_eq!((known.cannot_be_read(), known.cannot_be_read()), (true, false));
    assert!(!known.may_release() && !known.is_shared(START), "this process decides alone");
    known.read(BreakerState::default(), STORE, START);
    assert!(known.may_release() && known.cannot_be_read(), "the next time is news again");
}
