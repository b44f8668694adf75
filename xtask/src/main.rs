//! Repo chores: `cargo xtask test`, `ci`, `servers`, `simulate`, `torture`, `bench`, `peers`, `tidy`. The
//! program has one small dependency, the servers, so that the first command of a newcomer starts within
//! seconds.

use std::process::ExitCode;

mod command;
mod features;
mod packages;
mod servers;
mod test;
mod redis5;
mod ci;
mod simulate;
mod torture;
mod bench;
mod peers;
mod tidy;

const HELP: &str = "\
cargo xtask CHORE

  test [CRATE …]                    run every test: unit, integration, doc tests, simulation; build the examples;
                                    with names of crates, only their test programs
    [--long]                          also the tests that are marked as long, and more simulated histories
    [--with cluster,tls,pgbouncer]    accepted; these tests always run
    [--with redis5]                   also repeat the Redis tests on a server of version 5, which is downloaded
  ci                                format, tidy, lints, docs, then test: what must pass before a change lands
  servers -- COMMAND                run a command with throw-away servers in DATABASE_URL and REDIS_URL
  simulate --histories N --seed S   run N seeded histories of a whole cluster, starting with seed S
  torture --engine ENGINE           inject real faults into a server under load, and check the histories
    [--seconds N] [--seed S] [--faults LIST]
  bench [OPTIONS]                   measure scenarios of Windlass and baselines, in release; servers are started if
                                    the engine needs one and none is named; `bench --help` lists the options
    [--engine ENGINE] [--scenario NAMES|all] [--jobs N] [--runs N] [--limit] [--json] …
  peers --engine postgres           measure other queues and Windlass alternately, on the server in DATABASE_URL
    [--runs N] [--jobs N] [--without-windlass]
  tidy                              check the rules of the code base
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("\n{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<ExitCode, String> {
    match words {
        ["servers", "--", command @ ..] => return servers::run(command),
        ["bench", options @ ..] => return bench::run(options),
        ["test", options @ ..] => test::run_with(options)?,
        ["ci"] => ci::run()?,
        ["simulate", options @ ..] => simulate::run(options)?,
        ["torture", options @ ..] => torture::run(options)?,
        ["peers", options @ ..] => peers::run(options)?,
        ["tidy"] => tidy::run()?,
        [] | ["help" | "--help" | "-h"] => print!("{HELP}"),
        other => return Err(format!("expected a chore, got {:?}\n\n{HELP}", other.join(" "))),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_chore_is_refused_with_the_list_of_chores() {
        let failure = run(&["polish", "--hard"]).unwrap_err();
        assert!(failure.contains("polish --hard") && failure.contains("simulate"), "{failure}");
    }
}
