use proptest::prelude::*;

use super::*;

const YOUNG: Duration = Duration::ZERO;

fn bands_in_seconds(policy: &RetryPolicy, failures: std::ops::RangeInclusive<u32>) -> Vec<(f64, f64)> {
    failures
        .map(|n| policy.band_after(n, YOUNG).unwrap())
        .map(|band| (band.shortest.as_secs_f64(), band.longest.as_secs_f64()))
        .collect()
}

#[test]
fn exponential_doubles_from_30_s_with_a_quarter_of_jitter_each_way() {
    let expected = [(22.5, 37.5), (45.0, 75.0), (90.0, 150.0), (180.0, 300.0)];
    assert_eq!(bands_in_seconds(&RetryPolicy::default(), 1..=4), expected);
}

#[test]
fn exponential_gives_up_at_its_fifth_failure_by_default() {
    assert!(RetryPolicy::default().delay_after(4, YOUNG, 1).is_some());
    assert_eq!(RetryPolicy::default().delay_after(5, YOUNG, 1), None);
}

#[test]
fn backfill_adds_up_to_a_quarter_after_the_cap() {
    let policy = RetryPolicy::backfill().with_attempts(20);
    let minutes: Vec<_> =
        bands_in_seconds(&policy, 1..=7).iter().map(|(low, high)| (low / 60.0, high / 60.0)).collect();
    let expected =
        [(2.0, 2.5), (4.0, 5.0), (8.0, 10.0), (16.0, 20.0), (32.0, 40.0), (60.0, 75.0), (60.0, 75.0)];
    assert_eq!(minutes, expected);
}

#[test]
fn backfill_abandons_after_five_failures() {
    assert_eq!(RetryPolicy::backfill().delay_after(5, YOUNG, 1), None);
}

#[test]
fn fibonacci_waits_the_numbers_of_the_sequence() {
    let minutes: Vec<_> = (1..=10)
        .map(|n| RetryPolicy::fibonacci().delay_after(n, YOUNG, n.into()).unwrap().as_secs() / 60)
        .collect();
    assert_eq!(minutes, [1, 1, 2, 3, 5, 8, 13, 21, 34, 55]);
}

#[test]
fn progressive_goes_by_age_and_gives_up_past_its_last_tier() {
    let day = Duration::from_secs(86_400);
    let wait_at = |age| RetryPolicy::progressive().delay_after(1, age, 0);
    let expected = [
        (day / 2, 5),
        (day, 60),
        (day * 6, 60),
        (day * 13, 12 * 60),
        (day * 29, 24 * 60),
        (day * 179, 96 * 60),
        (day * 359, 192 * 60),
    ];
    for (age, minutes) in expected {
        assert_eq!(wait_at(age), Some(Duration::from_secs(minutes * 60)), "{age:?}");
    }
    assert_eq!(wait_at(day * 360), None);
}

#[test]
fn a_list_is_followed_to_its_end() {
    let policy = RetryPolicy::List { delays: vec![Delay(YOUNG), Delay(Duration::from_secs(7))] };
    assert_eq!(policy.delay_after(1, YOUNG, 0), Some(YOUNG));
    assert_eq!(policy.delay_after(2, YOUNG, 0), Some(Duration::from_secs(7)));
    assert_eq!(policy.delay_after(3, YOUNG, 0), None);
}

#[test]
fn never_means_never() {
    assert_eq!(RetryPolicy::Never.delay_after(1, YOUNG, 0), None);
}

#[test]
fn a_timetable_ends_where_the_job_is_given_up() {
    let lines = timetable(&RetryPolicy::default(), 100);
    assert_eq!(lines.len(), 5);
    assert!(lines[..4].iter().all(|line| line.wait.is_some()));
    assert_eq!(lines[4].wait, None);
    assert_eq!(lines[4].since_first_try.shortest, Duration::from_millis(337_500));
}

#[test]
fn tiers_that_do_not_rise_and_absurd_attempts_are_refused() {
    let tier = Tier { max_age: hours(1), interval: minutes(1) };
    assert_eq!(
        RetryPolicy::Progressive { tiers: vec![tier, tier] }.check(),
        Err(RetryPolicyError::TiersOutOfOrder)
    );
    assert_eq!(RetryPolicy::Progressive { tiers: vec![] }.check(), Err(RetryPolicyError::NoTiers));
    assert!(RetryPolicy::default().with_attempts(0).check().is_err());
    assert!(RetryPolicy::default().with_attempts(FAILURES_MAX + 1).check().is_err());
}

#[test]
fn a_policy_survives_being_written_and_read() {
    for policy in [
        RetryPolicy::default(),
        RetryPolicy::backfill(),
        RetryPolicy::fibonacci(),
        RetryPolicy::progressive(),
        RetryPolicy::Fixed { every: minutes(3), attempts: 2 },
        RetryPolicy::List { delays: vec![Delay(minutes(1))] },
        RetryPolicy::Never,
    ] {
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<RetryPolicy>(&text).unwrap(), policy, "{text}");
    }
}

#[test]
fn absurd_delays_are_refused_and_do_not_overflow() {
    let absurd = Duration::MAX;
    for policy in [
        RetryPolicy::Exponential { base: absurd, max: absurd, attempts: 5 },
        RetryPolicy::Backfill { base: absurd, max: absurd, attempts: 5 },
        RetryPolicy::Fibonacci { unit: absurd, attempts: 5 },
        RetryPolicy::Fixed { every: absurd, attempts: 5 },
        RetryPolicy::List { delays: vec![Delay(absurd)] },
        RetryPolicy::Progressive { tiers: vec![Tier { max_age: absurd, interval: absurd }] },
    ] {
        assert_eq!(policy.check(), Err(RetryPolicyError::TooLong), "{policy:?}");
        assert!(policy.delay_after(1, YOUNG, 7).is_some_and(|delay| delay <= DELAY_MAX), "{policy:?}");
    }
}

fn any_policy() -> impl Strategy<Value = RetryPolicy> {
    let span = (0_u64..u64::MAX).prop_map(Duration::from_micros);
    prop_oneof![
        (span.clone(), span.clone(), 1_u32..2000)
            .prop_map(|(base, max, attempts)| RetryPolicy::Exponential { base, max, attempts }),
        (span.clone(), span.clone(), 1_u32..2000).prop_map(|(base, max, attempts)| RetryPolicy::Backfill {
            base,
            max,
            attempts
        }),
        (span.clone(), 1_u32..2000).prop_map(|(unit, attempts)| RetryPolicy::Fibonacci { unit, attempts }),
        (span, 1_u32..2000).prop_map(|(every, attempts)| RetryPolicy::Fixed { every, attempts }),
        Just(RetryPolicy::progressive()),
        Just(RetryPolicy::Never),
    ]
}

proptest! {
    #[test]
    fn every_delay_lies_in_its_band_and_is_the_same_each_time(
        policy in any_policy(), failures in 0_u32..3000, age_secs in 0_u64..100_000_000, seed: u64,
    ) {
        let age = Duration::from_secs(age_secs);
        let delay = policy.delay_after(failures, age, seed);
        prop_assert_eq!(delay, policy.delay_after(failures, age, seed));
        prop_assert_eq!(delay.is_some(), policy.band_after(failures, age).is_some());
        if let (Some(delay), Some(band)) = (delay, policy.band_after(failures, age)) {
            prop_assert!(band.shortest <= delay && delay <= band.longest);
            prop_assert!(band.longest <= DELAY_MAX);
        }
    }

    #[test]
    fn jitter_uses_the_whole_band(first_id in 0_u64..1_000_000) {
        let policy = RetryPolicy::default();
        let delays: Vec<_> = (first_id..first_id + 200)
            .map(|seed| policy.delay_after(1, YOUNG, seed).unwrap().as_secs_f64())
            .collect();
        let mean = delays.iter().sum::<f64>() / 200.0;
        prop_assert!((28.5..31.5).contains(&mean), "mean {mean}");
        prop_assert!(delays.iter().any(|d| *d < 25.0) && delays.iter().any(|d| *d > 35.0));
    }
}
