use proptest::prelude::*;

use super::*;

const START: Timestamp = Timestamp::from_micros(1_000_000_000);

fn at(millis: u64) -> Timestamp {
    START.plus(Duration::from_millis(millis))
}

fn ten_a_second(burst: u32) -> RateLimit {
    RateLimit { burst, ..RateLimit::new(10, Duration::from_secs(1)) }
}

#[test]
fn a_burst_is_there_at_once_and_then_tokens_come_one_by_one() {
    let pace = ten_a_second(3).pace();
    let first = take(pace, None, 5, START);
    assert_eq!((first.granted, first.retry_after), (3, None));
    let none = take(pace, Some(first.due), 1, at(99));
    assert_eq!((none.granted, none.retry_after), (0, Some(Duration::from_millis(1))));
    assert_eq!(take(pace, Some(none.due), 5, at(100)).granted, 1);
}

#[test]
fn what_was_refused_uses_up_nothing() {
    let pace = ten_a_second(1).pace();
    let taken = take(pace, None, 1, START);
    let refused = take(pace, Some(taken.due), 1, at(50));
    assert_eq!((refused.granted, refused.due), (0, taken.due));
}

#[test]
fn a_look_takes_nothing_and_tells_when_the_next_is_due() {
    let pace = ten_a_second(1).pace();
    assert_eq!(take(pace, None, 0, START), Taken { granted: 0, due: START, retry_after: None });
    let taken = take(pace, None, 1, START);
    let look = take(pace, Some(taken.due), 0, at(30));
    assert_eq!((look.due, look.retry_after), (taken.due, Some(Duration::from_millis(70))));
}

#[test]
fn nothing_is_saved_up_beyond_the_burst() {
    let pace = ten_a_second(2).pace();
    let taken = take(pace, None, 2, START);
    assert_eq!(take(pace, Some(taken.due), 100, at(3_600_000)).granted, 2);
}

#[test]
fn a_clock_that_was_set_back_holds_no_caller_up_for_longer_than_a_full_bucket() {
    let pace = ten_a_second(3).pace();
    let by_another_clock = START.plus(Duration::from_secs(3600));
    let refused = take(pace, Some(by_another_clock), 1, START);
    assert_eq!(refused.retry_after, Some(Duration::from_millis(100)));
}

#[test]
fn slow_limits_are_asked_for_token_by_token_and_fast_ones_by_handfuls() {
    assert_eq!(ten_a_second(10).shared_pace().batch, 1);
    let fast = RateLimit::new(1_000, Duration::from_secs(1));
    assert_eq!(fast.shared_pace().batch, 100);
    assert_eq!(
        RateLimit { burst: 1, ..fast }.shared_pace().batch,
        1,
        "there is no burst from which to take the batch"
    );
}

#[test]
fn a_handful_lapses() {
    let mut batch = TokenBatch::new(2, START);
    assert!(batch.take(at(200)));
    assert!(!batch.take(at(201)));
    assert!(!batch.take(at(100)), "lapsed tokens do not come back");
}

#[test]
fn keys_come_from_the_payload_or_the_group_and_are_else_empty() {
    let payload = Payload::parse(r#"{"tenant": {"id": 7, "name": "a\nb"}}"#).unwrap();
    let key = |pointer: &str| KeyBy::Payload(pointer.to_owned()).key_of(&payload, None);
    assert_eq!(key("/tenant/id"), "7");
    assert_eq!(key("/tenant/name"), "a b", "a gate holds no control characters");
    assert_eq!(key("/missing"), "");
    let group = GroupName::parse("import 3").unwrap();
    assert_eq!(KeyBy::Group.key_of(&payload, Some(&group)), "import 3");
    assert_eq!(KeyBy::Nothing.key_of(&payload, Some(&group)), "");
}

#[test]
fn absurd_limits_are_refused() {
    let second = Duration::from_secs(1);
    assert_eq!(RateLimit::new(5, second).check(), Ok(()));
    assert!(RateLimit::new(0, second).check().is_err());
    assert!(RateLimit { burst: 0, ..RateLimit::new(5, second) }.check().is_err());
    assert!(RateLimit::new(5, Duration::ZERO).check().is_err());
    let by = KeyBy::Payload("tenant".to_owned());
    assert!(RateLimit { by, ..RateLimit::new(5, second) }.check().is_err());
}

/// Returns the uses of a limit by several processes, each with its token batch, as instants in order.
/// Each step is a pause in microseconds and the process that uses a token.
fn uses(limit: &RateLimit, pace: Pace, steps: &[(u64, usize)]) -> Vec<Timestamp> {
    let (mut now, mut due, mut used) = (START, None, Vec::new());
    let mut batches = [TokenBatch::new(0, START); 3];
    for (pause, process) in steps {
        now = now.plus(Duration::from_micros(*pause));
        let batch = &mut batches[process % 3];
        if !batch.take(now) {
            let taken = take(pace, due, pace.batch, now);
            due = Some(taken.due);
            *batch = TokenBatch::new(taken.granted, now);
            if !batch.take(now) {
                continue;
            }
        }
        used.push(now);
    }
    assert!(!used.is_empty() || steps.is_empty(), "{limit:?} grants no token");
    used
}

/// Mostly short pauses, sometimes just as long as a token batch is good.
fn any_pause() -> impl Strategy<Value = u64> {
    prop_oneof![6 => Just(0), 3 => 0_u64..20_000, 1 => 190_000_u64..=200_000]
}

/// Returns the most uses within any span of time as long as the period.
fn most_in_a_period(used: &[Timestamp], per: Duration) -> usize {
    let within =
        |first: &Timestamp| used.iter().filter(|other| *other >= first && **other < first.plus(per)).count();
    used.iter().map(within).max().unwrap_or(0)
}

#[test]
fn handfuls_that_are_saved_until_they_lapse_break_no_promise() {
    let limit = RateLimit { burst: 50, ..RateLimit::new(100, Duration::from_secs(1)) };
    let all_at_once = |pause: u64| (0..90).map(move |n| (if n == 0 { pause } else { 0 }, n % 3));
    let first = [(0, 0), (0, 1), (0, 2)];
    let steps: Vec<_> =
        first.into_iter().chain(all_at_once(200_000)).chain((0..2_000).map(|n| (1_000, n % 3))).collect();
    let most = |pace| most_in_a_period(&uses(&limit, pace, &steps), limit.per);
    assert!(most(limit.shared_pace()) <= 150);
    let careless = Pace { tolerance: limit.pace().tolerance, ..limit.shared_pace() };
    assert!(most(careless) > 150, "this is why the batches are taken off the burst");
}

#[test]
fn of_a_small_burst_half_is_shared_at_once_and_of_one_or_two_all() {
    let at_once = |limit: RateLimit| take(limit.shared_pace(), None, 1_000, START).granted;
    let second = Duration::from_secs(1);
    let fast = |burst| RateLimit { burst, ..RateLimit::new(1_000, second) };
    assert_eq!((at_once(fast(1)), at_once(fast(2)), at_once(fast(100))), (1, 2, 51));
    assert_eq!(fast(100).answer_within(), Duration::from_millis(50));
    assert_eq!((at_once(ten_a_second(7)), ten_a_second(7).answer_within()), (6, TOKEN_BATCH_LAPSE));
    assert_eq!(at_once(RateLimit::new(4, second)), 4, "a slow limit is shared whole");
}

/// Returns the uses of tokens that were requested one by one. Each request comes after a pause in
/// microseconds, and each token is in flight for a part of the time that an answer may take, in percent.
fn late_uses(limit: &RateLimit, pace: Pace, steps: impl IntoIterator<Item = (u64, u32)>) -> Vec<Timestamp> {
    let (mut now, mut due, mut used) = (START, None, Vec::new());
    for (pause, percent) in steps {
        now = now.plus(Duration::from_micros(pause));
        let taken = take(pace, due, 1, now);
        due = Some(taken.due);
        if taken.granted == 1 {
            used.push(now.plus(limit.answer_within() * percent / 100));
        }
    }
    used
}

#[test]
fn tokens_that_come_late_and_meet_those_that_come_at_once_break_no_promise() {
    let limit = RateLimit { burst: 10, ..RateLimit::new(100, Duration::from_secs(1)) };
    let steps = || (0..2_000).map(|n| (1_000, if n < 50 { 100 } else { 0 }));
    let most = |pace| most_in_a_period(&late_uses(&limit, pace, steps()), limit.per);
    assert_eq!(most(limit.shared_pace()), 110);
    assert!(most(limit.pace()) > 110, "this is why late tokens are taken off the burst");
}

proptest! {
    #[test]
    fn tokens_on_their_way_break_no_promise(
        limit in 1_u32..400,
        burst in 1_u32..200,
        millis in 100_u64..3_000,
        steps in proptest::collection::vec((any_pause(), prop_oneof![Just(0), Just(100), 0_u32..=100]), 1..600),
    ) {
        let limit = RateLimit { burst, ..RateLimit::new(limit, Duration::from_millis(millis)) };
        let most = most_in_a_period(&late_uses(&limit, limit.shared_pace(), steps), limit.per);
        prop_assert!(most <= (limit.limit + limit.burst) as usize, "{most} of {limit:?}");
    }

    #[test]
    fn never_more_than_limit_and_burst_in_any_period(
        limit in 1_u32..400,
        burst in 1_u32..200,
        millis in 100_u64..3_000,
        batches: bool,
        steps in proptest::collection::vec((any_pause(), 0_usize..3), 1..600),
    ) {
        let limit = RateLimit { burst, ..RateLimit::new(limit, Duration::from_millis(millis)) };
        let pace = if batches { limit.shared_pace() } else { limit.pace() };
        let most = most_in_a_period(&uses(&limit, pace, &steps), limit.per);
        prop_assert!(most <= (limit.limit + limit.burst) as usize, "{most} of {limit:?}");
    }

    #[test]
    fn a_caller_that_comes_when_told_gets_a_token(
        limit in 1_u32..1_000, burst in 1_u32..50, wanted in 1_u32..60, ahead in 0_i64..10_000_000,
    ) {
        let pace = RateLimit { burst, ..RateLimit::new(limit, Duration::from_secs(1)) }.pace();
        let due = Timestamp::from_micros(START.as_micros() + ahead);
        let taken = take(pace, Some(due), wanted, START);
        match taken.retry_after {
            None => prop_assert!(taken.granted > 0),
            Some(after) => prop_assert!(take(pace, Some(taken.due), 1, START.plus(after)).granted == 1),
        }
    }
}
