//! By hand on Redis: two callers on one connection, scripts that are loaded beforehand, batches of 1,000; a claim is one
//! script, a settle another. Keys and rows are those of the engine, so what differs is what Windlass adds: rules, counts,
//! keys, receipts, wake-ups, handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, Script};
use tokio::task::JoinSet;

use super::super::figures::{Figures, per_second};
use super::super::load::Work;
use super::super::progress::Progress;
use super::super::{History, failed};
use super::{Part, pickup};
use crate::config::RedisUrl;
use crate::exit::Failure;

const CALLERS: usize = 2;
const BATCH: u64 = 1_000;
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// States and bodies lie in hashes of 100,000 jobs each, as the engine's do. By hand a batch is never claimed in another order
/// than it was put in, so it lies in one hash, or in two.
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

/// Each job has a state of 39 bytes, a body, and a place in its lane.
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

pub(super) async fn measure(
    part: Part,
    url: &RedisUrl,
    namespace: &str,
    jobs: u64,
    progress: &Progress,
) -> Result<Figures, Failure> {
    let hand = Hand::new(url, namespace, part).await?;
    if let Part::Pickup(count) = part {
        hand.clone().load().await.map_err(failed)?;
        return pickup::measure(hand, count, progress).await;
    }
    let bulk = per_second(jobs, at_once(&hand, jobs, Hand::enqueue).await?);
    if part == Part::Enqueue {
        return Ok(Figures::default().with("limit_bulk_per_second", bulk));
    }
    let took = at_once(&hand, jobs, Hand::drain).await?;
    let done = hand.done.load(Ordering::Relaxed);
    progress.at(done);
    if done != jobs {
        return Err(failed(format!("expected {jobs} jobs done by hand, got {done}")));
    }
    Ok(Figures::default().with("limit_jobs_per_second", per_second(jobs, took)))
}

/// All callers do the same until it is done. Gives how long that took.
async fn at_once<F>(hand: &Hand, jobs: u64, work: impl Fn(Hand, u64) -> F) -> Result<Duration, Failure>
where
    F: Future<Output = Result<(), RedisError>> + Send + 'static,
{
    let started = Instant::now();
    let mut callers = JoinSet::new();
    (0..CALLERS).for_each(|_| drop(callers.spawn(work(hand.clone(), jobs))));
    while let Some(caller) = callers.join_next().await {
        caller.map_err(failed)?.map_err(failed)?;
    }
    Ok(started.elapsed())
}

fn script(text: &str) -> Arc<Script> {
    Arc::new(Script::new(&format!("{HASHES}{text}")))
}

/// One caller.
#[derive(Clone)]
struct Hand {
    connection: MultiplexedConnection,
    prefix: String,
    enqueue: Arc<Script>,
    claim: Arc<Script>,
    settle: Arc<Script>,
    given: Arc<AtomicU64>,
    done: Arc<AtomicU64>,
}

impl Hand {
    async fn new(url: &RedisUrl, namespace: &str, part: Part) -> Result<Self, Failure> {
        let client = Client::open(url.secret()).map_err(failed)?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_WITHIN));
        let connection =
            client.get_multiplexed_async_connection_with_config(&config).await.map_err(failed)?;
        let settle = if part == Part::Drain(History::Off) { FORGET } else { KEEP };
        Ok(Self {
            connection,
            prefix: format!("{{{namespace}}}:"),
            enqueue: script(ENQUEUE),
            claim: script(CLAIM),
            settle: script(settle),
            given: Arc::default(),
            done: Arc::default(),
        })
    }

    /// The server knows all scripts from now on: one that it has to ask for comes out of turn.
    async fn load(mut self) -> Result<(), RedisError> {
        for script in [&self.enqueue, &self.claim, &self.settle] {
            let _: String = script.load_async(&mut self.connection).await?;
        }
        Ok(())
    }

    async fn enqueue(mut self, jobs: u64) -> Result<(), RedisError> {
        loop {
            let first = self.given.fetch_add(BATCH, Ordering::Relaxed);
            if first >= jobs {
                return Ok(());
            }
            let mut call = self.enqueue.key(&self.prefix);
            for _ in 0..BATCH.min(jobs - first) {
                call.arg(serde_json::to_string(&Work::new()).expect("a payload of ours is JSON"));
            }
            let _: u64 = call.invoke_async(&mut self.connection).await?;
        }
    }

    async fn drain(mut self, _: u64) -> Result<(), RedisError> {
        loop {
            let claimed = self.claim.key(&self.prefix).arg(BATCH).invoke_async(&mut self.connection).await;
            let (ids, payloads): (Vec<String>, Vec<Vec<u8>>) = claimed?;
            if ids.is_empty() {
                return Ok(());
            }
            // A handler needs the payload, so the work by hand reads it too.
            std::hint::black_box(&payloads);
            let mut call = self.settle.key(&self.prefix);
            for id in &ids {
                call.arg(id);
            }
            let settled: u64 = call.invoke_async(&mut self.connection).await?;
            self.done.fetch_add(settled, Ordering::Relaxed);
        }
    }
}

impl pickup::OneByOne for Hand {
    type Claimed = Vec<String>;

    async fn put_and_claim(&mut self) -> Result<Vec<String>, Failure> {
        let payload = serde_json::to_string(&Work::new()).map_err(failed)?;
        let (mut first, mut second) = (self.connection.clone(), self.connection.clone());
        let (mut put, mut claim) = (self.enqueue.key(&self.prefix), self.claim.key(&self.prefix));
        let (put, claim) = (put.arg(payload), claim.arg(1));
        let (stored, claimed) = tokio::join!(
            put.invoke_async::<u64>(&mut first),
            claim.invoke_async::<(Vec<String>, Vec<Vec<u8>>)>(&mut second)
        );
        stored.map_err(failed)?;
        let (ids, payloads) = claimed.map_err(failed)?;
        std::hint::black_box(&payloads);
        match ids.len() {
            1 => Ok(ids),
            got => Err(failed(format!("expected one job to be claimed by hand, got {got}"))),
        }
    }

    async fn settle(&mut self, claimed: Vec<String>) -> Result<(), Failure> {
        let _: u64 = self
            .settle
            .key(&self.prefix)
            .arg(claimed)
            .invoke_async(&mut self.connection)
            .await
            .map_err(failed)?;
        Ok(())
    }
}
