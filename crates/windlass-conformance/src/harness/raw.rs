//! Access below an engine: the text that its store keeps, as another version or an operator may have
//! written it.

use std::future::Future;
use std::pin::Pin;

use windlass_core::names::{BreakerName, QueueName, TypeName};

use super::Harness;

/// A spec that stores keep as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawSpec {
    /// The declaration of a queue.
    Queue(QueueName),
    /// The registration of a type.
    Type(TypeName),
    /// The state of a breaker.
    Breaker(BreakerName),
}

/// A call that reaches below an engine.
pub type RawCall<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Reads and writes the texts of a store without its engine.
pub trait RawStore: Send + Sync {
    /// Reads an existing text.
    fn read<'a>(&'a self, spec: &'a RawSpec) -> RawCall<'a, String>;

    /// Overwrites an existing text, so that processes notice the change like a change by another process.
    fn write<'a>(&'a self, spec: &'a RawSpec, text: &'a str) -> RawCall<'a, ()>;
}

impl Harness {
    /// Returns the access below the engine. It is `None` if the store keeps no texts: then no other version
    /// can have written one.
    pub fn raw(&self) -> Option<&dyn RawStore> {
        self.raw.as_deref()
    }
}
