//! Schedules, and the jobs that they enqueue: a change and its jobs are one step of the writer's
//! transaction.

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use windlass_core::clock::Timestamp;
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::job::JobId;
use windlass_core::key::HolderStage;
use windlass_core::limits::SCHEDULES_MAX;
use windlass_core::names::ScheduleName;
use windlass_core::schedules::{
    GivesWay, Overlapping, PageEnd, Put, ScheduleChange, ScheduleChanged, SchedulesRead, StoredSchedule,
    WhichSchedules, end_makes_room, next_version, replaced_by,
};

use super::apply::LiveJob;
use super::enqueue::Depths;
use super::row::lossy;
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;

pub(super) fn read(conn: &Connection, which: &WhichSchedules, now: Timestamp) -> StoreResult<SchedulesRead> {
    let (limit, at) = (which.limit(), now.as_micros());
    let next: Option<i64> = conn.prepare_cached(sql!("next_schedule"))?.query_row([at], |row| row.get(0))?;
    let next = next.map(Timestamp::from_micros);
    let mut read = SchedulesRead { schedules: Vec::new(), damaged: Vec::new(), end: None, next, now };
    match which {
        WhichSchedules::Named(names) => {
            for name in names {
                add(conn, sql!("find_schedule"), &[&name.as_str()], &mut read)?;
            }
        }
        WhichSchedules::After(after, _) => {
            let after = after.as_ref().map_or("", |end| end.name.as_str());
            add(conn, sql!("list_schedules"), &[&after, &limit], &mut read)?;
        }
        WhichSchedules::Due(after, _) => {
            let look_at = after.as_ref().and_then(|end| end.look_at).map_or(i64::MIN, Timestamp::as_micros);
            let name = after.as_ref().map_or("", |end| end.name.as_str());
            add(conn, sql!("due_schedules"), &[&at, &limit, &look_at, &name], &mut read)?;
        }
    }
    Ok(read)
}

fn add(conn: &Connection, sql: &str, given: &[&dyn ToSql], read: &mut SchedulesRead) -> StoreResult<()> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(given)?;
    while let Some(row) = rows.next()? {
        let name = lossy(row, 0)?.unwrap_or_default();
        let look_at = row.get::<_, Option<i64>>(4)?.map(Timestamp::from_micros);
        read.end = Some(PageEnd { look_at, name: name.clone() });
        // A damaged name must not keep the others from being read.
        let Ok(name) = ScheduleName::parse(&name) else { continue };
        match stored(&name, row)? {
            Some(schedule) => read.schedules.push(schedule),
            None => read.damaged.push((name, row.get::<_, i64>(1)?.unsigned_abs())),
        }
    }
    Ok(())
}

fn stored(name: &ScheduleName, row: &Row<'_>) -> rusqlite::Result<Option<StoredSchedule>> {
    let version = row.get::<_, i64>(1)?.unsigned_abs();
    let record = lossy(row, 3)?.unwrap_or_default();
    Ok(StoredSchedule::from_store(name, version, row.get(2)?, &record))
}

impl Work<'_> {
    pub(super) fn change_schedules(
        &mut self,
        changes: &[ScheduleChange],
    ) -> StoreResult<Vec<ScheduleChanged>> {
        changes.iter().map(|change| self.change_schedule(change)).collect()
    }

    fn change_schedule(&mut self, change: &ScheduleChange) -> StoreResult<ScheduleChanged> {
        let before: Option<(i64, Option<i64>)> = self
            .conn
            .prepare_cached(sql!("find_schedule"))?
            .query_row([change.name.as_str()], |row| Ok((row.get(1)?, row.get(2)?)))
            .optional()?;
        let (version, last_job) = before.map_or((0, None), |(version, job)| (version.unsigned_abs(), job));
        if version != change.read {
            return Ok(ScheduleChanged::Changed);
        }
        let Some(record) = &change.to else {
            self.conn.prepare_cached(sql!("remove_schedule"))?.execute([change.name.as_str()])?;
            return Ok(ScheduleChanged::Done { version, jobs: Vec::new() });
        };
        if before.is_none() && self.count_schedules()? >= SCHEDULES_MAX {
            return Ok(ScheduleChanged::NoRoom);
        }
        let last_job = last_job.map(JobId);
        let jobs = self.enqueue_scheduled(change, last_job)?;
        let last_job = change.last_job(&jobs, last_job).map(|job| job.0);
        let version = next_version(version, self.now);
        let kept = change.kept(&jobs, self.now).map_or_else(String::new, |record| record.to_text());
        self.conn.prepare_cached(sql!("save_schedule"))?.execute(params![
            change.name.as_str(),
            i64::try_from(version).unwrap_or(i64::MAX),
            record.look_at().map(Timestamp::as_micros),
            last_job,
            kept,
        ])?;
        Ok(ScheduleChanged::Done { version, jobs })
    }

    fn count_schedules(&self) -> StoreResult<u32> {
        Ok(self.conn.prepare_cached(sql!("count_schedules"))?.query_row([], |row| row.get(0))?)
    }

    fn enqueue_scheduled(&mut self, change: &ScheduleChange, last: Option<JobId>) -> StoreResult<Vec<Put>> {
        if change.jobs.is_empty() {
            return Ok(Vec::new());
        }
        let stage = last.map_or(Ok(HolderStage::Ended), |job| self.stage_of(job.0))?;
        match (change.overlap.decide(stage), last) {
            (Overlapping::LeaveOut, Some(last)) => {
                return Ok(change.jobs.iter().map(|_| Put::Overlaps(last)).collect());
            }
            (Overlapping::CancelLast, Some(last)) => return self.enqueue_in_place_of(last, change),
            _ => {}
        }
        Ok(self.enqueue_all(change.jobs.clone())?.into_iter().map(Put::Answered).collect())
    }

    /// Enqueues jobs, and cancels the job that makes room for them.
    fn enqueue_in_place_of(&mut self, last: JobId, change: &ScheduleChange) -> StoreResult<Vec<Put>> {
        let mut answers = self.enqueue_all(change.jobs.clone())?;
        let gives_way = answers.first().map_or(GivesWay::No, GivesWay::to);
        if let Some(job) = self.live_job(last)?.filter(|_| gives_way != GivesWay::No) {
            let why = replaced_by(&change.name);
            if gives_way == GivesWay::Now {
                self.cancel_waiting(&job, &why)?;
            } else if self.end_makes_room(&job, &answers)? {
                self.cancel_waiting(&job, &why)?;
                answers = self.enqueue_all(change.jobs.clone())?;
            }
        }
        Ok(answers.into_iter().map(Put::Answered).collect())
    }

    fn end_makes_room(&self, last: &LiveJob, answers: &[EnqueueAnswer]) -> StoreResult<bool> {
        let of = self.type_of(last.kind)?.spec.queue.clone();
        let Some(queue) = self.catalogue.queue(&of) else { return Ok(false) };
        let unfinished = self.unfinished(&queue, &mut Depths::new())?;
        let refusal = answers.first().and_then(|answer| answer.job().err());
        Ok(refusal.is_some_and(|refusal| end_makes_room(&of, unfinished, refusal)))
    }
}
