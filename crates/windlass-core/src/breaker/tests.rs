use proptest::prelude::*;

use super::*;
use crate::claim::ClaimToken;

mod probes;

const START: Timestamp = Timestamp::from_micros(1_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Timestamp {
    START.plus(SECOND * u32::try_from(seconds).unwrap())
}

fn claim(job: i64) -> Fence {
    Fence { job: JobId(job), token: ClaimToken::from_random(job.unsigned_abs().into()) }
}

fn options() -> BreakerOptions {
    BreakerOptions { failures_in_a_row: Some(3), open_cooldown: SECOND * 30, ..BreakerOptions::default() }
}

fn by_rate() -> BreakerOptions {
    let rate = FailureRate { percent: 50, window: SECOND * 10, calls_min: 4 };
    BreakerOptions { failures_in_a_row: None, failure_rate: Some(rate), ..options() }
}

/// Returns the state after calls that ended one by one, a second apart.
fn after(verdicts: &[Verdict], options: &BreakerOptions) -> BreakerState {
    let step = |state: BreakerState, (second, verdict): (u64, &Verdict)| {
        decide(&state, &BreakerEvent::Ended(Results::of(*verdict)), at(second), options)
    };
    (0..).zip(verdicts).fold(BreakerState::default(), step)
}

#[test]
fn fields_of_newer_versions_survive_every_event() {
    let name = BreakerName::parse("shop").unwrap();
    let text = r#"{"later":1.10,"circuit":"half-open","failures_in_a_row":2}"#;
    let state = BreakerState::from_store(&name, text).unwrap();
    let (probing, _) = ask(&state, claim(1), at(1), &options());
    assert!(probing.to_text().contains(r#""later":1.10"#), "{}", probing.to_text());
    let open = |lasting| BreakerEvent::Open { lasting, why: "x".to_owned() };
    for event in [
        BreakerEvent::Ended(Results::of(Success)),
        BreakerEvent::Ended(Results::of(Failure)),
        BreakerEvent::ProbeEnded(claim(1), Success),
        BreakerEvent::ProbeEnded(claim(1), RateLimited(None)),
        BreakerEvent::Left(vec![claim(1)]),
        BreakerEvent::LetThrough(vec![JobId(2)]),
        open(None),
        open(Some(SECOND)),
        BreakerEvent::Close,
        BreakerEvent::Reset,
    ] {
        let next = decide(&probing, &event, at(2), &options()).to_text();
        assert!(next.contains(r#""later":1.10"#), "{event:?}: {next}");
    }
}

fn is_open(state: &BreakerState) -> bool {
    matches!(state.circuit, CircuitState::Open { .. })
}

use Verdict::{Failure, RateLimited, Success};

#[test]
fn a_new_breaker_lets_every_caller_call() {
    let (state, admission) = ask(&BreakerState::default(), claim(1), START, &options());
    assert_eq!((state, admission), (BreakerState::default(), Admission::Go));
}

#[test]
fn enough_failures_in_a_row_open_it_and_it_says_why() {
    assert!(!is_open(&after(&[Failure, Failure], &options())));
    let state = after(&[Failure, Failure, Failure], &options());
    let CircuitState::Open { until, why } = &state.circuit else { panic!("{state:?}") };
    assert_eq!((*until, why.as_str()), (Some(at(32)), "3 failures in a row"));
    assert_eq!(ask(&state, claim(1), at(31), &options()).1, Admission::Wait);
}

#[test]
fn a_success_starts_the_count_over() {
    assert!(!is_open(&after(&[Failure, Failure, Success, Failure, Failure], &options())));
}

#[test]
fn a_rate_limit_answer_counts_as_a_failure() {
    assert!(is_open(&after(&[Failure, RateLimited(None), Failure], &options())));
}

#[test]
fn it_stays_open_for_as_long_as_the_platform_asks_for() {
    let hour = Some(SECOND * 1800);
    let state = after(&[Failure, Failure, RateLimited(hour)], &options());
    assert!(
        matches!(state.circuit, CircuitState::Open { until, .. } if until == Some(at(2 + 1800))),
        "{state:?}"
    );
}

#[test]
fn a_rate_limit_answer_to_an_earlier_call_makes_it_stay_open_longer_and_never_shorter() {
    let open = after(&[Failure, Failure, Failure], &options());
    let late = |pause| {
        let results = Results::of(RateLimited(Some(pause)));
        decide(&open, &BreakerEvent::Ended(results), at(10), &options()).circuit
    };
    assert!(matches!(late(SECOND * 100), CircuitState::Open { until, .. } if until == Some(at(110))));
    assert!(matches!(late(SECOND), CircuitState::Open { until, .. } if until == Some(at(32))));
}

#[test]
fn the_pause_after_rate_limits_doubles_and_starts_over_after_a_success() {
    let options = BreakerOptions { failures_in_a_row: Some(1_000), ..options() };
    let pause_after = |verdicts: &[Verdict]| {
        let state = after(verdicts, &options);
        rate_limit_pause(&options, state.rate_limits_in_a_row, None).as_secs()
    };
    let limited = RateLimited(None);
    assert_eq!(pause_after(&[limited]), 1);
    assert_eq!(pause_after(&[limited, limited]), 2);
    assert_eq!(pause_after(&[limited, Failure, limited, limited]), 4, "only a success ends the row");
    assert_eq!(pause_after(&[limited, limited, Success, limited]), 1);
    assert_eq!(rate_limit_pause(&options, 60, None), options.rate_limit_pause_max);
}

#[test]
fn a_pause_that_the_platform_names_is_taken_but_no_absurd_one() {
    assert_eq!(rate_limit_pause(&options(), 9, Some(SECOND * 7)), SECOND * 7);
    let two_hours = 2 * options().rate_limit_pause_max;
    assert_eq!(
        rate_limit_pause(&options(), 1, Some(two_hours)),
        two_hours,
        "the longest pause is the maximum"
    );
    assert_eq!(rate_limit_pause(&options(), 1, Some(Duration::MAX)), SECOND * 24 * 60 * 60);
}

#[test]
fn a_failure_rate_opens_it_once_there_are_enough_calls() {
    assert!(!is_open(&after(&[Failure, Failure, Failure], &by_rate())), "three calls are too few");
    let state = after(&[Success, Success, Failure, Failure], &by_rate());
    assert!(
        matches!(&state.circuit, CircuitState::Open { why, .. } if why == "2 of 4 calls failed"),
        "{state:?}"
    );
    assert!(!is_open(&after(&[Success, Success, Success, Failure], &by_rate())));
}

#[test]
fn old_calls_are_forgotten_by_the_failure_rate() {
    let state = after(&[Failure, Failure, Failure], &by_rate());
    let later = decide(&state, &BreakerEvent::Ended(Results::of(Failure)), at(60), &by_rate());
    assert!(!is_open(&later) && later.window.len() == 1, "{later:?}");
}

#[test]
fn the_window_stays_small() {
    let state = after(&[Success; 200], &by_rate());
    assert!(state.window.len() <= 11, "{}", state.window.len());
}

#[test]
fn what_was_called_before_it_opened_changes_nothing() {
    let open = after(&[Failure; 3], &options());
    for verdict in [Success, Failure] {
        let late = decide(&open, &BreakerEvent::Ended(Results::of(verdict)), at(5), &options());
        assert_eq!(late.circuit, open.circuit);
        let half_open = open.at(at(40));
        let late = decide(&half_open, &BreakerEvent::Ended(Results::of(verdict)), at(40), &options());
        assert_eq!(late.circuit, CircuitState::HalfOpen);
    }
}

#[test]
fn a_person_opens_it_until_further_notice_and_closes_it() {
    let open = BreakerEvent::Open { lasting: None, why: "maintenance".to_owned() };
    let open = decide(&BreakerState::default(), &open, START, &options());
    assert_eq!(ask(&open, claim(1), at(1_000_000), &options()).1, Admission::Wait);
    let closed = decide(&open, &BreakerEvent::Close, at(5), &options());
    assert_eq!(ask(&closed, claim(1), at(5), &options()).1, Admission::Go);
}

#[test]
fn a_person_opens_it_for_a_time() {
    let open = BreakerEvent::Open { lasting: Some(SECOND * 60), why: String::new() };
    let open = decide(&BreakerState::default(), &open, START, &options());
    assert_eq!(ask(&open, claim(1), at(59), &options()).1, Admission::Wait);
    assert_eq!(ask(&open, claim(1), at(60), &options()).1, Admission::Probe);
}

#[test]
fn a_reset_forgets_what_was_counted() {
    let state = after(&[Failure, Failure], &options());
    let reset = decide(&state, &BreakerEvent::Reset, at(5), &options());
    assert_eq!((reset.failures_in_a_row, &reset.circuit), (0, &CircuitState::Closed));
}

#[test]
fn the_state_survives_being_written_and_read() {
    let open = after(&[Failure; 3], &options());
    let (probing, _) = ask(&open, claim(7), at(40), &options());
    let probing = decide(
        &probing,
        &BreakerEvent::LetThrough(vec![JobId(8)]),
        at(40),
        &BreakerOptions { half_open_probe_count: 2, ..options() },
    );
    for state in [BreakerState::default(), open, probing] {
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<BreakerState>(&text).unwrap(), state, "{text}");
    }
}

#[test]
fn absurd_options_are_refused() {
    assert_eq!(options().check(), Ok(()));
    assert_eq!(by_rate().check(), Ok(()));
    let refused = |options: BreakerOptions| options.check().is_err();
    assert!(refused(BreakerOptions { failures_in_a_row: None, ..options() }));
    assert!(refused(BreakerOptions { failures_in_a_row: Some(0), ..options() }));
    assert!(refused(BreakerOptions { half_open_probe_count: 0, ..options() }));
    assert!(refused(BreakerOptions { half_open_probe_count: PROBES_MAX + 1, ..options() }));
    assert!(refused(BreakerOptions { open_cooldown: Duration::ZERO, ..options() }));
    let rate = FailureRate { percent: 0, window: SECOND, calls_min: 1 };
    assert!(refused(BreakerOptions { failure_rate: Some(rate), ..options() }));
}

fn any_verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![Just(Success), Just(Failure), Just(RateLimited(None)), Just(RateLimited(Some(SECOND)))]
}

proptest! {
    #[test]
    fn calls_told_at_once_open_it_exactly_if_they_do_one_by_one(
        before in proptest::collection::vec(any_verdict(), 0..5),
        verdicts in proptest::collection::vec(any_verdict(), 1..12),
    ) {
        let options = options();
        let mut results = Results::default();
        verdicts.iter().for_each(|verdict| results.add(*verdict));
        let batched = decide(&after(&before, &options), &BreakerEvent::Ended(results), at(20), &options);
        let one_by_one = after(&[before, verdicts].concat(), &options);
        prop_assert_eq!(is_open(&batched), is_open(&one_by_one));
        if !is_open(&batched) {
            prop_assert_eq!(batched.failures_in_a_row, one_by_one.failures_in_a_row);
            prop_assert_eq!(batched.rate_limits_in_a_row, one_by_one.rate_limits_in_a_row);
        }
    }
}
