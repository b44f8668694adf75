//! One operation inside a transaction: where it reads and writes, and its changes so far.

use std::cell::{RefCell, RefMut};
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection};
use windlass_core::clock::Timestamp;
use windlass_core::error::EngineError;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::worker::WorkerId;

use super::catalogue::{Catalogue, TypeEntry};
use super::counts::Deltas;
use super::hints::PendingHints;
use super::sql::sql;
use super::store_error::StoreResult;
use super::triggers::Watch;

/// The context of an operation.
pub(super) struct Work<'c> {
    pub(super) conn: &'c Connection,
    /// The store's clock, read once for the operation.
    pub(super) now: Timestamp,
    pub(super) catalogue: &'c mut Catalogue,
    /// The counts of earlier operations of the same transaction that are not yet written.
    pub(super) counted: &'c Deltas,
    pub(super) did: Did,
    /// The groups that completion triggers watch, once an operation has read them.
    pub(super) watches: Option<Vec<Watch>>,
    hot: [RefCell<Option<CachedStatement<'c>>>; Hot::COUNT],
}

/// Statements that run once for every job of a batch. They are kept for the whole operation: finding them
/// in the connection's cache costs a tenth of the time to work off a queue.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hot {
    InsertJob,
    ReadLive,
    Claim,
    Held,
    SettleEnded,
    Leave,
}

impl Hot {
    const COUNT: usize = 6;

    fn sql(self) -> &'static str {
        match self {
            Self::InsertJob => sql!("insert_job"),
            Self::ReadLive => sql!("read_live"),
            Self::Claim => sql!("claim"),
            Self::Held => sql!("held"),
            Self::SettleEnded => sql!("settle_ended"),
            Self::Leave => sql!("leave"),
        }
    }
}

/// The effects of an operation besides its rows. Dropped with it if it fails.
#[derive(Debug, Default, Clone)]
pub(super) struct Did {
    pub(super) deltas: Deltas,
    pub(super) hints: PendingHints,
    /// Workers whose lock files are no longer needed.
    pub(super) gone: Vec<WorkerId>,
    /// Whether queues or types have changed, so the catalogue must be read again.
    pub(super) declared: bool,
}

impl Did {
    /// Adds the effects of another operation.
    pub(super) fn absorb(&mut self, other: Self) {
        self.deltas.absorb(other.deltas);
        self.hints.absorb(other.hints);
        self.gone.extend(other.gone);
        self.declared |= other.declared;
    }
}

impl<'c> Work<'c> {
    /// Creates an operation without effects.
    pub(super) fn new(
        conn: &'c Connection,
        now: Timestamp,
        catalogue: &'c mut Catalogue,
        counted: &'c Deltas,
    ) -> Self {
        Self { conn, now, catalogue, counted, did: Did::default(), watches: None, hot: Default::default() }
    }

    /// Ends the operation and returns its effects.
    pub(super) fn end(self) -> Did {
        self.did
    }

    /// Returns a statement that runs once for every job of a batch.
    pub(super) fn hot(&self, which: Hot) -> StoreResult<RefMut<'_, CachedStatement<'c>>> {
        let mut slot = self.hot[which as usize].borrow_mut();
        if slot.is_none() {
            *slot = Some(self.conn.prepare_cached(which.sql())?);
        }
        Ok(RefMut::map(slot, |slot| slot.as_mut().expect("the statement was prepared above")))
    }

    /// Returns the type of a stored job. Types are never deleted, so only a damaged file lacks one.
    pub(super) fn type_of(&self, id: i64) -> StoreResult<Arc<TypeEntry>> {
        self.catalogue.type_numbered(id).ok_or_else(|| {
            let why = format!(
                "a job has type number {id}, which is not registered; another program changed the file, or it is damaged; restore it from a backup"
            );
            EngineError::Unusable { why }.into()
        })
    }

    /// Returns the names of a type by its number.
    pub(super) fn names(&self, id: i64) -> Option<(TypeName, QueueName)> {
        let kind = self.catalogue.type_numbered(id)?;
        Some((kind.spec.name.clone(), kind.spec.queue.clone()))
    }
}
