//! Opening: options, what the server says about itself, and the layout of a namespace.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::Clock;
use windlass_core::engine::{Durability, Result};
use windlass_core::error::EngineError;

use super::Store;
use super::conn::Link;
use super::fault::Step;
use super::keys::Keys;
use super::reply::{Items, text};
use super::script;

/// The layout of keys that this version reads and writes.
pub(super) const LAYOUT_VERSION: u32 = 1;
/// The oldest server that has every command we use.
const SERVER_MIN: (u32, u32) = (5, 0);

/// How a Redis engine is opened.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// What all keys begin with, in braces. Two namespaces on one server know nothing of each other.
    pub namespace: String,
    /// What the keys of ready lanes begin with, if not `{namespace}:ready`. Must hold the hash tag `{namespace}`.
    pub ready_key: Option<String>,
    /// What the keys of scheduled lanes begin with, if not `{namespace}:scheduled`. Must hold the hash tag, too.
    pub scheduled_key: Option<String>,
    /// A file with the authority (PEM) that signed the server's certificate, if the system does not know it.
    pub ca_file: Option<PathBuf>,
    /// Whether a server may be used that drops keys when its memory is full. Jobs may vanish there.
    pub allow_eviction: bool,
    /// Whether other processes wake this one. Without it, work that they put in is found by looking.
    pub listen: bool,
    /// A clock in place of the server's, for tests that move it.
    pub clock: Option<Arc<dyn Clock>>,
    /// How patient the engine is. Only tests change it.
    #[doc(hidden)]
    pub periods: Periods,
}

/// How patient an engine is.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Periods {
    /// A call without an answer is given up after this time.
    pub answer_within: Duration,
    /// The same for a heartbeat: the next one should find a connection that works.
    pub heartbeat_within: Duration,
    /// The listener proves this often that it still hears.
    pub probe_every: Duration,
    /// It must have an answer within this time.
    pub heard_within: Duration,
}

impl Default for Periods {
    fn default() -> Self {
        Self {
            answer_within: Duration::from_secs(10),
            heartbeat_within: Duration::from_secs(8),
            probe_every: Duration::from_secs(15),
            heard_within: Duration::from_secs(5),
        }
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            namespace: "windlass".to_owned(),
            ready_key: None,
            scheduled_key: None,
            ca_file: None,
            allow_eviction: false,
            listen: true,
            clock: None,
            periods: Periods::default(),
        }
    }
}

impl RedisOptions {
    /// The authority's certificate.
    pub(super) fn authority(&self) -> Result<Option<Vec<u8>>> {
        let Some(path) = &self.ca_file else { return Ok(None) };
        let read = std::fs::read(path);
        let refused = |error| {
            EngineError::Refused(format!(
                "expected a certificate in PEM format in `ca_file`, got no answer from {} ({error})",
                path.display()
            ))
        };
        read.map(Some).map_err(refused)
    }
}

/// What a server says about itself, as far as it matters to jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its version.
    pub version: String,
    /// Whether every change is appended to a file.
    pub appends: bool,
    /// When that file is synced: `always`, `everysec` or `no`; nothing if the server does not tell.
    pub syncs: Option<String>,
    /// Whether snapshots are taken now and then; nothing if the server does not tell.
    pub snapshots: Option<bool>,
    /// What it drops when its memory is full; `noeviction` is nothing.
    pub eviction: String,
}

impl ServerFacts {
    /// Asks the server. One that keeps its settings to itself tells less.
    pub(super) async fn read(link: &Link) -> Step<Self> {
        let info = text(link.ask(redis::cmd("INFO").arg("default")).await?)?;
        let field = |name: &str| {
            let lines = info.lines().filter_map(|line| line.trim_end().split_once(':'));
            lines.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
        };
        let syncs = setting(link, "appendfsync").await;
        let snapshots = setting(link, "save").await.map(|save| !save.is_empty());
        Ok(Self {
            version: field("redis_version").unwrap_or_default(),
            appends: field("aof_enabled").as_deref() == Some("1"),
            syncs,
            snapshots,
            eviction: field("maxmemory_policy").unwrap_or_default(),
        })
    }

    /// What an acknowledged job survives.
    pub fn durability(&self) -> Durability {
        match (self.appends, self.syncs.as_deref()) {
            (true, Some("always")) => Durability::PowerCut,
            (true, _) => Durability::Crash,
            // What was acknowledged after the last snapshot is gone with the server.
            _ => Durability::Process,
        }
    }

    /// What can be lost, in a sentence for people.
    pub fn what_can_be_lost(&self) -> &'static str {
        match (self.appends, self.syncs.as_deref(), self.snapshots) {
            (true, Some("always"), _) => "nothing: every change is synced before it is acknowledged",
            (true, Some("everysec"), _) => {
                "about the last second, if the machine fails or the server is killed while its disk is slow"
            }
            (true, Some(_), _) => {
                "whatever the system has not written yet, about half a minute, if the machine fails"
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

    /// Refuses a server that is too old or may drop jobs.
    pub(super) fn check(&self, allow_eviction: bool) -> Result<()> {
        let unusable = |why: String| Err(EngineError::Unusable { why });
        if self.numbers() < SERVER_MIN {
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

/// One setting of the server, if it tells.
async fn setting(link: &Link, name: &str) -> Option<String> {
    let answer = link.ask(redis::cmd("CONFIG").arg("GET").arg(name)).await.ok()?;
    let mut pair = Items::of(answer).ok().filter(|pair| !pair.is_empty())?;
    pair.text().ok()?;
    pair.text().ok()
}

impl Store {
    /// Makes the namespace, or reads which incarnation of it this is.
    pub(super) async fn read_incarnation(&self) -> Step<String> {
        let mark = format!("{:032x}", fastrand::u128(..));
        let mut open = redis::cmd("EVAL");
        let Keys { all, ready, scheduled } = &self.keys;
        open.arg(script::OPEN).arg(3).arg(all).arg(ready).arg(scheduled).arg(LAYOUT_VERSION).arg(mark);
        let mut layout = Items::of(self.work.ask(&open).await?)?;
        let (version, incarnation) = (layout.number()?, layout.text()?);
        if version > i64::from(LAYOUT_VERSION) {
            return Err(EngineError::Unusable {
                why: format!(
                    "expected keys of layout {LAYOUT_VERSION} in namespace {}, got layout {version}, which a newer Windlass \
                     has made; update this one, or give it a namespace of its own",
                    self.keys.all
                ),
            }
            .into());
        }
        self.check_names("ready_key", ready, &layout.text()?)?;
        self.check_names("scheduled_key", scheduled, &layout.text()?)?;
        Ok(incarnation)
    }

    /// Processes that looked for jobs in different places would each believe that the others' are gone.
    fn check_names(&self, setting: &str, ours: &str, stored: &str) -> Step<()> {
        if ours == stored {
            return Ok(());
        }
        let (ours, stored) = (ours.trim_end_matches(':'), stored.trim_end_matches(':'));
        let why = format!(
            "expected `{setting}` to be {stored:?}, as namespace {} was made with, got {ours:?}; set it to that, or give this \
             process a namespace of its own",
            self.keys.all
        );
        Err(EngineError::Unusable { why }.into())
    }
}

/// How many keys are looked at in one step.
const ERASE_STEP: u32 = 1_000;

impl Store {
    /// Deletes every key of this namespace, a few at a time.
    pub(super) async fn erase(&self) -> Step<u64> {
        let mut erased = 0;
        for prefix in [&self.keys.all, &self.keys.ready, &self.keys.scheduled] {
            erased += self.erase_below(prefix).await?;
        }
        Ok(erased)
    }

    async fn erase_below(&self, prefix: &str) -> Step<u64> {
        let (mut cursor, mut erased) = ("0".to_owned(), 0);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(format!("{prefix}*")).arg("COUNT").arg(ERASE_STEP);
            let mut found = Items::of(self.work.ask(&scan).await?)?;
            cursor = found.text()?;
            let mut names = found.list()?;
            while !names.is_empty() {
                let unlink = redis::cmd("UNLINK").arg(names.bytes()?).to_owned();
                self.work.ask(&unlink).await?;
                erased += 1;
            }
            if cursor == "0" {
                return Ok(erased);
            }
        }
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
