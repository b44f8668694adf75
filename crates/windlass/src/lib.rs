//! Durable background jobs.

mod job_type;
pub mod client;
pub mod enqueue;
pub mod handler;
pub mod worker;
pub mod dequeue;
pub mod upkeep;
pub mod testing;
mod store;
mod random;
#[cfg(doctest)]
mod guides;

pub use client::{Client, ClientOptions, EnqueueHook, RegisterError};
pub use enqueue::{Enqueue, EnqueueError, Placed, Placement};
pub use handler::{Attempt, Context, Finish, FromRef, Handlers, HandlersError, Hook, Json, State};
pub use job_type::{JobType, spec_of};
pub use windlass_core as core;
pub use windlass_core::job::JobId;
pub use windlass_core::job_type::TypeSpec;
pub use windlass_core::key::{KeyScope, OnConflict};
pub use windlass_core::queue::QueueSpec;
pub use windlass_core::retry::RetryPolicy;
pub use windlass_engines as engines;
pub use windlass_engines::memory::MemoryEngine;
#[cfg(feature = "sqlite")]
pub use windlass_engines::sqlite;
pub use worker::{StartError, Stopped, Worker, WorkerOptions};
