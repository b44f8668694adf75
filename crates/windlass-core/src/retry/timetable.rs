//! The timetable of a policy: what would happen to a job that fails each time, as early and as late as
//! jitter allows.

use std::time::Duration;

use super::{Band, RetryPolicy};

/// One line of a timetable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// After this many failures.
    pub failures: u32,
    /// How long the wait is, or nothing: the job is given up.
    pub wait: Option<Band>,
    /// The earliest and the latest time of the next try, counted from the first one. Handlers are taken
    /// to need no time.
    pub since_first_try: Band,
}

/// What a job that always fails goes through, at most `failures_max` lines; ends with the line on which it
/// is given up, if that comes before.
pub fn timetable(policy: &RetryPolicy, failures_max: u32) -> Vec<Planned> {
    let mut earliest = Duration::ZERO;
    let mut latest = Duration::ZERO;
    let mut lines = Vec::new();
    for failures in 1..=failures_max {
        // Age decides the tier of a progressive policy; the earliest age is the one shown.
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
