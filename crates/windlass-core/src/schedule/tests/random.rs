//! Whatever text comes, nothing panics, and accepted schedules keep their promises.

use proptest::prelude::*;

use std::time::Duration;

use super::super::catch_up::before;
use super::*;
use crate::limits::{CATCH_UP_MAX, MISSED_COUNTED_MAX, SCHEDULE_SEARCH_MAX};

/// Parts of schedules, and some invalid parts.
const PIECES: [&str; 64] = [
    "*",
    "*/5",
    "*/0",
    "0",
    "59",
    "60",
    "7",
    "31",
    "1-5",
    "5-1",
    "1,15",
    "L",
    "FRI#2",
    "monL",
    "JAN",
    "feb",
    "?",
    "15W",
    "1-",
    "-",
    ",",
    "/",
    "#",
    "every",
    "5m",
    "0s",
    "1h30m",
    "90",
    "minutes",
    "day",
    "days",
    "1d",
    "3650d",
    "from",
    "2027-01-04T09:00:00Z",
    "9999-12-31T23:59:59Z",
    "-9999-01-01T00:00:00Z",
    "daily",
    "weekly",
    "on",
    "at",
    "and",
    "02:30",
    "24:00",
    "9:30-16:00",
    "22:00-06:00",
    "00:00-24:00",
    "mon-fri",
    "sun",
    "weekends",
    "except",
    "holidays",
    "UTC",
    "America/New_York",
    "Pacific/Apia",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Etc/Unknown",
    "@daily",
    "@reboot",
    "é",
    "\u{202e}",
    "…",
    "—",
];

fn pieces() -> impl Strategy<Value = String> {
    let separator = prop_oneof![4 => Just(" "), 1 => Just(","), 1 => Just("")];
    let piece =
        (proptest::sample::select(&PIECES[..]), separator).prop_map(|(piece, gap)| format!("{piece}{gap}"));
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Generates schedules that are valid more often than not.
fn likely() -> impl Strategy<Value = String> {
    let field = |max: u8| {
        prop_oneof![
            Just("*".to_owned()),
            (1..=max).prop_map(|step| format!("*/{step}")),
            (1..=max).prop_map(|number| number.to_string()),
            (1..=max, 1..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
            (1..=max, 1..=max).prop_map(|(a, b)| format!("{a},{b}")),
        ]
    };
    let cron = (field(59), field(23), field(31), field(12), field(7))
        .prop_map(|(a, b, c, d, e)| format!("{a} {b} {c} {d} {e}"));
    let every = (1_u32..200_000).prop_map(|seconds| format!("every {seconds}s"));
    let daily = (0..24, 0..60).prop_map(|(hour, minute)| format!("daily at {hour}:{minute:02}"));
    let part = proptest::sample::select(
        &["", "mon-fri", "09:30-16:00", "22:15-01:10", "sun", "except holidays"][..],
    );
    let zone = proptest::sample::select(
        &["UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"][..],
    );
    (prop_oneof![cron, every, daily], part.clone(), part, zone)
        .prop_map(|(cadence, one, other, zone)| format!("{cadence}, {one}, {other}, {zone}"))
}

fn keeps_its_promises(text: &str) -> Result<(), TestCaseError> {
    let Ok(schedule) = Schedule::parse(text) else { return Ok(()) };
    let canonical = schedule.to_string();
    prop_assert_eq!(Schedule::parse(&canonical).map(|again| again.to_string()), Ok(canonical.clone()));
    prop_assert!(schedule.words().len() > 5);
    let holidays = Holidays::parse("2027-03-12 A\n2027-03-14 B\n2027-03-15 C").expect("three dates");
    let mut before = at("2027-03-12T16:40:00-05:00");
    for tick in schedule.ticks_after(before, &holidays).take(30) {
        prop_assert!(tick > before, "{} in {}", tick, canonical);
        let again = schedule.ticks_after(before, &holidays).next();
        prop_assert_eq!(again, Some(tick), "searched again at {} of {}", before, canonical);
        before = tick;
    }
    Ok(())
}

/// Generates instants in the calendar, around its ends, and far outside.
fn instants() -> impl Strategy<Value = Timestamp> {
    const YEAR: i64 = 366 * 24 * 3_600 * 1_000_000;
    let inside = -9_900 * YEAR..7_900 * YEAR;
    let micros = prop_oneof![
        6 => -100 * YEAR..200 * YEAR,
        2 => inside,
        1 => 8_000 * YEAR..8_030 * YEAR,
        1 => -11_970 * YEAR..-11_940 * YEAR,
        1 => any::<i64>(),
    ];
    micros.prop_map(Timestamp::from_micros)
}

/// Generates instants from 2026 to 2036, to the second.
fn of_our_time() -> impl Strategy<Value = Timestamp> {
    (1_767_225_600_i64..2_082_758_400).prop_map(|second| Timestamp::from_micros(second * 1_000_000))
}

fn decides_between(schedule: &Schedule, last: Timestamp, now: Timestamp) -> Result<(), TestCaseError> {
    let none = Holidays::default();
    let standing = Standing { decided_until: last, is_paused: false, skip: None };
    for missed in [Missed::Skip, Missed::RunOnce, Missed::RunAll] {
        let policy = CatchUp { missed, ..CatchUp::default() };
        let due = catch_up(schedule, &none, &policy, &standing, now);
        prop_assert!(due.decided_from == last && due.decided_until >= last && due.run.is_sorted());
        prop_assert!(due.run.iter().all(|tick| last < *tick && *tick <= now));
        let all_are_told = now.since(last) < SCHEDULE_SEARCH_MAX && due.dropped.count < MISSED_COUNTED_MAX;
        let in_time = schedule.ticks_between(last.max(before(now.minus(policy.grace))), now, &none);
        let in_time = if due.decided_until == now { in_time.take(CATCH_UP_MAX as usize).count() } else { 0 };
        prop_assert!(due.run.len() >= in_time, "{} of {} ticks noticed in time run", due.run.len(), in_time);
        if missed == Missed::RunAll && due.decided_until == now && all_are_told {
            let all = schedule.ticks_between(last, now, &none).count();
            prop_assert_eq!(
                due.run.len() + due.dropped.count as usize,
                all,
                "each tick runs or is counted as dropped"
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn random_text_never_panics(text in any::<String>()) {
        keeps_its_promises(&text)?;
        let _ = (Zone::parse(&text), Holidays::parse(&text), TimeOfDay::parse(&text), Hours::parse(&text));
    }

    #[test]
    fn random_pieces_never_panic(text in pieces()) {
        keeps_its_promises(&text)?;
        let _ = Holidays::parse(&text);
    }

    #[test]
    fn what_is_taken_reads_back_and_ticks_in_order(text in likely()) {
        keeps_its_promises(&text)?;
    }

    #[test]
    fn any_two_instants_are_dealt_with(text in likely(), last in instants(), now in instants()) {
        let Ok(schedule) = Schedule::parse(&text) else { return Ok(()) };
        decides_between(&schedule, last, now)?;
    }

    #[test]
    fn any_hours_of_our_time_are_dealt_with(text in likely(), last in of_our_time(), hours in 0..900_u64) {
        let Ok(schedule) = Schedule::parse(&text) else { return Ok(()) };
        decides_between(&schedule, last, last.plus(Duration::from_secs(hours * 3_600)))?;
    }

    #[test]
    fn a_look_between_any_two_instants_ends(text in likely(), after in instants(), until in instants()) {
        let Ok(schedule) = Schedule::parse(&text) else { return Ok(()) };
        let none = Holidays::default();
        for tick in schedule.ticks_between(after, until, &none).take(50) {
            prop_assert!(after < tick && tick <= until, "{} after {} until {}", tick, after, until);
        }
    }
}
