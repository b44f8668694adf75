//! Completion triggers, their marks, and the jobs that they enqueue: an evaluation is one step of the
//! writer's transaction.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Row, params};
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::error::EngineError;
use windlass_core::gate::{Gate, ORDERING_KEY};
use windlass_core::limits::TRIGGERS_MAX;
use windlass_core::names::{GroupName, QueueName, TriggerName, TypeName};
use windlass_core::schedules::next_version;
use windlass_core::triggers::rules::{
    JobStanding, Left, has_finished, look_after_failure, look_again, marks, may_look,
};
use windlass_core::triggers::spec::{CompletionTrigger, Watched, maker};
use windlass_core::triggers::{
    StoredTrigger, TriggerChange, TriggerChanged, TriggerFired, TriggerFiring, TriggerRecord, TriggersRead,
    WhichTriggers,
};

use super::catalogue::TypeEntry;
use super::row::lossy;
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::{Did, Work};

pub(super) fn read(conn: &Connection, which: &WhichTriggers, now: Timestamp) -> StoreResult<TriggersRead> {
    let any = count(conn)? > 0;
    let mut read = TriggersRead { triggers: Vec::new(), damaged: Vec::new(), any, next: None, now };
    match which {
        WhichTriggers::Named(names) => {
            for name in names {
                let rows = rows(conn, sql!("find_trigger"), params![name.as_str()])?;
                rows.into_iter().for_each(|row| row.add_to(&mut read));
            }
        }
        WhichTriggers::After(after, _) => {
            let after = after.as_ref().map_or("", TriggerName::as_str);
            let rows = rows(conn, sql!("list_triggers"), params![after, which.limit()])?;
            rows.into_iter().for_each(|row| row.add_to(&mut read));
        }
        WhichTriggers::Marked(_) => {}
    }
    let (due, later): (Vec<_>, Vec<_>) = rows(conn, sql!("marked_triggers"), params![])?
        .into_iter()
        .partition(|row| may_look(row.look_at, now));
    read.next = later.iter().filter_map(|row| row.look_at).min();
    if matches!(which, WhichTriggers::Marked(_)) {
        due.into_iter().take(which.limit() as usize).for_each(|row| row.add_to(&mut read));
    }
    Ok(read)
}

fn count(conn: &Connection) -> StoreResult<u32> {
    Ok(conn.prepare_cached(sql!("count_triggers"))?.query_row([], |row| row.get(0))?)
}

/// A row of a trigger.
struct TriggerRow {
    name: TriggerName,
    version: u64,
    last_job: Option<i64>,
    is_marked: bool,
    look_at: Option<Timestamp>,
    record: String,
}

impl TriggerRow {
    /// Reads a row; `None` if its name is damaged, which must not keep the others from being read.
    fn read(row: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        let Ok(name) = TriggerName::parse(&lossy(row, 0)?.unwrap_or_default()) else { return Ok(None) };
        Ok(Some(Self {
            name,
            version: row.get::<_, i64>(1)?.unsigned_abs(),
            last_job: row.get(2)?,
            is_marked: row.get(3)?,
            record: lossy(row, 4)?.unwrap_or_default(),
            look_at: row.get::<_, Option<i64>>(5)?.map(Timestamp::from_micros),
        }))
    }

    fn add_to(self, read: &mut TriggersRead) {
        let Self { name, version, last_job, is_marked, record, .. } = self;
        match StoredTrigger::from_store(&name, version, last_job, is_marked, &record) {
            Some(trigger) => read.triggers.push(trigger),
            None => read.damaged.push((name, version)),
        }
    }
}

fn rows(conn: &Connection, sql: &str, given: &[&dyn rusqlite::ToSql]) -> StoreResult<Vec<TriggerRow>> {
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(given, TriggerRow::read)?;
    Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The group that a trigger watches.
#[derive(Debug)]
pub(super) struct Watch {
    name: TriggerName,
    watch: Watched,
    wait_for_retries: bool,
    is_marked: bool,
}

impl Watch {
    /// Reads a watched group; `None` if it cannot be read: then its group is unknown, too.
    fn read(row: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        let (name, kind, of) = (lossy(row, 0)?, lossy(row, 1)?, lossy(row, 2)?.unwrap_or_default());
        let watch = match kind.as_deref() {
            Some("group") => GroupName::parse(&of).ok().map(Watched::Group),
            Some("queue") => QueueName::parse(&of).ok().map(Watched::Queue),
            Some("type") => TypeName::parse(&of).ok().map(Watched::Type),
            _ => None,
        };
        let (Ok(name), Some(watch)) = (TriggerName::parse(&name.unwrap_or_default()), watch) else {
            return Ok(None);
        };
        Ok(Some(Self { name, watch, wait_for_retries: row.get(3)?, is_marked: false }))
    }
}

/// A job that moves, with the fields that triggers need.
pub(super) struct Mover<'a> {
    pub(super) kind: &'a TypeEntry,
    pub(super) group: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) from: JobStanding<'a>,
}

impl Work<'_> {
    pub(super) fn change_triggers(&mut self, changes: &[TriggerChange]) -> StoreResult<Vec<TriggerChanged>> {
        changes.iter().map(|change| self.change_trigger(change)).collect()
    }

    fn change_trigger(&mut self, change: &TriggerChange) -> StoreResult<TriggerChanged> {
        let before = self.find_trigger(&change.name)?;
        let version = before.as_ref().map_or(0, |row| row.version);
        if version != change.read {
            return Ok(TriggerChanged::Changed);
        }
        self.watches = None;
        let Some(record) = &change.to else {
            self.conn.prepare_cached(sql!("remove_trigger"))?.execute([change.name.as_str()])?;
            self.conn.prepare_cached(sql!("unmark_trigger"))?.execute([change.name.as_str()])?;
            return Ok(TriggerChanged::Done { version });
        };
        if before.is_none() && count(self.conn)? >= TRIGGERS_MAX {
            return Ok(TriggerChanged::NoRoom);
        }
        let version = next_version(version, self.now);
        // Marks of a group that it watched before, or of another trigger of this name, do not concern it.
        if !self.watches_the_same(&record.spec)? {
            self.conn.prepare_cached(sql!("unmark_trigger"))?.execute([change.name.as_str()])?;
        }
        self.save_trigger(record, version, before.and_then(|row| row.last_job))?;
        Ok(TriggerChanged::Done { version })
    }

    fn watches_the_same(&self, spec: &CompletionTrigger) -> StoreResult<bool> {
        let given = params![spec.name.as_str(), spec.watch.kind(), spec.watch.name()];
        Ok(self.conn.prepare_cached(sql!("watches_this"))?.query_row(given, |row| row.get(0))?)
    }

    fn find_trigger(&self, name: &TriggerName) -> StoreResult<Option<TriggerRow>> {
        Ok(rows(self.conn, sql!("find_trigger"), params![name.as_str()])?.pop())
    }

    fn save_trigger(&self, record: &TriggerRecord, version: u64, last_job: Option<i64>) -> StoreResult<()> {
        let spec = &record.spec;
        self.conn.prepare_cached(sql!("save_trigger"))?.execute(params![
            spec.name.as_str(),
            i64::try_from(version).unwrap_or(i64::MAX),
            spec.watch.kind(),
            spec.watch.name(),
            spec.wait_for_retries,
            last_job,
            record.to_text(),
        ])?;
        Ok(())
    }

    pub(super) fn fire_triggers(&mut self, firings: &[TriggerFiring]) -> StoreResult<Vec<TriggerFired>> {
        firings.iter().map(|firing| self.fire_apart(firing)).collect()
    }

    /// Fires each trigger under a savepoint of its own: a trigger whose evaluation fails must wait, and
    /// stops none of the others.
    fn fire_apart(&mut self, firing: &TriggerFiring) -> StoreResult<TriggerFired> {
        let before = self.did.clone();
        self.conn.execute_batch("SAVEPOINT firing")?;
        let fault = match self.fire_trigger(firing) {
            Ok(fired) => {
                self.conn.execute_batch("RELEASE firing")?;
                return Ok(fired);
            }
            // SQLite may have rolled everything back by itself; then there is no savepoint any more.
            Err(fault) if self.conn.is_autocommit() => return Err(fault),
            Err(fault) => fault,
        };
        self.conn.execute_batch("ROLLBACK TO firing; RELEASE firing")?;
        // Queues and types are read again before the next operation.
        self.did = Did { declared: true, ..before };
        self.watches = None;
        let error = EngineError::from(fault);
        if error.is_passing() {
            return Err(error.into());
        }
        tracing::error!(trigger = %firing.name, %error, "evaluating a completion trigger failed; it is retried later");
        let look_at = self.now.plus(look_after_failure(false)).as_micros();
        self.conn.prepare_cached(sql!("set_look_at"))?.execute(params![firing.name.as_str(), look_at])?;
        Ok(TriggerFired::Later)
    }

    fn fire_trigger(&mut self, firing: &TriggerFiring) -> StoreResult<TriggerFired> {
        let Some(row) = self.find_trigger(&firing.name)?.filter(|row| row.version == firing.read) else {
            return Ok(TriggerFired::Changed);
        };
        if !row.is_marked {
            return Ok(TriggerFired::Unmarked);
        }
        if !may_look(row.look_at, self.now) {
            return Ok(TriggerFired::Later);
        }
        let look_at = look_again(self.now, Duration::ZERO).as_micros();
        self.conn.prepare_cached(sql!("set_look_at"))?.execute(params![firing.name.as_str(), look_at])?;
        self.conn.prepare_cached(sql!("unmark_trigger"))?.execute([firing.name.as_str()])?;
        self.watches = None;
        let spec = &firing.to.spec;
        if !has_finished(self.left_of(spec)?, spec.wait_for_retries) {
            return Ok(TriggerFired::Held);
        }
        let job = self.enqueue_all(vec![firing.job.clone()])?.pop();
        let job = job.expect("one answer for one job");
        let last_job = match &job {
            EnqueueAnswer::New(id) => Some(id.0),
            _ => row.last_job,
        };
        let version = next_version(row.version, self.now);
        self.save_trigger(&firing.kept(&job), version, last_job)?;
        Ok(TriggerFired::Fired { version, job })
    }

    /// Returns which work of a trigger's group is left.
    fn left_of(&self, spec: &CompletionTrigger) -> StoreResult<Left> {
        let types = match &spec.watch {
            Watched::Group(group) => return self.group_has_work(group),
            Watched::Queue(queue) => self.types_in(queue),
            Watched::Type(name) => self.catalogue.type_named(name).into_iter().collect(),
        };
        let mut left = Left::default();
        for kind in types {
            let more = self.type_has_work(&kind, &spec.watch)?;
            left.running |= more.running;
            left.could_run |= more.could_run;
            left.unfinished |= more.unfinished;
        }
        Ok(left)
    }

    fn types_in(&self, queue: &QueueName) -> Vec<Arc<TypeEntry>> {
        let queue = self.catalogue.queue(queue);
        queue
            .into_iter()
            .flat_map(|queue| self.catalogue.types_of(queue.id).cloned().collect::<Vec<_>>())
            .collect()
    }

    fn type_has_work(&self, kind: &TypeEntry, watch: &Watched) -> StoreResult<Left> {
        let line = |after: char| format!("{ORDERING_KEY}{}{after}", kind.spec.name);
        let (now, group, of) = (self.now.as_micros(), watch.kind(), watch.name());
        let given = params![kind.id, now, group, of, line(':'), line(';')];
        Ok(self.conn.prepare_cached(sql!("type_has_work"))?.query_row(given, read_left)?)
    }

    fn group_has_work(&self, group: &GroupName) -> StoreResult<Left> {
        let after = Gate::after_ordering_key();
        let given = params![group.as_str(), self.now.as_micros(), ORDERING_KEY, after.as_str()];
        Ok(self.conn.prepare_cached(sql!("group_has_work"))?.query_row(given, read_left)?)
    }

    /// Marks the triggers that a job kept unfinished before it moves to this standing.
    pub(super) fn mark_triggers(&mut self, job: &Mover<'_>, to: JobStanding<'_>) -> StoreResult<()> {
        if self.watches.is_none() {
            let mut statement = self.conn.prepare_cached(sql!("watches"))?;
            let watches = statement.query_map([], Watch::read)?.collect::<Result<Vec<_>, _>>()?;
            self.watches = Some(watches.into_iter().flatten().collect());
        }
        let (conn, now) = (self.conn, self.now);
        let made_for = maker(job.key).and_then(|name| self.watched_by(&name));
        for watch in self.watches.iter_mut().flatten().filter(|watch| !watch.is_marked) {
            let group = job.group.and_then(|group| GroupName::parse(group).ok());
            if marks(job.from, to, watch.wait_for_retries, now)
                && watch.watch.has(
                    &job.kind.spec.name,
                    &job.kind.spec.queue,
                    group.as_ref(),
                    made_for.as_ref(),
                )
            {
                conn.prepare_cached(sql!("mark_trigger"))?.execute([watch.name.as_str()])?;
                watch.is_marked = true;
                self.did.hints.trigger();
            }
        }
        Ok(())
    }

    /// Returns the group that a trigger watches, among those that were read.
    fn watched_by(&self, name: &TriggerName) -> Option<Watched> {
        self.watches.iter().flatten().find(|watch| watch.name == *name).map(|watch| watch.watch.clone())
    }
}

fn read_left(row: &Row<'_>) -> rusqlite::Result<Left> {
    Ok(Left { running: row.get(0)?, could_run: row.get(1)?, unfinished: row.get(2)? })
}
