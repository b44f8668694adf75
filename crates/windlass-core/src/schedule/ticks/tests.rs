use super::*;
use crate::schedule::ScheduleError;

/// Returns the search of a schedule that `parse` refuses: the times of one schedule in the window of another.
fn pace_of(times: &str, window: &str) -> Option<Pace> {
    let (times, window) = (Schedule::parse(times).unwrap(), Schedule::parse(window).unwrap());
    let schedule = Schedule { cadence: times.cadence, ..window };
    Ticks::after(&schedule, &Holidays::default(), Timestamp::EPOCH).pace
}

#[test]
fn times_that_are_never_in_the_window_are_not_searched_for_fifty_years() {
    for (times, zone) in [("0-57 0-23 * * *", ""), ("0-57 1-23 * * *", ", America/New_York")] {
        let never = format!("{times}, 09:58-09:59{zone}");
        assert!(matches!(Schedule::parse(&never), Err(ScheduleError::NeverRuns { .. })), "{never}");
        let window = format!("58 9 * * *, 09:58-09:59{zone}");
        assert!(pace_of(times, &window).is_none(), "{never}: the search ends before its first date");
        assert!(pace_of("58 9 * * *", &window).is_some(), "a schedule that runs is searched");
    }
}
