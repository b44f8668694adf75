//! Whatever is typed, nothing panics, and what is taken keeps its promises.

use proptest::prelude::*;

use super::*;

/// Pieces of which schedules are made, and some that should not be there.
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

/// Made to be right more often than not.
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
        prop_assert_eq!(again, Some(tick), "asked anew at {} of {}", before, canonical);
        before = tick;
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
    fn any_two_instants_are_dealt_with(text in likely(), last in any::<i64>(), now in any::<i64>()) {
        let Ok(schedule) = Schedule::parse(&text) else { return Ok(()) };
        let (last, now) = (Timestamp::from_micros(last), Timestamp::from_micros(now));
        for missed in [Missed::Skip, Missed::RunOnce, Missed::RunAll] {
            let policy = CatchUp { missed, ..CatchUp::default() };
            let due = catch_up(&schedule, &Holidays::default(), &policy, last, now);
            prop_assert!(due.last >= last && due.run.is_sorted());
            prop_assert!(due.run.iter().all(|tick| last < *tick && *tick <= now));
        }
    }
}
