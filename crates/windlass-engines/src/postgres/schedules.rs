//! Schedules, and the jobs that they enqueue. A change and its jobs are one transaction: it locks schedules
//! by name first, then keys and jobs, as everywhere.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio_postgres::Row;
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::{EnqueueAnswer, NewJob, Refusal};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::key::HolderStage;
use windlass_core::limits::SCHEDULES_MAX;
use windlass_core::names::ScheduleName;
use windlass_core::schedules::{
    GivesWay, Overlap, Overlapping, PageEnd, Put, ScheduleChange, ScheduleChanged, SchedulesRead,
    StoredSchedule, WhichSchedules, next_version, replaced_by,
};

use super::Store;
use super::apply::Moved;
use super::conn::Tx;
use super::inside::{answered, written};
use super::store_error::{StoreResult, despite_deadlocks};
use super::value::{Bits, Instant, instant, instants, int4, maybe, numbers, small_number, text, texts, uuid};

/// Schedules when they were locked: version, and last job.
type Standing = HashMap<String, (u64, Option<i64>)>;

/// What ends in a deadlock, for the log.
const CHANGING: &str = "changing schedules";

impl Store {
    pub(super) async fn schedules(&self, which: WhichSchedules) -> StoreResult<SchedulesRead> {
        let (now, limit) = (self.now_param(), int4(which.limit()));
        let conn = self.work.get().await?;
        let rows = match &which {
            WhichSchedules::Named(names) => {
                let names: Vec<_> = names.iter().map(ScheduleName::as_str).collect();
                conn.query(&self.sql.schedules_named, &[instant(&now), texts(&names)]).await?
            }
            WhichSchedules::After(after, _) => {
                let after = after.as_ref().map_or("", |end| end.name.as_str());
                let params = [instant(&now), text(&after), small_number(&limit)];
                conn.query(&self.sql.list_schedules, &params).await?
            }
            WhichSchedules::Due(after, _) => {
                let look_at = maybe(after.as_ref().and_then(|end| end.look_at));
                let name = after.as_ref().map_or("", |end| end.name.as_str());
                let params = [instant(&now), small_number(&limit), instant(&look_at), text(&name)];
                conn.query(&self.sql.due_schedules, &params).await?
            }
        };
        self.read_schedules(&rows)
    }

    fn read_schedules(&self, rows: &[Row]) -> StoreResult<SchedulesRead> {
        let (mut now, mut next) = (self.estimated_now(), None);
        let (mut schedules, mut damaged, mut end) = (Vec::new(), Vec::new(), None);
        for row in rows {
            now = row.try_get::<_, Instant>(0)?.0;
            next = row.try_get::<_, Option<Instant>>(1)?.map(|next| next.0);
            let Some(name) = row.try_get::<_, Option<&str>>(2)? else { continue };
            let look_at = row.try_get::<_, Option<Instant>>(6)?.map(|look_at| look_at.0);
            end = Some(PageEnd { look_at, name: name.to_owned() });
            // A damaged name must not keep the other schedules from being read.
            let Ok(name) = ScheduleName::parse(name) else { continue };
            let version = row.try_get::<_, i64>(3)?.unsigned_abs();
            match StoredSchedule::from_store(&name, version, row.try_get(4)?, row.try_get(5)?) {
                Some(schedule) => schedules.push(schedule),
                None => damaged.push((name, version)),
            }
        }
        Ok(SchedulesRead { schedules, damaged, end, next, now })
    }

    pub(super) async fn change_schedules(
        &self,
        changes: Vec<ScheduleChange>,
    ) -> StoreResult<Vec<ScheduleChanged>> {
        match despite_deadlocks(CHANGING, || self.try_to_change(&changes)).await {
            Err(fault) if fault.is_about_data() => {
                let why = format!("the store refused its row: {}", EngineError::from(fault));
                self.change_one_by_one(changes, &why).await
            }
            changed => changed,
        }
    }

    /// Applies changes one by one after the server refused a row. A check or a trigger that a user has
    /// added to our tables refuses that one job, and neither its schedule nor the others.
    async fn change_one_by_one(
        &self,
        changes: Vec<ScheduleChange>,
        why: &str,
    ) -> StoreResult<Vec<ScheduleChanged>> {
        let mut answers = Vec::with_capacity(changes.len());
        for change in changes {
            let answer =
                match despite_deadlocks(CHANGING, || self.try_to_change(std::slice::from_ref(&change))).await
                {
                    Err(fault) if fault.is_about_data() && !change.jobs.is_empty() => {
                        let refused = refusals(change.jobs.len(), why);
                        let to = change.kept(&refused, self.estimated_now()).map(Box::new);
                        let bare = ScheduleChange { to, jobs: Vec::new(), ticks: Vec::new(), ..change };
                        let changed =
                            despite_deadlocks(CHANGING, || self.try_to_change(std::slice::from_ref(&bare)))
                                .await?;
                        changed.into_iter().map(|changed| with_answers(changed, &refused)).collect()
                    }
                    changed => changed?,
                };
            answers.extend(answer);
        }
        Ok(answers)
    }

    async fn try_to_change(&self, changes: &[ScheduleChange]) -> StoreResult<Vec<ScheduleChanged>> {
        let tx = self.work.begin().await?;
        let changed = self.change_in(&tx, changes).await;
        let (changed, moved) = tx.end(changed).await?;
        self.publish_moved(moved).await;
        for (change, changed) in changes.iter().zip(&changed) {
            if let ScheduleChanged::Done { jobs, .. } = changed {
                let answers: Vec<_> = jobs.iter().filter_map(answer_of).collect();
                if answers.len() == change.jobs.len() {
                    self.notify_of_new(&change.jobs, &answers, &self.catalogue());
                }
            }
        }
        Ok(changed)
    }

    async fn change_in(
        &self,
        tx: &Tx,
        changes: &[ScheduleChange],
    ) -> StoreResult<(Vec<ScheduleChanged>, Moved)> {
        let before = self.lock_schedules(tx, changes).await?;
        let now = self.transaction_now(tx).await?;
        let applied = self.save_schedules(tx, changes, &before, now).await?;
        let mut moved = Moved::default();
        let mut put = self.enqueue_changes(tx, changes, &before, &applied, now, &mut moved).await?;
        let answer = |change: &ScheduleChange| match applied.get(change.name.as_str()) {
            Some(Some(version)) => {
                let jobs = put.remove(change.name.as_str()).unwrap_or_default();
                ScheduleChanged::Done { version: *version, jobs }
            }
            Some(None) => ScheduleChanged::NoRoom,
            None => ScheduleChanged::Changed,
        };
        Ok((changes.iter().map(answer).collect(), moved))
    }

    async fn lock_schedules(&self, tx: &Tx, changes: &[ScheduleChange]) -> StoreResult<Standing> {
        let names: Vec<_> = changes.iter().map(|change| change.name.as_str()).collect();
        let rows = tx.query(&self.sql.lock_schedules, &[texts(&names)]).await?;
        let read = |row: &Row| {
            let version = row.try_get::<_, i64>(1)?.unsigned_abs();
            Ok((row.try_get(0)?, (version, row.try_get(2)?)))
        };
        rows.iter().map(read).collect()
    }

    /// Stores the schedules whose version is still the one that was read. Returns the new versions; nothing
    /// where there was no room.
    async fn save_schedules<'c>(
        &self,
        tx: &Tx,
        changes: &'c [ScheduleChange],
        before: &Standing,
        now: Timestamp,
    ) -> StoreResult<BTreeMap<&'c str, Option<u64>>> {
        let mut applied = BTreeMap::new();
        let (mut removed, mut rows) = (Vec::new(), Rows::default());
        let mut room = self.room_for_schedules(tx, changes).await?;
        for change in changes {
            let (name, stood) = (change.name.as_str(), before.get(change.name.as_str()));
            let version = stood.map_or(0, |(version, _)| *version);
            match &change.to {
                _ if version != change.read => {}
                None => {
                    removed.push(name);
                    applied.insert(name, Some(version));
                }
                Some(_) if stood.is_none() && room == 0 => _ = applied.insert(name, None),
                Some(record) => {
                    room = room.saturating_sub(u64::from(stood.is_none()));
                    let last_job = stood.and_then(|(_, job)| *job);
                    rows.push(change, next_version(version, now), maybe(record.look_at()), last_job);
                }
            }
        }
        if !removed.is_empty() {
            tx.query(&self.sql.remove_schedules, &[texts(&removed)]).await?;
        }
        let saved = rows.save(self, tx).await?;
        let saved = saved.iter().map(|row| row.try_get::<_, &str>(0)).collect::<Result<BTreeSet<_>, _>>()?;
        for change in changes.iter().filter(|change| saved.contains(change.name.as_str())) {
            applied.insert(change.name.as_str(), Some(next_version(change.read, now)));
        }
        Ok(applied)
    }

    /// How many new schedules may be stored; counted only if the changes have new ones.
    async fn room_for_schedules(&self, tx: &Tx, changes: &[ScheduleChange]) -> StoreResult<u64> {
        if changes.iter().all(|change| change.read > 0) {
            return Ok(0);
        }
        let rows = tx.query(&self.sql.count_schedules, &[]).await?;
        let there: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        Ok(u64::from(SCHEDULES_MAX).saturating_sub(there.unsigned_abs()))
    }

    /// Enqueues the jobs of all applied changes, by one call. Jobs that give way to them are cancelled
    /// after that, since they stay if nothing replaces them.
    async fn enqueue_changes(
        &self,
        tx: &Tx,
        changes: &[ScheduleChange],
        before: &Standing,
        applied: &BTreeMap<&str, Option<u64>>,
        now: Timestamp,
        moved: &mut Moved,
    ) -> StoreResult<BTreeMap<String, Vec<Put>>> {
        let is_applied =
            |change: &&ScheduleChange| applied.get(change.name.as_str()).is_some_and(Option::is_some);
        let with_jobs: Vec<_> =
            changes.iter().filter(is_applied).filter(|change| !change.jobs.is_empty()).collect();
        let stages = self.stages_of_last(tx, &with_jobs, before).await?;
        let (mut put, mut replaced) = (BTreeMap::<String, Vec<Put>>::new(), Vec::new());
        let (mut jobs, mut of) = (Vec::<NewJob>::new(), Vec::new());
        for change in with_jobs {
            let last = last_job(change, before);
            let stage = last.and_then(|last| stages.get(&last)).copied().unwrap_or(HolderStage::Ended);
            match (change.overlap.decide(stage), last) {
                (Overlapping::LeaveOut, Some(last)) => {
                    let left_out = change.jobs.iter().map(|_| Put::Overlaps(last)).collect();
                    put.insert(change.name.to_string(), left_out);
                    continue;
                }
                (Overlapping::CancelLast, Some(last)) => replaced.push((change, last)),
                _ => {}
            }
            jobs.extend(change.jobs.iter().cloned());
            of.extend(change.jobs.iter().map(|_| change.name.as_str()));
        }
        let answers = self.enqueue_scheduled(tx, &jobs).await?;
        for (name, answer) in of.into_iter().zip(answers) {
            put.entry(name.to_owned()).or_default().push(Put::Answered(answer));
        }
        self.replace(tx, &replaced, now, &mut put, moved).await?;
        self.note_enqueued(tx, changes, before, &put, now).await?;
        Ok(put)
    }

    /// Reads the stages of the last jobs of schedules with an overlap policy. The jobs are not locked: an
    /// open transaction of the application that ends one of them must not hold up all schedules that are
    /// due. Guarded by `an_open_transaction_holds_up_no_schedule`.
    async fn stages_of_last(
        &self,
        tx: &Tx,
        changes: &[&ScheduleChange],
        before: &Standing,
    ) -> StoreResult<HashMap<JobId, HolderStage>> {
        let minding = changes.iter().filter(|change| change.overlap != Overlap::Allow);
        let ids: Vec<_> = minding.filter_map(|change| last_job(change, before)).map(|job| job.0).collect();
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = tx.query(&self.sql.stages, &[numbers(&ids)]).await?;
        let read = |row: &Row| {
            let stage = match row.try_get(1)? {
                "waiting" => HolderStage::Waiting,
                "dead" => HolderStage::Dead,
                _ => HolderStage::Running,
            };
            Ok((JobId(row.try_get(0)?), stage))
        };
        rows.iter().map(read).collect()
    }

    /// Cancels the last jobs that give way to the enqueued ones. A job that another transaction has locked
    /// is about to start or to end, and stays.
    async fn replace(
        &self,
        tx: &Tx,
        replaced: &[(&ScheduleChange, JobId)],
        now: Timestamp,
        put: &mut BTreeMap<String, Vec<Put>>,
        moved: &mut Moved,
    ) -> StoreResult<()> {
        let (mut whys, mut full) = (HashMap::new(), Vec::new());
        for (change, last) in replaced {
            let answer = put.get(change.name.as_str()).and_then(|puts| puts.first()).and_then(answer_of);
            match answer.as_ref().map_or(GivesWay::No, GivesWay::to) {
                GivesWay::Now => _ = whys.insert(*last, replaced_by(&change.name)),
                GivesWay::IfThatMakesRoom => full.push((*change, *last)),
                GivesWay::No => {}
            }
        }
        self.cancel_free(tx, &whys, now, moved).await?;
        for (change, last) in full {
            if let Some(answers) = self.enqueue_after_cancel(tx, change, last, now, moved).await? {
                put.insert(change.name.to_string(), answers.into_iter().map(Put::Answered).collect());
            }
        }
        Ok(())
    }

    /// Cancels a job and enqueues another. If that one is refused all the same, both are rolled back.
    async fn enqueue_after_cancel(
        &self,
        tx: &Tx,
        change: &ScheduleChange,
        last: JobId,
        now: Timestamp,
        moved: &mut Moved,
    ) -> StoreResult<Option<Vec<EnqueueAnswer>>> {
        let (mut moved_here, whys) = (Moved::default(), HashMap::from([(last, replaced_by(&change.name))]));
        tx.savepoint().await?;
        if self.cancel_free(tx, &whys, now, &mut moved_here).await? > 0 {
            let answers = self.enqueue_scheduled(tx, &change.jobs).await?;
            if answers.iter().all(|answer| GivesWay::to(answer) == GivesWay::Now) {
                moved.add(moved_here);
                return Ok(Some(answers));
            }
        }
        tx.rollback_to_savepoint().await?;
        Ok(None)
    }

    /// Cancels the jobs of these that wait and that no other transaction has locked. Returns how many.
    async fn cancel_free(
        &self,
        tx: &Tx,
        whys: &HashMap<JobId, String>,
        now: Timestamp,
        moved: &mut Moved,
    ) -> StoreResult<usize> {
        if whys.is_empty() {
            return Ok(0);
        }
        let mut ids: Vec<_> = whys.keys().map(|job| job.0).collect();
        ids.sort_unstable();
        let locked = self.lock_live(tx, &ids, true).await?;
        let waiting = locked.jobs.into_iter().filter(|live| !live.runs);
        let moves: Vec<_> = waiting
            .map(|live| {
                let why = whys.get(&live.id).map_or("", String::as_str);
                live.cancelled(why)
            })
            .collect();
        let count = moves.len();
        if count > 0 {
            moved.add(self.write_moves(tx, now, moves, &locked.keys).await?);
        }
        Ok(count)
    }

    pub(super) async fn enqueue_scheduled(
        &self,
        tx: &Tx,
        jobs: &[NewJob],
    ) -> StoreResult<Vec<EnqueueAnswer>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let (jobs, now, request) = (written(jobs)?, self.now_param(), None::<Bits>);
        let params = [text(&jobs), uuid(&request), instant(&now)];
        let rows = tx.query(&self.sql.enqueue_many, &params).await?;
        let read =
            |row: &Row| Ok(answered(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?));
        rows.iter().map(read).collect()
    }

    /// Stores which jobs schedules have enqueued, and which ticks enqueued none.
    async fn note_enqueued(
        &self,
        tx: &Tx,
        changes: &[ScheduleChange],
        before: &Standing,
        put: &BTreeMap<String, Vec<Put>>,
        now: Timestamp,
    ) -> StoreResult<()> {
        let (mut names, mut jobs, mut records) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            let Some(puts) = put.get(change.name.as_str()) else { continue };
            let before = last_job(change, before);
            let last = change.last_job(puts, before).filter(|last| Some(*last) != before);
            let kept = change.kept(puts, now).filter(|kept| change.to.as_deref() != Some(kept));
            if last.is_some() || kept.is_some() {
                names.push(change.name.to_string());
                jobs.push(last.map(|last| last.0));
                records.push(kept.map(|kept| kept.to_text()));
            }
        }
        if !names.is_empty() {
            tx.query(&self.sql.set_last_jobs, &[texts(&names), numbers(&jobs), texts(&records)]).await?;
        }
        Ok(())
    }
}

/// Schedules to be stored, column by column.
#[derive(Default)]
struct Rows {
    names: Vec<String>,
    read: Vec<i64>,
    versions: Vec<i64>,
    look_at: Vec<Option<Instant>>,
    last_jobs: Vec<Option<i64>>,
    records: Vec<String>,
}

impl Rows {
    fn push(&mut self, change: &ScheduleChange, version: u64, look_at: Option<Instant>, job: Option<i64>) {
        self.names.push(change.name.to_string());
        self.read.push(i64::try_from(change.read).unwrap_or(i64::MAX));
        self.versions.push(i64::try_from(version).unwrap_or(i64::MAX));
        self.look_at.push(look_at);
        self.last_jobs.push(job);
        self.records.push(change.to.as_ref().map_or_else(String::new, |record| record.to_text()));
    }

    async fn save(&self, store: &Store, tx: &Tx) -> StoreResult<Vec<Row>> {
        if self.names.is_empty() {
            return Ok(Vec::new());
        }
        let params = [
            texts(&self.names),
            numbers(&self.read),
            numbers(&self.versions),
            instants(&self.look_at),
            numbers(&self.last_jobs),
            texts(&self.records),
        ];
        tx.query(&store.sql.save_schedules, &params).await
    }
}

/// The last job of a schedule when it was locked.
fn last_job(change: &ScheduleChange, before: &Standing) -> Option<JobId> {
    before.get(change.name.as_str()).and_then(|(_, job)| *job).map(JobId)
}

fn answer_of(put: &Put) -> Option<EnqueueAnswer> {
    match put {
        Put::Answered(answer) => Some(answer.clone()),
        Put::Overlaps(_) => None,
    }
}

/// The answers to jobs that the server refused.
fn refusals(count: usize, why: &str) -> Vec<Put> {
    let refused = Put::Answered(EnqueueAnswer::Refused(Refusal::Malformed { why: why.to_owned() }));
    vec![refused; count]
}

fn with_answers(changed: ScheduleChanged, jobs: &[Put]) -> ScheduleChanged {
    match changed {
        ScheduleChanged::Done { version, .. } => ScheduleChanged::Done { version, jobs: jobs.to_vec() },
        other => other,
    }
}
