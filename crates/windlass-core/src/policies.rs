//! What processes share of policies that hold jobs back: breakers, tokens of rate limits, and the jobs
//! that wait behind a gate. There are few methods, each one statement or script, and none on the path of
//! a job that has no such policy.
//!
//! A permit belongs to a claim, the pair of job id and token, and needs no release: the statement that
//! settles, releases, cancels or rescues the job ends the claim, and a permit of a claim that has ended
//! is void (see [`Policies::still_hold`]). So it costs nothing on the path of other jobs, and cannot
//! leak.

use async_trait::async_trait;

use crate::breaker::BreakerState;
use crate::claim::Fence;
use crate::clock::Timestamp;
use crate::engine::Result;
use crate::error::EngineError;
use crate::gate::Gate;
use crate::job::JobId;
use crate::names::{BreakerName, LimitName};
use crate::rate_limit::{Pace, Taken};
use crate::stored::Unreadable;

/// Stores what processes share of policies. An engine that keeps none of it uses the default methods,
/// which return an error that says so; then breakers and rate limits are local to each process.
#[async_trait]
pub trait Policies: Send + Sync + 'static {
    /// Lists all breakers, by name, and the store's current time.
    async fn breakers(&self) -> Result<BreakersRead> {
        not_kept()
    }

    /// Writes the new state of a breaker, if no other process wrote since it was read. Version 0 creates
    /// a breaker; at most [`BREAKERS_MAX`](crate::limits::BREAKERS_MAX) are kept.
    async fn save_breaker(&self, _name: &BreakerName, _read: u64, _state: &BreakerState) -> Result<Saved> {
        not_kept()
    }

    /// Returns which of these claims are still valid: their jobs run, under exactly this token.
    async fn still_hold(&self, _claims: &[Fence]) -> Result<Vec<bool>> {
        not_kept()
    }

    /// Takes tokens of rate limits as [`take`](crate::rate_limit::take) decides by the store's clock,
    /// each key by itself; at most [`TAKES_MAX`](crate::limits::TAKES_MAX) requests. A request for 0
    /// tokens only reads.
    async fn take_tokens(&self, _takes: &[Take]) -> Result<Vec<Taken>> {
        not_kept()
    }

    /// Lists gates behind which jobs wait, except those of suspects and of ordering keys, which no policy
    /// opens. The order is the store's own, after the given gate; at most `limit`.
    async fn gates(&self, _after: Option<&Gate>, _limit: u32) -> Result<Vec<Gate>> {
        not_kept()
    }

    /// Lists the oldest jobs behind a gate, at most `limit`.
    async fn behind(&self, _gate: &Gate, _limit: u32) -> Result<Vec<JobId>> {
        not_kept()
    }
}

fn not_kept<T>() -> Result<T> {
    let why =
        "this engine keeps no breakers and rate limits for several processes; give them the scope `process`";
    Err(EngineError::Unusable { why: why.to_owned() })
}

/// All breakers of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakersRead {
    /// The breakers, by name.
    pub breakers: Vec<StoredBreaker>,
    /// The current time by the store's clock.
    pub now: Timestamp,
}

/// A breaker as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBreaker {
    /// Its name.
    pub name: BreakerName,
    /// The version, which rises with each write; the next write names it.
    pub version: u64,
    /// The state of the breaker. One that cannot be read concerns no other breaker.
    pub state: std::result::Result<BreakerState, Unreadable>,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// The state was written.
    Done,
    /// Another process wrote meanwhile: read again, decide again.
    Changed,
}

/// A request for tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// The rate limit.
    pub limit: LimitName,
    /// The key; may be empty.
    pub key: String,
    /// How the tokens of the limit fall due.
    pub pace: Pace,
    /// The maximum number of tokens.
    pub wanted: u32,
}
