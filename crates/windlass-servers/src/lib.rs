//! Throw-away servers for tests, benches and torture. They are started from the programs on the machine, on
//! free ports and in folders of their own, so that a test may kill, freeze and restart them. For tests and
//! chores only.
//!
//! A server leaves nothing behind: its processes and its folder are removed when its value is dropped. A
//! [`watchdog`] removes them when the process that started them is killed.
//!
//! Needs Linux: a server's processes are found in `/proc`. Elsewhere, set `DATABASE_URL` to a server of
//! your own.

pub mod shared;
pub mod postgres;
pub mod pgbouncer;
pub mod redis;
pub mod proxy;
pub mod python;
pub mod small_disk;
mod certificate;
mod daemon;
mod watchdog;
mod processes;
mod folder;
mod account;
mod programs;
mod port;
mod wait;
mod error;

pub use error::Error;
