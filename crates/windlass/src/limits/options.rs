//! What is limited, and how.

use std::collections::BTreeSet;

use windlass_core::breaker::{BreakerOptions, BreakerOptionsError};
use windlass_core::names::{BreakerName, LimitName, TypeName};
use windlass_core::rate_limit::{RateLimit, RateLimitError};

/// The breakers and rate limits of a process. They are the same in every process that should share them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimitOptions {
    /// Circuit breakers. One that is not listed has the defaults.
    pub breakers: Vec<BreakerSpec>,
    /// Rate limits.
    pub rate_limits: Vec<RateLimitSpec>,
}

/// Who shares a breaker or a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LimitScope {
    /// All processes on the same store.
    #[default]
    Store,
    /// Nobody: each process has its own.
    Process,
}

/// A circuit breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerSpec {
    /// The platform that it stands before.
    pub name: BreakerName,
    /// When it opens, and for how long.
    pub options: BreakerOptions,
    /// Who shares it.
    pub scope: LimitScope,
    /// Jobs of these types call the platform.
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
    /// How many, and by which key.
    pub limit: RateLimit,
    /// Who shares it.
    pub scope: LimitScope,
    /// Where it holds jobs back.
    pub at: LimitAt,
    /// Jobs of these types are limited.
    pub types: Vec<TypeName>,
}

/// Where a rate limit holds jobs back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LimitAt {
    /// When they are put in: the caller is refused and told when to come back.
    Enqueue,
    /// Before they run: they wait, and nobody notices but for the time.
    #[default]
    Run,
}

impl LimitOptions {
    /// Checks what types cannot say.
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

/// What is wrong with breakers or rate limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitOptionsError {
    /// A breaker is wrong.
    #[error("breaker {name} is wrong: {why}")]
    Breaker {
        /// Which.
        name: BreakerName,
        /// Why.
        why: BreakerOptionsError,
    },
    /// A rate limit is wrong.
    #[error("rate limit {name} is wrong: {why}")]
    RateLimit {
        /// Which.
        name: LimitName,
        /// Why.
        why: RateLimitError,
    },
    /// A name was used twice.
    #[error("expected each breaker and each rate limit once, got {name} twice")]
    Twice {
        /// Which.
        name: String,
    },
}
