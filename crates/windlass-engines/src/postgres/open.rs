//! Opening: options, the settings of sessions, and the first check of the server.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use windlass_core::clock::Clock;
use windlass_core::engine::{Durability, Result};
use windlass_core::error::EngineError;

use super::address::Address;

/// The options of a PostgreSQL engine.
#[derive(Clone)]
pub struct PostgresOptions {
    /// The schema of all tables. It is created if it is missing.
    pub schema: String,
    /// Whether to create the schema and bring it up to date on opening. Without it, the schema must be of
    /// this version already, and the user needs no right to create anything.
    pub migrate: bool,
    /// Whether a transaction pooler such as PgBouncer is in between. Then nothing is kept in a session.
    pub pooled: bool,
    /// Whether other processes wake this one by LISTEN and NOTIFY. Without it, polling finds the jobs that
    /// they enqueue within one second.
    pub listen: bool,
    /// The direct URL to listen on, if the engine's own address leads to a pooler. By default, the
    /// engine's own.
    pub listen_url: Option<String>,
    /// How many connections this engine opens at most, besides one for heartbeats and one to listen.
    pub connections: usize,
    /// A clock in place of the server's, for tests that move it.
    pub clock: Option<Arc<dyn Clock>>,
    /// The timeouts and periods of the engine. Only tests change them.
    #[doc(hidden)]
    pub periods: Periods,
}

/// The timeouts and periods of an engine.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Periods {
    /// A statement without an answer fails after this time. The server gives up sooner, so this is for a
    /// server that does not answer at all.
    pub answer_within: Duration,
    /// The same timeout for a heartbeat: the next heartbeat should find a connection that works.
    pub heartbeat_within: Duration,
    /// How often the listener proves that it still receives notifications.
    pub probe_every: Duration,
    /// The listener must receive its own notification within this time, and get a new connection.
    pub probe_answer_within: Duration,
    /// How often a process scans for work while a worker waits.
    pub scan_every: Duration,
    /// After these times a process that has recorded that it waits polls again. Another process may have
    /// read the records just before, and commits a little later.
    pub scans_after_idle: Vec<Duration>,
}

impl Default for Periods {
    fn default() -> Self {
        Self {
            answer_within: Duration::from_secs(35),
            heartbeat_within: Duration::from_secs(8),
            probe_every: Duration::from_secs(30),
            probe_answer_within: Duration::from_secs(5),
            scan_every: Duration::from_secs(1),
            scans_after_idle: [5, 50, 250].map(Duration::from_millis).to_vec(),
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

/// Prints no URL: it may hold a password.
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

/// The length of the longest name that PostgreSQL keeps.
const SCHEMA_BYTES_MAX: usize = 63;

impl PostgresOptions {
    /// Checks the limits that types cannot express.
    pub fn check(&self) -> Result<()> {
        check_schema(&self.schema)?;
        if self.connections == 0 {
            return Err(EngineError::Refused("expected `connections` of at least 1, got 0".to_owned()));
        }
        Ok(())
    }
}

/// Words that would have to be quoted as the name of a schema: the reserved words of SQL, and those of the
/// language of our functions.
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

/// Refuses a name that would have to be quoted, or that the server reserves.
pub(super) fn check_schema(schema: &str) -> Result<()> {
    if schema.starts_with("pg_") || RESERVED.split_whitespace().any(|word| word == schema) {
        return Err(EngineError::Refused(format!(
            "expected `schema` to be a name that PostgreSQL does not reserve, got {schema:?}; choose one that is \
             none of its reserved words and does not begin with pg_"
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

/// The settings of our sessions. Plans must not depend on what the planner happens to know of tables that
/// are empty in one minute and full in the next: every statement here is written for its index. Compiling a
/// claim takes a thousand times as long as running it.
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

/// Makes each statement of a transaction see what was committed while it waited for a lock, whatever the
/// default of the database or the role is. Guarded by
/// `a_database_whose_transactions_are_isolated_by_default_changes_nothing`.
const ISOLATION: &str = r"-c default_transaction_isolation=read\ committed";

/// The settings as options of a connection, where the address leads to the server itself.
fn session_options() -> String {
    let options: Vec<_> = SETTINGS.iter().map(|(name, value)| format!("-c {name}={value}")).collect();
    options.join(" ")
}

/// Begins a transaction with our settings, which apply to it alone, where no session is ours.
pub(super) static BEGIN_POOLED: LazyLock<String> = LazyLock::new(|| {
    let settings: Vec<_> =
        SETTINGS.iter().map(|(name, value)| format!("; SET LOCAL {name} = '{value}'")).collect();
    format!("BEGIN ISOLATION LEVEL READ COMMITTED{}", settings.concat())
});

/// Lets heartbeats not wait for the disk: the next heartbeat makes up for one that is lost with the
/// server's last moments.
const HEARTBEAT: &str = "-c synchronous_commit=off";

/// Reads a database URL and adds the settings of all our sessions.
pub(super) fn address(url: &str, pooled: bool) -> Result<Address> {
    let address = Address::parse(url)?;
    Ok(if pooled { address } else { address.with_defaults(&session_options()).with_settings(ISOLATION) })
}

/// Reads a database URL and adds the settings of the heartbeat session.
pub(super) fn heartbeat_address(url: &str, pooled: bool) -> Result<Address> {
    let address = address(url, pooled)?;
    Ok(if pooled { address } else { address.with_settings(HEARTBEAT) })
}

/// The faults that an acknowledged job survives, by the server's own settings.
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
