//! What is asked of a store: to keep a drain, to forget it, and to fire it.

use crate::clock::Timestamp;
use crate::enqueue::Enqueued;
use crate::names::DrainName;
use crate::schedules::Origin;

use super::record::{DrainRecord, StoredDrain};
use super::spec::DrainSpec;
use super::{DrainChange, DrainFiring};

/// Stores a drain, or makes the stored one what is declared. Nothing if it is that already.
pub fn declare(
    spec: &DrainSpec,
    origin: Origin,
    stored: Option<&StoredDrain>,
    now: Timestamp,
) -> Option<DrainChange> {
    let Some(stored) = stored else {
        let spec = spec.clone();
        let record = DrainRecord { spec, origin, stored_at: now, fired: 0, last_fired: None, alert: None };
        return Some(change(0, record));
    };
    let before = &stored.record;
    if before.spec == *spec && before.origin == origin {
        return None;
    }
    Some(change(stored.version, DrainRecord { spec: spec.clone(), origin, ..before.clone() }))
}

/// Forgets a drain. Jobs that it made stay.
pub fn remove(name: &DrainName, version: u64) -> DrainChange {
    DrainChange { name: name.clone(), read: version, to: None }
}

/// What to ask of a store for a drain that has a mark.
pub fn fire(stored: &StoredDrain, now: Timestamp) -> DrainFiring {
    let before = &stored.record;
    let to = DrainRecord { fired: before.fired + 1, last_fired: Some(now), ..before.clone() };
    DrainFiring {
        name: stored.name().clone(),
        read: stored.version,
        to: Box::new(to),
        job: stored.next_job(),
    }
}

impl DrainFiring {
    /// What is kept once it has fired and its job got this answer: if the door refused it, that is told with the drain.
    pub fn kept(&self, job: &Enqueued) -> DrainRecord {
        let mut record = (*self.to).clone();
        if let Enqueued::Refused(why) = job {
            record.tell_of(why);
        }
        record
    }
}

fn change(read: u64, record: DrainRecord) -> DrainChange {
    DrainChange { name: record.spec.name.clone(), read, to: Some(Box::new(record)) }
}
