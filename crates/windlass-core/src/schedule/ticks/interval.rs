//! Intervals of elapsed time, from one instant on or from each opening of a window.

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp as Moment};

use super::Search;
use crate::clock::Timestamp;
use crate::schedule::zone::{just_before, within_calendar};
use crate::schedule::{TimeOfDay, Zone};

/// An instant, and every interval after it.
#[derive(Debug)]
pub(super) struct Interval {
    from: Moment,
    interval: SignedDuration,
}

impl Interval {
    pub(super) fn counted_from(from: Timestamp, interval: SignedDuration) -> Self {
        Self { from: within_calendar(from), interval }
    }

    /// Returns the first of `from`, `from + interval`, `from + 2 × interval` … after an instant, if the
    /// calendar has it.
    pub(super) fn after(&self, after: Moment) -> Option<Moment> {
        if after < self.from {
            return Some(self.from);
        }
        let steps = after.duration_since(self.from).as_nanos() / self.interval.as_nanos() + 1;
        let since = i128::from(self.interval.as_secs()).checked_mul(steps)?;
        self.from.checked_add(SignedDuration::from_secs(i64::try_from(since).ok()?)).ok()
    }
}

/// Intervals that count from each opening of a window.
#[derive(Debug)]
pub(super) struct Openings {
    /// The date from which the next window is searched; `None` past the end of the calendar.
    date: Option<Date>,
    interval: SignedDuration,
    /// The current window. It is cached, since otherwise the cost of finding it is paid for each of its
    /// ticks.
    opening: Option<Opening>,
}

impl Openings {
    pub(super) fn since(date: Date, interval: SignedDuration) -> Self {
        Self { date: Some(date), interval, opening: None }
    }

    pub(super) fn next(&mut self, search: &Search<'_>) -> Option<Moment> {
        loop {
            if let Some(opening) = &self.opening
                && let Some(tick) = opening.tick_after(search, self.interval)
            {
                return Some(tick);
            }
            let today = self.date?;
            self.date = today.tomorrow().ok();
            if Opening::begins(today, search)? > search.until {
                return None;
            }
            let opens = search.schedule.window.opens_on(today, search.holidays);
            self.opening = if opens { Some(Opening::on(today, search)?) } else { None };
        }
    }
}

/// One time during which a window is open.
#[derive(Debug)]
struct Opening {
    opens: Moment,
    /// The instant of its closing time.
    closes: Moment,
    /// The last instant that belongs to it.
    last: Moment,
    /// Whether clocks change while it is open, and may show times outside it.
    has_detour: bool,
}

impl Opening {
    fn begins(date: Date, search: &Search<'_>) -> Option<Moment> {
        let opens = search.schedule.window.hours_or_all_day().opens();
        search.schedule.zone.first(opens.on(date)?)
    }

    /// Returns the opening on a date; `None` past the end of the calendar.
    fn on(date: Date, search: &Search<'_>) -> Option<Self> {
        let zone = &search.schedule.zone;
        let window = &search.schedule.window;
        let hours = window.hours_or_all_day();
        let closes_on = hours.closing_date(date)?;
        let closes = closes(zone, hours.closes(), closes_on, window.hours.is_some())?;
        let last = if hours.includes_its_end() { closes } else { just_before(closes) };
        let ends = [Some(last), next_opening(date, search), start_of_holiday(date, closes_on, search)];
        let last = ends.into_iter().flatten().min()?;
        let opens = Self::begins(date, search)?;
        let has_detour =
            window.hours.is_some() && zone.next_change(opens).is_some_and(|change| change <= closes);
        Some(Self { opens, closes, last, has_detour })
    }

    fn tick_after(&self, search: &Search<'_>, interval: SignedDuration) -> Option<Moment> {
        let interval = Interval { from: self.opens, interval };
        let mut tick = interval.after(search.after)?;
        while tick <= self.last {
            if self.is_open_at(tick, search) {
                return Some(tick);
            }
            tick = interval.after(tick)?;
        }
        None
    }

    /// Whether the window is open at a tick. When clocks go back, they may in between show times before
    /// the opening or after the closing. Only at the instants of the opening and the closing may clocks
    /// show another time, if those times are left out.
    fn is_open_at(&self, tick: Moment, search: &Search<'_>) -> bool {
        !self.has_detour
            || tick == self.opens
            || tick == self.closes
            || search.schedule.window.shows_open_at(search.schedule.zone.time(tick))
    }
}

/// Returns when the window closes. The end of a day is where the next begins. A time that is shown twice
/// closes the second time.
fn closes(zone: &Zone, time: TimeOfDay, date: Date, has_hours: bool) -> Option<Moment> {
    let shown = time.on(date)?;
    if has_hours { zone.last(shown) } else { zone.first(shown) }
}

/// Returns the instant before the next window opens. A window ends there: where clocks go back it might
/// close later, and the ticks of the next window from its opening on would be lost.
fn next_opening(date: Date, search: &Search<'_>) -> Option<Moment> {
    let window = &search.schedule.window;
    let tomorrow = date.tomorrow().ok().filter(|date| window.opens_on(*date, search.holidays))?;
    Opening::begins(tomorrow, search).map(just_before)
}

/// Returns the instant before a holiday begins. Nothing runs on a holiday, not even in a window that
/// opened the evening before.
fn start_of_holiday(opened: Date, closes_on: Date, search: &Search<'_>) -> Option<Moment> {
    let is_holiday = closes_on != opened && search.schedule.window.is_holiday(closes_on, search.holidays);
    let starts = is_holiday.then(|| TimeOfDay::MIDNIGHT.on(closes_on)).flatten()?;
    search.schedule.zone.first(starts).map(just_before)
}
