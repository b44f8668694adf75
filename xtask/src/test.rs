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

/// Seeded histories in an ordinary test run and in a long one; `cargo xtask simulate` runs as many as one likes.
const HISTORIES: u64 = 500;
const HISTORIES_IF_LONG: u64 = 10_000;
/// Where the histories of a test run start. Fixed, so that a change and not luck makes it fail.
const SEED: u64 = 1;

/// Tests that need more programs than others. They always run.
const GROUPS: [&str; 3] = ["cluster", "tls", "pgbouncer"];

/// Tests once more, on a server of a version that no system brings. They run only if they are named.
const REDIS_5: &str = "redis5";

/// What the caller asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked<'a> {
    /// Tests that are marked `#[ignore = "long: …"]` run, too.
    long: bool,
    redis_5: bool,
    /// Only the test programs of these crates, if any is named.
    crates: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    fn read(options: &[&'a str]) -> Result<Self, String> {
        let mut asked = Self::default();
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match *option {
                "--long" => asked.long = true,
                "--with" => asked.redis_5 |= groups(options.next())?.contains(&REDIS_5),
                name if is_crate(name) => asked.crates.push(name),
                other => {
                    return Err(format!(
                        "expected `--long`, `--with {}` or the name of a crate, got {other:?}",
                        [&GROUPS[..], &[REDIS_5]].concat().join(",")
                    ));
                }
            }
        }
        Ok(asked)
    }

    fn is_for(&self, program: &Program) -> bool {
        let is_of = |&name: &&str| {
            let folder = if name == "xtask" { "xtask/".to_owned() } else { format!("crates/{name}/") };
            program.source.starts_with(&folder)
        };
        self.crates.is_empty() || self.crates.iter().any(is_of)
    }
}

fn groups<'a>(list: Option<&&'a str>) -> Result<Vec<&'a str>, String> {
    let known = [&GROUPS[..], &[REDIS_5]].concat();
    let named: Vec<_> = list.map(|list| list.split(',').collect()).unwrap_or_default();
    match named.iter().all(|name| known.contains(name)) && !named.is_empty() {
        true => Ok(named),
        false => Err(format!("expected `--with {}`, got {:?}", known.join(","), list.unwrap_or(&""))),
    }
}

fn is_crate(name: &str) -> bool {
    let root = command::root();
    name == "xtask" || (!name.contains('/') && root.join("crates").join(name).join("Cargo.toml").is_file())
}

/// Runs all tests, or those that the options name.
pub(crate) fn run_with(options: &[&str]) -> Result<(), String> {
    run(&Asked::read(options)?)
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
    ("crates/windlass-engines/tests/fallback/main.rs", "a spool has to answer within 500 ms"),
    (
        "crates/windlass-engines/tests/torture/main.rs",
        "leases are short, and whoever is only late counts as dead",
    ),
];

/// What takes longest is begun first, so that no lane is empty at the end.
const FIRST: [&str; 6] = [
    "crates/windlass-engines/tests/conformance/main.rs",
    "crates/windlass/tests/simulation/main.rs",
    "crates/windlass-engines/tests/postgres/main.rs",
    "crates/windlass-engines/tests/inside/main.rs",
    "crates/windlass-engines/tests/redis/main.rs",
    "crates/windlass-cli/tests/kill.rs",
];

/// Goes on after a failure, and ends with a summary.
fn run(asked: &Asked<'_>) -> Result<(), String> {
    need_a_c_compiler()?;
    packages::need_all()?;
    let servers = Servers::for_tests(LANES)?;
    let features = features::for_tests(&command::root())?;
    let mut programs = programs::build(&mut workspace_tests(&features))?;
    programs.retain(|program| asked.is_for(program));
    let mut on_redis_5 = if asked.redis_5 { redis5::commands(&features)? } else { Vec::new() };
    let (tally, failures) = (Tally::default(), Vec::new());
    let mut runs = Runs { servers: &servers, folder: output_folder()?, tally, failures };
    let (beside, alone) = in_order(&programs);
    runs.run(jobs(&beside, asked), LANES);
    runs.run(jobs(&alone, asked), 1);
    if asked.crates.is_empty() {
        runs.pass_on(servers.tell(&mut doc_tests(&features)));
    }
    // These are not told of the servers that the others use.
    on_redis_5.iter_mut().for_each(|command| runs.pass_on(command));
    println!("\n{}", runs.tally.summary());
    if runs.failures.is_empty() && runs.tally.failed.is_empty() {
        return Ok(());
    }
    Err(runs.failures.join("\n"))
}

/// What runs beside others, in the order in which it is begun, and what runs alone.
fn in_order(programs: &[Program]) -> (Vec<&Program>, Vec<&Program>) {
    let is_alone = |program: &&Program| ALONE.iter().any(|(source, _)| *source == program.source);
    let (alone, mut beside): (Vec<_>, Vec<_>) = programs.iter().partition(is_alone);
    let place = |program: &&Program| FIRST.iter().position(|source| *source == program.source);
    beside.sort_by_key(|program| place(program).unwrap_or(FIRST.len()));
    (beside, alone)
}

fn jobs(programs: &[&Program], asked: &Asked<'_>) -> Vec<Job> {
    programs.iter().map(|program| job(program, asked.long)).collect()
}

fn job(program: &Program, long: bool) -> Job {
    let mut command = program.command();
    if std::env::var_os(THREADS).is_none() {
        command.env(THREADS, threads().to_string());
    }
    simulate::tell(&mut command, if long { HISTORIES_IF_LONG } else { HISTORIES }, SEED);
    if long {
        command.arg("--include-ignored");
    }
    Job { name: program.source.clone(), command }
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
    fn options_are_read_and_unknown_ones_are_refused() {
        assert_eq!(Asked::read(&[]), Ok(Asked::default()));
        let asked = Asked::read(&["--long", "--with", "cluster,redis5", "windlass-core"]);
        assert_eq!(asked, Ok(Asked { long: true, redis_5: true, crates: vec!["windlass-core"] }));
        assert!(Asked::read(&["--with", "moon"]).unwrap_err().contains("cluster,tls,pgbouncer,redis5"));
        for wrong in [&["--fast"][..], &["--with"], &["windlass-moon"], &[""]] {
            assert!(Asked::read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_named_crate_stands_for_its_own_programs_only() {
        let asked = Asked::read(&["windlass"]).unwrap();
        let is_for = |source: &str| asked.is_for(&Program::of(source));
        assert!(is_for("crates/windlass/tests/worker/main.rs"));
        assert!(!is_for("crates/windlass-core/src/lib.rs") && !is_for("xtask/src/main.rs"));
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
