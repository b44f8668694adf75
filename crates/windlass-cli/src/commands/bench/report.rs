//! The figures over all runs, as a table or as JSON.

use comfy_table::Cell;
use serde_json::{Value, json};

use super::scenarios::PAYLOAD_BYTES;
use super::{BenchArgs, Figures, Scenario};
use crate::exit::Failure;
use crate::output::Output;

/// The figures so far.
pub(super) struct Report {
    engine: &'static str,
    conditions: Value,
    rows: Vec<Row>,
}

/// One figure of a scenario, with its values in each run, sorted.
struct Row {
    scenario: &'static str,
    figure: &'static str,
    values: Vec<f64>,
}

impl Report {
    pub(super) fn new(engine: &'static str, args: &BenchArgs) -> Self {
        let conditions = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "jobs": args.jobs,
            "runs": args.runs,
            "payload_bytes": PAYLOAD_BYTES,
            "concurrency": args.concurrency,
            "cores": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            "optimised": !cfg!(debug_assertions),
        });
        Self { engine, conditions, rows: Vec::new() }
    }

    /// Adds the figures of one run.
    pub(super) fn add(&mut self, scenario: Scenario, figures: Figures) {
        let scenario = scenario.name();
        for (figure, value) in figures {
            match self.rows.iter_mut().find(|row| (row.scenario, row.figure) == (scenario, figure)) {
                Some(row) => row.values.insert(row.values.partition_point(|known| *known < value), value),
                None => self.rows.push(Row { scenario, figure, values: vec![value] }),
            }
        }
    }

    pub(super) fn print(&self, output: &mut Output) -> Result<(), Failure> {
        if output.is_json() {
            return output.json(&self.to_json());
        }
        let rows = self.rows.iter().map(|row| {
            let spread = row.spread().map_or_else(String::new, |(min, max)| format!("{min} to {max}"));
            vec![Cell::new(row.scenario), Cell::new(row.figure), Cell::new(row.median()), Cell::new(spread)]
        });
        output.table(&["scenario", "figure", self.engine, "lowest to highest"], rows.collect(), "")
    }

    fn to_json(&self) -> Value {
        let mut scenarios: Vec<Value> = Vec::new();
        for row in &self.rows {
            if scenarios.last().is_none_or(|last| last["name"] != row.scenario) {
                scenarios.push(json!({ "name": row.scenario }));
            }
            let scenario = scenarios.last_mut().expect("one was just added");
            scenario[row.figure] = json!(row.median());
            if let Some((min, max)) = row.spread() {
                scenario["spread"][row.figure] = json!({ "min": min, "max": max });
            }
        }
        json!({ "engine": self.engine, "conditions": self.conditions, "scenarios": scenarios })
    }
}

impl Row {
    /// Of an even number of runs, the middle between the two in the middle.
    fn median(&self) -> f64 {
        let last = self.values.len() - 1;
        rounded(f64::midpoint(self.values[last / 2], self.values[last.div_ceil(2)]))
    }

    /// The lowest and the highest value of several runs.
    fn spread(&self) -> Option<(f64, f64)> {
        match self.values[..] {
            [lowest, .., highest] => Some((rounded(lowest), rounded(highest))),
            _ => None,
        }
    }
}

/// Three digits after the point for small figures, none for big ones.
fn rounded(figure: f64) -> f64 {
    if figure >= 1000.0 { figure.round() } else { (figure * 1000.0).round() / 1000.0 }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn report(runs: &[f64]) -> Value {
        let mut report = Report::new("sqlite", &Line::parse_from(["bench"]).args);
        for rate in runs {
            report.add(Scenario::Enqueue, vec![("single_per_second", 1.0), ("bulk_per_second", 2.0)]);
            report.add(Scenario::Drain, vec![("jobs_per_second", *rate)]);
        }
        report.to_json()["scenarios"].clone()
    }

    #[test]
    fn several_runs_give_the_median_and_the_spread_of_each_figure() {
        let scenarios = report(&[3.0, 1.0, 2.0]);
        assert_eq!(scenarios[0]["name"], "enqueue");
        assert_eq!(scenarios[1]["jobs_per_second"], 2.0);
        assert_eq!(scenarios[1]["spread"]["jobs_per_second"], json!({ "min": 1.0, "max": 3.0 }));
        assert_eq!(report(&[1.0, 2.0])[1]["jobs_per_second"], 1.5);
    }

    #[test]
    fn one_run_has_no_spread() {
        let enqueue = json!({ "name": "enqueue", "single_per_second": 1.0, "bulk_per_second": 2.0 });
        assert_eq!(report(&[1.0]), json!([enqueue, { "name": "drain", "jobs_per_second": 1.0 }]));
    }
}
