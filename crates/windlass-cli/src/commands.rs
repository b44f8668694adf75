//! The commands: one file for each noun.

pub(crate) mod dev;
pub(crate) mod serve;

pub(crate) mod job;
pub(crate) mod queue;
pub(crate) mod dlq;
pub(crate) mod breaker;
pub(crate) mod lease;
pub(crate) mod worker;
pub(crate) mod schedule;
pub(crate) mod trigger;
pub(crate) mod job_type;
pub(crate) mod status;
pub(crate) mod stats;
pub(crate) mod migrate;

pub(crate) mod doctor;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod retry_plan;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod version;
