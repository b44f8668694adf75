//! Claims: hands ready jobs to a live worker, in the order that core gives. There is one statement for each
//! queue. It reads lazily from where the last claim ended ([`claim_cursor`](super::claim_cursor)).

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::Instant as Moment;

use tokio_postgres::Row;
use windlass_core::boost::{ClaimRange, claim_order};
use windlass_core::claim::{ClaimAnswer, ClaimRequest, Claimed, NextDue, Suspects};
use windlass_core::clock::Timestamp;
use windlass_core::error::EngineError;
use windlass_core::job::EXPIRED_REASON;
use windlass_core::limits::{CLAIM_BATCH_MAX, MAINTENANCE_BATCH_MAX, QUEUES_PER_CLAIM_MAX};
use windlass_core::outcome::{ErrorKind, JobError};
use windlass_core::priority::Priority;
use windlass_core::settle::{AttemptReport, Settlement, Transition};

use super::Store;
use super::catalogue::Catalogue;
use super::claim_cursor::{Position, Scope};
use super::claim_outcome::{ClaimOutcome, position_in, read_claimed};
use super::claim_ranges::ClaimRanges;
use super::conn::Tx;
use super::fairness_keys::Turns;
use super::inflight_claims::InFlightClaim;
use super::peek::{PeekParams, open_scopes, read_peek, unknown};
use super::row::{Reading, read_job};
use super::sql::JOB_COLUMNS;
use super::store_error::{StoreError, StoreResult};
use super::value::{Bits, Instant, Param, flag, instant, int4, number, small_number, text, texts, uuid};
use crate::kit::check_batch_size;

/// How often a claim is repeated because queues or types changed meanwhile.
const TRIED_MAX: u32 = 10;

/// How often a claim goes on behind jobs that were too late to be started…
const ROUNDS_MAX: u32 = 50;
/// …and in how many of these rounds it cancels only those late jobs that it met.
const ROUNDS_ALONE: u32 = 20;

/// How often a claim goes on behind jobs that cannot be cancelled. Each round costs as many failed writes
/// as there are such jobs.
const PASSES_MAX: u32 = 5;

/// A full claim of at least this number of jobs skips the look-ahead query most of the time.
const PEEK_SKIPPED_FROM: usize = 32;

/// The columns before the job in the answer of `claim`: version, now, alive, and the late jobs.
pub(super) const FIRST_JOB_COLUMN: usize = 4;

impl Store {
    pub(super) async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        check_batch_size(QUEUES_PER_CLAIM_MAX, "queues", request.queues.len())?;
        if request.repeat {
            return self.claimed_before(&request).await;
        }
        for _ in 0..TRIED_MAX {
            if let Some(answer) = self.try_claim(&request).await? {
                return Ok(answer);
            }
            self.reload().await?;
        }
        let why =
            "queues and types keep changing; wait until the processes that declare them are done".to_owned();
        Err(EngineError::Unavailable { why }.into())
    }

    /// Returns nothing if queues or types have changed since this engine loaded them.
    async fn try_claim(&self, request: &ClaimRequest) -> StoreResult<Option<ClaimAnswer>> {
        let catalogue = self.catalogue();
        let open = open_scopes(&catalogue, &request.queues, &request.types, self.estimated_now());
        let (outcome, ahead) = match request.suspects {
            _ if open.is_empty() || request.limit == 0 => {
                (self.claim_nothing(request, &catalogue).await?, None)
            }
            Suspects::LeaveOut => self.claim_ordinary(request, &open, &catalogue).await?,
            Suspects::One { crashes_max } => {
                (self.claim_suspect(request, &open, &catalogue, crashes_max).await?, None)
            }
        };
        let (readings, at) = match outcome {
            ClaimOutcome::Stale => return Ok(None),
            ClaimOutcome::WorkerDead => return Ok(Some(ClaimAnswer::WorkerDead)),
            ClaimOutcome::Jobs { readings, at, .. } => (readings, at),
        };
        let has_jobs = !readings.is_empty();
        let answer = self.answer_claimed(readings, request, &catalogue, &open, (at, ahead)).await;
        answer.map(Some).map_err(|fault| if has_jobs { fault.after_write() } else { fault })
    }

    /// Hands out the claimed jobs, and reports what lies ahead. The claim is committed by now: an error
    /// here must not say that nothing happened, or a live worker that does not know of its jobs would hold
    /// them.
    async fn answer_claimed(
        &self,
        readings: Vec<(bool, Reading)>,
        request: &ClaimRequest,
        catalogue: &Catalogue,
        open: &[Scope],
        (at, ahead): (Timestamp, Option<NextDue>),
    ) -> StoreResult<ClaimAnswer> {
        let jobs = self.claimed(readings, request, catalogue, (at, at)).await?;
        self.record_fairness_keys(&jobs, catalogue).await;
        let is_full = !jobs.is_empty() && jobs.len() >= usize::try_from(request.limit).unwrap_or(usize::MAX);
        let skips_peek = is_full && jobs.len() >= PEEK_SKIPPED_FROM;
        self.is_flowing.store(skips_peek, Ordering::Relaxed);
        let peek = self.peek_after(request, catalogue, open, skips_peek, ahead).await;
        let peek = if jobs.is_empty() { peek? } else { peek.unwrap_or_else(|fault| unknown(&fault)) };
        self.note_idle(request, is_full, peek);
        Ok(ClaimAnswer::Claimed { jobs, peek })
    }

    /// Returns the jobs that an earlier sending of this request claimed. Writes the claim tombstone first,
    /// and so waits for an earlier sending that is still under way; an earlier sending that arrives later
    /// claims nothing.
    async fn claimed_before(&self, request: &ClaimRequest) -> StoreResult<ClaimAnswer> {
        let conn = self.work.get().await?;
        if !self.is_alive(&conn, request.worker).await? {
            return Ok(ClaimAnswer::WorkerDead);
        }
        let (worker, token) = (Bits::from(request.worker), Bits::from(request.token));
        let now = self.now_param();
        conn.execute(&self.sql.write_claim_tombstone, &[instant(&now), uuid(&token)]).await?;
        let rows =
            conn.query(&self.sql.claimed_before, &[instant(&now), uuid(&worker), uuid(&token)]).await?;
        drop(conn);
        let catalogue = self.catalogue();
        let mut jobs = Vec::with_capacity(rows.len());
        for row in &rows {
            let (times, boosted, reading) = read_claimed(row)?;
            jobs.extend(self.claimed(vec![(boosted, reading)], request, &catalogue, times).await?);
        }
        let open = open_scopes(&catalogue, &request.queues, &request.types, self.estimated_now());
        let peek = self.peek_after(request, &catalogue, &open, false, None).await;
        Ok(ClaimAnswer::Claimed { jobs, peek: peek.unwrap_or_else(|fault| unknown(&fault)) })
    }

    /// Answers a claim that asks for no jobs; the worker may have to be notified that it is dead.
    async fn claim_nothing(
        &self,
        request: &ClaimRequest,
        catalogue: &Catalogue,
    ) -> StoreResult<ClaimOutcome> {
        let conn = self.work.get().await?;
        if !self.is_alive(&conn, request.worker).await? {
            return Ok(ClaimOutcome::WorkerDead);
        }
        let now = self.now_param();
        let rows = conn.query(&self.sql.load_version, &[instant(&now)]).await?;
        let version: Option<i64> = rows.first().map(|row| row.try_get(0)).transpose()?;
        if version != Some(catalogue.version) {
            return Ok(ClaimOutcome::Stale);
        }
        Ok(ClaimOutcome::nothing(self.estimated_now()))
    }

    /// Claims ready jobs. Late jobs that it meets are cancelled, and the claim goes on, since other jobs
    /// may stand behind them.
    async fn claim_ordinary(
        &self,
        request: &ClaimRequest,
        open: &[Scope],
        catalogue: &Catalogue,
    ) -> StoreResult<(ClaimOutcome, Option<NextDue>)> {
        let boosted = self.boosting(request, open).await;
        for scope in open.iter().filter(|scope| catalogue.has_fairness_keys(&scope.queue)) {
            self.refresh_fairness_keys(scope).await;
        }
        let in_flight = InFlightClaim::begin(self, open);
        let room = request.limit.min(CLAIM_BATCH_MAX);
        let mut left =
            Left { room, boosted, spent: false, skips_locked: in_flight.skips_locked, ahead: None };
        let (mut all, mut passed) = (ClaimOutcome::nothing(self.estimated_now()), HashSet::new());
        let mut passes = 0..PASSES_MAX;
        for round in 0..ROUNDS_MAX {
            let has_jobs = all.has_jobs();
            let next = self.claim_round(request, open, catalogue, &mut left).await;
            all = all.and(next.map_err(|fault| if has_jobs { fault.after_write() } else { fault })?);
            let late = all.take_late();
            if late.is_empty() {
                if !all.has_jobs() && self.finds_notified_jobs(open).await? {
                    continue;
                }
                break;
            }
            let ended = self.end_late(&late, round).await;
            let ended = ended.map_err(|fault| if all.has_jobs() { fault.after_write() } else { fault })?;
            // A job that cannot be cancelled would be met again and again, and no job behind it.
            let is_stuck =
                ended == 0 && (passes.next().is_none() || !self.skip_stuck(open, late, &mut passed).await);
            if left.room == 0 || is_stuck {
                break;
            }
        }
        in_flight.finish();
        Ok((all, left.ahead))
    }

    async fn end_late(&self, late: &[i64], round: u32) -> StoreResult<u64> {
        let ended = self.move_waiting(late, |live| Some(live.cancelled(EXPIRED_REASON))).await?;
        if round > ROUNDS_ALONE && ended > 0 {
            // A late job in each of so long a series of rounds means a pile of them: cancel it in big
            // batches, as a sweep would.
            self.cancel_expired(MAINTENANCE_BATCH_MAX).await?;
        }
        Ok(ended)
    }

    /// Runs one round of a claim. A claim of one queue without boosting is one statement. Any other claim
    /// is several statements in one transaction, because a job may lie in a boosted range and in the plain
    /// range of its priority.
    async fn claim_round(
        &self,
        request: &ClaimRequest,
        open: &[Scope],
        catalogue: &Catalogue,
        left: &mut Left,
    ) -> StoreResult<ClaimOutcome> {
        if let [scope] = open
            && !catalogue.has_fairness_keys(&scope.queue)
        {
            let order = self.order(scope, left.boosted);
            if order.iter().all(|range| !range.boosted) {
                let queue_claim = QueueClaim { request, scope, version: catalogue.version };
                let (rows, ahead) = queue_claim.plainly(self, *left, &self.ranges(scope, &order)).await?;
                left.ahead = ahead;
                left.took(count_taken(&rows)?, false);
                return self.read_outcome(&rows, scope, catalogue, &order, None);
            }
        }
        left.ahead = None;
        let tx = self.work.begin().await?;
        let outcome = self.claim_in_turns(&tx, request, open, catalogue, left).await;
        tx.end(outcome).await
    }

    /// Claims from queue after queue, and in each from group after group of ranges that do not overlap.
    async fn claim_in_turns(
        &self,
        tx: &Tx,
        request: &ClaimRequest,
        open: &[Scope],
        catalogue: &Catalogue,
        left: &mut Left,
    ) -> StoreResult<ClaimOutcome> {
        let mut all = ClaimOutcome::nothing(self.estimated_now());
        for scope in open {
            if left.room == 0 {
                break;
            }
            let queue_claim = QueueClaim { request, scope, version: catalogue.version };
            let order = self.order(scope, left.boosted);
            let mut turns = catalogue.has_fairness_keys(&scope.queue).then(Turns::default);
            let rows = queue_claim.in_turns(self, tx, left, &order, turns.as_mut()).await?;
            all = all.and(self.read_outcome(&rows, scope, catalogue, &order, turns.as_ref())?);
            if has_late(&rows)? {
                break;
            }
        }
        Ok(all)
    }

    /// The claim ranges in core's order. Jobs that no scan has seen yet may be anywhere, so every priority
    /// has its plain range.
    pub(super) fn order(&self, scope: &Scope, boosted_max: u32) -> Vec<ClaimRange> {
        let now = self.estimated_now();
        let mut claim_cursors = self.claim_cursors();
        let cursors = claim_cursors.of(scope, Moment::now());
        claim_order(now, boosted_max, |priority| Some(cursors.head(priority).unwrap_or(now).min(now)))
    }

    /// The claim ranges as the statement takes them, each from where the last claim ended.
    pub(super) fn ranges(&self, scope: &Scope, order: &[ClaimRange]) -> ClaimRanges {
        let mut claim_cursors = self.claim_cursors();
        let cursors = claim_cursors.of(scope, Moment::now());
        let mut ranges = ClaimRanges::default();
        for range in order {
            let start = cursors.start(range.priority, Moment::now());
            ranges.push(range, start);
        }
        ranges
    }

    /// Reads the answer of a claim statement, and advances the claim cursors.
    fn read_outcome(
        &self,
        rows: &[Row],
        scope: &Scope,
        catalogue: &Catalogue,
        order: &[ClaimRange],
        turns: Option<&Turns>,
    ) -> StoreResult<ClaimOutcome> {
        let Some(first) = rows.first() else { return Ok(ClaimOutcome::Stale) };
        if !first.try_get::<_, bool>(2)? {
            return Ok(ClaimOutcome::WorkerDead);
        }
        if first.try_get::<_, i64>(0)? != catalogue.version {
            return Ok(ClaimOutcome::Stale);
        }
        let at = first.try_get::<_, Instant>(1)?.0;
        self.learn_time(at);
        let mut readings = Vec::with_capacity(rows.len());
        for row in rows {
            if row.try_get::<_, Option<i64>>(FIRST_JOB_COLUMN)?.is_some() {
                let boosted =
                    row.try_get::<_, Option<bool>>(FIRST_JOB_COLUMN + JOB_COLUMNS)?.unwrap_or_default();
                readings.push((boosted, read_job(row, FIRST_JOB_COLUMN)?));
            }
        }
        self.note_ctids(rows, FIRST_JOB_COLUMN, FIRST_JOB_COLUMN + JOB_COLUMNS + 1)?;
        readings.sort_by_cached_key(|(boosted, reading)| position_in(order, *boosted, reading));
        match turns {
            None => self.note_progress(scope, readings.iter().map(|(_, reading)| reading)),
            Some(turns) => turns.put_in_order(&mut readings),
        }
        let mut late: Vec<i64> = Vec::new();
        for row in rows {
            late.extend(row.try_get::<_, Option<Vec<i64>>>(3)?.unwrap_or_default());
        }
        late.sort_unstable();
        late.dedup();
        Ok(ClaimOutcome::Jobs { readings, at, late })
    }

    fn note_progress<'a>(&self, scope: &Scope, readings: impl Iterator<Item = &'a Reading>) {
        let mut by_priority: [Option<(u64, Position)>; 11] = [None; 11];
        for Reading { job, .. } in readings {
            let position = (job.due, job.id);
            let taken_here = &mut by_priority[usize::from(job.priority.level())];
            *taken_here =
                Some(taken_here.map_or((1, position), |(count, last)| (count + 1, last.max(position))));
        }
        let now = Moment::now();
        let mut claim_cursors = self.claim_cursors();
        let cursors = claim_cursors.of(scope, now);
        for (priority, taken) in Priority::all().zip(by_priority) {
            if let Some((count, last)) = taken {
                cursors.took(priority, count, last, now);
            }
        }
    }

    /// Claims one due suspect, and no other job: of the first queue that has one.
    async fn claim_suspect(
        &self,
        request: &ClaimRequest,
        open: &[Scope],
        catalogue: &Catalogue,
        crashes_max: u32,
    ) -> StoreResult<ClaimOutcome> {
        let now = self.now_param();
        let (worker, token) = (Bits::from(request.worker), Bits::from(request.token));
        let crashes_max = int4(crashes_max);
        let conn = self.work.get().await?;
        let mut outcome = ClaimOutcome::Stale;
        for scope in open {
            let (types, queue) = (type_texts(scope), scope.queue.as_str());
            let params = [
                instant(&now),
                uuid(&worker),
                uuid(&token),
                number(&catalogue.version),
                text(&queue),
                texts(&types),
                small_number(&crashes_max),
            ];
            let rows = conn.execute(&self.sql.claim_suspect, &params).await?;
            outcome = self.read_outcome(&rows, scope, catalogue, &[], None)?;
            if !matches!(&outcome, ClaimOutcome::Jobs { readings, .. } if readings.is_empty()) {
                break;
            }
        }
        Ok(outcome)
    }

    /// Builds the claimed jobs from rows. They were claimed at one time and are handed out at another.
    /// Damaged jobs are moved to the dead-letter queue instead.
    async fn claimed(
        &self,
        readings: Vec<(bool, Reading)>,
        request: &ClaimRequest,
        catalogue: &Catalogue,
        (since, now): (Timestamp, Timestamp),
    ) -> StoreResult<Vec<Claimed>> {
        let mut jobs = Vec::with_capacity(readings.len());
        let mut damaged = Vec::new();
        for (boosted, Reading { job, damage, .. }) in readings {
            let unregistered = || format!("its type {} is not registered", job.job_type);
            let damage = damage.or_else(|| catalogue.type_named(&job.job_type).is_none().then(unregistered));
            let (waited, age) = (job.waited(since), job.age(now));
            let claimed = Claimed { waited, age, token: request.token, boosted, job };
            match damage {
                None => jobs.push(claimed),
                Some(damage) => {
                    let text = format!("its row in the store is damaged: {damage}");
                    let error = JobError::new(ErrorKind::Undecodable, text);
                    damaged.push(claimed.settled(Transition::Bury { error }, AttemptReport::default()));
                }
            }
        }
        self.remember_claimed(request.worker, since, &jobs);
        if !damaged.is_empty() {
            self.bury_damaged(damaged).await?;
        }
        Ok(jobs)
    }

    /// Moves damaged jobs to the dead-letter queue. A job that is so damaged that no statement can move it
    /// stays with this worker, and keeps no other job waiting.
    async fn bury_damaged(&self, damaged: Vec<Settlement>) -> StoreResult<()> {
        match self.settle_in_parts(&damaged).await {
            Err(StoreError::Engine(EngineError::Refused(why))) => {
                tracing::error!(
                    why,
                    "moving a damaged job to the dead-letter queue was refused; its worker keeps it"
                );
                Ok(())
            }
            buried => buried.map(drop),
        }
    }
}

/// The rest of a claim: how much it may still take, whether its token has claimed jobs, and whether it skips
/// rows that were ever locked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    pub(super) room: u32,
    boosted: u32,
    pub(super) spent: bool,
    pub(super) skips_locked: bool,
    /// The peek that was sent together with the last statement, if there was one.
    ahead: Option<NextDue>,
}

impl Left {
    fn room_for(&self, boosted: bool) -> u32 {
        if boosted { self.room.min(self.boosted) } else { self.room }
    }

    pub(super) fn took(&mut self, taken: u32, boosted: bool) {
        self.spent |= taken > 0;
        self.room = self.room.saturating_sub(taken);
        self.boosted = self.boosted.saturating_sub(if boosted { taken } else { 0 });
    }
}

/// A claim of one queue.
pub(super) struct QueueClaim<'a> {
    pub(super) request: &'a ClaimRequest,
    pub(super) scope: &'a Scope,
    version: i64,
}

impl QueueClaim<'_> {
    /// Claims with one statement. Unless a backlog flows, the look-ahead query follows it at once. So a
    /// caller that waits for a job need not wait for a second round trip: the server looks ahead as soon as
    /// the claim is done.
    async fn plainly(
        &self,
        store: &Store,
        left: Left,
        ranges: &ClaimRanges,
    ) -> StoreResult<(Vec<Row>, Option<NextDue>)> {
        let now = store.now_param();
        let (worker, token) = (Bits::from(self.request.worker), Bits::from(self.request.token));
        let (types, queue, room) = (type_texts(self.scope), self.scope.queue.as_str(), int4(left.room));
        let head = self.head(&now, &worker, &token, &queue, &types, &room, &false, &left.spent);
        let params: Vec<_> =
            head.into_iter().chain(ranges.params()).chain([flag(&left.skips_locked)]).collect();
        let conn = store.work.get().await?;
        if store.is_flowing.load(Ordering::Relaxed) || !conn.may_follow() {
            return Ok((conn.execute(&store.sql.claim, &params).await?, None));
        }
        let peek_params = PeekParams::of(store, self.scope);
        conn.prepare(&store.sql.claim, &params).await?;
        conn.prepare(&store.sql.scan_ahead, &peek_params.params()).await?;
        let peek_values = peek_params.params();
        let (rows, ahead) = tokio::join!(
            biased;
            conn.execute(&store.sql.claim, &params),
            conn.query(&store.sql.scan_ahead, &peek_values),
        );
        let rows = rows?;
        let ahead = match ahead {
            Ok(ahead) => ahead.first().and_then(|row| read_peek(row).ok()),
            // The claimed jobs do not wait for a second try.
            Err(fault) if count_taken(&rows)? > 0 => Some(unknown(&fault)),
            Err(_) => None,
        };
        Ok((rows, ahead))
    }

    /// Claims from group after group of ranges that do not overlap.
    async fn in_turns(
        &self,
        store: &Store,
        tx: &Tx,
        left: &mut Left,
        order: &[ClaimRange],
        mut turns: Option<&mut Turns>,
    ) -> StoreResult<Vec<Row>> {
        let now = store.now_param();
        let (worker, token) = (Bits::from(self.request.worker), Bits::from(self.request.token));
        let (types, queue) = (type_texts(self.scope), self.scope.queue.as_str());
        let mut all: Vec<Row> = Vec::new();
        for group in order.chunk_by(|a, b| a.boosted == b.boosted) {
            let boosted = group.first().is_some_and(|range| range.boosted);
            let limit = int4(left.room_for(boosted));
            if limit == 0 {
                continue;
            }
            if let Some(turns) = turns.as_deref_mut().filter(|_| !boosted) {
                let rows = self.by_turns(store, tx, left, group, turns).await?;
                let met_late = has_late(&rows)?;
                all.extend(rows);
                if met_late {
                    break;
                }
                continue;
            }
            let ranges = store.ranges(self.scope, group);
            let head = self.head(&now, &worker, &token, &queue, &types, &limit, &boosted, &left.spent);
            let skips_locked = left.skips_locked;
            let params: Vec<_> =
                head.into_iter().chain(ranges.params()).chain([flag(&skips_locked)]).collect();
            let rows = tx.query(&store.sql.claim, &params).await?;
            left.took(count_taken(&rows)?, boosted);
            let met_late = has_late(&rows)?;
            all.extend(rows);
            if met_late {
                // Other jobs of this group may stand behind the late ones; the next round comes back to them.
                break;
            }
        }
        Ok(all)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "they are the parameters of the statement, and must outlive the call"
    )]
    pub(super) fn head<'p>(
        &'p self,
        now: &'p Option<Instant>,
        worker: &'p Bits,
        token: &'p Bits,
        queue: &'p &str,
        types: &'p Option<Vec<String>>,
        limit: &'p i32,
        boosted: &'p bool,
        spent: &'p bool,
    ) -> [Param<'p>; 9] {
        [
            instant(now),
            uuid(worker),
            uuid(token),
            number(&self.version),
            text(queue),
            texts(types),
            small_number(limit),
            flag(boosted),
            flag(spent),
        ]
    }
}

impl QueueClaim<'_> {
    /// Whether the statement tried to claim jobs: it did not if the worker is dead, or if another process
    /// has changed the catalogue.
    pub(super) fn tried_to_claim(&self, rows: &[Row]) -> StoreResult<bool> {
        let Some(first) = rows.first() else { return Ok(false) };
        Ok(first.try_get::<_, bool>(2)? && first.try_get::<_, i64>(0)? == self.version)
    }
}

/// Whether the statement met jobs that are too late to be started.
pub(super) fn has_late(rows: &[Row]) -> StoreResult<bool> {
    let late = |row: &Row| row.try_get::<_, Option<Vec<i64>>>(3).map(|late| late.is_some());
    Ok(rows.last().map_or(Ok(false), late)?)
}

/// How many rows have a job; the first row may have none.
pub(super) fn count_taken(rows: &[Row]) -> StoreResult<u32> {
    let Some(first) = rows.first() else { return Ok(0) };
    let is_empty = first.try_get::<_, Option<i64>>(FIRST_JOB_COLUMN)?.is_none();
    Ok(if is_empty { 0 } else { u32::try_from(rows.len()).unwrap_or(u32::MAX) })
}

pub(super) fn type_texts(scope: &Scope) -> Option<Vec<String>> {
    Some(scope.types.as_ref()?.iter().map(ToString::to_string).collect())
}
