//! The duty of firing schedules: fires all that are due, batch by batch. The result is correct if two
//! processes do it at once: its lease only saves work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::limits::{ENQUEUE_BATCH_MAX, SCHEDULES_MAX, SCHEDULES_PER_CALL_MAX};
use windlass_core::names::ScheduleName;
use windlass_core::schedules::fire::{Firing, fire, look_later};
use windlass_core::schedules::{ScheduleChange, ScheduleChanged, SchedulesRead, WhichSchedules};

use super::{change, read};
use crate::alerts::{Alert, Alerts};

/// The number of schedules that are read at once.
const BATCH: u32 = SCHEDULES_PER_CALL_MAX as u32;
/// The most batches of one run, which hold all schedules that a store keeps. A schedule that is due again
/// after that waits for the next run.
const BATCHES_MAX: u32 = SCHEDULES_MAX / BATCH;

/// Fires schedules.
pub(crate) struct ScheduleDuty {
    engine: Arc<dyn Engine>,
    alerts: Alerts,
    /// Schedules that cannot be fired, with the version for which an alert was raised: one alert is enough.
    unfit: Mutex<BTreeMap<ScheduleName, u64>>,
}

/// The result of a run, and when the next should be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Fired {
    /// The number of jobs that were enqueued.
    pub(crate) jobs: usize,
    /// The time until the next schedule is due; none if no schedule is.
    pub(crate) next: Option<Duration>,
}

impl ScheduleDuty {
    pub(crate) fn new(engine: Arc<dyn Engine>, alerts: Alerts) -> Self {
        Self { engine, alerts, unfit: Mutex::default() }
    }

    /// Fires all schedules that are due now, or as many as may be fired: then the next run is due at once.
    /// A schedule that cannot be fired is passed over, so that it does not block the others.
    pub(crate) async fn run(&self, may_go_on: impl Fn() -> bool) -> Result<Fired, EngineError> {
        let (mut fired, mut after, mut seen) = (Fired::default(), None, BTreeSet::new());
        for _ in 0..=BATCHES_MAX {
            let due = read(&self.engine, WhichSchedules::Due(after, BATCH)).await?;
            fired.next = due.next.map(|next| next.since(due.now));
            let Some(end) = due.end.clone() else {
                self.forget_all_but(&seen);
                return Ok(fired);
            };
            for (name, version) in &due.damaged {
                self.alert_unfit(name, *version, "the stored schedule cannot be read");
            }
            seen.extend(due.damaged.iter().map(|(name, _)| name.clone()));
            let (firings, too_early) = decide(&due).await;
            for part in parts(firings) {
                if !may_go_on() {
                    return Ok(Fired { next: Some(Duration::ZERO), ..fired });
                }
                fired.jobs += self.fire_part(part, &mut seen).await?;
            }
            if !too_early.is_empty() {
                change(&self.engine, too_early).await?;
            }
            after = Some(end);
        }
        fired.next = Some(Duration::ZERO);
        Ok(fired)
    }

    async fn fire_part(
        &self,
        firings: Vec<Firing>,
        seen: &mut BTreeSet<ScheduleName>,
    ) -> Result<usize, EngineError> {
        let ask = |part: Vec<Firing>| async move {
            let asked = self.ask_for(&part).await;
            (part, asked)
        };
        let (jobs, refused) = in_halves(firings, ask).await?;
        for (firing, why) in refused {
            self.alert_unfit(&firing.change.name, firing.change.read, &why);
            seen.insert(firing.change.name);
        }
        Ok(jobs)
    }

    async fn ask_for(&self, firings: &[Firing]) -> Result<usize, EngineError> {
        let changes = firings.iter().map(|firing| firing.change.clone()).collect();
        let answers = change(&self.engine, changes).await?;
        Ok(firings.iter().zip(&answers).map(|(firing, answer)| self.report(firing, answer)).sum())
    }

    /// Reports a firing, if this process made the change, and counts the jobs. The schedule itself already
    /// stores that a tick enqueued no job.
    fn report(&self, firing: &Firing, answer: &ScheduleChanged) -> usize {
        let ScheduleChanged::Done { jobs, .. } = answer else { return 0 };
        let schedule = &firing.change.name;
        let to = firing.change.to.as_deref();
        let missed = firing.alert.iter().map(|alert| alert.what.clone());
        let made = firing.change.ticks.iter().zip(jobs);
        let made_none = made.clone().filter_map(|(tick, put)| to.and_then(|to| to.news_of(*tick, put)));
        for what in missed.chain(made_none) {
            self.alerts.raise(&Alert::Schedule { schedule: schedule.clone(), what });
        }
        for (tick, put) in made {
            tracing::debug!(%schedule, %tick, ?put, "a tick was handled");
        }
        jobs.iter().filter(|put| put.new_job().is_some()).count()
    }

    fn alert_unfit(&self, schedule: &ScheduleName, version: u64, why: &str) {
        let mut unfit = self.unfit.lock().unwrap_or_else(PoisonError::into_inner);
        if unfit.insert(schedule.clone(), version) != Some(version) {
            self.alerts.raise(&Alert::UnfitSchedule { schedule: schedule.clone(), why: why.to_owned() });
        }
    }

    /// Drops the schedules that were fixed or removed: if one fails again, a new alert is raised.
    fn forget_all_but(&self, seen: &BTreeSet<ScheduleName>) {
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| seen.contains(name));
    }
}

/// Sends the firings to the store. If the request is refused, one of the firings is the reason, which must
/// not block the others: the request is halved until that firing is alone. Returns how many jobs were
/// enqueued, and which firings were refused.
async fn in_halves<F, Fut>(
    firings: Vec<Firing>,
    ask: F,
) -> Result<(usize, Vec<(Firing, String)>), EngineError>
where
    F: Fn(Vec<Firing>) -> Fut,
    Fut: Future<Output = (Vec<Firing>, Result<usize, EngineError>)>,
{
    let (mut jobs, mut refused, mut parts) = (0, Vec::new(), vec![firings]);
    while let Some(part) = parts.pop() {
        let (mut part, asked) = ask(part).await;
        match asked {
            Err(EngineError::Refused(why)) if part.len() == 1 => {
                refused.extend(part.pop().map(|one| (one, why)));
            }
            Err(EngineError::Refused(_)) => {
                let rest = part.split_off(part.len() / 2);
                parts.extend([rest, part]);
            }
            asked => jobs += asked?,
        }
    }
    Ok((jobs, refused))
}

/// The firings of schedules that are due, and the changes to schedules that only the store considers due.
/// The search for ticks may take a while, and other tasks wait for the same thread: the function yields
/// after each schedule.
async fn decide(due: &SchedulesRead) -> (Vec<Firing>, Vec<ScheduleChange>) {
    let (mut firings, mut too_early) = (Vec::new(), Vec::new());
    for stored in &due.schedules {
        match fire(stored, due.now) {
            Some(firing) => firings.push(firing),
            None => too_early.push(look_later(stored)),
        }
        tokio::task::yield_now().await;
    }
    (firings, too_early)
}

/// Splits firings into requests that hold no more jobs than a request may.
fn parts(firings: Vec<Firing>) -> Vec<Vec<Firing>> {
    let (mut parts, mut jobs) = (vec![Vec::new()], 0);
    for firing in firings {
        let more = firing.change.jobs.len();
        if jobs + more > ENQUEUE_BATCH_MAX {
            parts.push(Vec::new());
            jobs = 0;
        }
        jobs += more;
        parts.last_mut().expect("the list of parts is never empty").push(firing);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests;
