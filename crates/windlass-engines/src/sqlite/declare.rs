//! Declares queues and types: all of a declaration or nothing.

use std::collections::HashMap;

use rusqlite::params;
use windlass_core::engine::Declaration;
use windlass_core::job_type::{TypeSpec, TypeSpecError};
use windlass_core::names::TypeName;

use super::sql::sql;
use super::store_error::{StoreError, StoreResult};
use super::work::Work;
use crate::kit::to_json;

impl Work<'_> {
    pub(super) fn declare(&mut self, declaration: &Declaration) -> StoreResult<()> {
        self.check(declaration)?;
        let mut put = self.conn.prepare_cached(sql!("declare_queue"))?;
        for queue in &declaration.queues {
            let text = match self.catalogue.queue(&queue.name) {
                Some(stored) => stored.spec.rewritten(queue).map_err(|why| StoreError::Engine(why.into()))?,
                None => to_json(queue),
            };
            put.execute(params![queue.name.as_str(), text])?;
        }
        // New queues get their numbers only here, and types refer to them.
        self.catalogue.reload(self.conn)?;
        let mut put = self.conn.prepare_cached(sql!("declare_type"))?;
        for spec in &declaration.types {
            let queue = self.catalogue.queue(&spec.queue).ok_or_else(|| unknown_queue(spec))?;
            let text = match self.catalogue.type_named(&spec.name) {
                Some(stored) => stored.spec.rewritten(spec).map_err(|why| StoreError::Engine(why.into()))?,
                None => to_json(spec),
            };
            put.execute(params![spec.name.as_str(), queue.id, text])?;
        }
        self.did.declared = true;
        Ok(())
    }

    fn check(&self, declaration: &Declaration) -> StoreResult<()> {
        for queue in &declaration.queues {
            queue.check().map_err(|why| StoreError::Engine(why.into()))?;
        }
        let mut earlier: HashMap<&TypeName, &TypeSpec> = HashMap::new();
        for spec in &declaration.types {
            let is_new = declaration.queues.iter().any(|queue| queue.name == spec.queue);
            let has_queue = is_new || self.catalogue.queue(&spec.queue).is_some();
            let registered = self.catalogue.type_named(&spec.name);
            let registered = registered.as_ref().map(|kind| &*kind.spec);
            let before = earlier.insert(&spec.name, spec).or(registered);
            check_type(spec, has_queue, before).map_err(|why| StoreError::Engine(why.into()))?;
        }
        Ok(())
    }
}

fn check_type(spec: &TypeSpec, has_queue: bool, before: Option<&TypeSpec>) -> Result<(), TypeSpecError> {
    spec.check()?;
    if !has_queue {
        return Err(TypeSpecError::UnknownQueue { name: spec.name.clone(), queue: spec.queue.clone() });
    }
    before.map_or(Ok(()), |before| spec.may_follow(before))
}

fn unknown_queue(spec: &TypeSpec) -> StoreError {
    let (name, queue) = (spec.name.clone(), spec.queue.clone());
    StoreError::Engine(TypeSpecError::UnknownQueue { name, queue }.into())
}
