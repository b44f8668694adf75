//! `[worker]`: heartbeats, rescue, duties and the stop of a worker process.

use std::time::Duration;

use windlass::duties::{DutyMode, LeaseTiming, MAINTENANCE_ROTATION_MIN};
use windlass_core::limits::{
    CRASHES_MAX, DUTY_EXPIRY_MAX, DUTY_EXPIRY_MIN, HEARTBEAT_EVERY, ROLLUPS_KEPT, ROLLUPS_KEPT_MAX,
    ROLLUPS_KEPT_MIN, SWEEP_EVERY, WORKER_LEASE,
};
use windlass_core::span::show_span;

use super::error::ConfigError;
use super::section::{Section, span, whole, word};

/// The modes in which maintenance can be done.
const MODES: &[(&str, DutyMode)] = &[
    ("lease", DutyMode::Lease),
    ("every-worker", DutyMode::EveryWorker),
    ("advisory-lock", DutyMode::AdvisoryLock),
];

/// The settings of worker processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerSettings {
    /// How long a worker counts as live after a heartbeat.
    pub(crate) lease: Duration,
    /// The interval between two heartbeats.
    pub(crate) heartbeat: Duration,
    /// The interval between two scans for dead workers, expired jobs and old history.
    pub(crate) sweep: Duration,
    /// The timing of duty leases.
    pub(crate) duties: LeaseTiming,
    /// Which processes do the duties of Windlass itself.
    pub(crate) maintenance_mode: DutyMode,
    /// How long a leader does a maintenance duty before it releases its lease to another process.
    pub(crate) maintenance_rotation: Option<Duration>,
    /// How long running jobs may continue after a stop was requested.
    pub(crate) stop_grace: Duration,
    /// The number of crashes of its worker after which a job is dead.
    pub(crate) max_crashes: u32,
    /// How long the rollups of each minute are kept.
    pub(crate) rollups_kept: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            lease: WORKER_LEASE,
            heartbeat: HEARTBEAT_EVERY,
            sweep: SWEEP_EVERY,
            duties: LeaseTiming::default(),
            maintenance_mode: DutyMode::default(),
            maintenance_rotation: None,
            stop_grace: Duration::from_secs(25),
            max_crashes: CRASHES_MAX,
            rollups_kept: ROLLUPS_KEPT,
        }
    }
}

pub(crate) fn read(mut section: Section<'_, '_>) -> WorkerSettings {
    let default = WorkerSettings::default();
    let (moment, hour) = (Duration::from_millis(100), Duration::from_secs(3600));
    let settings = WorkerSettings {
        lease: section.get("lease", span(moment * 5, hour)).unwrap_or(default.lease),
        heartbeat: section.get("heartbeat", span(moment, hour)).unwrap_or(default.heartbeat),
        sweep: section.get("sweep", span(moment, hour)).unwrap_or(default.sweep),
        duties: LeaseTiming {
            heartbeat: section
                .get("duty_heartbeat", span(moment / 10, hour))
                .unwrap_or(default.duties.heartbeat),
            expiry: section
                .get("duty_expiry", span(DUTY_EXPIRY_MIN, DUTY_EXPIRY_MAX))
                .unwrap_or(default.duties.expiry),
        },
        maintenance_mode: section.get("maintenance_mode", word(MODES)).unwrap_or(default.maintenance_mode),
        maintenance_rotation: section
            .get("maintenance_rotation", span(MAINTENANCE_ROTATION_MIN, hour * 24 * 365)),
        stop_grace: section.get("stop_grace", span(Duration::ZERO, hour * 24)).unwrap_or(default.stop_grace),
        max_crashes: section
            .get("max_crashes", whole(1, 100))
            .and_then(|number| u32::try_from(number).ok())
            .unwrap_or(default.max_crashes),
        rollups_kept: section
            .get("rollups_kept", span(ROLLUPS_KEPT_MIN, ROLLUPS_KEPT_MAX))
            .unwrap_or(default.rollups_kept),
    };
    check_lease(&mut section, &settings);
    check_duties(&mut section, &settings);
    check_rotation(&mut section, &settings);
    section.finish();
    settings
}

/// Refuses a heartbeat interval that lets a leader miss not even one heartbeat: it would lose its duties by
/// every hiccup.
fn check_duties(section: &mut Section<'_, '_>, settings: &WorkerSettings) {
    let position = section.position("duty_heartbeat").or_else(|| section.position("duty_expiry")).cloned();
    if let (Err(why), Some(position)) = (settings.duties.check(), position) {
        section.errors().push(ConfigError::at(&position, why.to_string()));
    }
}

/// Refuses a rotation if every worker does maintenance: then there is no leader that could take turns.
fn check_rotation(section: &mut Section<'_, '_>, settings: &WorkerSettings) {
    let Some(position) = section.position("maintenance_rotation").cloned() else { return };
    if !settings.maintenance_mode.has_one_leader() {
        let why = format!(
            "expected no `maintenance_rotation` with a `maintenance_mode` of {}",
            settings.maintenance_mode
        );
        section.errors().push(
            ConfigError::at(&position, why).hint(
                "only a leader can release a duty to another process; remove it, or use the mode `lease`",
            ),
        );
    }
}

/// Refuses a heartbeat interval that lets a worker miss not even one heartbeat: it would be declared dead
/// by every hiccup.
fn check_lease(section: &mut Section<'_, '_>, settings: &WorkerSettings) {
    if settings.heartbeat * 2 <= settings.lease {
        return;
    }
    let Some(position) = section.position("heartbeat").or_else(|| section.position("lease")).cloned() else {
        return;
    };
    let (lease, heartbeat) = (show_span(settings.lease), show_span(settings.heartbeat));
    section.errors().push(
        ConfigError::at(
            &position,
            format!("expected `heartbeat` of at most half the `lease` of {lease}, got {heartbeat}"),
        )
        .hint("a worker that misses one heartbeat must not be declared dead"),
    );
}
