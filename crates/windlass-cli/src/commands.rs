//! What each command does: one file for each noun.

pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod retry_plan;
pub(crate) mod completions;
pub(crate) mod version;
