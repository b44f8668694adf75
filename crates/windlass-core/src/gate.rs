//! Gates: why a waiting job is held back. A parked job leaves the claim's order and keeps its due time.

use std::fmt;
use std::sync::Arc;

use crate::job::Counters;
use crate::names::TypeName;

/// What holds a parked job back, as the text that the store keeps: a kind and, after a colon, a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gate(Arc<str>);

impl Gate {
    /// For jobs whose worker died while it held them. They are claimed one by one, so that a job that
    /// kills its process does not take its neighbours with it each time.
    pub fn suspect() -> Self {
        Self("suspect".into())
    }

    /// For jobs whose type no live worker handles.
    pub fn no_handler(job_type: &TypeName) -> Self {
        Self(format!("no-handler:{job_type}").into())
    }

    /// A gate that a policy closes, such as `semaphore:screenshot`. Text from a store comes in here too.
    pub fn named(text: &str) -> Self {
        Self(text.into())
    }

    /// Whether this is the gate of suspects.
    pub fn is_suspect(&self) -> bool {
        &*self.0 == "suspect"
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What it means, for people.
    pub fn explain(&self) -> String {
        match self.0.split_once(':') {
            Some(("no-handler", job_type)) => format!("no live worker handles job type {job_type}"),
            _ if self.is_suspect() => "its worker died while running it; it is tried on its own".to_owned(),
            _ => format!("held back by {}", self.0),
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Behind which gate a job waits because of what happened to it.
pub fn gate_by_history(counters: &Counters) -> Option<Gate> {
    (counters.crashes > 0).then(Gate::suspect)
}
