//! Reads the measurements: JSON objects of peers and of Windlass, one after another.

use anyhow::{Context as _, bail, ensure};
use serde_json::{Deserializer, Value};

/// The name of Windlass in tables.
pub(crate) const WINDLASS: &str = "windlass";

/// A compared figure, with its scenario and its key in the output of each side.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    of_a_peer: (&'static str, &'static str),
    of_windlass: (&'static str, &'static str),
}

/// The figures, in the order of a job's path. The last column has their names in `windlass-bench --json`.
pub(crate) const FIGURES: [Figure; 7] = [
    figure("enqueue, one by one", "/s", ("enqueue1", "jobs_per_second"), ("enqueue", "single_per_second")),
    figure("enqueue in bulk", "/s", ("bulk", "jobs_per_second"), ("enqueue", "bulk_per_second")),
    figure("drain", "/s", ("drain", "jobs_per_second"), ("drain", "jobs_per_second")),
    figure(
        "drain, no history",
        "/s",
        ("drain", "jobs_per_second"),
        ("drain-without-history", "jobs_per_second"),
    ),
    figure("drain, pinned", "/s", ("pinned", "jobs_per_second"), ("pinned", "jobs_per_second")),
    figure("latency, p50", " ms", ("latency", "p50_ms"), ("latency", "pickup_p50_ms")),
    figure("latency, p99", " ms", ("latency", "p99_ms"), ("latency", "pickup_p99_ms")),
];

const fn figure(
    title: &'static str,
    unit: &'static str,
    of_a_peer: (&'static str, &'static str),
    of_windlass: (&'static str, &'static str),
) -> Figure {
    Figure { title, unit, of_a_peer, of_windlass }
}

/// The result of one run of one scenario.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The name and the version of the queue.
    pub(crate) who: String,
    pub(crate) scenario: String,
    values: Value,
}

impl Reading {
    /// The value of the figure, if this reading has it.
    pub(crate) fn value(&self, figure: &Figure) -> Option<f64> {
        let (scenario, key) = if self.who == WINDLASS { figure.of_windlass } else { figure.of_a_peer };
        (self.scenario == scenario).then(|| self.values[key].as_f64())?
    }

    /// The number of jobs to drain, if this is a drain that reports it.
    pub(crate) fn drained(&self) -> Option<f64> {
        (self.scenario == "drain").then(|| self.values["jobs"].as_f64())?
    }

    /// Whether the time limit was reached before the work was done.
    pub(crate) fn is_capped(&self) -> bool {
        self.values["capped"] == true
    }

    /// The reasons to doubt the figure, in words.
    pub(crate) fn faults(&self) -> Vec<String> {
        let count = |key: &str| self.values[key].as_u64().filter(|count| *count > 0);
        let warning = |text: &str, count: u64| format!("{}, {}: {count} {text}", self.who, self.scenario);
        let unsettled = if self.is_capped() { None } else { count("unsettled") };
        let faults = [
            count("ran_twice").map(|count| warning("jobs ran twice", count)),
            count("missed").map(|count| warning("jobs were not picked up in time", count)),
            unsettled
                .map(|count| warning("jobs ran, but were not settled when the worker had stopped", count)),
        ];
        faults.into_iter().flatten().collect()
    }
}

/// All readings, in the order in which they were taken.
pub(crate) fn read(text: &str) -> anyhow::Result<Vec<Reading>> {
    let mut readings = Vec::new();
    for value in Deserializer::from_str(text).into_iter::<Value>() {
        readings.extend(readings_of(&value?)?);
    }
    ensure!(!readings.is_empty(), "expected measurements, got nothing");
    Ok(readings)
}

/// The readings in one object. A peer writes one object for each scenario; Windlass writes one object with
/// a list of scenarios.
fn readings_of(value: &Value) -> anyhow::Result<Vec<Reading>> {
    if let Some(peer) = value["peer"].as_str() {
        let version = value["version"].as_str().unwrap_or("of unknown version");
        return Ok(vec![reading(format!("{peer} {version}"), &value["scenario"], value)?]);
    }
    let Some(scenarios) = value["scenarios"].as_array() else {
        bail!("expected an object with `peer`, or an object of Windlass with `scenarios`, got {value}");
    };
    scenarios.iter().map(|scenario| reading(WINDLASS.to_owned(), &scenario["name"], scenario)).collect()
}

fn reading(who: String, scenario: &Value, values: &Value) -> anyhow::Result<Reading> {
    let scenario =
        scenario.as_str().with_context(|| format!("expected the name of a scenario in {values}"))?;
    let reading = Reading { who, scenario: scenario.to_owned(), values: values.clone() };
    let known = FIGURES.iter().any(|figure| reading.value(figure).is_some());
    ensure!(known, "expected a scenario with a figure, such as drain with jobs_per_second, got {values}");
    Ok(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str =
        r#"{"peer":"a","version":"1.0.0","scenario":"drain","jobs_per_second":10.5,"capped":true}"#;

    #[test]
    fn a_peer_and_windlass_are_read_from_one_text() {
        let ours = r#"{"engine":"postgres","scenarios":[
            {"name":"latency","pickup_p50_ms":1.5,"pickup_p99_ms":3.0},
            {"name":"enqueue","single_per_second":7,"bulk_per_second":8}]}"#;
        let readings = read(&format!("{PEER}\n{ours}")).unwrap();
        let values: Vec<_> = readings
            .iter()
            .flat_map(|reading| {
                FIGURES.iter().filter_map(|figure| Some((figure.title, reading.value(figure)?)))
            })
            .collect();
        assert_eq!(
            values,
            [
                ("drain", 10.5),
                ("drain, no history", 10.5),
                ("latency, p50", 1.5),
                ("latency, p99", 3.0),
                ("enqueue, one by one", 7.0),
                ("enqueue in bulk", 8.0)
            ]
        );
        assert_eq!((readings[0].who.as_str(), readings[1].who.as_str()), ("a 1.0.0", WINDLASS));
        assert!(readings[0].is_capped() && !readings[1].is_capped());
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        for wrong in ["", r#"{"drain_per_s": 5}"#, r#"{"peer":"a","scenario":"drain"}"#, r#"{"peer":"a"}"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn jobs_that_ran_twice_are_told_and_those_left_by_a_capped_run_are_not_held_against_it() {
        let capped = PEER.replace("true}", r#"true,"ran_twice":2,"unsettled":9}"#);
        assert_eq!(read(&capped).unwrap()[0].faults(), ["a 1.0.0, drain: 2 jobs ran twice"]);
        let done = capped.replace("true,", "false,");
        assert_eq!(read(&done).unwrap()[0].faults().len(), 2);
    }
}
