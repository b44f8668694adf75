//! Appointments: civil dates and times, each of which has one instant. The instants come in the same
//! order.

use jiff::Timestamp as Moment;
use jiff::civil::Date;

use super::Search;
use crate::schedule::TimeOfDay;

/// An iteration over dates and times.
#[derive(Debug)]
pub(super) struct Appointments {
    /// The times of a day, in order.
    times: Vec<TimeOfDay>,
    date: Date,
    /// The index of the next time.
    next: usize,
}

impl Appointments {
    pub(super) fn since(date: Date, times: Vec<TimeOfDay>) -> Self {
        Self { times, date, next: 0 }
    }

    pub(super) fn next(&mut self, search: &Search<'_>) -> Option<Moment> {
        loop {
            if search.may_run_on(self.date)
                && let Some(tick) = self.next_today(search)
            {
                return Some(tick);
            }
            self.move_to_next_date(search)?;
        }
    }

    /// Returns the next tick of the date. Several times in one gap have one instant, and make one tick.
    fn next_today(&mut self, search: &Search<'_>) -> Option<Moment> {
        while let Some(time) = self.times.get(self.next).copied() {
            self.next += 1;
            // The check whether it is open is cheap; the instant costs a search in the zone's data.
            if search.is_open(self.date, time)
                && let Some(tick) = search.schedule.zone.first(time.on(self.date)?)
                && tick > search.after
            {
                return Some(tick);
            }
        }
        None
    }

    /// Moves to the next date, unless all of it lies past the end.
    fn move_to_next_date(&mut self, search: &Search<'_>) -> Option<()> {
        (self.date, self.next) = (search.following(self.date)?, 0);
        let starts = search.schedule.zone.first(TimeOfDay::MIDNIGHT.on(self.date)?)?;
        (starts <= search.until).then_some(())
    }
}
