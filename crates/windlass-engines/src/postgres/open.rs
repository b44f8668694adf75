//! Opening: options, the settings of our sessions, and a first look at the server.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Config;
use windlass_core::clock::Clock;
use windlass_core::engine::{Durability, Result};
use windlass_core::error::EngineError;

/// How a PostgreSQL engine is opened.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The schema in which everything is kept. Made if it is not there.
    pub schema: String,
    /// Whether the schema is made and brought up to date on opening. Without it the schema must be of this
    /// version already, and the user needs no right to create anything.
    pub migrate: bool,
    /// Whether a transaction pooler such as PgBouncer stands between. Then nothing is kept in a session.
    pub pooled: bool,
    /// Whether other processes wake this one by LISTEN and NOTIFY. Without it, work that they put in is found by
    /// looking once a second.
    pub listen: bool,
    /// Where to listen, if the engine's own address leads to a pooler: a direct one. The engine's own if nothing.
    pub listen_url: Option<String>,
    /// How many connections this engine opens at the most, besides one for heartbeats and one to listen.
    pub connections: usize,
    /// A clock in place of the server's, for tests that move it.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: "windlass".to_owned(),
            migrate: true,
            pooled: false,
            listen: true,
            listen_url: None,
            connections: 8,
            clock: None,
        }
    }
}

/// The longest name that PostgreSQL keeps.
const SCHEMA_BYTES_MAX: usize = 63;

impl PostgresOptions {
    /// Checks what types cannot say.
    pub fn check(&self) -> Result<()> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        let starts_well = self.schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        if !starts_well || self.schema.len() > SCHEMA_BYTES_MAX || !self.schema.bytes().all(plain) {
            return Err(EngineError::Refused(format!(
                "expected `schema` of 1 to {SCHEMA_BYTES_MAX} characters out of a-z 0-9 _, not starting with a digit, got {:?}",
                self.schema
            )));
        }
        if self.connections == 0 {
            return Err(EngineError::Refused("expected `connections` of at least 1, got 0".to_owned()));
        }
        Ok(())
    }
}

/// What our sessions are set to where the address leads to the server itself. Plans must not depend on what the
/// planner happens to know of tables that are empty in one minute and full in the next: every statement here is
/// written for its index.
const SESSION: &str = "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off \
    -c enable_mergejoin=off -c jit=off -c plan_cache_mode=force_generic_plan -c statement_timeout=30s \
    -c lock_timeout=5s -c idle_in_transaction_session_timeout=30s";

/// Reads a database URL and adds what all our sessions have.
pub(super) fn config(url: &str, pooled: bool) -> Result<Config> {
    let mut config = Config::from_str(url).map_err(|error| wrong_url(&error))?;
    config
        .application_name("windlass")
        .connect_timeout(Duration::from_secs(5))
        .tcp_user_timeout(Duration::from_secs(20))
        .keepalives_idle(Duration::from_secs(10))
        .keepalives_interval(Duration::from_secs(5))
        .keepalives_retries(3);
    if !pooled {
        let given = config.get_options().unwrap_or_default().to_owned();
        config.options(format!("{SESSION} {given}"));
    }
    Ok(config)
}

/// The same for heartbeats: one that is lost with the server's last moments is made up for by the next, so it
/// need not wait for the disk.
pub(super) fn heartbeat_config(url: &str, pooled: bool) -> Result<Config> {
    let mut config = config(url, pooled)?;
    if !pooled {
        let given = config.get_options().unwrap_or_default().to_owned();
        config.options(format!("{given} -c synchronous_commit=off"));
    }
    Ok(config)
}

fn wrong_url(error: &tokio_postgres::Error) -> EngineError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    EngineError::Unusable {
        why: format!(
            "expected a database URL such as postgres://user@host:5432/database, got one that cannot be read ({error}{cause})"
        ),
    }
}

/// What an acknowledged job survives, by the server's own settings.
pub(super) fn durability(fsync: bool, synchronous_commit: &str) -> Durability {
    if fsync && synchronous_commit != "off" { Durability::PowerCut } else { Durability::Crash }
}
