//! Turns of fairness keys: a claim reads the fairness keys with due jobs, page by page, and takes from each
//! its portion.

use std::collections::HashMap;

use rusqlite::OptionalExtension;
use windlass_core::boost::ClaimRange;
use windlass_core::claim::ClaimRequest;
use windlass_core::clock::Timestamp;
use windlass_core::fairness::{Line, Ring, interleave};
use windlass_core::limits::FAIRNESS_KEYS_PER_SCAN_MAX;
use windlass_core::names::FairnessKey;

use super::claim::{Claimable, Head, Taking};
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;

/// The minimum number of fairness keys that are read of each type, however many types there are.
const LINES_PER_TYPE_MIN: usize = 10;

/// How many of the very first jobs are checked for jobs that were enqueued before others had fairness keys.
const UNMARKED_READ: i64 = 100;

/// The turns of fairness keys, by the number of a queue and the priority. They are lost with the process:
/// then turns start anew.
pub(super) type Rings = HashMap<(i64, i64), Ring>;

impl Work<'_> {
    /// Takes jobs from one range of the order by turns, if jobs there have fairness keys. The rest of the
    /// limit is for jobs of fairness keys that are not known yet.
    pub(super) fn take_by_turns(
        &mut self,
        request: &ClaimRequest,
        (queue, heads): (i64, &[Head]),
        range: &ClaimRange,
        taking: &mut Taking,
    ) -> StoreResult<()> {
        let at = (queue, i64::from(range.priority));
        let due: Vec<_> =
            heads.iter().filter(|head| head.priority == at.1 && head.due <= range.until).collect();
        let mut ring = self.catalogue.rings.remove(&at).unwrap_or_default();
        self.scan_fairness_keys(&mut ring, &due, range.until)?;
        // Also a ring without keys: it knows where the next page begins.
        if !ring.is_empty() {
            self.take_round(&mut ring, request, (&due, range), taking)?;
        }
        self.catalogue.rings.insert(at, ring);
        Ok(())
    }

    /// Goes round the ring until the limit is reached, or no fairness key has a due job.
    fn take_round(
        &mut self,
        ring: &mut Ring,
        request: &ClaimRequest,
        (due, range): (&[&Head], &ClaimRange),
        taking: &mut Taking,
    ) -> StoreResult<()> {
        if !self.first_of_key(due, range.until, &None, 1)?.is_empty() {
            ring.found(None);
        }
        while taking.room_in(range) > 0 && !ring.is_empty() {
            let mut found = Vec::new();
            for (line, portion) in ring.deal(taking.room_in(range)) {
                let first = self.first_of_key(due, range.until, &line, portion)?;
                if first.len() < portion as usize {
                    ring.is_used_up(&line);
                }
                found.push(first);
            }
            self.take_found(interleave(found), request, range.boosted, taking)?;
        }
        Ok(())
    }

    /// Reads the next page of fairness keys with due jobs.
    fn scan_fairness_keys(&self, ring: &mut Ring, heads: &[&Head], until: Timestamp) -> StoreResult<()> {
        let mut next = self.conn.prepare_cached(sql!("next_fairness_key"))?;
        let behind = ring.look_behind().map_or(String::new(), ToString::to_string);
        let page = (FAIRNESS_KEYS_PER_SCAN_MAX as usize / heads.len().max(1)).max(LINES_PER_TYPE_MIN);
        let mut ends: Vec<String> = Vec::new();
        for head in heads {
            let mut last = behind.clone();
            for count in 1..=page {
                let found = next
                    .query_row((head.kind, head.priority, &last), |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()?;
                let Some((fairness_key, due)): Option<(String, i64)> = found else { break };
                if let (true, Ok(fairness_key)) =
                    (due <= until.as_micros(), FairnessKey::parse(&fairness_key))
                {
                    ring.found(Some(fairness_key));
                }
                last = fairness_key;
                if count == page {
                    ends.push(last.clone());
                }
            }
        }
        ring.looked_up_to(ends.into_iter().min().and_then(|end| FairnessKey::parse(&end).ok()));
        Ok(())
    }

    /// Reads the first jobs of a fairness key, over all types by due time and id.
    fn first_of_key(
        &self,
        heads: &[&Head],
        until: Timestamp,
        line: &Line,
        portion: u32,
    ) -> StoreResult<Vec<Claimable>> {
        let mut pick = self.conn.prepare_cached(sql!("pick_fairness_key"))?;
        let name = line.as_ref().map_or("", |fairness_key| fairness_key.as_str());
        let mut first = Vec::new();
        for head in heads {
            let bounds = (head.kind, head.priority, name, until.as_micros(), portion);
            self.claimables(pick.query(bounds)?, &mut first)?;
            if line.is_none() {
                let mut unmarked = self.conn.prepare_cached(sql!("pick_unmarked"))?;
                let bounds = (head.kind, head.priority, UNMARKED_READ, until.as_micros(), portion);
                self.claimables(unmarked.query(bounds)?, &mut first)?;
            }
        }
        first.sort_by_key(Claimable::turn);
        first.truncate(portion as usize);
        Ok(first)
    }
}
