//! Queries of operators about jobs.

use windlass_core::admin::{AttemptEnding, ListRequest, StoredAttempt, StoredJob};
use windlass_core::clock::Timestamp;
use windlass_core::job::{JobId, JobState};
use windlass_core::limits::{ATTEMPTS_SHOWN_MAX, LIST_PAGE_MAX};
use windlass_core::names::{OrderingKey, TypeName};

use super::state::{JobRow, Rows, State};

impl State {
    pub(super) fn job(&self, id: JobId, now: Timestamp) -> Option<StoredJob> {
        self.row(id).map(|row| row.record(now))
    }

    pub(super) fn head_of(&self, job_type: &TypeName, ordering_key: &OrderingKey) -> Option<JobId> {
        self.ordering_keys.out(&(self.index.type_at(job_type)?, ordering_key.clone()))
    }

    pub(super) fn attempts(&self, id: JobId) -> Vec<StoredAttempt> {
        let Some(row) = self.row(id) else { return Vec::new() };
        let mut attempts: Vec<_> = row.attempts.iter().cloned().chain(running(row)).collect();
        let surplus = attempts.len().saturating_sub(ATTEMPTS_SHOWN_MAX as usize);
        attempts.drain(..surplus);
        attempts
    }

    pub(super) fn list(&self, request: &ListRequest, now: Timestamp) -> Vec<StoredJob> {
        let rows = newest_first(self.maps_with(request.job_state), request.before);
        let wanted = rows.filter(|row| is_wanted(row, request, now));
        wanted.take(request.limit.min(LIST_PAGE_MAX) as usize).map(|row| row.record(now)).collect()
    }

    /// Returns the maps in which jobs of a state can be.
    fn maps_with(&self, job_state: Option<JobState>) -> Vec<&Rows> {
        match job_state {
            None => vec![&self.live, &self.dead, &self.history],
            Some(JobState::Ready | JobState::Scheduled | JobState::Parked | JobState::Running) => {
                vec![&self.live]
            }
            Some(JobState::Dead) => vec![&self.dead],
            Some(JobState::Succeeded | JobState::Cancelled) => vec![&self.history],
        }
    }
}

/// Returns the running attempt.
fn running(row: &JobRow) -> Option<StoredAttempt> {
    let claim = row.claim()?;
    Some(StoredAttempt {
        number: row.job.counters.attempts,
        worker: claim.worker,
        started_at: claim.since,
        ended_at: None,
        ending: AttemptEnding::Running,
        error: None,
        output: None,
    })
}

/// Merges the rows of several maps, newest first.
fn newest_first(maps: Vec<&Rows>, before: Option<JobId>) -> impl Iterator<Item = &JobRow> {
    let end = before.unwrap_or(JobId(i64::MAX));
    let mut maps: Vec<_> = maps.into_iter().map(|rows| rows.range(..end).rev()).collect();
    std::iter::from_fn(move || {
        let newest = maps.iter_mut().max_by_key(|rows| (**rows).clone().next().map(|(id, _)| *id))?;
        newest.next().map(|(_, row)| &**row)
    })
}

fn is_wanted(row: &JobRow, request: &ListRequest, now: Timestamp) -> bool {
    let job = &row.job;
    request.queue.as_ref().is_none_or(|queue| *queue == job.queue)
        && request.job_type.as_ref().is_none_or(|job_type| *job_type == job.job_type)
        && request.key.as_ref().is_none_or(|key| job.key.as_ref().is_some_and(|claim| claim.key == *key))
        && request.tag.as_ref().is_none_or(|tag| job.tags.contains(tag))
        && request.correlation.as_ref().is_none_or(|id| job.correlation.as_ref() == Some(id))
        && request.group.as_ref().is_none_or(|group| job.group.as_ref() == Some(group))
        && request.job_state.is_none_or(|job_state| row.job_state(now) == job_state)
}
