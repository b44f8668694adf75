//! `[fallback]`: what happens while the server of the store is unavailable.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use windlass::fallback::{FallbackOptions, KeysWhileAway};
use windlass::select::CHECK_TIMEOUTS;

use super::section::{Section, span, text, whole, word};

/// The settings of the fallback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FallbackSettings {
    /// The spool, if the configuration names one.
    pub(crate) engine: Option<FallbackChoice>,
    /// The SQLite file of the spool, relative to the working directory.
    pub(crate) path: PathBuf,
    /// How long the server may take to answer a check or an enqueue before it counts as failed.
    pub(crate) check_timeout: Duration,
    /// Whether jobs with keys are accepted.
    pub(crate) keys: KeysWhileAway,
    /// The maximum number of unfinished jobs in the spool.
    pub(crate) max_jobs: u64,
}

/// The spool, which keeps jobs while the server is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FallbackChoice {
    /// No spool: calls fail
    None,
    /// Memory: jobs are lost if the process dies
    Memory,
    /// An SQLite file
    Sqlite,
}

impl FallbackChoice {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
        }
    }
}

impl Default for FallbackSettings {
    fn default() -> Self {
        let FallbackOptions { check_timeout, keys, spool_max, .. } = FallbackOptions::default();
        let path = PathBuf::from("windlass-spool.db");
        Self { engine: None, path, check_timeout, keys, max_jobs: spool_max }
    }
}

impl FallbackSettings {
    /// The engine's options for these settings.
    pub(crate) fn options(&self) -> FallbackOptions {
        FallbackOptions {
            check_timeout: self.check_timeout,
            keys: self.keys,
            spool_max: self.max_jobs,
            ..FallbackOptions::default()
        }
    }
}

const ENGINES: &[(&str, FallbackChoice)] =
    &[("none", FallbackChoice::None), ("memory", FallbackChoice::Memory), ("sqlite", FallbackChoice::Sqlite)];
const KEYS: &[(&str, KeysWhileAway)] =
    &[("refuse", KeysWhileAway::Refuse), ("accept", KeysWhileAway::Accept)];

pub(super) fn read(mut section: Section<'_, '_>) -> FallbackSettings {
    let default = FallbackSettings::default();
    let (shortest, longest) = CHECK_TIMEOUTS;
    let settings = FallbackSettings {
        engine: section.get("engine", word(ENGINES)),
        path: section.get("path", text).map_or(default.path, PathBuf::from),
        check_timeout: section
            .get("health_check_timeout", span(shortest, longest))
            .unwrap_or(default.check_timeout),
        keys: section.get("keys", word(KEYS)).unwrap_or(default.keys),
        max_jobs: section.get("max_jobs", whole(1, i64::MAX)).map_or(default.max_jobs, i64::unsigned_abs),
    };
    section.finish();
    settings
}
