//! Applies transitions: makes the rows of a job follow it when it waits again, ends or dies. Every
//! statement that moves single jobs goes through here, so that counts, keys and attempts always follow.

mod columns;
mod start_over;

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant as Moment};

use tokio_postgres::Row;
use windlass_core::admin::AttemptEnding;
use windlass_core::claim::{ClaimToken, Fence};
use windlass_core::clock::Timestamp;
use windlass_core::engine::Hint;
use windlass_core::gate::Gate;
use windlass_core::job::{Counters, JobId};
use windlass_core::key::HolderStage;
use windlass_core::limits::ATTEMPTS_SHOWN_MAX;
use windlass_core::names::{OrderingKey, QueueName, TypeName};
use windlass_core::outcome::JobError;
use windlass_core::priority::Priority;
use windlass_core::settle::{AppliedTransition, NewState};
use windlass_core::triggers::rules::JobStanding;
use windlass_core::worker::WorkerId;

use super::Store;
use super::claim_cursor::{self, before};
use super::conn::Tx;
use super::counts::Deltas;
use super::key::{LockedKeys, TypeKey};
use super::ordering_keys::Marked;
use super::row::{CANCELLED, SUCCEEDED, counters, gate};
use super::settle::storable;
use super::store_error::StoreResult;
use super::value::{
    Bits, Ctid, Instant, ctid_cache, flags, instant, instants, int4, levels, number, numbers, small_number,
    small_numbers, texts, uuids,
};

use crate::kit::{CountedState, JobOptions, Total, to_json};
use columns::{AttemptColumns, Common, ended_at};

/// Each time the attempts of a job reach a multiple of this number, the old ones are deleted.
const TRIM_EVERY: u32 = 50;

/// A job that has not ended, under lock: the fields that moving it needs.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) id: JobId,
    pub(super) job_type: TypeName,
    pub(super) queue: QueueName,
    pub(super) priority: Option<Priority>,
    pub(super) due: Timestamp,
    pub(super) counters: Counters,
    pub(super) key: Option<String>,
    pub(super) gate: Option<Gate>,
    pub(super) token: Option<ClaimToken>,
    pub(super) worker: Option<WorkerId>,
    pub(super) since: Timestamp,
    pub(super) cancel_requested: Option<String>,
    pub(super) options: JobOptions,
    pub(super) runs: bool,
}

impl Live {
    pub(super) fn counted_state(&self) -> CountedState {
        if self.runs { CountedState::Running } else { CountedState::waiting(self.due, self.gate.is_some()) }
    }

    /// The standing of the job, as completion triggers see it.
    pub(super) fn standing(&self) -> JobStanding<'_> {
        match self.runs {
            true => JobStanding::Running,
            false => JobStanding::Waiting { due: self.due, gate: self.gate.as_ref() },
        }
    }

    fn type_ordering_key(&self) -> Option<(TypeName, OrderingKey)> {
        Some((self.job_type.clone(), self.options.ordering_key.clone()?))
    }

    fn type_key(&self) -> Option<TypeKey> {
        Some((self.job_type.to_string(), self.key.clone()?))
    }

    /// The transition of this job to waiting, at another time or behind another gate.
    pub(super) fn waits(self, due: Timestamp, gate: Option<Gate>) -> Move {
        let applied = AppliedTransition { counters: self.counters, state: NewState::Waiting { due, gate } };
        Move { live: self, applied, end: AttemptEnd::default() }
    }

    /// The transition of this job to cancelled while it waited.
    pub(super) fn cancelled(self, why: &str) -> Move {
        let applied =
            AppliedTransition { counters: self.counters, state: NewState::Cancelled { why: why.to_owned() } };
        Move { live: self, applied, end: AttemptEnd::default() }
    }
}

/// The stored record of an attempt that ended.
#[derive(Debug, Clone)]
pub(super) struct EndedAttempt {
    pub(super) number: u32,
    pub(super) worker: WorkerId,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Timestamp,
    pub(super) ending: AttemptEnding,
    pub(super) error: Option<JobError>,
    pub(super) output: Option<String>,
}

/// The data of the end of a claim, besides the new state of the job.
#[derive(Debug, Default)]
pub(super) struct AttemptEnd {
    pub(super) attempt: Option<EndedAttempt>,
    pub(super) last_error: Option<JobError>,
    /// The claim token, if the holder itself settled; nothing if the store took its claim away.
    pub(super) settled_by: Option<ClaimToken>,
    /// How long ago the job ended, if this move ends it.
    pub(super) ended_ago: Duration,
    /// Whether this move is a retry after a failure, if the job waits again.
    pub(super) is_retry: bool,
}

/// A job and its transition, not yet stored.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) live: Live,
    pub(super) applied: AppliedTransition,
    pub(super) end: AttemptEnd,
}

/// Jobs that a transaction has locked, and their keys with them.
pub(super) struct Locked {
    pub(super) jobs: Vec<Live>,
    pub(super) keys: LockedKeys,
    /// Jobs that another transaction has locked, or whose key it has locked.
    pub(super) skipped: Vec<JobId>,
}

/// The changes that moves have to report once they are committed.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// Queues in which jobs wait again.
    pub(super) queues: BTreeSet<QueueName>,
    /// Requeued jobs: queue, priority, and the position from which a claim has to start in order to meet
    /// them.
    pub(super) requeued: Vec<(QueueName, Priority, claim_cursor::Position)>,
    /// The queue in which a dead job was started over, and is due.
    pub(super) started_over: Option<QueueName>,
    /// Ordering keys whose next job may be released now.
    pub(super) ordering_key: Marked,
    /// Whether a completion trigger was marked.
    pub(super) trigger: bool,
}

impl Moved {
    /// Notes that a job waits again.
    fn wait(&mut self, job: &Move, now: Timestamp) {
        let NewState::Waiting { due, gate } = &job.applied.state else { return };
        self.queues.insert(job.live.queue.clone());
        if gate.is_none() && *due <= now {
            let priority = job.live.priority.unwrap_or(Priority::LEAST_URGENT);
            self.requeued.push((job.live.queue.clone(), priority, before(*due, job.live.id)));
        }
    }

    /// Adds what other moves have to report.
    pub(super) fn add(&mut self, more: Self) {
        self.queues.extend(more.queues);
        self.requeued.extend(more.requeued);
        self.ordering_key.extend(more.ordering_key);
        self.trigger |= more.trigger;
    }
}

impl Store {
    /// Locks keys, then jobs, each in order, and reads them. With `skip`, it leaves out jobs that another
    /// transaction has locked, or whose key it has locked, and names them: an open transaction of the
    /// application must not hold up the other jobs.
    pub(super) async fn lock_live(&self, tx: &Tx, ids: &[i64], skip: bool) -> StoreResult<Locked> {
        let rows = tx.query(&self.sql.keys_of, &[numbers(&ids)]).await?;
        let mut keyed: Vec<(JobId, TypeKey)> = Vec::new();
        for row in &rows {
            keyed.push((JobId(row.try_get(0)?), (row.try_get(1)?, row.try_get(2)?)));
        }
        let wanted: BTreeSet<_> = keyed.iter().map(|(_, key)| key.clone()).collect();
        let keys = self.lock_keys(tx, &wanted, skip).await?;
        let mut skipped = if skip { self.behind_locked_keys(tx, keyed, &keys).await? } else { Vec::new() };
        let left: Vec<_> = ids.iter().copied().filter(|id| !skipped.contains(&JobId(*id))).collect();
        if !skip {
            let jobs = self.lock_jobs(tx, &left).await?;
            return Ok(Locked { jobs, keys, skipped });
        }
        let rows = tx.query(&self.sql.lock_free_jobs, &[numbers(&left)]).await?;
        let jobs: Vec<_> = rows.iter().map(read_live).collect::<StoreResult<_>>()?;
        skipped.extend(self.still_there(tx, &left, &jobs).await?);
        Ok(Locked { jobs, keys, skipped })
    }

    /// Returns the jobs whose key another transaction has locked. A key whose row is gone belongs to no
    /// job, so no transaction can hold it against this one.
    async fn behind_locked_keys(
        &self,
        tx: &Tx,
        keyed: Vec<(JobId, TypeKey)>,
        keys: &LockedKeys,
    ) -> StoreResult<Vec<JobId>> {
        let missed: Vec<_> = keyed.into_iter().filter(|(_, key)| !keys.has(key)).collect();
        let there = self.existing_keys(tx, &missed.iter().map(|(_, key)| key.clone()).collect()).await?;
        Ok(missed.into_iter().filter(|(_, key)| there.contains(key)).map(|(id, _)| id).collect())
    }

    /// Returns the jobs that could not be locked and are not simply gone.
    async fn still_there(&self, tx: &Tx, ids: &[i64], locked: &[Live]) -> StoreResult<Vec<JobId>> {
        let locked: HashSet<_> = locked.iter().map(|live| live.id.0).collect();
        let missing: Vec<_> = ids.iter().copied().filter(|id| !locked.contains(id)).collect();
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let rows = tx.query(&self.sql.stages, &[numbers(&missing)]).await?;
        let mut there = Vec::new();
        for row in &rows {
            if row.try_get::<_, &str>(1)? != "dead" {
                there.push(JobId(row.try_get(0)?));
            }
        }
        Ok(there)
    }

    /// Locks jobs that have not ended, in the order of their ids, and reads them.
    pub(super) async fn lock_jobs(&self, tx: &Tx, ids: &[i64]) -> StoreResult<Vec<Live>> {
        let rows = tx.query(&self.sql.lock_jobs, &[numbers(&ids)]).await?;
        rows.iter().map(read_live).collect()
    }

    /// Stores moves of locked jobs.
    pub(super) async fn write_moves(
        &self,
        tx: &Tx,
        now: Timestamp,
        moves: Vec<Move>,
        keys: &LockedKeys,
    ) -> StoreResult<Moved> {
        let mut deltas = Deltas::default();
        let mut moved = Moved::default();
        let mut ended_keys = Vec::new();
        let (mut waiting, mut ended, mut dead) = (Vec::new(), Vec::new(), Vec::new());
        for job in moves {
            count(&job, &mut deltas);
            match &job.applied.state {
                NewState::Waiting { .. } => {
                    moved.wait(&job, now);
                    waiting.push(job);
                }
                NewState::Dead { .. } => {
                    moved.ordering_key.extend(job.live.type_ordering_key());
                    ended_keys.extend(job.live.type_key().map(|key| (key, job.live.id, HolderStage::Dead)));
                    dead.push(job);
                }
                NewState::Succeeded { .. } | NewState::Cancelled { .. } => {
                    moved.ordering_key.extend(job.live.type_ordering_key());
                    ended_keys.extend(job.live.type_key().map(|key| (key, job.live.id, HolderStage::Ended)));
                    ended.push(job);
                }
            }
        }
        moved.trigger |= self.apply_waiting(tx, now, &waiting, &vec![None; waiting.len()]).await?.marked;
        self.note_attempts(tx, &waiting).await?;
        moved.trigger |= self.apply_ended(tx, now, &ended).await?;
        moved.trigger |= self.apply_dead(tx, now, &dead).await?;
        self.free_keys(tx, &ended_keys, keys, now).await?;
        self.mark_ordering_key(tx, &moved.ordering_key).await?;
        self.note_requeued_jobs(tx, &moved).await?;
        self.add_counts(tx, &deltas).await?;
        Ok(moved)
    }

    /// Stores moves of jobs that are not locked, if their rows are where this process wrote them last.
    /// Returns the fences of those that were moved.
    pub(super) async fn move_as_claimed(
        &self,
        tx: &Tx,
        now: Timestamp,
        mut moves: Vec<Move>,
        places: &[Option<Ctid>],
    ) -> StoreResult<(Vec<Fence>, Moved)> {
        let applied_rows = self.apply_waiting(tx, now, &moves, places).await?;
        moves.retain(|job| applied_rows.has(job.live.id));
        let (mut deltas, mut moved) =
            (Deltas::default(), Moved { trigger: applied_rows.marked, ..Moved::default() });
        for job in &moves {
            count(job, &mut deltas);
            moved.wait(job, now);
        }
        self.note_attempts(tx, &moves).await?;
        self.note_requeued_jobs(tx, &moved).await?;
        self.add_counts(tx, &deltas).await?;
        let fence = |job: &Move| Some(Fence { job: job.live.id, token: job.live.token? });
        Ok((moves.iter().filter_map(fence).collect(), moved))
    }

    async fn apply_waiting(
        &self,
        tx: &Tx,
        now: Timestamp,
        moves: &[Move],
        known: &[Option<Ctid>],
    ) -> StoreResult<AppliedRows> {
        if moves.is_empty() {
            return Ok(AppliedRows::default());
        }
        let common = Common::of(moves, now);
        let places = moves.iter().map(|job| match &job.applied.state {
            NewState::Waiting { due, gate } => (Instant(*due), gate.as_ref().map(Gate::to_string)),
            _ => (Instant(job.live.due), None),
        });
        let (due, gates): (Vec<_>, Vec<_>) = places.unzip();
        let one_of_each_page = one_of_each_page(&common.ids, known);
        let params = [
            numbers(&common.ids),
            uuids(&common.tokens),
            small_numbers(&common.attempts),
            small_numbers(&common.failures),
            small_numbers(&common.crashes),
            small_numbers(&common.holds),
            texts(&common.last_errors),
            uuids(&common.settled_by),
            instants(&due),
            texts(&gates),
            flags(&common.frees),
            flags(&common.frees_patient),
            ctid_cache(&known),
            numbers(&one_of_each_page),
        ];
        AppliedRows::read(&tx.query(&self.sql.apply_waiting, &params).await?)
    }

    /// Stores ends of jobs. Like `apply_dead`, it returns whether a completion trigger was marked.
    async fn apply_ended(&self, tx: &Tx, now: Timestamp, moves: &[Move]) -> StoreResult<bool> {
        if moves.is_empty() {
            return Ok(false);
        }
        let common = Common::of(moves, now);
        let attempts = AttemptColumns::of(moves);
        let mut states = Vec::new();
        let (mut results, mut whys) = (Vec::new(), Vec::new());
        for job in moves {
            let (state, result, why) = match &job.applied.state {
                NewState::Succeeded { result } => (SUCCEEDED, result.clone(), None),
                NewState::Cancelled { why } => (CANCELLED, None, Some(storable(why.clone()))),
                NewState::Waiting { .. } | NewState::Dead { .. } => (CANCELLED, None, None),
            };
            states.push(state);
            results.push(result);
            whys.push(why);
        }
        let (at, ended_at) = (Instant(now), ended_at(moves, now));
        let params = [
            numbers(&common.ids),
            uuids(&common.tokens),
            small_numbers(&common.attempts),
            small_numbers(&common.failures),
            small_numbers(&common.crashes),
            small_numbers(&common.holds),
            texts(&common.last_errors),
            uuids(&common.settled_by),
            instant(&at),
            uuids(&attempts.workers),
            instants(&attempts.started_at),
            texts(&attempts.endings),
            texts(&attempts.errors),
            texts(&attempts.outputs),
            levels(&states),
            texts(&results),
            texts(&whys),
            flags(&common.frees),
            flags(&common.frees_patient),
            instants(&ended_at),
        ];
        tx.query(&self.sql.lock_rest, &[]).await?;
        has_marked(&tx.query(&self.sql.apply_ended, &params).await?)
    }

    async fn apply_dead(&self, tx: &Tx, now: Timestamp, moves: &[Move]) -> StoreResult<bool> {
        if moves.is_empty() {
            return Ok(false);
        }
        let common = Common::of(moves, now);
        let attempts = AttemptColumns::of(moves);
        let why = |job: &Move| match &job.applied.state {
            NewState::Dead { error } => to_json(error),
            _ => String::new(),
        };
        let errors: Vec<_> = moves.iter().map(why).collect();
        let ended_at = ended_at(moves, now);
        let params = [
            numbers(&common.ids),
            uuids(&common.tokens),
            small_numbers(&common.attempts),
            small_numbers(&common.failures),
            small_numbers(&common.crashes),
            small_numbers(&common.holds),
            texts(&common.last_errors),
            uuids(&common.settled_by),
            instants(&ended_at),
            uuids(&attempts.workers),
            instants(&attempts.started_at),
            texts(&attempts.endings),
            texts(&attempts.errors),
            texts(&attempts.outputs),
            texts(&errors),
            flags(&common.frees),
            flags(&common.frees_patient),
        ];
        has_marked(&tx.query(&self.sql.apply_dead, &params).await?)
    }

    /// Stores the attempts of jobs that go on.
    async fn note_attempts(&self, tx: &Tx, moves: &[Move]) -> StoreResult<()> {
        let noted = moves.iter().filter_map(|job| Some((job.live.id, job.end.attempt.as_ref()?)));
        let noted: Vec<_> = noted.collect();
        self.insert_attempts(tx, &noted).await
    }

    async fn insert_attempts(&self, tx: &Tx, noted: &[(JobId, &EndedAttempt)]) -> StoreResult<()> {
        if noted.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = noted.iter().map(|(id, _)| id.0).collect();
        let numbers_of: Vec<_> = noted.iter().map(|(_, attempt)| int4(attempt.number)).collect();
        let columns = AttemptColumns::from(noted.iter().map(|(_, attempt)| Some(*attempt)));
        let ended_at: Vec<_> = noted.iter().map(|(_, attempt)| Instant(attempt.ended_at)).collect();
        let params = [
            numbers(&ids),
            small_numbers(&numbers_of),
            uuids(&columns.workers),
            instants(&columns.started_at),
            instants(&ended_at),
            texts(&columns.endings),
            texts(&columns.errors),
            texts(&columns.outputs),
        ];
        tx.query(&self.sql.insert_attempts, &params).await?;
        // Not each time: a job may go on for years, and a few attempts more than are shown do no harm.
        for (id, _) in noted.iter().filter(|(_, attempt)| attempt.number.is_multiple_of(TRIM_EVERY)) {
            tx.query(&self.sql.trim_attempts, &[number(&id.0), small_number(&int4(ATTEMPTS_SHOWN_MAX))])
                .await?;
        }
        Ok(())
    }

    /// Records requeued jobs, so that claims of other processes read there again.
    pub(super) async fn note_requeued_jobs(&self, tx: &Tx, moved: &Moved) -> StoreResult<()> {
        if moved.requeued.is_empty() {
            return Ok(());
        }
        let queues: Vec<_> = moved.requeued.iter().map(|(queue, _, _)| queue.as_str()).collect();
        let priorities: Vec<i16> =
            moved.requeued.iter().map(|(_, priority, _)| priority.level().into()).collect();
        let due: Vec<_> = moved.requeued.iter().map(|(_, _, (due, _))| Instant(*due)).collect();
        let params = [texts(&queues), levels(&priorities), instants(&due)];
        tx.query(&self.sql.note_requeued_jobs, &params).await?;
        Ok(())
    }

    /// Reports moves in this process, once they are committed, and releases the next jobs of their ordering
    /// keys.
    pub(super) async fn publish_moved(&self, moved: Moved) {
        self.publish_requeued(&moved);
        self.advance_keys(&moved.ordering_key, |_| true).await;
    }

    pub(super) fn publish_requeued(&self, moved: &Moved) {
        self.claim_cursors().requeued(&moved.requeued, Moment::now(), self.estimated_now());
        if let Some(queue) = &moved.started_over {
            self.claim_cursors().notified_of_unknown_key(queue);
        }
        for queue in &moved.queues {
            self.listeners.tell(&Hint::Queue(queue.clone()));
        }
        self.notify_of_triggers(moved.trigger);
    }
}

fn count(job: &Move, deltas: &mut Deltas) {
    let kind = (&job.live.job_type, &job.live.queue);
    let (to, total) = match &job.applied.state {
        NewState::Waiting { due, gate } => {
            (CountedState::waiting(*due, gate.is_some()), job.end.is_retry.then_some(Total::Retried))
        }
        NewState::Succeeded { .. } => (CountedState::Outside, Some(Total::Succeeded)),
        NewState::Cancelled { .. } => (CountedState::Outside, Some(Total::Cancelled)),
        NewState::Dead { .. } => (CountedState::Dead, Some(Total::Dead)),
    };
    deltas.moved(kind, job.live.counted_state(), to);
    if let Some(total) = total {
        deltas.total(kind, total);
    }
}

/// The rows whose position is known, but at most one of each page.
fn one_of_each_page(ids: &[i64], known: &[Option<Ctid>]) -> Vec<i64> {
    let mut pages = HashSet::new();
    let mut is_first = |place: &Option<Ctid>| place.is_some_and(|place| pages.insert(place.page()));
    ids.iter().zip(known).filter(|(_, place)| is_first(place)).map(|(id, _)| *id).collect()
}

/// The answer of `apply_waiting`.
#[derive(Debug, Default)]
struct AppliedRows {
    /// Whether a completion trigger was marked.
    marked: bool,
    /// Which jobs were written; nothing if all were.
    ids: Option<HashSet<i64>>,
}

impl AppliedRows {
    fn read(rows: &[Row]) -> StoreResult<Self> {
        let Some(row) = rows.first() else { return Ok(Self { marked: false, ids: Some(HashSet::new()) }) };
        let (marked, all): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
        let ids = if all { None } else { Some(row.try_get::<_, Vec<i64>>(2)?.into_iter().collect()) };
        Ok(Self { marked, ids })
    }

    fn has(&self, job: JobId) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(&job.0))
    }
}

/// Reads the answer of a statement that marks completion triggers.
fn has_marked(rows: &[Row]) -> StoreResult<bool> {
    Ok(rows.first().map_or(Ok(false), |row| row.try_get(0))?)
}

/// A row of `lock_jobs`.
fn read_live(row: &Row) -> StoreResult<Live> {
    let (job_type, queue) = names(row, 1, 2)?;
    let worker: Option<Bits> = row.try_get(12)?;
    Ok(Live {
        id: JobId(row.try_get(0)?),
        job_type,
        queue,
        priority: Priority::new(row.try_get::<_, i16>(3)?.into()).ok(),
        due: row.try_get::<_, Instant>(4)?.0,
        counters: counters(row, 5)?,
        key: row.try_get(9)?,
        gate: gate(row, 10)?,
        token: row.try_get::<_, Option<Bits>>(11)?.map(ClaimToken::from),
        runs: worker.is_some(),
        worker: worker.map(WorkerId::from),
        since: super::row::instant(row, 13)?,
        cancel_requested: row.try_get(14)?,
        // The ordering key comes from the column, so that a job whose options cannot be read still releases
        // the next.
        options: JobOptions {
            ordering_key: row.try_get::<_, Option<&str>>(16)?.and_then(|name| OrderingKey::parse(name).ok()),
            ..JobOptions::from_column(row.try_get(15)?)
        },
    })
}

/// Reads the names of a job's type and queue. A name that cannot be read becomes one that no process
/// registers.
fn names(row: &Row, job_type: usize, queue: usize) -> StoreResult<(TypeName, QueueName)> {
    let unreadable = || TypeName::parse("unreadable").expect("a plain word");
    let job_type = TypeName::parse(row.try_get(job_type)?).unwrap_or_else(|_| unreadable());
    let queue = QueueName::parse(row.try_get(queue)?);
    Ok((job_type, queue.unwrap_or_else(|_| QueueName::parse("unreadable").expect("a plain word"))))
}
