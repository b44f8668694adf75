//! What engines do alike: the limits of a request, the rarer options of a job, and JSON in their columns.

mod batch;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod counted;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod job_options;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod json;

#[cfg(any(feature = "postgres", feature = "redis"))]
mod on_store;

pub(crate) use batch::check_batch_size;
#[cfg(feature = "sqlite")]
pub(crate) use counted::MINUTE;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use counted::{CountedState, MERGE_AFTER, Total, minute_of};
#[cfg(feature = "redis")]
pub(crate) use job_options::Columns;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) use job_options::JobOptions;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(crate) use json::{parse_error, to_json};
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) use on_store::on_store;
