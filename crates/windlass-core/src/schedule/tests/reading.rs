//! The accepted ways to write a schedule, and the one canonical text of each.

use super::*;

#[test]
fn every_way_to_write_a_schedule_has_one_canonical_text() {
    let cases = [
        ("*/5 9-16 * * 1-5", "*/5 9-16 * * 1-5, UTC"),
        ("  */5   9-16 * * MON-FRI , America/New_York ", "*/5 9-16 * * 1-5, America/New_York"),
        ("0,30 09-16 * JAN,jul sun", "0,30 9-16 * 1,7 0, UTC"),
        ("0 0 L * *", "0 0 L * *, UTC"),
        ("0 9 * * FRI#2,monL,7,5#2", "0 9 * * 0,1L,5#2, UTC"),
        ("0 9 * * 5-7", "0 9 * * 0,5,6, UTC"),
        ("0 9 * * 5,4,3,2,mon", "0 9 * * 1-5, UTC"),
        ("5-5/3 9 * * *", "5 9 * * *, UTC"),
        ("1-59/2 0,6,12,18 * * *", "1-59/2 0-18/6 * * *, UTC"),
        ("3,*/20 10-22/20 * * *", "0,3,20,40 10 * * *, UTC"),
        ("*/20,3,20 1 */1,4 * */7", "*/20,3 1 * * */7, UTC"),
        ("*/2,1-59/2 1 1-31 * *", "* 1 1-31 * *, UTC"),
        ("weekly on mon-sun at 09:00", "daily at 09:00, UTC"),
        ("*/1 * * * *", "* * * * *, UTC"),
        ("@daily Europe/Berlin", "0 0 * * *, Europe/Berlin"),
        ("every 15m", "every 15m, UTC"),
        ("Every 90 minutes", "every 1h 30m, UTC"),
        ("every minute", "every 1m, UTC"),
        ("every 30 seconds in europe/paris", "every 30s, Europe/Paris"),
        ("every 14d from 2027-01-04T09:00:00+01:00", "every 14d from 2027-01-04T08:00:00Z, UTC"),
        (
            "every 5 minutes, 9:30–16:00 America/New_York, weekdays",
            "every 5m, 09:30-16:00, mon-fri, America/New_York",
        ),
        (
            "every 1h, 22:00-6:00, sat,sun, except holidays",
            "every 1h, 22:00-06:00, sat-sun, except holidays, UTC",
        ),
        ("daily at 2:00", "daily at 02:00, UTC"),
        ("every day at 14:00 and 02:00, 02:00", "daily at 02:00,14:00, UTC"),
        ("weekly on mon at 09:00 Asia/Tokyo", "weekly on mon at 09:00, Asia/Tokyo"),
        ("every Monday and Thursday at 9:00", "weekly on mon,thu at 09:00, UTC"),
        ("weekly on fri-mon at 00:00", "weekly on mon,fri-sun at 00:00, UTC"),
    ];
    for (written, canonical) in cases {
        let read = schedule(written);
        assert_eq!(read.to_string(), canonical, "{written}");
        assert_eq!(schedule(canonical), read, "{canonical}");
    }
}

#[test]
fn a_schedule_is_stored_as_its_text() {
    let kept = serde_json::to_string(&schedule("every 15m")).unwrap();
    assert_eq!(kept, "\"every 15m, UTC\"");
    assert_eq!(serde_json::from_str::<Schedule>(&kept).unwrap(), schedule("every 15m"));
    assert!(serde_json::from_str::<Schedule>("\"every 0s\"").is_err());
}

#[test]
fn a_zone_beside_the_text_goes_for_a_text_that_names_none() {
    let berlin = || Zone::parse("Europe/Berlin").unwrap();
    assert_eq!(Schedule::parse_in("daily at 02:00", berlin()).unwrap().zone(), &berlin());
    assert!(Schedule::parse_in("daily at 02:00, europe/berlin", berlin()).is_ok());
    let error = Schedule::parse_in("daily at 02:00, Asia/Tokyo", berlin()).unwrap_err();
    assert!(matches!(error, ScheduleError::Twice { .. }), "{error}");
}

#[test]
fn a_list_of_holidays_is_dates_with_names() {
    let text =
        "\u{feff}# of the exchange\n\n2027-01-01 New Year's Day\r\n2027-12-24\tChristmas Day, observed\n";
    let holidays = Holidays::parse(text).unwrap();
    let all: Vec<_> = holidays.iter().map(|(date, name)| format!("{date}: {name}")).collect();
    assert_eq!(all, ["2027-01-01: New Year's Day", "2027-12-24: Christmas Day, observed"]);
    assert_eq!(holidays.covers(), Some(("2027-01-01".to_owned(), "2027-12-24".to_owned())));
    assert_eq!(Holidays::default().covers(), None);
}

#[test]
fn a_wrong_list_of_holidays_names_the_line() {
    let cases = [
        ("2027-01-01 a\n2027-02-30 b", "line 2: expected a date"),
        ("20270101 a", "line 1: expected a date"),
        ("2027-01-01T00:00:00 a", "line 1: expected a date"),
        ("New Year", "line 1: expected a date"),
        ("2027-01-01", "line 1: expected a name"),
        ("2027-01-01 a\u{1b}[2J", "line 1: expected a name"),
        ("2027-01-01 a\n\n2027-01-01 b", "line 3: expected each date once"),
    ];
    for (text, expected) in cases {
        let error = Holidays::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}

#[test]
fn the_compiled_in_zones_are_known_by_version_and_name() {
    assert!(Zone::names().len() > 500);
    assert!(Zone::data_version().starts_with("20"), "{}", Zone::data_version());
    assert_eq!(Zone::parse("america/new_york").unwrap().name(), "America/New_York");
}
