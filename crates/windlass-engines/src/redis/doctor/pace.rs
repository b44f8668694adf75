//! Findings about how fast the server answers, and what kept it from answering.

use std::time::{Duration, Instant};

use redis::Value;
use windlass_core::clock::{Clock, Timestamp};

use super::{Patient, unread};
use crate::clock::SystemClock;
use crate::finding::{Finding, of_clock};
use crate::redis::reply::ReplyReader;
use crate::redis::store_error::StoreResult;

/// The number of measured round trips.
const ROUND_TRIPS: usize = 21;
/// Every claim and every end waits for one round trip.
const ROUND_TRIP_SECONDS: (f64, f64) = (0.01, 0.2);
/// The number of entries of the slow log that are read.
const SLOW_READ: u32 = 128;
/// A server does one thing at a time: for this long no other client got an answer.
const SLOW_SECONDS: (f64, f64) = (0.1, 2.0);
/// Slow commands longer ago than this do not count.
const SLOW_LATELY: Duration = Duration::from_secs(3_600);

impl Patient {
    pub(super) async fn clock(&self) -> StoreResult<Finding> {
        let before = SystemClock.now();
        let mut time = match self.query(&redis::cmd("TIME")).await? {
            Ok(time) => ReplyReader::of(time)?,
            Err(why) => return Ok(unread("clock", "TIME", &why)),
        };
        let after = SystemClock.now();
        let server = Timestamp::from_micros(time.number()? * 1_000_000 + time.number()?);
        Ok(of_clock(server, before, after))
    }

    pub(super) async fn latency(&self) -> StoreResult<Finding> {
        let mut taken = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let sent = Instant::now();
            if let Err(why) = self.query(&redis::cmd("PING")).await? {
                return Ok(unread("latency", "PING", &why));
            }
            taken.push(sent.elapsed());
        }
        Ok(latency(taken))
    }

    /// Reports the commands that were slow lately, and whether Windlass sent them. Only the name of a command
    /// is reported: its arguments may be another program's secrets.
    pub(super) async fn slow_commands(&self) -> StoreResult<Finding> {
        let entries = match self.query(redis::cmd("SLOWLOG").arg("GET").arg(SLOW_READ)).await? {
            Ok(entries) => ReplyReader::of(entries)?,
            Err(why) => return Ok(unread("slow commands", "SLOWLOG GET", &why)),
        };
        Ok(slow_commands(&self.read_slow(entries)?, SystemClock.now()))
    }

    fn read_slow(&self, mut entries: ReplyReader) -> StoreResult<Vec<Slow>> {
        let mut slow = Vec::new();
        while !entries.is_empty() {
            let mut entry = entries.list()?;
            entry.number()?;
            let at = Timestamp::from_micros(entry.number()? * 1_000_000);
            let took = Duration::from_micros(entry.count()?);
            slow.push(self.slow_command(entry.value(), at, took)?);
        }
        Ok(slow)
    }

    /// Reads one entry. A script of this engine has the prefix of all keys as its first key.
    fn slow_command(&self, words: Value, at: Timestamp, took: Duration) -> StoreResult<Slow> {
        let mut words = ReplyReader::of(words)?;
        let command = words.text()?.to_ascii_uppercase();
        let is_script = command.starts_with("EVAL");
        let first_key = (words.value(), words.value(), words.text()?).2;
        Ok(Slow { command, is_ours: is_script && first_key == self.keys.all, at, took })
    }
}

/// A command that took long.
pub(super) struct Slow {
    pub(super) command: String,
    pub(super) is_ours: bool,
    pub(super) at: Timestamp,
    pub(super) took: Duration,
}

fn latency(mut taken: Vec<Duration>) -> Finding {
    taken.sort();
    let (half, most) = (taken[taken.len() / 2], taken[taken.len() - 1]);
    let found = format!("a round trip takes {half:.1?}, the longest of {} {most:.1?}", taken.len());
    let advice = "run workers nearer to the server, or find out what keeps the server busy";
    Finding::graded("latency", found, half.as_secs_f64(), ROUND_TRIP_SECONDS, advice)
}

pub(super) fn slow_commands(slow: &[Slow], now: Timestamp) -> Finding {
    let lately = || slow.iter().filter(|slow| now.since(slow.at) < SLOW_LATELY);
    let Some(worst) = lately().max_by_key(|slow| slow.took) else {
        let found = format!("none within the last hour; {} in the log before", slow.len());
        return Finding::good("slow commands", found);
    };
    let ours = lately().filter(|slow| slow.is_ours).count();
    let whose = if worst.is_ours { "a script of this namespace" } else { "another client" };
    let found = format!(
        "{} within the last hour, {ours} of them by this namespace; the longest, {} by {whose}, took {:.1?}",
        lately().count(),
        worst.command,
        worst.took
    );
    let advice = match worst.is_ours {
        true => "check whether the machine is overloaded, or swaps: scripts are short by themselves",
        false => {
            "no client gets an answer meanwhile: find out which client sends it (SLOWLOG GET), and give jobs a server of their own"
        }
    };
    Finding::graded("slow commands", found, worst.took.as_secs_f64(), SLOW_SECONDS, advice)
}
