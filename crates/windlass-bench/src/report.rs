//! What is printed at the end: the figures and their conditions.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};

use crate::figures::{Merged, Spread, rounded};

/// All results of a measurement.
pub(crate) struct Report {
    pub(crate) engine: &'static str,
    pub(crate) conditions: Value,
    pub(crate) results: Vec<Merged>,
}

impl Report {
    /// Prints a table, or JSON.
    pub(crate) fn print(&self, json: bool) -> Result<()> {
        let text = if json { serde_json::to_string_pretty(&self.to_json())? } else { self.table() };
        Ok(writeln!(std::io::stdout(), "{text}")?)
    }

    fn to_json(&self) -> Value {
        let scenarios: Vec<_> = self.results.iter().map(Merged::to_json).collect();
        json!({ "engine": self.engine, "conditions": self.conditions, "scenarios": scenarios })
    }

    fn table(&self) -> String {
        let mut lines = vec![line("SCENARIO", "FIGURE", self.engine, "LEAST TO MOST")];
        for scenario in &self.results {
            for (figure, spread) in &scenario.figures {
                let range = if scenario.runs > 1 { range(spread) } else { String::new() };
                lines.push(line(scenario.name, figure, &shown(spread.median), &range));
            }
        }
        lines.push(conditions(&self.conditions));
        lines.join("\n")
    }
}

fn line(scenario: &str, figure: &str, median: &str, range: &str) -> String {
    format!("{scenario:<23}{figure:<26}{median:>14}  {range}").trim_end().to_owned()
}

fn range(spread: &Spread) -> String {
    format!("{} to {}", shown(spread.least), shown(spread.most))
}

/// With commas between the thousands, since most figures have several.
fn shown(figure: f64) -> String {
    let text = rounded(figure).to_string();
    let (whole, rest) =
        text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    rest.map_or(grouped.clone(), |rest| format!("{grouped}.{rest}"))
}

fn conditions(conditions: &Value) -> String {
    let all = conditions.as_object().into_iter().flatten();
    let shown = all.map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{} {value}", name.replace('_', " "))
    });
    format!("\nconditions: {}", shown.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_in_groups_of_three_digits() {
        for (figure, text) in
            [(0.1234, "0.123"), (999.5, "999.5"), (1234.5, "1,235"), (12_345_678.0, "12,345,678")]
        {
            assert_eq!(shown(figure), text);
        }
    }
}
