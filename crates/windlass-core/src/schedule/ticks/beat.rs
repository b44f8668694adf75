//! Beats: a tick whenever the clock shows a matching time.

use jiff::Timestamp as Moment;
use jiff::civil::DateTime;

use super::Search;
use crate::schedule::TimeOfDay;
use crate::schedule::zone::just_after;

/// A beat by the time that clocks show.
#[derive(Debug)]
pub(super) struct Beat {
    /// The matching times, in order.
    pub(super) times: Vec<TimeOfDay>,
}

impl Beat {
    /// Returns the next tick. Between two clock changes, clocks run evenly, so there the search works on
    /// civil dates and times.
    pub(super) fn next(&self, search: &Search<'_>) -> Option<Moment> {
        let zone = &search.schedule.zone;
        let mut from = just_after(search.after);
        while from <= search.until {
            let offset = zone.offset(from);
            let change = zone.next_change(from);
            let end = change.map_or(search.until, |change| change.min(search.until));
            let (first, last) = (offset.to_datetime(from), offset.to_datetime(end));
            if let Some(shown) = self.next_on_paper(search, first, last)
                && let Ok(tick) = offset.to_timestamp(shown)
                && change.is_none_or(|change| tick < change)
            {
                return Some(tick);
            }
            from = change?;
        }
        None
    }

    /// Returns the first matching date and time at or after one and no later than another.
    fn next_on_paper(&self, search: &Search<'_>, first: DateTime, last: DateTime) -> Option<DateTime> {
        let mut date = first.date();
        while date <= last.date() {
            if search.may_run_on(date) {
                let past = self.times.partition_point(|time| time.on(date).is_none_or(|shown| shown < first));
                if let Some(time) = self.times[past..].iter().find(|time| search.is_open(date, **time)) {
                    return time.on(date);
                }
            }
            date = search.following(date)?;
        }
        None
    }
}
