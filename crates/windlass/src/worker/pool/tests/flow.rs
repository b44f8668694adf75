//! While a deep backlog flows, two claims are in flight, and no job of either is lost.

use std::collections::HashSet;

use super::*;

const FAST: Duration = Duration::from_micros(1);

/// A pool that has seen one fast job end and then more jobs than it could take: two claims are in flight.
fn flowing() -> (Bench, ClaimRequest, ClaimRequest) {
    let mut bench = Bench::new();
    let request = bench.claim();
    let first = claims(bench.answer(&request, 3, MORE));
    assert!(first.is_empty(), "all slots are busy, and their speed is not known yet");
    let fences: Vec<_> = bench.pool.running.keys().copied().collect();
    let mut under_way: Vec<_> = fences.into_iter().flat_map(|fence| claims(bench.end(fence, FAST))).collect();
    let big = under_way.remove(0);
    assert_eq!(big.limit, 1_000);
    let effects = bench.answer(&big, 1_000, MORE);
    under_way.extend(claims(effects));
    run_all(&mut bench, &mut under_way);
    assert_eq!(under_way.len(), 2, "the second does not wait for the first");
    (bench, under_way.remove(0), under_way.remove(0))
}

/// Runs every job that waits in the pool, and collects the claims that are sent meanwhile.
fn run_all(bench: &mut Bench, under_way: &mut Vec<ClaimRequest>) {
    while let Some(fence) = bench.pool.running.keys().next().copied() {
        let effects = bench.end(fence, FAST);
        if let Some(Effect::Settle(_, batch)) =
            effects.iter().find(|effect| matches!(effect, Effect::Settle(..)))
        {
            let answers = vec![Settled::Applied; batch.len()];
            under_way.extend(claims(bench.settle_answered(Ok(answers))));
        }
        under_way.extend(claims(effects));
    }
}

#[test]
fn while_claims_bring_all_they_ask_for_the_next_is_sent_before_the_last_is_answered() {
    let (_, first, second) = flowing();
    assert_ne!(first.token, second.token);
    assert!(first.limit + second.limit <= 2_003, "together they ask for no more than fits");
}

#[test]
fn one_that_brings_less_ends_the_flow_and_the_other_is_still_waited_for() {
    let (mut bench, first, second) = flowing();
    assert!(claims(bench.answer(&second, 0, NOTHING)).is_empty());
    bench.on(Event::Drain);
    assert!(!bench.pool.has_ended(), "the first may bring jobs");
    let effects = bench.answer(&first, 2, NOTHING);
    assert_eq!(starts(&effects).len(), 2);
    // This claim was sent before an answer that reported more due jobs, and may not have seen all of them;
    // so one more claim follows.
    let last = claims(effects).remove(0);
    assert!(claims(bench.answer(&last, 0, NOTHING)).is_empty());
}

#[test]
fn of_two_answers_that_cross_neither_hides_what_the_other_has_seen() {
    let (mut bench, first, second) = flowing();
    bench.answer(&second, 0, MORE);
    let next = claims(bench.answer(&first, 0, NOTHING));
    assert_eq!(next.len(), 1);
}

#[test]
fn a_lost_answer_is_asked_for_again_and_no_other_claim_is_sent_beside_it() {
    let (mut bench, first, second) = flowing();
    bench.on(Event::ClaimAnswered(first.token, Err(CallFailure::Unknown)));
    assert!(claims(bench.answer(&second, second.limit, MORE)).is_empty());
    bench.now = bench.pool.wake_at();
    let again = bench.claim();
    assert_eq!((again.token, again.repeat), (first.token, true));
    let before = bench.pool.held();
    bench.answer(&again, 5, NOTHING);
    assert_eq!(bench.pool.held(), before + 5);
}

#[test]
fn a_stop_sends_no_further_claim_and_gives_back_what_both_bring() {
    let (mut bench, first, second) = flowing();
    assert!(claims(bench.on(Event::Stop { grace: SECOND })).is_empty());
    let effects = bench.answer(&first, 2, MORE);
    assert!(claims(effects).is_empty() && !bench.pool.has_ended());
    bench.answer(&second, 2, MORE);
    while bench.pool.settler.unsettled() > 0 {
        let batch = bench.pool.settler.unsettled();
        bench.settle_answered(Ok(vec![Settled::Applied; batch]));
    }
    assert!(bench.pool.has_ended() && bench.pool.running() == 0);
}

#[test]
fn both_claims_of_a_dead_identity_are_dropped_and_its_death_is_told_once() {
    let (mut bench, first, second) = flowing();
    let died = |effects: &[Effect]| effects.iter().filter(|effect| matches!(effect, Effect::Died)).count();
    let effects = bench.on(Event::ClaimAnswered(first.token, Ok(ClaimAnswer::WorkerDead)));
    assert_eq!(died(&effects), 1);
    bench.on(Event::Reborn(WorkerId::from_random(2)));
    let effects = bench.on(Event::ClaimAnswered(second.token, Ok(ClaimAnswer::WorkerDead)));
    assert_eq!(died(&effects), 0, "the new identity lives");
    bench.now += SECOND;
    assert_eq!(bench.claim().worker, WorkerId::from_random(2));
}

#[test]
fn a_suspect_is_claimed_although_the_backlog_never_ends() {
    let (mut bench, first, second) = flowing();
    let suspect_due = NextDue { suspect_due: true, ..MORE };
    let mut next = claims(bench.answer(&first, first.limit, suspect_due));
    next.extend(claims(bench.answer(&second, second.limit, suspect_due)));
    assert!(next.is_empty(), "prefetching would keep every slot busy");
    run_all(&mut bench, &mut next);
    assert_eq!(next[0].suspects, Suspects::One { crashes_max: u32::MAX });
}

/// A pool in which this many jobs have just ended, and the batches that it sends.
fn ended(count: u32) -> (Bench, Vec<Vec<Settlement>>) {
    let mut bench = Bench::new();
    bench.pool.set_concurrency(count);
    let request = bench.claim();
    let running = starts(&bench.answer(&request, count, NOTHING));
    for fence in running {
        let report = AttemptReport::default();
        bench.pool.on(Event::Ended { fence, outcome: AttemptOutcome::Done(None), report }, bench.now);
    }
    let effects = bench.effects();
    (bench, batches(&effects))
}

fn batches(effects: &[Effect]) -> Vec<Vec<Settlement>> {
    let batch = |effect: &Effect| match effect {
        Effect::Settle(_, batch) => Some(batch.clone()),
        _ => None,
    };
    effects.iter().filter_map(batch).collect()
}

fn sizes(batches: &[Vec<Settlement>]) -> Vec<usize> {
    batches.iter().map(Vec::len).collect()
}

fn applied(count: usize) -> Result<Vec<Settled>, CallFailure> {
    Ok(vec![Settled::Applied; count])
}

#[test]
fn where_many_jobs_end_a_second_batch_does_not_wait_for_the_first_and_a_third_does() {
    let (mut bench, sent) = ended(900);
    assert_eq!(sizes(&sent), [900]);
    let (mut more, sent) = ended(2_600);
    assert_eq!(sizes(&sent), [1_000, 1_000]);
    assert_eq!(
        sizes(&batches(&more.settle_answered(applied(1_000)))),
        [600],
        "as soon as one of the batches is answered"
    );
    assert!(batches(&bench.settle_answered(applied(900))).is_empty());
    assert_eq!(bench.pool.held(), 0);
}

#[test]
fn a_few_that_end_while_a_batch_is_under_way_wait_for_its_answer() {
    let (mut bench, sent) = ended(1_400);
    assert_eq!(sizes(&sent), [1_000], "small batches cost the store more than big ones");
    assert_eq!(sizes(&batches(&bench.settle_answered(applied(1_000)))), [400]);
}

#[test]
fn of_two_batches_that_are_answered_in_the_other_order_each_lets_go_of_its_own_jobs() {
    let (mut bench, sent) = ended(1_700);
    let second = bench.sent.pop_back().unwrap();
    let lost = |effects: &[Effect]| {
        let fence = |effect: &Effect| match effect {
            Effect::ClaimLost(fence) => Some(*fence),
            _ => None,
        };
        effects.iter().filter_map(fence).collect::<Vec<_>>()
    };
    let effects = bench.on(Event::SettleAnswered(second, Ok(vec![Settled::ClaimLost; 700])));
    assert_eq!(lost(&effects), sent[1].iter().map(|end| end.fence).collect::<Vec<_>>());
    assert_eq!(bench.pool.held(), 1_000);
    assert!(lost(&bench.settle_answered(applied(1_000))).is_empty());
    assert_eq!(bench.pool.held(), 0);
}

#[test]
fn after_one_of_two_batches_failed_its_half_goes_without_waiting_for_the_others_answer() {
    let (mut bench, sent) = ended(2_000);
    assert_eq!(sizes(&sent), [1_000, 1_000]);
    assert!(batches(&bench.settle_answered(Err(CallFailure::Unknown))).is_empty(), "not at once");
    bench.now = bench.pool.wake_at();
    let again = batches(&bench.effects());
    assert_eq!((again.len(), fences(&again[0])), (1, fences(&sent[0][..500])));
    assert_eq!(bench.pool.wake_at(), Moment::MAX, "of the batches that may fail again, one at a time");
    let other = bench.sent.pop_front().unwrap();
    let effects = bench.on(Event::SettleAnswered(other, applied(1_000)));
    assert!(batches(&effects).is_empty(), "the half is not answered yet");
    assert_eq!(sizes(&batches(&bench.settle_answered(applied(500)))), [500]);
}

#[test]
fn when_both_batches_fail_every_end_is_sent_again_and_stored_once() {
    let (mut bench, sent) = ended(2_000);
    bench.settle_answered(Err(CallFailure::NotDone));
    bench.settle_answered(Err(CallFailure::Unknown));
    let mut stored = HashSet::new();
    while bench.pool.held() > 0 {
        bench.now = bench.pool.wake_at();
        let mut next = batches(&bench.effects());
        while let Some(batch) = next.pop() {
            assert!(batch.iter().all(|end| stored.insert(end.fence)), "each once");
            next.extend(batches(&bench.settle_answered(applied(batch.len()))));
        }
    }
    assert_eq!(stored, sent.concat().iter().map(|end| end.fence).collect());
}
