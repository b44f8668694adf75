//! Conversion between bytes and jobs. Scripts read the same state (`lua/parts/state.lua`); only this file
//! reads the options of the body. Reading never fails for a damaged value: it is replaced, because one bad
//! job must not keep others from being claimed or shown.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use windlass_core::admin::StoredJob;
use windlass_core::claim::ClaimToken;
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::NewJob;
use windlass_core::gate::Gate;
use windlass_core::job::{Counters, Job, JobId, StoredState};
use windlass_core::names::{PriorityLabel, QueueName, TypeName};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::payload::Payload;
use windlass_core::priority::Priority;
use windlass_core::worker::WorkerId;

use super::catalogue::Catalogue;
use super::reply::ReplyReader;
use super::store_error::StoreResult;
use crate::kit::{Columns, JobOptions, parse_error};

/// Digits of an id. Ids of one length sort like their numbers.
pub(super) const ID_DIGITS: usize = 14;

pub(super) fn read_id(bytes: &[u8]) -> JobId {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    JobId(text.parse().unwrap_or_default())
}

fn from_json<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// The part of a job that never changes, unless a later job with its key renews it: label, options and
/// payload, a line each. Of these, only the payload may contain line breaks.
pub(super) fn body(new: &NewJob) -> String {
    let columns = Columns {
        key: new.key.as_ref().map(|claim| claim.key.clone()),
        correlation: new.correlation.clone(),
        group: new.group.clone(),
        tags: new.tags.clone(),
    };
    // The label has a line of its own, which a script can replace.
    let options = JobOptions { label: None, columns, ..JobOptions::of(new) };
    let label = new.label.as_ref().map_or("", PriorityLabel::as_str);
    let options = options.to_column().unwrap_or_default();
    format!("{label}\n{options}\n{}", new.payload.as_str())
}

/// The fixed part of a job's state.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) stage: u8,
    flags: u8,
    pub(super) kind: u32,
    priority: u8,
    pub(super) enqueued_at: Timestamp,
    pub(super) due: Timestamp,
    pub(super) counters: Counters,
    /// The claim of a running job, or of the attempt that ended the job.
    pub(super) claim: Option<ClaimPart>,
    /// When the job ended.
    pub(super) at: Timestamp,
}

/// Which worker runs or ran a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimPart {
    pub(super) token: ClaimToken,
    pub(super) worker: WorkerId,
    pub(super) since: Timestamp,
}

const BOOSTED: u8 = 2;

impl State {
    /// Reads the bytes that `lua/parts/state.lua` describes. Missing bytes count as zero.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut from = Bytes(bytes);
        let [stage, flags] = from.take();
        let kind = u32::from_be_bytes(from.take());
        let [priority] = from.take();
        let (enqueued_at, due) = (from.instant(), from.instant());
        let mut count = || u32::from_be_bytes(from.take());
        let counters = Counters { attempts: count(), failures: count(), crashes: count(), holds: count() };
        let claim = (!from.0.is_empty()).then(|| ClaimPart {
            token: ClaimToken::from_bytes(from.take()),
            worker: WorkerId::from_bytes(from.take()),
            since: from.instant(),
        });
        let at = from.instant();
        Self { stage, flags, kind, priority, enqueued_at, due, counters, claim, at }
    }

    pub(super) fn boosted(&self) -> bool {
        self.flags & BOOSTED != 0
    }
}

/// Bytes, read from the front. Missing bytes are zero.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let length = N.min(self.0.len());
        taken[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        taken
    }

    fn instant(&mut self) -> Timestamp {
        Timestamp::from_micros(i64::from_be_bytes(self.take()))
    }
}

/// The notes of a job.
#[derive(Debug, Default)]
pub(super) struct Notes(HashMap<String, String>);

impl Notes {
    /// Reads names and values in turn.
    pub(super) fn read(mut items: ReplyReader) -> StoreResult<Self> {
        let mut notes = HashMap::new();
        while !items.is_empty() {
            notes.insert(items.text()?, items.text()?);
        }
        Ok(Self(notes))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }
}

/// A job as scripts return it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: JobId,
    pub(super) state: State,
    body: Vec<u8>,
    pub(super) notes: Notes,
}

impl Row {
    /// Reads id, state, body and notes from the front of a list.
    pub(super) fn take(items: &mut ReplyReader) -> StoreResult<Self> {
        let id = read_id(&items.bytes()?);
        Self::take_rest(id, items)
    }

    /// Reads state, body and notes of a job whose id is known.
    pub(super) fn take_rest(id: JobId, items: &mut ReplyReader) -> StoreResult<Self> {
        let state = State::read(&items.bytes()?);
        Ok(Self { id, state, body: items.bytes()?, notes: Notes::read(items.list()?)? })
    }

    /// Builds the job.
    pub(super) fn job(&self, catalogue: &Catalogue) -> Job {
        let (label, options, payload) = split(&self.body);
        let options = JobOptions::from_column(Some(options));
        let (job_type, queue) = names(catalogue, self.state.kind);
        let (key, timeout) = (options.key_claim(options.columns.key.clone()), options.timeout());
        Job {
            id: self.id,
            job_type,
            queue,
            payload: Payload::from_store(payload),
            priority: Priority::new(self.state.priority.into()).unwrap_or(Priority::LEAST_URGENT),
            label: PriorityLabel::parse(label).ok(),
            enqueued_at: self.state.enqueued_at,
            due: self.state.due,
            expires_at: self.notes.get("expires").and_then(|at| at.parse().ok()).map(Timestamp::from_micros),
            key,
            correlation: options.columns.correlation,
            provenance: options.provenance,
            tags: options.columns.tags,
            group: options.columns.group,
            retry: options.retry,
            timeout,
            ordering_key: options.ordering_key,
            fairness_key: options.fairness_key,
            counters: self.state.counters,
            progress: self.notes.get("progress").and_then(from_json),
        }
    }

    /// Says which damage prevents this job from running as it was enqueued; `None` if there is none.
    pub(super) fn damage(&self, catalogue: &Catalogue) -> Option<&'static str> {
        let Ok(body) = std::str::from_utf8(&self.body) else { return Some("its body is not UTF-8 text") };
        let mut lines = body.splitn(3, '\n');
        let (Some(_), Some(options), Some(_)) = (lines.next(), lines.next(), lines.next()) else {
            return Some("its body is incomplete");
        };
        if !options.is_empty() && from_json::<JobOptions>(options).is_none() {
            return Some("its options cannot be read");
        }
        catalogue.type_numbered(self.state.kind).is_none().then_some("its type is not registered")
    }

    /// Builds the job with its state.
    pub(super) fn record(&self, catalogue: &Catalogue, now: Timestamp) -> StoredJob {
        StoredJob {
            job: self.job(catalogue),
            state: self.job_state(),
            last_error: self.notes.get("error").map(parse_error),
            read_at: now,
        }
    }

    fn job_state(&self) -> StoredState {
        let at = self.state.at;
        match (self.state.stage, self.state.claim) {
            (b'r', Some(claim)) => StoredState::Running {
                worker: claim.worker,
                since: claim.since,
                cancel_requested: self.notes.text("cancel"),
            },
            (b's', _) => StoredState::Succeeded { at, result: self.notes.text("result") },
            (b'd', _) => {
                StoredState::Dead { at, error: parse_error(self.notes.get("death").unwrap_or_default()) }
            }
            (b'c', _) => StoredState::Cancelled { at, why: self.notes.text("why").unwrap_or_default() },
            (b'u', _) => StoredState::Waiting { gate: Some(Gate::suspect()) },
            (b'p', _) => StoredState::Waiting { gate: self.notes.get("gate").map(Gate::named) },
            _ => StoredState::Waiting { gate: None },
        }
    }
}

fn split(body: &[u8]) -> (&str, &str, &str) {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let (label, rest) = text.split_once('\n').unwrap_or_default();
    let (options, payload) = rest.split_once('\n').unwrap_or_default();
    (label, options, payload)
}

/// The names of a type's number and its queue. An unregistered number gets names that say so.
fn names(catalogue: &Catalogue, kind: u32) -> (TypeName, QueueName) {
    if let Some(entry) = catalogue.type_numbered(kind) {
        return (entry.spec.name.clone(), entry.spec.queue.clone());
    }
    let unknown = format!("unknown-{kind}");
    let name = TypeName::parse(&unknown).expect("a number and a dash are plain");
    (name, QueueName::parse(&unknown).expect("a number and a dash are plain"))
}

/// The error of a job that is dead because its values in the store are not what was written.
pub(super) fn damaged(what: &str) -> JobError {
    JobError::new(ErrorKind::Undecodable, format!("its values in the store are damaged: {what}"))
}
