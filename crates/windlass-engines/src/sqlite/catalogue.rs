//! Queues and types as the writer caches them, so that jobs carry small numbers instead of names. They are
//! read again whenever another process wrote, or this process changed a declaration.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;
use windlass_core::clock::Timestamp;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::queue::{Pause, QueueSpec};
use windlass_core::stored::StoredSpec;

use super::fairness_keys::Rings;
use super::sql::sql;
use super::store_error::StoreResult;

/// A queue and its number.
#[derive(Debug)]
pub(super) struct QueueEntry {
    pub(super) id: i64,
    pub(super) spec: StoredSpec<QueueSpec>,
    pub(super) pause: Option<Pause>,
    pub(super) shut: bool,
}

impl QueueEntry {
    /// Whether no job of it may be claimed now.
    pub(super) fn is_paused(&self, now: Timestamp) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.holds(now))
    }
}

/// A type and its number.
#[derive(Debug)]
pub(super) struct TypeEntry {
    pub(super) id: i64,
    pub(super) queue_id: i64,
    pub(super) spec: StoredSpec<TypeSpec>,
}

/// All queues and types, and the id of the next job.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    queues: HashMap<QueueName, Arc<QueueEntry>>,
    types: HashMap<TypeName, Arc<TypeEntry>>,
    types_by_id: HashMap<i64, Arc<TypeEntry>>,
    next_job: i64,
    next_job_saved: i64,
    /// The turns of fairness keys.
    pub(super) rings: Rings,
}

impl Catalogue {
    /// Reads everything.
    pub(super) fn load(conn: &Connection) -> StoreResult<Self> {
        let mut catalogue = Self::default();
        let mut names = HashMap::new();
        for queue in load_queues(conn)? {
            names.insert(queue.id, queue.spec.name.clone());
            catalogue.queues.insert(queue.spec.name.clone(), Arc::new(queue));
        }
        for kind in load_types(conn, &names)? {
            let kind = Arc::new(kind);
            catalogue.types.insert(kind.spec.name.clone(), kind.clone());
            catalogue.types_by_id.insert(kind.id, kind);
        }
        catalogue.next_job = conn.prepare_cached(sql!("load_sequence"))?.query_row([], |row| row.get(0))?;
        catalogue.next_job_saved = catalogue.next_job;
        Ok(catalogue)
    }

    /// Reads everything again. Ids that were taken and not yet written stay taken.
    pub(super) fn reload(&mut self, conn: &Connection) -> StoreResult<()> {
        let loaded = Self::load(conn)?;
        let next_job = self.next_job.max(loaded.next_job);
        *self = Self { next_job, rings: std::mem::take(&mut self.rings), ..loaded };
        Ok(())
    }

    /// Finds a queue by its name.
    pub(super) fn queue(&self, name: &QueueName) -> Option<Arc<QueueEntry>> {
        self.queues.get(name).cloned()
    }

    /// Finds a type by its name.
    pub(super) fn type_named(&self, name: &TypeName) -> Option<Arc<TypeEntry>> {
        self.types.get(name).cloned()
    }

    /// Finds a type by its number.
    pub(super) fn type_numbered(&self, id: i64) -> Option<Arc<TypeEntry>> {
        self.types_by_id.get(&id).cloned()
    }

    /// Lists all queues.
    pub(super) fn queues(&self) -> impl Iterator<Item = &Arc<QueueEntry>> {
        self.queues.values()
    }

    /// Lists all types.
    pub(super) fn types(&self) -> impl Iterator<Item = &Arc<TypeEntry>> {
        self.types.values()
    }

    /// Lists the types of a queue.
    pub(super) fn types_of(&self, queue_id: i64) -> impl Iterator<Item = &Arc<TypeEntry>> {
        self.types.values().filter(move |kind| kind.queue_id == queue_id)
    }

    /// Takes an id for a new job.
    pub(super) fn take_job_id(&mut self) -> i64 {
        self.next_job += 1;
        self.next_job - 1
    }

    /// Writes the id of the next job, if ids were taken.
    pub(super) fn save_sequence(&mut self, conn: &Connection) -> StoreResult<()> {
        if self.next_job > self.next_job_saved {
            conn.prepare_cached(sql!("save_sequence"))?.execute([self.next_job])?;
            self.next_job_saved = self.next_job;
        }
        Ok(())
    }
}

fn load_queues(conn: &Connection) -> StoreResult<Vec<QueueEntry>> {
    let mut statement = conn.prepare_cached(sql!("load_queues"))?;
    let mut rows = statement.query([])?;
    let mut queues = Vec::new();
    while let Some(row) = rows.next()? {
        let Ok(name) = QueueName::parse(&row.get::<_, String>(1)?) else { continue };
        let spec = QueueSpec::from_store(&name, row.get(2)?);
        let pause: Option<String> = row.get(3)?;
        queues.push(QueueEntry {
            id: row.get(0)?,
            spec,
            pause: pause.map(|pause| Pause::from_store(&pause)),
            shut: row.get(4)?,
        });
    }
    Ok(queues)
}

fn load_types(conn: &Connection, queues: &HashMap<i64, QueueName>) -> StoreResult<Vec<TypeEntry>> {
    let mut statement = conn.prepare_cached(sql!("load_types"))?;
    let mut rows = statement.query([])?;
    let mut types = Vec::new();
    while let Some(row) = rows.next()? {
        let queue_id: i64 = row.get(2)?;
        let Ok(name) = TypeName::parse(&row.get::<_, String>(1)?) else { continue };
        let Some(queue) = queues.get(&queue_id) else { continue };
        let spec = TypeSpec::from_store(&name, queue, row.get(3)?);
        types.push(TypeEntry { id: row.get(0)?, queue_id, spec });
    }
    Ok(types)
}
