//! Completion triggers, their marks, and the jobs that they enqueue. Each evaluation is one transaction. It
//! locks the trigger, and reads its marks and the unfinished jobs of the group by one statement. For what
//! marks are, see `migrations/0001_schema/triggers.sql`.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant as Moment;

use tokio_postgres::Row;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Hint;
use windlass_core::enqueue::{EnqueueAnswer, Refusal};
use windlass_core::error::EngineError;
use windlass_core::limits::TRIGGERS_MAX;
use windlass_core::names::TriggerName;
use windlass_core::schedules::next_version;
use windlass_core::triggers::rules::{
    JobStanding, Left, has_finished, look_after_failure, look_again, marks, may_look,
};
use windlass_core::triggers::spec::{CompletionTrigger, Watched};
use windlass_core::triggers::{
    StoredTrigger, TriggerChange, TriggerChanged, TriggerFired, TriggerFiring, TriggerRecord, TriggersRead,
    WhichTriggers,
};

use super::apply::Live;
use super::conn::Tx;
use super::store_error::{StoreError, StoreResult, despite_deadlocks};
use super::value::{
    Instant, flag, flags, instant, int4, maybe, micros, number, numbers, small_number, text, texts,
};
use super::{PostgresEngine, Store};
use crate::kit::on_store;

/// One evaluation removes at most this number of marks. There are more only if the trigger was not
/// evaluated for long.
const MARKS_AT_ONCE: usize = 100_000;

on_store!(CompletionTriggers for PostgresEngine {});

impl Store {
    /// Notifies this process, after the commit, that a trigger has to be evaluated.
    pub(super) fn notify_of_triggers(&self, is_marked: bool) {
        if is_marked {
            self.listeners.tell(&Hint::Trigger);
        }
    }

    /// Marks the triggers that a waiting job held up, when its due time changes.
    pub(super) async fn mark_put_off(
        &self,
        tx: &Tx,
        live: &Live,
        due: Timestamp,
        now: Timestamp,
    ) -> StoreResult<()> {
        let to = JobStanding::Waiting { due, gate: live.gate.as_ref() };
        if marks(live.standing(), to, false, now) {
            tx.query(&self.sql.mark_triggers, &[number(&live.id.0)]).await?;
        }
        Ok(())
    }

    pub(super) async fn triggers(&self, which: WhichTriggers) -> StoreResult<TriggersRead> {
        let (now, limit) = (self.now_param(), int4(which.limit()));
        let conn = self.work.get().await?;
        let rows = match &which {
            WhichTriggers::Named(names) => {
                let names: Vec<_> = names.iter().map(TriggerName::as_str).collect();
                conn.query(&self.sql.triggers_named, &[instant(&now), texts(&names)]).await?
            }
            WhichTriggers::After(after, _) => {
                let after = after.as_ref().map_or("", TriggerName::as_str);
                let params = [instant(&now), text(&after), small_number(&limit)];
                conn.query(&self.sql.list_triggers, &params).await?
            }
            WhichTriggers::Marked(_) => conn.query(&self.sql.marked_triggers, &[instant(&now)]).await?,
        };
        let read = self.read_triggers(&rows, &which)?;
        if matches!(which, WhichTriggers::Marked(_)) && !read.damaged.is_empty() {
            let names: Vec<_> = read.damaged.iter().map(|(name, _)| name.as_str()).collect();
            let at_most = int4(u32::try_from(MARKS_AT_ONCE).unwrap_or(u32::MAX));
            if let Err(fault) =
                conn.query(&self.sql.trim_marks, &[texts(&names), small_number(&at_most)]).await
            {
                // The other triggers are returned all the same.
                tracing::debug!(
                    ?fault,
                    "trimming the marks of unreadable completion triggers failed; the marks stay"
                );
            }
        }
        Ok(read)
    }

    fn read_triggers(&self, rows: &[Row], which: &WhichTriggers) -> StoreResult<TriggersRead> {
        let now = self.estimated_now();
        let mut read =
            TriggersRead { triggers: Vec::new(), damaged: Vec::new(), any: false, next: None, now };
        for row in rows {
            read.now = row.try_get::<_, Instant>(0)?.0;
            read.any = row.try_get(1)?;
            let look_at = row.try_get::<_, Option<Instant>>(7)?.map(|at| at.0);
            let Some(name) = row.try_get::<_, Option<&str>>(2)? else { continue };
            // A damaged name must not keep the other triggers from being read.
            let Ok(name) = TriggerName::parse(name) else { continue };
            if matches!(which, WhichTriggers::Marked(_)) && !may_look(look_at, read.now) {
                read.next = read.next.into_iter().chain(look_at).min();
                continue;
            }
            let (version, is_marked) = (row.try_get::<_, i64>(3)?.unsigned_abs(), row.try_get(5)?);
            match StoredTrigger::from_store(&name, version, row.try_get(4)?, is_marked, row.try_get(6)?) {
                Some(trigger) => read.triggers.push(trigger),
                None => read.damaged.push((name, version)),
            }
        }
        read.triggers.truncate(which.limit() as usize);
        Ok(read)
    }

    pub(super) async fn change_triggers(
        &self,
        changes: Vec<TriggerChange>,
    ) -> StoreResult<Vec<TriggerChanged>> {
        let tx = self.work.begin().await?;
        let changed = self.change_triggers_in(&tx, &changes).await;
        tx.end(changed).await
    }

    async fn change_triggers_in(
        &self,
        tx: &Tx,
        changes: &[TriggerChange],
    ) -> StoreResult<Vec<TriggerChanged>> {
        let names: Vec<_> = changes.iter().map(|change| change.name.as_str()).collect();
        let rows = tx.query(&self.sql.lock_triggers, &[texts(&names)]).await?;
        let mut before = HashMap::new();
        for row in &rows {
            before.insert(row.try_get::<_, &str>(0)?, row.try_get::<_, i64>(1)?.unsigned_abs());
        }
        let now = self.transaction_now(tx).await?;
        let mut room = self.room_for_triggers(tx, changes).await?;
        let (mut removed, mut saving, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            let stood = before.get(change.name.as_str()).copied();
            answers.push(match &change.to {
                _ if stood.unwrap_or(0) != change.read => TriggerChanged::Changed,
                None => {
                    removed.push(change.name.as_str());
                    TriggerChanged::Done { version: change.read }
                }
                Some(_) if stood.is_none() && room == 0 => TriggerChanged::NoRoom,
                Some(record) => {
                    room = room.saturating_sub(u64::from(stood.is_none()));
                    let version = next_version(change.read, now);
                    saving.push((change.read, version, &**record));
                    TriggerChanged::Done { version }
                }
            });
        }
        if !removed.is_empty() {
            tx.query(&self.sql.remove_triggers, &[texts(&removed)]).await?;
        }
        let saved = self.save_triggers(tx, &saving).await?;
        // Another process stored a trigger of the same name at the same time.
        for (change, answer) in changes.iter().zip(&mut answers) {
            let is_saved = change.to.is_none() || saved.contains(change.name.as_str());
            if matches!(answer, TriggerChanged::Done { .. }) && !is_saved {
                *answer = TriggerChanged::Changed;
            }
        }
        Ok(answers)
    }

    /// How many new triggers may be stored; counted only if the changes have new ones.
    async fn room_for_triggers(&self, tx: &Tx, changes: &[TriggerChange]) -> StoreResult<u64> {
        if changes.iter().all(|change| change.read > 0) {
            return Ok(0);
        }
        let rows = tx.query(&self.sql.count_triggers, &[]).await?;
        let there: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(u64::from(TRIGGERS_MAX).saturating_sub(there.unsigned_abs()))
    }

    async fn save_triggers(
        &self,
        tx: &Tx,
        rows: &[(u64, u64, &TriggerRecord)],
    ) -> StoreResult<BTreeSet<String>> {
        if rows.is_empty() {
            return Ok(BTreeSet::new());
        }
        let whole = |version: u64| i64::try_from(version).unwrap_or(i64::MAX);
        let specs = || rows.iter().map(|(_, _, record)| &record.spec);
        let names: Vec<_> = specs().map(|spec| spec.name.as_str()).collect();
        let read: Vec<_> = rows.iter().map(|(read, ..)| whole(*read)).collect();
        let versions: Vec<_> = rows.iter().map(|(_, version, _)| whole(*version)).collect();
        let kinds: Vec<_> = specs().map(|spec| spec.watch.kind()).collect();
        let watched: Vec<_> = specs().map(|spec| spec.watch.name()).collect();
        let waiting: Vec<_> = specs().map(|spec| spec.wait_for_retries).collect();
        let records: Vec<_> = rows.iter().map(|(_, _, record)| record.to_text()).collect();
        let params = [
            texts(&names),
            numbers(&read),
            numbers(&versions),
            texts(&kinds),
            texts(&watched),
            flags(&waiting),
            texts(&records),
        ];
        let saved = tx.query(&self.sql.save_triggers, &params).await?;
        Ok(saved.iter().map(|row| row.try_get(0)).collect::<std::result::Result<_, _>>()?)
    }

    /// Evaluates each trigger in a transaction of its own: one that takes long, or fails, holds up none of
    /// the others.
    pub(super) async fn fire_triggers(&self, firings: Vec<TriggerFiring>) -> StoreResult<Vec<TriggerFired>> {
        let mut fired = Vec::with_capacity(firings.len());
        for firing in &firings {
            fired.push(match self.fire_trigger(firing).await {
                Err(fault) => self.postpone_trigger(firing, fault).await?,
                looked => looked?,
            });
        }
        Ok(fired)
    }

    /// Postpones a trigger whose evaluation failed. If the store can be written to, only this trigger is
    /// affected, and the others are evaluated; otherwise none is.
    async fn postpone_trigger(&self, firing: &TriggerFiring, fault: StoreError) -> StoreResult<TriggerFired> {
        let passes = fault.is_passing();
        let (name, now, micros) =
            (firing.name.as_str(), self.now_param(), micros(look_after_failure(passes)));
        let conn = self.work.get().await;
        let written = match &conn {
            Ok(conn) => conn
                .query(&self.sql.postpone_trigger, &[text(&name), instant(&now), number(&micros)])
                .await
                .is_ok(),
            Err(_) => false,
        };
        if !written {
            return Err(fault);
        }
        let error = EngineError::from(fault);
        tracing::error!(trigger = name, %error, "evaluating a completion trigger failed; it is retried later");
        Ok(TriggerFired::Later)
    }

    async fn fire_trigger(&self, firing: &TriggerFiring) -> StoreResult<TriggerFired> {
        match despite_deadlocks("evaluating a completion trigger", || self.try_to_fire(firing, None)).await {
            // A check or a trigger that a user has added to our tables refuses the job, and not the
            // completion trigger.
            Err(error) if error.is_about_data() => {
                let why = format!("the store refused its row: {}", EngineError::from(error));
                let refused = EnqueueAnswer::Refused(Refusal::Malformed { why });
                self.try_to_fire(firing, Some(refused)).await
            }
            fired => fired,
        }
    }

    async fn try_to_fire(
        &self,
        firing: &TriggerFiring,
        answer: Option<EnqueueAnswer>,
    ) -> StoreResult<TriggerFired> {
        let tx = self.work.begin().await?;
        let fired = self.fire_in(&tx, firing, answer).await;
        let fired = tx.end(fired).await?;
        if let TriggerFired::Fired { job, .. } = &fired {
            let (jobs, answers) = (std::slice::from_ref(&firing.job), std::slice::from_ref(job));
            self.notify_of_new(jobs, answers, &self.catalogue());
        }
        Ok(fired)
    }

    async fn fire_in(
        &self,
        tx: &Tx,
        firing: &TriggerFiring,
        answer: Option<EnqueueAnswer>,
    ) -> StoreResult<TriggerFired> {
        let name = firing.name.as_str();
        let rows = tx.query(&self.sql.lock_free_trigger, &[text(&name)]).await?;
        // Another process has it locked, or it is gone: the next read shows which.
        let Some(row) = rows.first() else { return Ok(TriggerFired::Later) };
        if row.try_get::<_, i64>(0)?.unsigned_abs() != firing.read {
            return Ok(TriggerFired::Changed);
        }
        let now = self.transaction_now(tx).await?;
        if !may_look(row.try_get::<_, Option<Instant>>(1)?.map(|at| at.0), now) {
            return Ok(TriggerFired::Later);
        }
        let (began, spec) = (Moment::now(), &firing.to.spec);
        let (left, seen) = self.left_of(tx, spec).await?;
        if seen.is_empty() {
            return Ok(TriggerFired::Unmarked);
        }
        let look_at = maybe(Some(look_again(now, self.took(began))));
        let taken = &seen[..seen.len().min(MARKS_AT_ONCE)];
        tx.query(&self.sql.unmark_trigger, &[text(&name), numbers(&taken), instant(&look_at)]).await?;
        // All of them belong to one trigger: only the evaluation that removes the last ones may fire, or the
        // trigger would fire for each part.
        if taken.len() < seen.len() {
            return Ok(TriggerFired::Later);
        }
        match has_finished(left, spec.wait_for_retries) {
            true => self.enqueue_fired(tx, firing, answer, now).await,
            false => Ok(TriggerFired::Held),
        }
    }

    /// Returns what is left of the group, and the marks that were stored at that very moment, or one more
    /// than are removed. Guarded by
    /// `of_two_who_end_the_last_two_jobs_at_once_one_makes_the_hook_on_postgres`: marks that an earlier
    /// statement had read would leave out one whose job the next statement sees as ended, and the trigger
    /// would fire once more for it.
    async fn left_of(&self, tx: &Tx, spec: &CompletionTrigger) -> StoreResult<(Left, Vec<i64>)> {
        let (now, wait) = (self.now_param(), spec.wait_for_retries);
        let (of, name) = (spec.watch.name(), spec.name.as_str());
        let at_most = int4(u32::try_from(MARKS_AT_ONCE + 1).unwrap_or(u32::MAX));
        let statement = match &spec.watch {
            Watched::Group(_) => &self.sql.group_has_work,
            Watched::Queue(_) => &self.sql.queue_has_work,
            Watched::Type(_) => &self.sql.type_has_work,
        };
        let params = [text(&of), instant(&now), flag(&wait), text(&name), small_number(&at_most)];
        let rows = tx.query(statement, &params).await?;
        let Some(row) = rows.first() else { return Ok((Left::default(), Vec::new())) };
        // Running jobs are among the due ones, so there is no separate query for them.
        let left = Left { running: false, could_run: row.try_get(0)?, unfinished: row.try_get(1)? };
        Ok((left, row.try_get(2)?))
    }

    async fn enqueue_fired(
        &self,
        tx: &Tx,
        firing: &TriggerFiring,
        answer: Option<EnqueueAnswer>,
        now: Timestamp,
    ) -> StoreResult<TriggerFired> {
        let job = match answer {
            Some(answer) => answer,
            None => {
                let mut answers = self.enqueue_scheduled(tx, std::slice::from_ref(&firing.job)).await?;
                answers.pop().ok_or_else(|| EngineError::Unusable {
                    why: "expected an answer about the job of a completion trigger, got none".to_owned(),
                })?
            }
        };
        let made = match &job {
            EnqueueAnswer::New(id) => Some(id.0),
            _ => None,
        };
        let version = next_version(firing.read, now);
        let (name, stored) = (firing.name.as_str(), i64::try_from(version).unwrap_or(i64::MAX));
        let record = firing.kept(&job).to_text();
        let params = [text(&name), number(&stored), number(&made), text(&record)];
        tx.query(&self.sql.note_firing, &params).await?;
        Ok(TriggerFired::Fired { version, job })
    }
}
