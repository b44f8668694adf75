//! Clock changes in every zone that has them.

use std::time::Duration;

use super::*;

const NONE: fn() -> Holidays = Holidays::default;
const HALF_A_DAY: Duration = Duration::from_secs(12 * 60 * 60);

/// Returns all changes of all zones from 2020 to 2037.
fn all_changes() -> Vec<(Zone, ClockChange)> {
    let (from, until) = (at("2020-01-01T00:00:00Z"), at("2038-01-01T00:00:00Z"));
    let zones = Zone::names().into_iter().filter_map(|name| Zone::parse(&name).ok());
    let changes: Vec<_> = zones
        .flat_map(|zone| {
            let changes = zone.clock_changes(from, until, 200);
            changes.into_iter().map(move |change| (zone.clone(), change))
        })
        .collect();
    assert!(changes.len() > 5_000, "{} changes", changes.len());
    changes
}

/// Returns the time of day that a clock shows `seconds` east of UTC.
fn shown(instant: Timestamp, seconds: i32) -> String {
    let local = Timestamp::from_micros(instant.as_micros() + i64::from(seconds) * 1_000_000);
    local.to_string()[11..16].to_owned()
}

/// Returns half of the size of a change, in whole minutes.
fn half(change: &ClockChange) -> Duration {
    Duration::from_secs(u64::from(change.forward_s().unsigned_abs()) / 120 * 60)
}

fn around(schedule: &Schedule, at: Timestamp) -> Vec<Timestamp> {
    schedule.ticks_between(at.minus(HALF_A_DAY), at.plus(HALF_A_DAY), &NONE()).collect()
}

fn appointments(time: &str, zone: &Zone) -> [Schedule; 3] {
    let (hour, minute) = time.split_once(':').unwrap();
    [format!("daily at {time}"), format!("weekly on mon-sun at {time}"), format!("{minute} {hour} * * *")]
        .map(|text| Schedule::parse_in(&text, zone.clone()).unwrap())
}

#[test]
fn a_fixed_time_that_is_left_out_runs_right_after_the_gap_in_every_zone() {
    let gaps = all_changes().into_iter().filter(|(_, change)| change.forward_s() > 0);
    for (zone, change) in gaps {
        let left_out = shown(change.at.plus(half(&change)), change.before_s);
        for schedule in appointments(&left_out, &zone) {
            assert_eq!(around(&schedule, change.at), [change.at], "{schedule} at {}", change.at);
        }
    }
}

#[test]
fn a_fixed_time_that_comes_twice_runs_the_first_time_in_every_zone() {
    let folds = all_changes().into_iter().filter(|(_, change)| change.forward_s() < 0);
    for (zone, change) in folds {
        let first = change.at.minus(half(&change));
        let twice = shown(first, change.before_s);
        for schedule in appointments(&twice, &zone) {
            assert_eq!(around(&schedule, change.at), [first], "{schedule} at {}", change.at);
        }
    }
}

#[test]
fn intervals_and_beats_follow_elapsed_time_in_every_zone() {
    for (zone, change) in all_changes() {
        for (text, step) in [("every 10m", 600), ("*/5 * * * *", 300), ("0 * * * *", 3_600)] {
            if change.forward_s() % step != 0 && text != "every 10m" {
                continue;
            }
            let schedule = Schedule::parse_in(text, zone.clone()).unwrap();
            let ticks = around(&schedule, change.at);
            let even = Duration::from_secs(u64::from(step.unsigned_abs()));
            assert!(
                ticks.windows(2).all(|pair| pair[1].since(pair[0]) == even),
                "{schedule} at {}",
                change.at
            );
            assert!(ticks.len() >= 23, "{schedule} at {}", change.at);
        }
    }
}

#[test]
fn several_fixed_times_in_one_gap_run_once() {
    // On 14 March 2027 the clocks of New York go from 02:00 to 03:00.
    let ticks = next("0,15,30,45 1-3 * * *, America/New_York", "2027-03-14T06:30:00Z", 4);
    assert_eq!(
        ticks,
        [
            "2027-03-14T01:45:00-05:00",
            "2027-03-14T03:00:00-04:00",
            "2027-03-14T03:15:00-04:00",
            "2027-03-14T03:30:00-04:00"
        ]
    );
}

#[test]
fn a_beat_goes_on_through_the_change_and_skips_what_is_left_out() {
    let spring = next("*/20 1-3 * * *, America/New_York", "2027-03-14T06:30:00Z", 3);
    assert_eq!(
        spring,
        ["2027-03-14T01:40:00-05:00", "2027-03-14T03:00:00-04:00", "2027-03-14T03:20:00-04:00"]
    );
    let only_the_gap = next("*/20 2 * * *, America/New_York", "2027-03-13T08:00:00Z", 1);
    assert_eq!(only_the_gap, ["2027-03-15T02:00:00-04:00"]);
    let autumn = next("*/30 1 * * *, America/New_York", "2027-11-07T04:00:00Z", 5);
    assert_eq!(
        autumn,
        [
            "2027-11-07T01:00:00-04:00",
            "2027-11-07T01:30:00-04:00",
            "2027-11-07T01:00:00-05:00",
            "2027-11-07T01:30:00-05:00",
            "2027-11-08T01:00:00-05:00"
        ]
    );
}

#[test]
fn a_window_opens_at_the_first_and_closes_at_the_last_of_two_equal_times() {
    let autumn = next("every 30m, 01:00-01:30, America/New_York", "2027-11-07T04:00:00Z", 5);
    assert_eq!(
        autumn,
        [
            "2027-11-07T01:00:00-04:00",
            "2027-11-07T01:30:00-04:00",
            "2027-11-07T01:00:00-05:00",
            "2027-11-07T01:30:00-05:00",
            "2027-11-08T01:00:00-05:00"
        ]
    );
    let spring = next("every 30m, 02:00-03:30, America/New_York", "2027-03-14T05:00:00Z", 3);
    assert_eq!(
        spring,
        ["2027-03-14T03:00:00-04:00", "2027-03-14T03:30:00-04:00", "2027-03-15T02:00:00-04:00"]
    );
}

#[test]
fn a_day_that_a_zone_left_out_is_made_up_for_when_it_is_over() {
    // Samoa went over the date line: after Thursday, 29 December 2011 came Saturday.
    let ticks = next("daily at 09:00, Pacific/Apia", "2011-12-29T00:00:00Z", 3);
    assert_eq!(
        ticks,
        ["2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"]
    );
    let friday = next("weekly on fri at 09:00, Pacific/Apia", "2011-12-29T00:00:00Z", 2);
    assert_eq!(friday, ["2011-12-31T00:00:00+14:00", "2012-01-06T09:00:00+14:00"]);
}

#[test]
fn beats_stay_in_order_where_clocks_went_back_over_midnight() {
    // In St John's clocks went back from 00:01 to 23:01 of the day before.
    let ticks = next("*/30 * * * *, America/St_Johns", "2010-11-07T01:40:00Z", 6);
    let times: Vec<_> = ticks.iter().map(|tick| &tick[5..16]).collect();
    assert_eq!(
        times,
        ["11-06T23:30", "11-07T00:00", "11-06T23:30", "11-07T00:00", "11-07T00:30", "11-07T01:00"]
    );
}

#[test]
fn a_change_says_what_clocks_show_before_and_after() {
    let new_york = Zone::parse("America/New_York").unwrap();
    let changes = new_york.clock_changes(at("2027-03-12T00:00:00Z"), at("2027-12-01T00:00:00Z"), 10);
    let listed: Vec<_> =
        changes.iter().map(|change| (change.at.to_string(), change.from_to(), change.forward_s())).collect();
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    assert_eq!(
        listed,
        [
            ("2027-03-14T07:00:00.000Z".to_owned(), pair("02:00", "03:00"), 3600),
            ("2027-11-07T06:00:00.000Z".to_owned(), pair("02:00", "01:00"), -3600)
        ]
    );
    assert_eq!(new_york.clock_changes(changes[0].at, changes[0].at, 10), []);
    assert_eq!(Zone::utc().clock_changes(at("2027-01-01T00:00:00Z"), at("2037-01-01T00:00:00Z"), 10), []);
    assert_eq!(new_york.reading_for_people(changes[0].at), "Sun 2027-03-14 03:00:00 EDT");
}

#[test]
fn certain_hours_are_kept_once_however_they_are_written() {
    // In Havana 00:00 comes twice, in Beirut and Cairo it is left out, in New York 02:00 is.
    let days = |text: &str, from: &str, count| -> Vec<String> {
        next(text, from, count).iter().map(|tick| tick[5..16].to_owned()).collect()
    };
    let havana = days("0 */12 * * *, America/Havana", "2027-11-07T03:00:00Z", 3);
    assert_eq!(havana, ["11-07T00:00", "11-07T12:00", "11-08T00:00"]);
    let beirut = days("0 */12 * * *, Asia/Beirut", "2027-03-27T12:00:00Z", 2);
    assert_eq!(beirut, ["03-28T01:00", "03-28T12:00"]);
    let new_york = days("0 */2 * * *, America/New_York", "2027-03-14T05:00:00Z", 3);
    assert_eq!(new_york, ["03-14T03:00", "03-14T04:00", "03-14T06:00"]);
    // Every hour is a beat, whether it is written as a star or not.
    let beats = days("30 0-23 * * *, America/New_York", "2027-11-07T04:45:00Z", 3);
    assert_eq!(beats, ["11-07T01:30", "11-07T01:30", "11-07T02:30"]);
    let minutes = days("0-59 2 * * *, America/New_York", "2027-03-14T05:00:00Z", 1);
    assert_eq!(minutes, ["03-15T02:00"]);
}

#[test]
fn an_interval_keeps_out_of_what_clocks_show_between_two_openings() {
    // The clocks of New York go back from 02:00 to 01:00 on 7 November 2027.
    let times = |text: &str, count| -> Vec<String> {
        let ticks = next(&format!("{text}, America/New_York"), "2027-11-07T04:00:00Z", count);
        ticks.iter().map(|tick| tick[8..22].to_owned()).collect()
    };
    let closes_twice = times("every 15m, 00:45-01:15", 6);
    let shown = ["07T00:45:00-04", "07T01:00:00-04", "07T01:15:00-04", "07T01:00:00-05", "07T01:15:00-05"];
    assert_eq!(closes_twice[..5], shown);
    assert_eq!(closes_twice[5], "08T00:45:00-05");
    let opens_twice = times("every 15m, 01:45-02:15", 4);
    assert_eq!(opens_twice, ["07T01:45:00-04", "07T01:45:00-05", "07T02:00:00-05", "07T02:15:00-05"]);
    // Half a minute after the closing time it is closed, the first time too.
    let seconds = times("every 45s, 01:00-01:03", 6);
    assert_eq!(seconds[3..], ["07T01:02:15-04", "07T01:03:00-04", "07T01:00:00-05"]);
}

#[test]
fn a_window_that_still_is_open_when_the_next_one_opens_ends_there() {
    // Of the window that opened on Saturday, 01:15 comes a second time after Sunday's has opened.
    let ticks = next("every 45m, 01:30-01:15, America/New_York", "2027-11-07T04:20:00Z", 4);
    assert_eq!(
        ticks,
        [
            "2027-11-07T00:45:00-04:00",
            "2027-11-07T01:30:00-04:00",
            "2027-11-07T01:15:00-05:00",
            "2027-11-07T02:00:00-05:00"
        ]
    );
}
