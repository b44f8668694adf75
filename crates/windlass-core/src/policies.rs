//! What processes share of policies that hold jobs back: breakers, tokens of rate limits, and who waits behind a gate.
//! Few methods, each one statement or script, and none on the way of a job that has no such policy.
//!
//! A permit belongs to a claim, the pair of job id and token, and needs no freeing: the statement that settles, releases,
//! cancels or rescues the job ends the claim, and a permit of a claim that has ended is void (see
//! [`Policies::still_hold`]). So it costs the way of other jobs nothing, and cannot leak.

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

/// What processes share of policies. An engine that keeps none of it says so by the methods as they are given here;
/// then breakers and rate limits are each process's own.
#[async_trait]
pub trait Policies: Send + Sync + 'static {
    /// All breakers, by name, and the store's now.
    async fn breakers(&self) -> Result<BreakersRead> {
        not_kept()
    }

    /// Writes what became of a breaker, if nobody wrote since it was read. Version 0 makes a new one; at most
    /// [`BREAKERS_MAX`](crate::limits::BREAKERS_MAX) are kept.
    async fn save_breaker(&self, _name: &BreakerName, _read: u64, _state: &BreakerState) -> Result<Saved> {
        not_kept()
    }

    /// Which of these claims are still good: their jobs run, under this very token.
    async fn still_hold(&self, _claims: &[Fence]) -> Result<Vec<bool>> {
        not_kept()
    }

    /// Takes tokens of rate limits as [`take`](crate::rate_limit::take) decides by the store's clock, each key by itself;
    /// at most [`TAKES_MAX`](crate::limits::TAKES_MAX) requests. Who wants 0 only looks.
    async fn take_tokens(&self, _takes: &[Take]) -> Result<Vec<Taken>> {
        not_kept()
    }

    /// Gates that somebody waits behind, but for those of suspects and of ordering keys, which no policy opens, in an order of the store's own, after the one given;
    /// at most `limit`.
    async fn gates(&self, _after: Option<&Gate>, _limit: u32) -> Result<Vec<Gate>> {
        not_kept()
    }

    /// The oldest jobs behind a gate, at most `limit`.
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
    /// By name.
    pub breakers: Vec<StoredBreaker>,
    /// The store's now.
    pub now: Timestamp,
}

/// A breaker as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBreaker {
    /// Its name.
    pub name: BreakerName,
    /// Goes up with each write; to be named by the next one.
    pub version: u64,
    /// What is known.
    pub state: BreakerState,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saved {
    /// It was written.
    Done,
    /// Somebody wrote meanwhile: read again, decide again.
    Changed,
}

/// A request for tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// Of which limit.
    pub limit: LimitName,
    /// For which key; may be empty.
    pub key: String,
    /// How its tokens fall due.
    pub pace: Pace,
    /// At most so many.
    pub wanted: u32,
}
