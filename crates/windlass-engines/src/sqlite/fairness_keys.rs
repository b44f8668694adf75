//! FairnessKeys take turns: a claim asks for the lines that have something due, page by page, and takes from each its portion.

use std::collections::HashMap;

use rusqlite::OptionalExtension;
use windlass_core::boost::ClaimRange;
use windlass_core::claim::ClaimRequest;
use windlass_core::clock::Timestamp;
use windlass_core::fairness::{Line, Ring, interleave};
use windlass_core::limits::SHARES_PER_LOOK_MAX;
use windlass_core::names::FairnessKey;

use super::claim::{Claimable, Head, Taking};
use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;

/// Of each type so many lines are asked about, however many types there are.
const LINES_PER_TYPE_MIN: usize = 10;

/// So many of the very first jobs are looked at for those that came in before others had fairness keys.
const UNMARKED_LOOKED_AT: i64 = 100;

/// Whose turn it is, by the number of a queue and the priority. Forgotten with the process: then turns begin anew.
pub(super) type Rings = HashMap<(i64, i64), Ring>;

impl Work<'_> {
    /// Takes from one part of the order by turns, if jobs there have fairness keys. What is left of the room is for those whom nobody
    /// knows of yet.
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
        self.look_for_lines(&mut ring, &due, range.until)?;
        // Also one without lines: it knows where the next page begins.
        if !ring.is_empty() {
            self.take_round(&mut ring, request, (&due, range), taking)?;
        }
        self.catalogue.rings.insert(at, ring);
        Ok(())
    }

    /// Goes round the ring until there is no room, or nobody has anything.
    fn take_round(
        &mut self,
        ring: &mut Ring,
        request: &ClaimRequest,
        (due, range): (&[&Head], &ClaimRange),
        taking: &mut Taking,
    ) -> StoreResult<()> {
        if !self.first_in_line(due, range.until, &None, 1)?.is_empty() {
            ring.found(None);
        }
        while taking.room_in(range) > 0 && !ring.is_empty() {
            let mut found = Vec::new();
            for (line, portion) in ring.deal(taking.room_in(range)) {
                let first = self.first_in_line(due, range.until, &line, portion)?;
                if first.len() < portion as usize {
                    ring.is_used_up(&line);
                }
                found.push(first);
            }
            self.take_found(interleave(found), request, range.boosted, taking)?;
        }
        Ok(())
    }

    /// The next page of lines that have something due.
    fn look_for_lines(&self, ring: &mut Ring, heads: &[&Head], until: Timestamp) -> StoreResult<()> {
        let mut next = self.conn.prepare_cached(sql!("next_fairness_key"))?;
        let behind = ring.look_behind().map_or(String::new(), ToString::to_string);
        let page = (SHARES_PER_LOOK_MAX as usize / heads.len().max(1)).max(LINES_PER_TYPE_MIN);
        let mut ends: Vec<String> = Vec::new();
        for head in heads {
            let mut last = behind.clone();
            for asked in 1..=page {
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
                if asked == page {
                    ends.push(last.clone());
                }
            }
        }
        ring.looked_up_to(ends.into_iter().min().and_then(|end| FairnessKey::parse(&end).ok()));
        Ok(())
    }

    /// The first jobs of a line, over all types by due time and number.
    fn first_in_line(
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
                let bounds = (head.kind, head.priority, UNMARKED_LOOKED_AT, until.as_micros(), portion);
                self.claimables(unmarked.query(bounds)?, &mut first)?;
            }
        }
        first.sort_by_key(Claimable::turn);
        first.truncate(portion as usize);
        Ok(first)
    }
}
