//! An engine made of a primary and a spool: the behaviour while the primary is unavailable, and the replay.
#![cfg(all(feature = "fallback", feature = "redis", feature = "sqlite"))]
#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

#[path = "../workers/words.rs"]
mod words;
mod primary;
mod away;
mod locked_out;
mod replaying;
mod lost_answers;
mod on_the_way;
mod full_disk;
mod in_order;
mod never_early;
mod people;
mod shaky;
mod every_step;
#[cfg(feature = "postgres")]
mod postgres;
