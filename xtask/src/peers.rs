//! `cargo xtask peers`: other queues and Windlass do the same work on the same server, alternately, and one
//! table compares them. `bench/peers`, a separate workspace, defines the peers and the measurements.

use std::path::PathBuf;
use std::process::Command;

use crate::{bench, command};

pub(crate) const MANIFEST: &str = "bench/peers/Cargo.toml";
/// The names of the peers in their program.
const PEERS: [&str; 2] = ["graphile_worker", "apalis"];

/// Builds everything, measures as often as requested, and prints the table.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    let plan = Plan::read(options)?;
    if std::env::var_os("DATABASE_URL").is_none() {
        return Err("expected a server in DATABASE_URL; \
                    `cargo xtask servers -- cargo xtask peers --engine postgres` starts one"
            .to_owned());
    }
    plan.builds().iter_mut().try_for_each(command::run)?;
    let path = plan.measure()?;
    println!("\nthe measurements are in {}", path.display());
    command::run(of_the_peers("compare").arg(path))
}

#[derive(Debug, PartialEq, Eq)]
struct Plan {
    runs: u32,
    jobs: u64,
    without_windlass: bool,
}

impl Plan {
    fn read(options: &[&str]) -> Result<Self, String> {
        let mut plan = Self { runs: 3, jobs: 100_000, without_windlass: false };
        let mut engine = None;
        let mut words = options.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().copied().ok_or_else(|| format!("expected a value after {word}"));
            match *word {
                "--engine" => engine = Some(value()?),
                "--runs" => plan.runs = at_least_one(value()?)?,
                "--jobs" => plan.jobs = at_least_one(value()?)?,
                "--without-windlass" => plan.without_windlass = true,
                other => {
                    return Err(format!(
                        "expected --engine, --runs, --jobs or --without-windlass, got {other:?}"
                    ));
                }
            }
        }
        match engine {
            Some("postgres") => Ok(plan),
            other => Err(format!("expected `--engine postgres`, the engine of the peers, got {other:?}")),
        }
    }

    fn builds(&self) -> Vec<Command> {
        let peers = ["build", "--release", "--locked", "--manifest-path", MANIFEST];
        let mut builds = vec![command::cargo(&peers)];
        if !self.without_windlass {
            builds.push(bench::build());
        }
        builds
    }

    /// Runs each program once, then each program again. The speed of a machine changes from minute to
    /// minute, and thus each program gets some of the good minutes.
    fn measure(&self) -> Result<PathBuf, String> {
        let mut measured = String::new();
        for run in 1..=self.runs {
            println!("\n── run {run} of {} ──", self.runs);
            for program in &mut self.programs() {
                let result = command::run_and_read(program, |line| {
                    println!("{line}");
                    measured.extend([line, "\n"]);
                });
                // Also stores the measurements before a failure.
                keep(&measured)?;
                result?;
            }
        }
        keep(&measured)
    }

    fn programs(&self) -> Vec<Command> {
        let jobs = self.jobs.to_string();
        let peer = |name: &&str| {
            let mut command = of_the_peers("peers");
            command.args(["--peer", name, "--jobs", &jobs, "--json"]);
            command
        };
        let mut programs: Vec<_> = PEERS.iter().map(peer).collect();
        if !self.without_windlass {
            let mut command = bench::program();
            command.args(["--engine", "postgres", "--jobs", &jobs, "--json"]);
            command.args(["--scenario", "drain,drain-without-history,enqueue,latency,pinned"]);
            programs.push(command);
        }
        programs
    }
}

/// A command that runs a program of the peers. Cargo knows its path, which the environment may have
/// changed.
fn of_the_peers(program: &str) -> Command {
    command::cargo(&[
        "run",
        "--quiet",
        "--release",
        "--locked",
        "--manifest-path",
        MANIFEST,
        "--bin",
        program,
        "--",
    ])
}

/// Stores the measurements in a file, for later use.
fn keep(measured: &str) -> Result<PathBuf, String> {
    let folder = command::root().join("bench/peers/target");
    let path = folder.join("measured.json");
    let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, measured));
    written.map(|()| path.clone()).map_err(|error| format!("{}: {error}", path.display()))
}

fn at_least_one<T: std::str::FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let number = text.replace('_', "").parse().ok().filter(|number| *number >= T::from(1));
    number.ok_or_else(|| format!("expected a whole number of at least 1, got {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_in_any_order_and_have_defaults() {
        let plain = Plan { runs: 3, jobs: 100_000, without_windlass: false };
        assert_eq!(Plan::read(&["--engine", "postgres"]), Ok(plain));
        let all = ["--without-windlass", "--jobs", "5_000", "--engine", "postgres", "--runs", "1"];
        assert_eq!(Plan::read(&all), Ok(Plan { runs: 1, jobs: 5000, without_windlass: true }));
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let wrong =
            [&[][..], &["--engine"], &["--engine", "redis"], &["--engine", "postgres", "--runs", "0"]];
        for options in wrong {
            assert!(Plan::read(options).is_err(), "{options:?}");
        }
    }

    #[test]
    fn windlass_comes_last_in_each_turn_and_can_be_left_out() {
        let plan = Plan { runs: 1, jobs: 100, without_windlass: false };
        let last = |plan: &Plan| format!("{:?}", plan.programs().last().unwrap());
        assert!(last(&plan).contains("windlass-bench"));
        assert!(last(&Plan { without_windlass: true, ..plan }).contains("apalis"));
    }
}
