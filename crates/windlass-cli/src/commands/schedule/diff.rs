//! `windlass schedule diff`: compares the stored schedules with the configuration.

use std::collections::BTreeMap;

use comfy_table::Cell;
use serde_json::json;
use windlass_core::names::ScheduleName;
use windlass_core::schedules::{Origin, ScheduleSpec, SchedulesRead, StoredSchedule};

use super::schedules;
use crate::context::Context;
use crate::exit::{Code, Failure};

pub(super) async fn diff(context: &mut Context) -> Result<Code, Failure> {
    let read = schedules(context).all().await?;
    let rows = differences(&context.config.schedules, &read);
    if context.output.is_json() {
        let view = |(name, (difference, remark)): (&&ScheduleName, &Difference)| json!({ "name": name, "difference": difference, "remark": remark });
        let views: Vec<_> = rows.iter().map(view).collect();
        context.output.json(&views)?;
        return Ok(Code::Ok);
    }
    let row = |(name, (difference, remark)): (&&ScheduleName, &Difference)| {
        [name.as_str(), difference, remark].into_iter().map(Cell::new).collect()
    };
    let rows = rows.iter().map(row).collect();
    context.output.table(&["schedule", "difference", "remark"], rows, "no schedule is stored or declared")?;
    Ok(Code::Ok)
}

/// The kind of difference, and what follows from it.
type Difference = (&'static str, &'static str);

fn differences<'a>(
    declared: &'a [ScheduleSpec],
    read: &'a SchedulesRead,
) -> BTreeMap<&'a ScheduleName, Difference> {
    let mut rows = BTreeMap::new();
    for spec in declared {
        let stored = read.schedules.iter().find(|stored| *stored.name() == spec.name);
        let difference = match stored {
            None => ("not stored", "the next `windlass serve` stores it"),
            Some(stored) if stored.record.spec != *spec => {
                ("declared differently", "the next `windlass serve` changes it")
            }
            Some(stored) if stored.record.origin != Origin::Configuration => {
                ("stored from elsewhere", "the next `windlass serve` takes it over")
            }
            Some(_) => ("same", ""),
        };
        rows.insert(&spec.name, difference);
    }
    for stored in &read.schedules {
        if declared.iter().all(|spec| spec.name != *stored.name()) {
            rows.insert(stored.name(), not_declared(stored));
        }
    }
    for (name, _) in &read.damaged {
        rows.insert(name, ("cannot be read", "it does not run; delete it with `windlass schedule remove`"));
    }
    rows
}

/// The difference of a stored schedule that the configuration does not declare. It is missed only if it
/// came from a configuration.
fn not_declared(stored: &StoredSchedule) -> Difference {
    match stored.record.origin {
        Origin::Configuration => ("no longer declared", "it continues until `windlass schedule remove`"),
        Origin::Code => ("declared in code", "the application declares it; this configuration does not"),
        Origin::Cli => ("stored at the command line", "it continues until `windlass schedule remove`"),
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::clock::Timestamp;
    use windlass_core::names::TypeName;
    use windlass_core::schedule::Schedule;
    use windlass_core::schedules::JobTemplate;

    use super::*;

    #[test]
    fn what_cannot_be_read_is_a_row_whether_it_is_declared_or_not() {
        let name = |text: &str| ScheduleName::parse(text).unwrap();
        let job = JobTemplate::new(TypeName::parse("work").unwrap());
        let declared = [ScheduleSpec::new(name("nightly"), Schedule::parse("every 1h").unwrap(), job)];
        let damaged = vec![(name("nightly"), 3), (name("old"), 4)];
        let now = Timestamp::from_micros(0);
        let read = SchedulesRead { schedules: Vec::new(), damaged, end: None, next: None, now };
        let rows = differences(&declared, &read);
        assert_eq!(rows.len(), 2);
        assert!(rows.values().all(|(difference, _)| *difference == "cannot be read"), "{rows:?}");
    }
}
