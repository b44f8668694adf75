//! The duties of a process on one store, prepared before its worker registers: the worker's card names the
//! duties that one process at a time does.

use std::sync::Arc;

use windlass_core::duty::DutyModes;
use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::lease::lease_client::LeaseTiming;
use windlass_core::lease_watch::WatchPace;
use windlass_core::names::DutyName;

use super::built_in::{self, Coordination, Maintenance};
use super::mailbox::Mailbox;
use super::shell::{DutiesThread, Shell, Task};
use super::{Duty, check};
use crate::alerts::Alerts;
use crate::client::Client;
use crate::limits::GateOpener;
use crate::rollups::shell::DirtyFlag;
use crate::worker::WorkerOptions;

/// Duties that are ready to start.
pub(crate) struct Prepared {
    engine: Arc<dyn Engine>,
    mailbox: Mailbox,
    tasks: Vec<Task>,
    timing: LeaseTiming,
    dirty: DirtyFlag,
    alerts: Alerts,
}

/// The duties that enqueue jobs for all processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EnqueuingDuties {
    schedules: bool,
    triggers: bool,
}

impl EnqueuingDuties {
    /// Neither schedules nor triggers: on a spool they would belong to no process.
    pub(crate) const NOTHING: Self = Self { schedules: false, triggers: false };

    pub(crate) fn of(options: &WorkerOptions) -> Self {
        Self { schedules: options.fire_schedules, triggers: options.fire_triggers }
    }
}

impl Prepared {
    /// Prepares the duties of Windlass itself and those of the application; none if this process does no
    /// maintenance. `gates` scans for gates, if this process can open them; `enqueuing` says whether
    /// schedules and completion triggers are included.
    pub(crate) fn new(
        engine: &Arc<dyn Engine>,
        options: &WorkerOptions,
        own: &[Duty],
        gates: Option<GateOpener>,
        enqueuing: EnqueuingDuties,
    ) -> Self {
        let (mailbox, dirty) = (Mailbox::default(), DirtyFlag::default());
        let alerts = options.alerts();
        let maintenance = Maintenance {
            // A spool may support fewer modes than the store that it stands in for, and maintenance must be
            // done on both.
            coordination: Coordination {
                mode: options.maintenance_mode.or_lease(engine.info().duty_modes),
                rotation: options.maintenance_rotation,
            },
            pace: WatchPace { heartbeat: options.heartbeat_every, sweep: options.sweep_every },
            crashes_max: options.crashes_max,
            rollups_kept: options.rollups_kept,
        };
        let tasks = match options.maintenance {
            true => {
                let own = own.iter().cloned().map(Task::of_application);
                let schedules = enqueuing
                    .schedules
                    .then(|| built_in::fire(engine, maintenance.coordination, alerts.clone()));
                let triggers = enqueuing
                    .triggers
                    .then(|| built_in::evaluate_triggers(engine, maintenance.coordination, alerts.clone()));
                let tasks = built_in::tasks(engine, maintenance, gates, &mailbox).into_iter();
                let rollups = [built_in::rollups(engine, maintenance.coordination, dirty.clone())];
                tasks.chain(rollups).chain(schedules).chain(triggers).chain(own).collect()
            }
            false => Vec::new(),
        };
        Self { engine: Arc::clone(engine), mailbox, tasks, timing: options.duty_leases, dirty, alerts }
    }

    /// The duties that one process at a time does.
    pub(crate) fn led(&self) -> Vec<DutyName> {
        let led = self.tasks.iter().filter(|task| task.duty.mode.has_one_leader());
        led.map(|task| task.duty.name.clone()).collect()
    }

    /// The mailbox for heartbeats and hints.
    pub(crate) fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    /// The flag that tells the rollup duty that there are samples to roll up.
    pub(crate) fn dirty(&self) -> DirtyFlag {
        self.dirty.clone()
    }

    /// Starts the duties. They begin when the first heartbeat was answered.
    pub(crate) fn start(self, client: Client) -> Option<DutiesThread> {
        let Self { engine, mailbox, tasks, timing, alerts, .. } = self;
        (!tasks.is_empty())
            .then(|| DutiesThread::start(Shell::new(engine, client, tasks, timing, mailbox, alerts)))
    }
}

/// Refuses options about duties that cannot work, or not on this engine.
pub(crate) fn check_options(options: &WorkerOptions, modes: DutyModes) -> Result<(), EngineError> {
    options.duty_leases.check()?;
    check(&options.duties, modes)?;
    let coordination =
        Coordination { mode: options.maintenance_mode, rotation: options.maintenance_rotation };
    built_in::check_coordination(coordination, modes)
}
