//! The options of breakers and rate limits.

use std::collections::BTreeSet;

use windlass_core::breaker::{BreakerOptions, BreakerOptionsError};
use windlass_core::names::{BreakerName, LimitName, TypeName};
use windlass_core::rate_limit::{RateLimit, RateLimitError};

/// The breakers and rate limits of a process. They must be the same in every process that shares them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimitOptions {
    /// Circuit breakers. A breaker that is not listed has the defaults.
    pub breakers: Vec<BreakerSpec>,
    /// Rate limits.
    pub rate_limits: Vec<RateLimitSpec>,
}

/// The processes that share a breaker or a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LimitScope {
    /// All processes on the same store.
    #[default]
    Store,
    /// None: each process has its own.
    Process,
}

/// A circuit breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerSpec {
    /// The platform that it protects.
    pub name: BreakerName,
    /// When it opens, and for how long.
    pub options: BreakerOptions,
    /// The processes that share it.
    pub scope: LimitScope,
    /// The types whose jobs call the platform.
    pub types: Vec<TypeName>,
}

impl BreakerSpec {
    /// A breaker with the defaults.
    pub fn new(name: BreakerName) -> Self {
        Self { name, options: BreakerOptions::default(), scope: LimitScope::default(), types: Vec::new() }
    }
}

/// A rate limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitSpec {
    /// Its name.
    pub name: LimitName,
    /// The number of tokens, and the key that they belong to.
    pub limit: RateLimit,
    /// The processes that share it.
    pub scope: LimitScope,
    /// Where it holds jobs back.
    pub at: LimitAt,
    /// The types whose jobs are limited.
    pub types: Vec<TypeName>,
}

/// Where a rate limit holds jobs back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LimitAt {
    /// At enqueue: the caller is refused, with the time after which to try again.
    Enqueue,
    /// Before they run: the jobs wait, and the delay is the only effect.
    #[default]
    Run,
}

impl LimitOptions {
    /// Checks the rules that the types do not express.
    pub fn check(&self) -> Result<(), LimitOptionsError> {
        let mut names = BTreeSet::new();
        for breaker in &self.breakers {
            let wrong = |why| LimitOptionsError::Breaker { name: breaker.name.clone(), why };
            breaker.options.check().map_err(wrong)?;
            if !names.insert(breaker.name.as_str()) {
                return Err(LimitOptionsError::Twice { name: breaker.name.to_string() });
            }
        }
        let mut names = BTreeSet::new();
        for limit in &self.rate_limits {
            let wrong = |why| LimitOptionsError::RateLimit { name: limit.name.clone(), why };
            limit.limit.check().map_err(wrong)?;
            if !names.insert(limit.name.as_str()) {
                return Err(LimitOptionsError::Twice { name: limit.name.to_string() });
            }
        }
        Ok(())
    }

    /// Notes that jobs of a type call a platform.
    pub(crate) fn note_use(&mut self, platform: &BreakerName, job_type: &TypeName) {
        let listed = self.breakers.iter_mut().find(|breaker| breaker.name == *platform);
        match listed {
            Some(breaker) if breaker.types.contains(job_type) => {}
            Some(breaker) => breaker.types.push(job_type.clone()),
            None => {
                let types = vec![job_type.clone()];
                self.breakers.push(BreakerSpec { types, ..BreakerSpec::new(platform.clone()) });
            }
        }
    }
}

/// The reason why breakers or rate limits are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitOptionsError {
    /// A breaker is invalid.
    #[error("breaker {name} is invalid: {why}")]
    Breaker {
        /// The breaker.
        name: BreakerName,
        /// The reason.
        why: BreakerOptionsError,
    },
    /// A rate limit is invalid.
    #[error("rate limit {name} is invalid: {why}")]
    RateLimit {
        /// The rate limit.
        name: LimitName,
        /// The reason.
        why: RateLimitError,
    },
    /// A name was used twice.
    #[error("expected each breaker and each rate limit once, got {name} twice")]
    Twice {
        /// The name.
        name: String,
    },
}
