//! Keys: a caller's name for a work item, and what happens when it is enqueued again.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::job::JobId;
use crate::names::Key;
use crate::span;

/// A key with its rules, as a caller passes it with a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClaim {
    /// The key, unique within the job type.
    pub key: Key,
    /// For how long the key is held.
    pub scope: KeyScope,
    /// What happens if another job holds it already.
    pub on_conflict: OnConflict,
}

impl KeyClaim {
    /// Creates a key that is held while the job is live; a second enqueue changes nothing.
    pub fn new(key: Key) -> Self {
        Self { key, scope: KeyScope::default(), on_conflict: OnConflict::default() }
    }

    /// Creates a key with the rules of a keyed backfill: dead jobs hold their key too, and enqueuing the
    /// key again revives the job.
    pub fn backfill(key: Key) -> Self {
        Self { key, scope: KeyScope::WhileLiveOrDead, on_conflict: OnConflict::Revive }
    }
}

/// For how long a job holds its key. The holder's own scope decides, not that of the new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyScope {
    /// While it waits, is parked or runs.
    #[default]
    WhileLive,
    /// While it waits, is parked or runs, and while it is in the dead-letter queue.
    WhileLiveOrDead,
    /// For this long after it was enqueued, even if it has ended; and while it is live.
    For(#[serde(with = "span::text")] Duration),
}

impl KeyScope {
    /// Returns until when at least a job that is enqueued at `now` holds its key.
    pub fn held_until(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::For(period) => Some(now.plus(period)),
            Self::WhileLive | Self::WhileLiveOrDead => None,
        }
    }
}

/// What happens to a new job whose key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnConflict {
    /// Leave the holder as it is and report it.
    #[default]
    Keep,
    /// Give the holder the new payload and time if it does not run (debounce).
    Replace,
    /// If the holder is dead, restart it with fresh counters and the new payload.
    Revive,
}

/// The holder of a key, as the store knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHolder {
    /// The job.
    pub job: JobId,
    /// Its stage.
    pub stage: HolderStage,
    /// Its scope.
    pub scope: KeyScope,
    /// Until when it holds the key at least.
    pub until: Option<Timestamp>,
}

/// The stage of the holder of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderStage {
    /// Ready, scheduled or parked.
    Waiting,
    /// Running.
    Running,
    /// In the dead-letter queue.
    Dead,
    /// Succeeded, cancelled, or deleted.
    Ended,
}

impl KeyHolder {
    /// Whether the key is still held at `now`.
    pub fn holds(&self, now: Timestamp) -> bool {
        match self.stage {
            HolderStage::Waiting | HolderStage::Running => true,
            HolderStage::Dead if self.scope == KeyScope::WhileLiveOrDead => true,
            HolderStage::Dead | HolderStage::Ended => self.until.is_some_and(|until| until > now),
        }
    }
}

/// The decision about a new job with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyVerdict {
    /// The key is free: store the job.
    Insert,
    /// Change nothing; this job holds the key.
    Keep(JobId),
    /// Give this job the new payload and time.
    Replace(JobId),
    /// Restart this dead job.
    Revive(JobId),
}

/// Decides about a new job whose key another job may hold.
pub fn resolve(holder: Option<&KeyHolder>, on_conflict: OnConflict, now: Timestamp) -> KeyVerdict {
    let Some(holder) = holder.filter(|holder| holder.holds(now)) else { return KeyVerdict::Insert };
    match (on_conflict, holder.stage) {
        (OnConflict::Replace, HolderStage::Waiting) => KeyVerdict::Replace(holder.job),
        (OnConflict::Revive, HolderStage::Dead) => KeyVerdict::Revive(holder.job),
        _ => KeyVerdict::Keep(holder.job),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn holder(stage: HolderStage, scope: KeyScope) -> KeyHolder {
        KeyHolder { job: JobId(7), stage, scope, until: scope.held_until(NOW) }
    }

    #[test]
    fn a_free_key_is_taken() {
        assert_eq!(resolve(None, OnConflict::Keep, NOW), KeyVerdict::Insert);
    }

    #[test]
    fn a_live_holder_keeps_its_key_in_every_scope() {
        for stage in [HolderStage::Waiting, HolderStage::Running] {
            for scope in [KeyScope::WhileLive, KeyScope::WhileLiveOrDead, KeyScope::For(Duration::ZERO)] {
                let verdict = resolve(Some(&holder(stage, scope)), OnConflict::Keep, NOW);
                assert_eq!(verdict, KeyVerdict::Keep(JobId(7)), "{stage:?} {scope:?}");
            }
        }
    }

    #[test]
    fn only_a_waiting_holder_is_replaced() {
        let replace =
            |stage| resolve(Some(&holder(stage, KeyScope::WhileLiveOrDead)), OnConflict::Replace, NOW);
        assert_eq!(replace(HolderStage::Waiting), KeyVerdict::Replace(JobId(7)));
        assert_eq!(replace(HolderStage::Running), KeyVerdict::Keep(JobId(7)));
        assert_eq!(replace(HolderStage::Dead), KeyVerdict::Keep(JobId(7)));
    }

    #[test]
    fn only_a_dead_holder_is_revived() {
        let revive =
            |stage| resolve(Some(&holder(stage, KeyScope::WhileLiveOrDead)), OnConflict::Revive, NOW);
        assert_eq!(revive(HolderStage::Dead), KeyVerdict::Revive(JobId(7)));
        assert_eq!(revive(HolderStage::Waiting), KeyVerdict::Keep(JobId(7)));
        assert_eq!(revive(HolderStage::Ended), KeyVerdict::Insert);
    }

    #[test]
    fn a_dead_letter_holds_its_key_only_if_its_scope_says_so() {
        let keep = |scope| resolve(Some(&holder(HolderStage::Dead, scope)), OnConflict::Keep, NOW);
        assert_eq!(keep(KeyScope::WhileLive), KeyVerdict::Insert);
        assert_eq!(keep(KeyScope::WhileLiveOrDead), KeyVerdict::Keep(JobId(7)));
    }

    #[test]
    fn a_period_holds_the_key_past_the_end_of_the_job() {
        let hour = Duration::from_secs(3600);
        let ended = holder(HolderStage::Ended, KeyScope::For(hour));
        assert_eq!(resolve(Some(&ended), OnConflict::Revive, NOW), KeyVerdict::Keep(JobId(7)));
        assert_eq!(resolve(Some(&ended), OnConflict::Keep, NOW.plus(hour)), KeyVerdict::Insert);
    }
}
