//! Schedules, and the jobs that they enqueue.

use std::collections::BTreeMap;

use windlass_core::clock::Timestamp;
use windlass_core::engine::Result;
use windlass_core::enqueue::{EnqueueAnswer, NewJob};
use windlass_core::job::JobId;
use windlass_core::key::HolderStage;
use windlass_core::limits::SCHEDULES_MAX;
use windlass_core::names::ScheduleName;
use windlass_core::planted::{Bug, planted};
use windlass_core::schedules::{
    GivesWay, Overlapping, PageEnd, Put, ScheduleChange, ScheduleChanged, SchedulesRead, StoredSchedule,
    WhichSchedules, check_changes, end_makes_room, next_version, replaced_by,
};

use super::state::State;

/// Schedules by name, each with the time of its next check.
pub(super) type Agenda = BTreeMap<ScheduleName, (Option<Timestamp>, StoredSchedule)>;

impl State {
    pub(super) fn read_schedules(&self, which: &WhichSchedules, now: Timestamp) -> Result<SchedulesRead> {
        which.check()?;
        let limit = which.limit() as usize;
        let rows: Vec<&(Option<Timestamp>, StoredSchedule)> = match which {
            WhichSchedules::Named(names) => names.iter().filter_map(|name| self.agenda.get(name)).collect(),
            WhichSchedules::After(after, _) => {
                let after = after.as_ref().map_or("", |end| end.name.as_str());
                let rows = self.agenda.iter().filter(|(name, _)| name.as_str() > after);
                rows.take(limit).map(|(_, row)| row).collect()
            }
            WhichSchedules::Due(after, _) => self.due_schedules(after.as_ref(), limit, now),
        };
        let end = rows.last().map(|row| page_end(row));
        let schedules = rows.into_iter().map(|(_, row)| row.clone()).collect();
        let ahead = self.agenda.values().filter_map(|(look_at, _)| *look_at).filter(|look_at| *look_at > now);
        Ok(SchedulesRead { schedules, damaged: Vec::new(), end, next: ahead.min(), now })
    }

    fn due_schedules(
        &self,
        after: Option<&PageEnd>,
        limit: usize,
        now: Timestamp,
    ) -> Vec<&(Option<Timestamp>, StoredSchedule)> {
        let due = self.agenda.values().filter(|(look_at, _)| look_at.is_some_and(|look_at| look_at <= now));
        let mut due: Vec<_> = due.filter(|row| after.is_none_or(|end| page_end(row) > *end)).collect();
        due.sort_by_key(|(look_at, row)| (*look_at, row.name()));
        due.truncate(limit);
        due
    }

    pub(super) fn change_schedules(
        &mut self,
        changes: &[ScheduleChange],
        now: Timestamp,
    ) -> Result<Vec<ScheduleChanged>> {
        check_changes(changes)?;
        Ok(changes.iter().map(|change| self.change_schedule(change, now)).collect())
    }

    fn change_schedule(&mut self, change: &ScheduleChange, now: Timestamp) -> ScheduleChanged {
        let before = self.agenda.get(&change.name).map(|(_, row)| (row.version, row.last_job));
        let (version, last_job) = before.unwrap_or((0, None));
        if version != change.read && !planted(Bug::StaleTickFires) {
            return ScheduleChanged::Changed;
        }
        if change.to.is_none() {
            self.agenda.remove(&change.name);
            return ScheduleChanged::Done { version, jobs: Vec::new() };
        }
        if before.is_none() && self.agenda.len() >= SCHEDULES_MAX as usize {
            return ScheduleChanged::NoRoom;
        }
        let stage = last_job.map_or(HolderStage::Ended, |job| self.stage_of(job));
        let jobs = match (change.overlap.decide(stage), last_job) {
            (Overlapping::LeaveOut, Some(last)) => change.jobs.iter().map(|_| Put::Overlaps(last)).collect(),
            (Overlapping::CancelLast, Some(last)) => {
                let why = replaced_by(&change.name);
                let put = |new: &NewJob| Put::Answered(self.enqueue_in_place_of(last, new, &why, now));
                change.jobs.iter().map(put).collect()
            }
            _ => self.enqueue_scheduled(&change.jobs, now),
        };
        let last_job = change.last_job(&jobs, last_job);
        let version = next_version(version, now);
        if let Some(record) = change.kept(&jobs, now) {
            let row = StoredSchedule { version, last_job, record };
            self.agenda.insert(change.name.clone(), (row.record.look_at(), row));
        }
        ScheduleChanged::Done { version, jobs }
    }

    /// Enqueues a job, and cancels the job that makes room for it.
    fn enqueue_in_place_of(&mut self, last: JobId, new: &NewJob, why: &str, now: Timestamp) -> EnqueueAnswer {
        let answer = self.enqueue_one(new.clone(), now);
        match GivesWay::to(&answer) {
            GivesWay::Now => _ = self.cancel_waiting(last, why, now),
            GivesWay::IfThatMakesRoom if self.end_makes_room(last, &answer) => {
                self.cancel_waiting(last, why, now);
                return self.enqueue_one(new.clone(), now);
            }
            GivesWay::IfThatMakesRoom | GivesWay::No => {}
        }
        answer
    }

    fn end_makes_room(&self, last: JobId, answer: &EnqueueAnswer) -> bool {
        let (Some(row), Err(refusal)) = (self.row(last), answer.job()) else { return false };
        let queue = self.index.queue_of(row.type_at);
        end_makes_room(&queue.spec.name, queue.unfinished, refusal)
    }

    fn enqueue_scheduled(&mut self, jobs: &[NewJob], now: Timestamp) -> Vec<Put> {
        jobs.iter().map(|new| Put::Answered(self.enqueue_one(new.clone(), now))).collect()
    }
}

fn page_end((look_at, row): &(Option<Timestamp>, StoredSchedule)) -> PageEnd {
    PageEnd { look_at: *look_at, name: row.name().to_string() }
}
