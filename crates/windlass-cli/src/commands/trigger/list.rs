//! `windlass trigger list` and `show`.

use comfy_table::Cell;
use serde_json::{Value, json};
use windlass_core::clock::Timestamp;
use windlass_core::names::TriggerName;
use windlass_core::span::show_span;
use windlass_core::triggers::StoredTrigger;

use super::triggers;
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::output::printable;

pub(super) async fn list(context: &mut Context) -> Result<Code, Failure> {
    let read = triggers(context).all().await?;
    for (name, _) in &read.damaged {
        let note = format!(
            "completion trigger {name} cannot be read; delete it with `windlass trigger remove {name}`"
        );
        context.output.note(note);
    }
    if context.output.is_json() {
        let views: Vec<_> = read.triggers.iter().map(view).collect();
        context.output.json(&views)?;
        return Ok(Code::Ok);
    }
    let row = |stored: &StoredTrigger| {
        let record = &stored.record;
        let cells = [
            stored.name().to_string(),
            printable(&record.spec.watch.to_string()),
            record.spec.job.job_type.to_string(),
            record.fired.to_string(),
            instant(record.last_fired, "-"),
            printable(&remark(stored)),
        ];
        cells.into_iter().map(Cell::new).collect()
    };
    let rows = read.triggers.iter().map(row).collect();
    let header = ["trigger", "watches", "job", "fired", "last", "remark"];
    context.output.table(
        &header,
        rows,
        "no completion trigger is stored yet; see `windlass trigger add --help`",
    )?;
    Ok(Code::Ok)
}

pub(super) async fn show(name: &TriggerName, context: &mut Context) -> Result<Code, Failure> {
    let stored = triggers(context).find(name).await?;
    if context.output.is_json() {
        context.output.json(&view(&stored))?;
        return Ok(Code::Ok);
    }
    let (record, spec) = (&stored.record, &stored.record.spec);
    let holds = if spec.wait_for_retries { "all unfinished jobs" } else { "ready and running jobs" };
    for (title, text) in [
        ("trigger", stored.name().to_string()),
        ("watches", spec.watch.to_string()),
        ("waits for", holds.to_owned()),
        ("job", format!("{} {}", spec.job.job_type, spec.job.payload.as_str())),
        ("origin", format!("{}, stored at {}", record.origin.as_str(), record.stored_at)),
        ("fired", record.fired.to_string()),
        ("last", instant(record.last_fired, "never")),
        ("last job", stored.last_job.map_or_else(|| "none".to_owned(), |job| job.to_string())),
        ("remark", remark(&stored)),
    ] {
        if !text.is_empty() {
            context.output.line(format!("{title:<10}{}", printable(&text)))?;
        }
    }
    Ok(Code::Ok)
}

fn instant(at: Option<Timestamp>, else_say: &str) -> String {
    at.map_or_else(|| else_say.to_owned(), |at| at.to_string())
}

/// The remark about a trigger: its last alert.
fn remark(stored: &StoredTrigger) -> String {
    let alert = stored.record.alert.as_ref();
    alert.map_or_else(String::new, |alert| format!("at {} its job was refused: {}", alert.at, alert.why))
}

fn view(stored: &StoredTrigger) -> Value {
    let (record, job) = (&stored.record, &stored.record.spec.job);
    json!({
        "name": stored.name(),
        "watch": { "kind": record.spec.watch.kind(), "name": record.spec.watch.name() },
        "wait_for_retries": record.spec.wait_for_retries,
        "job": {
            "type": job.job_type,
            "payload": job.payload.decode::<Value>().ok(),
            "queue": job.queue,
            "priority": job.priority,
            "tags": job.tags,
            "timeout": job.timeout.map(show_span),
            "retry": job.retry,
        },
        "origin": record.origin.as_str(),
        "stored_at": record.stored_at.to_string(),
        "is_marked": stored.is_marked,
        "fired": record.fired,
        "last_fired": record.last_fired.map(|at| at.to_string()),
        "last_job": stored.last_job.map(|job| job.0),
        "alert": record.alert.as_ref().map(|alert| json!({ "at": alert.at.to_string(), "why": alert.why })),
    })
}
