//! Random numbers from a seed. The generator is small and our own, so that a seed means the same history
//! for as long as this file stays.

use std::time::Duration;

/// A stream of random numbers (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct TestRng(u64);

impl TestRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream for one purpose of this seed, which is independent of the streams for other purposes.
    pub(crate) fn of(seed: u64, thing: u64) -> Self {
        let mut rng = Self(seed ^ thing.wrapping_mul(0xA24B_AED4_963E_E407));
        rng.bits();
        rng
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn bits128(&mut self) -> u128 {
        (u128::from(self.bits()) << 64) | u128::from(self.bits())
    }

    /// A number below `n`; 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.bits() % n }
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.between(low, high))
    }

    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        self.micros(low * 1000, high * 1000)
    }

    /// True with a probability of `n` in a thousand.
    pub(crate) fn per_mille(&mut self, n: u64) -> bool {
        self.below(1000) < n
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let at = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
        of.get(at)
    }
}
