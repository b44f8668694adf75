//! `[schedules.NAME]`: jobs that are enqueued again and again.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use windlass_core::limits::{CATCH_UP_MAX, CATCH_UP_SPAN_MAX, CATCH_UP_SPAN_MIN, TIMEOUT_MAX};
use windlass_core::names::{QueueName, ScheduleName, Tag, TypeName};
use windlass_core::payload::Payload;
use windlass_core::priority::{Priority, PriorityLabels};
use windlass_core::provenance::Provenance;
use windlass_core::schedule::{CatchUp, Holidays, Missed, Schedule, Zone};
use windlass_core::schedules::{JobTemplate, Overlap, ScheduleSpec};

use super::error::{ConfigError, ConfigErrors};
use super::section::{Section, span, text, whole, word};
use super::tree::{Entry, Value};

const MISSED: &[(&str, Missed)] =
    &[("skip", Missed::Skip), ("run-once", Missed::RunOnce), ("run-all", Missed::RunAll)];
const OVERLAPS: &[(&str, Overlap)] =
    &[("allow", Overlap::Allow), ("skip", Overlap::Skip), ("replace", Overlap::Replace)];
/// The maximum size of a holidays file, in bytes.
const HOLIDAYS_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Reads the schedules, and sorts them by name.
pub(crate) fn read(
    entries: &[Entry],
    labels: &PriorityLabels,
    errors: &mut ConfigErrors,
) -> Vec<ScheduleSpec> {
    let mut schedules: Vec<ScheduleSpec> = Vec::new();
    for entry in entries {
        let Some(spec) = read_one(entry, labels, errors) else { continue };
        if schedules.iter().any(|other| other.name == spec.name) {
            let message =
                format!("expected schedule {} once, got it twice; names are matched without case", spec.name);
            errors.push(ConfigError::at(&entry.key_position, message));
            continue;
        }
        if let Err(why) = spec.check() {
            errors.push(ConfigError::at(&entry.key_position, why.to_string()));
            continue;
        }
        schedules.push(spec);
    }
    schedules.sort_by(|a, b| a.name.cmp(&b.name));
    schedules
}

fn read_one(entry: &Entry, labels: &PriorityLabels, errors: &mut ConfigErrors) -> Option<ScheduleSpec> {
    let name = ScheduleName::parse(&entry.key)
        .map_err(|why| errors.push(ConfigError::at(&entry.key_position, why.to_string())))
        .ok()?;
    let title = format!("[schedules.{name}]");
    let mut section = Section::of(title.as_str(), Some(&entry.node), errors);
    let zone = section.get("tz", |value| Zone::parse(&text(value)?).map_err(|why| why.to_string()));
    let is_missing = section.position("schedule").is_none() || section.position("job").is_none();
    let schedule = section.get("schedule", |value| read_schedule(value, zone));
    let job_type = section.get("job", |value| TypeName::parse(&text(value)?).map_err(|why| why.to_string()));
    let holidays = section.get("holidays", holidays).unwrap_or_default();
    let template = read_job(&mut section, labels);
    let catch_up = read_catch_up(&mut section);
    let overlap = section.get("overlap", word(OVERLAPS)).unwrap_or_default();
    if is_missing {
        let message = format!(
            "expected `schedule` and `job` in {title}, got none or one; set when it runs and the type of its jobs"
        );
        section.errors().push(ConfigError::at(&entry.key_position, message));
    }
    let (schedule, job_type) = match (schedule, job_type) {
        (Some(schedule), Some(job_type)) => (schedule, job_type),
        _ => {
            section.finish();
            return None;
        }
    };
    section.finish();
    let job = JobTemplate { job_type, ..template };
    Some(ScheduleSpec { holidays, catch_up, overlap, ..ScheduleSpec::new(name, schedule, job) })
}

fn read_schedule(value: &Value, zone: Option<Zone>) -> Result<Schedule, String> {
    let text = text(value)?;
    let schedule = match zone {
        Some(zone) => Schedule::parse_in(&text, zone),
        None => Schedule::parse(&text),
    };
    schedule.map_err(|why| why.to_string())
}

/// The template of a job, without its type.
pub(super) fn read_job(section: &mut Section<'_, '_>, labels: &PriorityLabels) -> JobTemplate {
    let any = TypeName::parse("any").expect("a plain word is a valid name");
    JobTemplate {
        payload: section.get("payload", payload).unwrap_or_default(),
        queue: section.get("queue", |value| QueueName::parse(&text(value)?).map_err(|why| why.to_string())),
        priority: section.get("priority", |value| priority(value, labels)),
        tags: section.get("tags", tags).unwrap_or_default(),
        timeout: section.get("timeout", span(std::time::Duration::from_millis(1), TIMEOUT_MAX)),
        provenance: read_provenance(section),
        ..JobTemplate::new(any)
    }
}

fn read_provenance(section: &mut Section<'_, '_>) -> Provenance {
    let mut provenance = Provenance::default();
    for field in Provenance::FIELDS {
        section.get(field, |value| provenance.set(field, &text(value)?).map_err(|why| why.to_string()));
    }
    provenance
}

fn read_catch_up(section: &mut Section<'_, '_>) -> CatchUp {
    let default = CatchUp::default();
    let spans = || span(CATCH_UP_SPAN_MIN, CATCH_UP_SPAN_MAX);
    let limit = section.get("limit", whole(1, CATCH_UP_MAX.into()));
    CatchUp {
        missed: section.get("missed", word(MISSED)).unwrap_or_default(),
        limit: limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(default.limit),
        lateness: section.get("lateness", spans()),
        grace: section.get("grace", spans()).unwrap_or(default.grace),
    }
}

fn priority(value: &Value, labels: &PriorityLabels) -> Result<Priority, String> {
    if let Ok(level) = whole(0, 10)(value) {
        return Priority::new(level).map_err(|why| why.to_string());
    }
    let written = text(value).map_err(|_| {
        format!("expected a whole number from 0 (most urgent) to 10, or a label, got {}", value.describe())
    })?;
    labels.resolve(&written).map(|(_, priority)| priority).map_err(|why| why.to_string())
}

fn tags(value: &Value) -> Result<Vec<Tag>, String> {
    let Value::List(items) = value else {
        return Err(format!("expected a list of tags, got {}", value.describe()));
    };
    let parse = |text: String| Tag::parse(&text).map_err(|why| why.to_string());
    items.iter().map(|item| text(&item.value).and_then(parse)).collect()
}

/// A payload: a table, or a string with JSON.
fn payload(value: &Value) -> Result<Payload, String> {
    match value {
        Value::Text(text) | Value::Raw(text) => Payload::parse(text).map_err(|why| why.to_string()),
        _ => Payload::encode(&json(value)?).map_err(|why| why.to_string()),
    }
}

fn json(value: &Value) -> Result<serde_json::Value, String> {
    Ok(match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::Number(text) => serde_json::from_str(text)
            .map_err(|_| format!("expected a number that JSON can express, got {}", value.describe()))?,
        Value::Text(text) | Value::Raw(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(|item| json(&item.value)).collect::<Result<_, _>>()?,
        Value::Table(table) => {
            let pair = |entry: &Entry| Ok((entry.key.clone(), json(&entry.node.value)?));
            serde_json::Value::Object(table.0.iter().map(pair).collect::<Result<_, String>>()?)
        }
    })
}

fn holidays(value: &Value) -> Result<Holidays, String> {
    holidays_file(Path::new(&text(value)?))
}

/// Reads a holidays file. Reads no more than the maximum size.
pub(crate) fn holidays_file(path: &Path) -> Result<Holidays, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let mut text = String::new();
    let file = File::open(path).map_err(|why| wrong(why.to_string()))?;
    file.take(HOLIDAYS_BYTES_MAX + 1).read_to_string(&mut text).map_err(|why| wrong(why.to_string()))?;
    if text.len() as u64 > HOLIDAYS_BYTES_MAX {
        return Err(wrong(format!("expected at most {HOLIDAYS_BYTES_MAX} bytes, got a larger file")));
    }
    Holidays::parse(&text).map_err(|why| wrong(why.to_string()))
}
