//! `windlass migrate`: creates or updates the tables of the store.

use clap::Args;
use serde_json::{Value, json};
use windlass_engines::{postgres, sqlite};

use crate::config::{Config, EngineChoice};
use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::store::{self, IfMissing};

/// Creates or updates the tables of the store. `serve` and commands that enqueue or register do so too when
/// they open an older store. This command does it at a time of your choice, and shows beforehand what it
/// would do.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass migrate --dry-run
  windlass migrate --db /var/lib/app/jobs.db
  windlass migrate --db postgres://user@localhost:5432/app

Exit codes: 69 the store cannot be used, or a newer Windlass has migrated it.")]
pub(crate) struct MigrateArgs {
    /// Only print the statements that would be executed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The pending migrations of a store, and its address.
struct Plan {
    place: Value,
    steps: Vec<(u32, &'static str)>,
    statements: String,
}

/// Applies the pending migrations, or prints what would be done.
pub(crate) async fn migrate(
    args: &MigrateArgs,
    config: &Config,
    output: &mut Output,
) -> Result<Code, Failure> {
    let mut plan = match config.store.engine {
        EngineChoice::Memory => return Err(store::memory_is_private()),
        EngineChoice::Sqlite => on_sqlite(args, config).await?,
        EngineChoice::Postgres => on_postgres(args, config).await?,
        EngineChoice::Redis => on_redis(args, config).await?,
    };
    if output.is_json() {
        let steps = plan.steps.iter().map(|(version, name)| json!({ "version": version, "name": name }));
        plan.place["dry_run"] = json!(args.dry_run);
        plan.place["migrations"] = steps.collect();
        output.json(&plan.place)?;
    } else {
        report(args, &plan, output)?;
    }
    Ok(Code::Ok)
}

async fn on_sqlite(args: &MigrateArgs, config: &Config) -> Result<Plan, Failure> {
    let path = &config.store.path;
    let pending = sqlite::migrate::pending(path)?;
    if !args.dry_run {
        store::open_alone(config, IfMissing::Create).await?;
    }
    Ok(Plan {
        place: json!({ "path": path }),
        steps: pending.iter().map(|step| (step.version, step.name)).collect(),
        statements: sqlite::migrate::dry_run(&pending),
    })
}

async fn on_postgres(args: &MigrateArgs, config: &Config) -> Result<Plan, Failure> {
    let url = config.store.database_url()?;
    let options = store::postgres_options(&config.store.postgres);
    let steps = match args.dry_run {
        true => postgres::migrate::pending(url.secret(), &options).await,
        false => postgres::migrate::apply(url.secret(), &options).await,
    };
    let steps = steps.map_err(|why| store::of_postgres(why, url))?;
    Ok(Plan {
        place: json!({ "url": url.to_string(), "schema": options.schema }),
        steps: steps.iter().map(|step| (step.version, step.name)).collect(),
        statements: postgres::migrate::dry_run(&steps, &options),
    })
}

/// Creates and checks a Redis namespace. Redis has a layout instead of tables, which is done when the
/// namespace is opened.
async fn on_redis(args: &MigrateArgs, config: &Config) -> Result<Plan, Failure> {
    if !args.dry_run {
        store::open_alone(config, IfMissing::Create).await?;
    }
    let url = config.store.redis_url()?;
    Ok(Plan {
        place: json!({ "url": url.to_string(), "namespace": config.store.redis.namespace }),
        steps: Vec::new(),
        statements: String::new(),
    })
}

fn report(args: &MigrateArgs, plan: &Plan, output: &mut Output) -> Result<(), Failure> {
    if plan.steps.is_empty() {
        return output.line("up to date");
    }
    if args.dry_run {
        return output.line(plan.statements.trim_end());
    }
    let names: Vec<_> = plan.steps.iter().map(|(version, name)| format!("{version} ({name})")).collect();
    output.line(format!("applied {}", names.join(", ")))
}
