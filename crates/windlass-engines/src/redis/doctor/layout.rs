//! Which version made the keys of the namespace, and under which names.

use std::time::Duration;

use windlass_core::clock::{Clock, Timestamp};

use super::{Patient, unread};
use crate::clock::SystemClock;
use crate::finding::{Finding, Grade};
use crate::redis::open::{LAYOUT_VERSION, other_layout};
use crate::redis::reply::ReplyReader;
use crate::redis::store_error::StoreResult;

impl Patient {
    pub(super) async fn layout(&self) -> StoreResult<Finding> {
        let key = format!("{}layout", self.keys.all);
        let ask = redis::cmd("HMGET").arg(&key).arg("version").arg("ready").arg("scheduled").to_owned();
        let mut layout = match self.ask(&ask).await? {
            Ok(layout) => ReplyReader::of(layout)?,
            Err(why) if why.code == "WRONGTYPE" => return Ok(damaged(&key)),
            Err(why) => return Ok(unread("layout", "HMGET", &why)),
        };
        let (version, ready, scheduled) = (layout.text()?, layout.text()?, layout.text()?);
        if version.is_empty() {
            let found = format!("{} is not there yet; whoever opens it first makes it", self.keys.all);
            return Ok(Finding::good("layout", found));
        }
        let Ok(number) = version.parse::<u32>() else { return Ok(damaged(&key)) };
        Ok(self.compared(number, &ready, &scheduled))
    }

    /// Whether the store was found emptied or older than it was: what it held then is lost, whoever saw it in a log or not.
    pub(super) async fn losses(&self) -> StoreResult<Finding> {
        let key = format!("{}layout", self.keys.all);
        let ask = redis::cmd("HMGET").arg(&key).arg("replaced").arg("replaced_at").to_owned();
        let mut fields = match self.ask(&ask).await? {
            Ok(fields) => ReplyReader::of(fields)?,
            Err(why) => return Ok(unread("losses", "HMGET", &why)),
        };
        let (times, last) = (fields.number_or_none()?, fields.number_or_none()?);
        Ok(losses(times, last.map(Timestamp::from_micros), SystemClock.now()))
    }

    fn compared(&self, version: u32, ready: &str, scheduled: &str) -> Finding {
        let found = format!("{} has layout {version}, this Windlass knows {LAYOUT_VERSION}", self.keys.all);
        if let Some(advice) = other_layout(version.into()) {
            return Finding::new("layout", Grade::Bad, found, advice);
        }
        if (ready, scheduled) != (self.keys.ready.as_str(), self.keys.scheduled.as_str()) {
            let found = format!("{} was made with lanes at {ready}… and {scheduled}…", self.keys.all);
            let advice =
                "set `ready_key` and `scheduled_key` as the namespace was made, without the colon at the end";
            return Finding::new("layout", Grade::Bad, found, advice);
        }
        Finding::good("layout", found)
    }
}

/// What was lost longer ago than this is no news.
const LATELY: Duration = Duration::from_secs(7 * 24 * 60 * 60);

pub(super) fn losses(times: Option<i64>, last: Option<Timestamp>, now: Timestamp) -> Finding {
    let (Some(times), Some(last)) = (times, last) else {
        return Finding::good("losses", "the store was never found emptied or older than it was".to_owned());
    };
    let found = format!(
        "the store was found emptied, replaced or older than it was {times} times, the last time at {last}"
    );
    if now.since(last) > LATELY {
        return Finding::good("losses", found);
    }
    let advice = "what it held then is lost: find out who emptied it or brought it back (FLUSHALL, an older snapshot, a replica \
                  that took over), and put lost work in again; schedules and triggers that were stored at the command line, too";
    Finding::new("losses", Grade::Poor, found, advice)
}

fn damaged(key: &str) -> Finding {
    let found = format!("{key} is not what Windlass writes there");
    Finding::new("layout", Grade::Bad, found, "give Windlass a namespace that nobody else writes to")
}
