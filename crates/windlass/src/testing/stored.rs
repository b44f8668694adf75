//! Reads the store for assertions.

use std::fmt::Write;

use windlass_core::admin::{ListRequest, StoredAttempt, StoredJob};
use windlass_core::engine::Admin;
use windlass_core::job::{JobId, JobState};
use windlass_core::limits::LIST_PAGE_MAX;
use windlass_core::names::TypeName;
use windlass_core::outcome::bounded;
use windlass_core::span::show_span;

use super::worker::{TestWorker, at_once};
use crate::job_type::JobType;

/// The most jobs that the message of a failed assertion shows.
const SHOWN_MAX: usize = 20;
/// The most bytes of a payload that it shows.
const PAYLOAD_SHOWN_BYTES: usize = 200;

impl TestWorker {
    /// The job and its state.
    ///
    /// # Panics
    /// If there is no such job.
    #[track_caller]
    pub fn job(&self, id: JobId) -> StoredJob {
        let record = at_once(self.engine.job(id)).expect("memory answers");
        record.unwrap_or_else(|| panic!("expected job {id} in the store, got none; it may have been pruned"))
    }

    /// The attempts of a job, oldest first.
    pub fn attempts(&self, id: JobId) -> Vec<StoredAttempt> {
        at_once(self.engine.attempts(id)).expect("memory answers")
    }

    /// All jobs of type `T` that were enqueued, in whatever state, oldest first.
    ///
    /// # Panics
    /// If one of them does not decode as `T`.
    #[track_caller]
    pub fn enqueued<T: JobType>(&self) -> Vec<T> {
        self.records_of::<T>().iter().map(decoded).collect()
    }

    /// The jobs of type `T` that wait to be run: ready, scheduled or parked; oldest first.
    ///
    /// # Panics
    /// If one of them does not decode as `T`.
    #[track_caller]
    pub fn waiting<T: JobType>(&self) -> Vec<T> {
        let waits = |record: &&StoredJob| {
            matches!(record.job_state(), JobState::Ready | JobState::Scheduled | JobState::Parked)
        };
        self.records_of::<T>().iter().filter(waits).map(decoded).collect()
    }

    /// Asserts that a job of type `T` was enqueued that `looks_right` accepts, and returns the first such
    /// job.
    ///
    /// # Panics
    /// If there is none, with a list of the jobs in the store.
    #[track_caller]
    pub fn assert_enqueued<T: JobType>(&self, looks_right: impl Fn(&T) -> bool) -> T {
        let found = self.enqueued::<T>().into_iter().find(looks_right);
        found.unwrap_or_else(|| panic!("{}", self.none_looks_right(T::NAME)))
    }

    fn none_looks_right(&self, type_name: &str) -> String {
        let all = self.records(None);
        let (of_type, others): (Vec<_>, Vec<_>) =
            all.iter().partition(|record| record.job.job_type.as_str() == type_name);
        let mut text = format!("expected a job of type {type_name} that looks right");
        text += if of_type.is_empty() { ", got none of that type" } else { ", got only these:" };
        push_lines(&mut text, &of_type);
        if !others.is_empty() {
            text += "\nOther jobs in the store:";
            push_lines(&mut text, &others);
        }
        text
    }

    fn records_of<T: JobType>(&self) -> Vec<StoredJob> {
        let name = TypeName::parse(T::NAME).unwrap_or_else(|wrong| panic!("{wrong}"));
        self.records(Some(name))
    }

    /// All jobs, oldest first.
    fn records(&self, job_type: Option<TypeName>) -> Vec<StoredJob> {
        let mut all: Vec<StoredJob> = Vec::new();
        loop {
            let before = all.last().map(|record| record.job.id);
            let request = ListRequest {
                job_type: job_type.clone(),
                before,
                limit: LIST_PAGE_MAX,
                ..ListRequest::default()
            };
            let page = at_once(self.engine.list(request)).expect("memory answers");
            let is_last = page.len() < LIST_PAGE_MAX as usize;
            all.extend(page);
            if is_last {
                all.reverse();
                return all;
            }
        }
    }
}

#[track_caller]
fn decoded<T: JobType>(record: &StoredJob) -> T {
    record.job.payload.decode().unwrap_or_else(|why| {
        panic!("expected job {} to decode as {}, got {why}: {}", record.job.id, T::NAME, line(record))
    })
}

fn push_lines(text: &mut String, records: &[&StoredJob]) {
    for record in records.iter().take(SHOWN_MAX) {
        let _ = write!(text, "\n  {}", line(record));
    }
    if records.len() > SHOWN_MAX {
        let _ = write!(text, "\n  and {} more", records.len() - SHOWN_MAX);
    }
}

/// The state of a job and its payload, in one line.
fn line(record: &StoredJob) -> String {
    let job = &record.job;
    let payload = bounded(job.payload.as_str().to_owned(), PAYLOAD_SHOWN_BYTES);
    let mut line = format!("job {} {} {} {payload}", job.id, job.job_type, record.job_state());
    if record.job_state() == JobState::Scheduled {
        let _ = write!(line, " due in {}", show_span(job.due.since(record.read_at)));
    }
    if let Some(key) = &job.key {
        let _ = write!(line, " key {}", key.key);
    }
    line
}
