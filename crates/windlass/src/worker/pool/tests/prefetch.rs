//! Jobs that are claimed before a slot is free for them, and what happens to them when no slot becomes free.

use super::*;

/// A pool whose handlers were fast, with this number of jobs that wait for a slot.
fn with_waiting(jobs: u32) -> (Bench, Vec<Fence>) {
    let mut bench = Bench::new();
    let request = bench.claim();
    let mut running = starts(&bench.answer(&request, 3, MORE));
    let effects = bench.end(running.remove(0), Duration::from_millis(5));
    bench.settle_answered(Ok(vec![Settled::Applied]));
    let request = claims(effects).remove(0);
    running.extend(starts(&bench.answer(&request, jobs + 1, NOTHING)));
    assert_eq!((running.len(), bench.pool.held()), (3, 3 + jobs as usize));
    (bench, running)
}

#[test]
fn fast_jobs_are_prefetched_and_slow_ones_are_not() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let effects = bench.answer(&request, 3, MORE);
    let effects = bench.end(starts(&effects)[0], Duration::from_millis(5));
    // Ten jobs of 5 ms in 50 ms on each of three slots, and one free slot.
    assert_eq!(claims(effects)[0].limit, 31);
}

#[test]
fn what_waits_for_half_a_second_goes_back_and_nothing_more_is_prefetched() {
    let (mut bench, running) = with_waiting(2);
    let too_late = GIVE_BACK_AFTER;
    bench.now = too_late - Duration::from_millis(1);
    assert!(settled(&bench.effects()).is_empty());
    assert_eq!(bench.pool.wake_at(), too_late);
    bench.now = too_late;
    let effects = bench.effects();
    let back: Vec<_> = settled(&effects).iter().map(|settlement| settlement.transition.clone()).collect();
    assert_eq!(back, [Transition::Release { started: false }, Transition::Release { started: false }]);
    bench.settle_answered(Ok(vec![Settled::Applied; 2]));
    assert!(claims(bench.on(Event::Hint)).is_empty(), "it would claim the same jobs again");
    let effects = bench.end(running[0], SECOND);
    assert_eq!(claims(effects)[0].limit, 1, "one for the slot, and none to wait");
}

#[test]
fn what_waits_because_the_store_takes_no_ends_stays_until_it_has_had_its_time() {
    let (mut bench, running) = with_waiting(4);
    for fence in &running[..2] {
        let report = AttemptReport::default();
        bench.pool.on(Event::Ended { fence: *fence, outcome: AttemptOutcome::Done(None), report }, bench.now);
    }
    assert_eq!(starts(&bench.effects()).len(), 2, "two others are left");
    bench.settle_answered(Err(CallFailure::NotDone));
    bench.now = GIVE_BACK_AFTER * 2;
    let is_back = |end: &&Settlement| matches!(end.transition, Transition::Release { .. });
    let effects = bench.effects();
    assert_eq!(settled(&effects).iter().filter(is_back).count(), 0);
    bench.now = GIVE_BACK_AFTER * 3;
    let effects = bench.settle_answered(Ok(vec![Settled::Applied; settled(&effects).len()]));
    assert_eq!(settled(&effects).iter().filter(is_back).count(), 0, "the store accepts ends again");
    while !bench.sent.is_empty() {
        bench.settle_answered(Ok(vec![Settled::Applied]));
    }
    bench.now = GIVE_BACK_AFTER * 4;
    assert_eq!(settled(&bench.effects()).iter().filter(is_back).count(), 2);
}
