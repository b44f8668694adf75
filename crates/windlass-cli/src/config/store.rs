//! `[store]`: where jobs are kept.

use std::path::PathBuf;
use std::time::Duration;

use super::section::{Section, span, text, word};

/// Where jobs are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreSettings {
    /// Which engine keeps them.
    pub(crate) engine: EngineChoice,
    /// The SQLite file, relative to the working directory.
    pub(crate) path: PathBuf,
    /// What an acknowledged job survives.
    pub(crate) synchronous: Synchronous,
    /// How long to wait for another process that writes to the file.
    pub(crate) busy_timeout: Duration,
}

/// Which engine keeps the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EngineChoice {
    /// An SQLite file.
    Sqlite,
    /// Nothing but memory: jobs are gone with the process.
    Memory,
}

impl EngineChoice {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Memory => "memory",
        }
    }
}

/// What an acknowledged job survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Synchronous {
    /// A power cut.
    Full,
    /// The death of the process; a power cut may take the last moments.
    Normal,
}

impl Synchronous {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
        }
    }
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            engine: EngineChoice::Sqlite,
            path: PathBuf::from("windlass.db"),
            synchronous: Synchronous::Full,
            busy_timeout: Duration::from_secs(5),
        }
    }
}

const ENGINES: &[(&str, EngineChoice)] =
    &[("sqlite", EngineChoice::Sqlite), ("memory", EngineChoice::Memory)];
const SYNCHRONOUS: &[(&str, Synchronous)] = &[("full", Synchronous::Full), ("normal", Synchronous::Normal)];

pub(crate) fn read(mut section: Section<'_, '_>) -> StoreSettings {
    let default = StoreSettings::default();
    let settings = StoreSettings {
        engine: section.get("engine", engine).unwrap_or(default.engine),
        path: section.get("path", text).map_or(default.path, PathBuf::from),
        synchronous: section.get("synchronous", word(SYNCHRONOUS)).unwrap_or(default.synchronous),
        busy_timeout: section
            .get("busy_timeout", span(Duration::from_millis(1), Duration::from_secs(600)))
            .unwrap_or(default.busy_timeout),
    };
    section.finish();
    settings
}

fn engine(value: &super::tree::Value) -> Result<EngineChoice, String> {
    match text(value).as_deref() {
        Ok(known @ ("postgres" | "postgresql" | "redis")) => {
            Err(format!("expected one of sqlite, memory, got \"{known}\", which is not in this build"))
        }
        _ => word(ENGINES)(value),
    }
}
