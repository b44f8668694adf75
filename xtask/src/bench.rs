//! `cargo xtask bench`: builds `windlass-bench` in release and runs it. It starts throw-away servers if the
//! engine needs one and none is named.

use std::process::{Command, ExitCode, Stdio};

use crate::{command, servers};

const PACKAGE: &str = "windlass-bench";

/// Builds it, runs it with these options and gives its exit code.
pub(crate) fn run(options: &[&str]) -> Result<ExitCode, String> {
    // Nothing is printed before it starts: its output may be JSON.
    let built = build().stdout(Stdio::null()).status();
    if !built.map_err(|error| format!("cargo could not be started: {error}"))?.success() {
        return Err(format!("{PACKAGE} could not be built"));
    }
    let mut program = program();
    // So that `--dir` is relative to the caller's folder.
    program.args(options).current_dir(".");
    let is_named = |variable: &str| std::env::var_os(variable).is_some_and(|url| !url.is_empty());
    if needs_servers(options, is_named) {
        servers::run_with_servers(&mut program)
    } else {
        servers::run_without(&mut program)
    }
}

pub(crate) fn build() -> Command {
    command::cargo(&["build", "--release", "--package", PACKAGE])
}

/// The program, without options.
pub(crate) fn program() -> Command {
    command::cargo(&["run", "--quiet", "--release", "--package", PACKAGE, "--"])
}

/// Whether the engine is a server that neither `--url` nor the environment names.
fn needs_servers(options: &[&str], is_named: impl Fn(&str) -> bool) -> bool {
    let has = |flag: &str| options.iter().any(|word| word.split('=').next() == Some(flag));
    let variable = match engine(options) {
        Some("postgres") => "DATABASE_URL",
        Some("redis") => "REDIS_URL",
        _ => return false,
    };
    !["--url", "--help", "-h"].into_iter().any(has) && !is_named(variable)
}

fn engine<'a>(options: &[&'a str]) -> Option<&'a str> {
    let position = options.iter().position(|word| *word == "--engine");
    let next = position.and_then(|position| options.get(position + 1)).copied();
    next.or_else(|| options.iter().find_map(|word| word.strip_prefix("--engine=")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_started_if_the_engine_needs_one_and_none_is_named() {
        assert!(needs_servers(&["--engine", "postgres", "--jobs", "100"], |_| false));
        assert!(needs_servers(&["--engine=redis"], |variable| variable == "DATABASE_URL"));
    }

    #[test]
    fn no_server_is_started_beside_one_that_is_named_or_for_an_engine_without() {
        assert!(!needs_servers(&["--engine", "postgres"], |variable| variable == "DATABASE_URL"));
        assert!(!needs_servers(&["--engine", "redis", "--url", "redis://a"], |_| false));
        assert!(!needs_servers(&["--url=redis://a", "--engine=redis"], |_| false));
        for engine in [&["--engine", "sqlite"][..], &[], &["--engine"], &["--engine", "postgres", "--help"]] {
            assert!(!needs_servers(engine, |_| false), "{engine:?}");
        }
    }
}
