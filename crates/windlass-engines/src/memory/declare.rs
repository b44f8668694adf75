//! Declares queues and types: all of a declaration or nothing.

use std::collections::HashMap;

use windlass_core::engine::{Declaration, Result};
use windlass_core::job_type::{TypeSpec, TypeSpecError};
use windlass_core::names::TypeName;

use super::state::State;

impl State {
    pub(super) fn declare(&mut self, declaration: Declaration) -> Result<()> {
        self.check(&declaration)?;
        declaration.queues.into_iter().for_each(|queue| self.index.save_queue(queue));
        declaration.types.into_iter().for_each(|spec| self.index.save_type(spec));
        Ok(())
    }

    fn check(&self, declaration: &Declaration) -> Result<()> {
        for queue in &declaration.queues {
            queue.check()?;
        }
        let mut earlier: HashMap<&TypeName, &TypeSpec> = HashMap::new();
        for spec in &declaration.types {
            spec.check()?;
            self.check_queue(spec, declaration)?;
            let registered = self.index.type_at(&spec.name).map(|at| &self.index.type_row(at).spec);
            if let Some(before) = earlier.insert(&spec.name, spec).or(registered) {
                spec.may_follow(before)?;
            }
        }
        Ok(())
    }

    fn check_queue(
        &self,
        spec: &TypeSpec,
        declaration: &Declaration,
    ) -> std::result::Result<(), TypeSpecError> {
        let is_new = declaration.queues.iter().any(|queue| queue.name == spec.queue);
        if is_new || self.index.queue_at(&spec.queue).is_some() {
            return Ok(());
        }
        Err(TypeSpecError::UnknownQueue { name: spec.name.clone(), queue: spec.queue.clone() })
    }
}
