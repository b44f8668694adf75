//! The behaviour that is specific to Redis: how a store is opened, which connection errors occur, and what
//! happens when the server dies, does not answer, loses data or is full. Each test has a namespace of its
//! own; a test that disturbs a server starts one.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

#[path = "../workers/words.rs"]
mod words;
#[path = "../workers/rollup_rounds.rs"]
mod rollup_rounds;
mod test_store;
mod alerts;
mod opening;
mod login;
mod lost_answers;
mod killed_server;
mod other_store;
mod full;
mod cluster;
mod tls;
mod waking;
mod memory;
mod suspects;
mod damaged;
mod ordering_keys;
mod fairness_keys;
mod rollups;
mod listing;
mod hashes;
mod left_behind;
mod doctor;
mod leases;
mod bounded;
mod many_types;
