//! Ticks that nobody saw.

use std::time::Duration;

use super::*;
use crate::limits::{CATCH_UP_MAX, MISSED_COUNTED_MAX};

const LAST: &str = "2027-06-01T09:00:00Z";

fn due(text: &str, policy: CatchUp, last: &str, now: &str) -> Due {
    catch_up(&schedule(text), &Holidays::default(), &policy, at(last), at(now))
}

fn times(due: &Due) -> Vec<String> {
    due.run.iter().map(|tick| tick.to_string()[11..19].to_owned()).collect()
}

fn policy(missed: Missed) -> CatchUp {
    CatchUp { missed, ..CatchUp::default() }
}

#[test]
fn a_tick_that_is_seen_in_time_runs_under_every_policy() {
    for missed in [Missed::Skip, Missed::RunOnce, Missed::RunAll] {
        let due = due("every 5m", policy(missed), LAST, "2027-06-01T09:05:00.400Z");
        assert_eq!((times(&due), due.missed), (vec!["09:05:00".to_owned()], 0), "{missed:?}");
        assert_eq!(due.last, at("2027-06-01T09:05:00Z"));
    }
}

#[test]
fn missed_ticks_run_as_one_by_default() {
    let due = due("every 5m", CatchUp::default(), LAST, "2027-06-01T10:02:00Z");
    assert_eq!(times(&due), ["10:00:00"]);
    assert_eq!((due.missed, due.first_missed), (12, Some(at("2027-06-01T09:05:00Z"))));
    assert_eq!(due.last, at("2027-06-01T10:00:00Z"));
}

#[test]
fn a_tick_in_time_runs_for_the_missed_ones_too() {
    let due = due("every 5m", CatchUp::default(), LAST, "2027-06-01T10:00:30Z");
    assert_eq!((times(&due), due.missed), (vec!["10:00:00".to_owned()], 11));
}

#[test]
fn skip_drops_them_and_says_how_many() {
    let due = due("every 5m", policy(Missed::Skip), LAST, "2027-06-01T10:02:00Z");
    assert_eq!((times(&due), due.missed), (vec![], 12));
    assert_eq!(due.last, at("2027-06-01T10:00:00Z"), "they are not looked at again");
}

#[test]
fn run_all_runs_each_up_to_a_limit_and_a_lateness() {
    let all = due("every 15m", policy(Missed::RunAll), LAST, "2027-06-01T10:00:10Z");
    assert_eq!(times(&all), ["09:15:00", "09:30:00", "09:45:00", "10:00:00"]);
    let limited = CatchUp { limit: 2, ..policy(Missed::RunAll) };
    assert_eq!(times(&due("every 15m", limited, LAST, "2027-06-01T10:02:00Z")), ["09:45:00", "10:00:00"]);
    let not_late = CatchUp { lateness: Some(Duration::from_secs(30 * 60)), ..policy(Missed::RunAll) };
    assert_eq!(
        times(&due("every 15m", not_late, LAST, "2027-06-01T10:00:00Z")),
        ["09:30:00", "09:45:00", "10:00:00"]
    );
    let never = CatchUp { limit: 0, ..policy(Missed::RunAll) };
    assert_eq!(times(&due("every 15m", never, LAST, "2027-06-01T10:02:00Z")), [""; 0]);
}

#[test]
fn a_nightly_job_that_is_too_late_waits_for_the_next_night() {
    let by_noon = CatchUp { lateness: Some(Duration::from_secs(4 * 3600)), ..CatchUp::default() };
    let nightly = "daily at 02:00";
    assert_eq!(times(&due(nightly, by_noon, "2027-05-31T02:00:00Z", "2027-06-01T06:00:00Z")), ["02:00:00"]);
    assert_eq!(times(&due(nightly, by_noon, "2027-05-31T02:00:00Z", "2027-06-01T06:00:01Z")), [""; 0]);
}

#[test]
fn a_clock_that_was_set_back_runs_nothing_again() {
    for missed in [Missed::Skip, Missed::RunOnce, Missed::RunAll] {
        let due = due("every 5m", policy(missed), LAST, "2027-06-01T08:00:00Z");
        assert_eq!((due.run.len(), due.missed, due.last), (0, 0, at(LAST)), "{missed:?}");
    }
}

#[test]
fn years_of_missed_seconds_are_dealt_with_at_once() {
    let all = CatchUp { limit: u32::MAX, ..policy(Missed::RunAll) };
    let due = due("every 1s", all, "1990-06-01T09:00:00Z", "2027-06-01T10:00:00Z");
    assert_eq!(due.missed, MISSED_COUNTED_MAX);
    assert_eq!(due.run.len(), CATCH_UP_MAX as usize + 61, "the limit, and those of the last minute");
    assert_eq!(due.last, at("2027-06-01T10:00:00Z"));
}

#[test]
fn a_policy_is_read_with_its_defaults() {
    let read: CatchUp = serde_json::from_str(r#"{"missed":"run-all","lateness":"1h"}"#).unwrap();
    assert_eq!(
        read,
        CatchUp { missed: Missed::RunAll, lateness: Some(Duration::from_secs(3600)), ..CatchUp::default() }
    );
    assert_eq!(serde_json::from_str::<CatchUp>("{}").unwrap(), CatchUp::default());
}
