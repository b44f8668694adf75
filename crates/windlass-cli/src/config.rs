//! The configuration: a TOML or YAML file, overridden by the environment, overridden by flags. An invalid
//! configuration is refused with all its errors at once, each with its position.

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
pub(crate) use tree::Position;
pub(crate) use worker::WorkerSettings;

use error::ConfigErrors;
use section::Section;
use tree::{Entry, Table, Value};

/// The settings of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// The file that was read, if there was one.
    pub(crate) file: Option<PathBuf>,
    /// `[store]`: where jobs are kept.
    pub(crate) store: StoreSettings,
    /// `[fallback]`: what happens while the server is unavailable.
    pub(crate) fallback: FallbackSettings,
    /// `[worker]`: leases, heartbeats, duties and the stop of worker processes.
    pub(crate) worker: WorkerSettings,
    /// `[priorities]`: labels and their priorities.
    pub(crate) priorities: PriorityLabels,
    /// `[retry]`: the retry policy of types that name none.
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
    /// The queues and types that the configuration declares to a store.
    #[allow(dead_code, reason = "for the commands that start workers")]
    pub(crate) fn declaration(&self) -> Declaration {
        Declaration { queues: self.queues.clone(), types: self.types.clone() }
    }

    /// Reads the address of the selected server from the environment, unless the configuration has it.
    pub(crate) fn find_server(&mut self, variables: &[(String, String)]) -> Result<(), Vec<ConfigError>> {
        let mut errors = ConfigErrors::default();
        from_env::take_redis_url(&mut self.store, variables, &mut errors);
        from_env::take_database_url(&mut self.store, variables, &mut errors);
        errors.or(())
    }

    /// The options of workers with this configuration.
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

/// The files that are searched in the working directory, in this order.
pub(crate) const DEFAULT_FILES: [&str; 3] = ["windlass.toml", "windlass.yaml", "windlass.yml"];

/// The maximum size of a configuration file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The file to read: the one that was named, or the first default file in the working directory.
pub(crate) fn find_file(named: Option<&Path>, variables: &[(String, String)]) -> Option<PathBuf> {
    let by_variable = || variables.iter().find(|(name, text)| name == "WINDLASS_CONFIG" && !text.is_empty());
    named
        .map(Path::to_owned)
        .or_else(|| by_variable().map(|(_, path)| PathBuf::from(path)))
        .or_else(|| DEFAULT_FILES.into_iter().map(PathBuf::from).find(|path| path.exists()))
}

/// Reads file and environment. The callers apply the flags to the result.
pub(crate) fn load(file: Option<&Path>, variables: &[(String, String)]) -> Result<Config, Vec<ConfigError>> {
    let mut tree = match file {
        Some(path) => read_file(path)?,
        None => Table::default(),
    };
    let mut errors = ConfigErrors::default();
    from_env::overlay(&mut tree, variables, &mut errors);
    let mut config = interpret(&tree, &mut errors);
    from_env::take_use_redis(&mut config, variables, &mut errors);
    from_env::take_redis_url(&mut config.store, variables, &mut errors);
    from_env::take_check_timeout(&mut config.fallback, variables, &mut errors);
    from_env::take_database_url(&mut config.store, variables, &mut errors);
    errors.or(Config { file: file.map(Path::to_owned), ..config })
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
    let cannot = |why: std::io::Error| format!("reading the configuration file failed: {why}");
    let bytes = std::fs::metadata(path).map_err(cannot)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("expected a configuration of at most {FILE_BYTES_MAX} bytes, got {bytes}"));
    }
    std::fs::read_to_string(path).map_err(cannot)
}

fn interpret(tree: &Table, errors: &mut ConfigErrors) -> Config {
    let mut top = Section::top(tree, errors);
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
    let store = store::read(Section::of("[store]", store.map(|entry| &entry.node), errors));
    let fallback = fallback::read(Section::of("[fallback]", fallback.map(|entry| &entry.node), errors));
    let worker = worker::read(Section::of("[worker]", worker.map(|entry| &entry.node), errors));
    let priorities = queues::read_priorities(named_entries("[priorities]", priorities, errors), errors);
    let retry = retry.and_then(|entry| retry::read("[retry]", entry, errors)).unwrap_or_default();
    let queues = queues::read_queues(named_entries("[queues]", queues, errors), errors);
    let types = queues::read_types(named_entries("[types]", types, errors), &queues, &retry, errors);
    let breakers = named_entries("[breakers]", breakers, errors);
    let rate_limits = named_entries("[rate_limits]", rate_limits, errors);
    let limits = limits::read(breakers, rate_limits, errors);
    let schedules = named_entries("[schedules]", schedules, errors);
    let schedules = schedules::read(schedules, &priorities, errors);
    let triggers = triggers::read(named_entries("[triggers]", triggers, errors), &priorities, errors);
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
fn named_entries<'a>(title: &str, entry: Option<&'a Entry>, errors: &mut ConfigErrors) -> &'a [Entry] {
    match entry.map(|entry| (&entry.node.value, &entry.node.position)) {
        None | Some((Value::Null, _)) => &[],
        Some((Value::Table(table), _)) => &table.0,
        Some((other, position)) => {
            let message = format!("expected {title} to be a table, got {}", other.describe());
            errors.push(ConfigError::at(position, message));
            &[]
        }
    }
}

#[cfg(test)]
mod tests;
