//! The result of a handler's run.

use windlass_core::claim::Claimed;
use windlass_core::enqueue::NewJob;
use windlass_core::job::{Job, Progress};
use windlass_core::names::TypeName;
use windlass_core::outcome::{AttemptOutcome, JobError};
use windlass_core::settle::{AttemptReport, Settled, Transition};

use crate::job_type::JobType;

/// One run of a handler and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The job as the handler saw it.
    pub job: Job,
    /// How the handler ended.
    pub outcome: AttemptOutcome,
    /// The resulting transition of the job: succeeded, retried and when, dead.
    pub transition: Transition,
    /// Whether the store applied the transition; it did not if another worker owned the job by then.
    pub settled: Settled,
    /// How long the handler ran, and the text that it wrote.
    pub report: AttemptReport,
    /// The last progress that the handler reported, if any.
    pub progress: Option<Progress>,
    /// The jobs that were enqueued while it ran, oldest first, as they were requested.
    pub follow_ups: Vec<NewJob>,
}

impl Ran {
    /// The text that the handler wrote with [`Context::log`](crate::Context::log).
    pub fn output(&self) -> &str {
        self.report.output.as_deref().unwrap_or_default()
    }

    /// The error of the run, if it failed.
    pub fn error(&self) -> Option<&JobError> {
        self.outcome.error()
    }

    /// The jobs of type `T` that were enqueued while it ran, oldest first.
    ///
    /// # Panics
    /// If one of them does not decode as `T`.
    pub fn follow_ups_of<T: JobType>(&self) -> Vec<T> {
        let name = TypeName::parse(T::NAME);
        let of_type = self.follow_ups.iter().filter(|job| name.as_ref() == Ok(&job.job_type));
        let decode =
            |job: &NewJob| job.payload.decode().expect("a payload decodes as the type it was encoded from");
        of_type.map(decode).collect()
    }
}

/// A run whose end the store has not accepted yet.
pub(super) struct Ended {
    pub(super) claimed: std::sync::Arc<Claimed>,
    pub(super) outcome: AttemptOutcome,
    pub(super) progress: Option<Progress>,
    pub(super) follow_ups: Vec<NewJob>,
}

impl Ended {
    pub(super) fn settled(self, transition: Transition, report: AttemptReport, settled: Settled) -> Ran {
        let Self { claimed, outcome, progress, follow_ups } = self;
        Ran { job: claimed.job.clone(), outcome, transition, settled, report, progress, follow_ups }
    }
}
