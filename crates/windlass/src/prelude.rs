//! The names that most programs need. Import them all at once:
//!
//! ```
//! use windlass::prelude::*;
//! ```

pub use crate::client::Client;
pub use crate::enqueue::{EnqueueError, EnqueueOutcome};
pub use crate::handler::{Attempt, Context, Handlers, Outcome, State};
pub use crate::job_type::JobType;
pub use crate::worker::{Worker, WorkerOptions};
pub use windlass_core::job::JobId;
pub use windlass_core::retry::RetryPolicy;
