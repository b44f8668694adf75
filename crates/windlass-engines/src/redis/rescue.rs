//! Rescue: workers that fell silent are declared dead, for ever, and their jobs are taken back. One script declares and
//! lists, core decides, another writes: by the fence of the dead, so that two rescuers do not take a job twice.

use std::collections::HashMap;

use windlass_core::claim::ClaimToken;
use windlass_core::engine::{RescueRequest, Rescued};
use windlass_core::job::JobId;
use windlass_core::limits::UPKEEP_BATCH_MAX;
use windlass_core::settle::after_crash;

use super::Store;
use super::call::Args;
use super::fault::Step;
use super::land::Order;
use super::reply::Items;
use super::row::{ID_DIGITS, State, read_id};

/// A job that a dead worker holds.
struct Orphan {
    id: JobId,
    state: State,
    worker: Vec<u8>,
}

/// What each dead worker held when it was declared dead.
type HeldAtDeath = HashMap<Vec<u8>, Vec<JobId>>;

impl Store {
    pub(super) async fn rescue(&self, request: RescueRequest) -> Step<Rescued> {
        let limit = request.limit.min(UPKEEP_BATCH_MAX) as usize;
        let (mut orphans, held) = self.orphans(&request, limit).await?;
        let more = orphans.len() > limit;
        orphans.truncate(limit);
        let mut rescued = self.take_back(&orphans, &held, request.crashes_max).await?;
        rescued.more = more;
        Ok(rescued)
    }

    /// Declares workers dead and lists what the dead hold, one more than asked for, so as to know whether there is more.
    async fn orphans(&self, request: &RescueRequest, limit: usize) -> Step<(Vec<Orphan>, HeldAtDeath)> {
        let mut args = Args::new();
        args.count(limit + 1).count(request.silent.len());
        for suspicion in &request.silent {
            args.bytes(&suspicion.worker.to_bytes()).text(&suspicion.beats.to_string());
        }
        let mut answer = Items::of(self.call(&self.scripts().rescue, args).await?.value)?;
        Ok((read_orphans(answer.list()?)?, read_held(answer.list()?)?))
    }

    async fn take_back(&self, orphans: &[Orphan], held: &HeldAtDeath, crashes_max: u32) -> Step<Rescued> {
        let mut rescued = Rescued::default();
        if orphans.is_empty() {
            return Ok(rescued);
        }
        let mut args = Args::new();
        args.flag(false).text(&Order::plain_success()).count(orphans.len());
        for orphan in orphans {
            let token = orphan.state.claim.map_or([0; 16], |claim| ClaimToken::to_bytes(claim.token));
            args.job(orphan.id).bytes(&token).text("");
            args.text(&order(orphan, held, crashes_max));
        }
        let mut answers = Items::of(self.call(&self.scripts().settle, args).await?.value)?;
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

/// What core decides for an orphan; `beside` are the others that its worker held.
fn order(orphan: &Orphan, held: &HeldAtDeath, crashes_max: u32) -> String {
    let of_worker = held.get(&orphan.worker).map_or(&[][..], Vec::as_slice);
    let beside: Vec<_> = of_worker.iter().copied().filter(|other| *other != orphan.id).collect();
    let (counters, due) = (orphan.state.counters, orphan.state.due);
    Order::after_crash(after_crash(counters, due, crashes_max, &beside), counters)
}

fn read_orphans(mut items: Items) -> Step<Vec<Orphan>> {
    let mut orphans = Vec::new();
    while !items.is_empty() {
        let id = read_id(&items.bytes()?);
        orphans.push(Orphan { id, state: State::read(&items.bytes()?), worker: items.bytes()? });
    }
    Ok(orphans)
}

fn read_held(mut items: Items) -> Step<HeldAtDeath> {
    let mut held = HeldAtDeath::new();
    while !items.is_empty() {
        let (worker, ids) = (items.bytes()?, items.bytes()?);
        held.insert(worker, ids.chunks(ID_DIGITS).map(read_id).collect());
    }
    Ok(held)
}
