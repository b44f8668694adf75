//! `windlass migrate`: make or update the tables of the store.

use clap::Args;

use crate::config::Config;
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::store::{self, IfMissing};

/// Makes or updates the tables of the store.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass migrate --dry-run
  windlass migrate --db /var/lib/app/jobs.db")]
pub(crate) struct MigrateArgs {
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Opens the store, which makes its tables.
pub(crate) fn migrate(_args: &MigrateArgs, config: &Config, _output: &mut Output) -> Result<Code, Failure> {
    store::open(config, IfMissing::Create)?;
    Ok(Code::Ok)
}
