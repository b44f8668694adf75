//! Leaders on real servers: which process takes over when a leader is killed, ends or is frozen; how many
//! statements about leases a thousand workers send, and fifty in each other mode; and a thousand schedules
//! that fall due in the same second.
//!
//! Among all tests they run in short forms. `cargo xtask torture --scenario leases` runs the long forms,
//! one after the other.

mod test_store;
mod ledger;
mod process;
mod workers;
mod killed;
mod frozen;
mod client;
mod traffic;
mod modes;
mod schedules;
mod rollups;

/// Whether the long forms are requested.
fn at_length() -> bool {
    std::env::var_os("WINDLASS_TORTURE_LEASES").is_some()
}
