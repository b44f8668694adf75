//! A worker on an engine made of two, while its primary comes and goes.
#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

mod place;
mod going_on;
mod enqueueing;
mod full_disk;
mod limits;
mod upkeep;
