//! A worker in a real runtime, on the memory engine: what its users see.

mod bench;
mod cancelling;
mod ending;
mod enqueueing;
mod handlers;
mod running;
