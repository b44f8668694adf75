//! The engines that store jobs. Each engine is a folder, and the folders mirror each other file for file:
//! know one, know all. Engines store what `windlass-core` decided; they decide nothing.

pub mod clock;
#[cfg(feature = "fallback")]
pub mod fallback;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod finding;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod io_thread;
mod kit;
mod listeners;
pub mod memory;
mod spool_ids;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod receipts;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;
