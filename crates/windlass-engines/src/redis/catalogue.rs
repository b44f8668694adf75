//! Queues and types as this process remembers them, so that jobs carry small numbers instead of names.
//! Scripts that depend on them name the version in which they were read. If the version has changed, nothing
//! is written and they are read again.

use std::collections::HashMap;
use std::sync::Arc;

use windlass_core::clock::Timestamp;
use windlass_core::job_type::TypeSpec;
use windlass_core::names::{QueueName, TypeName};
use windlass_core::queue::{Pause, QueueSpec};
use windlass_core::stored::StoredSpec;

use super::Store;
use super::call::{Args, CallResult, STALE_MAX};
use super::reply::ReplyReader;
use super::store_epoch::{Gone, Opened};
use super::store_error::{StoreError, StoreResult};

/// A queue.
#[derive(Debug)]
pub(super) struct QueueEntry {
    pub(super) spec: StoredSpec<QueueSpec>,
    pub(super) pause: Option<Pause>,
    pub(super) shut: bool,
}

/// A type and its number.
#[derive(Debug)]
pub(super) struct TypeEntry {
    pub(super) number: u32,
    pub(super) spec: StoredSpec<TypeSpec>,
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
    /// Builds the catalogue from its parts.
    fn of(version: String, parts: Parts) -> Self {
        let mut catalogue = Self { version, ..Self::default() };
        let [queues, kinds, types, pauses, shut] = parts;
        for (name, spec) in pairs(queues) {
            catalogue.add_queue(&name, spec);
        }
        let kinds = pairs(kinds).collect();
        for (name, value) in pairs(types) {
            catalogue.add_type(&name, &value, &kinds);
        }
        for (name, pause) in pairs(pauses) {
            if let Some(queue) = QueueName::parse(&name).ok().and_then(|name| catalogue.queues.get_mut(&name))
            {
                queue.pause = Some(read_pause(&pause).unwrap_or_else(|| Pause::unreadable(&pause)));
            }
        }
        for name in shut {
            let name = QueueName::parse(&name).ok();
            if let Some(queue) = name.and_then(|name| catalogue.queues.get_mut(&name)) {
                queue.shut = true;
            }
        }
        catalogue
    }

    fn add_queue(&mut self, name: &str, spec: String) {
        let Ok(name) = QueueName::parse(name) else { return };
        let spec = QueueSpec::from_store(&name, spec);
        self.queues.insert(name, QueueEntry { spec, pause: None, shut: false });
    }

    fn add_type(&mut self, name: &str, value: &str, kinds: &HashMap<String, String>) {
        let (number, spec) = value.split_once(' ').unwrap_or((value, ""));
        let queue = kinds.get(number).and_then(|kind| QueueName::parse(kind.splitn(3, ' ').nth(2)?).ok());
        let (Ok(number), Ok(name)) = (number.parse(), TypeName::parse(name)) else { return };
        let queue = queue.or_else(|| Some(serde_json::from_str::<TypeSpec>(spec).ok()?.queue));
        let Some(queue) = queue else { return };
        let spec = TypeSpec::from_store(&name, &queue, spec.to_owned());
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

    /// The types of a queue, in the order of their registration.
    pub(super) fn types_of(&self, queue: &QueueName) -> Vec<&Arc<TypeEntry>> {
        let mut types: Vec<_> = self.types.values().filter(|entry| entry.spec.queue == *queue).collect();
        types.sort_by_key(|entry| entry.number);
        types
    }
}

fn pairs(texts: Vec<String>) -> impl Iterator<Item = (String, String)> {
    let mut texts = texts.into_iter();
    std::iter::from_fn(move || Some((texts.next()?, texts.next().unwrap_or_default())))
}

fn texts(mut items: ReplyReader) -> StoreResult<Vec<String>> {
    let mut texts = Vec::new();
    while !items.is_empty() {
        texts.push(items.text()?);
    }
    Ok(texts)
}

/// The parts of a catalogue, as `catalogue.lua` names them.
const PARTS: [&str; 5] = ["queues", "kinds", "types", "pauses", "shut"];
/// The contents of each part: names and values in turn; for shut queues only names.
type Parts = [Vec<String>; 5];

/// The result of reading queues and types.
pub(super) enum CatalogueRead {
    /// The catalogue was read.
    Done(Catalogue),
    /// The store that it was read from is gone.
    Gone(Gone),
}

impl Store {
    /// Reads queues and types of a store: at once, or page by page if there are very many. Starts again if
    /// they change meanwhile.
    pub(super) async fn read_catalogue(&self, opened: &Arc<Opened>) -> StoreResult<CatalogueRead> {
        for _ in 0..STALE_MAX {
            let mut all = match self.page("", "0", opened).await? {
                Page::Answer(items) => items,
                Page::Gone(gone) => return Ok(CatalogueRead::Gone(gone)),
            };
            let version = all.text()?;
            if !all.is_empty() {
                let mut parts = Parts::default();
                for part in &mut parts {
                    *part = texts(all.list()?)?;
                }
                return Ok(CatalogueRead::Done(Catalogue::of(version, parts)));
            }
            if let Some(look) = self.read_pages(version, opened).await? {
                return Ok(look);
            }
        }
        Err(StoreError::Stale)
    }

    /// Returns `None` if queues or types have changed meanwhile.
    async fn read_pages(&self, version: String, opened: &Arc<Opened>) -> StoreResult<Option<CatalogueRead>> {
        let mut parts = Parts::default();
        for (name, part) in PARTS.iter().zip(&mut parts) {
            let mut cursor = "0".to_owned();
            loop {
                let mut page = match self.page(name, &cursor, opened).await? {
                    Page::Answer(items) => items,
                    Page::Gone(gone) => return Ok(Some(CatalogueRead::Gone(gone))),
                };
                if page.text()? != version {
                    return Ok(None);
                }
                cursor = page.text()?;
                part.extend(texts(page.list()?)?);
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(Some(CatalogueRead::Done(Catalogue::of(version, parts))))
    }

    async fn page(&self, part: &str, cursor: &str, opened: &Arc<Opened>) -> StoreResult<Page> {
        let mut args = Args::new();
        args.text(part).text(cursor);
        match self.send(&self.work, &self.scripts().catalogue, &args, opened, "").await? {
            CallResult::Answer(reply) => Ok(Page::Answer(ReplyReader::of(reply.value)?)),
            CallResult::Stale => Err(StoreError::Stale),
            CallResult::Gone(gone) => Ok(Page::Gone(gone)),
        }
    }
}

/// A page of a catalogue.
enum Page {
    Answer(ReplyReader),
    Gone(Gone),
}

/// Parses a pause as `pause.lua` writes it: since, end and reason, a line each; a reason has an r before it.
fn read_pause(text: &str) -> Option<Pause> {
    let (since, rest) = text.split_once('\n')?;
    let (until, reason) = rest.split_once('\n')?;
    Some(Pause {
        since: Timestamp::from_micros(since.parse().ok()?),
        until: until.parse().ok().map(Timestamp::from_micros),
        reason: reason.strip_prefix('r').map(str::to_owned),
    })
}
