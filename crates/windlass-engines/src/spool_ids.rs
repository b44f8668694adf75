//! The first id of a spool. Each spool has a block of ids of its own, so that an id from another machine,
//! or from before a restart of the process, does not name another caller's job.

use std::hash::{BuildHasher, RandomState};

use windlass_core::limits::SPOOL_IDS_FROM;

/// The number of ids in a block.
const BLOCK: i64 = 1_000_000_000;
/// The number of blocks. All ids are below 2^53, which programs that keep numbers as floating point can
/// still tell apart.
const BLOCKS: u64 = 8_000_000;

/// Returns the first id of a new spool.
pub(crate) fn first() -> i64 {
    let random = RandomState::new().hash_one(BLOCK);
    SPOOL_IDS_FROM + i64::try_from(random % BLOCKS).unwrap_or(0) * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spools_begin_at_different_numbers_which_floating_point_still_tells_apart() {
        let (a, b) = (first(), first());
        assert_ne!(a, b);
        assert!([a, b].iter().all(|id| *id >= SPOOL_IDS_FROM && id + BLOCK <= 1 << 53));
    }
}
