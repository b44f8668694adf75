//! Instants and clocks. The store's clock decides what is due; nothing in this crate reads one.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// An instant of the store's clock, in microseconds since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The start of 1970 in UTC.
    pub const EPOCH: Self = Self(0);

    /// Creates an instant from microseconds since 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Parses an instant such as `2026-11-15T20:30:00Z`.
    pub fn parse(text: &str) -> Result<Self, ParseInstantError> {
        let instant: jiff::Timestamp =
            text.parse().map_err(|_| ParseInstantError { got: text.chars().take(40).collect() })?;
        Ok(Self(instant.as_microsecond()))
    }

    /// Returns how long ago `earlier` was; zero if it lies in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns this instant, later by `by`. Stops at the end of time rather than wrapping.
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(micros(by)))
    }

    /// Returns this instant, earlier by `by`.
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(micros(by)))
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{} µs", self.0),
        }
    }
}

/// Why a text is not an instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an instant such as 2026-11-15T20:30:00Z, got {got:?}")]
pub struct ParseInstantError {
    got: String,
}

/// The source of the time. Engines have one; tests control it.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Returns the current instant.
    fn now(&self) -> Timestamp;
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Creates a clock that shows `start`.
    pub fn starting_at(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.0))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(micros(by), Ordering::SeqCst);
    }

    /// Sets the clock, forwards or backwards.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// Starts at the beginning of 2026, so that printed instants look like instants.
    fn default() -> Self {
        Self::starting_at(Timestamp(1_767_225_600_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_prints_and_reads_back() {
        let instant = Timestamp::parse("2026-11-15T20:30:00.250Z").unwrap();
        assert_eq!(instant.to_string(), "2026-11-15T20:30:00.250Z");
        assert_eq!(Timestamp::parse(&instant.to_string()).unwrap(), instant);
    }

    #[test]
    fn arithmetic_stops_at_the_ends_of_time() {
        let end = Timestamp::from_micros(i64::MAX);
        assert_eq!(end.plus(Duration::MAX), end);
        assert_eq!(Timestamp::EPOCH.since(end), Duration::ZERO);
        assert!(!end.to_string().is_empty());
    }

    #[test]
    fn a_manual_clock_moves_only_when_moved() {
        let clock = ManualClock::default();
        let start = clock.now();
        assert_eq!(clock.now(), start);
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.now().since(start), Duration::from_secs(5));
    }
}
