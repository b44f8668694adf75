//! Real faults on real servers, under the feet of a crew that works on: in short here, and for as long as
//! `cargo xtask torture` is told. What is struck is a [`store`](store::Store); all else is the same for each.
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
