//! Queues and types are declared: all of a declaration or nothing.

use std::collections::HashMap;

use windlass_core::engine::Declaration;
use windlass_core::error::EngineError;
use windlass_core::job_type::{TypeSpec, TypeSpecError};
use windlass_core::names::TypeName;

use super::Store;
use super::call::{Args, LOST_MAX};
use super::catalogue::Catalogue;
use super::fault::Step;
use super::row::to_json;

impl Store {
    pub(super) async fn declare(&self, declaration: Declaration) -> Step<()> {
        for _ in 0..LOST_MAX {
            let opened = self.opened();
            self.call_with_catalogue(&self.scripts().declare, |catalogue| {
                check(&declaration, catalogue)?;
                Ok(args(&declaration))
            })
            .await?;
            self.remember(declaration.clone());
            self.reload().await?;
            if self.opened().incarnation == opened.incarnation {
                return Ok(());
            }
            // Another store was opened meanwhile, perhaps before this declaration was remembered.
        }
        Err(self.another_store())
    }

    /// All that this process has declared, for a store that came back empty or is another one.
    pub(super) fn declared_args(&self) -> Option<Args> {
        let declared = self.declared();
        (declared != Declaration::default()).then(|| args(&declared))
    }
}

fn args(declaration: &Declaration) -> Args {
    let mut args = Args::new();
    args.count(declaration.queues.len());
    for queue in &declaration.queues {
        args.text(queue.name.as_str()).text(&to_json(queue));
    }
    args.count(declaration.types.len());
    for spec in &declaration.types {
        args.text(spec.name.as_str()).text(spec.queue.as_str()).number(i64::from(spec.retention_days));
        args.number(i64::from(spec.keep_result)).text(&to_json(spec));
    }
    args
}

fn check(declaration: &Declaration, catalogue: &Catalogue) -> Result<(), EngineError> {
    for queue in &declaration.queues {
        queue.check()?;
    }
    let mut earlier: HashMap<&TypeName, &TypeSpec> = HashMap::new();
    for spec in &declaration.types {
        spec.check()?;
        check_queue(spec, declaration, catalogue)?;
        let registered = catalogue.type_named(&spec.name).map(|entry| &entry.spec);
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
