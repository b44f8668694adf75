//! Findings about what is written to disk, and whether writing works.

use windlass_core::engine::Durability;

use super::super::info::Info;
use super::super::server::ServerFacts;
use super::{Patient, Unanswered, unread};
use crate::finding::{Finding, Grade};
use crate::redis::store_error::StoreResult;

/// The server does nothing else while it forks. Forks of this length are noticeable.
const FORK_SECONDS: (f64, f64) = (0.25, 2.0);

impl Patient {
    /// Reports what an acknowledged job survives.
    pub(super) async fn durability(&self) -> StoreResult<Finding> {
        let info = match &self.info {
            Ok(info) => info,
            Err(why) => return Ok(unread("durability", "INFO", why)),
        };
        let (syncs, saves) = (self.setting("appendfsync").await?, self.setting("save").await?);
        let hidden = syncs.as_ref().err().or(saves.as_ref().err());
        let snapshots = saves.as_ref().ok().cloned().flatten().map(|save| !save.is_empty());
        let facts = ServerFacts::of(info, syncs.as_ref().ok().cloned().flatten(), snapshots);
        Ok(durability(&facts, hidden))
    }
}

/// Grades durability. `hidden` is why the server does not report its settings. A user without the right can
/// be granted it; some servers have no settings to report.
pub(super) fn durability(facts: &ServerFacts, hidden: Option<&Unanswered>) -> Finding {
    let grade = match (facts.durability(), facts.syncs.as_deref(), facts.snapshots) {
        (Durability::PowerCut, ..) | (Durability::Crash, Some("everysec"), _) => Grade::Good,
        (Durability::Crash, None, _) => Grade::Unread,
        (Durability::Process, _, Some(false)) => Grade::Bad,
        _ => Grade::Poor,
    };
    let appends = if facts.appends { "yes" } else { "no" };
    let syncs = facts.syncs.as_deref().unwrap_or("unknown");
    let is_denied = hidden.is_some_and(Unanswered::is_denied);
    let hidden = hidden.map(|cause| format!("; settings cannot be read ({})", cause.why)).unwrap_or_default();
    let found = format!(
        "appendonly {appends}, appendfsync {syncs}; what can be lost: {}{hidden}",
        facts.what_can_be_lost()
    );
    let advice = match grade {
        Grade::Unread if is_denied => "grant this user CONFIG GET and run doctor again",
        Grade::Unread => "look up `appendfsync` with the server's own tools: CONFIG GET does not report it",
        _ => "set `appendonly yes` and `appendfsync everysec` or `always`, unless jobs may be lost",
    };
    Finding::new("durability", grade, found, advice)
}

/// Reports whether the last writes to disk worked.
pub(super) fn disk(info: &Info) -> Option<Finding> {
    let status = |name| info.field(name).map(|status| (name, status));
    let written = status("aof_last_write_status");
    let rewritten = status("aof_last_bgrewrite_status");
    let saved = status("rdb_last_bgsave_status")?;
    let failed: Vec<_> = [written, Some(saved), rewritten]
        .into_iter()
        .flatten()
        .filter(|(_, status)| *status != "ok")
        .collect();
    if failed.is_empty() {
        let late = info.number("aof_delayed_fsync").unwrap_or_default();
        return Some(Finding::good(
            "disk",
            format!("the last writes worked; {late} syncs were late since the start"),
        ));
    }
    // A file that is not rewritten only grows; a server that cannot write or save refuses jobs.
    let only_grows = failed.iter().all(|(name, _)| *name == "aof_last_bgrewrite_status");
    let grade = if only_grows { Grade::Poor } else { Grade::Bad };
    let shown: Vec<_> = failed.iter().map(|(name, status)| format!("{name} is {status}")).collect();
    let advice =
        "check the server's log and the free space on its disk; new jobs are refused until it can write";
    Some(Finding::new("disk", grade, shown.join(", "), advice))
}

/// Reports forks. A forked copy of the server makes a rewrite or a snapshot: the server stops while it is
/// copied, and needs memory for what changes meanwhile.
pub(super) fn forks(info: &Info) -> Option<Finding> {
    let seconds = info.number("latest_fork_usec")? / 1e6;
    let at_work = |name: &str| info.field(name) == Some("1");
    let now = match (at_work("aof_rewrite_in_progress"), at_work("rdb_bgsave_in_progress")) {
        (true, _) => "the append-only file is being rewritten now",
        (_, true) => "a snapshot is being saved now",
        _ => "no rewrite and no snapshot is being made",
    };
    let found = format!("{now}; the last fork stopped the server for {:.1} ms", seconds * 1e3);
    let advice = "use less memory on one server, and switch off transparent huge pages";
    Some(Finding::graded("forks", found, seconds, FORK_SECONDS, advice))
}
