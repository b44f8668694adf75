//! Ticks that no process noticed in time.

use std::time::Duration;

use super::*;
use crate::limits::{CATCH_UP_MAX, MISSED_COUNTED_MAX};

const LAST: &str = "2027-06-01T09:00:00Z";

fn due(text: &str, policy: CatchUp, last: &str, now: &str) -> Due {
    due_of(text, policy, standing(last), now)
}

fn due_of(text: &str, policy: CatchUp, standing: Standing, now: &str) -> Due {
    catch_up(&schedule(text), &Holidays::default(), &policy, &standing, at(now))
}

fn standing(decided_until: &str) -> Standing {
    Standing { decided_until: at(decided_until), is_paused: false, skip: None }
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
        assert_eq!((times(&due), due.missed.count), (vec!["09:05:00".to_owned()], 0), "{missed:?}");
        assert_eq!((due.decided_from, due.decided_until), (at(LAST), at("2027-06-01T09:05:00.400Z")));
    }
}

#[test]
fn missed_ticks_run_as_one_by_default() {
    let due = due("every 5m", CatchUp::default(), LAST, "2027-06-01T10:02:00Z");
    assert_eq!(times(&due), ["10:00:00"]);
    assert_eq!(due.missed, Tally { count: 12, first: Some(at("2027-06-01T09:05:00Z")) });
    assert_eq!(due.dropped, Tally::default(), "one tick runs in place of all");
}

#[test]
fn a_tick_in_time_runs_for_the_missed_ones_too() {
    let due = due("every 5m", CatchUp::default(), LAST, "2027-06-01T10:00:30Z");
    assert_eq!((times(&due), due.missed.count), (vec!["10:00:00".to_owned()], 11));
}

#[test]
fn skip_drops_them_and_says_how_many() {
    let due = due("every 5m", policy(Missed::Skip), LAST, "2027-06-01T10:02:00Z");
    assert_eq!((times(&due), due.missed.count, due.dropped.count), (vec![], 12, 12));
    assert_eq!(due.decided_until, at("2027-06-01T10:02:00Z"), "they are not checked again");
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
        assert_eq!(due, Due::nothing(at(LAST)), "{missed:?}");
    }
}

#[test]
fn years_of_missed_seconds_are_dealt_with_at_once() {
    let all = CatchUp { limit: u32::MAX, ..policy(Missed::RunAll) };
    let due = due("every 1s", all, "1990-06-01T09:00:00Z", "2027-06-01T10:00:00Z");
    assert_eq!((due.missed.count, due.dropped.count), (MISSED_COUNTED_MAX, MISSED_COUNTED_MAX));
    assert_eq!((due.run.len(), due.run[999]), (CATCH_UP_MAX as usize, at("2027-06-01T10:00:00Z")));
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

#[test]
fn the_first_look_at_a_schedule_makes_nothing_of_what_was_before_it_was_stored() {
    let stored = "2027-06-01T09:07:00Z";
    let first = due("every 5m", policy(Missed::RunAll), stored, "2027-06-01T09:08:00Z");
    assert_eq!((times(&first), first.missed.count), (vec![], 0));
    // Nothing was due, and yet it is decided: a text that changes now does not reach back.
    assert_eq!(first.decided_until, at("2027-06-01T09:08:00Z"));
    let changed = due("every 1s", policy(Missed::RunAll), "2027-06-01T09:08:00Z", "2027-06-01T09:08:02Z");
    assert_eq!(times(&changed), ["09:08:01", "09:08:02"]);
}

#[test]
fn what_is_later_than_the_lateness_does_not_run_within_the_grace_either() {
    let ten_seconds = Some(Duration::from_secs(10));
    for missed in [Missed::Skip, Missed::RunOnce, Missed::RunAll] {
        let strict = CatchUp { lateness: ten_seconds, ..policy(missed) };
        let late = due("every 5m", strict, LAST, "2027-06-01T09:05:30Z");
        assert_eq!((times(&late), late.missed.count, late.dropped.count), (vec![], 1, 1), "{missed:?}");
        assert_eq!(times(&due("every 5m", strict, LAST, "2027-06-01T09:05:10Z")), ["09:05:00"], "{missed:?}");
    }
}

#[test]
fn every_tick_that_is_seen_within_the_grace_runs_under_every_policy() {
    for missed in [Missed::Skip, Missed::RunOnce, Missed::RunAll] {
        // This is the time until another process leads.
        let seen = due("every 5s", policy(missed), LAST, "2027-06-01T09:00:11Z");
        assert_eq!(times(&seen), ["09:00:05", "09:00:10"], "{missed:?}");
        assert_eq!((seen.missed.count, seen.dropped.count), (0, 0), "{missed:?}");
    }
}

#[test]
fn a_policy_for_missed_ticks_is_about_those_before_the_grace_and_a_tick_in_time_stands_for_them() {
    for (missed, run, dropped) in
        [(Missed::Skip, 61, 539), (Missed::RunOnce, 61, 0), (Missed::RunAll, 161, 439)]
    {
        let due = due("every 1s", policy(missed), LAST, "2027-06-01T09:10:00Z");
        assert_eq!((due.run.len(), due.missed.count, due.dropped.count), (run, 539, dropped), "{missed:?}");
        assert_eq!(due.run.last(), Some(&at("2027-06-01T09:10:00Z")), "{missed:?}");
    }
}

#[test]
fn more_ticks_in_time_than_can_be_made_at_once_are_told_as_dropped_under_every_policy() {
    for missed in [Missed::Skip, Missed::RunOnce, Missed::RunAll] {
        let long = CatchUp { grace: Duration::from_secs(3600), ..policy(missed) };
        let due = due("every 1s", long, LAST, "2027-06-01T09:30:00Z");
        assert_eq!((due.run.len(), due.missed.count, due.dropped.count), (1_000, 0, 800), "{missed:?}");
    }
}

#[test]
fn a_long_grace_loses_nothing_without_saying_so() {
    let an_hour = CatchUp { grace: Duration::from_secs(3600), ..policy(Missed::RunAll) };
    let due = due("every 1s", CatchUp { limit: 1_000, ..an_hour }, LAST, "2027-06-01T09:30:00Z");
    assert_eq!((due.run.len(), due.missed.count), (1_000, 0));
    assert_eq!(due.dropped, Tally { count: 800, first: Some(at("2027-06-01T09:00:01Z")) });
}

#[test]
fn what_run_all_leaves_out_is_told() {
    let two = CatchUp { limit: 2, ..policy(Missed::RunAll) };
    let due = due("every 15m", two, LAST, "2027-06-01T10:00:10Z");
    assert_eq!(times(&due), ["09:30:00", "09:45:00", "10:00:00"], "two missed ticks, and one in time");
    assert_eq!(due.dropped, Tally { count: 1, first: Some(at("2027-06-01T09:15:00Z")) });
}

#[test]
fn what_falls_due_while_paused_is_dropped_and_not_caught_up_on() {
    let paused = Standing { is_paused: true, ..standing(LAST) };
    let due_then = due_of("every 15m", policy(Missed::RunAll), paused, "2027-06-01T10:00:10Z");
    assert_eq!((times(&due_then), due_then.missed.count, due_then.dropped.count), (vec![], 0, 4));
    let resumed = Standing { decided_until: due_then.decided_until, ..standing(LAST) };
    let after = due_of("every 15m", policy(Missed::RunAll), resumed, "2027-06-01T10:15:00Z");
    assert_eq!(times(&after), ["10:15:00"]);
}

#[test]
fn a_tick_that_is_left_out_is_told_and_no_other_runs_for_it() {
    let skip_next = |skip: &str| Standing { skip: Some(at(skip)), ..standing(LAST) };
    for missed in [Missed::Skip, Missed::RunOnce, Missed::RunAll] {
        let left_out =
            due_of("every 5m", policy(missed), skip_next("2027-06-01T09:05:00Z"), "2027-06-01T09:05:01Z");
        assert_eq!(
            (times(&left_out), left_out.skipped),
            (vec![], Some(at("2027-06-01T09:05:00Z"))),
            "{missed:?}"
        );
        assert_eq!((left_out.missed.count, left_out.dropped.count), (0, 0), "{missed:?}");
    }
    let all =
        due_of("every 5m", policy(Missed::RunAll), skip_next("2027-06-01T09:10:00Z"), "2027-06-01T09:15:01Z");
    assert_eq!(times(&all), ["09:05:00", "09:15:00"]);
    let once =
        due_of("every 5m", CatchUp::default(), skip_next("2027-06-01T09:10:00Z"), "2027-06-01T09:10:01Z");
    assert_eq!((times(&once), once.missed.count), (vec!["09:05:00".to_owned()], 1));
    let ahead =
        due_of("every 5m", CatchUp::default(), skip_next("2027-06-01T09:10:00Z"), "2027-06-01T09:05:01Z");
    assert_eq!((times(&ahead), ahead.skipped), (vec!["09:05:00".to_owned()], None), "its time has not come");
    let no_tick =
        due_of("every 5m", CatchUp::default(), skip_next("2027-06-01T09:04:00Z"), "2027-06-01T09:05:01Z");
    assert_eq!((times(&no_tick), no_tick.skipped), (vec!["09:05:00".to_owned()], None));
}

#[test]
fn a_clock_past_the_end_of_the_calendar_decides_nothing() {
    let far = Timestamp::from_micros(i64::MAX);
    let due =
        catch_up(&schedule("every 5m"), &Holidays::default(), &CatchUp::default(), &standing(LAST), far);
    assert_eq!(due, Due::nothing(at(LAST)));
}

#[test]
fn a_policy_that_could_run_nothing_or_too_much_is_refused() {
    let span = |seconds| Duration::from_secs(seconds);
    let wrong = [
        CatchUp { limit: 0, ..CatchUp::default() },
        CatchUp { limit: CATCH_UP_MAX + 1, ..CatchUp::default() },
        CatchUp { lateness: Some(Duration::ZERO), ..CatchUp::default() },
        CatchUp { lateness: Some(Duration::MAX), ..CatchUp::default() },
        CatchUp { grace: Duration::from_millis(999), ..CatchUp::default() },
        CatchUp { grace: span(3_651 * 86_400), ..CatchUp::default() },
    ];
    for policy in wrong {
        let error = policy.check().unwrap_err().to_string();
        assert!(error.starts_with("expected a `"), "{error}");
    }
    assert_eq!(CatchUp::default().check(), Ok(()));
    assert_eq!(
        CatchUp { lateness: Some(span(1)), grace: span(1), limit: CATCH_UP_MAX, ..CatchUp::default() }
            .check(),
        Ok(())
    );
}
