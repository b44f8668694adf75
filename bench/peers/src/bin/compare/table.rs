//! The table: for each figure and each queue the median, the spread, and the ratio to Windlass.

use crate::readings::{FIGURES, Figure, Reading, WINDLASS};

/// A Markdown table, with the explanations that its reader needs.
pub(crate) fn table(readings: &[Reading]) -> String {
    let queues = queues_of(readings);
    let mut lines = vec![header(&queues), format!("|---|{}", "---|".repeat(columns(&queues)))];
    lines.extend(FIGURES.iter().map(|figure| row(figure, &queues, readings)));
    lines.push(String::new());
    lines.push(amounts(readings));
    lines.push(
        "median (lowest–highest); * a run reached its time limit, and its rate is that of the finished jobs"
            .to_owned(),
    );
    lines.push(
        "ratio: the peer's figure divided by that of Windlass; above 1, rates are better and times are worse"
            .to_owned(),
    );
    lines.extend(faults(readings));
    lines.join("\n")
}

/// The queues of the table: Windlass first, then the peers in the order of the readings.
fn queues_of(readings: &[Reading]) -> Vec<&str> {
    let mut queues: Vec<&str> = Vec::new();
    for reading in readings {
        if !queues.contains(&reading.who.as_str()) {
            queues.push(&reading.who);
        }
    }
    queues.sort_by_key(|queue| *queue != WINDLASS);
    queues
}

/// The number of columns. Windlass has no ratio to itself.
fn columns(queues: &[&str]) -> usize {
    queues.iter().map(|queue| if *queue == WINDLASS { 1 } else { 2 }).sum()
}

fn header(queues: &[&str]) -> String {
    let names = queues
        .iter()
        .map(|queue| if *queue == WINDLASS { format!(" {queue} |") } else { format!(" {queue} | ratio |") });
    format!("| |{}", names.collect::<String>())
}

fn row(figure: &Figure, queues: &[&str], readings: &[Reading]) -> String {
    let ours = Summary::of(figure, WINDLASS, readings);
    let cells = queues.iter().map(|queue| {
        let theirs = Summary::of(figure, queue, readings);
        let shown = theirs.as_ref().map_or_else(|| "–".to_owned(), |summary| summary.shown(figure.unit));
        if *queue == WINDLASS {
            return format!(" {shown} |");
        }
        let ratio =
            theirs.zip(ours.as_ref()).map(|(theirs, ours)| format!("{:.2}", theirs.median / ours.median));
        format!(" {shown} | {} |", ratio.unwrap_or_else(|| "–".to_owned()))
    });
    format!("| {} |{}", figure.title, cells.collect::<String>())
}

struct Summary {
    median: f64,
    lowest: f64,
    highest: f64,
    capped: bool,
}

impl Summary {
    fn of(figure: &Figure, queue: &str, readings: &[Reading]) -> Option<Self> {
        let ours = readings.iter().filter(|reading| reading.who == queue);
        let taken: Vec<_> =
            ours.filter_map(|reading| Some((reading.value(figure)?, reading.is_capped()))).collect();
        let mut values: Vec<f64> = taken.iter().map(|(value, _)| *value).collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            median: median(&values)?,
            lowest: *values.first()?,
            highest: *values.last()?,
            capped: taken.iter().any(|(_, capped)| *capped),
        })
    }

    fn shown(&self, unit: &str) -> String {
        let Self { median, lowest, highest, capped } = self;
        let star = if *capped { "*" } else { "" };
        format!("{}{unit}{star} ({}–{})", number(*median), number(*lowest), number(*highest))
    }
}

/// The median of sorted values. An even number of values has two in the middle; their mean is the median.
fn median(values: &[f64]) -> Option<f64> {
    let middle = values.get(values.len() / 2)?;
    if values.len() % 2 == 1 { Some(*middle) } else { Some((values[values.len() / 2 - 1] + middle) / 2.0) }
}

/// A number with at least three significant digits, and with commas for thousands.
fn number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let comma = |index: usize| index > 0 && (digits.len() - index).is_multiple_of(3);
    let shown = digits
        .chars()
        .enumerate()
        .map(|(index, digit)| if comma(index) { format!(",{digit}") } else { digit.to_string() });
    shown.collect()
}

/// The number of runs, and the number of drained jobs.
fn amounts(readings: &[Reading]) -> String {
    let first =
        |reading: &&Reading| reading.who == readings[0].who && reading.scenario == readings[0].scenario;
    let runs = readings.iter().filter(first).count();
    let drained =
        readings.iter().find_map(Reading::drained).map(|jobs| format!(", drains of {} jobs", number(jobs)));
    format!("{runs} runs, all queues in turn{}", drained.unwrap_or_default())
}

fn faults(readings: &[Reading]) -> Vec<String> {
    let faults: Vec<_> = readings.iter().flat_map(Reading::faults).collect();
    if faults.is_empty() {
        vec!["no job ran twice, was missed or stayed unsettled".to_owned()]
    } else {
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readings::read;

    fn drain(who: &str, rates: &[(u32, bool)]) -> String {
        let one = |(rate, capped): &(u32, bool)| {
            format!(
                r#"{{"peer":"{who}","version":"1.0.0","scenario":"drain","jobs":5000,"jobs_per_second":{rate},"capped":{capped}}}"#
            )
        };
        rates.iter().map(one).collect()
    }

    const OURS: &str = r#"{"engine":"postgres","scenarios":[{"name":"drain","jobs_per_second":40000}]}"#;

    #[test]
    fn a_row_has_median_spread_and_ratio_with_windlass_first() {
        let text = drain("a", &[(30_000, false), (10_000, false), (20_000, false)]) + OURS;
        let table = table(&read(&text).unwrap());
        assert!(table.starts_with("| | windlass | a 1.0.0 | ratio |\n|---|---|---|---|\n"), "{table}");
        let row = "| drain | 40,000/s (40,000–40,000) | 20,000/s (10,000–30,000) | 0.50 |";
        assert!(table.contains(row), "{table}");
        assert!(table.contains("no job ran twice"), "{table}");
        assert!(table.contains("3 runs, all queues in turn, drains of 5,000 jobs"), "{table}");
    }

    #[test]
    fn without_windlass_there_is_no_ratio_and_what_was_not_measured_is_no_figure() {
        let table = table(&read(&drain("a", &[(800, true), (600, false)])).unwrap());
        assert!(table.contains("| drain | 700/s* (600–800) | – |"), "{table}");
        assert!(table.contains("| enqueue in bulk | – | – |"), "{table}");
    }
}
