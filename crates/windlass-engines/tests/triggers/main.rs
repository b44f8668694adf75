//! Completion triggers on real stores that several processes share: no trigger is left out, and none fires
//! twice.
#![cfg(all(feature = "sqlite", feature = "postgres", feature = "redis"))]
#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

#[path = "../workers/words.rs"]
mod words;
mod test_store;
mod at_once;
mod killed;
mod users_transaction;
mod failed;
mod postgres;
mod redis;
