//! `cargo xtask test`: every test there is, from a fresh clone, with no set-up. It starts the servers that
//! tests need, and as root on Debian it installs what is missing.

mod programs;
mod lanes;
mod tally;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::servers::Servers;
use crate::{command, features, packages, redis5, simulate};
use lanes::{Job, News};
use programs::Program;
use tally::Tally;

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

/// So many test programs run at once. Most of their tests wait, so that a second program takes what the first leaves of the machine.
const LANES: usize = 2;

/// What has the machine for itself, and why. Everything else runs beside others.
const ALONE: [(&str, &str); 11] = [
    (
        "crates/windlass/tests/leaders/main.rs",
        "another has to lead within 200 ms of an end, with hundreds of workers at work",
    ),
    ("crates/windlass/tests/worker/main.rs", "duties have to be begun within 100 ms"),
    ("crates/windlass/tests/worker_fallback/main.rs", "the same, while stores go away"),
    ("crates/windlass/tests/worker_postgres/main.rs", "a job has to be picked up within 10 ms, usually"),
    ("crates/windlass/tests/worker_redis/main.rs", "a job has to be picked up within 10 ms, usually"),
    ("crates/windlass/tests/worker_sqlite/main.rs", "duties have to be begun within 100 ms"),
    ("crates/windlass-cli/tests/bench.rs", "it measures"),
    ("crates/windlass-cli/tests/cli_postgres.rs", "another has to lead within 8 s of a kill"),
    ("crates/windlass-cli/tests/signals.rs", "a process has to end within its grace"),
    ("crates/windlass-engines/tests/fallback/main.rs", "a spill has to answer within 500 ms"),
    (
        "crates/windlass-engines/tests/torture/main.rs",
        "leases are short, and whoever is only late counts as dead",
    ),
];

/// What takes longest is begun first, so that no lane is empty at the end.
const FIRST: [&str; 6] = [
    "crates/windlass-engines/tests/conformance.rs",
    "crates/windlass-engines/tests/pooled.rs",
    "crates/windlass-engines/tests/postgres/main.rs",
    "crates/windlass-engines/tests/inside/main.rs",
    "crates/windlass-engines/tests/redis/main.rs",
    "crates/windlass-cli/tests/kill.rs",
];

/// Goes on after a failure, and ends with a summary.
fn run(with_redis_5: bool) -> Result<(), String> {
    need_a_c_compiler()?;
    packages::need_all()?;
    let servers = Servers::for_tests(LANES)?;
    let features = features::all_but_planted_bugs(&command::root())?;
    let programs = programs::build(&mut workspace_tests(&features))?;
    let mut on_redis_5 = if with_redis_5 { redis5::commands(&features)? } else { Vec::new() };
    let (tally, failures) = (Tally::default(), Vec::new());
    let mut runs = Runs { servers: &servers, folder: output_folder()?, tally, failures };
    let (beside, alone) = in_order(&programs);
    runs.run(beside, LANES);
    runs.run(alone, 1);
    runs.pass_on(servers.tell(&mut doc_tests(&features)));
    // These are not told of the servers that the others use.
    on_redis_5.iter_mut().for_each(|command| runs.pass_on(command));
    println!("\n{}", runs.tally.summary());
    if runs.failures.is_empty() && runs.tally.failed.is_empty() {
        return Ok(());
    }
    Err(runs.failures.join("\n"))
}

/// What runs beside others, in the order in which it is begun, and what runs alone.
fn in_order(programs: &[Program]) -> (Vec<Job>, Vec<Job>) {
    let is_alone = |program: &&Program| ALONE.iter().any(|(source, _)| *source == program.source);
    let (alone, mut beside): (Vec<_>, Vec<_>) = programs.iter().partition(is_alone);
    let place = |program: &&Program| FIRST.iter().position(|source| *source == program.source);
    beside.sort_by_key(|program| place(program).unwrap_or(FIRST.len()));
    let mut jobs: Vec<_> = beside.into_iter().map(job).collect();
    let behind_the_longest = FIRST.len().min(jobs.len());
    jobs.splice(behind_the_longest..behind_the_longest, planted_tests());
    (jobs, alone.into_iter().map(job).collect())
}

fn job(program: &Program) -> Job {
    let mut command = program.command();
    if std::env::var_os(THREADS).is_none() {
        command.env(THREADS, threads().to_string());
    }
    Job { name: program.source.clone(), command }
}

/// The tests of the tests: the conformance suite, the model test and the simulation must find bugs that are planted, which needs a build
/// of its own. It is made while others wait.
fn planted_tests() -> Vec<Job> {
    let mut jobs = vec![("planted bugs, model", planted_engine_tests())];
    if simulate::is_there() {
        jobs.push(("planted bugs, simulation", simulate::simulation_tests(HISTORIES, SEED)));
    }
    jobs.into_iter().map(|(name, command)| Job { name: name.to_owned(), command }).collect()
}

/// What was run, and what came of it.
struct Runs<'a> {
    servers: &'a Servers,
    /// What programs print is written there while they run.
    folder: PathBuf,
    tally: Tally,
    failures: Vec<String>,
}

impl Runs<'_> {
    fn run(&mut self, jobs: Vec<Job>, lanes: usize) {
        let Self { servers, folder, tally, failures } = self;
        let equip = |command: &mut Command, lane| servers.tell_apart(command, lane);
        lanes::run(jobs, lanes, folder, &equip, |news| match news {
            News::Begun(name, path) => println!("begun: {name}, into {}", path.display()),
            News::Ended(ended) => {
                println!("\n── {}: {} s ──\n{}", ended.name, ended.took.as_secs(), ended.output.trim_end());
                ended.output.lines().for_each(|line| tally.read(&ended.name, line));
                failures.extend(ended.result.err());
            }
        });
    }

    /// Runs a command by itself; its output is seen as it comes.
    fn pass_on(&mut self, command: &mut Command) {
        let Self { tally, failures, .. } = self;
        let read = |line: &str| {
            println!("{line}");
            tally.read("cargo test", line);
        };
        failures.extend(command::run_and_read(command, read).err());
    }
}

/// Made anew, so that nothing in it is of an earlier run.
fn output_folder() -> Result<PathBuf, String> {
    let folder = command::root().join("target/test-output");
    let failed = |error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(failed)?;
    }
    std::fs::create_dir_all(&folder).map_err(failed)?;
    Ok(folder)
}

/// Unit and integration tests of all crates. Cargo builds the examples on the way.
fn workspace_tests(features: &str) -> Command {
    command::cargo(&["test", "--workspace", "--features", features])
}

/// What the pages of all crates show.
fn doc_tests(features: &str) -> Command {
    command::cargo(&["test", "--workspace", "--doc", "--no-fail-fast", "--features", features])
}

/// By which test programs are told how many tests to run at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// Twice as many as there are cores: most tests wait for a server, for a disk or for a process that they have killed.
fn threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Their modules are called `planted…`.
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
    fn what_runs_alone_and_what_runs_first_is_there() {
        let named = ALONE.iter().map(|(source, _)| source).chain(&FIRST);
        for source in named {
            assert!(command::root().join(source).is_file(), "{source}");
        }
        assert!(
            ALONE.iter().all(|(source, _)| !FIRST.contains(source)),
            "what runs alone is not begun first"
        );
    }
}
