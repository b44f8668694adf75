//! What a run of a handler left behind.

use windlass_core::claim::Claimed;
use windlass_core::enqueue::NewJob;
use windlass_core::job::{Job, Progress};
use windlass_core::names::TypeName;
use windlass_core::outcome::{AttemptOutcome, JobError};
use windlass_core::settle::{AttemptReport, Settled, Transition};

use crate::job_type::JobType;

/// One run of a handler and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// The job as the handler saw it.
    pub job: Job,
    /// How the handler ended.
    pub outcome: AttemptOutcome,
    /// What became of the job because of it: done, tried again and when, given up.
    pub transition: Transition,
    /// Whether the store took that; if another worker owned the job by then, it did not.
    pub settled: Settled,
    /// How long the handler ran, and what it wrote.
    pub report: AttemptReport,
    /// How far the handler said it was, if it did.
    pub progress: Option<Progress>,
    /// What was put in while it ran, oldest first, as it was asked for.
    pub follow_ups: Vec<NewJob>,
}

impl Ran {
    /// What the handler wrote with [`Context::log`](crate::Context::log).
    pub fn output(&self) -> &str {
        self.report.output.as_deref().unwrap_or_default()
    }

    /// What went wrong, if something did.
    pub fn error(&self) -> Option<&JobError> {
        self.outcome.error()
    }

    /// The jobs of type `T` that were put in while it ran, oldest first.
    ///
    /// # Panics
    /// If one of them does not decode as `T`.
    pub fn follow_ups_of<T: JobType>(&self) -> Vec<T> {
        let name = TypeName::parse(T::NAME);
        let of_type = self.follow_ups.iter().filter(|job| name.as_ref() == Ok(&job.job_type));
        let decode =
            |job: &NewJob| job.payload.decode().expect("what was encoded as this type decodes as it");
        of_type.map(decode).collect()
    }
}

/// A run whose end the store has not taken yet.
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
