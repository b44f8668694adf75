//! The timetable of a policy: what would happen to a job that fails each time, at the earliest and the
//! latest time that jitter allows.

use std::time::Duration;

use super::{Band, RetryPolicy};

/// One line of a timetable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The number of failures so far.
    pub failures: u32,
    /// How long the wait is; `None` if the job is dead.
    pub wait: Option<Band>,
    /// The earliest and the latest time of the next attempt, counted from the first one. Handlers are
    /// assumed to need no time.
    pub since_first_try: Band,
}

/// Returns the timetable of a job that always fails, at most `failures_max` lines; ends with the line on
/// which the job is dead, if that comes before.
pub fn timetable(policy: &RetryPolicy, failures_max: u32) -> Vec<Planned> {
    let mut earliest = Duration::ZERO;
    let mut latest = Duration::ZERO;
    let mut lines = Vec::new();
    for failures in 1..=failures_max {
        // Age decides the tier of a progressive policy; the timetable uses the earliest age.
        let wait = policy.band_after(failures, earliest);
        if let Some(band) = wait {
            earliest = earliest.saturating_add(band.shortest);
            latest = latest.saturating_add(band.longest);
        }
        lines.push(Planned { failures, wait, since_first_try: Band { shortest: earliest, longest: latest } });
        if wait.is_none() {
            break;
        }
    }
    lines
}
