//! Pseudo-random numbers for tests.

use std::time::Duration;

/// A generator of pseudo-random numbers, the same for the same seed.
pub(crate) struct TestRng(pub(crate) u64);

impl TestRng {
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) % count
    }

    pub(crate) fn millis(&mut self, below: u64) -> Duration {
        Duration::from_millis(self.below(below))
    }

    pub(crate) fn bits(&mut self) -> u128 {
        u128::from(self.below(u64::MAX)) << 64 | u128::from(self.below(u64::MAX))
    }
}
