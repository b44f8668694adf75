//! A schedule as JSON, and its state in words.

use serde_json::{Value, json};
use windlass_core::clock::Timestamp;
use windlass_core::schedule::Missed;
use windlass_core::schedules::{ScheduleSpec, StoredSchedule};
use windlass_core::span::show_span;

/// The state of a schedule, in one word.
pub(super) fn state(stored: &StoredSchedule, now: Timestamp) -> &'static str {
    match &stored.record.pause {
        Some(pause) if pause.holds(now) => "paused",
        _ if stored.is_overdue(now) => "overdue",
        _ => "active",
    }
}

/// The remark about a schedule: its pause, its clock, the skipped tick and its last alert.
pub(super) fn remark(stored: &StoredSchedule, now: Timestamp) -> String {
    let record = &stored.record;
    let mut remarks = Vec::new();
    if let Some(pause) = record.pause.as_ref().filter(|pause| pause.holds(now)) {
        remarks.extend(pause.until.map(|until| format!("until {until}")));
        remarks.extend(pause.reason.clone());
    }
    remarks.extend(record.decided_ahead(now).map(|until| {
        format!(
            "decided until {until}, since the store's clock was ahead; pause and resume it to continue from now"
        )
    }));
    remarks.extend(record.skip.map(|tick| format!("skips {tick}")));
    remarks.extend(record.alert.as_ref().map(|alert| alert.what.to_string()));
    remarks.join("; ")
}

/// A schedule as JSON. This shape is part of the contract.
pub(super) fn json(stored: &StoredSchedule, now: Timestamp) -> Value {
    let record = &stored.record;
    let pause = record.pause.as_ref().filter(|pause| pause.holds(now));
    json!({
        "name": stored.name(),
        "schedule": record.spec.schedule.to_string(),
        "words": record.spec.schedule.words(),
        "job": job_json(&record.spec),
        "missed": missed(record.spec.catch_up.missed),
        "limit": record.spec.catch_up.limit,
        "lateness": record.spec.catch_up.lateness.map(show_span),
        "grace": show_span(record.spec.catch_up.grace),
        "overlap": record.spec.overlap.as_str(),
        "holidays": record.spec.holidays.len(),
        "origin": record.origin.as_str(),
        "state": state(stored, now),
        "pause": pause.map(|pause| json!({
            "since": pause.since.to_string(),
            "until": pause.until.map(|until| until.to_string()),
            "reason": pause.reason,
        })),
        "stored_at": record.stored_at.to_string(),
        "decided_until": record.decided_until.to_string(),
        "skip": record.skip.map(|tick| tick.to_string()),
        "next": record.next_tick(now).map(|tick| tick.to_string()),
        "last_tick": record.last_tick.map(|tick| tick.to_string()),
        "last_job": stored.last_job.map(|job| job.0),
        "alert": record.alert.as_ref().map(|alert| json!({
            "at": alert.at.to_string(),
            "what": alert.what.to_string(),
        })),
    })
}

fn job_json(spec: &ScheduleSpec) -> Value {
    let job = &spec.job;
    json!({
        "type": job.job_type,
        "payload": job.payload.decode::<Value>().ok(),
        "queue": job.queue,
        "priority": job.priority,
        "tags": job.tags,
        "timeout": job.timeout.map(show_span),
        "retry": job.retry,
    })
}

pub(super) fn missed(missed: Missed) -> &'static str {
    match missed {
        Missed::Skip => "skip",
        Missed::RunOnce => "run-once",
        Missed::RunAll => "run-all",
    }
}
