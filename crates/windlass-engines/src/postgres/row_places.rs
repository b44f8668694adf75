//! Where the rows of running jobs lie, for those that this process claimed: a row that is looked for at its place needs no
//! index, in which entries for versions that a retry or a gate left behind may have to be passed by first. Hints only: whoever is not found
//! at its place is looked for by its number.

use std::collections::HashMap;

use tokio_postgres::Row;
use windlass_core::job::JobId;

use super::Store;
use super::fault::Step;
use super::value::RowPlace;

/// More are not remembered: some end without this process knowing, and their places would gather.
const PLACES_MAX: usize = 100_000;

/// The places by job.
#[derive(Debug, Default)]
pub(super) struct RowPlaces {
    of_jobs: HashMap<JobId, RowPlace>,
}

impl RowPlaces {
    fn note(&mut self, job: JobId, place: RowPlace) {
        if self.of_jobs.len() >= PLACES_MAX {
            self.of_jobs.clear();
        }
        self.of_jobs.insert(job, place);
    }

    fn take(&mut self, job: JobId) -> Option<RowPlace> {
        self.of_jobs.remove(&job)
    }
}

impl Store {
    /// Remembers where rows lie that were just written, by the columns that hold job and place.
    pub(super) fn note_row_places(&self, rows: &[Row], job: usize, place: usize) -> Step<()> {
        let mut places = self.row_places();
        for row in rows {
            if let Some(id) = row.try_get::<_, Option<i64>>(job)? {
                places.note(JobId(id), row.try_get(place)?);
            }
        }
        Ok(())
    }

    /// Where the rows of these jobs lie, as far as this process knows. It then forgets it: a job ends once.
    pub(super) fn take_row_places(&self, jobs: &[i64]) -> Vec<Option<RowPlace>> {
        let mut places = self.row_places();
        jobs.iter().map(|job| places.take(JobId(*job))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_nobody_asks_for_do_not_gather_without_end() {
        let mut places = RowPlaces::default();
        (0..=PLACES_MAX).for_each(|n| places.note(JobId(n as i64), RowPlace::default()));
        assert_eq!(places.of_jobs.len(), 1);
    }
}
