//! The state of policies that processes share: breakers, tokens of rate limits, and the jobs behind a gate.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::breaker::BreakerState;
use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::limits::{BREAKERS_MAX, MAINTENANCE_BATCH_MAX, TAKES_MAX};
use windlass_core::names::BreakerName;
use windlass_core::policies::{BreakersRead, Saved, StoredBreaker, Take};
use windlass_core::rate_limit::{Taken, take};

use super::sql::sql;
use super::store_error::StoreResult;
use super::work::Work;
use crate::kit::check_batch_size;

pub(super) fn breakers(conn: &Connection, now: Timestamp) -> StoreResult<BreakersRead> {
    let mut statement = conn.prepare_cached(sql!("breakers"))?;
    let rows = statement.query_map([BREAKERS_MAX], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
    })?;
    let mut breakers = Vec::new();
    for row in rows {
        let (name, version, state) = row?;
        if let Ok(name) = BreakerName::parse(&name) {
            let (version, state) = (version.unsigned_abs(), BreakerState::from_store(&name, &state));
            breakers.push(StoredBreaker { name, version, state });
        }
    }
    Ok(BreakersRead { breakers, now })
}

pub(super) fn still_hold(conn: &Connection, claims: &[Fence]) -> StoreResult<Vec<bool>> {
    let mut statement = conn.prepare_cached(sql!("still_holds"))?;
    let mut holds = |fence: &Fence| Ok(statement.exists(params![fence.job.0, fence.token.to_bytes()])?);
    claims.iter().map(&mut holds).collect()
}

pub(super) fn gates(conn: &Connection, after: Option<&Gate>, limit: u32) -> StoreResult<Vec<Gate>> {
    let mut statement = conn.prepare_cached(sql!("gates"))?;
    let after = after.map_or("", Gate::as_str);
    let gates = statement.query_map(params![after, limit.min(MAINTENANCE_BATCH_MAX)], |row| {
        row.get::<_, String>(0).map(|gate| Gate::named(&gate))
    })?;
    Ok(gates.collect::<Result<_, _>>()?)
}

pub(super) fn behind(conn: &Connection, gate: &Gate, limit: u32) -> StoreResult<Vec<JobId>> {
    if gate.is_suspect() {
        return Ok(Vec::new());
    }
    let mut statement = conn.prepare_cached(sql!("behind_gate"))?;
    let jobs =
        statement.query_map(params![gate.as_str(), limit.min(MAINTENANCE_BATCH_MAX)], |row| row.get(0))?;
    Ok(jobs.map(|id| id.map(JobId)).collect::<Result<_, _>>()?)
}

impl Work<'_> {
    pub(super) fn save_breaker(
        &mut self,
        name: &BreakerName,
        read: u64,
        state: &BreakerState,
    ) -> StoreResult<Saved> {
        let written = match read {
            0 => {
                let there: u32 =
                    self.conn.prepare_cached(sql!("count_breakers"))?.query_row([], |row| row.get(0))?;
                check_batch_size(BREAKERS_MAX as usize - 1, "other breakers", there as usize)?;
                self.conn
                    .prepare_cached(sql!("make_breaker"))?
                    .execute(params![name.as_str(), state.to_text()])?
            }
            read => {
                let read = i64::try_from(read).unwrap_or(i64::MAX);
                let mut save = self.conn.prepare_cached(sql!("save_breaker"))?;
                save.execute(params![name.as_str(), state.to_text(), read])?
            }
        };
        Ok(if written > 0 { Saved::Done } else { Saved::Changed })
    }

    pub(super) fn take_tokens(&mut self, takes: &[Take]) -> StoreResult<Vec<Taken>> {
        check_batch_size(TAKES_MAX, "requests for tokens", takes.len())?;
        takes.iter().map(|request| self.take_one(request)).collect()
    }

    fn take_one(&mut self, request: &Take) -> StoreResult<Taken> {
        let (limit, key) = (request.limit.as_str(), request.key.as_str());
        let mut find = self.conn.prepare_cached(sql!("find_tokens"))?;
        let remembered: Option<i64> = find.query_row(params![limit, key], |row| row.get(0)).optional()?;
        let remembered = remembered.map(Timestamp::from_micros);
        let taken = take(request.pace, remembered, request.wanted, self.now);
        if taken.is_news(remembered) {
            let mut save = self.conn.prepare_cached(sql!("save_tokens"))?;
            save.execute(params![limit, key, taken.due.as_micros()])?;
        }
        Ok(taken)
    }
}
