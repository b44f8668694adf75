//! `[triggers.NAME]`: jobs that are enqueued when a group of jobs has finished.

use windlass_core::names::{TriggerName, TypeName};
use windlass_core::priority::PriorityLabels;
use windlass_core::schedules::JobTemplate;
use windlass_core::triggers::{CompletionTrigger, Watched};

use super::error::{ConfigError, ConfigErrors};
use super::schedules::read_job;
use super::section::{Section, boolean, text};
use super::tree::Entry;

/// Reads the completion triggers, and sorts them by name.
pub(crate) fn read(
    entries: &[Entry],
    labels: &PriorityLabels,
    errors: &mut ConfigErrors,
) -> Vec<CompletionTrigger> {
    let mut triggers: Vec<CompletionTrigger> = Vec::new();
    for entry in entries {
        let Some(spec) = read_one(entry, labels, errors) else { continue };
        if triggers.iter().any(|other| other.name == spec.name) {
            let message = format!(
                "expected completion trigger {} once, got it twice; names are matched without case",
                spec.name
            );
            errors.push(ConfigError::at(&entry.key_position, message));
            continue;
        }
        if let Err(why) = spec.check() {
            errors.push(ConfigError::at(&entry.key_position, why.to_string()));
            continue;
        }
        triggers.push(spec);
    }
    triggers.sort_by(|a, b| a.name.cmp(&b.name));
    triggers
}

fn read_one(entry: &Entry, labels: &PriorityLabels, errors: &mut ConfigErrors) -> Option<CompletionTrigger> {
    let name = TriggerName::parse(&entry.key)
        .map_err(|why| errors.push(ConfigError::at(&entry.key_position, why.to_string())))
        .ok()?;
    let title = format!("[triggers.{name}]");
    let mut section = Section::of(title.as_str(), Some(&entry.node), errors);
    let is_missing = section.position("watch").is_none() || section.position("job").is_none();
    let watch = section.get("watch", |value| text(value)?.parse::<Watched>().map_err(|why| why.to_string()));
    let job_type = section.get("job", |value| TypeName::parse(&text(value)?).map_err(|why| why.to_string()));
    let template = read_job(&mut section, labels);
    let wait_for_retries = section.get("wait_for_retries", boolean).unwrap_or_default();
    if is_missing {
        let message = format!(
            "expected `watch` and `job` in {title}, got none or one; set the group and the type of the job"
        );
        section.errors().push(ConfigError::at(&entry.key_position, message));
    }
    section.finish();
    let job = JobTemplate { job_type: job_type?, ..template };
    Some(CompletionTrigger { wait_for_retries, ..CompletionTrigger::new(name, watch?, job) })
}
