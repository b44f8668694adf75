//! The duties of Windlass itself: [maintenance](crate::maintenance), firing schedules, evaluating
//! completion triggers, rolling up statistics, and releasing jobs from gates that are open. One process
//! does each for all; the result is correct if two do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_core::admin::BatchDone;
use windlass_core::duty::{DutyMode, DutyModes, DutySpec};
use windlass_core::engine::{Engine, Rescued};
use windlass_core::error::EngineError;
use windlass_core::lease_watch::{Own, WatchPace};
use windlass_core::limits::{MAINTENANCE_BATCH_MAX, ROLL_UP_EVERY};
use windlass_core::names::DutyName;
use windlass_core::worker::WorkerSighting;

use super::boot_clock::BootClock;
use super::context::DutyContext;
use super::mailbox::Mailbox;
use super::shell::Task;
use super::{Duty, IntoDutyEnd};
use crate::alerts::Alerts;
use crate::limits::GateOpener;
use crate::maintenance::{Answer, Ask, Observer, Role};
use crate::rollups::duty::RollupDuty;
use crate::rollups::shell::DirtyFlag;
use crate::schedules::duty::ScheduleDuty;
use crate::schedules::shell::fire_for_a_while;
use crate::store;
use crate::triggers::duty::TriggerDuty;
use crate::triggers::shell::evaluate_for_a_while;
use crate::worker::Moment;

/// Takes back the jobs of dead workers.
const RESCUE: &str = "rescue";
/// Cancels expired jobs, and parks jobs whose type no live worker handles.
const SWEEP: &str = "sweep";
/// Deletes jobs past their retention.
const PRUNE: &str = "prune";
/// Releases jobs behind gates that are open.
const GATES: &str = "gates";
/// Enqueues the jobs of schedules.
const SCHEDULES: &str = "schedules";
/// Enqueues the jobs of completion triggers whose groups were finished by a process that died before it
/// could evaluate them.
const TRIGGERS: &str = "triggers";
/// Rolls up the statistics of each minute.
const ROLLUPS: &str = "rollups";
/// Watches workers in a process that does not lead the rescue duty.
const WATCH: &str = "watch";

/// The names that no other duty may have.
pub(crate) const NAMES: [&str; 8] = [RESCUE, SWEEP, PRUNE, GATES, SCHEDULES, TRIGGERS, ROLLUPS, WATCH];

/// The shortest rotation of a maintenance duty: prune runs once a minute.
pub const MAINTENANCE_ROTATION_MIN: Duration = PRUNE_EVERY;
/// The interval of prune. Retention is counted in days: once a minute is often enough.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// The interval of scans for rollups past their retention.
const FORGET_MINUTES_EVERY: Duration = Duration::from_secs(60 * 60);
/// The interval of queries for gates that have jobs behind them.
const GATES_EVERY: Duration = Duration::from_secs(1);
/// The interval of the same query in a process without limits of its own, which can find only gates that
/// other processes left.
const GATES_EVERY_WITHOUT_LIMITS: Duration = Duration::from_secs(10);

/// The interval of runs that fire schedules or evaluate completion triggers, also after a failed run. Such
/// a run sleeps until there is work and starts over from time to time.
const FIRE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The longest run. If there is more to do, the next run does it: a leader that makes progress is not
/// stuck, however much work there is.
const RUN_FOR_MAX: Duration = Duration::from_secs(60);

pub(crate) fn rescue() -> DutyName {
    DutyName::parse(RESCUE).expect("it is a plain name")
}

/// How maintenance is coordinated: in which mode, and how long one process leads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coordination {
    pub(crate) mode: DutyMode,
    pub(crate) rotation: Option<Duration>,
}

/// The settings of maintenance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Maintenance {
    pub(crate) coordination: Coordination,
    pub(crate) pace: WatchPace,
    pub(crate) crashes_max: u32,
    pub(crate) rollups_kept: Duration,
}

/// All duties of Windlass itself.
pub(crate) fn tasks(
    engine: &Arc<dyn Engine>,
    maintenance: Maintenance,
    gates: Option<GateOpener>,
    mailbox: &Mailbox,
) -> Vec<Task> {
    let runs = Runs {
        engine: Arc::clone(engine),
        observer: Arc::new(Mutex::new(Observer::new(maintenance.pace, maintenance.crashes_max))),
        clock: BootClock::start(),
        mailbox: mailbox.clone(),
    };
    let of = |ask: Ask| {
        let runs = runs.clone();
        move |context| {
            let (runs, ask) = (runs.clone(), ask.clone());
            async move { runs.run(ask, Role::Leader, &context).await }
        }
    };
    let mut tasks = vec![
        task(RESCUE, maintenance.pace.sweep, maintenance.coordination, of(Ask::Look)),
        task(SWEEP, maintenance.pace.sweep, maintenance.coordination, of(Ask::Sweep)),
        task(PRUNE, PRUNE_EVERY, maintenance.coordination, prune(runs.clone(), maintenance.rollups_kept)),
    ];
    tasks.extend(gates.map(|gates| gates_task(gates, maintenance.coordination)));
    if maintenance.coordination.mode.has_one_leader() {
        let each = Coordination { mode: DutyMode::EveryWorker, rotation: None };
        tasks.push(task(WATCH, maintenance.pace.sweep, each, watch(runs)));
    }
    tasks
}

/// The duty that enqueues the due jobs of all schedules of the store.
pub(crate) fn fire(engine: &Arc<dyn Engine>, coordination: Coordination, alerts: Alerts) -> Task {
    let duty = Arc::new(ScheduleDuty::new(Arc::clone(engine), alerts));
    task(SCHEDULES, FIRE_AGAIN_AFTER, coordination, move |context| {
        fire_for_a_while(Arc::clone(&duty), context)
    })
}

/// The duty that evaluates marked completion triggers, whichever process marked them.
pub(crate) fn evaluate_triggers(
    engine: &Arc<dyn Engine>,
    coordination: Coordination,
    alerts: Alerts,
) -> Task {
    let duty = Arc::new(TriggerDuty::new(Arc::clone(engine), alerts));
    task(TRIGGERS, FIRE_AGAIN_AFTER, coordination, move |context| {
        evaluate_for_a_while(Arc::clone(&duty), context)
    })
}

/// The duty that rolls up samples and totals, whichever process measured them.
pub(crate) fn rollups(engine: &Arc<dyn Engine>, coordination: Coordination, dirty: DirtyFlag) -> Task {
    let duty = Arc::new(RollupDuty::new(Arc::clone(engine), dirty));
    task(ROLLUPS, ROLL_UP_EVERY, coordination, move |context| {
        let duty = Arc::clone(&duty);
        async move { duty.run(&context).await }
    })
}

/// Deletes jobs past their retention, and from time to time old rollups, too.
fn prune(
    runs: Runs,
    rollups_kept: Duration,
) -> impl Fn(DutyContext) -> std::pin::Pin<Box<dyn Future<Output = Result<(), EngineError>> + Send>> {
    let forgot_at = Arc::new(Mutex::new(None));
    move |context| {
        let (runs, forgot_at) = (runs.clone(), Arc::clone(&forgot_at));
        Box::pin(async move {
            runs.run(Ask::Prune, Role::Leader, &context).await?;
            let last: Option<Moment> = *forgot_at.lock().unwrap_or_else(PoisonError::into_inner);
            let now = runs.clock.now();
            if last.is_some_and(|last| now.saturating_sub(last) < FORGET_MINUTES_EVERY) {
                return Ok(());
            }
            runs.forget_rollups(rollups_kept, &context).await?;
            *forgot_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
            Ok(())
        })
    }
}

/// The duty that scans for gates with jobs behind them, whichever process left the jobs there.
fn gates_task(gates: GateOpener, coordination: Coordination) -> Task {
    let every = if gates.has_limits() { GATES_EVERY } else { GATES_EVERY_WITHOUT_LIMITS };
    let gates = Arc::new(tokio::sync::Mutex::new(gates));
    let look = move |context: DutyContext| {
        let gates = Arc::clone(&gates);
        async move {
            let found = gates.lock().await.look_for_gates().await?;
            context.did(found);
            Ok::<_, EngineError>(())
        }
    };
    task(GATES, every, coordination, look)
}

/// Refuses a mode of maintenance that this engine does not have, and a rotation that is shorter than the
/// longest interval of these duties.
pub(crate) fn check_coordination(coordination: Coordination, modes: DutyModes) -> Result<(), EngineError> {
    let Coordination { mode, rotation } = coordination;
    DutySpec { name: rescue(), interval: MAINTENANCE_ROTATION_MIN, mode, rotation }.check(modes)
}

/// Watches the other workers while this process stands by, and once when it starts. The jobs of a process
/// that is gone for certain, such as the last run of this program, then need not wait until the lease of a
/// leader that died with it has expired.
fn watch(
    runs: Runs,
) -> impl Fn(DutyContext) -> std::pin::Pin<Box<dyn Future<Output = Result<(), EngineError>> + Send>> {
    let has_looked = Arc::new(AtomicBool::new(false));
    move |context| {
        let (runs, has_looked) = (runs.clone(), Arc::clone(&has_looked));
        Box::pin(async move {
            let is_first = !has_looked.swap(true, Ordering::SeqCst);
            match is_first || runs.mailbox.standing().watches() {
                true => runs.run(Ask::Look, Role::StandBy, &context).await,
                false => Ok(()),
            }
        })
    }
}

fn task<F, Fut>(name: &str, interval: Duration, coordination: Coordination, run: F) -> Task
where
    F: Fn(DutyContext) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoDutyEnd,
{
    let duty = Duty::new(name, interval, run).expect("built-in names are plain");
    let Coordination { mode, rotation } = coordination;
    Task { duty: Duty { mode, rotation, ..duty }, at_once: true, is_ours: true }
}

/// State that the runs of maintenance share.
#[derive(Clone)]
struct Runs {
    engine: Arc<dyn Engine>,
    observer: Arc<Mutex<Observer>>,
    clock: BootClock,
    mailbox: Mailbox,
}

impl Runs {
    /// One run: sends request after request, until there is no more to do or another process leads.
    async fn run(&self, first: Ask, role: Role, context: &DutyContext) -> Result<(), EngineError> {
        let (mut next, began) = (Some(first), self.clock.now());
        let may_go_on = || !context.is_stopped() && self.clock.now().saturating_sub(began) < RUN_FOR_MAX;
        while let Some(ask) = next.filter(|_| may_go_on()) {
            let reply = self.send(&ask).await?;
            context.did(reply.items());
            let mut observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner);
            next = observer.next(&ask, &reply.answer(), role, self.clock.now());
        }
        Ok(())
    }

    /// Deletes rollups batch after batch, until none is past its retention or another process leads.
    async fn forget_rollups(&self, kept: Duration, context: &DutyContext) -> Result<(), EngineError> {
        let began = self.clock.now();
        let mut more = true;
        while more && !context.is_stopped() && self.clock.now().saturating_sub(began) < RUN_FOR_MAX {
            let forget = |engine: Arc<dyn Engine>| async move {
                engine.forget_rollups(kept, MAINTENANCE_BATCH_MAX).await
            };
            let done = store::call(&self.engine, forget).await?;
            context.did(done.changed);
            more = done.more;
        }
        Ok(())
    }

    async fn send(&self, ask: &Ask) -> Result<Reply, EngineError> {
        let engine = &self.engine;
        Ok(match ask.clone() {
            Ask::Look => {
                let workers = store::call(engine, |engine| async move { engine.workers().await }).await?;
                let own = self.mailbox.own().expect("duties begin after the answer to the first heartbeat");
                Reply::Workers(workers, own)
            }
            Ask::Rescue(request) => {
                let rescued =
                    store::call(engine, |engine| async move { engine.rescue(request).await }).await?;
                report(&rescued);
                Reply::Rescued(rescued)
            }
            Ask::Sweep => {
                let sweep =
                    |engine: Arc<dyn Engine>| async move { engine.sweep(MAINTENANCE_BATCH_MAX).await };
                Reply::Done(store::call(engine, sweep).await?)
            }
            Ask::Prune => {
                let prune =
                    |engine: Arc<dyn Engine>| async move { engine.prune(MAINTENANCE_BATCH_MAX).await };
                Reply::Done(store::call(engine, prune).await?)
            }
        })
    }
}

/// The store's answer to a request.
enum Reply {
    Workers(Vec<WorkerSighting>, Own),
    Rescued(Rescued),
    Done(BatchDone),
}

impl Reply {
    fn answer(&self) -> Answer<'_> {
        match self {
            Self::Workers(workers, own) => Answer::Workers(workers, *own),
            Self::Rescued(rescued) => Answer::Rescued(rescued),
            Self::Done(done) => Answer::Done(*done),
        }
    }

    fn items(&self) -> u64 {
        match self {
            Self::Workers(..) => 0,
            Self::Rescued(rescued) => (rescued.returned.len() + rescued.buried.len()) as u64,
            Self::Done(done) => done.changed,
        }
    }
}

fn report(rescued: &Rescued) {
    if !rescued.returned.is_empty() {
        tracing::warn!(jobs = rescued.returned.len(), "took back the jobs of a dead worker");
    }
    for job in &rescued.buried {
        tracing::error!(job.id = job.0, "a job is dead: too many workers died while they held it");
    }
}

#[cfg(test)]
mod tests;
