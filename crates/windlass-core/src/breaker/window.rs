//! The recent calls, in slices, so that old calls can be dropped without storing each call.

use crate::clock::Timestamp;

use super::options::BreakerOptions;
use super::results::Results;

/// The number of slices of a window. Calls older than the window are dropped a slice at a time.
const SLICES: i64 = 10;

/// The calls of one slice of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Slice {
    /// When it began.
    pub from: Timestamp,
    /// Calls that ended in it.
    pub calls: u32,
    /// Those that failed.
    pub failures: u32,
}

/// Returns the window with more calls, and without those that are too old. Empty if the rate does not
/// count.
pub(super) fn counted(
    window: &[Slice],
    results: &Results,
    now: Timestamp,
    options: &BreakerOptions,
) -> Vec<Slice> {
    let Some(rate) = options.failure_rate else { return Vec::new() };
    let oldest = now.minus(rate.window);
    let recent = |slice: &&Slice| slice.from > oldest && slice.from <= now;
    let mut slices: Vec<_> = window.iter().filter(recent).copied().collect();
    let micros = i64::try_from(rate.window.as_micros()).unwrap_or(i64::MAX);
    let width = (micros / SLICES).max(1);
    let from = Timestamp::from_micros(now.as_micros() - now.as_micros().rem_euclid(width));
    if slices.last().is_none_or(|slice| slice.from < from) {
        slices.push(Slice { from, calls: 0, failures: 0 });
    }
    if let Some(last) = slices.last_mut() {
        last.calls = last.calls.saturating_add(results.calls);
        last.failures = last.failures.saturating_add(results.failures);
    }
    slices
}

/// Returns the total numbers of calls and failures.
pub(super) fn total(window: &[Slice]) -> (u32, u32) {
    let add = |(calls, failures): (u32, u32), slice: &Slice| {
        (calls.saturating_add(slice.calls), failures.saturating_add(slice.failures))
    };
    window.iter().fold((0, 0), add)
}
