//! The state of policies that processes share: breakers, tokens of rate limits, and the jobs behind a gate.

use std::time::Duration;

use windlass_core::breaker::BreakerState;
use windlass_core::claim::Fence;
use windlass_core::clock::Timestamp;
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::job::JobId;
use windlass_core::limits::{BREAKERS_MAX, DELAY_MAX, MAINTENANCE_BATCH_MAX, SETTLE_BATCH_MAX, TAKES_MAX};
use windlass_core::names::BreakerName;
use windlass_core::policies::{BreakersRead, Saved, StoredBreaker, Take};
use windlass_core::rate_limit::Taken;

use super::Store;
use super::call::Args;
use super::enqueue::micros;
use super::reply::{ReplyReader, text};
use super::row::read_id;
use super::store_error::StoreResult;
use crate::kit::check_batch_size;

impl Store {
    pub(super) async fn breakers(&self) -> StoreResult<BreakersRead> {
        let mut args = Args::new();
        args.number(BREAKERS_MAX.into());
        let reply = self.call(&self.scripts().breakers, args).await?;
        let (mut rows, now) = (ReplyReader::of(reply.value)?, reply.now);
        let mut breakers = Vec::new();
        while !rows.is_empty() {
            breakers.extend(read_breaker(&mut rows)?);
        }
        breakers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(BreakersRead { breakers, now })
    }

    pub(super) async fn save_breaker(
        &self,
        name: BreakerName,
        read: u64,
        state: BreakerState,
    ) -> StoreResult<Saved> {
        let mut args = Args::new();
        args.text(name.as_str()).text(&read.to_string()).text(&state.to_text());
        args.number(BREAKERS_MAX.into());
        match text(self.call(&self.scripts().save_breaker, args).await?.value)?.as_str() {
            "done" => Ok(Saved::Done),
            "full" => Err(no_room().into()),
            _ => Ok(Saved::Changed),
        }
    }

    pub(super) async fn still_hold(&self, claims: Vec<Fence>) -> StoreResult<Vec<bool>> {
        let mut hold = Vec::with_capacity(claims.len());
        for part in claims.chunks(SETTLE_BATCH_MAX) {
            let mut args = Args::new();
            args.count(part.len());
            for fence in part {
                args.job(fence.job).bytes(&fence.token.to_bytes());
            }
            let mut answers = ReplyReader::of(self.call(&self.scripts().still_hold, args).await?.value)?;
            for _ in part {
                hold.push(answers.flag()?);
            }
        }
        Ok(hold)
    }

    pub(super) async fn take_tokens(&self, takes: Vec<Take>) -> StoreResult<Vec<Taken>> {
        check_batch_size(TAKES_MAX, "requests for tokens", takes.len())?;
        let mut args = Args::new();
        args.count(takes.len());
        takes.iter().for_each(|request| take_args(request, &mut args));
        let mut answers = ReplyReader::of(self.call(&self.scripts().take_tokens, args).await?.value)?;
        takes.iter().map(|_| read_taken(&mut answers)).collect()
    }

    pub(super) async fn gates(&self, after: Option<Gate>, limit: u32) -> StoreResult<Vec<Gate>> {
        let mut args = Args::new();
        args.text(after.as_ref().map_or("", Gate::as_str)).number(limit.min(MAINTENANCE_BATCH_MAX).into());
        let mut names = ReplyReader::of(self.call(&self.scripts().gates, args).await?.value)?;
        let mut gates = Vec::new();
        while !names.is_empty() {
            gates.push(Gate::named(&names.text()?));
        }
        Ok(gates)
    }

    pub(super) async fn behind(&self, gate: Gate, limit: u32) -> StoreResult<Vec<JobId>> {
        let mut args = Args::new();
        args.text(gate.as_str()).number(limit.min(MAINTENANCE_BATCH_MAX).into());
        let mut ids = ReplyReader::of(self.call(&self.scripts().behind, args).await?.value)?;
        let mut jobs = Vec::new();
        while !ids.is_empty() {
            jobs.push(read_id(&ids.bytes()?));
        }
        Ok(jobs)
    }
}

/// Reads a breaker; `None` if its name is damaged.
fn read_breaker(rows: &mut ReplyReader) -> StoreResult<Option<StoredBreaker>> {
    let (name, version, state) = (rows.text()?, rows.count()?, rows.text()?);
    let Ok(name) = BreakerName::parse(&name) else { return Ok(None) };
    let state = BreakerState::from_store(&name, &state);
    Ok(Some(StoredBreaker { name, version, state }))
}

fn no_room() -> EngineError {
    let refused = check_batch_size(BREAKERS_MAX as usize - 1, "other breakers", BREAKERS_MAX as usize);
    refused.expect_err("the number of breakers is above this maximum")
}

/// Adds the arguments of one request for tokens. A name of a limit has no colon, so limit and key stay apart.
/// No valid limit has a pace beyond ten years: scripts would not count exactly there.
fn take_args(request: &Take, args: &mut Args) {
    let most = micros(DELAY_MAX);
    args.shown(format_args!("{}:{}", request.limit, request.key));
    args.number(request.pace.every.clamp(1, most)).number(request.pace.tolerance.clamp(0, most));
    args.number(request.wanted.into());
}

fn read_taken(answers: &mut ReplyReader) -> StoreResult<Taken> {
    let granted = u32::try_from(answers.count()?).unwrap_or(u32::MAX);
    let due = Timestamp::from_micros(answers.number()?);
    let wait = answers.number_or_none()?;
    let retry_after = wait.map(|wait| Duration::from_micros(u64::try_from(wait).unwrap_or_default()));
    Ok(Taken { granted, due, retry_after })
}
