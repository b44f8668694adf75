//! Operations in the user's own transaction on the same file: a job that exists exactly if their writes do,
//! and a job that is done exactly if their writes are. Workers of this and other processes are notified
//! when it is committed.

use rusqlite::Transaction;
use windlass_core::claim::Fence;
use windlass_core::clock::{Clock, Timestamp};
use windlass_core::enqueue::{EnqueueAnswer, NewJob};
use windlass_core::error::EngineError;
use windlass_core::limits::ENQUEUE_BATCH_MAX;
use windlass_core::settle::Settled;

use super::SqliteEngine;
use super::catalogue::Catalogue;
use super::counts::Deltas;
use super::store_error::{StoreError, StoreResult};
use super::work::Work;
use crate::clock::SystemClock;
use crate::kit::check_batch_size;

/// Operations in the caller's transaction, by the engine's clock.
impl SqliteEngine {
    /// Enqueues jobs as [`enqueue_in`] does, by this engine's clock. The transaction must be on this
    /// engine's file.
    pub fn enqueue_in(
        &self,
        tx: &Transaction<'_>,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<EnqueueAnswer>, EngineError> {
        enqueue_at(tx, jobs, self.options.clock.now())
    }

    /// Ends a job as [`complete_in`] does, by this engine's clock. The transaction must be on this engine's
    /// file.
    pub fn complete_in(&self, tx: &Transaction<'_>, fence: Fence) -> Result<Settled, EngineError> {
        complete_at(tx, fence, self.options.clock.now())
    }
}

/// Enqueues jobs together with the caller's own writes: committed with them, or rolled back with them.
/// There is no receipt, since the caller's own transaction shows whether it happened.
///
/// It uses the system's clock, for programs without an engine at hand; an engine with another clock has
/// [`SqliteEngine::enqueue_in`]. An engine must have opened the file before, which creates the tables and
/// registers the types.
pub fn enqueue_in(tx: &Transaction<'_>, jobs: Vec<NewJob>) -> Result<Vec<EnqueueAnswer>, EngineError> {
    enqueue_at(tx, jobs, SystemClock.now())
}

fn enqueue_at(
    tx: &Transaction<'_>,
    jobs: Vec<NewJob>,
    now: Timestamp,
) -> Result<Vec<EnqueueAnswer>, EngineError> {
    check_batch_size(ENQUEUE_BATCH_MAX, "jobs", jobs.len())?;
    Ok(all_or_nothing(tx, now, |work| work.enqueue_all(jobs))?)
}

/// Ends a job as succeeded together with the caller's own writes, if the claim still holds. If it does not,
/// nothing is written, and the caller should roll back: another worker has the job now.
///
/// It uses the system's clock; an engine with another clock has [`SqliteEngine::complete_in`].
pub fn complete_in(tx: &Transaction<'_>, fence: Fence) -> Result<Settled, EngineError> {
    complete_at(tx, fence, SystemClock.now())
}

fn complete_at(tx: &Transaction<'_>, fence: Fence, now: Timestamp) -> Result<Settled, EngineError> {
    Ok(all_or_nothing(tx, now, |work| work.complete(fence))?)
}

/// Works under a savepoint of its own, so that an error leaves the caller's transaction as it was.
fn all_or_nothing<T>(
    tx: &Transaction<'_>,
    now: Timestamp,
    act: impl FnOnce(&mut Work<'_>) -> StoreResult<T>,
) -> StoreResult<T> {
    tx.execute_batch("SAVEPOINT windlass")?;
    let result = work_in(tx, now, act);
    match &result {
        Ok(_) => tx.execute_batch("RELEASE windlass")?,
        // SQLite may have rolled everything back by itself; then there is no savepoint any more.
        Err(_) if tx.is_autocommit() => {}
        Err(_) => tx.execute_batch("ROLLBACK TO windlass; RELEASE windlass")?,
    }
    result
}

fn work_in<T>(
    tx: &Transaction<'_>,
    now: Timestamp,
    act: impl FnOnce(&mut Work<'_>) -> StoreResult<T>,
) -> StoreResult<T> {
    let mut catalogue = Catalogue::load(tx).map_err(no_tables)?;
    let nothing = Deltas::default();
    let mut work = Work::new(tx, now, &mut catalogue, &nothing);
    let value = act(&mut work)?;
    work.end().deltas.flush(tx)?;
    catalogue.save_sequence(tx)?;
    Ok(value)
}

fn no_tables(fault: StoreError) -> StoreError {
    match fault {
        StoreError::Sqlite(error) if error.to_string().contains("no such table") => {
            let why = format!(
                "expected a file that an engine has opened before ({error}); open it with SqliteEngine::open first"
            );
            EngineError::Unusable { why }.into()
        }
        other => other,
    }
}
