//! The conditions of the measurements: without them a figure says nothing.

use anyhow::Context as _;
use sqlx::{Connection as _, PgConnection};

/// The settings that change the figures most.
const SETTINGS: [&str; 7] = [
    "shared_buffers",
    "max_wal_size",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "autovacuum",
    "max_connections",
];

/// The date, the machine and the server, in one line.
pub(crate) async fn conditions(server: &str) -> anyhow::Result<String> {
    let mut connection = PgConnection::connect(server).await.context("connecting to the server")?;
    let date = "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')";
    let date: String = sqlx::query_scalar(date).fetch_one(&mut connection).await?;
    let version = setting(&mut connection, "server_version").await?;
    let mut settings = Vec::new();
    for name in SETTINGS {
        settings.push(format!("{name} {}", setting(&mut connection, name).await?));
    }
    Ok(format!(
        "\nconditions: {date}; {} cores{}; PostgreSQL {version} ({}); all on one machine",
        std::thread::available_parallelism()?,
        processor().map(|name| format!(" of {name}")).unwrap_or_default(),
        settings.join(", "),
    ))
}

async fn setting(connection: &mut PgConnection, name: &str) -> anyhow::Result<String> {
    Ok(sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(connection).await?)
}

/// The name of the processor, where the system reports it.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
