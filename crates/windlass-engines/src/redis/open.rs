//! Opening: options, and the layout of a namespace.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::clock::Clock;
use windlass_core::engine::Result;
use windlass_core::error::EngineError;

use super::Store;
use super::keys::Keys;
use super::reply::ReplyReader;
use super::script;
use super::store_epoch::Opened;
use super::store_error::StoreResult;

/// The layout of keys that this version reads and writes.
pub(super) const LAYOUT_VERSION: u32 = 1;

/// The options of a Redis engine.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// The prefix of all keys, in braces. Two namespaces on one server share nothing.
    pub namespace: String,
    /// The prefix of ready lanes, if not `{namespace}:ready`. Must contain the hash tag `{namespace}`.
    pub ready_key: Option<String>,
    /// The prefix of scheduled lanes, if not `{namespace}:scheduled`. Must contain the hash tag, too.
    pub scheduled_key: Option<String>,
    /// A file with the certificate (PEM) of the authority that signed the server's certificate, if the system
    /// does not know it.
    pub ca_file: Option<PathBuf>,
    /// Whether to accept a server that drops keys when its memory is full. Jobs may vanish there.
    pub allow_eviction: bool,
    /// Whether other processes wake this one. Without it, jobs that they enqueue are found by polling.
    pub listen: bool,
    /// A clock in place of the server's, for tests that move it.
    pub clock: Option<Arc<dyn Clock>>,
    /// The timeouts and intervals of the engine. Only tests change them.
    #[doc(hidden)]
    pub periods: Periods,
    /// The major version whose form of scripts is used, if not the server's own. Only tests change it.
    #[doc(hidden)]
    pub scripts_of: Option<u32>,
}

/// The timeouts and intervals of an engine.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Periods {
    /// The timeout of a call.
    pub answer_within: Duration,
    /// The timeout of a heartbeat: the next one should find a connection that works.
    pub heartbeat_within: Duration,
    /// The interval at which the listener probes its connection.
    pub probe_every: Duration,
    /// The timeout of such a probe.
    pub probe_answer_within: Duration,
    /// The interval of scans for due jobs that no notification announced.
    pub scan_every: Duration,
}

impl Default for Periods {
    fn default() -> Self {
        Self {
            answer_within: Duration::from_secs(10),
            heartbeat_within: Duration::from_secs(8),
            probe_every: Duration::from_secs(15),
            probe_answer_within: Duration::from_secs(5),
            scan_every: Duration::from_secs(1),
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
            scripts_of: None,
        }
    }
}

impl RedisOptions {
    /// Reads the authority's certificate.
    pub(super) fn authority(&self) -> Result<Option<Vec<u8>>> {
        let Some(path) = &self.ca_file else { return Ok(None) };
        let read = std::fs::read(path);
        let refused = |error| {
            EngineError::Refused(format!(
                "expected a certificate in PEM format in `ca_file`, but {} cannot be read ({error})",
                path.display()
            ))
        };
        read.map(Some).map_err(refused)
    }
}

/// Says what another layout means, and what to do about it; `None` if the layout is this version's.
pub(super) fn other_layout(version: i64) -> Option<&'static str> {
    if version < i64::from(LAYOUT_VERSION) {
        return Some("which no version of Windlass writes; use another namespace, or delete these keys");
    }
    (version > i64::from(LAYOUT_VERSION))
        .then_some("which a newer Windlass writes; update this one, or give it a namespace of its own")
}

impl Store {
    /// Creates the namespace, or reads its store epoch. New job numbers continue behind the known ones. If
    /// the store epoch is not the known one, the replacement is counted.
    pub(super) async fn read_store_epoch(&self, known: &Opened) -> StoreResult<String> {
        let mark = format!("{:032x}", fastrand::u128(..));
        let mut open = redis::cmd("EVAL");
        let Keys { all, ready, scheduled } = &self.keys;
        open.arg(script::OPEN).arg(3).arg(all).arg(ready).arg(scheduled).arg(LAYOUT_VERSION).arg(mark);
        open.arg(known.seen.last_job());
        open.arg(&*known.store_epoch).arg(self.replaced.load(Ordering::SeqCst));
        open.arg(self.estimated_now().as_micros());
        let mut layout = ReplyReader::of(self.work.query(&open).await?)?;
        let (version, store_epoch) = (layout.number()?, layout.text()?);
        if let Some(what) = other_layout(version) {
            let all = &self.keys.all;
            let why = format!(
                "expected keys of layout {LAYOUT_VERSION} in namespace {all}, got layout {version}, {what}"
            );
            return Err(EngineError::Unusable { why }.into());
        }
        self.check_names("ready_key", ready, &layout.text()?)?;
        self.check_names("scheduled_key", scheduled, &layout.text()?)?;
        let replaced = layout.number_or_none()?.and_then(|times| u64::try_from(times).ok());
        self.replaced.fetch_max(replaced.unwrap_or_default(), Ordering::SeqCst);
        Ok(store_epoch)
    }

    /// Checks the prefixes of lanes. Processes with different prefixes would each believe that the jobs of
    /// the others are gone.
    fn check_names(&self, setting: &str, ours: &str, stored: &str) -> StoreResult<()> {
        if ours == stored {
            return Ok(());
        }
        let (ours, stored) = (ours.trim_end_matches(':'), stored.trim_end_matches(':'));
        let why = format!(
            "expected `{setting}` to be {stored:?}, with which namespace {} was created, got {ours:?}; set it to \
             {stored:?}, or give this process a namespace of its own",
            self.keys.all
        );
        Err(EngineError::Unusable { why }.into())
    }
}

/// How many keys are read in one step.
const ERASE_STEP: u32 = 1_000;

impl Store {
    /// Deletes every key of this namespace, a few at a time.
    pub(super) async fn erase(&self) -> StoreResult<u64> {
        let mut erased = 0;
        for prefix in [&self.keys.all, &self.keys.ready, &self.keys.scheduled] {
            erased += self.erase_below(prefix).await?;
        }
        Ok(erased)
    }

    async fn erase_below(&self, prefix: &str) -> StoreResult<u64> {
        let (mut cursor, mut erased) = ("0".to_owned(), 0);
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(format!("{prefix}*")).arg("COUNT").arg(ERASE_STEP);
            let mut found = ReplyReader::of(self.work.query(&scan).await?)?;
            cursor = found.text()?;
            let mut names = found.list()?;
            while !names.is_empty() {
                let unlink = redis::cmd("UNLINK").arg(names.bytes()?).to_owned();
                self.work.query(&unlink).await?;
                erased += 1;
            }
            if cursor == "0" {
                return Ok(erased);
            }
        }
    }
}
