//! Opening: options, the settings of our sessions, and a first look at the server.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use windlass_core::clock::Clock;
use windlass_core::engine::{Durability, Result};
use windlass_core::error::EngineError;

use super::address::Address;

/// How a PostgreSQL engine is opened.
#[derive(Clone)]
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
    /// How patient the engine is. Only tests change it.
    #[doc(hidden)]
    pub periods: Periods,
}

/// How patient an engine is.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Periods {
    /// A statement without an answer is given up after this time. The server gives up sooner, so this is for a server
    /// that says nothing at all.
    pub answer_within: Duration,
    /// The same for a heartbeat: the next one should find a connection that works.
    pub heartbeat_within: Duration,
    /// The listener proves this often that it still hears.
    pub probe_every: Duration,
    /// It must hear its own voice within this time, and have a new connection.
    pub heard_within: Duration,
    /// A look for work comes this often while somebody waits.
    pub look_every: Duration,
    /// Whoever says that it waits looks again so long after that: somebody may have looked for waiters just before, and
    /// commits a little later.
    pub looks_after_mark: Vec<Duration>,
}

impl Default for Periods {
    fn default() -> Self {
        Self {
            answer_within: Duration::from_secs(35),
            heartbeat_within: Duration::from_secs(8),
            probe_every: Duration::from_secs(30),
            heard_within: Duration::from_secs(5),
            look_every: Duration::from_secs(1),
            looks_after_mark: [5, 50, 250].map(Duration::from_millis).to_vec(),
        }
    }
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
            periods: Periods::default(),
        }
    }
}

/// A URL may hold a password, so it is never printed.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("migrate", &self.migrate)
            .field("pooled", &self.pooled)
            .field("listen", &self.listen)
            .field("listen_url", &self.listen_url.as_ref().map(|_| "…"))
            .field("connections", &self.connections)
            .field("clock", &self.clock)
            .finish()
    }
}

/// The longest name that PostgreSQL keeps.
const SCHEMA_BYTES_MAX: usize = 63;

impl PostgresOptions {
    /// Checks what types cannot say.
    pub fn check(&self) -> Result<()> {
        check_schema(&self.schema)?;
        if self.connections == 0 {
            return Err(EngineError::Refused("expected `connections` of at least 1, got 0".to_owned()));
        }
        Ok(())
    }
}

/// Words that would have to be quoted as the name of a schema: those that SQL keeps for itself, and those that the
/// language of our functions does.
const RESERVED: &str = "\
    all analyse analyze and any array as asc asymmetric authorization begin binary both by case cast \
    check collate collation column concurrently constraint create cross current_catalog current_date \
    current_role current_schema current_time current_timestamp current_user declare default deferrable \
    desc distinct do else end except execute false fetch for foreach foreign freeze from full grant group \
    having if ilike in initially inner intersect into is isnull join lateral leading left like limit \
    localtime localtimestamp loop natural not notnull null offset on only or order outer overlaps placing \
    primary references returning right select session_user similar some strict symmetric system_user \
    table tablesample then to trailing true union unique user using variadic verbose when where while \
    window with";

/// Refuses a name that would have to be quoted, or that the server keeps for itself.
pub(super) fn check_schema(schema: &str) -> Result<()> {
    if schema.starts_with("pg_") || RESERVED.split_whitespace().any(|word| word == schema) {
        return Err(EngineError::Refused(format!(
            "expected `schema` to be a name that PostgreSQL leaves to others, got {schema:?}; reserved words and names \
             that begin with pg_ are its own"
        )));
    }
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let starts_well = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if starts_well && schema.len() <= SCHEMA_BYTES_MAX && schema.bytes().all(plain) {
        return Ok(());
    }
    Err(EngineError::Refused(format!(
        "expected `schema` of 1 to {SCHEMA_BYTES_MAX} characters out of a-z 0-9 _, not starting with a digit, got {schema:?}"
    )))
}

/// What our sessions are set to. Plans must not depend on what the planner happens to know of tables that are empty in
/// one minute and full in the next: every statement here is written for its index. To compile a claim takes a thousand
/// times as long as to run it.
const SETTINGS: [(&str, &str); 9] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("statement_timeout", "30s"),
    ("lock_timeout", "5s"),
    ("idle_in_transaction_session_timeout", "30s"),
];

/// Each statement of a transaction must see what was committed while it waited for a lock, whatever the database or the role
/// has for a default. Guarded by `a_database_whose_transactions_are_isolated_by_default_changes_nothing`.
const ISOLATION: &str = r"-c default_transaction_isolation=read\ committed";

/// The settings as a connection asks for them where the address leads to the server itself.
fn session_options() -> String {
    let options: Vec<_> = SETTINGS.iter().map(|(name, value)| format!("-c {name}={value}")).collect();
    options.join(" ")
}

/// Begins a transaction with our settings where no session is ours: they go with it.
pub(super) static BEGIN_POOLED: LazyLock<String> = LazyLock::new(|| {
    let settings: Vec<_> =
        SETTINGS.iter().map(|(name, value)| format!("; SET LOCAL {name} = '{value}'")).collect();
    format!("BEGIN ISOLATION LEVEL READ COMMITTED{}", settings.concat())
});

/// A heartbeat that is lost with the server's last moments is made up for by the next, so it need not wait for the disk.
const HEARTBEAT: &str = "-c synchronous_commit=off";

/// Reads a database URL and adds what all our sessions have.
pub(super) fn address(url: &str, pooled: bool) -> Result<Address> {
    let address = Address::parse(url)?;
    Ok(if pooled { address } else { address.with_defaults(&session_options()).with_settings(ISOLATION) })
}

/// The same for heartbeats.
pub(super) fn heartbeat_address(url: &str, pooled: bool) -> Result<Address> {
    let address = address(url, pooled)?;
    Ok(if pooled { address } else { address.with_settings(HEARTBEAT) })
}

/// What an acknowledged job survives, by the server's own settings.
pub(super) fn durability(fsync: bool, synchronous_commit: &str) -> Durability {
    if fsync && synchronous_commit != "off" { Durability::PowerCut } else { Durability::Crash }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_server_keeps_for_itself_are_refused_with_the_reason() {
        for schema in ["user", "order", "loop", "pg_jobs", "pg_catalog"] {
            let error = check_schema(schema).unwrap_err().to_string();
            assert!(error.contains(schema) && error.contains("reserved words"), "{error}");
        }
        for schema in ["windlass", "users", "orders", "pgjobs", "_user"] {
            check_schema(schema).unwrap();
        }
    }

    #[tokio::test]
    async fn every_word_that_this_server_would_want_quoted_is_refused() {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let reserved = "SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')";
        let rows = client.query(reserved, &[]).await.unwrap();
        assert!(rows.len() > 50);
        for row in &rows {
            assert!(check_schema(row.get(0)).is_err(), "{}", row.get::<_, &str>(0));
        }
    }
}
