//! Schedules, and the jobs of their ticks: one script compares versions, writes schedules and enqueues their
//! jobs.

use windlass_core::clock::Timestamp;
use windlass_core::enqueue::NewJob;
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_core::key::HolderStage;
use windlass_core::limits::SCHEDULES_MAX;
use windlass_core::names::ScheduleName;
use windlass_core::schedules::{
    Overlapping, PageEnd, Put, ScheduleChange, ScheduleChanged, SchedulesRead, StoredSchedule,
    WhichSchedules, replaced_by,
};

use super::Store;
use super::call::Args;
use super::catalogue::Catalogue;
use super::enqueue::{limits, push_job, read_answers};
use super::reply::ReplyReader;
use super::row::body;
use super::store_error::StoreResult;

impl Store {
    pub(super) async fn schedules(&self, which: WhichSchedules) -> StoreResult<SchedulesRead> {
        let (mut args, scripts) = (Args::new(), self.scripts());
        let script = match &which {
            WhichSchedules::Named(names) => {
                args.count(names.len());
                names.iter().for_each(|name| _ = args.text(name.as_str()));
                &scripts.schedules_named
            }
            WhichSchedules::After(after, _) => {
                args.text(after.as_ref().map_or("", |end| end.name.as_str())).number(which.limit().into());
                &scripts.list_schedules
            }
            WhichSchedules::Due(after, _) => {
                let look_at = after.as_ref().and_then(|end| end.look_at);
                args.number(which.limit().into());
                args.text(&look_at.map_or_else(String::new, |at| at.as_micros().to_string()));
                args.text(after.as_ref().map_or("", |end| end.name.as_str()));
                &scripts.due_schedules
            }
        };
        let reply = self.call(script, args).await?;
        let mut rows = ReplyReader::of(reply.value)?;
        let next = rows.number_or_none()?.map(Timestamp::from_micros);
        let (look_at, name) = (rows.number_or_none()?.map(Timestamp::from_micros), rows.text()?);
        let end = (!name.is_empty()).then_some(PageEnd { look_at, name });
        let (mut schedules, mut damaged) = (Vec::new(), Vec::new());
        while !rows.is_empty() {
            let (name, version, job, record) = (rows.text()?, rows.count()?, rows.text()?, rows.text()?);
            // A damaged name must not keep the others from being read.
            let Ok(name) = ScheduleName::parse(&name) else { continue };
            match StoredSchedule::from_store(&name, version, job.parse().ok(), &record) {
                Some(schedule) => schedules.push(schedule),
                None => damaged.push((name, version)),
            }
        }
        Ok(SchedulesRead { schedules, damaged, end, next, now: reply.now })
    }

    pub(super) async fn change_schedules(
        &self,
        changes: Vec<ScheduleChange>,
    ) -> StoreResult<Vec<ScheduleChanged>> {
        let bodies: Vec<Vec<_>> =
            changes.iter().map(|change| change.jobs.iter().map(body).collect()).collect();
        let build = |catalogue: &Catalogue| Ok(self.change_args(&changes, &bodies, catalogue));
        let reply = self.call_with_catalogue(&self.scripts().change_schedules, build).await?;
        let mut answers = ReplyReader::of(reply.value)?;
        let mut changed = Vec::with_capacity(changes.len());
        for _ in &changes {
            changed.push(read_changed(&mut answers)?);
        }
        let new = changed.iter().flat_map(|changed| match changed {
            ScheduleChanged::Done { jobs, .. } => jobs.as_slice(),
            ScheduleChanged::Changed | ScheduleChanged::NoRoom => &[],
        });
        reply.from.seen.jobs(new.filter_map(Put::new_job));
        Ok(changed)
    }

    fn change_args(&self, changes: &[ScheduleChange], bodies: &[Vec<String>], catalogue: &Catalogue) -> Args {
        let (now, mut args) = (self.estimated_now(), Args::new());
        limits(changes.iter().flat_map(|change| &change.jobs), catalogue, &mut args);
        args.number(SCHEDULES_MAX.into()).count(changes.len());
        for (change, bodies) in changes.iter().zip(bodies) {
            args.text(change.name.as_str()).text(&change.read.to_string());
            let look_at = change.to.as_ref().and_then(|record| record.look_at());
            args.text(&change.to.as_ref().map_or_else(String::new, |record| record.to_text()));
            args.text(&look_at.map_or_else(String::new, |at| at.as_micros().to_string()));
            args.text(&decision_table(change)).text(&replaced_by(&change.name)).text(&ticks(change));
            args.count(change.jobs.len());
            let jobs: &[NewJob] = &change.jobs;
            for (new, body) in jobs.iter().zip(bodies) {
                push_job(new, body, catalogue, now, &mut args);
            }
        }
        args
    }
}

/// Core's decisions on overlapping, by the stage of the last job: one that waits, runs, is dead, has ended.
fn decision_table(change: &ScheduleChange) -> String {
    let stages = [HolderStage::Waiting, HolderStage::Running, HolderStage::Dead, HolderStage::Ended];
    let letter = |stage| match change.overlap.decide(stage) {
        Overlapping::Put if change.by_hand => 'h',
        Overlapping::Put => 'p',
        Overlapping::LeaveOut => 'l',
        Overlapping::CancelLast => 'c',
    };
    stages.into_iter().map(letter).collect()
}

/// The instants of a change's ticks.
fn ticks(change: &ScheduleChange) -> String {
    let instants: Vec<_> = change.ticks.iter().map(|tick| tick.as_micros().to_string()).collect();
    instants.join(" ")
}

fn read_changed(answers: &mut ReplyReader) -> StoreResult<ScheduleChanged> {
    let (outcome, version, lines) = (answers.text()?, answers.text()?, answers.text()?);
    match outcome.as_str() {
        "changed" => Ok(ScheduleChanged::Changed),
        "full" => Ok(ScheduleChanged::NoRoom),
        _ => {
            let jobs = lines.lines().map(read_put).collect::<StoreResult<Vec<_>>>()?;
            Ok(ScheduleChanged::Done { version: version.parse().unwrap_or_default(), jobs })
        }
    }
}

fn read_put(line: &str) -> StoreResult<Put> {
    if let Some(last) = line.strip_prefix('o').and_then(|id| id.parse().ok()) {
        return Ok(Put::Overlaps(JobId(last)));
    }
    let answer = read_answers(line)?.pop().ok_or_else(|| EngineError::Unusable {
        why: "expected an answer for each job of a schedule, got none".to_owned(),
    })?;
    Ok(Put::Answered(answer))
}
