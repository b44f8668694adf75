//! Queues and types as this process remembers them, so that jobs carry small numbers instead of names. Scripts that depend
//! on them name the version they were read in; if that has passed, nothing is written and they are read again.

use std::collections::HashMap;
use std::sync::Arc;

use redis::Value;
use windlass_core::clock::Timestamp;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::queue::{Pause, QueueSpec};

use super::fault::Step;
use super::reply::Items;

/// A queue.
#[derive(Debug)]
pub(super) struct QueueEntry {
    pub(super) spec: QueueSpec,
    pub(super) pause: Option<Pause>,
    pub(super) shut: bool,
}

/// A type and its number.
#[derive(Debug)]
pub(super) struct TypeEntry {
    pub(super) number: u32,
    pub(super) spec: TypeSpec,
}

/// All queues and types.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    pub(super) version: String,
    queues: HashMap<QueueName, QueueEntry>,
    types: HashMap<TypeName, Arc<TypeEntry>>,
    types_by_number: HashMap<u32, Arc<TypeEntry>>,
}

impl Catalogue {
    /// Reads what `catalogue.lua` answers. A declaration that was damaged counts as one with the defaults.
    pub(super) fn read(value: Value) -> Step<Self> {
        let mut parts = Items::of(value)?;
        let mut catalogue = Self { version: parts.text()?, ..Self::default() };
        for (name, spec) in pairs(parts.list()?)? {
            catalogue.add_queue(&name, &spec);
        }
        let kinds = pairs(parts.list()?)?.into_iter().collect();
        for (name, value) in pairs(parts.list()?)? {
            catalogue.add_type(&name, &value, &kinds);
        }
        for (name, pause) in pairs(parts.list()?)? {
            if let Some(queue) = QueueName::parse(&name).ok().and_then(|name| catalogue.queues.get_mut(&name))
            {
                queue.pause = read_pause(&pause);
            }
        }
        let mut shut = parts.list()?;
        while !shut.is_empty() {
            let name = QueueName::parse(&shut.text()?).ok();
            if let Some(queue) = name.and_then(|name| catalogue.queues.get_mut(&name)) {
                queue.shut = true;
            }
        }
        Ok(catalogue)
    }

    fn add_queue(&mut self, name: &str, spec: &str) {
        let Ok(name) = QueueName::parse(name) else { return };
        let spec = serde_json::from_str(spec).ok().filter(|spec: &QueueSpec| spec.name == name);
        let spec = spec.unwrap_or_else(|| QueueSpec::new(name.clone()));
        self.queues.insert(name, QueueEntry { spec, pause: None, shut: false });
    }

    fn add_type(&mut self, name: &str, value: &str, kinds: &HashMap<String, String>) {
        let (number, spec) = value.split_once(' ').unwrap_or((value, ""));
        let queue = kinds.get(number).and_then(|kind| QueueName::parse(kind.splitn(3, ' ').nth(2)?).ok());
        let (Ok(number), Ok(name)) = (number.parse(), TypeName::parse(name)) else { return };
        let spec = serde_json::from_str(spec).ok().filter(|spec: &TypeSpec| spec.name == name);
        let Some(spec) = spec.or_else(|| Some(TypeSpec::new(name.clone(), queue?))) else { return };
        let entry = Arc::new(TypeEntry { number, spec });
        self.types_by_number.insert(number, entry.clone());
        self.types.insert(name, entry);
    }

    pub(super) fn queue(&self, name: &QueueName) -> Option<&QueueEntry> {
        self.queues.get(name)
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = &QueueEntry> {
        self.queues.values()
    }

    pub(super) fn type_named(&self, name: &TypeName) -> Option<&Arc<TypeEntry>> {
        self.types.get(name)
    }

    pub(super) fn type_numbered(&self, number: u32) -> Option<&Arc<TypeEntry>> {
        self.types_by_number.get(&number)
    }

    pub(super) fn types(&self) -> impl Iterator<Item = &Arc<TypeEntry>> {
        self.types.values()
    }

    /// The types of a queue, in the order in which they were registered.
    pub(super) fn types_of(&self, queue: &QueueName) -> Vec<&Arc<TypeEntry>> {
        let mut types: Vec<_> = self.types.values().filter(|entry| entry.spec.queue == *queue).collect();
        types.sort_by_key(|entry| entry.number);
        types
    }
}

fn pairs(mut items: Items) -> Step<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    while !items.is_empty() {
        pairs.push((items.text()?, items.text()?));
    }
    Ok(pairs)
}

/// A pause as `pause.lua` writes it: since, end and reason, a line each; a reason has an r before it.
fn read_pause(text: &str) -> Option<Pause> {
    let (since, rest) = text.split_once('\n')?;
    let (until, reason) = rest.split_once('\n')?;
    Some(Pause {
        since: Timestamp::from_micros(since.parse().ok()?),
        until: until.parse().ok().map(Timestamp::from_micros),
        reason: reason.strip_prefix('r').map(str::to_owned),
    })
}
