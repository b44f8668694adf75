//! The guides in `docs/`, so that their examples are compiled and run with the doc tests.

#[doc = include_str!("../../../docs/life-of-a-job.md")]
pub struct LifeOfAJob;

#[doc = include_str!("../../../docs/retries.md")]
pub struct Retries;

#[doc = include_str!("../../../docs/keys.md")]
pub struct Keys;

#[doc = include_str!("../../../docs/ordering-keys.md")]
pub struct OrderingKeysGuide;

#[doc = include_str!("../../../docs/fairness-keys.md")]
pub struct FairnessKeysGuide;

#[doc = include_str!("../../../docs/handlers.md")]
pub struct HandlersGuide;

#[doc = include_str!("../../../docs/limits.md")]
pub struct LimitsGuide;

#[doc = include_str!("../../../docs/coordination.md")]
pub struct CoordinationGuide;

#[doc = include_str!("../../../docs/schedules.md")]
pub struct SchedulesGuide;

#[doc = include_str!("../../../docs/completion-triggers.md")]
pub struct TriggersGuide;

#[doc = include_str!("../../../docs/testing.md")]
pub struct Testing;

#[cfg(feature = "postgres")]
#[doc = include_str!("../../../docs/engines/postgres.md")]
pub struct PostgresGuide;

#[cfg(feature = "redis")]
#[doc = include_str!("../../../docs/engines/redis.md")]
pub struct RedisGuide;

#[cfg(all(feature = "fallback", feature = "redis", feature = "sqlite"))]
#[doc = include_str!("../../../docs/fallback.md")]
pub struct FallbackGuide;

#[doc = include_str!("../../../README.md")]
pub struct Readme;
