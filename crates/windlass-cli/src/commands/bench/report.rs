//! What is printed at the end: figures, and the conditions under which they hold.

use comfy_table::Cell;
use serde_json::{Value, json};

use super::figures::{Merged, Spread, rounded};
use crate::exit::Failure;
use crate::output::Output;

/// Everything that was measured.
pub(super) struct Report {
    pub(super) engine: &'static str,
    pub(super) conditions: Value,
    pub(super) results: Vec<Merged>,
}

pub(super) fn print(report: &Report, output: &mut Output) -> Result<(), Failure> {
    if cfg!(debug_assertions) {
        output.note("this is a debug build; its figures mean nothing. Use `cargo run --release -- bench`");
    }
    if output.is_json() {
        let scenarios: Vec<_> = report.results.iter().map(Merged::to_json).collect();
        return output.json(&json!({
            "engine": report.engine,
            "conditions": report.conditions,
            "scenarios": scenarios,
        }));
    }
    let rows = report.results.iter().flat_map(rows).collect();
    output.table(&["SCENARIO", "FIGURE", report.engine, "LEAST TO MOST"], rows, "")?;
    output.line("")?;
    output.line(conditions(&report.conditions))
}

fn rows(scenario: &Merged) -> impl Iterator<Item = Vec<Cell>> + '_ {
    scenario.figures.iter().map(|(name, spread)| {
        let range = if scenario.runs > 1 { range(spread) } else { String::new() };
        vec![Cell::new(scenario.name), Cell::new(name), Cell::new(shown(spread.median)), Cell::new(range)]
    })
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
    format!("conditions: {}", shown.collect::<Vec<_>>().join(", "))
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
