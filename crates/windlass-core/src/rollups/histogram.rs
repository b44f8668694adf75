//! Durations as counts in buckets that grow with the duration: small, and two histograms can be added.
//!
//! There are four buckets for each doubling of microseconds. A value that is read back differs from the
//! recorded one by at most a ninth of it (`a_value_is_told_within_a_ninth`); below eight microseconds it
//! does not differ at all.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// Buckets of each doubling, as a power of two.
const SPLIT_BITS: u32 = 2;
/// Buckets of each doubling.
const SPLIT: u64 = 1 << SPLIT_BITS;
/// The last bucket; it holds the longest times that can be recorded.
const LAST: u8 = (((63 - SPLIT_BITS) as u64 + 1) * SPLIT + SPLIT - 1) as u8;

/// The prefix of an encoded histogram, so that another division into buckets can be told from this one.
const FORMAT: char = 'a';

/// Counts of durations. Adding two histograms gives the same result as recording everything in one, in
/// any order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram(BTreeMap<u8, u64>);

/// Why a text is no histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HistogramError {
    /// It begins with another prefix.
    #[error("expected a histogram that begins with `{FORMAT}`; it is damaged, or a newer program wrote it")]
    Format,
    /// One of its parts is invalid.
    #[error("expected part {part} of a histogram to be a step to the next bucket and a count; it is damaged")]
    Part {
        /// The number of the part, counted from 1.
        part: usize,
    },
}

impl Histogram {
    /// Counts one duration. A counter that reaches the maximum stays there.
    pub fn record(&mut self, time: Duration) {
        self.add(bucket_of(micros(time)), 1);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(bucket, count)| self.add(*bucket, *count));
    }

    /// Returns how many durations were recorded.
    pub fn count(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the duration that this share of all recorded ones does not exceed: 0.5 is the median.
    /// `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all = self.count();
        // A share that is not a number, or lies outside, counts as the nearest valid one.
        let rank = ((share * all as f64).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0_u64;
        let found = self.0.iter().find(|(_, count)| {
            seen = seen.saturating_add(**count);
            seen >= rank
        });
        found.map(|(bucket, _)| Duration::from_micros(value_of(*bucket)))
    }

    /// Returns a short text: for each bucket with a count, its distance from the previous such bucket,
    /// and the count if that is not one.
    pub fn encode(&self) -> String {
        let (mut text, mut last) = (FORMAT.to_string(), 0);
        for (place, (bucket, count)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{}", bucket - last);
            if *count != 1 {
                let _ = write!(text, ":{count}");
            }
            last = *bucket;
        }
        text
    }

    /// Parses what [`encode`](Self::encode) wrote, and nothing else.
    pub fn parse(text: &str) -> Result<Self, HistogramError> {
        let parts = text.strip_prefix(FORMAT).ok_or(HistogramError::Format)?;
        let mut read = Self::default();
        let mut last = None;
        for (place, part) in parts.split(',').enumerate().filter(|_| !parts.is_empty()) {
            let (bucket, count) = parse_part(part, last).ok_or(HistogramError::Part { part: place + 1 })?;
            read.0.insert(bucket, count);
            last = Some(bucket);
        }
        Ok(read)
    }

    fn add(&mut self, bucket: u8, count: u64) {
        let all = self.0.entry(bucket).or_default();
        *all = all.saturating_add(count);
    }
}

fn parse_part(part: &str, last: Option<u8>) -> Option<(u8, u64)> {
    let (step, count) = part.split_once(':').map_or((part, None), |(step, count)| (step, Some(count)));
    let step = u8::try_from(parse_number(step)?).ok()?;
    let bucket = match last {
        Some(_) if step == 0 => return None,
        Some(last) => last.checked_add(step)?,
        None => step,
    };
    let count = match count.map(parse_number) {
        Some(count) => count.filter(|count| *count > 1)?,
        None => 1,
    };
    (bucket <= LAST).then_some((bucket, count))
}

/// Parses digits without a sign and without leading zeros, so that each number has only one form.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The first buckets hold one value each; then each doubling is cut into equal parts.
fn bucket_of(micros: u64) -> u8 {
    if micros < SPLIT {
        return micros as u8;
    }
    let doubling = micros.ilog2() - SPLIT_BITS;
    let part = (micros >> doubling) - SPLIT;
    ((u64::from(doubling) + 1) * SPLIT + part) as u8
}

/// Returns the value with the least relative error for every duration in a bucket: between its ends,
/// nearer to the lower.
fn value_of(bucket: u8) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < SPLIT {
        return bucket;
    }
    let doubling = bucket / SPLIT - 1;
    let low = (SPLIT + bucket % SPLIT) << doubling;
    let high = low + ((1 << doubling) - 1);
    let (low, high) = (u128::from(low), u128::from(high));
    // Twice the product over the sum, to the nearest, written so that nothing overflows.
    let (sum, above) = (low + high, low * (high - low));
    let above = (above + sum / 2) / sum;
    u64::try_from(low + above).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(Duration::from_micros(*value)));
        histogram
    }

    fn read_back(value: u64) -> u64 {
        value_of(bucket_of(value))
    }

    fn is_within_a_ninth(value: u64) -> bool {
        u128::from(read_back(value).abs_diff(value)) * 9 <= u128::from(value)
    }

    #[test]
    fn a_value_is_told_within_a_ninth() {
        assert!((0..1_000_000).all(is_within_a_ninth));
        assert!((0..8).all(|value| read_back(value) == value));
        // The bound is reached, so a tighter one does not hold.
        assert_eq!((read_back(9), read_back(u64::MAX) > u64::MAX / 10 * 8), (8, true));
    }

    #[test]
    fn buckets_follow_each_other_and_the_last_takes_the_longest_times() {
        let mut last = 0;
        for value in
            (0..64).flat_map(|doubling| [1_u64 << doubling, (1 << doubling) | ((1 << doubling) >> 1)])
        {
            assert!(bucket_of(value) >= last, "{value}");
            last = bucket_of(value);
        }
        assert_eq!((bucket_of(u64::MAX), LAST), (LAST, 251));
        let mut longest = Histogram::default();
        longest.record(Duration::MAX);
        assert_eq!(Histogram::parse(&longest.encode()), Ok(longest));
    }

    #[test]
    fn quantiles_are_those_of_the_recorded_times() {
        assert_eq!(Histogram::default().quantile(0.5), None);
        let hundred = of(&(1..=100).map(|ms| ms * 1_000).collect::<Vec<_>>());
        let near = |share: f64, ms: u64| {
            let got = hundred.quantile(share).unwrap().as_micros() as u64;
            assert!(got.abs_diff(ms * 1_000) * 9 <= ms * 1_000, "{share}: {got}");
        };
        [(0.0, 1), (0.01, 1), (0.5, 50), (0.99, 99), (1.0, 100), (7.0, 100), (-1.0, 1), (f64::NAN, 1)]
            .into_iter()
            .for_each(|(share, ms)| near(share, ms));
    }

    #[test]
    fn counts_stop_at_the_most() {
        let mut full = Histogram(BTreeMap::from([(3, u64::MAX), (9, u64::MAX)]));
        full.merge(&full.clone());
        full.record(Duration::from_micros(3));
        assert_eq!((full.count(), full.0[&3]), (u64::MAX, u64::MAX));
        assert!(full.quantile(0.99).is_some());
        assert_eq!(Histogram::parse(&full.encode()), Ok(full));
    }

    #[test]
    fn a_damaged_text_is_refused_and_says_where() {
        for text in ["", "b1", "1", "é"] {
            assert_eq!(Histogram::parse(text), Err(HistogramError::Format), "{text:?}");
        }
        for (text, part) in [
            ("a1,", 2),
            ("a,", 1),
            ("a1,0", 2),
            ("a252", 1),
            ("a251,1", 2),
            ("a01", 1),
            ("a1:1", 1),
            ("a1:0", 1),
            ("a1:+2", 1),
            ("a1:2:3", 1),
            ("a1:99999999999999999999", 1),
            ("a1,1,-1", 3),
            ("a 1", 1),
        ] {
            assert_eq!(Histogram::parse(text), Err(HistogramError::Part { part }), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_value_is_told_within_a_ninth(value: u64, shift in 0_u32..64) {
            prop_assert!(is_within_a_ninth(value >> shift));
        }

        #[test]
        fn merging_is_recording_everything_in_whichever_order(
            a in prop::collection::vec(0_u64..1 << 40, 0..50),
            b in prop::collection::vec(0_u64..1 << 40, 0..50),
            c in prop::collection::vec(0_u64..1 << 40, 0..50),
        ) {
            let merged = |parts: &[&[u64]]| {
                let mut all = Histogram::default();
                parts.iter().for_each(|part| all.merge(&of(part)));
                all
            };
            let all = of(&[a.clone(), b.clone(), c.clone()].concat());
            prop_assert_eq!(&merged(&[&a, &b, &c]), &all);
            prop_assert_eq!(&merged(&[&c, &a, &b]), &all);
            let (mut left, mut right) = (of(&b), of(&a));
            left.merge(&of(&c));
            right.merge(&left);
            prop_assert_eq!(&right, &all);
        }

        #[test]
        fn what_is_encoded_reads_back(values in prop::collection::vec(any::<u64>(), 0..100)) {
            let histogram = of(&values);
            prop_assert_eq!(Histogram::parse(&histogram.encode()), Ok(histogram));
        }

        #[test]
        fn no_text_makes_it_panic_and_only_its_own_are_taken(text in "a?[0-9:,]{0,20}|.{0,10}") {
            if let Ok(histogram) = Histogram::parse(&text) {
                prop_assert_eq!(histogram.encode(), text);
            }
        }
    }
}
