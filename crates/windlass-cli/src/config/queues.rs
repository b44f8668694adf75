//! `[priorities]`, `[queues.NAME]` and `[types.NAME]`: the declarations that core needs.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::job_type::TypeSpec;
use windlass_core::limits::{CONCURRENCY_MAX, RETENTION_DAYS_MAX, TIMEOUT_MAX};
use windlass_core::names::{PriorityLabel, QueueName, TypeName};
use windlass_core::priority::{Priority, PriorityLabels};
use windlass_core::queue::{Colour, Escalation, POLL_INTERVAL_MIN, QueueSpec};
use windlass_core::retry::RetryPolicy;

use super::error::{ConfigError, ConfigErrors, nearest};
use super::retry;
use super::section::{Section, boolean, span, text, whole, word};
use super::tree::{Entry, Node, Value};

const COLOURS: &[(&str, Colour)] = &[
    ("grey", Colour::Grey),
    ("salmon", Colour::Salmon),
    ("blue", Colour::Blue),
    ("lavender", Colour::Lavender),
    ("green", Colour::Green),
    ("yellow", Colour::Yellow),
];
const ESCALATIONS: &[(&str, Escalation)] = &[
    ("none", Escalation::None),
    ("page", Escalation::Page),
    ("chat", Escalation::Chat),
    ("digest", Escalation::Digest),
];

/// Reads the priority labels: the built-in ones, changed, extended and removed (`low = false`).
pub(crate) fn read_priorities(entries: &[Entry], errors: &mut ConfigErrors) -> PriorityLabels {
    let built_in = [("high", 0), ("normal", 5), ("low", 10)];
    let mut labels: BTreeMap<PriorityLabel, Priority> = built_in
        .into_iter()
        .map(|(label, level)| {
            let label = PriorityLabel::parse(label).expect("the built-in labels are names");
            (label, Priority::new(level).expect("the built-in priorities lie between 0 and 10"))
        })
        .collect();
    for entry in entries {
        let Some(label) = name(entry, PriorityLabel::parse, errors) else { continue };
        if boolean(&entry.node.value) == Ok(false) && whole(0, 10)(&entry.node.value).is_err() {
            labels.remove(&label);
            continue;
        }
        match whole(0, 10)(&entry.node.value).map(Priority::new) {
            Ok(Ok(priority)) => drop(labels.insert(label, priority)),
            _ => errors.push(ConfigError::at(
                &entry.node.position,
                format!(
                    "`{label}` in [priorities]: expected a whole number from 0 (most urgent) to 10, or false to remove the label, got {}",
                    entry.node.value.describe()
                ),
            )),
        }
    }
    PriorityLabels::new(labels)
}

/// Reads the queues: the five built-in ones, changed, extended and removed.
pub(crate) fn read_queues(entries: &[Entry], errors: &mut ConfigErrors) -> Vec<QueueSpec> {
    let mut queues = QueueSpec::built_in();
    let mut seen = Vec::new();
    for entry in entries {
        let Some(name) = name(entry, QueueName::parse, errors) else { continue };
        if seen.contains(&name) {
            let message = format!("expected queue {name} once, got it twice; names are matched without case");
            errors.push(ConfigError::at(&entry.key_position, message));
            continue;
        }
        seen.push(name.clone());
        let at = queues.iter().position(|queue| queue.name == name);
        let before = at.map_or_else(|| QueueSpec::new(name), |at| queues.remove(at));
        queues.extend(read_queue(&entry.node, before, errors));
    }
    queues.sort_by(|a, b| (a.priority, &a.name).cmp(&(b.priority, &b.name)));
    queues
}

fn read_queue(node: &Node, queue: QueueSpec, errors: &mut ConfigErrors) -> Option<QueueSpec> {
    let mut section = Section::of(format!("[queues.{}]", queue.name), Some(node), errors);
    let remove = section.get("remove", boolean).unwrap_or(false);
    let day = Duration::from_secs(24 * 60 * 60);
    let count = |section: &mut Section<'_, '_>, key| {
        section.get(key, whole(1, i64::MAX)).and_then(|number| u64::try_from(number).ok())
    };
    let colour = section.get("colour", word(COLOURS)).or_else(|| section.get("color", word(COLOURS)));
    let queue = QueueSpec {
        priority: section.get("priority", priority).unwrap_or(queue.priority),
        concurrency: section
            .get("concurrency", whole(1, CONCURRENCY_MAX.into()))
            .and_then(|number| u32::try_from(number).ok())
            .unwrap_or(queue.concurrency),
        poll_interval: section
            .get("poll_interval", span(POLL_INTERVAL_MIN, day))
            .unwrap_or(queue.poll_interval),
        p95_target: section.get("p95_target", span(Duration::from_millis(1), day * 30)).or(queue.p95_target),
        colour: colour.unwrap_or(queue.colour),
        escalation: section.get("escalation", word(ESCALATIONS)).unwrap_or(queue.escalation),
        capacity: count(&mut section, "capacity").or(queue.capacity),
        warn_depth: count(&mut section, "warn_depth").or(queue.warn_depth),
        name: queue.name,
    };
    check_warn_depth(&mut section, &queue);
    section.finish();
    (!remove).then_some(queue)
}

/// Refuses a `warn_depth` that is not below the capacity, since its warning would never be logged.
fn check_warn_depth(section: &mut Section<'_, '_>, queue: &QueueSpec) {
    let (Some(warn), Some(capacity)) = (queue.warn_depth, queue.capacity) else { return };
    let Some(position) = section.position("warn_depth").cloned().filter(|_| warn >= capacity) else { return };
    let message = format!(
        "`warn_depth` in [queues.{}]: expected less than the `capacity` of {capacity}, got {warn}",
        queue.name
    );
    section.errors().push(ConfigError::at(&position, message));
}

/// Reads the job types of the configuration.
pub(crate) fn read_types(
    entries: &[Entry],
    queues: &[QueueSpec],
    default_retry: &RetryPolicy,
    errors: &mut ConfigErrors,
) -> Vec<TypeSpec> {
    let mut types: Vec<_> = entries
        .iter()
        .filter_map(|entry| {
            let name = name(entry, TypeName::parse, errors)?;
            read_type(entry, name, queues, default_retry, errors)
        })
        .collect();
    types.sort_by(|a: &TypeSpec, b| a.name.cmp(&b.name));
    types
}

fn read_type(
    entry: &Entry,
    name: TypeName,
    queues: &[QueueSpec],
    default_retry: &RetryPolicy,
    errors: &mut ConfigErrors,
) -> Option<TypeSpec> {
    let title = format!("[types.{name}]");
    let mut section = Section::of(title.as_str(), Some(&entry.node), errors);
    let queue = read_queue_of_type(&mut section, entry, &title, queues);
    let own_retry = section.entry("retry");
    let retry = own_retry.map(|own| retry::read(&format!("`retry` in {title}"), own, section.errors()));
    let default =
        TypeSpec::new(name, QueueName::parse("default").expect("a built-in queue has a plain name"));
    let spec = TypeSpec {
        retry: retry.flatten().unwrap_or_else(|| default_retry.clone()),
        timeout: section
            .get("timeout", span(Duration::from_micros(1), TIMEOUT_MAX))
            .unwrap_or(default.timeout),
        priority: section.get("priority", priority),
        retention_days: section
            .get("retention_days", whole(0, RETENTION_DAYS_MAX.into()))
            .and_then(|days| u32::try_from(days).ok())
            .unwrap_or(default.retention_days),
        keep_result: section.get("keep_result", boolean).unwrap_or(default.keep_result),
        ..default
    };
    section.finish();
    Some(TypeSpec { queue: queue?, ..spec })
}

/// Reads the one queue of a type, which must be declared.
fn read_queue_of_type(
    section: &mut Section<'_, '_>,
    entry: &Entry,
    title: &str,
    queues: &[QueueSpec],
) -> Option<QueueName> {
    let queue = section.get("queue", |value| QueueName::parse(&text(value)?).map_err(|why| why.to_string()));
    let Some(queue) = queue else {
        if section.position("queue").is_none() {
            let message =
                format!("expected `queue` in {title}, got none; every job type belongs to one queue");
            section.errors().push(ConfigError::at(&entry.key_position, message));
        }
        return None;
    };
    if queues.iter().any(|declared| declared.name == queue) {
        return Some(queue);
    }
    let known = queues.iter().map(|declared| declared.name.as_str());
    let hint = match nearest(queue.as_str(), known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("declared queues: {}; or add [queues.{queue}]", known.collect::<Vec<_>>().join(", ")),
    };
    let position = section.position("queue").unwrap_or(&entry.key_position).clone();
    let message = format!("`queue` in {title}: expected a declared queue, got {queue:?}");
    section.errors().push(ConfigError::at(&position, message).hint(hint));
    None
}

fn priority(value: &Value) -> Result<Priority, String> {
    whole(0, 10)(value).and_then(|number| Priority::new(number).map_err(|why| why.to_string()))
}

fn name<T>(
    entry: &Entry,
    parse: impl Fn(&str) -> Result<T, windlass_core::names::NameError>,
    errors: &mut ConfigErrors,
) -> Option<T> {
    parse(&entry.key).map_err(|why| errors.push(ConfigError::at(&entry.key_position, why.to_string()))).ok()
}
