//! Declarations of queues and types: each is stored as a whole, or not at all.

use std::collections::HashMap;

use tokio_postgres::types::Type;
use windlass_core::engine::Declaration;
use windlass_core::error::EngineError;
use windlass_core::job_type::{TypeSpec, TypeSpecError};
use windlass_core::names::TypeName;
use windlass_core::queue::QueueSpec;

use super::Store;
use super::catalogue::Catalogue;
use super::conn::Tx;
use super::store_error::{StoreError, StoreResult};
use super::value::{int4, levels, numbers, small_numbers, texts};
use crate::kit::to_json;

impl Store {
    pub(super) async fn declare(&self, declaration: Declaration) -> StoreResult<()> {
        let tx = self.work.begin().await?;
        let declared = self.declare_in(&tx, &declaration).await;
        tx.end(declared).await?;
        self.reload().await
    }

    /// Declares under the catalogue's lock, so that two processes that declare at once see each other.
    async fn declare_in(&self, tx: &Tx, declaration: &Declaration) -> StoreResult<()> {
        let rows = tx.query(&self.sql.lock_catalogue, &[]).await?;
        let version = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        let queues = tx.query(&self.sql.load_queues, &[]).await?;
        let types = tx.query(&self.sql.load_types, &[]).await?;
        let known = Catalogue::read(version, &queues, &types)?;
        check(declaration, &known)?;
        if is_known(declaration, &known) {
            // Every worker declares at its start. A declaration without a change must not make all others
            // read again.
            return Ok(());
        }
        self.store_queues(tx, declaration, &known).await?;
        self.store_types(tx, &declaration.types, &known).await?;
        tx.query(&self.sql.renew_catalogue, &[]).await?;
        Ok(())
    }

    async fn store_queues(&self, tx: &Tx, declaration: &Declaration, known: &Catalogue) -> StoreResult<()> {
        let queues = last_of_each(&declaration.queues, |queue| queue.name.clone());
        let names: Vec<_> = queues.iter().map(|queue| queue.name.as_str()).collect();
        let text = |queue: &&QueueSpec| match known.queue(&queue.name) {
            Some(stored) => stored.spec.rewritten(queue),
            None => Ok(to_json(*queue)),
        };
        let specs = queues.iter().map(text).collect::<Result<Vec<_>, _>>().map_err(EngineError::from)?;
        let priorities: Vec<i16> = queues.iter().map(|queue| queue.priority.level().into()).collect();
        let capacities: Vec<_> =
            queues.iter().map(|queue| queue.capacity.map(|n| i64::try_from(n).unwrap_or(i64::MAX))).collect();
        let params = [texts(&names), texts(&specs), levels(&priorities), numbers(&capacities)];
        tx.query(&self.sql.declare_queues, &params).await?;
        Ok(())
    }

    async fn store_types(&self, tx: &Tx, types: &[TypeSpec], known: &Catalogue) -> StoreResult<()> {
        let types = last_of_each(types, |spec| spec.name.clone());
        let names: Vec<_> = types.iter().map(|spec| spec.name.as_str()).collect();
        let queues: Vec<_> = types.iter().map(|spec| spec.queue.as_str()).collect();
        let text = |spec: &&TypeSpec| match known.type_named(&spec.name) {
            Some(stored) => stored.rewritten(spec),
            None => Ok(to_json(*spec)),
        };
        let specs = types.iter().map(text).collect::<Result<Vec<_>, _>>().map_err(EngineError::from)?;
        let priorities: Vec<Option<i16>> =
            types.iter().map(|spec| spec.priority.map(|priority| priority.level().into())).collect();
        let attempts: Vec<_> = types.iter().map(|spec| int4(spec.retry.attempts_max())).collect();
        let retentions: Vec<_> = types.iter().map(|spec| int4(spec.retention_days)).collect();
        let results: Vec<_> = types.iter().map(|spec| spec.keep_result).collect();
        let params = [
            texts(&names),
            texts(&queues),
            texts(&specs),
            levels(&priorities),
            small_numbers(&attempts),
            small_numbers(&retentions),
            (&results as _, Type::BOOL_ARRAY),
        ];
        tx.query(&self.sql.declare_types, &params).await?;
        Ok(())
    }
}

/// Keeps the last declaration of each name; a statement takes each name once.
fn last_of_each<T, K: std::hash::Hash + Eq>(all: &[T], name: impl Fn(&T) -> K) -> Vec<&T> {
    let mut last: HashMap<K, &T> = HashMap::new();
    all.iter().for_each(|one| _ = last.insert(name(one), one));
    last.into_values().collect()
}

fn is_known(declaration: &Declaration, known: &Catalogue) -> bool {
    let is_queue_known =
        |queue: &QueueSpec| known.queue(&queue.name).is_some_and(|entry| entry.spec.says(queue));
    let is_type_known =
        |spec: &TypeSpec| known.type_named(&spec.name).is_some_and(|stored| stored.says(spec));
    declaration.queues.iter().all(is_queue_known) && declaration.types.iter().all(is_type_known)
}

fn check(declaration: &Declaration, known: &Catalogue) -> StoreResult<()> {
    for queue in &declaration.queues {
        queue.check().map_err(|why| StoreError::Engine(why.into()))?;
    }
    let mut earlier: HashMap<&TypeName, &TypeSpec> = HashMap::new();
    for spec in &declaration.types {
        let is_new = declaration.queues.iter().any(|queue| queue.name == spec.queue);
        let has_queue = is_new || known.queue(&spec.queue).is_some();
        let before =
            earlier.insert(&spec.name, spec).or(known.type_named(&spec.name).map(|stored| &**stored));
        check_type(spec, has_queue, before).map_err(|why| StoreError::Engine(why.into()))?;
    }
    Ok(())
}

fn check_type(spec: &TypeSpec, has_queue: bool, before: Option<&TypeSpec>) -> Result<(), TypeSpecError> {
    spec.check()?;
    if !has_queue {
        return Err(TypeSpecError::UnknownQueue { name: spec.name.clone(), queue: spec.queue.clone() });
    }
    before.map_or(Ok(()), |before| spec.may_follow(before))
}
