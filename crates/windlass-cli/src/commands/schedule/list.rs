//! `windlass schedule list` and `show`.

use comfy_table::Cell;
use windlass_core::clock::Timestamp;
use windlass_core::names::ScheduleName;
use windlass_core::schedules::StoredSchedule;
use windlass_core::span::show_span;

use super::next::Preview;
use super::{schedules, view};
use crate::context::Context;
use crate::exit::{Code, Failure};
use crate::output::printable;

/// The number of next times that `show` prints.
const SHOWN: usize = 5;

pub(super) async fn list(context: &mut Context) -> Result<Code, Failure> {
    let read = schedules(context).all().await?;
    for (name, _) in &read.damaged {
        context.output.note(format!(
            "schedule {name} cannot be read; delete it with `windlass schedule remove {name}`"
        ));
    }
    if context.output.is_json() {
        let views: Vec<_> = read.schedules.iter().map(|stored| view::json(stored, read.now)).collect();
        context.output.json(&views)?;
        return Ok(Code::Ok);
    }
    let row = |stored: &StoredSchedule| {
        let record = &stored.record;
        let instant = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| at.to_string());
        let cells = [
            stored.name().to_string(),
            record.spec.schedule.to_string(),
            record.spec.job.job_type.to_string(),
            view::state(stored, read.now).to_owned(),
            instant(record.next_tick(read.now)),
            instant(record.last_tick),
            printable(&view::remark(stored, read.now)),
        ];
        cells.into_iter().map(Cell::new).collect()
    };
    let rows = read.schedules.iter().map(row).collect();
    let header = ["schedule", "when", "job", "state", "next", "last", "remark"];
    context.output.table(&header, rows, "no schedule is stored yet; see `windlass schedule add --help`")?;
    Ok(Code::Ok)
}

pub(super) async fn show(name: &ScheduleName, context: &mut Context) -> Result<Code, Failure> {
    let (stored, now) = schedules(context).find(name).await?;
    let record = &stored.record;
    let spec = &record.spec;
    let upcoming = record.upcoming(now).take(SHOWN).collect();
    let preview = Preview::of_ticks(&spec.schedule, &spec.holidays, now, upcoming);
    if context.output.is_json() {
        let mut value = view::json(&stored, now);
        value["upcoming"] = preview.ticks_json().into();
        value["clock_changes"] = preview.changes_json().into();
        context.output.json(&value)?;
        return Ok(Code::Ok);
    }
    for (title, text) in lines(&stored, now) {
        context.output.line(format!("{title:<10}{}", printable(&text)))?;
    }
    for (place, line) in preview.times().iter().enumerate() {
        let title = if place == 0 { "next" } else { "" };
        context.output.line(format!("{title:<10}{line}"))?;
    }
    Ok(Code::Ok)
}

fn lines(stored: &StoredSchedule, now: Timestamp) -> Vec<(&'static str, String)> {
    let (record, spec) = (&stored.record, &stored.record.spec);
    let instant = |at: Option<Timestamp>| at.map_or_else(|| "never".to_owned(), |at| at.to_string());
    let mut lines = vec![
        ("schedule", stored.name().to_string()),
        ("when", spec.schedule.to_string()),
        ("", spec.schedule.words()),
        ("job", format!("{} {}", spec.job.job_type, spec.job.payload.as_str())),
        (
            "missed",
            format!("{}, grace {}", view::missed(spec.catch_up.missed), show_span(spec.catch_up.grace)),
        ),
        ("overlap", spec.overlap.as_str().to_owned()),
        ("origin", format!("{}, stored at {}", record.origin.as_str(), record.stored_at)),
        ("state", view::state(stored, now).to_owned()),
        ("last tick", instant(record.last_tick)),
        ("last job", stored.last_job.map_or_else(|| "none".to_owned(), |job| job.to_string())),
    ];
    let remark = view::remark(stored, now);
    if !remark.is_empty() {
        lines.push(("remark", remark));
    }
    lines
}
