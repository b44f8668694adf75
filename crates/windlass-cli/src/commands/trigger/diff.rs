//! `windlass trigger diff`: compares the stored completion triggers with the configuration.

use std::collections::BTreeMap;

use comfy_table::Cell;
use serde_json::json;
use windlass_core::names::TriggerName;
use windlass_core::schedules::Origin;
use windlass_core::triggers::StoredTrigger;

use super::triggers;
use crate::context::Context;
use crate::exit::{Code, Failure};

pub(super) async fn diff(context: &mut Context) -> Result<Code, Failure> {
    let read = triggers(context).all().await?;
    let declared = &context.config.triggers;
    let mut rows: BTreeMap<&TriggerName, (&str, &str)> = BTreeMap::new();
    for spec in declared {
        let stored = read.triggers.iter().find(|stored| *stored.name() == spec.name);
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
    for stored in &read.triggers {
        if declared.iter().all(|spec| spec.name != *stored.name()) {
            rows.insert(stored.name(), not_declared(stored));
        }
    }
    if context.output.is_json() {
        let view = |(name, (difference, remark)): (&&TriggerName, &(&str, &str))| json!({ "name": name, "difference": difference, "remark": remark });
        let views: Vec<_> = rows.iter().map(view).collect();
        context.output.json(&views)?;
        return Ok(Code::Ok);
    }
    let row = |(name, (difference, remark)): (&&TriggerName, &(&str, &str))| {
        [name.as_str(), difference, remark].into_iter().map(Cell::new).collect()
    };
    let rows = rows.iter().map(row).collect();
    context.output.table(
        &["trigger", "difference", "remark"],
        rows,
        "no completion trigger is stored or declared",
    )?;
    Ok(Code::Ok)
}

/// The difference of a stored trigger that the configuration does not declare. It is missed only if it came
/// from a configuration.
fn not_declared(stored: &StoredTrigger) -> (&'static str, &'static str) {
    match stored.record.origin {
        Origin::Configuration => ("no longer declared", "it continues until `windlass trigger remove`"),
        Origin::Code => ("declared in code", "the application declares it; this configuration does not"),
        Origin::Cli => ("stored at the command line", "it continues until `windlass trigger remove`"),
    }
}
