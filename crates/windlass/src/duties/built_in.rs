//! The duties of Windlass itself: [maintenance](crate::maintenance), firing schedules, looking at drains, adding to minutes, and letting jobs through gates that are open. One process does each for all;
//! nothing is wrong if two do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_core::admin::BatchDone;
use windlass_core::duty::{DutyMode, DutyModes, DutySpec};
use windlass_core::engine::{Engine, Rescued};
use windlass_core::error::EngineError;
use windlass_core::lease_watch::{Own, WatchPace};
use windlass_core::limits::{FOLD_EVERY, MAINTENANCE_BATCH_MAX};
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
use crate::triggers::shell::look_for_a_while;
use crate::worker::Moment;

/// Jobs of dead workers.
const RESCUE: &str = "rescue";
/// What expired, and what nobody handles.
const SWEEP: &str = "sweep";
/// What is past its retention.
const PRUNE: &str = "prune";
/// Jobs behind gates that are open.
const GATES: &str = "gates";
/// Jobs of schedules.
const SCHEDULES: &str = "schedules";
/// Jobs of drains whose groups were worked off by a process that died before it could look.
const TRIGGERS: &str = "triggers";
/// What happened in each minute.
const AGGREGATE: &str = "aggregate";
/// Watching workers without being the one that rescues.
const WATCH: &str = "watch";

/// Names that no other duty may have.
pub(crate) const NAMES: [&str; 8] = [RESCUE, SWEEP, PRUNE, GATES, SCHEDULES, TRIGGERS, AGGREGATE, WATCH];

/// Whoever leads keeps a duty of maintenance at least for this long: one of them is done once a minute.
pub const MAINTENANCE_ROTATION_MIN: Duration = PRUNE_EVERY;
/// Retention is counted in days: once a minute is often enough.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Minutes are looked through this often for those that are past their time.
const FORGET_MINUTES_EVERY: Duration = Duration::from_secs(60 * 60);
/// The store is asked this often which gates have jobs behind them.
const GATES_EVERY: Duration = Duration::from_secs(1);
/// The same if this process has no limits of its own, so that only what others left behind can be there.
const GATES_EVERY_WITHOUT_LIMITS: Duration = Duration::from_secs(10);

/// A run that fires schedules, or looks at drains, sleeps until there is something to do and begins anew from time to time; so soon it does after one that failed.
const FIRE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A run ends after this long even if there is more to do, which the next one does: however much that is, a leader that gets on with
/// it is not stuck.
const RUN_FOR_MAX: Duration = Duration::from_secs(60);

pub(crate) fn rescue() -> DutyName {
    DutyName::parse(RESCUE).expect("it is a plain name")
}

/// Who does maintenance, and for how long at a stretch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Coordination {
    pub(crate) mode: DutyMode,
    pub(crate) rotation: Option<Duration>,
}

/// How maintenance is done.
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

/// EnqueuingDuties what is due of all schedules of the store.
pub(crate) fn fire(engine: &Arc<dyn Engine>, coordination: Coordination, alerts: Alerts) -> Task {
    let duty = Arc::new(ScheduleDuty::new(Arc::clone(engine), alerts));
    task(SCHEDULES, FIRE_AGAIN_AFTER, coordination, move |context| {
        fire_for_a_while(Arc::clone(&duty), context)
    })
}

/// Looks at drains that are marked, whoever marked them.
pub(crate) fn evaluate_triggers(
    engine: &Arc<dyn Engine>,
    coordination: Coordination,
    alerts: Alerts,
) -> Task {
    let duty = Arc::new(TriggerDuty::new(Arc::clone(engine), alerts));
    task(TRIGGERS, FIRE_AGAIN_AFTER, coordination, move |context| {
        look_for_a_while(Arc::clone(&duty), context)
    })
}

/// Adds to the minutes what happened, whoever saw it.
pub(crate) fn aggregate(engine: &Arc<dyn Engine>, coordination: Coordination, dirty: DirtyFlag) -> Task {
    let duty = Arc::new(RollupDuty::new(Arc::clone(engine), dirty));
    task(AGGREGATE, FOLD_EVERY, coordination, move |context| {
        let duty = Arc::clone(&duty);
        async move { duty.run(&context).await }
    })
}

/// Deletes what is past its retention, and from time to time minutes, too.
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

/// Looks for gates with jobs behind them, whoever left those there.
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

/// Refuses a mode of maintenance that this engine has not, and a rotation that is shorter than the longest interval of these duties.
pub(crate) fn check_manner(coordination: Coordination, modes: DutyModes) -> Result<(), EngineError> {
    let Coordination { mode, rotation } = coordination;
    DutySpec { name: rescue(), interval: MAINTENANCE_ROTATION_MIN, mode, rotation }.check(modes)
}

/// Watches the others while this process stands by, and once when it starts: what a process left that is gone for certain, such as the
/// last life of this one, need not wait until the lease of a leader that died with it has run out.
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

/// What runs of maintenance share.
#[derive(Clone)]
struct Runs {
    engine: Arc<dyn Engine>,
    observer: Arc<Mutex<Observer>>,
    clock: BootClock,
    mailbox: Mailbox,
}

impl Runs {
    /// A run: one question after another, until there is no more to do or somebody else leads.
    async fn run(&self, first: Ask, role: Role, context: &DutyContext) -> Result<(), EngineError> {
        let (mut next, began) = (Some(first), self.clock.now());
        let may_go_on = || !context.is_stopped() && self.clock.now().saturating_sub(began) < RUN_FOR_MAX;
        while let Some(ask) = next.filter(|_| may_go_on()) {
            let heard = self.put(&ask).await?;
            context.did(heard.items());
            let mut observer = self.observer.lock().unwrap_or_else(PoisonError::into_inner);
            next = observer.next(&ask, &heard.answer(), role, self.clock.now());
        }
        Ok(())
    }

    /// Batch after batch, until no minute is past its time or somebody else leads.
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

    async fn put(&self, ask: &Ask) -> Result<Heard, EngineError> {
        let engine = &self.engine;
        Ok(match ask.clone() {
            Ask::Look => {
                let workers = store::call(engine, |engine| async move { engine.workers().await }).await?;
                let own = self.mailbox.own().expect("duties begin when the first heartbeat was answered");
                Heard::Workers(workers, own)
            }
            Ask::Rescue(request) => {
                let rescued =
                    store::call(engine, |engine| async move { engine.rescue(request).await }).await?;
                report(&rescued);
                Heard::Rescued(rescued)
            }
            Ask::Sweep => {
                let sweep =
                    |engine: Arc<dyn Engine>| async move { engine.sweep(MAINTENANCE_BATCH_MAX).await };
                Heard::Done(store::call(engine, sweep).await?)
            }
            Ask::Prune => {
                let prune =
                    |engine: Arc<dyn Engine>| async move { engine.prune(MAINTENANCE_BATCH_MAX).await };
                Heard::Done(store::call(engine, prune).await?)
            }
        })
    }
}

/// What the store answered.
enum Heard {
    Workers(Vec<WorkerSighting>, Own),
    Rescued(Rescued),
    Done(BatchDone),
}

impl Heard {
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
        tracing::error!(job.id = job.0, "gave up a job that was held by too many dying workers");
    }
}

#[cfg(test)]
mod tests;
