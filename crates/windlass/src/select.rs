//! Chooses the engine by environment variables: Redis with a spool beside it, or the spool alone.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_core::spool::Spool;

/// The values of the environment variables.
#[derive(Debug, Clone, PartialEq)]
struct RedisSettings {
    url: String,
    check_timeout: Option<Duration>,
}

/// The shortest and the longest time that a check of a store may take.
pub const CHECK_TIMEOUTS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));

/// Chooses the engine by `USE_REDIS_QUEUE`, `REDIS_URL` and `REDIS_HEALTH_CHECK_TIMEOUT` (in seconds).
///
/// If Redis is requested, returns an engine that uses it and falls back to `spool` while it cannot be
/// reached, now or later. Otherwise, or in a program that was built without Redis, returns `spool` alone. A
/// warning is logged whenever Redis was requested and is not used.
///
/// The spool must be made for this use: [`MemoryEngine::for_spool`](crate::MemoryEngine::for_spool) or
/// `SqliteEngine::open_spool`.
pub async fn from_env(spool: Arc<dyn Spool>) -> Result<Arc<dyn Engine>, EngineError> {
    choose(variable, spool, Settings::default()).await
}

/// Like [`from_env`], with settings of your own for Redis and for the fallback.
/// `REDIS_HEALTH_CHECK_TIMEOUT` sets how long a check may take; if it is not set, these settings do.
#[cfg(all(feature = "redis", feature = "fallback"))]
pub async fn from_env_with(
    spool: Arc<dyn Spool>,
    redis: windlass_engines::redis::RedisOptions,
    fallback: windlass_engines::fallback::FallbackOptions,
) -> Result<Arc<dyn Engine>, EngineError> {
    choose(variable, spool, Settings { redis, fallback }).await
}

/// The settings of a program beside the environment.
#[derive(Default)]
struct Settings {
    #[cfg(all(feature = "redis", feature = "fallback"))]
    redis: windlass_engines::redis::RedisOptions,
    #[cfg(all(feature = "redis", feature = "fallback"))]
    fallback: windlass_engines::fallback::FallbackOptions,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

async fn choose(
    variable: impl Fn(&str) -> Option<String>,
    spool: Arc<dyn Spool>,
    settings: Settings,
) -> Result<Arc<dyn Engine>, EngineError> {
    match redis_settings(variable)? {
        Some(redis_settings) => with_redis(redis_settings, spool, settings).await,
        None => Ok(spool),
    }
}

/// Parses a flag as people write it in environment variables.
pub fn flag(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" | "" => Some(false),
        _ => None,
    }
}

/// Parses `REDIS_HEALTH_CHECK_TIMEOUT`, in seconds. The error says what was expected and what was given.
pub fn check_timeout(text: &str) -> Result<Duration, String> {
    let (shortest, longest) = CHECK_TIMEOUTS;
    let span = text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    span.filter(|span| (shortest..=longest).contains(span))
        .ok_or_else(|| format!("expected a number of seconds from 0.05 to 60, such as 2.0, got {text:?}"))
}

fn redis_settings(variable: impl Fn(&str) -> Option<String>) -> Result<Option<RedisSettings>, EngineError> {
    let given = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
    let asked = given("USE_REDIS_QUEUE").unwrap_or_default();
    match flag(&asked) {
        Some(true) => {}
        Some(false) => return Ok(None),
        None => {
            let why = format!("USE_REDIS_QUEUE: expected true or false, got {asked:?}");
            return Err(EngineError::Refused(why));
        }
    }
    let url = given("REDIS_URL").unwrap_or_else(|| "redis://localhost:6379/0".to_owned());
    let check_timeout = given("REDIS_HEALTH_CHECK_TIMEOUT").map(|text| check_timeout(&text)).transpose();
    let check_timeout =
        check_timeout.map_err(|why| EngineError::Refused(format!("REDIS_HEALTH_CHECK_TIMEOUT: {why}")))?;
    Ok(Some(RedisSettings { url, check_timeout }))
}

#[cfg(all(feature = "redis", feature = "fallback"))]
async fn with_redis(
    redis_settings: RedisSettings,
    spool: Arc<dyn Spool>,
    settings: Settings,
) -> Result<Arc<dyn Engine>, EngineError> {
    use windlass_engines::fallback::{Connect, FallbackEngine};
    use windlass_engines::redis::RedisEngine;

    let Settings { redis, fallback: mut options } = settings;
    options.check_timeout = redis_settings.check_timeout.unwrap_or(options.check_timeout);
    let url: Arc<str> = redis_settings.url.into();
    let connect: Connect = Arc::new(move || {
        let (url, redis) = (Arc::clone(&url), redis.clone());
        Box::pin(async move {
            let engine = RedisEngine::connect(&url, redis).await?;
            Ok(Arc::new(engine) as Arc<dyn Engine>)
        })
    });
    Ok(Arc::new(FallbackEngine::open("redis", connect, spool, options).await?))
}

#[cfg(not(all(feature = "redis", feature = "fallback")))]
#[allow(clippy::unused_async, reason = "with Redis it awaits the connection")]
async fn with_redis(
    _: RedisSettings,
    spool: Arc<dyn Spool>,
    _: Settings,
) -> Result<Arc<dyn Engine>, EngineError> {
    tracing::warn!(
        engine = spool.info().name,
        "Redis is requested, but this program was built without it (features `redis` and `fallback`); using the spool"
    );
    Ok(spool)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_of(variables: &[(&str, &str)]) -> Result<Option<RedisSettings>, EngineError> {
        redis_settings(environment(variables))
    }

    fn environment(variables: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        move |name| find(name).map(|(_, text)| (*text).to_owned())
    }

    #[test]
    fn redis_is_used_only_if_it_is_asked_for() {
        for off in ["", "false", "0", "no", "OFF"] {
            assert_eq!(
                settings_of(&[("USE_REDIS_QUEUE", off), ("REDIS_URL", "redis://x")]).unwrap(),
                None,
                "{off}"
            );
        }
        let url = "redis://localhost:6379/0".to_owned();
        let asked = settings_of(&[("USE_REDIS_QUEUE", "True")]).unwrap();
        assert_eq!(asked, Some(RedisSettings { url, check_timeout: None }));
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        let on = ("USE_REDIS_QUEUE", "true");
        assert!(
            settings_of(&[("USE_REDIS_QUEUE", "perhaps")]).unwrap_err().to_string().contains("true or false")
        );
        for wrong in ["soon", "0", "-1", "NaN", "61"] {
            let error = settings_of(&[on, ("REDIS_HEALTH_CHECK_TIMEOUT", wrong)]).unwrap_err().to_string();
            assert!(error.starts_with("REDIS_HEALTH_CHECK_TIMEOUT"), "{error}");
        }
        let asked = settings_of(&[on, ("REDIS_HEALTH_CHECK_TIMEOUT", "2.0")]).unwrap().unwrap();
        assert_eq!(asked.check_timeout, Some(Duration::from_secs(2)));
    }

    #[tokio::test]
    async fn without_the_variable_the_spool_is_the_engine() {
        let engine = from_env(Arc::new(crate::MemoryEngine::for_spool())).await;
        // The environment of a test run does not set the variable.
        assert_eq!(engine.unwrap().info().name, "memory");
    }

    #[cfg(all(feature = "redis", feature = "fallback"))]
    #[tokio::test(flavor = "multi_thread")]
    async fn with_redis_on_the_engine_is_redis_as_the_program_set_it_and_falls_back_when_it_goes() {
        use windlass_engines::fallback::FallbackOptions;
        use windlass_engines::redis::{RedisEngine, RedisOptions};

        let start = || windlass_servers::redis::Server::start(&windlass_servers::redis::Options::default());
        let mut server = tokio::task::block_in_place(start).unwrap();
        let url = server.url();
        let on = [("USE_REDIS_QUEUE", "1"), ("REDIS_URL", &*url), ("REDIS_HEALTH_CHECK_TIMEOUT", "0.5")];
        let redis = RedisOptions { namespace: "mine".to_owned(), ..RedisOptions::default() };
        let settings = Settings { redis: redis.clone(), fallback: FallbackOptions::default() };
        let spool = || Arc::new(crate::MemoryEngine::for_spool());
        let engine = choose(environment(&on), spool(), settings).await.unwrap();
        let queues = vec![crate::QueueSpec::new("ours".parse().unwrap())];
        let declaration = windlass_core::engine::Declaration { queues, types: Vec::new() };
        engine.declare(declaration).await.unwrap();
        let direct = RedisEngine::connect(&url, redis).await.unwrap();
        let seen = windlass_core::engine::Admin::queues(&direct).await.unwrap();
        assert_eq!(
            seen[0].spec.name.as_str(),
            "ours",
            "the queue is in the namespace that the program chose"
        );
        tokio::task::block_in_place(|| server.kill()).unwrap();
        let engine = choose(environment(&on), spool(), Settings::default()).await.unwrap();
        let status = engine.fallback().await.unwrap().expect("the engine can fall back");
        assert_eq!((status.primary, status.active), ("redis", "memory"));
    }

    /// Exists only in a build without Redis, which `cargo xtask ci` checks and does not run: running it
    /// would take a build of its own. After a change here, run `cargo test -p windlass
    /// --no-default-features --lib select::`.
    #[cfg(not(all(feature = "redis", feature = "fallback")))]
    #[tokio::test]
    async fn a_program_built_without_redis_that_is_asked_for_it_warns_and_uses_the_spool() {
        let log = crate::log_capture::LogCapture::from(tracing::Level::WARN);
        let engine = choose(
            environment(&[("USE_REDIS_QUEUE", "true")]),
            Arc::new(crate::MemoryEngine::for_spool()),
            Settings::default(),
        );
        assert_eq!(engine.await.unwrap().info().name, "memory");
        assert_eq!(log.lines_with("built without it").len(), 1);
    }
}
