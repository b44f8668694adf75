//! Rescue: declares silent workers dead, for ever, and takes back their jobs. One script declares and lists,
//! core decides, another script writes: under the fence of the dead worker, so that two rescues do not take a
//! job twice.

use std::collections::HashMap;

use windlass_core::claim::ClaimToken;
use windlass_core::engine::{RescueRequest, Rescued};
use windlass_core::job::JobId;
use windlass_core::lease_watch::Suspicion;
use windlass_core::limits::MAINTENANCE_BATCH_MAX;
use windlass_core::settle::after_crash;

use super::Store;
use super::apply::Order;
use super::call::Args;
use super::reply::ReplyReader;
use super::row::{ID_DIGITS, State, read_id};
use super::store_error::StoreResult;

/// A job that a dead worker holds.
struct Orphan {
    id: JobId,
    state: State,
    worker: Vec<u8>,
}

/// A dead worker.
struct Dead {
    /// The jobs that it held when it was declared dead.
    held: Vec<JobId>,
    /// Whether it was giving its jobs back.
    was_staged: bool,
}

/// Dead workers by their ids.
type Graves = HashMap<Vec<u8>, Dead>;

/// How many workers one script declares dead: each may hold many jobs.
const DEATHS_PER_CALL: usize = 20;

impl Store {
    pub(super) async fn rescue(&self, request: RescueRequest) -> StoreResult<Rescued> {
        let limit = request.limit.min(MAINTENANCE_BATCH_MAX) as usize;
        let parts = request.silent.len().div_ceil(DEATHS_PER_CALL).max(1);
        let (before, last) = request.silent.split_at((parts - 1) * DEATHS_PER_CALL);
        for silent in before.chunks(DEATHS_PER_CALL) {
            self.orphans(silent, 0).await?;
        }
        let (orphans, graves, more) = self.orphans(last, limit).await?;
        let mut rescued = self.take_back(&orphans, &graves, request.crashes_max).await?;
        rescued.more = more;
        Ok(rescued)
    }

    /// Declares workers dead. Returns the jobs that dead workers hold, and whether they hold more.
    async fn orphans(&self, silent: &[Suspicion], limit: usize) -> StoreResult<(Vec<Orphan>, Graves, bool)> {
        let mut args = Args::new();
        args.count(limit).count(silent.len());
        for suspicion in silent {
            args.bytes(&suspicion.worker.to_bytes()).text(&suspicion.beats.to_string());
        }
        let mut answer = ReplyReader::of(self.call(&self.scripts().rescue, args).await?.value)?;
        Ok((read_orphans(answer.list()?)?, read_graves(answer.list()?)?, answer.flag()?))
    }

    async fn take_back(&self, orphans: &[Orphan], graves: &Graves, crashes_max: u32) -> StoreResult<Rescued> {
        let mut rescued = Rescued::default();
        if orphans.is_empty() {
            return Ok(rescued);
        }
        let mut args = Args::new();
        args.flag(false).text(&Order::plain_success()).count(orphans.len());
        for orphan in orphans {
            let token = orphan.state.claim.map_or([0; 16], |claim| ClaimToken::to_bytes(claim.token));
            args.job(orphan.id).bytes(&token).text("").text("");
            args.text(&order(orphan, graves, crashes_max));
        }
        let mut answers = ReplyReader::of(self.call(&self.scripts().settle, args).await?.value)?;
        for orphan in orphans {
            match answers.text()?.as_str() {
                "" | "a" => {}
                "d" => rescued.buried.push(orphan.id),
                _ => rescued.returned.push(orphan.id),
            }
        }
        Ok(rescued)
    }
}

/// Core's decision for an orphan; `beside` are the other jobs that its worker held.
fn order(orphan: &Orphan, graves: &Graves, crashes_max: u32) -> String {
    let grave = graves.get(&orphan.worker);
    if grave.is_some_and(|grave| grave.was_staged) {
        return Order::release();
    }
    let of_worker = grave.map_or(&[][..], |grave| grave.held.as_slice());
    let beside: Vec<_> = of_worker.iter().copied().filter(|other| *other != orphan.id).collect();
    let (counters, due) = (orphan.state.counters, orphan.state.due);
    Order::after_crash(after_crash(counters, due, crashes_max, &beside), counters)
}

fn read_orphans(mut items: ReplyReader) -> StoreResult<Vec<Orphan>> {
    let mut orphans = Vec::new();
    while !items.is_empty() {
        let id = read_id(&items.bytes()?);
        orphans.push(Orphan { id, state: State::read(&items.bytes()?), worker: items.bytes()? });
    }
    Ok(orphans)
}

fn read_graves(mut items: ReplyReader) -> StoreResult<Graves> {
    let mut graves = Graves::new();
    while !items.is_empty() {
        let (worker, ids) = (items.bytes()?, items.bytes()?);
        let held = ids.chunks(ID_DIGITS).map(read_id).collect();
        graves.insert(worker, Dead { held, was_staged: items.flag()? });
    }
    Ok(graves)
}
