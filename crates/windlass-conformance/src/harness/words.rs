//! Short constructors for the values in behaviours.

use std::fmt;
use std::time::Duration;

use windlass_core::claim::Claimed;
use windlass_core::engine::Rescued;
use windlass_core::enqueue::{NewJob, When};
use windlass_core::job::JobId;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{Key, QueueName, TypeName};
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::provenance::Provenance;
use windlass_core::settle::Settled;

use super::{FLEETING, KEPT, OTHER_WORK, SMALL_WORK, WORK};

/// Returns the types that every harness declares.
pub fn all_types() -> Vec<TypeName> {
    [WORK, KEPT, FLEETING, OTHER_WORK, SMALL_WORK].map(type_name).to_vec()
}

/// Creates a type spec with the defaults.
pub fn type_spec(name: &str, in_queue: &str) -> TypeSpec {
    TypeSpec::new(type_name(name), queue(in_queue))
}

/// Parses the name of a queue.
pub fn queue(name: &str) -> QueueName {
    QueueName::parse(name).expect("behaviours use plain names")
}

/// Parses the name of a type.
pub fn type_name(name: &str) -> TypeName {
    TypeName::parse(name).expect("behaviours use plain names")
}

/// Parses a key.
pub fn key(text: &str) -> Key {
    Key::parse(text).expect("behaviours use plain keys")
}

/// Creates a priority.
pub fn level(number: i64) -> Priority {
    Priority::new(number).expect("behaviours use priorities from 0 to 10")
}

/// A provenance with every field.
pub fn provenance() -> Provenance {
    let mut provenance = Provenance::default();
    for field in Provenance::FIELDS {
        // Has the form of a trace context, which a cause may have, too.
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        provenance.set(field, text).expect("it has the form of each");
    }
    provenance
}

/// Creates a plain job of type [`WORK`].
pub fn work() -> NewJob {
    job_of(WORK)
}

/// Creates a plain job of the given type.
pub fn job_of(name: &str) -> NewJob {
    NewJob::new(type_name(name), Payload::default())
}

/// Creates a plain job that falls due after a delay.
pub fn due_in(delay: Duration) -> NewJob {
    NewJob { when: When::In(delay), ..work() }
}

/// Creates a plain job of the given priority.
pub fn urgent(number: i64) -> NewJob {
    NewJob { priority: Some(level(number)), ..work() }
}

/// Encodes a text as a payload.
pub fn payload(text: &str) -> Payload {
    Payload::encode(text).expect("a short text is a payload")
}

/// Returns a duration of `n` seconds.
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Returns a duration of `n` minutes.
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

/// Returns a duration of `n` days.
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(24 * 60 * 60 * n)
}

/// Returns the only item.
pub fn only<T: fmt::Debug>(items: Vec<T>) -> T {
    match <[T; 1]>::try_from(items) {
        Ok([item]) => item,
        Err(items) => panic!("expected exactly one item, got {}: {items:?}", items.len()),
    }
}

/// Returns the ids of claimed jobs, in the order of the answer.
pub fn ids(claimed: &[Claimed]) -> Vec<JobId> {
    claimed.iter().map(|claimed| claimed.job.id).collect()
}

/// Asserts that a settlement was applied.
pub fn assert_applied(settled: Settled) {
    assert_eq!(settled, Settled::Applied, "the claim holds");
}

/// Counts all jobs that a rescue changed.
pub fn touched(rescued: &Rescued) -> usize {
    rescued.returned.len() + rescued.buried.len()
}
