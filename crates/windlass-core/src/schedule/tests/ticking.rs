//! The ticks of schedules on days without clock changes.

use super::*;

#[test]
fn ticks_come_after_the_moment_and_not_at_it() {
    assert_eq!(
        next("every 15m", "2027-06-01T10:15:00Z", 2),
        ["2027-06-01T10:30:00+00:00", "2027-06-01T10:45:00+00:00"]
    );
    assert_eq!(next("30 10 * * *", "2027-06-01T10:30:00Z", 1), ["2027-06-02T10:30:00+00:00"]);
    assert_eq!(next("* * * * *", "2027-06-01T10:30:00.000001Z", 1), ["2027-06-01T10:31:00+00:00"]);
    assert_eq!(next("daily at 10:30", "2027-06-01T10:29:59.999999Z", 1), ["2027-06-01T10:30:00+00:00"]);
}

#[test]
fn a_market_is_open_from_half_past_nine_to_four_on_weekdays() {
    let text = "every 5 minutes, 9:30-16:00 America/New_York, weekdays";
    let friday = next(text, "2027-06-04T19:50:00Z", 4);
    assert_eq!(
        friday,
        [
            "2027-06-04T15:55:00-04:00",
            "2027-06-04T16:00:00-04:00",
            "2027-06-07T09:30:00-04:00",
            "2027-06-07T09:35:00-04:00"
        ]
    );
    assert_eq!(
        next(text, "2027-06-07T00:00:00Z", 200).iter().filter(|tick| tick.starts_with("2027-06-07")).count(),
        79
    );
}

#[test]
fn an_interval_counts_from_each_opening_and_from_1970_without_a_window() {
    assert_eq!(
        next("every 7m, 09:00-09:20", "2027-06-01T00:00:00Z", 4),
        [
            "2027-06-01T09:00:00+00:00",
            "2027-06-01T09:07:00+00:00",
            "2027-06-01T09:14:00+00:00",
            "2027-06-02T09:00:00+00:00"
        ]
    );
    assert_eq!(
        next("every 7h", "1970-01-01T00:00:00Z", 2),
        ["1970-01-01T07:00:00+00:00", "1970-01-01T14:00:00+00:00"]
    );
    assert_eq!(
        next("every 14d from 2027-01-04T09:00:00Z", "2026-01-01T00:00:00Z", 2),
        ["2027-01-04T09:00:00+00:00", "2027-01-18T09:00:00+00:00"]
    );
}

#[test]
fn a_window_over_midnight_belongs_to_the_day_on_which_it_opens() {
    // Monday's window closes on Tuesday morning; Tuesday's does not open.
    let mondays = ["2027-06-07T23:00:00+00:00", "2027-06-08T01:00:00+00:00", "2027-06-14T23:00:00+00:00"];
    assert_eq!(next("every 2h, 23:00-02:00, mon", "2027-06-07T00:00:00Z", 3), mondays);
    assert_eq!(next("0 1,23 * * *, 23:00-02:00, mon", "2027-06-07T00:00:00Z", 3), mondays);
    assert_eq!(
        next("0 */1 * * *, 23:00-02:00, mon", "2027-06-07T00:00:00Z", 5)[3..],
        ["2027-06-08T02:00:00+00:00", "2027-06-14T23:00:00+00:00"]
    );
}

#[test]
fn a_window_that_opened_yesterday_is_still_open() {
    let ticks = next("every 45m, 22:00-02:30, mon", "2027-06-08T01:00:00Z", 2);
    assert_eq!(ticks, ["2027-06-08T01:45:00+00:00", "2027-06-08T02:30:00+00:00"]);
}

#[test]
fn a_whole_day_ends_before_the_next_begins() {
    let ticks = next("every 12h, fri", "2027-06-04T00:00:00Z", 2);
    assert_eq!(ticks, ["2027-06-04T12:00:00+00:00", "2027-06-11T00:00:00+00:00"]);
    let ticks = next("every 6h, 12:00-24:00, fri", "2027-06-04T12:00:00Z", 2);
    assert_eq!(ticks, ["2027-06-04T18:00:00+00:00", "2027-06-11T12:00:00+00:00"]);
}

#[test]
fn nothing_runs_on_holidays_if_the_schedule_says_so() {
    let holidays = Holidays::parse("2027-06-02 A Wednesday\n2027-06-04 A Friday").unwrap();
    let days = |text: &str| -> Vec<String> {
        let ticks = next_without(&holidays, text, "2027-06-01T00:00:00Z", 3);
        ticks.iter().map(|tick| tick[8..10].to_owned()).collect()
    };
    for text in
        ["daily at 09:00", "0 9 * * *", "0 9-9 */1 * *", "every 30m, 09:00-09:30", "* 9 * * *, 09:00-09:01"]
    {
        let with_holidays = days(&format!("{text}, except holidays"));
        assert!(!with_holidays.contains(&"02".to_owned()), "{text}: {with_holidays:?}");
        assert_eq!(days(text)[0], "01", "{text}");
    }
    assert_eq!(days("daily at 09:00, except holidays"), ["01", "03", "05"]);
    assert_eq!(days("daily at 09:00"), ["01", "02", "03"]);
}

#[test]
fn days_of_cron_are_those_of_every_cron() {
    let days = |text: &str, count| -> Vec<String> {
        let ticks = next(text, "2027-01-01T12:00:00Z", count);
        ticks.iter().map(|tick| tick[5..10].to_owned()).collect()
    };
    // 13 August 2027 is a Friday. A match of either field is enough if both are restricted.
    assert_eq!(days("0 0 13 8 5", 5), ["08-06", "08-13", "08-20", "08-27", "08-04"]);
    assert_eq!(days("0 0 13 * *", 2), ["01-13", "02-13"]);
    // A field that begins with a star narrows the other one.
    assert_eq!(days("0 0 */2 * 5", 3), ["01-15", "01-29", "02-05"]);
    assert_eq!(days("0 0 L * *", 3), ["01-31", "02-28", "03-31"]);
    assert_eq!(days("0 0 * * FRI#2", 3), ["01-08", "02-12", "03-12"]);
    assert_eq!(days("0 0 * * FRIL", 3), ["01-29", "02-26", "03-26"]);
    assert_eq!(days("0 0 * * 0", 2), days("0 0 * * 7", 2));
    assert_eq!(days("0 0 * * 5-7", 3), ["01-02", "01-03", "01-08"]);
    assert_eq!(next("0 0 29 2 *", "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00+00:00"]);
}

#[test]
fn a_look_ends_where_it_should_and_at_the_end_of_the_calendar() {
    let none = Holidays::default();
    let every_second = schedule("every 1s");
    let (from, to) = (at("2027-06-01T00:00:00Z"), at("2027-06-01T00:01:00Z"));
    assert_eq!(every_second.ticks_between(from, to, &none).count(), 60);
    assert_eq!(every_second.ticks_between(to, from, &none).count(), 0);
    let end = at("9999-12-30T00:00:00Z");
    let far = Timestamp::from_micros(i64::MAX);
    for text in ["every 1h", "daily at 09:00", "*/30 * * * *", "every 1h, 09:00-10:00", "0 9 * * 1"] {
        let schedule = schedule(text);
        assert!(schedule.ticks_after(end, &none).count() < 200, "{text}");
        assert_eq!(schedule.ticks_after(far, &none).next(), None, "{text}");
        let mut ticks = schedule.ticks_between(from, from, &none);
        assert_eq!((ticks.next(), ticks.next()), (None, None), "{text}");
    }
}

#[test]
fn a_look_that_ends_before_the_calendar_begins_finds_nothing() {
    let none = Holidays::default();
    let before_the_calendar = Timestamp::from_micros(i64::MIN);
    let (from, past) = (at("2027-06-01T00:00:00Z"), Timestamp::from_micros(i64::MIN / 2));
    for text in ["every 1h", "daily at 09:00", "*/30 * * * *", "every 1h, 09:00-10:00"] {
        let schedule = schedule(text);
        assert_eq!(schedule.ticks_between(from, before_the_calendar, &none).next(), None, "{text}");
        assert_eq!(schedule.ticks_between(before_the_calendar, past, &none).next(), None, "{text}");
        assert!(schedule.ticks_between(before_the_calendar, from, &none).next().is_some(), "{text}");
    }
}

#[test]
fn each_tick_is_searched_for_fifty_years_and_not_all_together() {
    let leap_days = next("0 0 29 2 *", "2027-01-01T00:00:00Z", 40);
    assert_eq!(leap_days.len(), 40);
    assert_eq!(leap_days[39], "2188-02-29T00:00:00+00:00", "2100 has none");
    assert_eq!(next("every 3650d", "2027-01-01T00:00:00Z", 30).len(), 30);
}

#[test]
fn a_night_before_a_holiday_ends_at_midnight() {
    let holidays = Holidays::parse("2027-06-02 A Wednesday").unwrap();
    let nights = |text: &str| -> Vec<String> {
        let ticks = next_without(&holidays, text, "2027-06-01T12:00:00Z", 4);
        ticks.iter().map(|tick| tick[8..16].to_owned()).collect()
    };
    // Tuesday's window would be open until Wednesday morning, and Wednesday's stays closed.
    let expected = ["01T22:00", "03T22:00", "04T01:00", "04T04:00"];
    assert_eq!(nights("every 3h, 22:00-06:00, except holidays"), expected);
    assert_eq!(nights("0 1,4,22 * * *, 22:00-06:00, except holidays"), expected);
    assert_eq!(nights("daily at 01:00,04:00,22:00, 22:00-06:00, except holidays"), expected);
}
