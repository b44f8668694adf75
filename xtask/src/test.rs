//! `cargo xtask test`: runs every test, from a fresh clone, without set-up. It starts the servers that
//! tests need, and as root on Debian it installs missing packages.

mod programs;
mod lanes;
mod tally;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::servers::Servers;
use crate::{command, features, packages, redis5, simulate};
use lanes::{Event, Job};
use programs::Program;
use tally::Tally;

/// The number of seeded histories in an ordinary test run and in a long one; `cargo xtask simulate` runs
/// any number.
const HISTORIES: u64 = 500;
const HISTORIES_IF_LONG: u64 = 10_000;
/// The seed of the first history in a test run. It is fixed, so that a change and not luck makes it fail.
const SEED: u64 = 1;

/// The groups of tests that need additional programs. They always run.
const GROUPS: [&str; 3] = ["cluster", "tls", "pgbouncer"];

/// The group of tests that is repeated on a server of a version that no system has. It runs only if it is
/// named.
const REDIS_5: &str = "redis5";

/// The options of the caller.
#[derive(Debug, Default, PartialEq, Eq)]
struct TestOptions<'a> {
    /// Also runs tests that are marked `#[ignore = "long: …"]`.
    long: bool,
    redis_5: bool,
    /// Runs only the test programs of these crates, if any is named.
    crates: Vec<&'a str>,
}

impl<'a> TestOptions<'a> {
    fn read(words: &[&'a str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--long" => options.long = true,
                "--with" => options.redis_5 |= groups(words.next())?.contains(&REDIS_5),
                name if is_crate(name) => options.crates.push(name),
                other => {
                    return Err(format!(
                        "expected `--long`, `--with {}` or the name of a crate, got {other:?}",
                        [&GROUPS[..], &[REDIS_5]].concat().join(",")
                    ));
                }
            }
        }
        Ok(options)
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
    run(&TestOptions::read(options)?)
}

/// How many test programs run at once. Most of their tests wait, so a second program uses the cores that
/// the first one leaves idle.
const LANES: usize = 2;

/// The test programs that run alone, and why. All others run beside each other: no test judges how long
/// something takes.
const ALONE: [(&str, &str); 1] = [(
    "crates/windlass-engines/tests/torture/main.rs",
    "leases are short, and a worker that is only late counts as dead",
)];

/// The longest test programs, which start first, so that no lane is idle at the end.
const FIRST: [&str; 6] = [
    "crates/windlass-engines/tests/conformance/main.rs",
    "crates/windlass/tests/simulation/main.rs",
    "crates/windlass-engines/tests/postgres/main.rs",
    "crates/windlass-engines/tests/inside/main.rs",
    "crates/windlass-engines/tests/redis/main.rs",
    "crates/windlass-cli/tests/kill.rs",
];

/// Runs the tests. Continues after a failure, and prints a summary.
fn run(options: &TestOptions<'_>) -> Result<(), String> {
    need_a_c_compiler()?;
    packages::need_all()?;
    let servers = Servers::for_tests(LANES)?;
    let features = features::for_tests(&command::root())?;
    let mut programs = programs::build(&mut workspace_tests(&features))?;
    programs.retain(|program| options.is_for(program));
    let mut on_redis_5 = if options.redis_5 { redis5::commands(&features)? } else { Vec::new() };
    let (tally, failures) = (Tally::default(), Vec::new());
    let mut runs = Runs { servers: &servers, folder: output_folder()?, tally, failures };
    let (beside, alone) = in_order(&programs);
    runs.run(jobs(&beside, options), LANES);
    runs.run(jobs(&alone, options), 1);
    if options.crates.is_empty() {
        runs.pass_on(servers.tell(&mut doc_tests(&features)));
    }
    // These commands do not get the addresses of the servers above.
    on_redis_5.iter_mut().for_each(|command| runs.pass_on(command));
    println!("\n{}", runs.tally.summary());
    if runs.failures.is_empty() && runs.tally.failed.is_empty() {
        return Ok(());
    }
    Err(runs.failures.join("\n"))
}

/// The programs that run beside each other, in the order of their start, and the programs that run alone.
fn in_order(programs: &[Program]) -> (Vec<&Program>, Vec<&Program>) {
    let is_alone = |program: &&Program| ALONE.iter().any(|(source, _)| *source == program.source);
    let (alone, mut beside): (Vec<_>, Vec<_>) = programs.iter().partition(is_alone);
    let place = |program: &&Program| FIRST.iter().position(|source| *source == program.source);
    beside.sort_by_key(|program| place(program).unwrap_or(FIRST.len()));
    (beside, alone)
}

fn jobs(programs: &[&Program], options: &TestOptions<'_>) -> Vec<Job> {
    programs.iter().map(|program| job(program, options.long)).collect()
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

/// The state of a test run, and its results.
struct Runs<'a> {
    servers: &'a Servers,
    /// The folder of the files into which programs print while they run.
    folder: PathBuf,
    tally: Tally,
    failures: Vec<String>,
}

impl Runs<'_> {
    fn run(&mut self, jobs: Vec<Job>, lanes: usize) {
        let Self { servers, folder, tally, failures } = self;
        let equip = |command: &mut Command, lane| servers.tell_apart(command, lane);
        lanes::run(jobs, lanes, folder, &equip, |event| match event {
            Event::Begun(name, path) => println!("begun: {name}, into {}", path.display()),
            Event::Ended(ended) => {
                println!("\n── {}: {} s ──\n{}", ended.name, ended.took.as_secs(), ended.output.trim_end());
                ended.output.lines().for_each(|line| tally.read(&ended.name, line));
                failures.extend(ended.result.err());
            }
        });
    }

    /// Runs a command alone, and prints its output as it comes.
    fn pass_on(&mut self, command: &mut Command) {
        let Self { tally, failures, .. } = self;
        let read = |line: &str| {
            println!("{line}");
            tally.read("cargo test", line);
        };
        failures.extend(command::run_and_read(command, read).err());
    }
}

/// Creates the output folder anew, so that no file in it is from an earlier run.
fn output_folder() -> Result<PathBuf, String> {
    let folder = command::root().join("target/test-output");
    let failed = |error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(failed)?;
    }
    std::fs::create_dir_all(&folder).map_err(failed)?;
    Ok(folder)
}

/// The unit and integration tests of all crates. Cargo also builds the examples.
fn workspace_tests(features: &str) -> Command {
    command::cargo(&["test", "--workspace", "--features", features])
}

/// The doc tests of all crates.
fn doc_tests(features: &str) -> Command {
    command::cargo(&["test", "--workspace", "--doc", "--no-fail-fast", "--features", features])
}

/// The variable that sets how many tests a test program runs at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// The number of tests that run at once: twice the number of cores, since most tests wait for a server, a
/// disk or a process that they have killed.
fn threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Checks for a C compiler: SQLite is built from its C source. Without this check a newcomer would have to
/// read a page of build output.
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
            "expected a C compiler for SQLite, but `{program} --version` failed; install one \
             (Debian, Ubuntu: `apt install build-essential`; Fedora: `dnf install gcc`; macOS: \
             `xcode-select --install`) or name another one in CC"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_unknown_ones_are_refused() {
        assert_eq!(TestOptions::read(&[]), Ok(TestOptions::default()));
        let options = TestOptions::read(&["--long", "--with", "cluster,redis5", "windlass-core"]);
        assert_eq!(options, Ok(TestOptions { long: true, redis_5: true, crates: vec!["windlass-core"] }));
        assert!(TestOptions::read(&["--with", "moon"]).unwrap_err().contains("cluster,tls,pgbouncer,redis5"));
        for wrong in [&["--fast"][..], &["--with"], &["windlass-moon"], &[""]] {
            assert!(TestOptions::read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_named_crate_stands_for_its_own_programs_only() {
        let options = TestOptions::read(&["windlass"]).unwrap();
        let is_for = |source: &str| options.is_for(&Program::of(source));
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
