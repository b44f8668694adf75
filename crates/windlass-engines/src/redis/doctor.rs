//! A check-up: reports what on the server will slow jobs down, stop them or lose them, and what to do about
//! it. It only reads: not even a namespace is created. Settings that this user may not read are reported as
//! unread.

mod machine;
mod disk;
mod room;
mod pace;
mod rights;
mod layout;

use std::sync::Arc;

use redis::{Cmd, RedisError, Value};
use windlass_core::engine::Result;
use windlass_core::error::EngineError;

use super::address::Address;
use super::conn::Link;
use super::info::Info;
use super::keys::Keys;
use super::reply::ReplyReader;
use super::store_error::{StoreError, StoreResult};
use super::{RedisEngine, RedisOptions};
use crate::finding::{Finding, Grade};
use crate::io_thread::IoThread;

/// What the server returned, or why it returned nothing.
type Queried<T> = std::result::Result<T, Unanswered>;

/// Why a server does not answer a query.
struct Unanswered {
    /// The server's error message.
    why: String,
    /// The code of the refusal.
    code: String,
    /// Whether it may answer later.
    is_passing: bool,
}

/// A server that is examined.
struct Patient {
    link: Link,
    keys: Keys,
    allow_eviction: bool,
    /// The answer of INFO. Most of a check-up uses it.
    info: Queried<Info>,
}

impl RedisEngine {
    /// Examines the server and returns findings, worst first. A server that an engine would refuse is
    /// examined, too. If the URL names several servers, it examines the one that takes writes.
    pub async fn examine(url: &str, options: RedisOptions) -> Result<Vec<Finding>> {
        let keys =
            Keys::new(&options.namespace, options.ready_key.as_deref(), options.scheduled_key.as_deref())?;
        let address = Address::parse(url)?.with_authority(options.authority()?);
        let io_thread = IoThread::start("windlass-redis")?;
        io_thread
            .run(async move {
                let (patient, away) = Patient::find(&address, keys, &options).await?;
                let mut findings = patient.examine().await?;
                findings.extend(away);
                findings.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
                StoreResult::Ok(findings)
            })
            .await
    }
}

impl Patient {
    /// Returns the first of the hosts that takes writes, else the first that answers; and a finding for each
    /// that does not answer.
    async fn find(
        address: &Address,
        keys: Keys,
        options: &RedisOptions,
    ) -> StoreResult<(Self, Vec<Finding>)> {
        let (mut found, mut away, mut why) = (None::<Self>, Vec::new(), None);
        for host in address.each() {
            let place = host.place();
            match Self::connect(host, keys.clone(), options).await {
                Ok(patient) => {
                    let is_better = |known: &Self| !known.is_primary() && patient.is_primary();
                    if found.as_ref().is_none_or(is_better) {
                        found = Some(patient);
                    }
                }
                Err(fault) => {
                    let error = EngineError::from(fault.of_read());
                    away.push(is_away(&place, &error));
                    why = Some(error);
                }
            }
        }
        let unreachable = || {
            why.map_or_else(
                || StoreError::Unreachable("the URL names no server".to_owned()),
                StoreError::from,
            )
        };
        found.map(|patient| (patient, away)).ok_or_else(unreachable)
    }

    async fn connect(host: Address, keys: Keys, options: &RedisOptions) -> StoreResult<Self> {
        let probe = format!("{}layout", keys.all);
        let link = Link::new(Arc::new(host), probe, options.periods.answer_within);
        let info = refusal_as_value(Info::read(&link).await)?;
        if let Err(Unanswered { why, is_passing: true, .. }) = &info {
            return Err(StoreError::Unreachable(why.clone()));
        }
        Ok(Self { link, keys, allow_eviction: options.allow_eviction, info })
    }

    fn is_primary(&self) -> bool {
        self.info.as_ref().is_ok_and(|info| info.field("role") == Some("master"))
    }

    async fn examine(&self) -> StoreResult<Vec<Finding>> {
        Ok(vec![
            self.by_info("server", machine::server),
            self.cluster().await?,
            self.by_info("replicas", machine::replicas),
            self.durability().await?,
            self.by_info("disk", disk::disk),
            self.by_info("forks", disk::forks),
            self.by_info("eviction", |info| room::eviction(info, self.allow_eviction)),
            self.by_info("memory", room::memory),
            self.connections().await?,
            self.clock().await?,
            self.latency().await?,
            self.slow_commands().await?,
            self.rights().await?,
            self.layout().await?,
            self.losses().await?,
        ])
    }

    /// A finding from the answer of INFO.
    fn by_info(&self, about: &'static str, examine: impl Fn(&Info) -> Option<Finding>) -> Finding {
        match &self.info {
            Ok(info) => examine(info).unwrap_or_else(|| unread(about, "INFO", &Unanswered::missing())),
            Err(cause) => unread(about, "INFO", cause),
        }
    }

    async fn query(&self, command: &Cmd) -> StoreResult<Queried<Value>> {
        refusal_as_value(self.link.query(command).await)
    }

    /// Reads a setting of the server; `None` if the server has no setting of this name.
    async fn setting(&self, name: &str) -> StoreResult<Queried<Option<String>>> {
        let answer = self.query(redis::cmd("CONFIG").arg("GET").arg(name)).await?;
        let Ok(answer) = answer else { return Ok(answer.map(|_| None)) };
        let mut pair = ReplyReader::of(answer)?;
        if pair.is_empty() {
            return Ok(Ok(None));
        }
        pair.text()?;
        Ok(Ok(Some(pair.text()?)))
    }
}

/// Turns a refusal into a value: the rest of the server can still be examined.
fn refusal_as_value<T>(answer: StoreResult<T>) -> StoreResult<Queried<T>> {
    match answer.map_err(StoreError::of_read) {
        Ok(answer) => Ok(Ok(answer)),
        Err(StoreError::Refused(error)) => Ok(Err(Unanswered::of(error))),
        Err(fault) => Err(fault),
    }
}

impl Unanswered {
    fn of(error: RedisError) -> Self {
        let (why, code) = (error.to_string(), error.code().unwrap_or_default().to_owned());
        Self { why, code, is_passing: EngineError::from(StoreError::Refused(error)).is_passing() }
    }

    /// The server answered, but its answer lacks the requested value.
    fn missing() -> Self {
        Self {
            why: "the value is missing in the server's answer".to_owned(),
            code: String::new(),
            is_passing: false,
        }
    }

    fn is_denied(&self) -> bool {
        self.code == "NOPERM"
    }
}

/// A finding that something could not be examined.
fn unread(about: &'static str, command: &str, cause: &Unanswered) -> Finding {
    let found = format!("not examined: {command} failed ({})", cause.why);
    let advice = match cause.is_denied() {
        true => format!("grant this user {command}, and run doctor again"),
        false => {
            "check it with the server's own tools, or run doctor again once the server reports it".to_owned()
        }
    };
    Finding::new(about, Grade::Unread, found, advice)
}

fn is_away(place: &str, why: &EngineError) -> Finding {
    let found = format!("no answer from {place}: {why}");
    Finding::new("hosts", Grade::Poor, found, "start this server, or remove it from the URL")
}

/// A share of something, for people.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests;
