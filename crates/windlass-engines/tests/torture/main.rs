//! Real faults on real servers while producers and workers continue: a short run here, and as long a run as
//! `cargo xtask torture` requests. The faults hit a [`store`](store::Store); everything else is the same
//! for each store.
#![cfg(any(feature = "postgres", feature = "redis"))]
#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

#[path = "../workers/mod.rs"]
mod workers;
mod store;
mod process;
mod plan;
mod run;
mod strike;
mod report;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redis_everysec;
#[cfg(all(feature = "redis", feature = "sqlite", feature = "fallback"))]
mod fallback;
