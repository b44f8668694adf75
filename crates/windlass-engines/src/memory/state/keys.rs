//! Keys and their holders. A key belongs to the last job that took it, and is forgotten when that job
//! neither lives nor holds it beyond its end.

use std::collections::{BTreeSet, HashMap};

use windlass_core::clock::Timestamp;
use windlass_core::job::{JobId, StoredState};
use windlass_core::key::{HolderStage, KeyHolder, KeyScope};
use windlass_core::names::Key;
use windlass_core::planted::{Bug, planted};

use super::{JobRow, Stage, TypeAt};

/// A key is unique within its type.
pub(crate) type KeyAt = (TypeAt, Key);

#[derive(Debug, Default)]
pub(crate) struct Keys {
    held: HashMap<KeyAt, HeldKey>,
    /// Keys that outlive their job, by the end of their period.
    lapsing: BTreeSet<(Timestamp, KeyAt)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldKey {
    pub(crate) job: JobId,
    pub(crate) scope: KeyScope,
    pub(crate) until: Option<Timestamp>,
}

impl Keys {
    pub(crate) fn get(&self, at: &KeyAt) -> Option<&HeldKey> {
        self.held.get(at)
    }

    /// Gives a job its key, if it has one. The caller has made sure that no other job holds it.
    pub(crate) fn hold(&mut self, row: &JobRow) {
        if let Some(claim) = &row.job.key {
            let until = claim.scope.held_until(row.job.enqueued_at);
            let held = HeldKey { job: row.job.id, scope: claim.scope, until };
            self.held.insert((row.type_at, claim.key.clone()), held);
        }
    }

    /// Frees the key of a job that ended, unless it is held for longer.
    pub(crate) fn after_end(&mut self, row: &JobRow, now: Timestamp) {
        match &row.stage {
            Stage::Ended(StoredState::Dead { .. }) if planted(Bug::KeyNotFreedByDeath) => {}
            Stage::Ended(StoredState::Dead { .. }) => self.free_unless_held(row, HolderStage::Dead, now),
            _ => self.free_unless_held(row, HolderStage::Ended, now),
        }
    }

    /// Frees the key of a job that is gone, unless it is held for a period.
    pub(crate) fn after_discard(&mut self, row: &JobRow, now: Timestamp) {
        self.free_unless_held(row, HolderStage::Ended, now);
    }

    fn free_unless_held(&mut self, row: &JobRow, stage: HolderStage, now: Timestamp) {
        let Some(claim) = &row.job.key else { return };
        let at = (row.type_at, claim.key.clone());
        // The key may have passed to another job while this job was dead.
        let Some(held) = self.held.get(&at).filter(|held| held.job == row.job.id) else { return };
        let holder = KeyHolder { job: held.job, stage, scope: held.scope, until: held.until };
        if !holder.holds(now) {
            self.held.remove(&at);
        } else if let Some(until) = held.until {
            self.lapsing.insert((until, at));
        }
    }

    /// Removes and returns keys whose period is over, at most `limit`. They are not returned again.
    pub(crate) fn lapsed(&mut self, limit: usize, now: Timestamp) -> Vec<KeyAt> {
        let mut lapsed = Vec::new();
        while lapsed.len() < limit {
            if !self.has_lapsed(now) {
                break;
            }
            lapsed.extend(self.lapsing.pop_first().map(|(_, at)| at));
        }
        lapsed
    }

    /// Whether there is a key whose period is over and that was not returned yet.
    pub(crate) fn has_lapsed(&self, now: Timestamp) -> bool {
        self.lapsing.first().is_some_and(|(until, _)| *until <= now)
    }

    pub(crate) fn forget(&mut self, at: &KeyAt) {
        self.held.remove(at);
    }
}
