//! Spans of time as people write them: `30s`, `5m`, `1h 30m`, `7d`.

use std::time::Duration;

/// Why a text is not a span of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a span of time such as 250ms, 30s, 5m, 1h 30m or 7d, got {got:?}")]
pub struct ParseSpanError {
    got: String,
}

/// Parses a span such as `1h 30m`. Days have 24 hours; negative spans are refused.
pub fn parse_span(text: &str) -> Result<Duration, ParseSpanError> {
    read_span(text.trim()).ok_or_else(|| ParseSpanError { got: text.chars().take(40).collect() })
}

/// Parses a span with days. The duration parser knows no days, since a calendar day may have 23 or 25
/// hours. Here a day always has 24.
fn read_span(text: &str) -> Option<Duration> {
    let Some((days, rest)) = text.split_once('d') else { return read_clock_units(text) };
    let days: u64 = days.trim().parse().ok()?;
    let span = Duration::from_secs(days.checked_mul(24 * 60 * 60)?);
    match rest.trim() {
        "" => Some(span),
        rest => span.checked_add(read_clock_units(rest)?),
    }
}

fn read_clock_units(text: &str) -> Option<Duration> {
    let span: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(span).ok()
}

/// Formats a span the way people write it, rounded to a useful precision: `1h 30m`, `22.5s`, `3ms`.
pub fn show_span(span: Duration) -> String {
    let secs = span.as_secs();
    match secs {
        0 if span.is_zero() => "0s".to_owned(),
        0 if span < Duration::from_millis(1) => format!("{}µs", span.as_micros()),
        0 => format!("{}ms", span.as_millis()),
        1..60 => with_fraction(span),
        60..3600 => two_units(secs / 60, "m", secs % 60, "s"),
        3600..86_400 => two_units(secs / 3600, "h", secs % 3600 / 60, "m"),
        _ => two_units(secs / 86_400, "d", secs % 86_400 / 3600, "h"),
    }
}

fn with_fraction(span: Duration) -> String {
    let tenths = span.as_millis() / 100;
    match tenths % 10 {
        0 => format!("{}s", tenths / 10),
        tenth => format!("{}.{tenth}s", tenths / 10),
    }
}

fn two_units(big: u64, big_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{big}{big_unit}"),
        _ => format!("{big}{big_unit} {small}{small_unit}"),
    }
}

/// For serde: a `Duration` as the text of a span. Use with `#[serde(with = "windlass_core::span::text")]`.
pub mod text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the exact span, in microseconds if nothing coarser is exact.
    pub fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::exact(*span))
    }

    /// Reads a span.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        super::parse_span(&text).map_err(serde::de::Error::custom)
    }
}

/// For serde: an optional `Duration` as the text of a span.
pub mod optional_text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the exact span, or nothing.
    pub fn serialize<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match span {
            Some(span) => to.serialize_some(&super::exact(*span)),
            None => to.serialize_none(),
        }
    }

    /// Reads a span, or nothing.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Option::<String>::deserialize(from)?
            .map(|text| super::parse_span(&text).map_err(serde::de::Error::custom))
            .transpose()
    }
}

fn exact(span: Duration) -> String {
    let micros = span.as_micros();
    match micros {
        m if m % 1_000_000 == 0 => format!("{}s", m / 1_000_000),
        m if m % 1_000 == 0 => format!("{}ms", m / 1_000),
        m => format!("{m}us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_people_write_them() {
        let cases = [
            ("250ms", Duration::from_millis(250)),
            ("30s", Duration::from_secs(30)),
            ("5m", Duration::from_secs(300)),
            ("1h 30m", Duration::from_secs(5400)),
            ("1h30m", Duration::from_secs(5400)),
            ("7d", Duration::from_secs(604_800)),
            ("1d 2h", Duration::from_secs(93_600)),
            ("0s", Duration::ZERO),
        ];
        for (text, span) in cases {
            assert_eq!(parse_span(text), Ok(span), "{text}");
        }
    }

    #[test]
    fn nonsense_and_negative_spans_are_refused_with_what_came() {
        for text in ["", "soon", "5", "-5s", "5 parsecs", "99999999999999999999d", "d"] {
            let error = parse_span(text).expect_err(text).to_string();
            assert!(error.contains("30s"), "{error}");
        }
    }

    #[test]
    fn spans_show_what_people_can_use() {
        let cases =
            [(0, "0s"), (22_500, "22.5s"), (90_000, "1m 30s"), (5_400_000, "1h 30m"), (93_600_000, "1d 2h")];
        for (millis, shown) in cases {
            assert_eq!(show_span(Duration::from_millis(millis)), shown);
        }
    }

    #[test]
    fn every_span_survives_being_written_and_read() {
        for micros in [0, 1, 999, 1_000, 1_500_000, 86_400_000_000] {
            let span = Duration::from_micros(micros);
            assert_eq!(parse_span(&exact(span)), Ok(span), "{micros}");
        }
    }
}
