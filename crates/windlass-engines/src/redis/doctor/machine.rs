//! Findings about the kind of server, and which other servers have its data.

use super::super::info::Info;
use super::super::server::{SERVER_MIN, ServerFacts};
use super::{Patient, unread};
use crate::finding::{Finding, Grade};
use crate::redis::reply::text;
use crate::redis::store_error::StoreResult;

/// A primary pings its replica every ten seconds at the least, and a replica reports its position each
/// second.
const LAG_SECONDS: (f64, f64) = (5.0, 60.0);

pub(super) fn server(info: &Info) -> Option<Finding> {
    let facts = ServerFacts::of(info, None, None);
    let (role, mode) = (info.field("role")?, info.field("redis_mode")?);
    let what = format!("Redis {}, {mode}", facts.version);
    if facts.is_too_old() {
        let advice = format!("update it to {}.{} or newer", SERVER_MIN.0, SERVER_MIN.1);
        return Some(Finding::new("server", Grade::Bad, what, advice));
    }
    if role != "master" {
        let host = info.field("master_host").unwrap_or("?");
        let port = info.field("master_port").unwrap_or("?");
        let found = format!("{what}, a replica of {host}:{port}, which takes no jobs");
        return Some(Finding::new("server", Grade::Bad, found, "add its primary to the URL"));
    }
    Some(Finding::good("server", format!("{what}, takes writes")))
}

/// Reports the replicas, and how far behind they are. The last second of a replica is lost with the primary.
pub(super) fn replicas(info: &Info) -> Option<Finding> {
    if info.field("role")? != "master" {
        return of_replica(info);
    }
    let copies: Vec<_> = info.fields().filter(|(name, value)| is_copy(name, value)).collect();
    if copies.is_empty() {
        return Some(Finding::good("replicas", "none".to_owned()));
    }
    let here = info.number("master_repl_offset").unwrap_or_default();
    let copies: Vec<_> = copies.into_iter().map(|(_, copy)| Copy::read(copy, here)).collect();
    let shown: Vec<_> = copies.iter().map(Copy::describe).collect();
    let worst = copies.iter().map(Copy::lag).fold(0.0, f64::max);
    let advice =
        "find out why it does not keep up: its log, the network, `client-output-buffer-limit replica`";
    Some(Finding::graded("replicas", shown.join("; "), worst, LAG_SECONDS, advice))
}

/// The form is `slave0:ip=…,port=…,state=…,offset=…,lag=…`.
fn is_copy(name: &str, value: &str) -> bool {
    name.starts_with("slave") && value.starts_with("ip=")
}

struct Copy<'a> {
    place: String,
    state: &'a str,
    seconds: f64,
    bytes: f64,
}

impl<'a> Copy<'a> {
    fn read(text: &'a str, here: f64) -> Self {
        let part = |name: &str| {
            let mut parts = text.split(',').filter_map(|part| part.split_once('='));
            parts.find(|(known, _)| *known == name).map_or("", |(_, value)| value)
        };
        let number = |name: &str| part(name).parse::<f64>().ok();
        Self {
            place: format!("{}:{}", part("ip"), part("port")),
            state: part("state"),
            seconds: number("lag").unwrap_or_default(),
            bytes: (here - number("offset").unwrap_or(here)).max(0.0),
        }
    }

    /// The lag in seconds. A replica that is not in sync yet is at least at the threshold of poor.
    fn lag(&self) -> f64 {
        if self.state == "online" { self.seconds } else { self.seconds.max(LAG_SECONDS.0) }
    }

    fn describe(&self) -> String {
        let Self { place, state, seconds, bytes } = self;
        format!("{place} is {state}, {bytes} bytes behind, last acknowledgement {seconds} s ago")
    }
}

fn of_replica(info: &Info) -> Option<Finding> {
    let link = info.field("master_link_status")?;
    let grade = if link == "up" { Grade::Good } else { Grade::Bad };
    let found = format!("this server is a replica; its link to the primary is {link}");
    Some(Finding::new("replicas", grade, found, "check that the primary runs, and read this server's log"))
}

impl Patient {
    pub(super) async fn cluster(&self) -> StoreResult<Finding> {
        match self.info.as_ref().map(|info| info.field("cluster_enabled")) {
            Ok(Some("1")) => {}
            Ok(_) => return Ok(Finding::good("cluster", "this server is in no cluster".to_owned())),
            Err(why) => return Ok(unread("cluster", "INFO", why)),
        }
        let reply = match self.query(redis::cmd("CLUSTER").arg("INFO")).await? {
            Ok(reply) => text(reply)?,
            Err(why) => return Ok(unread("cluster", "CLUSTER INFO", &why)),
        };
        let state = reply.lines().find_map(|line| line.trim_end().strip_prefix("cluster_state:"));
        let state = state.unwrap_or("unknown");
        let grade = if state == "ok" { Grade::Good } else { Grade::Bad };
        let advice =
            "some slots have no server that answers; find them with CLUSTER SLOTS and start their servers";
        Ok(Finding::new("cluster", grade, format!("the state of the cluster is {state}"), advice))
    }
}
