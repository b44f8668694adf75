//! Moves of jobs, column by column, as statements take them.

use windlass_core::clock::Timestamp;
use windlass_core::triggers::rules::{JobStanding, marks};

use super::super::value::{Bits, Instant, int4, maybe};
use super::{EndedAttempt, Move};
use crate::kit::to_json;

/// The columns that all moves share.
pub(super) struct Common {
    pub(super) ids: Vec<i64>,
    pub(super) tokens: Vec<Option<Bits>>,
    pub(super) attempts: Vec<i32>,
    pub(super) failures: Vec<i32>,
    pub(super) crashes: Vec<i32>,
    pub(super) holds: Vec<i32>,
    pub(super) last_errors: Vec<Option<String>>,
    pub(super) settled_by: Vec<Option<Bits>>,
    /// Whether each job held up completion triggers and does so no more: triggers that do not wait for
    /// retries, and those that do.
    pub(super) frees: Vec<bool>,
    pub(super) frees_patient: Vec<bool>,
}

impl Common {
    pub(super) fn of(moves: &[Move], now: Timestamp) -> Self {
        let counters = || moves.iter().map(|job| job.applied.counters);
        let frees = |patient: bool| {
            let frees = move |job: &Move| {
                marks(job.live.standing(), JobStanding::at(&job.applied.state), patient, now)
            };
            moves.iter().map(frees).collect()
        };
        Self {
            ids: moves.iter().map(|job| job.live.id.0).collect(),
            tokens: moves.iter().map(|job| job.live.token.map(Bits::from)).collect(),
            attempts: counters().map(|c| int4(c.attempts)).collect(),
            failures: counters().map(|c| int4(c.failures)).collect(),
            crashes: counters().map(|c| int4(c.crashes)).collect(),
            holds: counters().map(|c| int4(c.holds)).collect(),
            last_errors: moves.iter().map(|job| job.end.last_error.as_ref().map(to_json)).collect(),
            settled_by: moves.iter().map(|job| job.end.settled_by.map(Bits::from)).collect(),
            frees: frees(false),
            frees_patient: frees(true),
        }
    }
}

/// The times at which jobs ended, which may have been reported late.
pub(super) fn ended_at(moves: &[Move], now: Timestamp) -> Vec<Instant> {
    moves.iter().map(|job| Instant(now.minus(job.end.ended_ago))).collect()
}

/// Attempts, column by column.
pub(super) struct AttemptColumns {
    pub(super) workers: Vec<Option<Bits>>,
    pub(super) started_at: Vec<Option<Instant>>,
    pub(super) endings: Vec<Option<&'static str>>,
    pub(super) errors: Vec<Option<String>>,
    pub(super) outputs: Vec<Option<String>>,
}

impl AttemptColumns {
    pub(super) fn of(moves: &[Move]) -> Self {
        Self::from(moves.iter().map(|job| job.end.attempt.as_ref()))
    }

    pub(super) fn from<'a>(attempts: impl Iterator<Item = Option<&'a EndedAttempt>> + Clone) -> Self {
        Self {
            workers: attempts.clone().map(|attempt| Some(attempt?.worker.into())).collect(),
            started_at: attempts.clone().map(|attempt| maybe(Some(attempt?.started_at))).collect(),
            endings: attempts.clone().map(|attempt| Some(attempt?.ending.as_str())).collect(),
            errors: attempts.clone().map(|attempt| attempt?.error.as_ref().map(to_json)).collect(),
            outputs: attempts.map(|attempt| attempt?.output.clone()).collect(),
        }
    }
}
