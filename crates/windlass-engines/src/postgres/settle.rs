//! Settling: writes the end of an attempt, if its fence holds. Plain successes take one statement for all.
//! Ends that need more work (retries, dead letters, keys, cancels) take a transaction.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_postgres::Row;
use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::error::EngineError;
use windlass_core::job::{JobId, Progress};
use windlass_core::limits::{PROGRESS_BYTES_MAX, RESULT_BYTES_MAX, SETTLE_BATCH_MAX};
use windlass_core::outcome::{ErrorKind, JobError, bounded};
use windlass_core::settle::{AttemptReport, Settled, Settlement, Transition};

use super::Store;
use super::apply::{AttemptEnd, EndedAttempt, Live, Locked, Move, Moved};
use super::conn::Tx;
use super::store_error::{StoreError, StoreResult};
use super::value::{Bits, Instant, ctid_cache, flag, instant, micros, numbers, texts, uuids};
use crate::kit::{check_batch_size, to_json};

/// The answer to each settlement.
type Answers = HashMap<Fence, Settled>;

/// Which ends of a batch were written.
enum Written {
    All,
    These(HashSet<Fence>),
}

impl Written {
    fn nothing() -> Self {
        Self::These(HashSet::new())
    }

    /// Reads the answer of a statement: whether all were written, and otherwise which.
    fn read(row: &Row) -> StoreResult<Self> {
        if row.try_get(0)? {
            return Ok(Self::All);
        }
        let (ids, tokens): (Vec<i64>, Vec<Bits>) = (row.try_get(1)?, row.try_get(2)?);
        let fence = |(id, token): (i64, Bits)| Fence { job: JobId(id), token: token.into() };
        Ok(Self::These(ids.into_iter().zip(tokens).map(fence).collect()))
    }

    fn has(&self, fence: &Fence) -> bool {
        match self {
            Self::All => true,
            Self::These(fences) => fences.contains(fence),
        }
    }
}

impl Store {
    pub(super) async fn settle(&self, batch: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        check_batch_size(SETTLE_BATCH_MAX, "settlements", batch.len())?;
        let mut answers = Answers::new();
        if is_usual(&batch) {
            match self.settle_usual(&batch.iter().collect::<Vec<_>>()).await {
                Ok(Written::All) => return Ok(vec![Settled::Applied; batch.len()]),
                Ok(Written::These(fences)) => answers.extend(applied(fences)),
                Err(fault) => answers.extend(self.settle_despite(fault, &batch).await?),
            }
        }
        let fences: Vec<_> = batch.iter().map(|settlement| settlement.fence).collect();
        // Of two ends of one claim the first counts, as it would if they came one after the other.
        let mut seen: HashSet<_> = answers.keys().copied().collect();
        let rest: Vec<_> = batch.into_iter().filter(|settlement| seen.insert(settlement.fence)).collect();
        for wave in waves(rest) {
            answers.extend(self.settle_in_parts(&wave).await?);
        }
        Ok(fences.iter().map(|fence| answers.get(fence).copied().unwrap_or(Settled::ClaimLost)).collect())
    }

    pub(super) async fn settle_in_parts(&self, batch: &[Settlement]) -> StoreResult<Answers> {
        match self.settle_all(batch).await {
            Err(fault) => self.settle_despite(fault, batch).await,
            answers => answers,
        }
    }

    /// Settles half by half if the server refused a value, until the bad row is alone. That job is moved to
    /// the dead-letter queue with the server's message, so that it does not come back for ever.
    async fn settle_despite(&self, fault: StoreError, batch: &[Settlement]) -> StoreResult<Answers> {
        match batch {
            [bad] if fault.is_about_data() => self.settle_unstorable(bad, fault).await,
            _ if fault.is_about_data() => {
                let (first, second) = batch.split_at(batch.len() / 2);
                // Both, even if the first fails: a bad row in it must not hold up the second.
                let first = Box::pin(self.settle_in_parts(first)).await;
                let second = Box::pin(self.settle_in_parts(second)).await;
                Ok(first?.into_iter().chain(second?).collect())
            }
            // Guarded by `a_day_of_the_history_that_is_made_meanwhile_buries_no_job`.
            _ if fault.is_about_a_new_day() => self.settle_all(batch).await,
            // Another session's open transaction has locked one of the jobs: the others need not wait for it.
            [_, _, ..] if fault.is_locked() => self.settle_slowly(batch.to_vec()).await,
            _ => Err(fault),
        }
    }

    async fn settle_all(&self, batch: &[Settlement]) -> StoreResult<Answers> {
        let (mut plain, mut others): (Vec<_>, Vec<_>) =
            batch.iter().partition(|settlement| is_plain(settlement));
        let mut answers = Answers::new();
        for keys in self.keys_first_or_later() {
            let written = self.settle_plain(&plain, keys).await?;
            let done = plain.extract_if(.., |settlement| written.has(&settlement.fence));
            answers.extend(applied(done.map(|settlement| settlement.fence)));
        }
        others.extend(plain);
        let gone_on = self.go_on_as_claimed(&others).await?;
        others.retain(|settlement| !gone_on.contains(&settlement.fence));
        answers.extend(applied(gone_on));
        if !others.is_empty() {
            answers.extend(self.settle_slowly(others.into_iter().cloned().collect()).await?);
        }
        Ok(answers)
    }

    /// Settles jobs that go on, and that no other transaction has touched since this process claimed them.
    /// They are neither locked nor read before they are written. Returns the fences of those that were
    /// written.
    async fn go_on_as_claimed(&self, batch: &[&Settlement]) -> StoreResult<HashSet<Fence>> {
        let going_on = batch.iter().filter(|settlement| goes_on(&settlement.transition));
        let mut known: Vec<_> = going_on
            .filter_map(|settlement| Some((self.take_as_claimed(settlement.fence)?, *settlement)))
            .collect();
        if known.is_empty() {
            return Ok(HashSet::new());
        }
        known.sort_by_key(|(_, settlement)| settlement.fence.job);
        let tx = self.work.begin().await?;
        let gone_on = async {
            let now = self.transaction_now(&tx).await?;
            let (places, moves): (Vec<_>, Vec<_>) = known
                .into_iter()
                .map(|((live, place), settlement)| {
                    (Some(place), self.moved_by(live, settlement.clone(), now))
                })
                .unzip();
            self.move_as_claimed(&tx, now, moves, &places).await
        };
        let gone_on = gone_on.await;
        let (fences, moved) = tx.end(gone_on).await?;
        self.publish_moved(moved).await;
        Ok(fences.into_iter().collect())
    }

    /// Whether to settle with keys at once, or only as a second try. Checking keys costs something, so it
    /// comes second; but jobs with keys come in rows, and then it comes at once.
    fn keys_first_or_later(&self) -> &'static [bool] {
        if self.ends_have_keys.load(Ordering::Relaxed) { &[true] } else { &[false, true] }
    }

    async fn settle_unstorable(&self, bad: &Settlement, fault: StoreError) -> StoreResult<Answers> {
        let why = EngineError::from(fault);
        let error = JobError::new(ErrorKind::Failed, format!("its end could not be stored: {why}"));
        let report = AttemptReport { output: None, ..bad.report };
        let bury = Settlement { fence: bad.fence, transition: Transition::Bury { error }, report };
        self.settle_slowly(vec![bury]).await.map_err(stored_nowhere)
    }

    /// Settles a batch of successes only, in the way that the last batch took. Most ends are like those
    /// before them.
    async fn settle_usual(&self, batch: &[&Settlement]) -> StoreResult<Written> {
        if self.ends_are_traces.load(Ordering::Relaxed) {
            let written = self.settle_traced(batch).await?;
            self.ends_are_traces.store(matches!(written, Written::All), Ordering::Relaxed);
            return Ok(written);
        }
        let keys = self.ends_have_keys.load(Ordering::Relaxed);
        self.settle_plain(batch, &keys).await
    }

    /// Settles successes of jobs that leave only a trace, in one statement. Returns those that were
    /// written.
    async fn settle_traced(&self, batch: &[&Settlement]) -> StoreResult<Written> {
        let mut fences: Vec<_> = batch.iter().map(|settlement| settlement.fence).collect();
        fences.sort_by_key(|fence| fence.job);
        let ids: Vec<_> = fences.iter().map(|fence| fence.job.0).collect();
        let tokens: Vec<_> = fences.iter().map(|fence| Bits::from(fence.token)).collect();
        let at = self.take_ctids(&ids);
        let catalogue = self.catalogue();
        let types = catalogue.types().filter(|spec| spec.retention_days == 0);
        let types: Vec<_> = types.map(|spec| spec.name.to_string()).collect();
        let now = self.now_param();
        let params = [instant(&now), numbers(&ids), uuids(&tokens), ctid_cache(&at), texts(&types)];
        let rows = self.work.get().await?.execute(&self.sql.settle_traced, &params).await?;
        let Some(row) = rows.first() else { return Ok(Written::nothing()) };
        self.notify_of_triggers(row.try_get(3)?);
        Written::read(row)
    }

    /// Settles successes of jobs that were not asked to stop, in one statement; those with a key only if
    /// `keys` is set. Returns those that were written.
    async fn settle_plain(&self, batch: &[&Settlement], keys: &bool) -> StoreResult<Written> {
        if batch.is_empty() {
            return Ok(Written::All);
        }
        let mut rows: Vec<_> = batch.iter().map(|settlement| PlainEnd::of(settlement)).collect();
        rows.sort_by_key(|end| end.fence.job);
        let ids: Vec<_> = rows.iter().map(|end| end.fence.job.0).collect();
        let tokens: Vec<_> = rows.iter().map(|end| Bits::from(end.fence.token)).collect();
        let ran_for: Vec<_> = rows.iter().map(|end| micros(end.ran_for)).collect();
        let ended_ago: Vec<_> = rows.iter().map(|end| micros(end.ended_ago)).collect();
        let results: Vec<_> = rows.iter_mut().map(|end| end.result.take()).collect();
        let outputs: Vec<_> = rows.iter_mut().map(|end| end.output.take()).collect();
        let now = self.now_param();
        let at = self.take_ctids(&ids);
        let params = [
            instant(&now),
            numbers(&ids),
            uuids(&tokens),
            numbers(&ran_for),
            texts(&results),
            texts(&outputs),
            ctid_cache(&at),
            flag(keys),
            numbers(&ended_ago),
        ];
        let rows = self.work.get().await?.execute(&self.sql.settle, &params).await?;
        let Some(row) = rows.first() else { return Ok(Written::nothing()) };
        if *keys {
            self.ends_have_keys.store(row.try_get(3)?, Ordering::Relaxed);
        }
        self.notify_of_triggers(row.try_get(5)?);
        let written = Written::read(row)?;
        let (has_keys, has_history): (bool, bool) = (row.try_get(3)?, row.try_get(4)?);
        let is_traced = matches!(written, Written::All) && !has_keys && !has_history;
        self.ends_are_traces.store(is_traced, Ordering::Relaxed);
        Ok(written)
    }

    /// Settles ends of all kinds, under lock. Jobs that another session's open transaction has locked are
    /// settled alone, at the end.
    pub(super) async fn settle_slowly(&self, batch: Vec<Settlement>) -> StoreResult<Answers> {
        let mut settlements: HashMap<Fence, Settlement> =
            batch.into_iter().map(|settlement| (settlement.fence, settlement)).collect();
        let (mut answers, skipped) = self.settle_locked(&mut settlements, true).await?;
        for id in skipped {
            let mut alone: HashMap<_, _> = settlements.extract_if(|fence, _| fence.job == id).collect();
            let (answer, _) = self.settle_locked(&mut alone, false).await?;
            answers.extend(answer);
        }
        Ok(answers)
    }

    async fn settle_locked(
        &self,
        settlements: &mut HashMap<Fence, Settlement>,
        skip: bool,
    ) -> StoreResult<(Answers, Vec<JobId>)> {
        let tx = self.work.begin().await?;
        let settled = self.settle_in(&tx, settlements, skip).await;
        let (answers, skipped, moved) = tx.end(settled).await?;
        self.publish_moved(moved).await;
        Ok((answers, skipped))
    }

    pub(super) async fn settle_in(
        &self,
        tx: &Tx,
        settlements: &mut HashMap<Fence, Settlement>,
        skip: bool,
    ) -> StoreResult<(Answers, Vec<JobId>, Moved)> {
        let ids: Vec<_> = settlements.keys().map(|fence| fence.job.0).collect();
        let Locked { jobs, keys, skipped } = self.lock_live(tx, &ids, skip).await?;
        let now = self.transaction_now(tx).await?;
        let mut answers = Answers::new();
        let mut moves = Vec::new();
        for live in jobs {
            let Some(token) = live.token else { continue };
            let fence = Fence { job: live.id, token };
            if let Some(settlement) = settlements.remove(&fence) {
                moves.push(self.moved_by(live, settlement, now));
                answers.insert(fence, Settled::Applied);
            }
        }
        let moved = self.write_moves(tx, now, moves, &keys).await?;
        let lost: Vec<_> =
            settlements.keys().filter(|fence| !skipped.contains(&fence.job)).copied().collect();
        answers.extend(self.settled_before(tx, &lost).await?);
        Ok((answers, skipped, moved))
    }

    /// Core's decision on where a settlement takes its job.
    fn moved_by(&self, live: Live, settlement: Settlement, now: Timestamp) -> Move {
        let keep_result = self.catalogue().type_named(&live.job_type).is_some_and(|spec| spec.keep_result);
        let Settlement { fence, transition, report } = settlement.bounded(keep_result);
        let end = AttemptEnd {
            ended_ago: transition.ended_ago(&report),
            attempt: ended_attempt(&live, &transition, report, now),
            last_error: transition.error().cloned(),
            settled_by: Some(fence.token),
            is_retry: matches!(transition, Transition::Retry { .. }),
        };
        let applied = transition.apply(now, live.due, live.counters, live.cancel_requested.as_deref());
        Move { live, applied, end }
    }

    /// The answers to fences that do not hold any more: each may be the repeat of an end that was written.
    async fn settled_before(&self, tx: &Tx, fences: &[Fence]) -> StoreResult<Answers> {
        if fences.is_empty() {
            return Ok(Answers::new());
        }
        let ids: Vec<_> = fences.iter().map(|fence| fence.job.0).collect();
        let tokens: Vec<_> = fences.iter().map(|fence| Bits::from(fence.token)).collect();
        let rows = tx.query(&self.sql.was_settled, &[numbers(&ids), uuids(&tokens)]).await?;
        let mut answers: Answers = fences.iter().map(|fence| (*fence, Settled::ClaimLost)).collect();
        for row in &rows {
            let fence = Fence { job: JobId(row.try_get(0)?), token: row.try_get::<_, Bits>(1)?.into() };
            answers.insert(fence, Settled::Applied);
        }
        Ok(answers)
    }

    /// The store's now within a transaction, at this point of it.
    pub(super) async fn transaction_now(&self, tx: &Tx) -> StoreResult<Timestamp> {
        if let Some(now) = self.now_param() {
            return Ok(now.0);
        }
        let rows = tx.query(&self.sql.read_now, &[]).await?;
        Ok(rows
            .first()
            .map_or(Ok(self.estimated_now()), |row| row.try_get::<_, Instant>(0).map(|at| at.0))?)
    }

    pub(super) async fn report(&self, batch: Vec<(Fence, Progress)>) -> StoreResult<Vec<Settled>> {
        check_batch_size(SETTLE_BATCH_MAX, "reports of progress", batch.len())?;
        let mut sorted: Vec<_> =
            batch.iter().map(|(fence, progress)| (*fence, progress_text(progress))).collect();
        sorted.sort_by_key(|(fence, _)| fence.job);
        let ids: Vec<_> = sorted.iter().map(|(fence, _)| fence.job.0).collect();
        let tokens: Vec<_> = sorted.iter().map(|(fence, _)| Bits::from(fence.token)).collect();
        let notes: Vec<_> = sorted.into_iter().map(|(_, note)| note).collect();
        let params = [numbers(&ids), uuids(&tokens), texts(&notes)];
        let rows = self.work.get().await?.execute(&self.sql.report, &params).await?;
        self.note_ctids(&rows, 0, 2)?;
        let mut noted = HashSet::new();
        for row in &rows {
            noted.insert(Fence { job: JobId(row.try_get(0)?), token: row.try_get::<_, Bits>(1)?.into() });
        }
        let answer = |fence| if noted.contains(fence) { Settled::Applied } else { Settled::ClaimLost };
        Ok(batch.iter().map(|(fence, _)| answer(fence)).collect())
    }
}

fn applied(fences: impl IntoIterator<Item = Fence>) -> impl Iterator<Item = (Fence, Settled)> {
    fences.into_iter().map(|fence| (fence, Settled::Applied))
}

/// Whether a batch is the usual one, only successes of different jobs. It takes one statement; if all were
/// written, no fences have to be compared.
fn is_usual(batch: &[Settlement]) -> bool {
    let mut jobs: Vec<_> = batch.iter().map(|settlement| settlement.fence.job).collect();
    jobs.sort_unstable();
    jobs.is_sorted_by(|a, b| a < b) && batch.iter().all(is_plain)
}

/// Splits a batch into waves. Ends of different claims of one job must come one after the other, as they
/// were sent; all others may go together.
fn waves(batch: Vec<Settlement>) -> Vec<Vec<Settlement>> {
    let mut ends_of: HashMap<JobId, usize> = HashMap::with_capacity(batch.len());
    let mut waves: Vec<Vec<Settlement>> = Vec::new();
    for settlement in batch {
        let earlier = ends_of.entry(settlement.fence.job).or_default();
        match waves.get_mut(*earlier) {
            Some(wave) => wave.push(settlement),
            None => waves.push(vec![settlement]),
        }
        *earlier += 1;
    }
    waves
}

/// The error when even the dead-letter queue refuses a job. A worker that gets it drops this end, and goes
/// on with others.
fn stored_nowhere(fault: StoreError) -> StoreError {
    if !fault.is_about_data() {
        return fault;
    }
    EngineError::Refused(format!("expected an end that can be stored, got {}", EngineError::from(fault)))
        .into()
}

/// A text that PostgreSQL accepts: it has no NUL character.
pub(super) fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// Whether a job that ends like this waits again, unless an operator has asked it to stop.
fn goes_on(transition: &Transition) -> bool {
    match transition {
        Transition::Retry { .. }
        | Transition::Snooze { .. }
        | Transition::Park { .. }
        | Transition::Release { .. } => true,
        Transition::Succeed { .. } | Transition::Bury { .. } | Transition::Cancel { .. } => false,
    }
}

/// Whether this is a success whose result, if it has one, may be kept as it is.
fn is_plain(settlement: &Settlement) -> bool {
    let Transition::Succeed { result } = &settlement.transition else { return false };
    result.as_ref().is_none_or(|result| result.len() <= RESULT_BYTES_MAX)
}

/// A success as it is written. The statement leaves out results that the type does not keep.
struct PlainEnd {
    fence: Fence,
    ran_for: Duration,
    ended_ago: Duration,
    result: Option<String>,
    output: Option<String>,
}

impl PlainEnd {
    fn of(settlement: &Settlement) -> Self {
        let Settlement { fence, transition, report } = settlement.clone().bounded(true);
        let result = match transition {
            Transition::Succeed { result } => result,
            _ => None,
        };
        let AttemptReport { ran_for, ended_ago, output } = report;
        Self { fence, ran_for, ended_ago, result, output: output.map(storable) }
    }
}

fn progress_text(progress: &Progress) -> String {
    let note = progress.note.clone().map(|note| bounded(note, PROGRESS_BYTES_MAX));
    to_json(&Progress { percent: progress.percent.min(100), note })
}

fn ended_attempt(
    live: &Live,
    transition: &Transition,
    report: AttemptReport,
    now: Timestamp,
) -> Option<EndedAttempt> {
    let (started_at, ended_at) = report.span(now);
    Some(EndedAttempt {
        number: live.counters.attempts,
        worker: live.worker?,
        started_at,
        ended_at,
        ending: transition.ending(live.cancel_requested.is_some())?,
        error: transition.error().cloned(),
        output: report.output.map(storable),
    })
}
