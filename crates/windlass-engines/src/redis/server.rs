//! Facts about the server: its version, what it writes to disk, what it drops when its memory is full. They
//! are read when an engine is opened, and again for each new connection, which may lead to another server, or
//! to one with other settings.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use windlass_core::engine::{Durability, Result};
use windlass_core::error::EngineError;

use super::Store;
use super::conn::Link;
use super::info::Info;
use super::reply::ReplyReader;
use super::script::Scripts;
use super::store_error::{StoreError, StoreResult};

/// The oldest server that has every command this engine uses.
pub(super) const SERVER_MIN: (u32, u32) = (5, 0);

/// A server whose facts have been read.
#[derive(Debug)]
pub(super) struct KnownServer {
    pub(super) facts: ServerFacts,
    /// The scripts in the form for its version.
    scripts: Arc<Scripts>,
}

/// The facts about a server that matter to jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its version.
    pub version: String,
    /// Whether every change is appended to a file.
    pub appends: bool,
    /// When that file is synced: `always`, `everysec` or `no`; `None` if the server does not report it.
    pub syncs: Option<String>,
    /// Whether snapshots are taken now and then; `None` if the server does not report it.
    pub snapshots: Option<bool>,
    /// What it drops when its memory is full; `noeviction` means nothing.
    pub eviction: String,
}

impl ServerFacts {
    /// Queries the server. A server that hides its settings reports less.
    pub(super) async fn read(link: &Link) -> StoreResult<Self> {
        let info = Info::read(link).await?;
        let syncs = setting(link, "appendfsync").await;
        let snapshots = setting(link, "save").await.map(|save| !save.is_empty());
        Ok(Self::of(&info, syncs, snapshots))
    }

    pub(super) fn of(info: &Info, syncs: Option<String>, snapshots: Option<bool>) -> Self {
        Self {
            version: info.field("redis_version").unwrap_or_default().to_owned(),
            appends: info.field("aof_enabled") == Some("1"),
            syncs,
            snapshots,
            eviction: info.field("maxmemory_policy").unwrap_or_default().to_owned(),
        }
    }

    /// What an acknowledged job survives.
    pub fn durability(&self) -> Durability {
        match (self.appends, self.syncs.as_deref()) {
            (true, Some("always")) => Durability::PowerCut,
            (true, _) => Durability::Crash,
            // Jobs acknowledged after the last snapshot are lost with the server.
            _ => Durability::Process,
        }
    }

    /// Says what can be lost, in a sentence for people.
    pub fn what_can_be_lost(&self) -> &'static str {
        match (self.appends, self.syncs.as_deref(), self.snapshots) {
            (true, Some("always"), _) => "nothing: every change is synced before it is acknowledged",
            (true, Some("everysec"), _) => {
                "about the last second, if the machine fails or the server is killed while its disk is slow"
            }
            (true, Some(_), _) => {
                "everything that the system has not written yet, about half a minute, if the machine fails"
            }
            (true, None, _) => "perhaps the last second or more: the server does not say when it syncs",
            (false, _, Some(true)) => {
                "everything since the last snapshot, if the server ends; set `appendonly yes`"
            }
            (false, _, Some(false)) => {
                "everything, if the server ends: it writes nothing to disk; set `appendonly yes`"
            }
            (false, _, None) => "everything since the last snapshot, if there is any; set `appendonly yes`",
        }
    }

    /// The first number of its version.
    pub(super) fn major(&self) -> u32 {
        self.numbers().0
    }

    fn numbers(&self) -> (u32, u32) {
        let mut numbers = self.version.split('.').map(|number| number.parse().unwrap_or_default());
        (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
    }

    /// Whether it lacks commands that this engine uses.
    pub(super) fn is_too_old(&self) -> bool {
        self.numbers() < SERVER_MIN
    }

    /// Refuses a server that is too old or may drop jobs.
    pub(super) fn check(&self, allow_eviction: bool) -> Result<()> {
        let unusable = |why: String| Err(EngineError::Unusable { why });
        if self.is_too_old() {
            return unusable(format!(
                "expected Redis {}.{} or newer, got {}; update the server",
                SERVER_MIN.0, SERVER_MIN.1, self.version
            ));
        }
        if self.eviction != "noeviction" && !allow_eviction {
            return unusable(format!(
                "expected `maxmemory-policy noeviction`, got {}: this server drops jobs when its memory is full; set \
                 noeviction in redis.conf, or `allow_eviction` if losing jobs does no harm",
                self.eviction
            ));
        }
        Ok(())
    }
}

/// Reads one setting of the server; `None` if the server does not report it.
async fn setting(link: &Link, name: &str) -> Option<String> {
    let answer = link.query(redis::cmd("CONFIG").arg("GET").arg(name)).await.ok()?;
    let mut pair = ReplyReader::of(answer).ok().filter(|pair| !pair.is_empty())?;
    pair.text().ok()?;
    pair.text().ok()
}

impl Store {
    /// Reads the facts about the server, and opens the namespace.
    pub(super) async fn open(&self) -> StoreResult<()> {
        let facts = ServerFacts::read(&self.work).await.map_err(StoreError::of_read)?;
        facts.check(self.allow_eviction)?;
        tracing::info!(version = facts.version, lost = facts.what_can_be_lost(), "redis: what can be lost");
        self.know_server(facts);
        self.facts_read_by.store(self.work.made(), Ordering::SeqCst);
        self.open_first().await
    }

    /// Reads the facts again if a connection was made since. No call fails by it; facts that have become
    /// worse are logged.
    pub(super) async fn read_new_facts(&self) {
        let made = self.work.made();
        if self.facts_read_by.swap(made, Ordering::SeqCst) == made {
            return;
        }
        match ServerFacts::read(&self.work).await {
            Ok(facts) => self.compare_facts(facts),
            Err(fault) => {
                tracing::debug!(error = ?fault, "reading the server's facts failed; the known facts are kept")
            }
        }
    }

    fn compare_facts(&self, facts: ServerFacts) {
        let before = self.server();
        if facts == before.facts {
            return;
        }
        if let Err(error) = facts.check(self.allow_eviction) {
            tracing::error!(%error, "the server has changed, and opening it would be refused now");
        }
        if facts.what_can_be_lost() != before.facts.what_can_be_lost() {
            tracing::warn!(
                version = facts.version,
                lost = facts.what_can_be_lost(),
                "redis: what can be lost has changed"
            );
        }
        self.know_server(facts);
    }

    fn know_server(&self, facts: ServerFacts) {
        let mut server = self.server.write().unwrap_or_else(PoisonError::into_inner);
        let fitting = server.as_ref().filter(|known| known.facts.major() == facts.major());
        let scripts = fitting.map(|known| known.scripts.clone());
        let form = self.scripts_of.unwrap_or_else(|| facts.major());
        let scripts = scripts.unwrap_or_else(|| Arc::new(Scripts::for_server(form)));
        *server = Some(Arc::new(KnownServer { facts, scripts }));
    }

    pub(super) fn server(&self) -> Arc<KnownServer> {
        let server = self.server.read().unwrap_or_else(PoisonError::into_inner);
        server.clone().expect("the facts are read before an engine is returned")
    }

    pub(super) fn scripts(&self) -> Arc<Scripts> {
        self.server().scripts.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> ServerFacts {
        ServerFacts {
            version: "7.0.15".to_owned(),
            appends: true,
            syncs: Some("everysec".to_owned()),
            snapshots: Some(false),
            eviction: "noeviction".to_owned(),
        }
    }

    #[test]
    fn the_class_of_durability_follows_the_settings() {
        assert_eq!(facts().durability(), Durability::Crash);
        assert_eq!(
            ServerFacts { syncs: Some("always".to_owned()), ..facts() }.durability(),
            Durability::PowerCut
        );
        let snapshots = ServerFacts { appends: false, snapshots: Some(true), ..facts() };
        assert_eq!(snapshots.durability(), Durability::Process);
        assert!(snapshots.what_can_be_lost().contains("snapshot"));
        assert_eq!(ServerFacts { appends: false, ..facts() }.durability(), Durability::Process);
    }

    #[test]
    fn a_server_that_is_too_old_or_drops_jobs_is_refused_with_what_to_do() {
        assert!(facts().check(false).is_ok());
        let old = ServerFacts { version: "4.0.14".to_owned(), ..facts() };
        assert!(old.check(false).unwrap_err().to_string().contains("5.0"));
        let dropping = ServerFacts { eviction: "allkeys-lru".to_owned(), ..facts() };
        assert!(dropping.check(false).unwrap_err().to_string().contains("noeviction"));
        assert!(dropping.check(true).is_ok());
    }
}
