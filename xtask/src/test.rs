//! `cargo xtask test`: every test there is, from a fresh clone, with no set-up. It starts the servers that
//! tests need, and as root on Debian it installs what is missing.

use std::process::{Command, Stdio};

use crate::servers::Servers;
use crate::{command, features, packages, redis5, simulate};

/// Seeded histories in an ordinary test run; `cargo xtask simulate` runs more.
const HISTORIES: &str = "2000";
/// Where the histories of an ordinary test run start. Fixed, so that a change and not luck makes it fail.
const SEED: &str = "1";

/// Tests that need more programs than others. They always run.
const GROUPS: [&str; 3] = ["cluster", "tls", "pgbouncer"];

/// Tests once more, on a server of a version that no system brings. They run only if they are named.
const REDIS_5: &str = "redis5";

/// Runs everything, whatever is named, and what runs only if it is.
pub(crate) fn run_with(options: &[&str]) -> Result<(), String> {
    let named = groups(options)?;
    run(named.contains(&REDIS_5))
}

fn groups<'a>(options: &[&'a str]) -> Result<Vec<&'a str>, String> {
    let known = [&GROUPS[..], &[REDIS_5]].concat();
    let expected = || format!("expected nothing or `--with {}`, got {}", known.join(","), options.join(" "));
    match options {
        [] => Ok(Vec::new()),
        ["--with", list] if list.split(',').all(|name| known.contains(&name)) => {
            Ok(list.split(',').collect())
        }
        _ => Err(expected()),
    }
}

/// Goes on after a failure, and ends with a summary.
fn run(with_redis_5: bool) -> Result<(), String> {
    need_a_c_compiler()?;
    packages::need_all()?;
    let servers = Servers::given_or_started()?;
    let features = features::all_but_planted_bugs(&command::root())?;
    let mut tally = Tally::default();
    let mut runs = vec![workspace_tests(&features), planted_engine_tests()];
    if simulate::is_there() {
        runs.push(simulate::simulation_tests(HISTORIES, SEED));
    }
    let mut on_redis_5 = if with_redis_5 { redis5::commands(&features)? } else { Vec::new() };
    let mut failures: Vec<String> =
        runs.iter_mut().filter_map(|command| read_into(&mut tally, servers.tell(command)).err()).collect();
    // These are not told of the servers that the others use.
    failures.extend(on_redis_5.iter_mut().filter_map(|command| read_into(&mut tally, command).err()));
    println!("\n{}", tally.summary());
    if failures.is_empty() && tally.failed.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// Unit, integration and doc tests of all crates. Cargo builds the examples on the way.
fn workspace_tests(features: &str) -> Command {
    let mut command = command::cargo(&["test", "--workspace", "--no-fail-fast", "--features", features]);
    if std::env::var_os(THREADS).is_none() {
        command.env(THREADS, threads().to_string());
    }
    command
}

/// By which test programs are told how many tests to run at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// Twice as many as there are cores: most tests wait for a server, for a disk or for a process that they have killed.
fn threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The tests of the tests: the conformance suite and the model test must find bugs that are planted in an engine,
/// which needs a build of its own. Their modules are called `planted…`.
fn planted_engine_tests() -> Command {
    let mut command = simulate::planted("model");
    command.args(["--", "planted"]);
    command
}

/// SQLite is built from its C source. Without this question a newcomer would read a page of build output.
fn need_a_c_compiler() -> Result<(), String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    // CC may carry arguments, as in `ccache gcc`.
    let program = compiler.split_whitespace().next().unwrap_or("cc");
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => {
            println!("C compiler: {compiler}");
            Ok(())
        }
        _ => Err(format!(
            "expected a C compiler to build SQLite with, `{program} --version` did not work; install one \
             (Debian, Ubuntu: `apt install build-essential`; Fedora: `dnf install gcc`; macOS: \
             `xcode-select --install`) or name yours in CC"
        )),
    }
}

fn read_into(tally: &mut Tally, command: &mut Command) -> Result<(), String> {
    command::run_and_read(command, |line| tally.read(line))
}

/// What the test programs reported.
#[derive(Debug, Default)]
struct Tally {
    programs: u32,
    passed: u32,
    failed: Vec<String>,
    ignored: Vec<String>,
}

impl Tally {
    /// Takes in one line of a test program's output.
    fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.programs += 1;
            self.passed += count_before(counts, " passed");
        } else if let Some((name, result)) =
            line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        {
            match result.split([',', ' ']).next() {
                Some("FAILED") => self.failed.push(name.to_owned()),
                Some("ignored") => self.ignored.push(name.to_owned()),
                _ => {}
            }
        }
    }

    /// What happened, in plain words. What was left out is named: nothing is skipped in silence.
    fn summary(&self) -> String {
        let Self { programs, passed, failed, ignored } = self;
        let mut lines = vec![format!(
            "summary: {passed} tests passed, {} failed, {} ignored, in {programs} test programs",
            failed.len(),
            ignored.len()
        )];
        lines.extend(failed.iter().map(|name| format!("  failed:  {name}")));
        lines.extend(ignored.iter().map(|name| format!("  ignored: {name}")));
        lines.join("\n")
    }
}

fn count_before(text: &str, word: &str) -> u32 {
    let number = text.split_once(word).and_then(|(before, _)| before.rsplit(' ').next());
    number.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_may_be_named_and_unknown_ones_are_refused() {
        assert_eq!(groups(&["--with", "cluster,redis5"]), Ok(vec!["cluster", "redis5"]));
        assert_eq!(groups(&[]), Ok(vec![]));
        assert!(groups(&["--with", "moon"]).unwrap_err().contains("cluster,tls,pgbouncer,redis5"));
        assert!(groups(&["--fast"]).is_err());
    }

    #[test]
    fn the_summary_counts_all_programs_and_names_what_failed_and_what_was_left_out() {
        let mut tally = Tally::default();
        let output = "\
test settle::tests::a ... ok
test settle::tests::b ... FAILED
test boost::tests::c ... ignored, needs a server
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. 41 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        output.lines().for_each(|line| tally.read(line));
        let summary = tally.summary();
        assert!(summary.starts_with("summary: 42 tests passed, 1 failed, 1 ignored, in 2"), "{summary}");
        assert!(summary.contains("failed:  settle::tests::b"), "{summary}");
        assert!(summary.contains("ignored: boost::tests::c"), "{summary}");
    }
}
