//! Half-open: which claims may probe, and the results.

use super::*;

fn probes(count: u32) -> BreakerOptions {
    BreakerOptions { half_open_probe_count: count, ..options() }
}

/// Returns a breaker whose cool-down is over from second 40 on.
fn cooled() -> BreakerState {
    after(&[Failure; 3], &options())
}

/// Lets claims ask one after another at second 40.
fn ask_all(state: BreakerState, jobs: std::ops::Range<i64>, count: u32) -> (BreakerState, Vec<Admission>) {
    let options = probes(count);
    jobs.fold((state, Vec::new()), |(state, mut admissions), job| {
        let (state, admission) = ask(&state, claim(job), at(40), &options);
        admissions.push(admission);
        (state, admissions)
    })
}

#[test]
fn as_many_may_probe_as_there_are_permits() {
    for count in [1, 3] {
        let (state, admissions) = ask_all(cooled(), 0..100, count);
        let probing = admissions.iter().filter(|admission| **admission == Admission::Probe).count();
        assert_eq!((probing, state.probes.len()), (count as usize, count as usize));
        assert!(!admissions.contains(&Admission::Go));
    }
}

#[test]
fn who_asks_twice_holds_one_permit() {
    let (state, _) = ask_all(cooled(), 1..2, 2);
    let (state, again) = ask_all(state, 1..2, 2);
    assert_eq!((state.probes.len(), again), (1, vec![Admission::Probe]));
}

#[test]
fn a_successful_probe_closes_it() {
    let (state, _) = ask_all(cooled(), 1..2, 1);
    let state = decide(&state, &BreakerEvent::ProbeEnded(claim(1), Success), at(41), &options());
    assert_eq!(state, BreakerState { since: Some(at(41)), ..BreakerState::default() });
}

#[test]
fn a_failed_probe_opens_it_again_for_another_cool_down() {
    let (state, _) = ask_all(cooled(), 1..3, 2);
    let state = decide(&state, &BreakerEvent::ProbeEnded(claim(1), Failure), at(41), &probes(2));
    assert!(
        matches!(&state.circuit, CircuitState::Open { until, .. } if *until == Some(at(71))),
        "{state:?}"
    );
    assert_eq!(state.probes, [], "the permits are void");
}

#[test]
fn a_probe_that_is_told_to_come_later_keeps_it_open_until_then() {
    let (state, _) = ask_all(cooled(), 1..2, 1);
    let limited = RateLimited(Some(SECOND * 600));
    let state = decide(&state, &BreakerEvent::ProbeEnded(claim(1), limited), at(41), &options());
    assert!(
        matches!(&state.circuit, CircuitState::Open { until, .. } if *until == Some(at(641))),
        "{state:?}"
    );
}

#[test]
fn who_holds_no_permit_decides_nothing_while_it_is_half_open() {
    let (state, _) = ask_all(cooled(), 1..2, 1);
    for verdict in [Success, Failure] {
        let decided = decide(&state, &BreakerEvent::ProbeEnded(claim(2), verdict), at(41), &options());
        assert_eq!(decided.circuit, CircuitState::HalfOpen);
    }
}

#[test]
fn the_second_probe_is_a_call_like_any_other_once_the_first_has_closed_it() {
    let (state, _) = ask_all(cooled(), 1..3, 2);
    let state = decide(&state, &BreakerEvent::ProbeEnded(claim(1), Success), at(41), &probes(2));
    let state = decide(&state, &BreakerEvent::ProbeEnded(claim(2), Failure), at(42), &probes(2));
    assert_eq!((&state.circuit, state.failures_in_a_row), (&CircuitState::Closed, 1));
}

#[test]
fn a_probe_that_left_without_a_word_makes_room_for_another() {
    let (state, _) = ask_all(cooled(), 1..2, 1);
    let state = decide(&state, &BreakerEvent::Left(vec![claim(1)]), at(41), &options());
    assert_eq!(ask(&state, claim(2), at(41), &options()).1, Admission::Probe);
}

#[test]
fn a_job_that_was_let_through_has_its_place_kept_from_newcomers() {
    let reserved = decide(&cooled(), &BreakerEvent::LetThrough(vec![JobId(5)]), at(40), &options());
    assert_eq!(reserved.free_probes(&options()), 0);
    assert_eq!(ask(&reserved, claim(1), at(40), &options()).1, Admission::Wait);
    let (state, admission) = ask(&reserved, claim(5), at(40), &options());
    assert_eq!((admission, state.reserved.len()), (Admission::Probe, 0));
}

#[test]
fn a_reservation_that_no_settle_takes_lapses() {
    let reserved = decide(&cooled(), &BreakerEvent::LetThrough(vec![JobId(5)]), at(40), &options());
    assert_eq!(ask(&reserved, claim(1), at(51), &options()).1, Admission::Probe);
}

#[test]
fn no_more_places_are_kept_than_there_are_permits() {
    let jobs = (0..10).map(JobId).collect();
    let state = decide(&cooled(), &BreakerEvent::LetThrough(jobs), at(40), &probes(3));
    assert_eq!(state.reserved.len(), 3);
}

proptest! {
    /// Whatever happens in any order, the sum of permits and reservations never exceeds the number of
    /// probes.
    #[test]
    fn there_are_never_more_probes_than_permits(
        count in 1_u32..4,
        steps in proptest::collection::vec((0_u8..6, 0_i64..6, 0_u64..20), 1..80),
    ) {
        let options = probes(count);
        let (mut state, mut now) = (BreakerState::default(), START);
        for (what, job, pause) in steps {
            now = now.plus(SECOND * u32::try_from(pause).unwrap());
            state = match what {
                0 => ask(&state, claim(job), now, &options).0,
                1 => decide(&state, &BreakerEvent::ProbeEnded(claim(job), Failure), now, &options),
                2 => decide(&state, &BreakerEvent::ProbeEnded(claim(job), Success), now, &options),
                3 => decide(&state, &BreakerEvent::LetThrough(vec![JobId(job)]), now, &options),
                4 => decide(&state, &BreakerEvent::Left(vec![claim(job)]), now, &options),
                _ => decide(&state, &BreakerEvent::Ended(Results::of(Failure)), now, &options),
            };
            prop_assert!(state.probes.len() + state.reserved.len() <= count as usize, "{state:?}");
            prop_assert!(state.probes.is_empty() || state.circuit == CircuitState::HalfOpen, "{state:?}");
        }
    }
}
