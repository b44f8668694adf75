//! Registration, heartbeats and release of workers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::claim::{ClaimToken, Fence};
use windlass_core::clock::Timestamp;
use windlass_core::error::EngineError;
use windlass_core::gate::Gate;
use windlass_core::lease::membership::{MemberCount, Others, RingPoint};
use windlass_core::limits::{MAINTENANCE_BATCH_MAX, WORKER_LEASE};
use windlass_core::names::{DutyName, QueueName, TypeName};
use windlass_core::worker::{
    Heartbeat, HeartbeatAnswer, Liveness, ProofOfLife, WorkerCard, WorkerId, WorkerSighting,
};

use super::Store;
use super::apply::Order;
use super::call::Args;
use super::enqueue::micros;
use super::reply::{ReplyReader, bytes};
use super::row::read_id;
use super::store_error::StoreResult;
use crate::kit::to_json;

/// Sent in place of a worker's clock if the caller did not read it.
const NO_CLOCK: i64 = -1;

/// A worker's card as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct StoredCard {
    id: [u8; 16],
    host: String,
    pid: u32,
    version: String,
    queues: Vec<QueueName>,
    types: Vec<TypeName>,
    /// Cards that were written before duties existed have none.
    #[serde(default)]
    duties: Vec<DutyName>,
    #[serde(default)]
    slots: u32,
    lease_micros: i64,
}

impl Store {
    pub(super) async fn register(&self, card: WorkerCard) -> StoreResult<()> {
        let gates: Vec<_> = card.types.iter().map(Gate::no_handler).collect();
        let (queues, types): (Vec<_>, Vec<_>) = (
            card.queues.iter().map(QueueName::as_str).collect(),
            card.types.iter().map(TypeName::as_str).collect(),
        );
        let mut args = Args::new();
        args.bytes(&card.id.to_bytes()).number(micros(card.lease)).text(&to_json(&stored(&card)));
        args.text(&queues.join("\n")).text(&types.join("\n"));
        let duties: Vec<_> = card.duties.iter().map(DutyName::as_str).collect();
        args.text(&duties.join("\n")).number(RingPoint::of(card.id).as_i64()).count(gates.len());
        gates.iter().for_each(|gate| _ = args.text(gate.as_str()));
        let mut answer = ReplyReader::of(self.call(&self.scripts().register, args).await?.value)?;
        if answer.flag()? {
            return if answer.flag()? { self.open_gates(gates).await } else { Ok(()) };
        }
        let why = "expected a new worker id, got one that is known already; make a random one for each start";
        Err(EngineError::Refused(why.to_owned()).into())
    }

    /// Releases all jobs behind gates that one script could not release. Should this process end meanwhile, a
    /// sweep releases the rest.
    async fn open_gates(&self, gates: Vec<Gate>) -> StoreResult<()> {
        for gate in gates {
            while self.open_gate(gate.clone(), MAINTENANCE_BATCH_MAX).await?.more {}
        }
        Ok(())
    }

    pub(super) async fn extend(
        &self,
        heartbeat: Heartbeat,
        clock: Option<Timestamp>,
    ) -> StoreResult<HeartbeatAnswer> {
        let mut args = Args::new();
        args.bytes(&heartbeat.worker.to_bytes()).number(micros(heartbeat.lease));
        args.number(clock.map_or(NO_CLOCK, Timestamp::as_micros));
        let reply = self.call_for_heartbeat(&self.scripts().extend, args).await?;
        let mut answer = ReplyReader::of(reply.value)?;
        if !answer.flag()? {
            return Ok(HeartbeatAnswer {
                beat: Liveness::Dead,
                members: MemberCount::default(),
                now: reply.now,
            });
        }
        let cancel = read_fences(answer.list()?)?;
        reply.from.seen.beat(answer.count()?);
        let duties = duty_names(&answer.text()?);
        let members = MemberCount::among(&duties, &read_others(answer.list()?)?);
        Ok(HeartbeatAnswer { beat: Liveness::Alive { cancel }, members, now: reply.now })
    }

    pub(super) async fn asked_to_stop(&self, worker: WorkerId) -> StoreResult<Vec<Fence>> {
        let (mut fences, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let mut args = Args::new();
            args.bytes(&worker.to_bytes()).text(&cursor);
            let reply = self.call_for_heartbeat(&self.scripts().asked_to_stop, args).await?;
            let mut page = ReplyReader::of(reply.value)?;
            cursor = page.text()?;
            fences.extend(read_fences(page.list()?)?);
            if cursor == "0" {
                // A page may contain fences of another page.
                fences.sort_by_key(|fence| fence.job);
                fences.dedup();
                return Ok(fences);
            }
        }
    }

    pub(super) async fn retire(&self, worker: WorkerId) -> StoreResult<()> {
        let mut args = Args::new();
        args.bytes(&worker.to_bytes()).text(&Order::release());
        // Should this process end meanwhile, its worker falls silent, and a rescue requeues the rest in the
        // same way.
        while !bytes(self.call(&self.scripts().retire, args.clone()).await?.value)?.is_empty() {}
        Ok(())
    }

    pub(super) async fn workers(&self) -> StoreResult<Vec<WorkerSighting>> {
        let workers = self.all_workers().await?;
        Ok(workers.members.into_values().map(|member| member.sighting).collect())
    }

    /// Reads all workers, page by page.
    pub(super) async fn all_workers(&self) -> StoreResult<AllWorkers> {
        let (mut workers, mut cursor) = (AllWorkers::default(), "0".to_owned());
        loop {
            let mut args = Args::new();
            args.text(&cursor);
            let reply = self.call(&self.scripts().workers, args).await?;
            let mut page = ReplyReader::of(reply.value)?;
            cursor = page.text()?;
            let arrivals = page.count()?;
            workers.arrivals = workers.arrivals.or(Some(arrivals));
            let mut rows = page.list()?;
            while !rows.is_empty() {
                let member = member(rows.list()?, reply.now)?;
                workers.members.insert(member.sighting.card.id, member);
            }
            if cursor == "0" {
                return Ok(workers);
            }
        }
    }
}

/// All workers that were neither declared dead nor released.
#[derive(Debug, Default)]
pub(super) struct AllWorkers {
    pub(super) members: BTreeMap<WorkerId, Member>,
    /// The number of registrations when the first page was read.
    pub(super) arrivals: Option<u64>,
}

/// One worker, and the names of its queues and types, which can be read also if its card is damaged.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) sighting: WorkerSighting,
    pub(super) queues: String,
    pub(super) types: String,
}

fn stored(card: &WorkerCard) -> StoredCard {
    StoredCard {
        id: card.id.to_bytes(),
        host: card.host.clone(),
        pid: card.pid,
        version: card.version.clone(),
        queues: card.queues.clone(),
        types: card.types.clone(),
        duties: card.duties.clone(),
        slots: card.slots,
        lease_micros: micros(card.lease),
    }
}

/// Reads a worker from its row. Damaged values count as unknown: were the worker skipped, no process would
/// take back the jobs that it holds.
fn member(mut row: ReplyReader, now: Timestamp) -> StoreResult<Member> {
    let card = serde_json::from_str::<StoredCard>(&row.text()?).ok();
    let mut number = || row.number().unwrap_or_default();
    let (since, beats, last_heartbeat, expires) = (number(), number(), number(), number());
    let running = row.count()?;
    let id = WorkerId::from_bytes(<[u8; 16]>::try_from(row.bytes()?).unwrap_or_default());
    let (queues, types) = (row.text()?, row.text()?);
    let clock_ahead_micros = row.text()?.parse().ok();
    let sighting = WorkerSighting {
        card: card.map_or_else(|| unknown_card(id), |card| read_card(id, card)),
        since: Timestamp::from_micros(since),
        beats: u64::try_from(beats).unwrap_or_default(),
        expired: Timestamp::from_micros(expires) <= now,
        silent_for: now.since(Timestamp::from_micros(last_heartbeat)),
        // The server knows connections, not processes.
        proof: ProofOfLife::None,
        running,
        clock_ahead_micros,
    };
    Ok(Member { sighting, queues, types })
}

fn read_card(id: WorkerId, card: StoredCard) -> WorkerCard {
    WorkerCard {
        id,
        host: card.host,
        pid: card.pid,
        version: card.version,
        queues: card.queues,
        types: card.types,
        duties: card.duties,
        slots: card.slots,
        lease: Duration::from_micros(u64::try_from(card.lease_micros).unwrap_or_default()),
    }
}

/// The card of a worker of which only the id is known.
fn unknown_card(id: WorkerId) -> WorkerCard {
    let (host, version) = ("unknown".to_owned(), "unknown".to_owned());
    WorkerCard {
        id,
        host,
        pid: 0,
        version,
        queues: Vec::new(),
        types: Vec::new(),
        duties: Vec::new(),
        slots: 0,
        lease: WORKER_LEASE,
    }
}

/// Reads sets of duties: for each, how many workers could do them, and how many of these have a lower ring
/// position than the calling worker.
fn read_others(mut items: ReplyReader) -> StoreResult<Vec<Others>> {
    let mut others = Vec::new();
    while !items.is_empty() {
        let duties = duty_names(&items.text()?);
        let mut count = || items.count().map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        others.push(Others { duties, able: count()?, before: count()? });
    }
    Ok(others)
}

/// Parses one name per line.
fn duty_names(lines: &str) -> Vec<DutyName> {
    lines.lines().filter_map(|name| DutyName::parse(name).ok()).collect()
}

/// Reads ids and tokens in turn.
fn read_fences(mut items: ReplyReader) -> StoreResult<Vec<Fence>> {
    let mut fences = Vec::new();
    while !items.is_empty() {
        let job = read_id(&items.bytes()?);
        let token = <[u8; 16]>::try_from(items.bytes()?).unwrap_or_default();
        fences.push(Fence { job, token: ClaimToken::from_bytes(token) });
    }
    Ok(fences)
}
