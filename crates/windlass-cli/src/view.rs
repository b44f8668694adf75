//! The JSON of jobs, queues and types. These shapes are part of the contract; core's own types are not.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use windlass_core::admin::{Counts, QueueStatus, StoredAttempt, StoredJob, Totals, TypeStatus};
use windlass_core::clock::Timestamp;
use windlass_core::job::{Counters, Progress, StoredState};
use windlass_core::job_type::TypeSpec;
use windlass_core::key::KeyClaim;
use windlass_core::names::QueueName;
use windlass_core::outcome::JobError;
use windlass_core::queue::QueueSpec;
use windlass_core::retry::{Delay, RetryPolicy};
use windlass_core::stored::Unreadable;
use windlass_core::worker::WorkerSighting;

/// The JSON of a job.
#[derive(Debug, Serialize)]
pub(crate) struct JobView<'a> {
    id: i64,
    #[serde(rename = "type")]
    job_type: &'a str,
    queue: &'a str,
    state: &'static str,
    gate: Option<&'a str>,
    priority: u8,
    label: Option<&'a str>,
    enqueued_at: Instant,
    due: Instant,
    expires_at: Option<Instant>,
    ended_at: Option<Instant>,
    key: Option<KeyView<'a>>,
    ordering_key: Option<&'a str>,
    fairness_key: Option<&'a str>,
    correlation: Option<&'a str>,
    #[serde(flatten)]
    provenance: BTreeMap<&'a str, Option<&'a str>>,
    tags: Vec<&'a str>,
    group: Option<&'a str>,
    counters: Counters,
    retry: Option<&'a RetryPolicy>,
    timeout: Option<Delay>,
    progress: Option<&'a Progress>,
    worker: Option<String>,
    running_since: Option<Instant>,
    cancel_requested: Option<&'a str>,
    cancelled_because: Option<&'a str>,
    last_error: Option<&'a JobError>,
    payload: Json,
    result: Option<Json>,
}

impl<'a> From<&'a StoredJob> for JobView<'a> {
    fn from(record: &'a StoredJob) -> Self {
        let job = &record.job;
        let mut view = Self {
            id: job.id.0,
            job_type: job.job_type.as_str(),
            queue: job.queue.as_str(),
            state: record.job_state().as_str(),
            gate: None,
            priority: job.priority.level(),
            label: job.label.as_ref().map(|label| label.as_str()),
            enqueued_at: job.enqueued_at.into(),
            due: job.due.into(),
            expires_at: job.expires_at.map(Instant::from),
            ended_at: None,
            key: job.key.as_ref().map(KeyView::from),
            ordering_key: job.ordering_key.as_ref().map(|ordering_key| ordering_key.as_str()),
            fairness_key: job.fairness_key.as_ref().map(|fairness_key| fairness_key.as_str()),
            correlation: job.correlation.as_ref().map(|id| id.as_str()),
            provenance: job.provenance.entries().into(),
            tags: job.tags.iter().map(|tag| tag.as_str()).collect(),
            group: job.group.as_ref().map(|group| group.as_str()),
            counters: job.counters,
            retry: job.retry.as_ref(),
            timeout: job.timeout.map(Delay),
            progress: job.progress.as_ref(),
            worker: None,
            running_since: None,
            cancel_requested: None,
            cancelled_because: None,
            last_error: record.last_error.as_ref(),
            payload: Json::new(job.payload.as_str()),
            result: None,
        };
        view.set_state(&record.state);
        view
    }
}

impl<'a> JobView<'a> {
    fn set_state(&mut self, state: &'a StoredState) {
        match state {
            StoredState::Waiting { gate } => self.gate = gate.as_ref().map(|gate| gate.as_str()),
            StoredState::Running { worker, since, cancel_requested } => {
                self.worker = Some(worker.to_string());
                self.running_since = Some((*since).into());
                self.cancel_requested = cancel_requested.as_deref();
            }
            StoredState::Succeeded { at, result } => {
                self.ended_at = Some((*at).into());
                self.result = result.as_deref().map(Json::new);
            }
            StoredState::Dead { at, error } => {
                self.ended_at = Some((*at).into());
                self.last_error = Some(error);
            }
            StoredState::Cancelled { at, why } => {
                self.ended_at = Some((*at).into());
                self.cancelled_because = Some(why);
            }
        }
    }
}

/// The JSON of an instant: a text.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Instant(String);

impl From<Timestamp> for Instant {
    fn from(instant: Timestamp) -> Self {
        Self(instant.to_string())
    }
}

/// JSON as the store has it. Damaged JSON is shown as a text.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Json(Box<RawValue>);

impl Json {
    fn new(text: &str) -> Self {
        let damaged = |_| {
            let quoted = serde_json::Value::from(text).to_string();
            RawValue::from_string(quoted).expect("a quoted text is JSON")
        };
        Self(RawValue::from_string(text.to_owned()).unwrap_or_else(damaged))
    }
}

#[derive(Debug, Serialize)]
struct KeyView<'a> {
    key: &'a str,
    scope: windlass_core::key::KeyScope,
    on_conflict: windlass_core::key::OnConflict,
}

impl<'a> From<&'a KeyClaim> for KeyView<'a> {
    fn from(claim: &'a KeyClaim) -> Self {
        Self { key: claim.key.as_str(), scope: claim.scope, on_conflict: claim.on_conflict }
    }
}

/// The JSON of an attempt.
#[derive(Debug, Serialize)]
pub(crate) struct AttemptView<'a> {
    number: u32,
    worker: String,
    started_at: Instant,
    ended_at: Option<Instant>,
    ending: &'static str,
    error: Option<&'a JobError>,
    output: Option<&'a str>,
}

impl<'a> From<&'a StoredAttempt> for AttemptView<'a> {
    fn from(attempt: &'a StoredAttempt) -> Self {
        Self {
            number: attempt.number,
            worker: attempt.worker.to_string(),
            started_at: attempt.started_at.into(),
            ended_at: attempt.ended_at.map(Instant::from),
            ending: attempt.ending.as_str(),
            error: attempt.error.as_ref(),
            output: attempt.output.as_deref(),
        }
    }
}

/// The JSON of a job with its attempts.
#[derive(Debug, Serialize)]
pub(crate) struct JobInFull<'a> {
    #[serde(flatten)]
    pub(crate) job: JobView<'a>,
    /// The state of the job in words.
    pub(crate) explained: &'a str,
    pub(crate) attempts: Vec<AttemptView<'a>>,
}

/// The JSON of a declaration. Of one that cannot be read, only the name and the reason: its other fields
/// might be defaults.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Declared<'a, T> {
    Readable(&'a T),
    Unreadable {
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        queue: Option<&'a QueueName>,
        unreadable: String,
    },
}

impl<'a, T> Declared<'a, T> {
    /// `queue` is that of a type, which the store knows beside the declaration.
    fn new(
        spec: &'a T,
        name: &impl ToString,
        queue: Option<&'a QueueName>,
        unreadable: Option<&Unreadable>,
    ) -> Self {
        match unreadable {
            None => Self::Readable(spec),
            Some(why) => Self::Unreadable { name: name.to_string(), queue, unreadable: why.to_string() },
        }
    }
}

/// The JSON of a queue.
#[derive(Debug, Serialize)]
pub(crate) struct QueueView<'a> {
    #[serde(flatten)]
    spec: Declared<'a, QueueSpec>,
    paused: bool,
    pause: Option<PauseView<'a>>,
    shut: bool,
    depth: u64,
    counts: Counts,
    totals: Totals,
    oldest_ready: Option<Delay>,
}

#[derive(Debug, Serialize)]
struct PauseView<'a> {
    since: Instant,
    until: Option<Instant>,
    reason: Option<&'a str>,
}

impl<'a> QueueView<'a> {
    /// The JSON of a queue. A pause that has ended is left out.
    pub(crate) fn new(status: &'a QueueStatus, now: Timestamp) -> Self {
        let pause = status.pause.as_ref().filter(|pause| pause.holds(now));
        Self {
            spec: Declared::new(&status.spec, &status.spec.name, None, status.unreadable.as_ref()),
            paused: pause.is_some(),
            pause: pause.map(|pause| PauseView {
                since: pause.since.into(),
                until: pause.until.map(Instant::from),
                reason: pause.reason.as_deref(),
            }),
            shut: status.shut,
            depth: status.counts.unfinished(),
            counts: status.counts,
            totals: status.totals,
            oldest_ready: status.oldest_ready.map(Delay),
        }
    }
}

/// The JSON of a worker.
#[derive(Debug, Serialize)]
pub(crate) struct WorkerView<'a> {
    id: String,
    host: &'a str,
    pid: u32,
    version: &'a str,
    since: Instant,
    queues: Vec<&'a str>,
    types: Vec<&'a str>,
    duties: Vec<&'a str>,
    slots: u32,
    running: u64,
    silent_for: Delay,
    expired: bool,
    clock_ahead_ms: Option<i64>,
}

impl<'a> From<&'a WorkerSighting> for WorkerView<'a> {
    fn from(sighting: &'a WorkerSighting) -> Self {
        let card = &sighting.card;
        Self {
            id: card.id.to_string(),
            host: &card.host,
            pid: card.pid,
            version: &card.version,
            since: sighting.since.into(),
            queues: card.queues.iter().map(|queue| queue.as_str()).collect(),
            types: card.types.iter().map(|kind| kind.as_str()).collect(),
            duties: card.duties.iter().map(|duty| duty.as_str()).collect(),
            slots: card.slots,
            running: sighting.running,
            silent_for: Delay(sighting.silent_for),
            expired: sighting.expired,
            clock_ahead_ms: sighting.clock_ahead_micros.map(|micros| micros / 1_000),
        }
    }
}

/// The JSON of a job type.
#[derive(Debug, Serialize)]
pub(crate) struct TypeView<'a> {
    #[serde(flatten)]
    spec: Declared<'a, TypeSpec>,
    workers: u64,
    unfinished: u64,
}

impl<'a> From<&'a TypeStatus> for TypeView<'a> {
    fn from(status: &'a TypeStatus) -> Self {
        Self {
            spec: Declared::new(
                &status.spec,
                &status.spec.name,
                Some(&status.spec.queue),
                status.unreadable.as_ref(),
            ),
            workers: status.workers,
            unfinished: status.unfinished,
        }
    }
}
