//! Suspects run alone, and a pool keeps their place until the store has their end.

use super::*;

#[test]
fn a_repeat_for_a_suspect_that_brings_nothing_is_followed_at_once_by_a_new_request() {
    let mut bench = Bench::new();
    let suspect_due = NextDue { suspect_due: true, ..NOTHING };
    let request = bench.claim();
    let suspect = claims(bench.answer(&request, 0, suspect_due)).remove(0);
    let again = lose_and_repeat(&mut bench);
    assert_eq!((again.token, again.suspects), (suspect.token, suspect.suspects));
    let next = claims(bench.answer(&again, 0, suspect_due)).remove(0);
    assert_eq!((next.suspects, next.repeat), (suspect.suspects, false), "its place in the process is free");
}

#[test]
fn a_suspect_gets_a_slot_of_its_own_and_a_claim_of_its_own() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let effects = bench.answer(&request, 1, NextDue { suspect_due: true, ..MORE });
    let request = claims(effects).remove(0);
    assert_eq!((request.suspects, request.limit), (Suspects::One { crashes_max: u32::MAX }, 1));
}

#[test]
fn while_one_job_with_two_crashes_is_held_no_other_is_claimed_in_the_process() {
    let quarantine = Quarantine::default();
    let (mut one, mut other) = (Bench::sharing(&quarantine, 0), Bench::sharing(&quarantine, 100));
    let suspect_due = NextDue { suspect_due: true, ..NOTHING };
    let first = one.claim();
    let suspect_claim = claims(one.answer(&first, 0, suspect_due)).remove(0);
    let jobs = one.jobs(&suspect_claim, 1, 2);
    let answer = ClaimAnswer::Claimed { jobs, peek: NOTHING };
    let running = starts(&one.answered(Ok(answer)));
    let first = other.claim();
    let held_off = claims(other.answer(&first, 0, suspect_due)).remove(0);
    assert_eq!(held_off.suspects, Suspects::One { crashes_max: 1 });
    assert!(
        claims(other.answer(&held_off, 0, suspect_due)).is_empty(),
        "asking again at once would be busy polling"
    );
    one.end(running[0], SECOND);
    assert_eq!(
        quarantine.shared().enter(),
        1,
        "the death of the process would now be charged to the suspect too"
    );
    one.settle_answered(Ok(vec![Settled::Applied]));
    other.now = other.pool.wake_at();
    let look = other.claim();
    let again = claims(other.answer(&look, 0, suspect_due)).remove(0);
    assert_eq!(again.suspects, Suspects::One { crashes_max: u32::MAX });
}

#[test]
fn a_suspect_that_waits_for_its_place_in_the_same_pool_is_asked_for_once_it_is_free() {
    let mut bench = Bench::new();
    let suspect_due = NextDue { suspect_due: true, ..NOTHING };
    let look = bench.claim();
    let request = claims(bench.answer(&look, 0, suspect_due)).remove(0);
    let jobs = bench.jobs(&request, 1, 2);
    let effects = bench.answered(Ok(ClaimAnswer::Claimed { jobs, peek: suspect_due }));
    let (running, request) = (starts(&effects), claims(effects).remove(0));
    assert_eq!(request.suspects, Suspects::One { crashes_max: 1 });
    bench.answer(&request, 0, suspect_due);
    assert!(claims(bench.end(running[0], SECOND)).is_empty(), "its end is not stored yet");
    let again = claims(bench.settle_answered(Ok(vec![Settled::Applied]))).remove(0);
    assert_eq!(again.suspects, Suspects::One { crashes_max: u32::MAX });
}

#[test]
fn a_suspect_that_is_given_back_frees_its_place() {
    let quarantine = Quarantine::default();
    let mut bench = Bench::sharing(&quarantine, 0);
    let request = bench.claim();
    let suspect = claims(bench.answer(&request, 0, NextDue { suspect_due: true, ..NOTHING })).remove(0);
    let jobs = bench.jobs(&suspect, 1, 2);
    let answer = ClaimAnswer::Claimed { jobs, peek: NOTHING };
    bench.pool.on(Event::ClaimAnswered(suspect.token, Ok(answer)), bench.now);
    assert_eq!(quarantine.shared().enter(), 1);
    bench.on(Event::LeaseRanOut);
    assert_eq!(quarantine.shared().enter(), 1, "the store does not have its end yet");
    bench.settle_answered(Ok(vec![Settled::Applied]));
    assert_eq!(quarantine.shared().enter(), u32::MAX);
}

#[test]
fn a_drain_does_not_end_while_a_suspect_waits_for_the_place_of_another() {
    let quarantine = Quarantine::default();
    let mut place = quarantine.shared();
    assert_eq!(place.enter(), u32::MAX, "another pool has the place");
    let mut bench = Bench::sharing(&quarantine, 0);
    let suspect_due = NextDue { suspect_due: true, ..NOTHING };
    let look = bench.claim();
    let held_off = claims(bench.answer(&look, 0, suspect_due)).remove(0);
    bench.answer(&held_off, 0, suspect_due);
    let look = claims(bench.on(Event::Drain)).remove(0);
    let held_off = claims(bench.answer(&look, 0, suspect_due));
    held_off.iter().for_each(|held_off| drop(bench.answer(held_off, 0, suspect_due)));
    assert!(!bench.pool.has_ended(), "a suspect is due");
    bench.now = bench.pool.wake_at();
    let look = bench.claim();
    bench.answer(&look, 0, NOTHING);
    assert!(bench.pool.has_ended(), "another worker took it");
}
