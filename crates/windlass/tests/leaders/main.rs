//! Leaders on real servers: who takes over when one is killed, ends or stands still; what a thousand workers ask of their
//! store about leases, and fifty in each other mode; and a thousand schedules that fall due in the same second.
//!
//! Among all tests they are short. `cargo xtask torture --scenario leases` runs them at length, one after the other.

mod place;
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

/// Whether the long forms are asked for.
fn at_length() -> bool {
    std::env::var_os("WINDLASS_TORTURE_LEASES").is_some()
}
