//! The catalogue: queues and types as this engine remembers them, so that core can decide without a query.
//! A statement that acts on such a decision names the version of the catalogue, and writes nothing if the
//! store has another.

use std::collections::HashMap;

use tokio_postgres::Row;
use windlass_core::clock::Timestamp;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::queue::{Pause, QueueSpec};
use windlass_core::stored::StoredSpec;

use super::store_error::StoreResult;

/// A queue as it was declared, and its state as operators set it.
#[derive(Debug)]
pub(super) struct QueueEntry {
    pub(super) spec: StoredSpec<QueueSpec>,
    pub(super) pause: Option<Pause>,
    pub(super) shut: bool,
    /// Whether its jobs have fairness keys.
    pub(super) has_fairness_keys: bool,
}

impl QueueEntry {
    /// Whether its jobs may not be claimed now.
    pub(super) fn is_paused(&self, now: Timestamp) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.holds(now))
    }
}

/// All queues and types, as they were at one version.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    /// The store's number of this catalogue. A number never comes twice, and does not say which catalogue
    /// was first.
    pub(super) version: i64,
    /// The number of the read of this process that it came from: the later read is newer.
    pub(super) turn: u64,
    queues: HashMap<QueueName, QueueEntry>,
    types: HashMap<TypeName, StoredSpec<TypeSpec>>,
}

impl Catalogue {
    /// Reads a catalogue from the rows of `load_queues` and `load_types`.
    pub(super) fn read(version: i64, queues: &[Row], types: &[Row]) -> StoreResult<Self> {
        let mut catalogue = Self { version, ..Self::default() };
        for row in queues {
            if let Some(queue) = read_queue(row)? {
                catalogue.queues.insert(queue.spec.name.clone(), queue);
            }
        }
        for row in types {
            if let Some(spec) = read_type(row)? {
                catalogue.types.insert(spec.name.clone(), spec);
            }
        }
        Ok(catalogue)
    }

    /// Sets the number of the read of this process that the catalogue came from.
    pub(super) fn of_turn(self, turn: u64) -> Self {
        Self { turn, ..self }
    }

    /// A queue by its name.
    pub(super) fn queue(&self, name: &QueueName) -> Option<&QueueEntry> {
        self.queues.get(name)
    }

    /// Whether jobs of a queue have fairness keys.
    pub(super) fn has_fairness_keys(&self, name: &QueueName) -> bool {
        self.queues.get(name).is_some_and(|queue| queue.has_fairness_keys)
    }

    /// A type by its name.
    pub(super) fn type_named(&self, name: &TypeName) -> Option<&StoredSpec<TypeSpec>> {
        self.types.get(name)
    }

    /// All queues.
    pub(super) fn queues(&self) -> impl Iterator<Item = &QueueEntry> {
        self.queues.values()
    }

    /// The declarations of the queues that can be read.
    pub(super) fn queue_specs(&self) -> Vec<QueueSpec> {
        self.queues().filter_map(|queue| queue.spec.checked().ok().cloned()).collect()
    }

    /// All types.
    pub(super) fn types(&self) -> impl Iterator<Item = &StoredSpec<TypeSpec>> {
        self.types.values()
    }

    /// Whether queues have other types in another version of the catalogue.
    pub(super) fn has_other_types_than(&self, other: &Self) -> bool {
        let is_there = |spec: &StoredSpec<TypeSpec>| {
            other.types.get(&spec.name).is_some_and(|its| its.queue == spec.queue)
        };
        self.types.len() != other.types.len() || !self.types.values().all(is_there)
    }

    /// The types of a queue.
    pub(super) fn types_of(&self, queue: &QueueName) -> impl Iterator<Item = &StoredSpec<TypeSpec>> {
        self.types.values().filter(move |spec| spec.queue == *queue)
    }
}

fn read_queue(row: &Row) -> StoreResult<Option<QueueEntry>> {
    let Ok(name) = QueueName::parse(row.try_get(0)?) else { return Ok(None) };
    let pause: Option<&str> = row.try_get(2)?;
    Ok(Some(QueueEntry {
        spec: QueueSpec::from_store(&name, row.try_get(1)?),
        pause: pause.map(Pause::from_store),
        shut: row.try_get(3)?,
        has_fairness_keys: row.try_get(4)?,
    }))
}

fn read_type(row: &Row) -> StoreResult<Option<StoredSpec<TypeSpec>>> {
    let Ok(name) = TypeName::parse(row.try_get(0)?) else { return Ok(None) };
    let Ok(queue) = QueueName::parse(row.try_get(1)?) else { return Ok(None) };
    Ok(Some(TypeSpec::from_store(&name, &queue, row.try_get(2)?)))
}
