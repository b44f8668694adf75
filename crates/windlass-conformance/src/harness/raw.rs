//! Access below an engine: the text that its store keeps, as another version or a person may have written it.

use std::future::Future;
use std::pin::Pin;

use windlass_core::names::{BreakerName, QueueName, TypeName};

use super::Harness;

/// A text that stores keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawSpec {
    /// The declaration of a queue.
    Queue(QueueName),
    /// The registration of a type.
    Type(TypeName),
    /// What is known of a breaker.
    Breaker(BreakerName),
}

/// A call that reaches below an engine.
pub type RawCall<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Reads and writes texts of a store without its engine.
pub trait RawStore: Send + Sync {
    /// Reads a text that is there.
    fn read<'a>(&'a self, spec: &'a RawSpec) -> RawCall<'a, String>;

    /// Writes a text in the place of one that is there, so that processes notice the change as they notice
    /// one of another process.
    fn write<'a>(&'a self, spec: &'a RawSpec, text: &'a str) -> RawCall<'a, ()>;
}

impl Harness {
    /// Access below the engine. None if its store keeps no texts: then no other version can have written one.
    pub fn raw(&self) -> Option<&dyn RawStore> {
        self.raw.as_deref()
    }
}
