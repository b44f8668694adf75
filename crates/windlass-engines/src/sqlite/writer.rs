//! The only writer. All writes go through this thread and its one connection: operations that arrive while
//! the last commit is written to the disk share the next commit. Each caller is answered after that commit,
//! with its own result.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::oneshot;
use windlass_core::clock::Clock;
use windlass_core::engine::{Hint, Result};
use windlass_core::error::EngineError;

use super::catalogue::Catalogue;
use super::inbox::{Haste, Inbox, Taken};
use super::locks::Locks;
use super::store_error::{Failure, StoreError, StoreResult};
use super::work::{Did, Work};
use crate::listeners::Listeners;

/// The maximum number of operations in one commit. More would let the first ones wait for the last.
const OPERATIONS_PER_COMMIT_MAX: usize = 256;

/// An operation in a transaction, and the caller that waits for it.
pub(super) trait Operation: Send {
    /// Runs the operation. Returns whether it succeeded; if not, it is rolled back.
    fn run(&mut self, work: &mut Work<'_>) -> bool;
    /// Sends its result to the caller, or why the commit failed.
    fn answer(self: Box<Self>, failure: Option<&Failure>);
}

/// The usual operation: a function and a channel for its result.
struct Call<T, F> {
    act: Option<F>,
    result: Option<StoreResult<T>>,
    to: oneshot::Sender<Result<T>>,
}

impl<T, F> Operation for Call<T, F>
where
    T: Send,
    F: FnOnce(&mut Work<'_>) -> StoreResult<T> + Send,
{
    fn run(&mut self, work: &mut Work<'_>) -> bool {
        let result = self.act.take().map(|act| act(work));
        let is_well = matches!(result, Some(Ok(_)));
        self.result = result;
        is_well
    }

    fn answer(self: Box<Self>, failure: Option<&Failure>) {
        let result = match (self.result, failure) {
            (Some(Err(fault)), _) => Err(fault.into()),
            (_, Some(failure)) => Err(failure.clone().into()),
            (Some(Ok(value)), None) => Ok(value),
            (None, None) => Err(Failure::Unavailable("the operation was not run".to_owned()).into()),
        };
        // A caller that no longer waits has dropped its end; its writes stay written.
        let _ = self.to.send(result);
    }
}

/// The inbox of operations.
pub(super) type WriterInbox = Inbox<Box<dyn Operation>>;

/// Runs an operation in the writer's next transaction.
pub(super) async fn call<T, F>(inbox: &WriterInbox, haste: Haste, act: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce(&mut Work<'_>) -> StoreResult<T> + Send + 'static,
{
    let (to, answer) = oneshot::channel();
    inbox.put(haste, Box::new(Call { act: Some(act), result: None, to })).await?;
    answer.await.unwrap_or_else(|_| {
        Err(EngineError::Unknown { why: "the engine was closed before it answered".to_owned() })
    })
}

/// The state of the writer's thread.
pub(super) struct Writer {
    conn: Connection,
    clock: Arc<dyn Clock>,
    inbox: Arc<WriterInbox>,
    listeners: Arc<Listeners>,
    locks: Arc<Locks>,
    catalogue: Catalogue,
    is_stale: bool,
    /// Changes exactly when another connection has committed.
    data_version: i64,
}

/// Whether a transaction continues; a failure means that all of it is lost.
type Kept = std::result::Result<(), Failure>;

/// An open transaction: the waiting callers, and its effects.
#[derive(Default)]
struct Open {
    callers: Vec<Box<dyn Operation>>,
    did: Did,
}

impl Writer {
    /// Creates a writer that is ready to run.
    pub(super) fn new(
        conn: Connection,
        clock: Arc<dyn Clock>,
        inbox: Arc<WriterInbox>,
        listeners: Arc<Listeners>,
        locks: Arc<Locks>,
    ) -> StoreResult<Self> {
        let catalogue = Catalogue::load(&conn)?;
        let data_version = data_version(&conn)?;
        Ok(Self { conn, clock, inbox, listeners, locks, catalogue, is_stale: false, data_version })
    }

    /// Works until the inbox is closed and empty. No error ends it.
    pub(super) fn run(mut self) {
        loop {
            match self.inbox.take() {
                Taken::Item(haste, first) => self.transact(haste, first),
                Taken::Check => self.detect_other_commits(),
                Taken::Closed => return,
            }
        }
    }

    /// Runs a transaction. Urgent operations share no commit with the rest: on a disk that is nearly full,
    /// a heartbeat may fit where a batch of jobs does not, and must not be lost with it. Other workers take
    /// a worker whose heartbeats fail for dead if theirs succeed.
    fn transact(&mut self, haste: Haste, first: Box<dyn Operation>) {
        if let Err(fault) = self.begin() {
            self.roll_back();
            return self.refuse_all(haste, first, &before_commit(fault));
        }
        let mut open = Open::default();
        let mut next = Some(first);
        while let Some(operation) = next {
            if let Err(failure) = self.run_one(operation, &mut open) {
                self.roll_back();
                return answer_all(open, Some(&failure));
            }
            let has_room = open.callers.len() < OPERATIONS_PER_COMMIT_MAX;
            next = if has_room { self.inbox.try_take(haste) } else { None };
        }
        self.commit(open);
    }

    fn begin(&mut self) -> StoreResult<()> {
        execute(&self.conn, "BEGIN IMMEDIATE")?;
        self.detect_other_commits();
        self.refresh()
    }

    fn refresh(&mut self) -> StoreResult<()> {
        if self.is_stale {
            self.catalogue.reload(&self.conn)?;
            self.is_stale = false;
        }
        Ok(())
    }

    /// Runs one operation of a transaction. An error means that the whole transaction is lost.
    fn run_one(&mut self, mut operation: Box<dyn Operation>, open: &mut Open) -> Kept {
        // The first operation needs no savepoint: if it fails, the transaction holds no other operation.
        // That saves the copies of pages that a savepoint makes, on the path of large batches.
        let has_savepoint = !open.callers.is_empty();
        let prepared = self.refresh().and_then(|()| match has_savepoint {
            true => Ok(execute(&self.conn, "SAVEPOINT operation")?),
            false => Ok(()),
        });
        if let Err(fault) = prepared {
            open.callers.push(operation);
            return Err(before_commit(fault));
        }
        let now = self.clock.now();
        let mut work = Work::new(&self.conn, now, &mut self.catalogue, &open.did.deltas);
        let is_well = catch_unwind(AssertUnwindSafe(|| operation.run(&mut work)));
        let did = work.end();
        open.callers.push(operation);
        match is_well {
            Ok(true) => self.keep_one(did, has_savepoint, open),
            Ok(false) => self.undo_one(has_savepoint),
            Err(_panic) => Err(Failure::Unavailable(
                "an operation panicked and was rolled back; this is a bug in Windlass".to_owned(),
            )),
        }
    }

    fn keep_one(&mut self, did: Did, has_savepoint: bool, open: &mut Open) -> Kept {
        self.is_stale |= did.declared;
        open.did.absorb(did);
        if has_savepoint {
            let released = execute(&self.conn, "RELEASE operation");
            released.map_err(|error| Failure::of(&error))?;
        }
        Ok(())
    }

    /// Rolls back the writes of a failed operation. SQLite itself rolls back everything after some errors,
    /// such as a full disk; then the whole transaction is lost.
    fn undo_one(&mut self, has_savepoint: bool) -> Kept {
        self.is_stale = true;
        let lost = || Failure::Unavailable("another operation of the same transaction failed".to_owned());
        if self.conn.is_autocommit() || !has_savepoint {
            return Err(lost());
        }
        self.conn.execute_batch("ROLLBACK TO operation; RELEASE operation").map_err(|_| lost())
    }

    fn commit(&mut self, mut open: Open) {
        if let Err(fault) = self.flush(&mut open) {
            self.roll_back();
            return answer_all(open, Some(&before_commit(fault)));
        }
        if let Err(error) = execute(&self.conn, "COMMIT") {
            self.roll_back();
            return answer_all(open, Some(&Failure::of_commit(&error)));
        }
        open.did.gone.drain(..).for_each(|worker| self.locks.remove(worker));
        let hints = std::mem::take(&mut open.did.hints);
        // Before any caller is answered: a worker that stops when its last job has ended must know by then
        // that this marked a completion trigger.
        hints.send(&self.listeners);
        answer_all(open, None);
    }

    fn flush(&mut self, open: &mut Open) -> StoreResult<()> {
        open.did.deltas.flush(&self.conn)?;
        self.catalogue.save_sequence(&self.conn)
    }

    /// Rolls back an open transaction. Changes of the catalogue may never have been written.
    fn roll_back(&mut self) {
        self.is_stale = true;
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::warn!(%error, "rolling back a transaction failed; the next transaction ends it");
        }
    }

    /// Refuses all waiting operations, since the store cannot be written to and they have waited long
    /// enough.
    fn refuse_all(&mut self, haste: Haste, first: Box<dyn Operation>, failure: &Failure) {
        tracing::warn!(?failure, "the store cannot be written to; waiting operations are refused");
        first.answer(Some(failure));
        for _ in 0..OPERATIONS_PER_COMMIT_MAX {
            let Some(operation) = self.inbox.try_take(haste) else { return };
            operation.answer(Some(failure));
        }
    }

    /// Sends a hint to listeners if another connection has committed, and marks the catalogue as stale.
    fn detect_other_commits(&mut self) {
        let Ok(data_version) = data_version(&self.conn) else { return };
        if data_version != self.data_version {
            self.data_version = data_version;
            self.is_stale = true;
            self.listeners.tell(&Hint::Any);
        }
    }
}

/// Runs a statement of the transaction itself, which is prepared once.
fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}

fn answer_all(open: Open, failure: Option<&Failure>) {
    open.callers.into_iter().for_each(|caller| caller.answer(failure));
}

fn before_commit(fault: StoreError) -> Failure {
    match fault {
        StoreError::Sqlite(error) => Failure::of(&error),
        StoreError::Engine(error) => Failure::Unusable(error.to_string()),
    }
}

fn data_version(conn: &Connection) -> StoreResult<i64> {
    Ok(conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
}
