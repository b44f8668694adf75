//! `windlass check`: checks the configuration and prints its settings.

use clap::Args;
use serde_json::json;
use windlass::fallback::KeysWhileAway;
use windlass_core::span::show_span;

use crate::config::{
    Config, DatabaseUrl, EngineChoice, FallbackChoice, FallbackSettings, StoreSettings, Synchronous,
};
use crate::exit::{Code, Failure};
use crate::output::Output;

/// Checks the configuration file and the environment, and prints the settings or every error.
///
/// Each error names its file, line and column (or its environment variable), what was expected, what was
/// found, and the nearest known name. No store is opened and no file is written.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass check
  windlass check --config /etc/windlass.yaml

Exit codes: 0 valid, 78 invalid.")]
pub(crate) struct CheckArgs {}

/// Prints a short summary. An invalid configuration fails before this function is called.
pub(crate) fn check(config: &Config, output: &mut Output) -> Result<Code, Failure> {
    if config.store.engine == EngineChoice::Postgres {
        config.store.database_url()?;
    }
    if config.store.engine == EngineChoice::Redis {
        config.store.redis_url()?;
    }
    if output.is_json() {
        output.json(&summary_json(config))?;
        return Ok(Code::Ok);
    }
    let file = config.file.as_ref().map(|path| path.display().to_string());
    output.line(format!("ok: {}", file.as_deref().unwrap_or("no file; defaults and environment")))?;
    output.line(format!("store   {}", store_line(config)))?;
    if let Some(line) = fallback_line(config) {
        output.line(format!("fallback {line}"))?;
    }
    let worker = &config.worker;
    output.line(format!(
        "worker  lease {}, heartbeat {}, sweep {}, duty heartbeat {}, duty expiry {}, stop grace {}, dead after {} crashes, rollups kept {}",
        show_span(worker.lease),
        show_span(worker.heartbeat),
        show_span(worker.sweep),
        show_span(worker.duties.heartbeat),
        show_span(worker.duties.expiry),
        show_span(worker.stop_grace),
        worker.max_crashes,
        show_span(worker.rollups_kept)
    ))?;
    let queues: Vec<_> =
        config.queues.iter().map(|queue| format!("{} ({} slots)", queue.name, queue.concurrency)).collect();
    output.line(format!("queues  {}", queues.join(", ")))?;
    let types: Vec<_> = config.types.iter().map(|spec| format!("{} in {}", spec.name, spec.queue)).collect();
    let types = if types.is_empty() {
        "none; workers register their types at start".to_owned()
    } else {
        types.join(", ")
    };
    output.line(format!("types   {types}"))?;
    output.line(format!("retry   {}", config.retry.name()))?;
    Ok(Code::Ok)
}

fn fallback_line(config: &Config) -> Option<String> {
    let fallback = &config.fallback;
    let engine = fallback.engine.filter(|_| config.store.engine.is_server())?;
    Some(match engine {
        FallbackChoice::None => "none: calls fail while the server is unavailable".to_owned(),
        FallbackChoice::Memory => "memory: jobs are lost if the process dies".to_owned(),
        FallbackChoice::Sqlite => format!("file {}", fallback.path.display()),
    })
}

fn store_line(config: &Config) -> String {
    let store = &config.store;
    match (store.engine, store.synchronous) {
        (EngineChoice::Postgres, _) => {
            let url = store.postgres.url.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("postgres {url}, schema {}; durability depends on the server", store.postgres.schema)
        }
        (EngineChoice::Redis, _) => {
            let url = store.redis.url.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("redis {url}, namespace {}; durability depends on the server", store.redis.namespace)
        }
        (EngineChoice::Memory, _) => "memory; jobs are lost with the process".to_owned(),
        (EngineChoice::Sqlite, Synchronous::Full) => {
            format!("sqlite {}; jobs survive a power cut", store.path.display())
        }
        (EngineChoice::Sqlite, Synchronous::Normal) => {
            format!("sqlite {}; jobs survive a crash of the process", store.path.display())
        }
    }
}

fn summary_json(config: &Config) -> serde_json::Value {
    let (store, worker) = (&config.store, &config.worker);
    json!({
        "ok": true,
        "file": config.file,
        "store": store_json(store),
        "fallback": fallback_json(&config.fallback),
        "worker": {
            "lease": show_span(worker.lease),
            "heartbeat": show_span(worker.heartbeat),
            "sweep": show_span(worker.sweep),
            "duty_heartbeat": show_span(worker.duties.heartbeat),
            "duty_expiry": show_span(worker.duties.expiry),
            "maintenance_mode": worker.maintenance_mode,
            "maintenance_rotation": worker.maintenance_rotation.map(show_span),
            "stop_grace": show_span(worker.stop_grace),
            "max_crashes": worker.max_crashes,
            "rollups_kept": show_span(worker.rollups_kept),
        },
        "priorities": config.priorities,
        "retry": config.retry,
        "queues": config.queues,
        "types": config.types,
    })
}

fn fallback_json(fallback: &FallbackSettings) -> serde_json::Value {
    json!({
        "engine": fallback.engine.unwrap_or(FallbackChoice::None).as_str(),
        "path": fallback.path,
        "health_check_timeout": show_span(fallback.check_timeout),
        "keys": match fallback.keys {
            KeysWhileAway::Refuse => "refuse",
            KeysWhileAway::Accept => "accept",
        },
        "max_jobs": fallback.max_jobs,
    })
}

/// The settings of the store as JSON. Addresses are shown without their passwords.
fn store_json(store: &StoreSettings) -> serde_json::Value {
    let (postgres, redis) = (&store.postgres, &store.redis);
    let shown = |url: &Option<DatabaseUrl>| url.as_ref().map(ToString::to_string);
    json!({
        "engine": store.engine.as_str(),
        "path": store.path,
        "synchronous": store.synchronous.as_str(),
        "busy_timeout": show_span(store.busy_timeout),
        "url": shown(&postgres.url).or_else(|| redis.url.as_ref().map(ToString::to_string)),
        "schema": postgres.schema,
        "pooled": postgres.pooled,
        "listen": postgres.listen,
        "listen_url": shown(&postgres.listen_url),
        "connections": postgres.connections,
        "namespace": redis.namespace,
        "ready_key": redis.ready_key,
        "scheduled_key": redis.scheduled_key,
        "ca_file": redis.ca_file,
        "allow_eviction": redis.allow_eviction,
    })
}
