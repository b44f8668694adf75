//! The result of one scenario, as a line of JSON or of a table.

use std::time::Duration;

use serde_json::{Value, json};

/// A figure, or the two figures of latency, with the numbers that show whether to trust it.
#[derive(Debug)]
pub(crate) struct Measured {
    peer: &'static str,
    scenario: &'static str,
    figures: Figures,
}

#[derive(Debug)]
pub(crate) enum Figures {
    /// A rate of enqueued jobs.
    Rate { jobs: u64, took: Duration, capped: bool },
    /// A rate of jobs that a worker ran.
    Drain { jobs: u64, ran: u64, took: Duration, capped: bool, ran_twice: u64, unsettled: i64 },
    /// The time from the enqueue call to the handler.
    Latency { jobs: u64, missed: u64, p50: Duration, p99: Duration, ran_twice: u64 },
}

impl Measured {
    pub(crate) fn new(peer: &'static str, scenario: &'static str, figures: Figures) -> Self {
        Self { peer, scenario, figures }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut value = match &self.figures {
            Figures::Rate { jobs, took, capped } => json!({
                "jobs": jobs,
                "jobs_per_second": per_second(*jobs, *took),
                "capped": capped,
            }),
            Figures::Drain { jobs, ran, took, capped, ran_twice, unsettled } => json!({
                "jobs": jobs,
                "ran": ran,
                "jobs_per_second": per_second(*ran, *took),
                "capped": capped,
                "ran_twice": ran_twice,
                "unsettled": unsettled,
            }),
            Figures::Latency { jobs, missed, p50, p99, ran_twice } => json!({
                "jobs": jobs,
                "missed": missed,
                "p50_ms": millis(*p50),
                "p99_ms": millis(*p99),
                "ran_twice": ran_twice,
            }),
        };
        value["peer"] = json!(self.peer);
        value["version"] = json!(version_of(self.peer));
        value["scenario"] = json!(self.scenario);
        value
    }

    pub(crate) fn to_row(&self) -> String {
        let star = |capped: &bool| if *capped { "*" } else { "" };
        let text = match &self.figures {
            Figures::Rate { jobs, took, capped } => {
                format!("{:>9.0}/s{:1}  {jobs} jobs", per_second(*jobs, *took), star(capped))
            }
            Figures::Drain { jobs, ran, took, capped, ran_twice, unsettled } => format!(
                "{:>9.0}/s{:1}  {ran} of {jobs} jobs ran, {ran_twice} twice, {unsettled} not settled at the end",
                per_second(*ran, *took),
                star(capped),
            ),
            Figures::Latency { jobs, missed, p50, p99, ran_twice } => format!(
                "{:>5.2} / {:.2} ms  p50 / p99 of {jobs} jobs, {missed} missed, {ran_twice} ran twice",
                millis(*p50),
                millis(*p99),
            ),
        };
        format!("{:16} {:9} {text}", self.peer, self.scenario)
    }
}

fn per_second(jobs: u64, took: Duration) -> f64 {
    (jobs as f64 / took.as_secs_f64() * 10.0).round() / 10.0
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// The version of a crate in this program's `Cargo.lock`.
fn version_of(name: &str) -> Option<&'static str> {
    let lock = include_str!("../Cargo.lock");
    let package =
        lock.split("[[package]]").find(|package| package.contains(&format!("\nname = \"{name}\"\n")))?;
    package.split_once("version = \"")?.1.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_peers_have_a_version() {
        for peer in ["graphile_worker", "apalis-postgres"] {
            assert!(version_of(peer).is_some_and(|version| version.split('.').count() == 3), "{peer}");
        }
        assert_eq!(version_of("no-such-peer"), None);
    }

    #[test]
    fn a_drain_that_hit_its_cap_tells_the_rate_of_the_part_done() {
        let took = Duration::from_secs(60);
        let figures =
            Figures::Drain { jobs: 100_000, ran: 6_000, took, capped: true, ran_twice: 2, unsettled: 94_000 };
        let measured = Measured::new("apalis-postgres", "drain", figures);
        assert_eq!(measured.to_json()["jobs_per_second"], json!(100.0));
        assert!(measured.to_row().contains("100/s*") && measured.to_row().contains("6000 of 100000"));
    }
}
