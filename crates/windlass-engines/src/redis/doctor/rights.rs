//! Findings about whether this user has the rights that the engine needs.

use std::collections::BTreeSet;

use super::{Patient, Unanswered, unread};
use crate::finding::{Finding, Grade};
use crate::redis::reply::ReplyReader;
use crate::redis::script::{OPEN, Scripts};
use crate::redis::server::ServerFacts;
use crate::redis::store_error::StoreResult;

const RIGHTS: &str = include_str!("rights.lua");
/// The first version in which a script can check rights.
const TELLS_FROM: u32 = 7;
/// The first version with users.
const USERS_FROM: u32 = 6;
/// Commands that are sent beside scripts; scripts themselves name the commands that they call.
const SENT: [&str; 5] = ["EVAL", "EVALSHA", "EXISTS", "INFO", "SUBSCRIBE"];

impl Patient {
    pub(super) async fn rights(&self) -> StoreResult<Finding> {
        let major = match &self.info {
            Ok(info) => ServerFacts::of(info, None, None).major(),
            // A user who may not even query the server's version opens no store on it.
            Err(cause) => return Ok(refused("INFO", cause)),
        };
        if major < USERS_FROM {
            return Ok(Finding::good(
                "rights",
                "this version has no users, so there are no rights to lack".to_owned(),
            ));
        }
        if major < TELLS_FROM {
            let found = "not examined: before Redis 7 rights cannot be queried".to_owned();
            return Ok(Finding::new(
                "rights",
                Grade::Unread,
                found,
                "compare them with docs/engines/redis.md",
            ));
        }
        let commands = commands(major);
        let mut query = redis::cmd("EVAL");
        query.arg(RIGHTS).arg(3).arg(&self.keys.all).arg(&self.keys.ready).arg(&self.keys.scheduled);
        query.arg(&commands);
        let mut refused = match self.query(&query).await? {
            Ok(refused) => ReplyReader::of(refused)?,
            Err(cause) => return Ok(refused("EVAL", &cause)),
        };
        let mut names = Vec::new();
        while !refused.is_empty() {
            names.push(refused.text()?);
        }
        Ok(match names.is_empty() {
            true => Finding::good(
                "rights",
                format!("this user may call all {} commands on this namespace", commands.len()),
            ),
            false => lacking(&names.join(", ")),
        })
    }
}

/// A finding about a refused command: its right is missing, unless the error has another cause.
fn refused(command: &str, cause: &Unanswered) -> Finding {
    if cause.is_denied() { lacking(command) } else { unread("rights", command, cause) }
}

fn lacking(commands: &str) -> Finding {
    let found = format!("this user may not call {commands} on this namespace");
    let advice = "grant the commands, keys and channels that docs/engines/redis.md lists under \"Rights\"";
    Finding::new("rights", Grade::Bad, found, advice)
}

/// Every command that the engine needs: commands that it sends, and commands that its scripts call.
pub(super) fn commands(major: u32) -> BTreeSet<String> {
    let scripts = Scripts::for_server(major);
    let texts = scripts.texts().into_iter().chain([OPEN]);
    let called = texts.flat_map(called_in).map(str::to_owned);
    called.chain(SENT.map(str::to_owned)).collect()
}

/// The command names in quotes that follow a call.
fn called_in(script: &str) -> impl Iterator<Item = &str> {
    const CALLS: [&str; 6] =
        ["redis.call('", "redis.pcall('", "call_many('", "call_jobs('", "write('", "write_many('"];
    let names = CALLS.into_iter().flat_map(|call| script.split(call).skip(1));
    names.filter_map(|rest| rest.split('\'').next())
}
