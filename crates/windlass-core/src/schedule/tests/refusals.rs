//! A text that is no schedule is refused before anything is stored, with what to do.

use super::*;

fn refusal(text: &str) -> String {
    let error = Schedule::parse(text).map(|schedule| schedule.to_string()).expect_err(text).to_string();
    assert!(error.starts_with("expected "), "{error}");
    assert!(error.len() < 700, "{error}");
    error
}

#[test]
fn what_begins_like_nothing_known_is_answered_with_examples() {
    for text in ["", " ", "soon", "hourly", "@reboot", "?", "at 02:00", "-5m"] {
        assert!(refusal(text).contains("daily at 02:00"), "{text}");
    }
}

#[test]
fn dates_that_never_come_are_refused() {
    for text in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 feb *", "* * 30-31 2 *", "0 0 * 2 *, 01:00-02:00"]
    {
        assert!(refusal(text).contains("does not run within fifty years"), "{text}");
    }
    for rare in ["0 0 29 2 *", "0 0 29 2 *, mon", "0 0 * 2 1#5"] {
        assert!(Schedule::parse(rare).is_ok(), "{rare}");
    }
}

#[test]
fn windows_that_never_open_are_refused() {
    let cases = [
        "daily at 08:00, 09:30-16:00",
        "0 8 * * *, 09:30-16:00",
        "weekly on sun at 09:00, mon-fri",
        // The clocks of New York always leave out that hour on that day.
        "*/5 2 * 3 SUN#2, America/New_York",
    ];
    for text in cases {
        assert!(refusal(text).contains("does not run within fifty years"), "{text}");
    }
    for text in
        ["every 5m, 09:30-09:30", "every 5m, 16:00-25:00", "every 5m, 24:00-06:00", "every 5m, 9:3-16:00"]
    {
        assert!(refusal(text).contains("09:30-16:00"), "{text}");
    }
}

#[test]
fn an_interval_of_nothing_or_of_ages_is_refused() {
    for text in ["every 0s", "every 0m", "every 500ms", "every 1500ms", "every 3651d", "every 0.5s"] {
        assert!(refusal(text).contains("from 1s to 3650d"), "{text}");
    }
    for text in
        ["every", "every -5m", "every soon", "every 5 fortnights", "every 99999999999999999999d", "every m5"]
    {
        assert!(refusal(text).contains("after `every`"), "{text}");
    }
    assert!(refusal("every 5 fortnights").contains("5 fortnights"));
    for text in [
        "every 3h, 09:30-11:30",
        "every 36h, mon-fri",
        "every 24h, sun, America/New_York",
        "every 12h, 12:00-24:00",
    ] {
        assert!(refusal(text).contains("before its window closes"), "{text}");
    }
    assert!(Schedule::parse("every 2h, 09:30-11:30").is_ok(), "it runs at both ends");
    assert!(refusal("every 5m from 2027-01-04T09:00:00Z, mon-fri").contains("got both"));
    assert!(refusal("every 5m from noon").contains("after `from`"));
    assert!(refusal("every 5m from 2027-02-30T00:00:00Z").contains("after `from`"));
}

#[test]
fn a_field_of_a_cron_expression_says_what_it_takes() {
    let cases = [
        ("60 * * * *", "from 0 to 59", "\"60\""),
        ("* 24 * * *", "from 0 to 23", "\"24\""),
        ("* * 0 * *", "from 1 to 31", "\"0\""),
        ("* * 32 * *", "1 to 31", "\"32\""),
        ("* * * 13 *", "in the month field", "\"13\""),
        ("* * * * 8", "0 (Sunday) to 7", "\"8\""),
        ("*/0 * * * *", "minute field", "a step is a number"),
        ("*/90 * * * *", "minute field", "a step is a number"),
        ("5/15 * * * *", "minute field", "5-59/15"),
        ("* 22-6 * * *", "hour field", "22-23,0-6"),
        ("* +5 * * *", "hour field", "\"+5\""),
        ("1,,2 * * * *", "minute field", "\"\""),
        ("* * ? * *", "day of the month field", "\"?\""),
        ("* * 15W * *", "day of the month field", "\"15W\""),
        ("* * * * FRI#6", "day of the week field", "FRI#6"),
        ("* * * * FRI#+2", "day of the week field", "FRI#+2"),
        ("* * * * L", "day of the week field", "\"L\""),
        ("1--100000000 * * * *", "minute field", "1--100000000"),
    ];
    for (text, expected, got) in cases {
        let error = refusal(text);
        assert!(error.contains(expected) && error.contains(got), "{text}: {error}");
    }
}

#[test]
fn too_few_and_too_many_fields_are_counted() {
    assert!(refusal("*/5 9-16").contains("got 2"));
    let error = refusal("0 */5 9-16 * * 1-5");
    assert!(error.contains("got 6") && error.contains("every 10s"), "{error}");
    assert!(refusal("0 0 9 * * * 2027").contains("got 7"));
    assert!(refusal("0, 9 * * *, UTC").contains("minute field"));
    assert!(refusal("0 9 1, * *").contains("day of the month field"));
}

#[test]
fn days_in_a_cron_expression_and_behind_it_are_refused() {
    for text in ["0 9 1 * mon, wed", "0 9 * * mon, wed", "*/5 9-16 * * 1-5, weekends", "0 9 * * fri#2, fri"] {
        assert!(refusal(text).contains("mon,wed"), "{text}");
    }
    assert!(Schedule::parse("0 9 1 * *, mon-fri").is_ok());
}

#[test]
fn a_zone_that_does_not_exist_is_answered_with_the_nearest() {
    let cases = [
        ("America/NewYork", "America/New_York"),
        ("Europe/Berln", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("New_York", "America/New_York"),
    ];
    for (got, meant) in cases {
        let error = refusal(&format!("daily at 02:00, {got}"));
        assert!(error.contains(&format!("did you mean {meant}?")), "{error}");
    }
    for name in ["", "Mars/Olympus_Mons", "Etc/Unknown", "../../etc/passwd", "EST5EDT,M3.2.0,M11.1.0"] {
        let error = Zone::parse(name).unwrap_err();
        assert!(matches!(error, ScheduleError::UnknownZone { .. }), "{name}: {error}");
    }
}

#[test]
fn what_is_huge_or_cannot_be_printed_is_refused_with_a_short_answer() {
    let long = format!("{} * * * *", vec!["1"; 512].join(","));
    assert!(refusal(&long).contains("at most 512 bytes, got 1031"));
    for (text, at) in [("daily at 02:00\0", 15), ("daily\tat 02:00", 6), ("\u{1b}[2J", 1), ("every 5m\n", 9)]
    {
        assert!(refusal(text).contains(&format!("at character {at}")), "{text:?}");
    }
    assert!(refusal(&format!("daily at 02:00, {}", "x".repeat(400))).len() < 300);
}

#[test]
fn what_was_said_twice_or_belongs_to_nothing_is_refused() {
    assert!(refusal("every 5m, 09:00-10:00, 11:00-12:00").contains("one window of hours"));
    assert!(refusal("every 5m, UTC, Asia/Tokyo").contains("one time zone"));
    assert!(refusal("every 5m, except weekends").contains("except holidays"));
    assert!(refusal("daily at 02:00 sharply").contains("\"sharply\""));
    assert!(refusal("daily at 24:00").contains("23:59"));
    assert!(refusal("daily at 2").contains("23:59"));
    assert!(refusal("weekly at 09:00").contains("weekly on"));
    assert!(refusal("weekly on someday at 09:00").contains("\"someday\""));
    let times: Vec<_> = (0..25).map(|minute| format!("02:{minute:02}")).collect();
    assert!(refusal(&format!("daily at {}", times.join(","))).contains("at most 24 times"));
}
