//! Another transaction has a row locked, and for long: the pool neither stops nor spins.

use super::*;

#[test]
fn what_is_due_and_cannot_be_had_is_asked_for_again_after_a_pause_that_grows() {
    let mut bench = Bench::new();
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let request = bench.claim();
        assert!(claims(bench.answer(&request, 0, MORE)).is_empty(), "at once would be busy polling");
        pauses.push((bench.pool.wake_at() - bench.now).as_millis());
        bench.now = bench.pool.wake_at();
    }
    assert_eq!(pauses, [20, 40, 80, 160, 250, 250, 250]);
    bench.on(Event::Drain);
    assert!(!bench.pool.has_ended(), "a job is due");
}

#[test]
fn a_hint_ends_the_pause() {
    let mut bench = Bench::new();
    let request = bench.claim();
    bench.answer(&request, 0, MORE);
    assert_eq!(claims(bench.on(Event::Hint)).len(), 1);
}

#[test]
fn an_end_that_the_store_cannot_take_now_keeps_neither_the_others_nor_new_claims() {
    let mut bench = Bench::new();
    let request = bench.claim();
    let running = starts(&bench.answer(&request, 3, NOTHING));
    let stuck = running[0];
    let mut effects = bench.end(stuck, SECOND);
    bench.end(running[1], SECOND);
    bench.end(running[2], SECOND);
    let mut stored = Vec::new();
    for _ in 0..8 {
        let batch = settled(&effects);
        let answer = match batch.iter().any(|settlement| settlement.fence == stuck) {
            true => Err(CallFailure::NotDone),
            false => Ok(vec![Settled::Applied; batch.len()]),
        };
        if answer.is_ok() {
            stored.extend(batch.iter().map(|settlement| settlement.fence));
        }
        effects = bench.settle_answered(answer);
        if settled(&effects).is_empty() {
            bench.now = bench.pool.wake_at();
            effects = bench.effects();
        }
    }
    assert_eq!(stored, running[1..], "each once");
    assert!(!claims(bench.on(Event::Hint)).is_empty(), "the store is up, so the pool goes on");
}

#[test]
fn each_time_an_end_is_sent_it_says_how_long_ago_it_came() {
    let ended_ago = |effects: Vec<Effect>| -> Vec<Duration> {
        let batches = effects.into_iter().filter_map(|effect| match effect {
            Effect::Settle(_, batch) => Some(batch),
            _ => None,
        });
        batches.flatten().map(|settlement| settlement.report.ended_ago).collect()
    };
    let mut bench = Bench::new();
    let request = bench.claim();
    let running = starts(&bench.answer(&request, 1, NOTHING));
    bench.now = SECOND * 4;
    assert_eq!(ended_ago(bench.end(running[0], SECOND * 4)), [Duration::ZERO]);
    for (at, failure) in [(60, CallFailure::NotDone), (600, CallFailure::Unknown)] {
        bench.now = SECOND * at;
        bench.settle_answered(Err(failure));
        bench.now = SECOND * (at + 10);
        assert_eq!(ended_ago(bench.effects()), [SECOND * (at + 6)]);
    }
}
