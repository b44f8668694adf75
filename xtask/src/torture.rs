//! `cargo xtask torture`: injects real faults into a real server, under load, for as long as requested.

use std::process::Command;

use crate::command;

const HELP: &str = "\
cargo xtask torture --engine ENGINE [--seconds N] [--seed S] [--faults LIST]
cargo xtask torture --scenario leases

Starts a separate server, enqueues jobs and processes them with threads and with processes, while it injects real faults
in turn. Then it ends all faults, drains the queues, and compares the ledgers with the store in the history checker.
Exits with 0 if no error was found, else with 1.

  --engine ENGINE     the engine under test:
    postgres          a server with fsync on
    redis             a server that syncs every write (`appendfsync always`)
    redis-everysec    a server that syncs once a second: lost jobs of the last two seconds before an end are counted
    fallback          Redis with a spool on disk. It has its own faults: Redis is unavailable for 10 seconds at least 20
                      times, and each time a process with jobs in its spool is killed
  --seconds N         how long faults are injected (120); from 60 seconds on in their long forms: the server is killed at
                      least 20 times and frozen for 40 seconds, which may take longer than N
  --seed S            the seed of the order and the strength of faults (1)
  --faults LIST       only these faults, separated by commas:
    kill              the server is killed with -9 under load, and started again
    power-cut         the server is killed and unsynced writes are lost; only for redis-everysec
    restart           the server is stopped cleanly under load, and started again
    cut               connections are cut, also in the middle of an answer
    swallow           a request is executed, and its answer is lost
    freeze-worker     a worker's process is frozen until its jobs are rescued, then resumed: it must settle nothing
    freeze-store      the server is frozen for longer than every lease, then resumed: no worker may be declared dead
    script-flush      the script cache of the server is flushed again and again; only for redis and redis-everysec
    full              the memory of the server is full for a second, and jobs are refused; only for redis and redis-everysec

  --scenario leases   instead of the above: leaders of duties on PostgreSQL and on Redis, one test after the other, in about
                      twenty minutes. 100 leaders are killed, 100 end, 100 are frozen past their term and resumed, with
                      leases of half a second; 3 are killed with leases of the default length. The server counts the
                      statements of 1,000 workers about leases, and of 50 about duties in each mode. 1,000 schedules fall
                      due in one second

Some faults have short forms only, as tests of windlass-engines that run with all the others:
  Redis               FLUSHALL, a snapshot older than the last acknowledged write, the failover to a replica: these lose
                      jobs by their nature (`tests/redis/other_store.rs`); damaged values (`tests/redis/damaged.rs`)
  PostgreSQL          the failover to a standby, jobs that no store can hold, damaged rows, locks and transactions that
                      other sessions leave open (`tests/postgres/failover.rs`, `poison.rs`, `damaged_rows.rs`, `locks.rs`,
                      `deadlocks.rs`)
";

/// The engines, each with its test, which also runs in a short form with all other tests.
const ENGINES: [(&str, &str); 4] = [
    ("postgres", "postgres::faults_in_turn_lose_nothing_and_end_nothing_twice"),
    ("redis", "redis::faults_in_turn_lose_nothing_and_end_nothing_twice"),
    ("redis-everysec", "redis_everysec::faults_in_turn_lose_nothing_older_than_two_seconds"),
    ("fallback", "fallback::faults_in_turn_lose_nothing_and_end_nothing_twice"),
];
const FEATURES: &str = "postgres,redis,sqlite,fallback";
const FAULTS: [&str; 9] = [
    "kill",
    "power-cut",
    "restart",
    "cut",
    "swallow",
    "freeze-worker",
    "freeze-store",
    "script-flush",
    "full",
];
/// Faults that only some engines have, and why the others lack them.
const ONLY_SOME: [(&str, &[&str], &str); 3] = [
    (
        "power-cut",
        &["redis-everysec"],
        "only for it are jobs counted that a server may lose by its settings; use `kill`",
    ),
    ("script-flush", &["redis", "redis-everysec"], "it has no script cache"),
    ("full", &["redis", "redis-everysec"], "it has no memory limit for jobs"),
];

/// Runs the torture test with the given options.
pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    if options.iter().any(|option| ["--help", "-h"].contains(option)) {
        print!("{HELP}");
        return Ok(());
    }
    if let Some(scenario) = scenario(options)? {
        return command::run(&mut scenario_command(scenario));
    }
    let plan = Plan::read(options)?;
    command::run(&mut plan.command())?;
    println!("{}", plan.related_runs());
    Ok(())
}

/// The scenarios besides engines, each with its test program, which also runs in a short form with all
/// other tests.
const SCENARIOS: [(&str, &str); 1] = [("leases", "leaders")];

/// The test program of a scenario, if one is named. No other option may be given with it.
fn scenario(options: &[&str]) -> Result<Option<&'static str>, String> {
    let known = || SCENARIOS.map(|(name, _)| name).join(", ");
    match options {
        ["--scenario", name] => match SCENARIOS.iter().find(|(known, _)| known == name) {
            Some((_, program)) => Ok(Some(program)),
            None => Err(format!("expected `--scenario` and one of {}, got {name:?}", known())),
        },
        _ if options.contains(&"--scenario") => Err(format!(
            "expected `--scenario` with one of {} and nothing else, got {}",
            known(),
            options.join(" ")
        )),
        _ => Ok(None),
    }
}

/// The command of a scenario. Its tests run one at a time, since they measure durations.
fn scenario_command(program: &str) -> Command {
    let mut command = command::cargo(&["test", "--package", "windlass", "--features", "postgres,redis"]);
    command.args(["--test", program, "--", "--nocapture", "--test-threads", "1"]);
    command.env("WINDLASS_TORTURE_LEASES", "long");
    command
}

#[derive(Debug, PartialEq, Eq)]
struct Plan {
    engine: String,
    seconds: u64,
    seed: u64,
    /// All faults of the engine, if `None`.
    faults: Option<String>,
}

impl Plan {
    fn read(options: &[&str]) -> Result<Self, String> {
        let mut plan = Self { engine: String::new(), seconds: 120, seed: 1, faults: None };
        let mut words = options.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().copied().ok_or_else(|| format!("expected a value after {word}"));
            match *word {
                "--engine" => plan.engine = engine(value()?)?,
                "--seconds" => plan.seconds = whole(value()?)?,
                "--seed" => plan.seed = whole(value()?)?,
                "--faults" => plan.faults = Some(known(value()?)?),
                other => return Err(format!("expected one of these options, got {other:?}\n\n{HELP}")),
            }
        }
        match plan.engine.as_str() {
            "" => Err(format!("expected `--engine` and one of {}, got no engine\n\n{HELP}", engines())),
            "fallback" if plan.faults.is_some() => {
                Err("expected no `--faults` with `--engine fallback`, which has its own".to_owned())
            }
            _ => match plan.foreign_fault() {
                Some((fault, why)) => {
                    Err(format!("expected no `{fault}` with `--engine {}`: {why}", plan.engine))
                }
                None => Ok(plan),
            },
        }
    }

    /// A requested fault that this engine does not have, and why.
    fn foreign_fault(&self) -> Option<(&'static str, &'static str)> {
        let is_foreign = |(fault, engines, _): &&(&str, &[&str], &str)| {
            self.has_fault(fault) && !engines.contains(&self.engine.as_str())
        };
        ONLY_SOME.iter().find(is_foreign).map(|(fault, _, why)| (*fault, *why))
    }

    /// Names the other runs for the same server.
    fn related_runs(&self) -> &'static str {
        match self.engine.as_str() {
            "redis" => {
                "two more runs test Redis: `--engine redis-everysec`, which counts lost jobs, and `--engine fallback`, in which Redis \
                 is unavailable again and again"
            }
            _ => "",
        }
    }

    fn has_fault(&self, fault: &str) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.split(',').any(|name| name == fault))
    }

    /// The test that also runs in a short form with all other tests, with settings for a longer run.
    fn command(&self) -> Command {
        let mut command = command::cargo(&["test", "--package", "windlass-engines", "--features", FEATURES]);
        command.args(["--test", "torture", "--", "--nocapture", "--exact"]);
        command.args(ENGINES.iter().filter(|(name, _)| *name == self.engine).map(|(_, test)| test));
        command.env("WINDLASS_TORTURE_SECONDS", self.seconds.to_string());
        command.env("WINDLASS_TORTURE_SEED", self.seed.to_string());
        command.envs(self.faults.as_ref().map(|faults| ("WINDLASS_TORTURE_FAULTS", faults)));
        command
    }
}

fn engine(name: &str) -> Result<String, String> {
    match ENGINES.iter().any(|(known, _)| *known == name) {
        true => Ok(name.to_owned()),
        false => Err(format!("expected `--engine` and one of {}, got {name:?}", engines())),
    }
}

fn engines() -> String {
    ENGINES.map(|(name, _)| name).join(", ")
}

fn known(list: &str) -> Result<String, String> {
    match list.split(',').find(|name| !FAULTS.contains(name)) {
        None => Ok(list.to_owned()),
        Some(other) => Err(format!("expected faults out of {}, got {other:?}", FAULTS.join(","))),
    }
}

fn whole(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("expected a whole number, got {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_an_engine_is_not_struck_with_is_refused() {
        let wrong = [
            ("postgres", "kill,power-cut"),
            ("postgres", "full"),
            ("postgres", "script-flush"),
            ("redis", "power-cut"),
            ("fallback", "kill"),
            ("redis", "flood"),
        ];
        for (engine, faults) in wrong {
            let refused = Plan::read(&["--engine", engine, "--faults", faults]).unwrap_err();
            assert!(refused.starts_with("expected"), "{refused}");
        }
        assert!(Plan::read(&["--engine", "redis", "--faults", "script-flush,full"]).is_ok());
        assert!(Plan::read(&["--engine", "redis-everysec", "--faults", "power-cut,full"]).is_ok());
    }

    #[test]
    fn a_scenario_stands_alone_and_an_unknown_one_is_refused() {
        assert_eq!(scenario(&["--scenario", "leases"]), Ok(Some("leaders")));
        assert_eq!(scenario(&["--engine", "redis"]), Ok(None));
        for wrong in [&["--scenario", "moon"][..], &["--scenario"], &["--scenario", "leases", "--seed", "1"]]
        {
            assert!(scenario(wrong).unwrap_err().contains("leases"), "{wrong:?}");
        }
        assert!(SCENARIOS.iter().all(|(name, _)| HELP.contains(&format!("--scenario {name}"))), "{HELP}");
    }

    #[test]
    fn options_come_in_any_order_and_have_defaults() {
        let all = Plan { engine: "postgres".to_owned(), seconds: 120, seed: 1, faults: None };
        assert_eq!(Plan::read(&["--engine", "postgres"]), Ok(all));
        let some = ["--faults", "kill,cut", "--seed", "7", "--engine", "redis", "--seconds", "3_600"];
        let read =
            Plan { engine: "redis".to_owned(), seconds: 3600, seed: 7, faults: Some("kill,cut".to_owned()) };
        assert_eq!(Plan::read(&some), Ok(read));
    }

    #[test]
    fn another_engine_is_refused_with_what_is_on_offer() {
        let failure = Plan::read(&["--engine", "sqlite"]).unwrap_err();
        assert!(
            failure.contains("postgres, redis, redis-everysec, fallback") && failure.contains("\"sqlite\""),
            "{failure}"
        );
        assert!(Plan::read(&[]).unwrap_err().contains("postgres, redis, redis-everysec, fallback"));
    }

    #[test]
    fn what_is_no_option_no_number_and_no_fault_is_refused() {
        let wrong =
            [&["--seconds"][..], &["--seconds", "long"], &["--speed", "1"], &["--faults", "kill,fire"]];
        for wrong in wrong {
            let options = [&["--engine", "postgres"], wrong].concat();
            assert!(Plan::read(&options).is_err(), "{options:?}");
        }
        assert!(Plan::read(&["--engine", "fallback", "--faults", "kill"]).is_err(), "it has its own");
    }

    #[test]
    fn a_run_on_redis_tells_of_its_two_sisters_and_no_other_does() {
        let sisters = |engine| Plan::read(&["--engine", engine]).unwrap().related_runs();
        assert!(sisters("redis").contains("redis-everysec") && sisters("redis").contains("fallback"));
        assert_eq!(sisters("postgres"), "");
    }

    #[test]
    fn help_names_every_engine_and_every_fault() {
        assert!(FAULTS.iter().all(|fault| HELP.contains(&format!("    {fault} "))), "{HELP}");
        assert!(ENGINES.iter().all(|(engine, _)| HELP.contains(engine)), "{HELP}");
    }
}
