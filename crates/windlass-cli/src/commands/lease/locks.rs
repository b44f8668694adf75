//! Duties that are done under advisory locks of PostgreSQL sessions. Nothing is stored with a lock: only
//! its holder and the time since when are known.

use comfy_table::Cell;
use serde_json::{Value, json};
use windlass_core::clock::Timestamp;
use windlass_core::duty::DutyMode;
use windlass_core::lease::{LockHolder, LockRecord};
use windlass_core::span::show_span;
use windlass_core::worker::WorkerSighting;

use super::{card, named, round};
use crate::exit::{Code, Failure};

pub(super) fn row(lock: &LockRecord, workers: &[WorkerSighting], now: Timestamp) -> Vec<Cell> {
    let since = lock.holder.as_ref().and_then(|holder| holder.noted).map(|(_, since)| since);
    let ago = since.map(|at| format!("{} ago", show_span(round(now.since(at)))));
    let nothing = String::new;
    let cells = [
        lock.duty.to_string(),
        leader(lock, workers),
        ago.unwrap_or_default(),
        nothing(),
        nothing(),
        nothing(),
        nothing(),
        nothing(),
        "under an advisory lock".to_owned(),
    ];
    cells.into_iter().map(Cell::new).collect()
}

/// The holder of the lock. A worker that did not record that it took the lock is known by its session only.
fn leader(lock: &LockRecord, workers: &[WorkerSighting]) -> String {
    match &lock.holder {
        None => "no process".to_owned(),
        Some(LockHolder { noted: Some((worker, _)), .. }) => named(*worker, workers),
        Some(LockHolder { session, noted: None }) => format!("session {session} of the server"),
    }
}

pub(super) fn pairs(lock: &LockRecord, workers: &[WorkerSighting]) -> Vec<(&'static str, String)> {
    let noted = lock.holder.as_ref().and_then(|holder| holder.noted);
    let session = lock.holder.as_ref().map(|holder| holder.session.to_string());
    vec![
        ("duty", lock.duty.to_string()),
        ("leader", leader(lock, workers)),
        ("since", noted.map(|(_, since)| since.to_string()).unwrap_or_default()),
        ("session", session.unwrap_or_default()),
        ("remark", "under an advisory lock of a session; statistics are kept with leases only".to_owned()),
    ]
}

/// A lock as JSON, in the shape of a lease. Fields that only leases have are null. This shape is part of
/// the contract.
pub(super) fn view(lock: &LockRecord, workers: &[WorkerSighting]) -> Value {
    let noted = lock.holder.as_ref().and_then(|holder| holder.noted);
    let card = noted.and_then(|(worker, _)| card(worker, workers));
    let mut view = json!({
        "duty": lock.duty,
        "mode": DutyMode::AdvisoryLock,
        "leader": noted.map(|(worker, _)| worker.to_string()),
        "leader_host": card.map(|card| &card.host),
        "leader_pid": card.map(|card| card.pid),
        "since": noted.map(|(_, since)| since.to_string()),
        "session": lock.holder.as_ref().map(|holder| holder.session),
    });
    if let Some(fields) = view.as_object_mut() {
        fields.extend(ONLY_LEASES_HAVE.map(|name| (name.to_owned(), Value::Null)));
    }
    view
}

const ONLY_LEASES_HAVE: [&str; 20] = [
    "heartbeat",
    "heartbeat_age_ms",
    "expiry_ms",
    "fence",
    "term",
    "takeovers",
    "asked_to_step_down",
    "runs",
    "items",
    "errors",
    "last_error",
    "running_since",
    "last_run",
    "last_took_ms",
    "longest_ms",
    "every_ms",
    "stuck_for_ms",
    "times_stuck",
    "last_stuck",
    "kept",
];

/// The failure of a request to step down under a lock: the holder of a lock receives no requests, and the
/// lock ends with its session.
pub(super) fn cannot_be_asked(lock: &LockRecord, workers: &[WorkerSighting]) -> Failure {
    let duty = &lock.duty;
    let Some(holder) = &lock.holder else {
        return Failure::new(Code::Refused, format!("no process holds the lock of {duty}"));
    };
    let why = format!(
        "{duty} is done under an advisory lock, by {}; the holder of a lock cannot be asked to step down",
        leader(lock, workers)
    );
    Failure::new(Code::Refused, why).hint(format!(
        "stop that process, or end its session: SELECT pg_terminate_backend({})",
        holder.session
    ))
}
