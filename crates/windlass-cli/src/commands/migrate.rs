//! `windlass migrate`: make or update the tables of the store.

use clap::Args;
use serde_json::json;
use windlass_engines::sqlite::migrate::{Migration, dry_run, pending};

use crate::config::{Config, EngineChoice};
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::store::{self, IfMissing};

/// Makes or updates the tables of the store. Other commands do it too when they open an older store; this one does
/// it at a time of your choice, and shows beforehand what it would do.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass migrate --dry-run
  windlass migrate --db /var/lib/app/jobs.db

Exit codes: 69 the file cannot be used, or a newer Windlass was here.")]
pub(crate) struct MigrateArgs {
    /// Only print the statements that would be executed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Migrates, or says what would be done.
pub(crate) fn migrate(args: &MigrateArgs, config: &Config, output: &mut Output) -> Result<Code, Failure> {
    if config.store.engine == EngineChoice::Memory {
        return Err(store::memory_is_private());
    }
    let path = &config.store.path;
    let steps = pending(path)?;
    if !args.dry_run {
        store::open(config, IfMissing::Create)?;
    }
    if output.is_json() {
        let steps: Vec<_> =
            steps.iter().map(|step| json!({ "version": step.version, "name": step.name })).collect();
        output.json(&json!({ "path": path, "dry_run": args.dry_run, "migrations": steps }))?;
        return Ok(Code::Ok);
    }
    report(args, &steps, output)?;
    Ok(Code::Ok)
}

fn report(args: &MigrateArgs, steps: &[Migration], output: &mut Output) -> Result<(), Failure> {
    match steps {
        [] => output.line("up to date"),
        _ if args.dry_run => output.line(dry_run(steps).trim_end()),
        _ => {
            let names: Vec<_> =
                steps.iter().map(|step| format!("{} ({})", step.version, step.name)).collect();
            output.line(format!("applied {}", names.join(", ")))
        }
    }
}
