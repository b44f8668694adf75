//! Findings about room: memory and connections.

use super::super::info::Info;
use super::{Patient, Unanswered, percent, unread};
use crate::finding::{Finding, Grade};
use crate::redis::store_error::StoreResult;

/// The used shares of a maximum from which on the grade is poor and bad.
const USED: (f64, f64) = (0.8, 0.95);

/// Reports what the server drops when its memory is full.
pub(super) fn eviction(info: &Info, allowed: bool) -> Option<Finding> {
    let policy = info.field("maxmemory_policy")?;
    let dropped = info.number("evicted_keys").unwrap_or_default();
    let found = format!("maxmemory-policy {policy}; {dropped} keys dropped since the start");
    let grade = match policy {
        "noeviction" => Grade::Good,
        _ if allowed && dropped < 1.0 => Grade::Poor,
        _ => Grade::Bad,
    };
    let advice = "set `maxmemory-policy noeviction`: this server drops jobs when its memory is full";
    Some(Finding::new("eviction", grade, found, advice))
}

/// Reports how much is used of the memory that the server may have, or else of the machine's.
pub(super) fn memory(info: &Info) -> Option<Finding> {
    let used = info.number("used_memory")?;
    let limit = info.number("maxmemory").filter(|most| *most > 0.0);
    let (most, whose) = match limit {
        Some(most) => (most, "`maxmemory`"),
        None => (info.number("total_system_memory")?, "the machine's memory; `maxmemory` is not set"),
    };
    let share = used / most;
    let found = format!("{} used, {} of {}, {whose}", megabytes(used), percent(share), megabytes(most));
    let advice = "raise `maxmemory`, give the server more memory, or keep finished jobs for fewer days; new jobs are refused when it is full";
    Some(Finding::graded("memory", found, share, USED, advice))
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

impl Patient {
    /// Reports how many connections are open, and the maximum.
    pub(super) async fn connections(&self) -> StoreResult<Finding> {
        let info = match &self.info {
            Ok(info) => info,
            Err(why) => return Ok(unread("connections", "INFO", why)),
        };
        // Older servers report the maximum only among their settings.
        let most = match info.number("maxclients") {
            Some(most) => Some(most),
            None => match self.setting("maxclients").await? {
                Ok(most) => most.and_then(|most| most.parse().ok()),
                Err(why) => return Ok(unread("connections", "CONFIG GET", &why)),
            },
        };
        let finding = most.and_then(|most| connections(info, most));
        Ok(finding.unwrap_or_else(|| unread("connections", "INFO", &Unanswered::missing())))
    }
}

pub(super) fn connections(info: &Info, most: f64) -> Option<Finding> {
    let open = info.number("connected_clients")?;
    let turned_away = info.number("rejected_connections").unwrap_or_default();
    let found =
        format!("{open} of {most} connections are open; {turned_away} were turned away since the start");
    let advice = "raise `maxclients`, or find out which clients keep connections open: CLIENT LIST";
    Some(Finding::graded("connections", found, open / most, USED, advice))
}
