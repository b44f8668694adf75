//! Queries of operators about jobs.

use serde::Deserialize;
use windlass_core::admin::{AttemptEnding, ListRequest, StoredAttempt, StoredJob};
use windlass_core::clock::Timestamp;
use windlass_core::gate::Gate;
use windlass_core::job::{JobId, JobState};
use windlass_core::limits::{ATTEMPTS_SHOWN_MAX, LIST_PAGE_MAX};
use windlass_core::worker::WorkerId;

use super::Store;
use super::call::Args;
use super::catalogue::Catalogue;
use super::reply::{Reply, ReplyReader, text};
use super::row::{Notes, Row, State, read_id};
use super::store_error::StoreResult;
use crate::kit::parse_error;

/// How many job numbers one call of a list reads.
const STRETCH: i64 = 2_000;
/// The type number of jobs that are so damaged that their type is unknown.
const UNKNOWN_KIND: u32 = 0;
/// How many types one script reads for dead letters: for each type, as many as a page has.
const DEAD_TYPES_PER_CALL: usize = 50;
/// The maximum number of jobs that a list reads, also if they do not match the request.
const SCANNED_MAX: i64 = 2_000_000;

impl Store {
    pub(super) async fn job(&self, id: JobId) -> StoreResult<Option<StoredJob>> {
        let mut args = Args::new();
        args.job(id);
        let reply = self.call(&self.scripts().job, args).await?;
        let mut found = ReplyReader::of(reply.value)?;
        if found.is_empty() {
            return Ok(None);
        }
        let row = Row::take_rest(id, &mut found)?;
        let catalogue = self.catalogue_with(row.state.kind).await?;
        Ok(Some(row.record(&catalogue, reply.now)))
    }

    /// The head of an ordering key, by the gate of the ordering key.
    pub(super) async fn head_of(&self, gate: Gate) -> StoreResult<Option<JobId>> {
        let mut args = Args::new();
        args.text(gate.as_str());
        let id = text(self.call(&self.scripts().head_of, args).await?.value)?;
        Ok((!id.is_empty()).then(|| read_id(id.as_bytes())))
    }

    pub(super) async fn attempts(&self, id: JobId) -> StoreResult<Vec<StoredAttempt>> {
        let mut args = Args::new();
        args.job(id);
        let mut found = ReplyReader::of(self.call(&self.scripts().attempts, args).await?.value)?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let (state, notes) = (State::read(&found.bytes()?), Notes::read(found.list()?)?);
        let mut lines = found.list()?;
        let mut attempts = Vec::new();
        while !lines.is_empty() {
            attempts.extend(read_attempt(&lines.text()?));
        }
        attempts.extend(last_attempt(&state, &notes));
        let surplus = attempts.len().saturating_sub(ATTEMPTS_SHOWN_MAX as usize);
        attempts.drain(..surplus);
        Ok(attempts)
    }

    /// Reads jobs from the newest down, a range at a time: by their numbers, except for dead letters, which
    /// have an index.
    pub(super) async fn list(&self, request: ListRequest) -> StoreResult<Vec<StoredJob>> {
        let limit = request.limit.min(LIST_PAGE_MAX) as usize;
        let mut from = request.before.map_or(i64::MAX >> 11, |before| before.0 - 1);
        let mut records = Vec::new();
        let mut looked_at = 0;
        while records.len() < limit && from > 0 && looked_at < SCANNED_MAX {
            let stretch = match request.job_state {
                Some(JobState::Dead) => self.stretch_of_dead(&request, from, limit).await?,
                _ => self.stretch(&request, from, limit).await?,
            };
            for row in stretch.rows {
                let catalogue = match row.state.kind {
                    UNKNOWN_KIND => self.catalogue(),
                    known => self.catalogue_with(known).await?,
                };
                let record = row.record(&catalogue, stretch.now);
                records.extend(is_wanted(&record, &request).then_some(record));
            }
            (looked_at, from) = (looked_at + STRETCH, stretch.next);
        }
        records.truncate(limit);
        Ok(records)
    }

    async fn stretch(&self, request: &ListRequest, from: i64, limit: usize) -> StoreResult<Stretch> {
        let mut args = Args::new();
        args.number(from).number(STRETCH).count(limit).text(stages(request.job_state));
        let types = types_of_list(&self.catalogue(), request);
        let types =
            types.map(|types| types.iter().fold(",".to_owned(), |text, kind| format!("{text}{kind},")));
        args.text(&types.unwrap_or_default());
        Stretch::read(self.call(&self.scripts().list, args).await?)
    }

    /// Reads a range of dead letters. They are listed by their types, so all types must be known, also types
    /// that other processes registered a moment ago. Each script reads some types.
    async fn stretch_of_dead(&self, request: &ListRequest, from: i64, limit: usize) -> StoreResult<Stretch> {
        let (mut part, mut parts) = (0, 1);
        let mut stretch = Stretch { next: 0, rows: Vec::new(), now: Timestamp::EPOCH };
        while part < parts {
            let build = |catalogue: &Catalogue| {
                let all = || catalogue.types().map(|entry| entry.number).chain([UNKNOWN_KIND]).collect();
                let mut types: Vec<u32> = types_of_list(catalogue, request).unwrap_or_else(all);
                types.sort_unstable();
                parts = types.len().div_ceil(DEAD_TYPES_PER_CALL);
                let types: Vec<_> =
                    types.into_iter().skip(part * DEAD_TYPES_PER_CALL).take(DEAD_TYPES_PER_CALL).collect();
                let mut args = Args::new();
                args.number(from).count(limit).count(types.len());
                types.iter().for_each(|kind| _ = args.number((*kind).into()));
                Ok(args)
            };
            let reply = self.call_with_catalogue(&self.scripts().list_dead, build).await?;
            stretch.add(Stretch::read(reply)?);
            part += 1;
        }
        Ok(stretch)
    }
}

/// Jobs of a range, newest first, and the number at which the next range begins.
#[derive(Debug)]
struct Stretch {
    next: i64,
    rows: Vec<Row>,
    now: Timestamp,
}

impl Stretch {
    fn read(reply: Reply) -> StoreResult<Self> {
        let mut answer = ReplyReader::of(reply.value)?;
        let next = answer.number()?;
        let (mut items, mut rows) = (answer.list()?, Vec::new());
        while !items.is_empty() {
            rows.push(Row::take(&mut items)?);
        }
        Ok(Self { next, rows, now: reply.now })
    }

    /// Adds jobs of other types. Below the number from which one of the two goes on, nothing is certain yet.
    fn add(&mut self, other: Self) {
        self.next = self.next.max(other.next);
        self.now = other.now;
        self.rows.extend(other.rows);
        self.rows.retain(|row| row.id.0 > self.next);
        self.rows.sort_by_key(|row| std::cmp::Reverse(row.id));
    }
}

/// The numbers of the types that a list requests; `None` if it requests all.
fn types_of_list(catalogue: &Catalogue, request: &ListRequest) -> Option<Vec<u32>> {
    if request.queue.is_none() && request.job_type.is_none() {
        return None;
    }
    let asked = catalogue.types().filter(|entry| {
        request.queue.as_ref().is_none_or(|queue| *queue == entry.spec.queue)
            && request.job_type.as_ref().is_none_or(|name| *name == entry.spec.name)
    });
    Some(asked.map(|entry| entry.number).collect())
}

/// The stages that jobs of a state may have.
fn stages(job_state: Option<JobState>) -> &'static str {
    match job_state {
        None => "wfuprsdc",
        Some(JobState::Ready | JobState::Scheduled) => "wf",
        Some(JobState::Parked) => "up",
        Some(JobState::Running) => "r",
        Some(JobState::Succeeded) => "s",
        Some(JobState::Dead) => "d",
        Some(JobState::Cancelled) => "c",
    }
}

fn is_wanted(record: &StoredJob, request: &ListRequest) -> bool {
    let job = &record.job;
    request.key.as_ref().is_none_or(|key| job.key.as_ref().is_some_and(|claim| claim.key == *key))
        && request.tag.as_ref().is_none_or(|tag| job.tags.contains(tag))
        && request.correlation.as_ref().is_none_or(|id| job.correlation.as_ref() == Some(id))
        && request.group.as_ref().is_none_or(|group| job.group.as_ref() == Some(group))
        && request.job_state.is_none_or(|job_state| record.job_state() == job_state)
}

/// An attempt as `lua/parts/ending.lua` stores it.
#[derive(Debug, Deserialize)]
struct AttemptLine {
    number: u32,
    worker: String,
    started: String,
    ended: String,
    ending: String,
    error: Option<String>,
    output: Option<String>,
}

/// Parses one attempt; `None` if its line is damaged.
fn read_attempt(line: &str) -> Option<StoredAttempt> {
    let line: AttemptLine = serde_json::from_str(line).ok()?;
    let instant = |text: &str| text.parse().ok().map(Timestamp::from_micros);
    Some(StoredAttempt {
        number: line.number,
        worker: WorkerId::from_random(u128::from_str_radix(&line.worker, 16).ok()?),
        started_at: instant(&line.started)?,
        ended_at: instant(&line.ended),
        ending: AttemptEnding::parse(&line.ending)?,
        error: line.error.as_deref().map(parse_error),
        output: line.output,
    })
}

/// The attempt that runs, or that succeeded: these are not stored as lines, since a job's state contains
/// them.
fn last_attempt(state: &State, notes: &Notes) -> Option<StoredAttempt> {
    let claim = state.claim?;
    let (ending, ended_at) = match state.stage {
        b'r' => (AttemptEnding::Running, None),
        b's' => (AttemptEnding::Succeeded, Some(state.at)),
        _ => return None,
    };
    Some(StoredAttempt {
        number: state.counters.attempts,
        worker: claim.worker,
        started_at: claim.since,
        ended_at,
        ending,
        error: None,
        output: notes.text("output").filter(|_| ended_at.is_some()),
    })
}
