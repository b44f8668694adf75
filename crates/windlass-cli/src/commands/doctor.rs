//! `windlass doctor`: what on the server slows jobs down or stops them, and what to do about it.

use clap::{Args, ValueEnum};
use windlass_engines::postgres::{Finding, Grade, PostgresEngine, PostgresOptions};

use crate::config::{Config, EngineChoice};
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::store::{of_postgres, postgres_options};

/// Looks at the server and says what is wrong with it: who holds back vacuum, tables full of dead rows, missing or
/// invalid indexes, a notification queue that fills up, a clock that is off.
///
/// Nothing is changed. Each finding says what to do.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass doctor
  windlass doctor --engine postgres --json

Exit codes: 0 nothing is bad, 1 something is, 69 the server cannot be reached.")]
pub(crate) struct DoctorArgs {
    /// The engine to look at, in place of the configured one.
    #[arg(long)]
    engine: Option<Patient>,
}

/// Engines that have a server to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Patient {
    Postgres,
}

/// Prints what was found, worst first.
pub(crate) async fn doctor(args: &DoctorArgs, config: &Config, output: &mut Output) -> Result<Code, Failure> {
    if args.engine.is_none() && config.store.engine != EngineChoice::Postgres {
        return Err(Failure::new(Code::Refused, "expected a store on a server, got one without")
            .hint("a file or memory has nobody who could be in the way; use --engine postgres to look at the server of DATABASE_URL"));
    }
    let url = config.store.database_url()?;
    let options =
        PostgresOptions { migrate: false, listen: false, ..postgres_options(&config.store.postgres) };
    let engine =
        PostgresEngine::connect(url.secret(), options).await.map_err(|error| of_postgres(error, url))?;
    let findings = engine.examine().await.map_err(|error| of_postgres(error, url))?;
    show(&findings, output)?;
    let is_bad = findings.iter().any(|finding| finding.grade == Grade::Bad);
    Ok(if is_bad { Code::Failed } else { Code::Ok })
}

fn show(findings: &[Finding], output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(&findings);
    }
    for finding in findings {
        output.line(format!("{:<5} {:<14} {}", word(finding.grade), finding.about, finding.found))?;
        if let Some(advice) = &finding.advice {
            output.line(format!("{:<21}{advice}", ""))?;
        }
    }
    Ok(())
}

fn word(grade: Grade) -> &'static str {
    match grade {
        Grade::Good => "ok",
        Grade::Poor => "poor",
        Grade::Bad => "bad",
    }
}
