//! The baseline on Redis: two callers on one connection, scripts that are loaded beforehand, batches of
//! 1,000. A claim is one script, a settle another. Keys and values are those of the engine, so the difference
//! is what Windlass adds: rules, counts, keys, receipts, notifications, handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::redis::aio::MultiplexedConnection;
use ::redis::{RedisError, Script};
use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use super::{Part, pickup};
use crate::figures::{Figures, per_second};
use crate::workload::{self, Work};
use crate::{History, quiesce};

const CALLERS: usize = 2;
const BATCH: u64 = 1_000;

/// States and bodies are in hashes of 100,000 jobs each, as with the engine. The baseline claims each batch
/// in the order of its enqueue, so a batch is in one hash, or in two.
const HASHES: &str = "
local function in_runs(name, values, step, command)
  local first, range = 1, string.sub(values[1], 1, 9)
  local found = {}
  for i = 1 + step, #values + 1, step do
    local next_range = values[i] and string.sub(values[i], 1, 9)
    if next_range ~= range then
      local answer = redis.call(command, KEYS[1] .. name .. range, unpack(values, first, i - 1))
      if first == 1 and not next_range then return answer end
      for _, value in ipairs(type(answer) == 'table' and answer or {}) do found[#found + 1] = value end
      first, range = i, next_range
    end
  end
  return found
end
";

/// Each job has a state of 39 bytes, a body, and an entry in its lane.
const ENQUEUE: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = redis.call('INCRBY', KEYS[1] .. 'sequence', #ARGV)
local states, bodies, turns = {}, {}, {}
for i, body in ipairs(ARGV) do
  local id = string.format('%014.0f', last - #ARGV + i)
  states[2 * i - 1], states[2 * i] = id, string.rep('w', 39)
  bodies[2 * i - 1], bodies[2 * i] = id, body
  turns[2 * i - 1], turns[2 * i] = now, id
end
in_runs('state:', states, 2, 'HSET')
in_runs('body:', bodies, 2, 'HSET')
redis.call('ZADD', KEYS[1] .. 'ready:1:5', unpack(turns))
return #ARGV";

const CLAIM: &str = "
local lane = KEYS[1] .. 'ready:1:5'
local ids = redis.call('ZRANGE', lane, 0, ARGV[1] - 1)
if #ids == 0 then return {ids, ids} end
local states, claim = in_runs('state:', ids, 1, 'HMGET'), string.rep('c', 40)
local pairs = {}
for i, id in ipairs(ids) do
  pairs[2 * i - 1], pairs[2 * i] = id, states[i] .. claim
end
in_runs('state:', pairs, 2, 'HSET')
redis.call('SADD', KEYS[1] .. 'held', unpack(ids))
redis.call('ZREMRANGEBYRANK', lane, 0, #ids - 1)
return {ids, in_runs('body:', ids, 1, 'HMGET')}";

const KEEP: &str = "
local states, pairs, ended = in_runs('state:', ARGV, 1, 'HMGET'), {}, {}
for i, id in ipairs(ARGV) do
  pairs[2 * i - 1], pairs[2 * i] = id, states[i] .. 'at-8-by-'
  ended[2 * i - 1], ended[2 * i] = i, id
end
in_runs('state:', pairs, 2, 'HSET')
redis.call('ZADD', KEYS[1] .. 'ended', unpack(ended))
return redis.call('SREM', KEYS[1] .. 'held', unpack(ARGV))";

const FORGET: &str = "
in_runs('state:', ARGV, 1, 'HDEL')
in_runs('body:', ARGV, 1, 'HDEL')
return redis.call('SREM', KEYS[1] .. 'held', unpack(ARGV))";

pub(super) async fn measure(part: Part, url: &str, namespace: &str, jobs: u64) -> Result<Figures> {
    let caller = Caller::new(url, namespace, part).await?;
    if let Part::Pickup(count) = part {
        caller.clone().load().await?;
        return pickup::measure(caller, count).await;
    }
    let bulk = per_second(jobs, at_once(&caller, jobs, Caller::enqueue).await?);
    if part == Part::Enqueue {
        return Ok(Figures::default().with("limit_bulk_per_second", bulk));
    }
    let took = at_once(&caller, jobs, Caller::drain).await?;
    let done = caller.done.load(Ordering::Relaxed);
    ensure!(done == jobs, "expected {jobs} jobs done by the baseline, got {done}");
    Ok(Figures::default().with("limit_jobs_per_second", per_second(jobs, took)))
}

/// All callers do the same work together. Returns how long that took.
async fn at_once<F>(caller: &Caller, jobs: u64, work: impl Fn(Caller, u64) -> F) -> Result<Duration>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let started = Instant::now();
    let callers: JoinSet<_> = (0..CALLERS).map(|_| work(caller.clone(), jobs)).collect();
    workload::join(callers).await?;
    Ok(started.elapsed())
}

fn script(text: &str) -> Arc<Script> {
    Arc::new(Script::new(&format!("{HASHES}{text}")))
}

/// One caller. All use the same connection.
#[derive(Clone)]
struct Caller {
    connection: MultiplexedConnection,
    prefix: String,
    enqueue: Arc<Script>,
    claim: Arc<Script>,
    settle: Arc<Script>,
    /// The number of the next job to enqueue.
    next: Arc<AtomicU64>,
    done: Arc<AtomicU64>,
}

impl Caller {
    async fn new(url: &str, namespace: &str, part: Part) -> Result<Self> {
        let settle = if part == Part::Drain(History::Off) { FORGET } else { KEEP };
        Ok(Self {
            connection: quiesce::connect_redis(url).await?,
            prefix: format!("{{{namespace}}}:"),
            enqueue: script(ENQUEUE),
            claim: script(CLAIM),
            settle: script(settle),
            next: Arc::default(),
            done: Arc::default(),
        })
    }

    /// Sends all scripts to the server: one that it does not know is sent a second time, out of order.
    async fn load(mut self) -> Result<(), RedisError> {
        for script in [&self.enqueue, &self.claim, &self.settle] {
            let _: String = script.load_async(&mut self.connection).await?;
        }
        Ok(())
    }

    async fn enqueue(mut self, jobs: u64) -> Result<()> {
        loop {
            let first = self.next.fetch_add(BATCH, Ordering::Relaxed);
            if first >= jobs {
                return Ok(());
            }
            let mut call = self.enqueue.key(&self.prefix);
            for _ in 0..BATCH.min(jobs - first) {
                call.arg(serde_json::to_string(&Work::new())?);
            }
            let _: u64 = call.invoke_async(&mut self.connection).await?;
        }
    }

    async fn drain(mut self, _: u64) -> Result<()> {
        loop {
            let claimed = self.claim.key(&self.prefix).arg(BATCH).invoke_async(&mut self.connection).await;
            let (ids, payloads): (Vec<String>, Vec<Vec<u8>>) = claimed?;
            if ids.is_empty() {
                return Ok(());
            }
            // A handler needs the payload, so the baseline reads it too.
            std::hint::black_box(&payloads);
            let settled: u64 =
                self.settle.key(&self.prefix).arg(ids).invoke_async(&mut self.connection).await?;
            self.done.fetch_add(settled, Ordering::Relaxed);
        }
    }
}

impl pickup::OneByOne for Caller {
    type Claimed = Vec<String>;

    async fn enqueue_and_claim(&mut self) -> Result<Vec<String>> {
        let payload = serde_json::to_string(&Work::new())?;
        let (mut first, mut second) = (self.connection.clone(), self.connection.clone());
        let (mut enqueue, mut claim) = (self.enqueue.key(&self.prefix), self.claim.key(&self.prefix));
        let (enqueue, claim) = (enqueue.arg(payload), claim.arg(1));
        let (enqueued, claimed) = tokio::join!(
            enqueue.invoke_async::<u64>(&mut first),
            claim.invoke_async::<(Vec<String>, Vec<Vec<u8>>)>(&mut second)
        );
        enqueued?;
        let (ids, payloads) = claimed?;
        std::hint::black_box(&payloads);
        ensure!(ids.len() == 1, "expected the baseline to claim one job, got {}", ids.len());
        Ok(ids)
    }

    async fn settle(&mut self, claimed: Vec<String>) -> Result<()> {
        let _: u64 = self.settle.key(&self.prefix).arg(claimed).invoke_async(&mut self.connection).await?;
        Ok(())
    }
}
