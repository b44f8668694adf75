//! Configuration: a TOML or YAML file, the environment over it, flags over both. Whatever is wrong is refused
//! with its place, and everything that is wrong at once.

use std::path::{Path, PathBuf};

use windlass::{LimitOptions, WorkerOptions};
use windlass_core::engine::Declaration;
use windlass_core::job_type::TypeSpec;
use windlass_core::priority::PriorityLabels;
use windlass_core::queue::QueueSpec;
use windlass_core::retry::RetryPolicy;
use windlass_core::schedules::{Origin, ScheduleSpec};
use windlass_core::triggers::CompletionTrigger;

mod tree;
mod error;
mod from_toml;
mod from_yaml;
mod from_env;
mod section;
mod database_url;
mod postgres;
mod redis;
mod store;
mod fallback;
mod worker;
pub(crate) mod retry;
mod queues;
mod limits;
mod schedules;
mod triggers;
pub(crate) mod example;

pub(crate) use database_url::DatabaseUrl;
pub(crate) use error::{ConfigError, suggest};
pub(crate) use fallback::{FallbackChoice, FallbackSettings};
pub(crate) use postgres::PostgresSettings;
pub(crate) use redis::{RedisSettings, RedisUrl};
pub(crate) use schedules::holidays_file;
pub(crate) use store::{EngineChoice, StoreSettings, Synchronous};
pub(crate) use tree::Place;
pub(crate) use worker::WorkerSettings;

use error::ConfigErrors;
use section::Section;
use tree::{Entry, Table, Value};

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// The file it came from, if there was one.
    pub(crate) file: Option<PathBuf>,
    /// `[store]`: where jobs are kept.
    pub(crate) store: StoreSettings,
    /// `[fallback]`: what happens while the server is away.
    pub(crate) fallback: FallbackSettings,
    /// `[worker]`: how worker processes live and end.
    pub(crate) worker: WorkerSettings,
    /// `[priorities]`: labels and what they mean.
    pub(crate) priorities: PriorityLabels,
    /// `[retry]`: what happens after a failure where a type says nothing.
    pub(crate) retry: RetryPolicy,
    /// `[queues.NAME]`, most urgent first.
    pub(crate) queues: Vec<QueueSpec>,
    /// `[types.NAME]`, by name.
    pub(crate) types: Vec<TypeSpec>,
    /// `[breakers.NAME]` and `[rate_limits.NAME]`, by name.
    pub(crate) limits: LimitOptions,
    /// `[schedules.NAME]`, by name.
    pub(crate) schedules: Vec<ScheduleSpec>,
    /// `[triggers.NAME]`, by name.
    pub(crate) triggers: Vec<CompletionTrigger>,
}

impl Config {
    /// What configuration declares to a store.
    #[allow(dead_code, reason = "for the commands that start workers")]
    pub(crate) fn declaration(&self) -> Declaration {
        Declaration { queues: self.queues.clone(), types: self.types.clone() }
    }

    /// Finds out where the chosen server is, if nothing but the environment says so.
    pub(crate) fn find_server(&mut self, variables: &[(String, String)]) -> Result<(), Vec<ConfigError>> {
        let mut problems = ConfigErrors::default();
        from_env::take_redis_url(&mut self.store, variables, &mut problems);
        from_env::take_database_url(&mut self.store, variables, &mut problems);
        problems.or(())
    }

    /// How workers of this configuration behave.
    pub(crate) fn worker_options(&self) -> WorkerOptions {
        WorkerOptions {
            queues: self.queues.clone(),
            labels: self.priorities.clone(),
            lease: self.worker.lease,
            heartbeat_every: self.worker.heartbeat,
            sweep_every: self.worker.sweep,
            duty_leases: self.worker.duties,
            maintenance_mode: self.worker.maintenance_mode,
            maintenance_rotation: self.worker.maintenance_rotation,
            stop_grace: self.worker.stop_grace,
            crashes_max: self.worker.max_crashes,
            rollups_kept: self.worker.rollups_kept,
            limits: self.limits.clone(),
            schedules: self.schedules.clone(),
            schedules_origin: Origin::Configuration,
            triggers: self.triggers.clone(),
            triggers_origin: Origin::Configuration,
            ..WorkerOptions::default()
        }
    }
}

/// The files that are looked for in the working directory, in this order.
pub(crate) const DEFAULT_FILES: [&str; 3] = ["windlass.toml", "windlass.yaml", "windlass.yml"];

/// A file larger than this is not a configuration.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The file to read: the one that was named, or the one that lies in the working directory.
pub(crate) fn find_file(named: Option<&Path>, variables: &[(String, String)]) -> Option<PathBuf> {
    let by_variable = || variables.iter().find(|(name, text)| name == "WINDLASS_CONFIG" && !text.is_empty());
    named
        .map(Path::to_owned)
        .or_else(|| by_variable().map(|(_, path)| PathBuf::from(path)))
        .or_else(|| DEFAULT_FILES.into_iter().map(PathBuf::from).find(|path| path.exists()))
}

/// Reads file and environment. Flags are put over the result by whoever has them.
pub(crate) fn load(file: Option<&Path>, variables: &[(String, String)]) -> Result<Config, Vec<ConfigError>> {
    let mut tree = match file {
        Some(path) => read_file(path)?,
        None => Table::default(),
    };
    let mut problems = ConfigErrors::default();
    from_env::overlay(&mut tree, variables, &mut problems);
    let mut config = interpret(&tree, &mut problems);
    from_env::take_use_redis(&mut config, variables, &mut problems);
    from_env::take_redis_url(&mut config.store, variables, &mut problems);
    from_env::take_check_timeout(&mut config.fallback, variables, &mut problems);
    from_env::take_database_url(&mut config.store, variables, &mut problems);
    problems.or(Config { file: file.map(Path::to_owned), ..config })
}

fn read_file(path: &Path) -> Result<Table, Vec<ConfigError>> {
    let name = path.display().to_string();
    let parse = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => from_toml::parse,
        Some("yaml" | "yml") => from_yaml::parse,
        _ => {
            let message = format!("{name}: expected a file that ends in .toml, .yaml or .yml");
            return Err(vec![ConfigError::nowhere(message)]);
        }
    };
    let text = read_text(path).map_err(|why| vec![ConfigError::nowhere(format!("{name}: {why}"))])?;
    parse(&name, &text)
}

fn read_text(path: &Path) -> Result<String, String> {
    let cannot = |why: std::io::Error| format!("the configuration file cannot be read: {why}");
    let bytes = std::fs::metadata(path).map_err(cannot)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("expected a configuration of at most {FILE_BYTES_MAX} bytes, got {bytes}"));
    }
    std::fs::read_to_string(path).map_err(cannot)
}

fn interpret(tree: &Table, problems: &mut ConfigErrors) -> Config {
    let mut top = Section::top(tree, problems);
    let sections = [
        "store",
        "fallback",
        "worker",
        "priorities",
        "retry",
        "queues",
        "types",
        "breakers",
        "rate_limits",
        "schedules",
        "triggers",
    ];
    let [
        store,
        fallback,
        worker,
        priorities,
        retry,
        queues,
        types,
        breakers,
        rate_limits,
        schedules,
        triggers,
    ] = sections.map(|section| top.entry(section));
    top.finish();
    let store = store::read(Section::of("[store]", store.map(|entry| &entry.node), problems));
    let fallback = fallback::read(Section::of("[fallback]", fallback.map(|entry| &entry.node), problems));
    let worker = worker::read(Section::of("[worker]", worker.map(|entry| &entry.node), problems));
    let priorities = queues::read_priorities(named_entries("[priorities]", priorities, problems), problems);
    let retry = retry.and_then(|entry| retry::read("[retry]", entry, problems)).unwrap_or_default();
    let queues = queues::read_queues(named_entries("[queues]", queues, problems), problems);
    let types = queues::read_types(named_entries("[types]", types, problems), &queues, &retry, problems);
    let breakers = named_entries("[breakers]", breakers, problems);
    let rate_limits = named_entries("[rate_limits]", rate_limits, problems);
    let limits = limits::read(breakers, rate_limits, problems);
    let schedules = named_entries("[schedules]", schedules, problems);
    let schedules = schedules::read(schedules, &priorities, problems);
    let triggers = triggers::read(named_entries("[triggers]", triggers, problems), &priorities, problems);
    Config {
        file: None,
        store,
        fallback,
        worker,
        priorities,
        retry,
        queues,
        types,
        limits,
        schedules,
        triggers,
    }
}

/// The entries of a table whose keys are names that people choose.
fn named_entries<'a>(title: &str, entry: Option<&'a Entry>, problems: &mut ConfigErrors) -> &'a [Entry] {
    match entry.map(|entry| (&entry.node.value, &entry.node.place)) {
        None | Some((Value::Null, _)) => &[],
        Some((Value::Table(table), _)) => &table.0,
        Some((other, place)) => {
            let message = format!("expected {title} to be a table, got {}", other.describe());
            problems.push(ConfigError::at(place, message));
            &[]
        }
    }
}

#[cfg(test)]
mod tests;
