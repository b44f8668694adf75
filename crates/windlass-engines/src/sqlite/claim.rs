//! Claims: gives ready jobs to a live worker, in the order that core decides.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, Rows, params};
use windlass_core::boost::{ClaimRange, claim_order};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Claimed, NextDue, Suspects};
use windlass_core::clock::Timestamp;
use windlass_core::job::{EXPIRED_REASON, JobId};
use windlass_core::limits::{CLAIM_BATCH_MAX, QUEUES_PER_CLAIM_MAX};
use windlass_core::names::{QueueName, TypeName};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::priority::Priority;

use super::catalogue::{Catalogue, TypeEntry};
use super::row::{self, Reading, read_job};
use super::sql::JOB_COLUMNS;
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::{Hot, Work};
use crate::kit::{CountedState, check_batch_size, to_json};

/// The requested types of one queue.
type OpenQueue = Vec<Arc<TypeEntry>>;

impl Work<'_> {
    pub(super) fn claim(&mut self, request: &ClaimRequest) -> StoreResult<ClaimAnswer> {
        check_batch_size(QUEUES_PER_CLAIM_MAX, "queues", request.queues.len())?;
        if !self.is_alive(request.worker)? {
            return Ok(ClaimAnswer::WorkerDead);
        }
        let queues = open_queues(self.catalogue, &request.queues, &request.types, self.now);
        let jobs = match request.suspects {
            _ if request.repeat => self.repeat_claim(request)?,
            _ if self.is_too_late(request)? => Vec::new(),
            Suspects::LeaveOut => self.claim_ordinary(request, &queues)?,
            Suspects::One { crashes_max } => self.claim_suspect(request, &queues, crashes_max)?,
        };
        let peek = next_due_of(self.conn, &queues.concat(), self.now)?;
        let peek = peek.with_ends_of_pauses(ends_of_pauses(self.catalogue, &request.queues), self.now);
        Ok(ClaimAnswer::Claimed { jobs, peek })
    }

    /// Returns the jobs that the first message of this request claimed, and stores a tombstone so that it
    /// claims nothing from now on.
    fn repeat_claim(&mut self, request: &ClaimRequest) -> StoreResult<Vec<Claimed>> {
        let mut spend = self.conn.prepare_cached(sql!("write_claim_tombstone"))?;
        spend.execute(params![request.token.to_bytes(), self.now.as_micros()])?;
        self.claimed_before(request)
    }

    /// Whether this is a first message that arrives after its repeat.
    fn is_too_late(&self, request: &ClaimRequest) -> StoreResult<bool> {
        Ok(self.conn.prepare_cached(sql!("is_spent"))?.exists([request.token.to_bytes()])?)
    }

    /// Reads the jobs that an earlier message of this request claimed.
    fn claimed_before(&self, request: &ClaimRequest) -> StoreResult<Vec<Claimed>> {
        let mut statement = self.conn.prepare_cached(sql!("claimed_before"))?;
        let ids: Vec<i64> = statement
            .query_map(params![request.worker.to_bytes(), request.token.to_bytes()], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        ids.into_iter().map(|id| Ok(self.read_claimable(JobId(id))?.claimed(request, self.now))).collect()
    }

    fn claim_ordinary(&mut self, request: &ClaimRequest, queues: &[OpenQueue]) -> StoreResult<Vec<Claimed>> {
        let mut taking = Taking {
            room: request.limit.min(CLAIM_BATCH_MAX),
            boosted: request.boosted_max,
            // Expired and damaged jobs end on the way, which must not take long.
            passed_over: CLAIM_BATCH_MAX,
            jobs: Vec::new(),
        };
        for types in queues {
            if taking.room == 0 {
                break;
            }
            let heads = heads(self.conn, types)?;
            let oldest = |priority| oldest(&heads, priority);
            let queue = types.first().map_or(0, |kind| kind.queue_id);
            for range in claim_order(self.now, taking.boosted, oldest) {
                if !range.boosted && taking.room_in(&range) > 0 {
                    self.take_by_turns(request, (queue, &heads), &range, &mut taking)?;
                }
                self.take_range(request, &heads, &range, &mut taking)?;
            }
        }
        Ok(taking.jobs)
    }

    /// Takes jobs from one range of the order, up to the limit.
    fn take_range(
        &mut self,
        request: &ClaimRequest,
        heads: &[Head],
        range: &ClaimRange,
        taking: &mut Taking,
    ) -> StoreResult<()> {
        loop {
            let room = taking.room_in(range);
            let first = if room == 0 { Vec::new() } else { self.first_in(heads, range, room)? };
            let found = first.len();
            self.take_found(first, request, range.boosted, taking)?;
            // Skipped jobs left room, and others may follow them.
            if found < room as usize || taking.room_in(range) == 0 {
                return Ok(());
            }
        }
    }

    /// Takes the jobs that were found, and counts the skipped ones.
    pub(super) fn take_found(
        &mut self,
        found: Vec<Claimable>,
        request: &ClaimRequest,
        boosted: bool,
        taking: &mut Taking,
    ) -> StoreResult<()> {
        let count = found.len();
        let taken = self.take_all(found, request, boosted)?;
        taking.passed_over -= u32::try_from(count - taken.len()).unwrap_or(u32::MAX);
        taken.into_iter().for_each(|job| taking.took(job));
        Ok(())
    }

    /// Claims one due suspect, and no other job.
    fn claim_suspect(
        &mut self,
        request: &ClaimRequest,
        queues: &[OpenQueue],
        crashes_max: u32,
    ) -> StoreResult<Vec<Claimed>> {
        if request.limit == 0 {
            return Ok(Vec::new());
        }
        let mut statement = self.conn.prepare_cached(sql!("suspects"))?;
        let due: Vec<(i64, i64, u32)> = statement
            .query_map([self.now.as_micros()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<Result<_, _>>()?;
        for types in queues {
            let wanted = |kind: i64| types.iter().any(|entry| entry.id == kind);
            for (id, kind, crashes) in &due {
                if !wanted(*kind) || *crashes > crashes_max {
                    continue;
                }
                let taken = self.take_all(vec![self.read_claimable(JobId(*id))?], request, false)?;
                if !taken.is_empty() {
                    return Ok(taken);
                }
            }
        }
        Ok(Vec::new())
    }

    /// Claims waiting jobs for the worker. Expired jobs are cancelled, and damaged jobs are moved to the
    /// dead-letter queue.
    fn take_all(
        &mut self,
        found: Vec<Claimable>,
        request: &ClaimRequest,
        boosted: bool,
    ) -> StoreResult<Vec<Claimed>> {
        let mut taken = Vec::with_capacity(found.len());
        for claimable in found {
            taken.extend(self.take(claimable, request, boosted)?);
        }
        if taken.is_empty() {
            return Ok(taken);
        }
        let ids: Vec<_> = taken.iter().map(|claimed| claimed.job.id).collect();
        self.hot(Hot::Claim)?.execute(params![
            to_json(&ids),
            request.worker.to_bytes(),
            request.token.to_bytes(),
            self.now.as_micros(),
            boosted
        ])?;
        Ok(taken)
    }

    fn take(
        &mut self,
        found: Claimable,
        request: &ClaimRequest,
        boosted: bool,
    ) -> StoreResult<Option<Claimed>> {
        let Claimable { reading, kind, gated, .. } = found;
        let Reading { mut job, damage, .. } = reading;
        if damage.is_some() || job.has_expired(self.now) {
            self.pass_over(job.id, damage)?;
            return Ok(None);
        }
        let kind = self.type_of(kind)?;
        self.did.deltas.moved(&kind, CountedState::waiting(job.due, gated), CountedState::Running);
        job.counters.attempts += 1;
        let (waited, age) = (job.waited(self.now), job.age(self.now));
        Ok(Some(Claimed { job, token: request.token, waited, age, boosted }))
    }

    /// Ends a waiting job that must not be started.
    fn pass_over(&mut self, id: JobId, damage: Option<String>) -> StoreResult<()> {
        let Some(job) = self.live_job(id)? else { return Ok(()) };
        match damage {
            None => self.cancel_waiting(&job, EXPIRED_REASON),
            Some(damage) => {
                let text = format!("its row in the store is damaged: {damage}");
                self.bury_waiting(&job, &JobError::new(ErrorKind::Undecodable, text))
            }
        }
    }

    fn read_claimable(&self, id: JobId) -> StoreResult<Claimable> {
        let mut statement = self.hot(Hot::ReadLive)?;
        let mut rows = statement.query([id.0])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        self.claimable(row)
    }

    fn claimable(&self, row: &Row<'_>) -> StoreResult<Claimable> {
        Ok(Claimable {
            reading: read_job(row, &|kind| self.names(kind))?,
            kind: row.get(1)?,
            gated: row.get_ref(JOB_COLUMNS)? != rusqlite::types::ValueRef::Null,
            since: row.get::<_, Option<i64>>(JOB_COLUMNS + 3)?.map(Timestamp::from_micros),
            boosted: row.get::<_, Option<bool>>(JOB_COLUMNS + 4)?.unwrap_or_default(),
        })
    }

    pub(super) fn claimables(&self, mut rows: Rows<'_>, found: &mut Vec<Claimable>) -> StoreResult<()> {
        while let Some(row) = rows.next()? {
            found.push(self.claimable(row)?);
        }
        Ok(())
    }

    /// Reads the first jobs of one range of the claim's order, over all types by due time and id.
    fn first_in(&self, heads: &[Head], range: &ClaimRange, room: u32) -> StoreResult<Vec<Claimable>> {
        let mut statement = self.conn.prepare_cached(sql!("pick"))?;
        let after = range.after.map_or(i64::MIN, Timestamp::as_micros);
        let mut first: Vec<Claimable> = Vec::new();
        let mut sources = 0;
        for head in heads.iter().filter(|head| head.priority == i64::from(range.priority)) {
            if head.due > range.until {
                continue;
            }
            sources += 1;
            let bounds = [head.kind, head.priority, after, range.until.as_micros(), room.into()];
            self.claimables(statement.query(bounds)?, &mut first)?;
        }
        if sources > 1 {
            first.sort_unstable_by_key(Claimable::turn);
            first.truncate(room as usize);
        }
        Ok(first)
    }
}

/// A job that is about to be claimed, or was claimed.
pub(super) struct Claimable {
    reading: row::Reading,
    kind: i64,
    gated: bool,
    since: Option<Timestamp>,
    boosted: bool,
}

impl Claimable {
    /// Its position in the order of claims.
    pub(super) fn turn(&self) -> (Timestamp, JobId) {
        (self.reading.job.due, self.reading.job.id)
    }

    /// Returns the job as its worker gets it once more.
    fn claimed(self, request: &ClaimRequest, now: Timestamp) -> Claimed {
        let job = self.reading.job;
        let waited = job.waited(self.since.unwrap_or(now));
        Claimed { waited, age: job.age(now), token: request.token, boosted: self.boosted, job }
    }
}

/// The jobs that a claim has taken, and how many more it may take.
pub(super) struct Taking {
    room: u32,
    boosted: u32,
    passed_over: u32,
    jobs: Vec<Claimed>,
}

impl Taking {
    pub(super) fn room_in(&self, range: &ClaimRange) -> u32 {
        let room = self.room.min(self.passed_over);
        if range.boosted { room.min(self.boosted) } else { room }
    }

    fn took(&mut self, job: Claimed) {
        self.room -= 1;
        self.boosted -= u32::from(job.boosted);
        self.jobs.push(job);
    }
}

/// Returns when the next job falls due in each of these queues.
pub(super) fn peek(
    conn: &Connection,
    queues: &[QueueName],
    types: &[TypeName],
    now: Timestamp,
) -> StoreResult<Vec<(QueueName, NextDue)>> {
    check_batch_size(QUEUES_PER_CLAIM_MAX, "queues", queues.len())?;
    let catalogue = Catalogue::load(conn)?;
    queues
        .iter()
        .map(|queue| {
            let types = open_queues(&catalogue, std::slice::from_ref(queue), types, now).concat();
            let ends = ends_of_pauses(&catalogue, std::slice::from_ref(queue));
            Ok((queue.clone(), next_due_of(conn, &types, now)?.with_ends_of_pauses(ends, now)))
        })
        .collect()
}

/// Lists when the pauses of these queues end by themselves.
fn ends_of_pauses(catalogue: &Catalogue, queues: &[QueueName]) -> impl Iterator<Item = Timestamp> {
    queues.iter().filter_map(|name| catalogue.queue(name)?.pause.as_ref()?.until)
}

/// Lists the requested types of each queue that is not paused, each type once.
fn open_queues(
    catalogue: &Catalogue,
    queues: &[QueueName],
    types: &[TypeName],
    now: Timestamp,
) -> Vec<OpenQueue> {
    let mut seen = HashSet::new();
    let mut requested: Vec<_> = types.iter().filter_map(|name| catalogue.type_named(name)).collect();
    requested.retain(|kind| seen.insert(kind.id));
    let open = queues.iter().filter_map(|name| catalogue.queue(name)).filter(|queue| !queue.is_paused(now));
    open.map(|queue| requested.iter().filter(|kind| kind.queue_id == queue.id).cloned().collect()).collect()
}

/// The first job of one type and priority that waits without a gate.
pub(super) struct Head {
    pub(super) kind: i64,
    pub(super) priority: i64,
    pub(super) due: Timestamp,
}

fn heads(conn: &Connection, types: &[Arc<TypeEntry>]) -> StoreResult<Vec<Head>> {
    let mut statement = conn.prepare_cached(sql!("next_head"))?;
    let mut heads = Vec::new();
    for kind in types {
        let mut last = -1;
        while let Some((priority, due)) =
            statement.query_row([kind.id, last], |row| Ok((row.get(0)?, row.get(1)?))).optional()?
        {
            heads.push(Head { kind: kind.id, priority, due: Timestamp::from_micros(due) });
            last = priority;
        }
    }
    Ok(heads)
}

fn oldest(heads: &[Head], priority: Priority) -> Option<Timestamp> {
    let of_priority = heads.iter().filter(|head| head.priority == i64::from(priority));
    of_priority.map(|head| head.due).min()
}

fn next_due_of(conn: &Connection, types: &[Arc<TypeEntry>], now: Timestamp) -> StoreResult<NextDue> {
    let mut peek = NextDue::default();
    let mut next: Option<Timestamp> = None;
    let mut ahead = |due: Timestamp| next = Some(next.map_or(due, |next| next.min(due)));
    let mut after = conn.prepare_cached(sql!("next_due"))?;
    for head in heads(conn, types)? {
        if head.due > now {
            ahead(head.due);
            continue;
        }
        peek.more_due = true;
        let later =
            after.query_row([head.kind, head.priority, now.as_micros()], |row| row.get(0)).optional()?;
        later.map(Timestamp::from_micros).into_iter().for_each(&mut ahead);
    }
    for (due, kind) in suspects_ahead(conn)? {
        match types.iter().any(|entry| entry.id == kind) {
            true if due <= now => peek.suspect_due = true,
            true => ahead(due),
            false => {}
        }
    }
    peek.next_due_in = next.map(|due| due.since(now));
    Ok(peek)
}

/// Lists all suspects: at most as many as dead workers held when they died.
fn suspects_ahead(conn: &Connection) -> StoreResult<Vec<(Timestamp, i64)>> {
    let mut statement = conn.prepare_cached(sql!("suspects_ahead"))?;
    let rows = statement.query_map([], |row| Ok((Timestamp::from_micros(row.get(0)?), row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
