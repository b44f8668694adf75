//! `windlass doctor`: reports what on the server delays, stops or loses jobs, and what to do about it.

use std::cmp::Reverse;

use clap::{Args, ValueEnum};
use windlass_engines::postgres::{Finding, Grade, PostgresEngine, PostgresOptions};
use windlass_engines::redis::RedisEngine;
use windlass_engines::sqlite::room_at;

use crate::config::{Config, EngineChoice, FallbackChoice};
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::store::{of_postgres, of_redis, postgres_options, redis_options};

const MIB: u64 = 1024 * 1024;
/// Less free space than this is bad: a spool may not even open, since its file, its log and their index
/// need a few MiB.
const SPOOL_ROOM_BAD: u64 = 16 * MIB;
/// Less free space than this is poor: a spool may fill up soon. It is the space of some 100,000 jobs of 1
/// KiB.
const SPOOL_ROOM_POOR: u64 = 256 * MIB;

/// Checks the server of the store and reports what is wrong with it.
///
/// PostgreSQL: sessions that hold back vacuum, tables full of dead rows, missing or invalid indexes, the
/// notification queue, the clock. Redis: what can be lost, failed writes to disk, eviction, memory,
/// connections, lagging replicas, slow commands, missing rights, the clock. With an SQLite spool: the free
/// space on its disk.
///
/// Nothing is changed. Each finding says what to do.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass doctor
  windlass doctor --engine postgres --json
  windlass doctor --db redis://localhost:6379

Exit codes: 0 no finding is bad, 1 a finding is bad, 69 the server cannot be reached.")]
pub(crate) struct DoctorArgs {
    /// The engine whose server to check, in place of the configured one.
    #[arg(long)]
    engine: Option<ServerEngine>,
}

/// The engines with a server that can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ServerEngine {
    Postgres,
    Redis,
}

/// Prints the findings, worst first.
pub(crate) async fn doctor(args: &DoctorArgs, config: &Config, output: &mut Output) -> Result<Code, Failure> {
    let config = chosen(args, config)?;
    let mut findings = match config.store.engine {
        EngineChoice::Postgres => of_postgres_server(&config).await?,
        EngineChoice::Redis => of_redis_server(&config).await?,
        EngineChoice::Sqlite | EngineChoice::Memory => {
            return Err(Failure::new(Code::Refused, "expected a store on a server, got one without")
                .hint("a file or memory has no server to check; use --engine postgres or --engine redis to check the server of DATABASE_URL or REDIS_URL"));
        }
    };
    findings.extend(of_spool_disk(&config));
    findings.sort_by_key(|finding| Reverse(finding.grade));
    show(&findings, output)?;
    let is_bad = findings.iter().any(|finding| finding.grade == Grade::Bad);
    Ok(if is_bad { Code::Failed } else { Code::Ok })
}

/// The configuration with the engine that `--engine` names.
fn chosen(args: &DoctorArgs, config: &Config) -> Result<Config, Failure> {
    let mut config = config.clone();
    match args.engine {
        None => {}
        Some(ServerEngine::Postgres) => config.store.engine = EngineChoice::Postgres,
        Some(ServerEngine::Redis) => config.store.engine = EngineChoice::Redis,
    }
    config.find_server(&crate::variables()).map_err(Failure::configuration)?;
    Ok(config)
}

async fn of_postgres_server(config: &Config) -> Result<Vec<Finding>, Failure> {
    let url = config.store.database_url()?;
    let options =
        PostgresOptions { migrate: false, listen: false, ..postgres_options(&config.store.postgres) };
    let engine =
        PostgresEngine::connect(url.secret(), options).await.map_err(|error| of_postgres(error, url))?;
    engine.examine().await.map_err(|error| of_postgres(error, url))
}

async fn of_redis_server(config: &Config) -> Result<Vec<Finding>, Failure> {
    let url = config.store.redis_url()?;
    let examined = RedisEngine::examine(url.secret(), redis_options(&config.store.redis)).await;
    examined.map_err(|error| of_redis(error, url))
}

/// The finding about the disk of the spool. A full disk cannot hold jobs when the server becomes
/// unavailable.
fn of_spool_disk(config: &Config) -> Option<Finding> {
    if config.fallback.engine != Some(FallbackChoice::Sqlite) {
        return None;
    }
    let path = &config.fallback.path;
    let (grade, found) = match room_at(path) {
        Ok(room) => {
            let grade = match room {
                ..SPOOL_ROOM_BAD => Grade::Bad,
                SPOOL_ROOM_BAD..SPOOL_ROOM_POOR => Grade::Poor,
                _ => Grade::Good,
            };
            (grade, format!("the disk of {} has {} MiB of free space", path.display(), room / MIB))
        }
        Err(error) => (
            Grade::Unread,
            format!("the free space on the disk of {} cannot be read: {error}", path.display()),
        ),
    };
    let advice = "free some space on it, or set another `path` under [fallback]: without free space new jobs are refused while the server is unavailable";
    let advice = (grade != Grade::Good).then(|| advice.to_owned());
    Some(Finding { about: "spool disk", grade, found, advice })
}

fn show(findings: &[Finding], output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(&findings);
    }
    for finding in findings {
        output.line(format!("{:<6} {:<14} {}", word(finding.grade), finding.about, finding.found))?;
        if let Some(advice) = &finding.advice {
            output.line(format!("{:<22}{advice}", ""))?;
        }
    }
    Ok(())
}

fn word(grade: Grade) -> &'static str {
    match grade {
        Grade::Good => "ok",
        Grade::Unread => "unread",
        Grade::Poor => "poor",
        Grade::Bad => "bad",
    }
}
