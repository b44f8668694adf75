//! Declares queues and types: all of a declaration or nothing.

use std::collections::HashMap;
use std::sync::Arc;

use windlass_core::engine::Declaration;
use windlass_core::error::EngineError;
use windlass_core::job_type::{TypeSpec, TypeSpecError};
use windlass_core::names::TypeName;
use windlass_core::queue::QueueSpec;

use super::Store;
use super::call::{Args, LOST_MAX};
use super::catalogue::{Catalogue, QueueEntry, TypeEntry};
use super::store_error::StoreResult;
use crate::kit::{check_batch_size, to_json};

/// The maximum number of queues and types that one script declares, all or nothing.
const DECLARED_MAX: usize = 5_000;

impl Store {
    pub(super) async fn declare(&self, declaration: Declaration) -> StoreResult<()> {
        check_batch_size(
            DECLARED_MAX,
            "queues and types",
            declaration.queues.len() + declaration.types.len(),
        )?;
        for _ in 0..LOST_MAX {
            let opened = self.opened();
            self.call_with_catalogue(&self.scripts().declare, |catalogue| {
                check(&declaration, catalogue)?;
                Ok(args_of(&declaration.queues, &declaration.types, catalogue)?)
            })
            .await?;
            self.remember(declaration.clone());
            self.reload().await?;
            if self.opened().store_epoch == opened.store_epoch {
                return Ok(());
            }
            // Another store was opened meanwhile, perhaps before this declaration was remembered.
        }
        Err(self.another_store())
    }

    /// The arguments that declare everything this process has declared, for a store that came back empty or
    /// was replaced. In parts, queues first: the whole was checked before. Declarations that the store has
    /// already and that cannot be read stay as they are.
    pub(super) fn declared_args(&self, there: &Catalogue) -> StoreResult<Vec<Args>> {
        let mut declared = self.declared();
        let is_unreadable = |queue: &QueueEntry| queue.spec.checked().is_err();
        declared.queues.retain(|queue| !there.queue(&queue.name).is_some_and(is_unreadable));
        let is_unreadable = |entry: &Arc<TypeEntry>| entry.spec.checked().is_err();
        declared.types.retain(|spec| !there.type_named(&spec.name).is_some_and(is_unreadable));
        let queues = declared.queues.chunks(DECLARED_MAX).map(|part| (part, &[][..]));
        let types = declared.types.chunks(DECLARED_MAX).map(|part| (&[][..], part));
        let parts = queues.chain(types).map(|(queues, types)| args_of(queues, types, there));
        Ok(parts.collect::<Result<_, _>>()?)
    }
}

/// Builds the arguments of a declaration, and keeps stored fields of newer versions.
fn args_of(queues: &[QueueSpec], types: &[TypeSpec], there: &Catalogue) -> Result<Args, EngineError> {
    let mut args = Args::new();
    args.count(queues.len());
    for queue in queues {
        let text = match there.queue(&queue.name) {
            Some(stored) => stored.spec.rewritten(queue)?,
            None => to_json(queue),
        };
        args.text(queue.name.as_str()).text(&text);
    }
    args.count(types.len());
    for spec in types {
        args.text(spec.name.as_str()).text(spec.queue.as_str()).number(i64::from(spec.retention_days));
        let text = match there.type_named(&spec.name) {
            Some(stored) => stored.spec.rewritten(spec)?,
            None => to_json(spec),
        };
        args.number(i64::from(spec.keep_result)).text(&text);
    }
    Ok(args)
}

fn check(declaration: &Declaration, catalogue: &Catalogue) -> Result<(), EngineError> {
    for queue in &declaration.queues {
        queue.check()?;
    }
    let mut earlier: HashMap<&TypeName, &TypeSpec> = HashMap::new();
    for spec in &declaration.types {
        spec.check()?;
        check_queue(spec, declaration, catalogue)?;
        let registered = catalogue.type_named(&spec.name).map(|entry| &*entry.spec);
        if let Some(before) = earlier.insert(&spec.name, spec).or(registered) {
            spec.may_follow(before)?;
        }
    }
    Ok(())
}

fn check_queue(
    spec: &TypeSpec,
    declaration: &Declaration,
    catalogue: &Catalogue,
) -> Result<(), TypeSpecError> {
    let is_new = declaration.queues.iter().any(|queue| queue.name == spec.queue);
    if is_new || catalogue.queue(&spec.queue).is_some() {
        return Ok(());
    }
    Err(TypeSpecError::UnknownQueue { name: spec.name.clone(), queue: spec.queue.clone() })
}
