//! A database for one scenario, created and dropped by it, so that no scenario finds the rows of another.

use std::str::FromStr;

use anyhow::Context as _;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgPool};

/// The size of the pool: one connection for each caller, and some for the worker.
const CONNECTIONS_MAX: u32 = 20;

/// A new, empty database.
pub(crate) struct Database {
    server: PgConnectOptions,
    name: String,
}

impl Database {
    pub(crate) async fn create(server_url: &str, scenario: &str) -> anyhow::Result<Self> {
        let server = PgConnectOptions::from_str(server_url)
            .context("expected an address such as postgres://postgres@localhost/postgres in DATABASE_URL")?;
        // The process id separates two measurements on one server.
        let name = format!("windlass_peers_{scenario}_{}", std::process::id());
        let mut connection = PgConnection::connect_with(&server).await.context("connecting to the server")?;
        connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        Ok(Self { server, name })
    }

    pub(crate) async fn pool(&self) -> anyhow::Result<PgPool> {
        Ok(PgPoolOptions::new().max_connections(CONNECTIONS_MAX).connect_with(self.options()).await?)
    }

    /// Opens a transaction that sees the database as it is now. Until it is released, vacuum cannot remove
    /// any row that dies later.
    pub(crate) async fn pin(&self) -> anyhow::Result<Snapshot> {
        let mut connection = PgConnection::connect_with(&self.options()).await?;
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        // The snapshot is taken by the first statement, not by BEGIN.
        connection.execute("SELECT count(*) FROM pg_class").await?;
        Ok(Snapshot(connection))
    }

    fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }

    pub(crate) async fn drop(self) -> anyhow::Result<()> {
        let mut connection = PgConnection::connect_with(&self.server).await?;
        connection.execute(AssertSqlSafe(format!("DROP DATABASE {} WITH (FORCE)", self.name))).await?;
        Ok(())
    }
}

/// An open transaction.
pub(crate) struct Snapshot(PgConnection);

impl Snapshot {
    /// Ends the transaction. Fails if it did not last until now: then nothing was pinned.
    pub(crate) async fn release(mut self) -> anyhow::Result<()> {
        self.0.execute("COMMIT").await.context("expected the pinned transaction to be still open")?;
        Ok(())
    }
}
