//! Policies that processes share: breakers, tokens of rate limits, and the jobs behind a gate.

use std::time::Duration;

use tokio_postgres::Row;
use windlass_core::breaker::BreakerState;
use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::engine::Result as EngineResult;
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::limits::{BREAKERS_MAX, MAINTENANCE_BATCH_MAX, TAKES_MAX};
use windlass_core::names::BreakerName;
use windlass_core::policies::{BreakersRead, Saved, StoredBreaker, Take};
use windlass_core::rate_limit::{Taken, take};

use super::Store;
use super::conn::Conn;
use super::store_error::StoreResult;
use super::value::{Bits, Instant, instant, int4, number, numbers, small_number, text, uuids};
use crate::kit::check_batch_size;

impl Store {
    pub(super) async fn breakers(&self) -> StoreResult<BreakersRead> {
        let now = self.now_param();
        let most = int4(BREAKERS_MAX);
        let params = [instant(&now), small_number(&most)];
        let rows = self.work.get().await?.query(&self.sql.breakers, &params).await?;
        let now = rows.first().map(|row| row.try_get::<_, Instant>(0)).transpose()?;
        let now = now.map_or_else(|| self.estimated_now(), |now| now.0);
        let breakers =
            rows.iter().filter_map(|row| read_breaker(row).transpose()).collect::<StoreResult<_>>()?;
        Ok(BreakersRead { breakers, now })
    }

    pub(super) async fn save_breaker(
        &self,
        name: BreakerName,
        read: u64,
        state: BreakerState,
    ) -> StoreResult<Saved> {
        let read = int8(read);
        let state = state.to_text();
        let name = name.as_str();
        let most = i64::from(BREAKERS_MAX);
        let params = [text(&name), number(&read), text(&state), number(&most)];
        let rows = self.work.get().await?.execute(&self.sql.save_breaker, &params).await?;
        let Some(row) = rows.first() else { return Ok(Saved::Changed) };
        match (row.try_get(0)?, row.try_get(1)?) {
            (true, _) => Ok(Saved::Done),
            (false, true) => Err(no_room().into()),
            (false, false) => Ok(Saved::Changed),
        }
    }

    pub(super) async fn still_hold(&self, claims: Vec<Fence>) -> StoreResult<Vec<bool>> {
        let ids: Vec<_> = claims.iter().map(|fence| fence.job.0).collect();
        let tokens: Vec<_> = claims.iter().map(|fence| Bits::from(fence.token)).collect();
        let params = [numbers(&ids), uuids(&tokens)];
        let rows = self.work.get().await?.query(&self.sql.still_hold, &params).await?;
        Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    }

    /// Takes tokens by one statement for each key: a statement may write a row only once, and a call asks
    /// for few keys.
    pub(super) async fn take_tokens(&self, takes: Vec<Take>) -> StoreResult<Vec<Taken>> {
        check_batch_size(TAKES_MAX, "requests for tokens", takes.len())?;
        let conn = self.work.get().await?;
        let mut taken = Vec::with_capacity(takes.len());
        for request in &takes {
            taken.push(match request.wanted {
                0 => self.peek_tokens(&conn, request).await?,
                _ => self.take_one(&conn, request).await?,
            });
        }
        Ok(taken)
    }

    async fn take_one(&self, conn: &Conn, request: &Take) -> StoreResult<Taken> {
        let (now, limit, wanted) = (self.now_param(), request.limit.as_str(), i64::from(request.wanted));
        let pace = request.pace;
        let params = [
            instant(&now),
            text(&limit),
            text(&request.key),
            number(&pace.every),
            number(&pace.tolerance),
            number(&wanted),
        ];
        let rows = conn.execute(&self.sql.take_tokens, &params).await?;
        let Some(row) = rows.first() else { return Err(damaged().into()) };
        let granted = u32::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0);
        let (due, now): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
        let ahead = due.saturating_sub(now.saturating_add(pace.tolerance));
        let retry_after = (granted == 0).then(|| Duration::from_micros(u64::try_from(ahead).unwrap_or(0)));
        Ok(Taken { granted, due: Timestamp::from_micros(due), retry_after })
    }

    async fn peek_tokens(&self, conn: &Conn, request: &Take) -> StoreResult<Taken> {
        let (now, limit) = (self.now_param(), request.limit.as_str());
        let params = [instant(&now), text(&limit), text(&request.key)];
        let rows = conn.query(&self.sql.peek_tokens, &params).await?;
        let Some(row) = rows.first() else { return Err(damaged().into()) };
        let due = row.try_get::<_, Option<i64>>(1)?.map(Timestamp::from_micros);
        let taken = take(request.pace, due, 0, Timestamp::from_micros(row.try_get(0)?));
        if taken.is_news(due) {
            return self.take_one(conn, request).await;
        }
        Ok(taken)
    }

    pub(super) async fn gates(&self, after: Option<Gate>, limit: u32) -> StoreResult<Vec<Gate>> {
        let after = after.as_ref().map_or("", Gate::as_str);
        let limit = int4(limit.min(MAINTENANCE_BATCH_MAX));
        let rows =
            self.work.get().await?.query(&self.sql.gates, &[text(&after), small_number(&limit)]).await?;
        rows.iter().map(|row| Ok(Gate::named(row.try_get(0)?))).collect()
    }

    pub(super) async fn behind(&self, gate: Gate, limit: u32) -> StoreResult<Vec<JobId>> {
        let ids = self.ids_behind(&gate, limit.min(MAINTENANCE_BATCH_MAX)).await?;
        Ok(ids.into_iter().map(JobId).collect())
    }
}

/// Reads a breaker, if the row holds one.
fn read_breaker(row: &Row) -> StoreResult<Option<StoredBreaker>> {
    let Some(name) = row.try_get::<_, Option<&str>>(1)? else { return Ok(None) };
    let version = u64::try_from(row.try_get::<_, i64>(2)?).unwrap_or(0);
    let Ok(name) = BreakerName::parse(name) else { return Ok(None) };
    let state = BreakerState::from_store(&name, row.try_get(3)?);
    Ok(Some(StoredBreaker { name, version, state }))
}

fn int8(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn no_room() -> EngineError {
    let refused: EngineResult<()> =
        check_batch_size(BREAKERS_MAX as usize - 1, "other breakers", BREAKERS_MAX as usize);
    refused.expect_err("there are more than the maximum")
}

fn damaged() -> EngineError {
    EngineError::Unavailable { why: "expected one row from the server, got none; try again".to_owned() }
}
