//! The duty of firing schedules: all that is due, batch by batch. It is right if two do it at once: its lease only saves
//! work.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::engine::Engine;
use windlass_core::enqueue::Enqueued;
use windlass_core::error::EngineError;
use windlass_core::limits::{ENQUEUE_BATCH_MAX, SCHEDULES_MAX, SCHEDULES_PER_CALL_MAX};
use windlass_core::schedules::fire::{Firing, fire};
use windlass_core::schedules::{Put, ScheduleChanged, WhichSchedules};

use super::{change, read};

/// Schedules that are read at once.
const BATCH: u32 = SCHEDULES_PER_CALL_MAX as u32;
/// So many batches hold all schedules that a store keeps. What is due again after that waits for the next run.
const BATCHES_MAX: u32 = SCHEDULES_MAX / BATCH;

/// Fires schedules.
pub(crate) struct ScheduleDuty {
    engine: Arc<dyn Engine>,
}

/// What a run did, and when the next should be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fired {
    /// Jobs that were made.
    pub(crate) jobs: usize,
    /// In which time the next schedule is due; nothing if none is.
    pub(crate) next: Option<Duration>,
}

impl ScheduleDuty {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// Fires all that is due now.
    pub(crate) async fn run(&self) -> Result<Fired, EngineError> {
        let mut fired = Fired::default();
        for _ in 0..BATCHES_MAX {
            let due = read(&self.engine, WhichSchedules::Due(BATCH)).await?;
            fired.next = due.next.map(|next| next.since(due.now));
            for (name, _) in &due.damaged {
                tracing::error!(schedule = %name, "a schedule cannot be read, and so it does not run");
            }
            let firings: Vec<_> = due.schedules.iter().filter_map(|stored| fire(stored, due.now)).collect();
            // What is due and yet gives nothing to do, as by a clock from another age, must not be asked for again and again.
            if firings.is_empty() {
                return Ok(fired);
            }
            for part in parts(firings) {
                fired.jobs += self.fire_part(part, due.now).await?;
            }
        }
        fired.next = Some(Duration::ZERO);
        Ok(fired)
    }

    async fn fire_part(&self, firings: Vec<Firing>, now: Timestamp) -> Result<usize, EngineError> {
        let changes = firings.iter().map(|firing| firing.change.clone()).collect();
        let answers = change(&self.engine, changes).await?;
        let mut jobs = 0;
        let mut reports = Vec::new();
        for (firing, answer) in firings.iter().zip(&answers) {
            jobs += tell(firing, answer);
            reports.extend(firing.refused(answer, now));
        }
        if !reports.is_empty() {
            // Whoever was faster has decided about a later tick, and tells of that.
            change(&self.engine, reports).await?;
        }
        Ok(jobs)
    }
}

/// Firings in requests that hold no more jobs than one may.
fn parts(firings: Vec<Firing>) -> Vec<Vec<Firing>> {
    let (mut parts, mut jobs) = (vec![Vec::new()], 0);
    for firing in firings {
        let more = firing.change.jobs.len();
        if jobs + more > ENQUEUE_BATCH_MAX {
            parts.push(Vec::new());
            jobs = 0;
        }
        jobs += more;
        parts.last_mut().expect("there is always one").push(firing);
    }
    parts
}

/// Tells of what was done, if it was this process that did it, and counts the jobs.
fn tell(firing: &Firing, answer: &ScheduleChanged) -> usize {
    let ScheduleChanged::Done { jobs, .. } = answer else { return 0 };
    let schedule = &firing.change.name;
    if let Some(alert) = &firing.alert {
        tracing::warn!(%schedule, alarm = %alert.alarm, dropped = firing.due.dropped.count,
            "a schedule did not run when it should have");
    }
    for (tick, put) in firing.ticks.iter().zip(jobs) {
        match put {
            Put::Answered(Enqueued::Refused(why)) => {
                tracing::warn!(%schedule, %tick, %why, "a schedule did not run when it should have: its job was refused");
            }
            Put::Answered(answer) => {
                let job = answer.job().map_or(0, |id| id.0);
                tracing::debug!(%schedule, %tick, job.id = job, "a schedule made its job");
            }
            Put::Overlaps(last) => {
                tracing::info!(%schedule, %tick, last = last.0, "a tick was left out, since the last job is still live");
            }
        }
    }
    jobs.iter().filter(|put| put.new_job().is_some()).count()
}
