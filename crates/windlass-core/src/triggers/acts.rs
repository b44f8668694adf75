//! The requests to a store: to store a trigger, to remove it, and to fire it.

use crate::clock::Timestamp;
use crate::enqueue::EnqueueAnswer;
use crate::names::TriggerName;
use crate::schedules::Origin;
use crate::stored::Source;

use super::record::{StoredTrigger, TriggerRecord};
use super::spec::CompletionTrigger;
use super::{TriggerChange, TriggerFiring};

/// Stores a trigger, or updates the stored one to the declaration. `None` if it is the same already.
pub fn declare(
    spec: &CompletionTrigger,
    origin: Origin,
    stored: Option<&StoredTrigger>,
    now: Timestamp,
) -> Option<TriggerChange> {
    let Some(stored) = stored else {
        let spec = spec.clone();
        let record = TriggerRecord {
            spec,
            origin,
            stored_at: now,
            fired: 0,
            last_fired: None,
            alert: None,
            source: Source::default(),
        };
        return Some(change(0, record));
    };
    let before = &stored.record;
    if before.spec == *spec && before.origin == origin {
        return None;
    }
    Some(change(stored.version, TriggerRecord { spec: spec.clone(), origin, ..before.clone() }))
}

/// Removes a trigger. Jobs that it enqueued stay.
pub fn remove(name: &TriggerName, version: u64) -> TriggerChange {
    TriggerChange { name: name.clone(), read: version, to: None }
}

/// Returns the request to a store for a trigger that has a mark.
pub fn fire(stored: &StoredTrigger, now: Timestamp) -> TriggerFiring {
    let before = &stored.record;
    let to = TriggerRecord { fired: before.fired + 1, last_fired: Some(now), ..before.clone() };
    TriggerFiring {
        name: stored.name().clone(),
        read: stored.version,
        to: Box::new(to),
        job: stored.next_job(),
    }
}

impl TriggerFiring {
    /// Returns the record to store once it has fired and its job got this answer: if the enqueue was
    /// refused, the refusal is recorded with the trigger.
    pub fn kept(&self, job: &EnqueueAnswer) -> TriggerRecord {
        let mut record = (*self.to).clone();
        if let EnqueueAnswer::Refused(why) = job {
            record.record_refusal(why);
        }
        record
    }
}

fn change(read: u64, record: TriggerRecord) -> TriggerChange {
    TriggerChange { name: record.spec.name.clone(), read, to: Some(Box::new(record)) }
}
