//! The version that wrote the keys of the namespace, and their prefixes.

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
        let query = redis::cmd("HMGET").arg(&key).arg("version").arg("ready").arg("scheduled").to_owned();
        let mut layout = match self.query(&query).await? {
            Ok(layout) => ReplyReader::of(layout)?,
            Err(why) if why.code == "WRONGTYPE" => return Ok(damaged(&key)),
            Err(why) => return Ok(unread("layout", "HMGET", &why)),
        };
        let (version, ready, scheduled) = (layout.text()?, layout.text()?, layout.text()?);
        if version.is_empty() {
            let found =
                format!("{} does not exist yet; the first process that opens it creates it", self.keys.all);
            return Ok(Finding::good("layout", found));
        }
        let Ok(number) = version.parse::<u32>() else { return Ok(damaged(&key)) };
        Ok(self.compared(number, &ready, &scheduled))
    }

    /// Reports whether the store was found emptied or older than it was: the data that it lost is gone,
    /// whether a person saw it in a log or not.
    pub(super) async fn losses(&self) -> StoreResult<Finding> {
        let key = format!("{}layout", self.keys.all);
        let query = redis::cmd("HMGET").arg(&key).arg("replaced").arg("replaced_at").to_owned();
        let mut fields = match self.query(&query).await? {
            Ok(fields) => ReplyReader::of(fields)?,
            Err(why) => return Ok(unread("losses", "HMGET", &why)),
        };
        let (times, last) = (fields.number_or_none()?, fields.number_or_none()?);
        Ok(losses(times, last.map(Timestamp::from_micros), SystemClock.now()))
    }

    fn compared(&self, version: u32, ready: &str, scheduled: &str) -> Finding {
        let found = format!("{} has layout {version}, this Windlass uses {LAYOUT_VERSION}", self.keys.all);
        if let Some(advice) = other_layout(version.into()) {
            return Finding::new("layout", Grade::Bad, found, advice);
        }
        if (ready, scheduled) != (self.keys.ready.as_str(), self.keys.scheduled.as_str()) {
            let found =
                format!("{} was created with the lane prefixes {ready} and {scheduled}", self.keys.all);
            let advice =
                "set `ready_key` and `scheduled_key` to these prefixes, without the colon at the end";
            return Finding::new("layout", Grade::Bad, found, advice);
        }
        Finding::good("layout", found)
    }
}

/// A loss longer ago than this is not reported as poor.
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
    let advice = "its data of that time is lost: find out what emptied or restored it (FLUSHALL, an older snapshot, a replica \
                  that took over), and enqueue lost jobs again; also store schedules and triggers of the command line again";
    Finding::new("losses", Grade::Poor, found, advice)
}

fn damaged(key: &str) -> Finding {
    let found = format!("{key} does not contain what Windlass writes there");
    Finding::new("layout", Grade::Bad, found, "give Windlass a namespace that no other program writes to")
}
