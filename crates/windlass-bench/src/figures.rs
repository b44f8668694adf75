//! The figures of scenarios, over one run or several.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// The figures of one scenario in one run, in the order in which they are shown. What was not measured is
/// missing, never zero.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures(Vec<(&'static str, f64)>);

impl Figures {
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, figure: f64) -> Self {
        self.0.push((name, figure));
        self
    }

    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, figure)| *figure)
    }

    /// Adds how one figure compares to another, if both are there.
    #[must_use]
    pub(crate) fn with_ratio(self, name: &'static str, ours: Option<f64>, theirs: Option<f64>) -> Self {
        match (ours, theirs) {
            (Some(ours), Some(theirs)) if theirs > 0.0 => self.with(name, ours / theirs),
            _ => self,
        }
    }

    #[must_use]
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }
}

/// A name and its figures in one run.
pub(crate) type Measured = (&'static str, Figures);

/// One figure over all runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// One scenario over all runs.
#[derive(Debug, Clone)]
pub(crate) struct Merged {
    pub(crate) name: &'static str,
    pub(crate) runs: usize,
    pub(crate) figures: Vec<(&'static str, Spread)>,
}

/// Each run measured the same scenarios in the same order.
pub(crate) fn merge(runs: Vec<Vec<Measured>>) -> Vec<Merged> {
    let Some(first) = runs.first() else { return Vec::new() };
    let scenarios = first.iter().enumerate().map(|(index, (name, figures))| {
        let over_runs: Vec<_> =
            runs.iter().filter_map(|run| run.get(index)).map(|(_, figures)| figures).collect();
        let merged = figures.0.iter().filter_map(|(figure, _)| Some((*figure, spread(figure, &over_runs)?)));
        Merged { name, runs: runs.len(), figures: merged.collect() }
    });
    scenarios.collect()
}

fn spread(name: &str, runs: &[&Figures]) -> Option<Spread> {
    let mut all: Vec<_> = runs.iter().filter_map(|figures| figures.get(name)).collect();
    all.sort_by(f64::total_cmp);
    let (least, most) = (*all.first()?, *all.last()?);
    // Of an even number of runs, the middle between the two in the middle.
    let median = f64::midpoint(all[(all.len() - 1) / 2], all[all.len() / 2]);
    Some(Spread { median, least, most })
}

impl Merged {
    pub(crate) fn to_json(&self) -> Value {
        let mut value = Map::new();
        value.insert("name".to_owned(), json!(self.name));
        for (name, spread) in &self.figures {
            value.insert((*name).to_owned(), json!(rounded(spread.median)));
        }
        if self.runs > 1 {
            let spreads: BTreeMap<_, _> = self
                .figures
                .iter()
                .map(|(name, spread)| {
                    (*name, json!({ "min": rounded(spread.least), "max": rounded(spread.most) }))
                })
                .collect();
            value.insert("spread".to_owned(), json!(spreads));
        }
        Value::Object(value)
    }
}

/// Three digits after the point for small figures, none for big ones.
pub(crate) fn rounded(figure: f64) -> f64 {
    if figure >= 1000.0 { figure.round() } else { (figure * 1000.0).round() / 1000.0 }
}

pub(crate) fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rates: [f64; 2]) -> Vec<Measured> {
        let [a, b] = rates;
        vec![("a", Figures::default().with("rate", a)), ("b", Figures::default().with("rate", b))]
    }

    #[test]
    fn several_runs_give_the_median_and_the_spread_of_each_figure() {
        let merged = merge(vec![run([3.0, 10.0]), run([1.0, 20.0]), run([2.0, 30.0])]);
        assert_eq!(merged[0].figures, [("rate", Spread { median: 2.0, least: 1.0, most: 3.0 })]);
        assert_eq!(merged[1].to_json()["spread"]["rate"], json!({ "min": 10.0, "max": 30.0 }));
        let two = merge(vec![run([1.0, 1.0]), run([2.0, 1.0])]);
        assert_eq!(two[0].to_json()["rate"], 1.5);
    }

    #[test]
    fn one_run_has_no_spread_and_what_was_not_measured_is_missing() {
        let json = merge(vec![run([1.0, 2.0])])[0].to_json();
        assert_eq!(json, json!({ "name": "a", "rate": 1.0 }));
        let without =
            Figures::default().with_ratio("ratio", Some(1.0), None).with_ratio("ratio", Some(1.0), Some(0.0));
        assert_eq!(without.get("ratio"), None);
    }
}
