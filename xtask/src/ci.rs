//! `cargo xtask ci`: everything that must pass before a change lands. It continues after a failure, so that
//! one run shows all errors.

use std::time::{Duration, Instant};

use crate::{command, features, peers, test, tidy};

type Chore<'a> = dyn Fn() -> Result<(), String> + 'a;

/// Runs every step and prints a summary.
pub(crate) fn run() -> Result<(), String> {
    let for_tests = features::for_tests(&command::root())?;
    let for_users = features::for_users(&command::root())?;
    let steps: [(&str, &Chore<'_>); 6] = [
        ("format", &format),
        ("tidy", &tidy::run),
        ("lints", &|| lints(&for_tests)),
        ("memory only", &memory_only),
        ("docs", &|| docs(&for_users)),
        ("tests", &|| test::run_with(&["--with", "cluster,tls,pgbouncer"])),
    ];
    let results: Vec<_> = steps.iter().map(|(name, step)| timed(name, step)).collect();
    println!("\n{}", summary(&results));
    let failures: Vec<_> = results.into_iter().filter_map(|step| step.result.err()).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// Checks the format of both workspaces: the peers have a separate one. Building the peers takes minutes
/// and is left to `cargo xtask peers`.
fn format() -> Result<(), String> {
    command::run(&mut command::cargo(&["fmt", "--all", "--check"]))?;
    command::run(&mut command::cargo(&["fmt", "--check", "--manifest-path", peers::MANIFEST]))
}

fn lints(features: &str) -> Result<(), String> {
    command::run(&mut command::cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--features",
        features,
        "--",
        "-D",
        "warnings",
    ]))
}

/// Checks the library without features. The workspace is built with all features; this is what a user of
/// the memory engine builds. The tests of the selection without Redis need a separate build: `cargo test -p
/// windlass --no-default-features --lib select::`.
fn memory_only() -> Result<(), String> {
    command::run(command::cargo(&["check", "--package", "windlass", "--no-default-features"]).arg("--tests"))
}

/// Builds the docs of the libraries only: the binary has the name of the library, and one page would
/// overwrite the other.
fn docs(features: &str) -> Result<(), String> {
    let mut command = command::cargo(&["doc", "--workspace", "--lib", "--no-deps", "--features", features]);
    // Module docs also address readers of the code, and may link to private items.
    command::run(command.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))
}

struct Step<'a> {
    name: &'a str,
    took: Duration,
    result: Result<(), String>,
}

fn timed<'a>(name: &'a str, step: &Chore<'_>) -> Step<'a> {
    println!("\n── {name} ──");
    let start = Instant::now();
    let result = step();
    if let Err(failure) = &result {
        println!("\n{failure}");
    }
    Step { name, took: start.elapsed(), result }
}

fn summary(steps: &[Step<'_>]) -> String {
    let lines = steps.iter().map(|step| {
        let word = if step.result.is_ok() { "ok" } else { "FAILED" };
        format!("{:<12} {word:<7} {:>5} s", step.name, step.took.as_secs())
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_names_every_step_and_how_it_went() {
        let good = timed("docs", &|| Ok(()));
        let bad = timed("lints", &|| Err("a warning".to_owned()));
        let summary = summary(&[good, bad]);
        let lines: Vec<_> = summary.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines[0][..2], ["docs", "ok"]);
        assert_eq!(lines[1][..2], ["lints", "FAILED"]);
    }
}
