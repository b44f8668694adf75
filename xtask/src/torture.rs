//! `cargo xtask torture`: real faults on a real server, under load, for as long as one likes.

use std::process::Command;

use crate::command;

const HELP: &str = "\
cargo xtask torture --engine ENGINE [--seconds N] [--seed S] [--faults LIST]
cargo xtask torture --scenario leases

Starts a server of its own, puts jobs in and works on them with threads and with processes, and strikes with real faults
in turn. Then everything is healed and drained, and the checker of histories compares the ledgers with the store. Ends
with 0 if nothing is wrong, else with 1.

  --engine ENGINE     what is tortured:
    postgres          a server with fsync on
    redis             one that syncs every write (`appendfsync always`)
    redis-everysec    one that syncs once a second: what it loses of the last two seconds before an end is counted
    fallback          Redis with a spool on disk. It has faults of its own: Redis is away for 10 seconds at least 20
                      times, and each time a process is killed that has jobs in its spool
  --seconds N         how long faults go on (120); from 60 seconds on the long forms are used: the server is killed at
                      least 20 times and stands still for 40 seconds, which may take longer than N
  --seed S            in which order and how hard faults strike (1)
  --faults LIST       only these, separated by commas:
    kill              the server is killed with -9 under load, and started again
    power-cut         the same, and what was not synced is gone; only for redis-everysec
    restart           the server is ended in good order under load, and started again
    cut               connections are cut, also in the middle of an answer
    swallow           what was asked for is done, and the answer is lost
    freeze-worker     a worker's process is stopped until its jobs were rescued, and woken: it may settle nothing
    freeze-store      the server is stopped for longer than every lease, and goes on: nobody may be declared dead
    script-flush      the server forgets its scripts again and again; only for redis and redis-everysec
    full              the server has no memory for a second: jobs are refused meanwhile; only for redis and redis-everysec

  --scenario leases   nothing of the above, but leaders of duties on PostgreSQL and on Redis, one test after the other, in
                      about twenty minutes: 100 leaders are killed, 100 end, 100 are frozen past their term and woken,
                      with leases of half a second, and 3 are killed with the usual ones; what 1,000 workers ask about
                      leases is counted by the server, and what 50 ask about duties in each mode; 1,000 schedules fall due
                      in one second

Some faults have short forms only, as tests of windlass-engines that run with all the others:
  Redis               FLUSHALL, a snapshot that is older than what was acknowledged, the failover of a replica: what they lose
                      they lose by nature (`tests/redis/other_store.rs`); values that were damaged (`tests/redis/damaged.rs`)
  PostgreSQL          the failover to a standby, jobs that no store can hold, rows that were damaged, locks and transactions that
                      others leave open (`tests/postgres/failover.rs`, `poison.rs`, `damaged_rows.rs`, `locks.rs`, `deadlocks.rs`)
";

/// Each with the test that runs in short with all the others.
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
/// What only some engines are struck with, and why others are not.
const ONLY_SOME: [(&str, &[&str], &str); 3] = [
    (
        "power-cut",
        &["redis-everysec"],
        "what a server may lose by its own settings is told for that one only; take `kill`",
    ),
    ("script-flush", &["redis", "redis-everysec"], "it keeps no scripts"),
    ("full", &["redis", "redis-everysec"], "it has no limit of memory for jobs"),
];

/// Runs the torture as it was asked for.
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
    println!("{}", plan.sisters());
    Ok(())
}

/// What is tortured other than an engine: the test program that does it in short with all the others.
const SCENARIOS: [(&str, &str); 1] = [("leases", "leaders")];

/// The test program of a scenario, if one is asked for. It stands alone.
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

/// One test at a time: they measure how long things take.
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
    /// All that the engine has, unless some are named.
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

    /// A fault that was asked for and that this engine is not struck with.
    fn foreign_fault(&self) -> Option<(&'static str, &'static str)> {
        let is_foreign = |(fault, engines, _): &&(&str, &[&str], &str)| {
            self.has_fault(fault) && !engines.contains(&self.engine.as_str())
        };
        ONLY_SOME.iter().find(is_foreign).map(|(fault, _, why)| (*fault, *why))
    }

    /// What else is to be run for the same server.
    fn sisters(&self) -> &'static str {
        match self.engine.as_str() {
            "redis" => {
                "Redis has two sisters: `--engine redis-everysec`, whose loss is counted, and `--engine fallback`, in which it \
                 is away again and again."
            }
            _ => "",
        }
    }

    fn has_fault(&self, fault: &str) -> bool {
        self.faults.as_ref().is_some_and(|faults| faults.split(',').any(|name| name == fault))
    }

    /// The same test that runs in short with all the others, told to go on for longer.
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
        let sisters = |engine| Plan::read(&["--engine", engine]).unwrap().sisters();
        assert!(sisters("redis").contains("redis-everysec") && sisters("redis").contains("fallback"));
        assert_eq!(sisters("postgres"), "");
    }

    #[test]
    fn help_names_every_engine_and_every_fault() {
        assert!(FAULTS.iter().all(|fault| HELP.contains(&format!("    {fault} "))), "{HELP}");
        assert!(ENGINES.iter().all(|(engine, _)| HELP.contains(engine)), "{HELP}");
    }
}
