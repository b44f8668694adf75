//! Drains, their marks, and the jobs that they make: a look is one step of the writer's transaction.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Row, params};
use windlass_core::clock::Timestamp;
use windlass_core::drains::rules::{
    Left, Stand, is_drained, look_after_failure, look_again, marks, may_look,
};
use windlass_core::drains::spec::{DrainSpec, Watched, maker};
use windlass_core::drains::{
    DrainChange, DrainChanged, DrainFired, DrainFiring, DrainRecord, DrainsRead, StoredDrain, WhichDrains,
};
use windlass_core::enqueue::Enqueued;
use windlass_core::error::EngineError;
use windlass_core::gate::{Gate, SERIES};
use windlass_core::limits::DRAINS_MAX;
use windlass_core::names::{DrainName, GroupName, QueueName, TypeName};
use windlass_core::schedules::next_version;

use super::catalogue::TypeEntry;
use super::fault::Step;
use super::row::lossy;
use super::sql::sql;
use super::work::{Did, Work};

pub(super) fn read(conn: &Connection, which: &WhichDrains, now: Timestamp) -> Step<DrainsRead> {
    let any = count(conn)? > 0;
    let mut read = DrainsRead { drains: Vec::new(), damaged: Vec::new(), any, next: None, now };
    match which {
        WhichDrains::Named(names) => {
            for name in names {
                let rows = rows(conn, sql!("find_drain"), params![name.as_str()])?;
                rows.into_iter().for_each(|row| row.add_to(&mut read));
            }
        }
        WhichDrains::After(after, _) => {
            let after = after.as_ref().map_or("", DrainName::as_str);
            let rows = rows(conn, sql!("list_drains"), params![after, which.limit()])?;
            rows.into_iter().for_each(|row| row.add_to(&mut read));
        }
        WhichDrains::Marked(_) => {}
    }
    let (due, later): (Vec<_>, Vec<_>) =
        rows(conn, sql!("marked_drains"), params![])?.into_iter().partition(|row| may_look(row.look_at, now));
    read.next = later.iter().filter_map(|row| row.look_at).min();
    if matches!(which, WhichDrains::Marked(_)) {
        due.into_iter().take(which.limit() as usize).for_each(|row| row.add_to(&mut read));
    }
    Ok(read)
}

fn count(conn: &Connection) -> Step<u32> {
    Ok(conn.prepare_cached(sql!("count_drains"))?.query_row([], |row| row.get(0))?)
}

/// A row of a drain.
struct DrainRow {
    name: DrainName,
    version: u64,
    last_job: Option<i64>,
    is_marked: bool,
    look_at: Option<Timestamp>,
    record: String,
}

impl DrainRow {
    /// Nothing if its name was damaged, which must not keep the others from being read.
    fn read(row: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        let Ok(name) = DrainName::parse(&lossy(row, 0)?.unwrap_or_default()) else { return Ok(None) };
        Ok(Some(Self {
            name,
            version: row.get::<_, i64>(1)?.unsigned_abs(),
            last_job: row.get(2)?,
            is_marked: row.get(3)?,
            record: lossy(row, 4)?.unwrap_or_default(),
            look_at: row.get::<_, Option<i64>>(5)?.map(Timestamp::from_micros),
        }))
    }

    fn add_to(self, read: &mut DrainsRead) {
        let Self { name, version, last_job, is_marked, record, .. } = self;
        match StoredDrain::from_store(&name, version, last_job, is_marked, &record) {
            Some(drain) => read.drains.push(drain),
            None => read.damaged.push((name, version)),
        }
    }
}

fn rows(conn: &Connection, sql: &str, given: &[&dyn rusqlite::ToSql]) -> Step<Vec<DrainRow>> {
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map(given, DrainRow::read)?;
    Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// What a drain watches.
#[derive(Debug)]
pub(super) struct Watch {
    name: DrainName,
    watch: Watched,
    wait_for_retries: bool,
    is_marked: bool,
}

impl Watch {
    /// Nothing if it cannot be read: then nothing can be said of its group either.
    fn read(row: &Row<'_>) -> rusqlite::Result<Option<Self>> {
        let (name, kind, of) = (lossy(row, 0)?, lossy(row, 1)?, lossy(row, 2)?.unwrap_or_default());
        let watch = match kind.as_deref() {
            Some("group") => GroupName::parse(&of).ok().map(Watched::Group),
            Some("queue") => QueueName::parse(&of).ok().map(Watched::Queue),
            Some("type") => TypeName::parse(&of).ok().map(Watched::Type),
            _ => None,
        };
        let (Ok(name), Some(watch)) = (DrainName::parse(&name.unwrap_or_default()), watch) else {
            return Ok(None);
        };
        Ok(Some(Self { name, watch, wait_for_retries: row.get(3)?, is_marked: false }))
    }
}

/// A job that moves, as far as drains ask.
pub(super) struct Mover<'a> {
    pub(super) kind: &'a TypeEntry,
    pub(super) group: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) from: Stand<'a>,
}

impl Work<'_> {
    pub(super) fn change_drains(&mut self, changes: &[DrainChange]) -> Step<Vec<DrainChanged>> {
        changes.iter().map(|change| self.change_drain(change)).collect()
    }

    fn change_drain(&mut self, change: &DrainChange) -> Step<DrainChanged> {
        let before = self.find_drain(&change.name)?;
        let version = before.as_ref().map_or(0, |row| row.version);
        if version != change.read {
            return Ok(DrainChanged::Changed);
        }
        self.watches = None;
        let Some(record) = &change.to else {
            self.conn.prepare_cached(sql!("remove_drain"))?.execute([change.name.as_str()])?;
            self.conn.prepare_cached(sql!("unmark_drain"))?.execute([change.name.as_str()])?;
            return Ok(DrainChanged::Done { version });
        };
        if before.is_none() && count(self.conn)? >= DRAINS_MAX {
            return Ok(DrainChanged::NoRoom);
        }
        let version = next_version(version, self.now);
        // Marks of a group that it watched before, or of another drain of this name, are none of its business.
        if !self.watches_the_same(&record.spec)? {
            self.conn.prepare_cached(sql!("unmark_drain"))?.execute([change.name.as_str()])?;
        }
        self.save_drain(record, version, before.and_then(|row| row.last_job))?;
        Ok(DrainChanged::Done { version })
    }

    fn watches_the_same(&self, spec: &DrainSpec) -> Step<bool> {
        let given = params![spec.name.as_str(), spec.watch.kind(), spec.watch.name()];
        Ok(self.conn.prepare_cached(sql!("watches_this"))?.query_row(given, |row| row.get(0))?)
    }

    fn find_drain(&self, name: &DrainName) -> Step<Option<DrainRow>> {
        Ok(rows(self.conn, sql!("find_drain"), params![name.as_str()])?.pop())
    }

    fn save_drain(&self, record: &DrainRecord, version: u64, last_job: Option<i64>) -> Step<()> {
        let spec = &record.spec;
        self.conn.prepare_cached(sql!("save_drain"))?.execute(params![
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

    pub(super) fn fire_drains(&mut self, firings: &[DrainFiring]) -> Step<Vec<DrainFired>> {
        firings.iter().map(|firing| self.fire_apart(firing)).collect()
    }

    /// Each under a savepoint of its own: one whose look fails must wait, and keeps none of the others.
    fn fire_apart(&mut self, firing: &DrainFiring) -> Step<DrainFired> {
        let before = self.did.clone();
        self.conn.execute_batch("SAVEPOINT firing")?;
        let fault = match self.fire_drain(firing) {
            Ok(fired) => {
                self.conn.execute_batch("RELEASE firing")?;
                return Ok(fired);
            }
            // SQLite may have rolled everything back by itself; then there is no savepoint any more.
            Err(fault) if self.conn.is_autocommit() => return Err(fault),
            Err(fault) => fault,
        };
        self.conn.execute_batch("ROLLBACK TO firing; RELEASE firing")?;
        // What was read of queues and types is read again before the next operation.
        self.did = Did { declared: true, ..before };
        self.watches = None;
        let error = EngineError::from(fault);
        if error.is_passing() {
            return Err(error.into());
        }
        tracing::error!(drain = %firing.name, %error, "a look at a drain failed; it is made again later");
        let look_at = self.now.plus(look_after_failure(false)).as_micros();
        self.conn.prepare_cached(sql!("set_look_at"))?.execute(params![firing.name.as_str(), look_at])?;
        Ok(DrainFired::Later)
    }

    fn fire_drain(&mut self, firing: &DrainFiring) -> Step<DrainFired> {
        let Some(row) = self.find_drain(&firing.name)?.filter(|row| row.version == firing.read) else {
            return Ok(DrainFired::Changed);
        };
        if !row.is_marked {
            return Ok(DrainFired::Unmarked);
        }
        if !may_look(row.look_at, self.now) {
            return Ok(DrainFired::Later);
        }
        let look_at = look_again(self.now, Duration::ZERO).as_micros();
        self.conn.prepare_cached(sql!("set_look_at"))?.execute(params![firing.name.as_str(), look_at])?;
        self.conn.prepare_cached(sql!("unmark_drain"))?.execute([firing.name.as_str()])?;
        self.watches = None;
        let spec = &firing.to.spec;
        if !is_drained(self.left_of(spec)?, spec.wait_for_retries) {
            return Ok(DrainFired::Held);
        }
        let job = self.put_all(vec![firing.job.clone()])?.pop();
        let job = job.expect("one answer for one job");
        let last_job = match &job {
            Enqueued::New(id) => Some(id.0),
            _ => row.last_job,
        };
        let version = next_version(row.version, self.now);
        self.save_drain(&firing.kept(&job), version, last_job)?;
        Ok(DrainFired::Fired { version, job })
    }

    /// What is left of the group of a drain.
    fn left_of(&self, spec: &DrainSpec) -> Step<Left> {
        let types = match &spec.watch {
            Watched::Group(group) => return self.left_of_group(group),
            Watched::Queue(queue) => self.types_in(queue),
            Watched::Type(name) => self.catalogue.type_named(name).into_iter().collect(),
        };
        let mut left = Left::default();
        for kind in types {
            let more = self.left_of_type(&kind, &spec.watch)?;
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

    fn left_of_type(&self, kind: &TypeEntry, watch: &Watched) -> Step<Left> {
        let line = |after: char| format!("{SERIES}{}{after}", kind.spec.name);
        let (now, group, of) = (self.now.as_micros(), watch.kind(), watch.name());
        let given = params![kind.id, now, group, of, line(':'), line(';')];
        Ok(self.conn.prepare_cached(sql!("left_of_type"))?.query_row(given, read_left)?)
    }

    fn left_of_group(&self, group: &GroupName) -> Step<Left> {
        let after = Gate::after_series();
        let given = params![group.as_str(), self.now.as_micros(), SERIES, after.as_str()];
        Ok(self.conn.prepare_cached(sql!("left_of_group"))?.query_row(given, read_left)?)
    }

    /// A job goes there: marks the drains that it held.
    pub(super) fn mark_drains(&mut self, job: &Mover<'_>, to: Stand<'_>) -> Step<()> {
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
                conn.prepare_cached(sql!("mark_drain"))?.execute([watch.name.as_str()])?;
                watch.is_marked = true;
                self.did.hints.drain();
            }
        }
        Ok(())
    }

    /// What a drain watches, of those that were read.
    fn watched_by(&self, name: &DrainName) -> Option<Watched> {
        self.watches.iter().flatten().find(|watch| watch.name == *name).map(|watch| watch.watch.clone())
    }
}

fn read_left(row: &Row<'_>) -> rusqlite::Result<Left> {
    Ok(Left { running: row.get(0)?, could_run: row.get(1)?, unfinished: row.get(2)? })
}
