//! Short words for what behaviours speak of.

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
use windlass_core::settle::Settled;

use super::{FLEETING, KEPT, OTHER_WORK, SMALL_WORK, WORK};

/// The types that every harness declares.
pub fn all_types() -> Vec<TypeName> {
    [WORK, KEPT, FLEETING, OTHER_WORK, SMALL_WORK].map(type_name).to_vec()
}

/// A type with the defaults.
pub fn type_spec(name: &str, in_queue: &str) -> TypeSpec {
    TypeSpec::new(type_name(name), queue(in_queue))
}

/// A queue's name.
pub fn queue(name: &str) -> QueueName {
    QueueName::parse(name).expect("behaviours use plain names")
}

/// A type's name.
pub fn type_name(name: &str) -> TypeName {
    TypeName::parse(name).expect("behaviours use plain names")
}

/// A key.
pub fn key(text: &str) -> Key {
    Key::parse(text).expect("behaviours use plain keys")
}

/// A priority.
pub fn level(number: i64) -> Priority {
    Priority::new(number).expect("behaviours use priorities from 0 to 10")
}

/// A plain job of type [`WORK`].
pub fn work() -> NewJob {
    job_of(WORK)
}

/// A plain job of the given type.
pub fn job_of(name: &str) -> NewJob {
    NewJob::new(type_name(name), Payload::default())
}

/// A plain job that falls due after a delay.
pub fn due_in(delay: Duration) -> NewJob {
    NewJob { when: When::In(delay), ..work() }
}

/// A plain job of the given priority.
pub fn urgent(number: i64) -> NewJob {
    NewJob { priority: Some(level(number)), ..work() }
}

/// A payload of some text.
pub fn payload(text: &str) -> Payload {
    Payload::encode(text).expect("a short text is a payload")
}

/// So many seconds.
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// So many minutes.
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

/// So many days.
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(24 * 60 * 60 * n)
}

/// The only item there is.
pub fn only<T: fmt::Debug>(items: Vec<T>) -> T {
    match <[T; 1]>::try_from(items) {
        Ok([item]) => item,
        Err(items) => panic!("expected exactly one item, got {}: {items:?}", items.len()),
    }
}

/// The numbers of claimed jobs, in the order in which they came.
pub fn ids(claimed: &[Claimed]) -> Vec<JobId> {
    claimed.iter().map(|claimed| claimed.job.id).collect()
}

/// Asserts that a settlement was written.
pub fn assert_applied(settled: Settled) {
    assert_eq!(settled, Settled::Applied, "the claim holds");
}

/// What a rescue brought in all.
pub fn touched(rescued: &Rescued) -> usize {
    rescued.returned.len() + rescued.buried.len()
}
