//! Compares the contents of both engines. The subject's ids are translated to the model's, and details that
//! each engine may choose are left out.

use std::collections::HashMap;

use windlass_core::admin::{ListRequest, RetryAnswer, StoredJob};
use windlass_core::claim::ClaimAnswer;
use windlass_core::engine::{Engine, Rescued};
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::job::{JobId, JobState, StoredState};
use windlass_core::limits::LIST_PAGE_MAX;
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::worker::{Liveness, ProofOfLife, WorkerSighting};

use crate::pair::{Pair, Subject, handled, queue};

const UP: &str = "the engine is up";

impl<S: Subject> Pair<S> {
    /// Compares after each step: every job, count and worker, the next due times, and the schedules and
    /// triggers.
    pub(crate) async fn compare_stores(&self) {
        let (expected, got) = self.both(async |engine, _| all_jobs(engine, None).await).await;
        assert_eq!(self.as_model(got), comparable(expected), "the jobs");
        let (expected, got) = self.both(async |engine, _| engine.queues().await.expect(UP)).await;
        assert_eq!(got, expected, "the queues");
        let (expected, got) = self.both(async |engine, _| engine.types().await.expect(UP)).await;
        assert_eq!(got, expected, "the types");
        let (expected, got) = self.both(async |engine, _| workers(engine).await).await;
        assert_eq!(got, expected, "the workers");
        let queues = ["main", "other", "small"].map(queue);
        let (expected, got) =
            self.both(async |engine, _| engine.peek(&queues, &handled()).await.expect(UP)).await;
        assert_eq!(got, expected, "what is due next");
        if self.has_agenda {
            self.compare_agenda().await;
        }
    }

    /// Compares, at the end, also the attempts of each job, lists by state, and single reads.
    pub(crate) async fn compare_everything(&self) {
        for job in 0..self.jobs.len() {
            let (expected, got) =
                self.both(async |e, side| e.attempts(self.id_on(side, job)).await.expect(UP)).await;
            assert_eq!(got, expected, "the attempts of job {}", self.jobs[job].0);
            let (expected, got) =
                self.both(async |e, side| e.job(self.id_on(side, job)).await.expect(UP)).await;
            let [expected, got] = [expected, got].map(|record| record.into_iter().collect::<Vec<_>>());
            assert_eq!(self.as_model(got), comparable(expected), "job {}", self.jobs[job].0);
        }
        for job_state in JobState::ALL {
            let (expected, got) = self.both(async |engine, _| all_jobs(engine, Some(job_state)).await).await;
            assert_eq!(self.as_model(got), comparable(expected), "the jobs that are {job_state}");
        }
    }

    /// Translates an answer of the subject to the model's ids.
    pub(crate) fn as_model<T: Renumber>(&self, mut answer: T) -> T {
        answer.renumber(&self.model_ids);
        answer
    }
}

async fn all_jobs(engine: &dyn Engine, job_state: Option<JobState>) -> Vec<StoredJob> {
    let mut jobs: Vec<StoredJob> = Vec::new();
    loop {
        let before = jobs.last().map(|record| record.job.id);
        let request = ListRequest { job_state, before, limit: LIST_PAGE_MAX, ..ListRequest::default() };
        let page = engine.list(request).await.expect(UP);
        if page.is_empty() {
            return jobs;
        }
        jobs.extend(page);
    }
}

/// Returns the workers without the counters of heartbeats and tokens, which are each engine's own.
async fn workers(engine: &dyn Engine) -> Vec<WorkerSighting> {
    let mut workers = engine.workers().await.expect(UP);
    for sighting in &mut workers {
        (sighting.beats, sighting.proof) = (0, ProofOfLife::None);
    }
    workers.sort_by_key(|sighting| sighting.card.id);
    workers
}

/// Leaves out the same details in the model's records as in the subject's.
fn comparable(mut records: Vec<StoredJob>) -> Vec<StoredJob> {
    records.renumber(&HashMap::new());
    records
}

/// A value that names jobs.
pub(crate) trait Renumber {
    /// Replaces the ids that are in the map.
    fn renumber(&mut self, ids: &HashMap<JobId, JobId>);
}

impl Renumber for JobId {
    fn renumber(&mut self, ids: &HashMap<JobId, JobId>) {
        *self = ids.get(self).copied().unwrap_or(*self);
    }
}

impl<T: Renumber> Renumber for Vec<T> {
    fn renumber(&mut self, ids: &HashMap<JobId, JobId>) {
        self.iter_mut().for_each(|item| item.renumber(ids));
    }
}

impl Renumber for EnqueueAnswer {
    fn renumber(&mut self, ids: &HashMap<JobId, JobId>) {
        match self {
            Self::New(id)
            | Self::Spooled(id)
            | Self::Duplicate(id)
            | Self::Replaced(id)
            | Self::Revived(id) => id.renumber(ids),
            Self::Refused(_) => {}
        }
    }
}

impl Renumber for ClaimAnswer {
    fn renumber(&mut self, ids: &HashMap<JobId, JobId>) {
        if let Self::Claimed { jobs, .. } = self {
            jobs.iter_mut().for_each(|claimed| claimed.job.id.renumber(ids));
        }
    }
}

impl Renumber for Liveness {
    fn renumber(&mut self, ids: &HashMap<JobId, JobId>) {
        if let Self::Alive { cancel } = self {
            cancel.iter_mut().for_each(|fence| fence.job.renumber(ids));
        }
    }
}

impl Renumber for Rescued {
    fn renumber(&mut self, ids: &HashMap<JobId, JobId>) {
        self.returned.renumber(ids);
        self.buried.renumber(ids);
    }
}

impl Renumber for RetryAnswer {
    fn renumber(&mut self, ids: &HashMap<JobId, JobId>) {
        if let Self::KeyHeld(id) = self {
            id.renumber(ids);
        }
    }
}

impl Renumber for StoredJob {
    fn renumber(&mut self, ids: &HashMap<JobId, JobId>) {
        self.job.id.renumber(ids);
        if let StoredState::Dead { error, .. } = &mut self.state {
            leave_out_neighbours(error);
        }
        self.last_error.iter_mut().for_each(leave_out_neighbours);
    }
}

/// Removes the neighbours from the error of a job that is dead by crashes: the text names them by ids,
/// which differ.
fn leave_out_neighbours(error: &mut JobError) {
    if error.kind == ErrorKind::Crashed {
        error.text.clear();
    }
}
