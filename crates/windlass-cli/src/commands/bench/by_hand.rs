//! The same work written by hand, without Windlass: what this machine could do at the best. Of the same
//! durability and with the same rows, but with none of the rules.

pub(super) mod memory;
pub(super) mod sqlite;
