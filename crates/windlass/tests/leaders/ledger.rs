//! The ledger of writes by leaders under their fences, on the server beside the leases. Each write checks
//! its fence, as the docs advise users.

use windlass::postgres::tokio_postgres::{self, NoTls, types::ToSql};
use windlass::types::lease::LeaseFence;

use super::workers::PATIENCE;

/// A write: its process and its fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) fence: i64,
    pub(super) pid: i64,
}

const TABLES: &str = "CREATE SCHEMA IF NOT EXISTS ledger;
    CREATE TABLE IF NOT EXISTS ledger.lines (id bigserial PRIMARY KEY, fence bigint NOT NULL, pid bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS ledger.refusals (id bigserial PRIMARY KEY, fence bigint NOT NULL, pid bigint NOT NULL)";

/// The write. A new term waits for a transaction that holds this key share, and a renewal does not.
const WRITE: &str = "WITH held AS MATERIALIZED (
        SELECT 1 FROM windlass.background_job_leases
        WHERE job_name = $1 AND fence = $2 AND term = $3::text::uuid AND held_by_worker_id IS NOT NULL
            AND heartbeat_at + expiry_micros * interval '1 microsecond' > clock_timestamp()
        FOR KEY SHARE
    )
    INSERT INTO ledger.lines (fence, pid) SELECT $2, $4 FROM held";

/// The write on Redis works as it would on any other platform: the platform stores the highest fence it has
/// seen, and refuses lower ones.
const WRITE_SCRIPT: &str = "local top = tonumber(redis.call('GET', KEYS[1]) or '0')
    if tonumber(ARGV[1]) < top then
      redis.call('RPUSH', KEYS[3], ARGV[1] .. ' ' .. ARGV[2])
      return 0
    end
    redis.call('SET', KEYS[1], ARGV[1])
    redis.call('RPUSH', KEYS[2], ARGV[1] .. ' ' .. ARGV[2])
    return 1";

/// The ledger, shared by all processes that open it.
pub(super) enum Ledger {
    Postgres(tokio_postgres::Client),
    Redis(redis::aio::MultiplexedConnection),
}

impl Ledger {
    pub(super) async fn open(url: &str) -> Self {
        if url.starts_with("redis") {
            let client = redis::Client::open(url).expect("a valid address");
            let connection = client.get_multiplexed_async_connection_with_config(&patient()).await;
            return Self::Redis(connection.expect("the server is up"));
        }
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server is up");
        tokio::spawn(connection);
        Self::Postgres(client)
    }

    /// Creates the tables, once.
    pub(super) async fn begin(&self) {
        if let Self::Postgres(client) = self {
            client.batch_execute(TABLES).await.expect("the server is up");
        }
    }

    /// Writes a line under this fence, or records that it was refused. Returns whether it was written.
    pub(super) async fn write(&mut self, lease: &LeaseFence) -> bool {
        let pid = i64::from(std::process::id());
        match self {
            Self::Postgres(client) => {
                let (duty, fence, term) = (lease.duty.as_str(), lease.term.fence, lease.term.id.to_string());
                let params: [&(dyn ToSql + Sync); 4] = [&duty, &fence, &term, &pid];
                let written = client.execute(WRITE, &params).await.expect("the server is up") == 1;
                if !written {
                    let refused = "INSERT INTO ledger.refusals (fence, pid) VALUES ($1, $2)";
                    client.execute(refused, &[&fence, &pid]).await.expect("the server is up");
                }
                written
            }
            Self::Redis(connection) => {
                let script = redis::Script::new(WRITE_SCRIPT);
                let mut call = script.key("ledger:top");
                call.key("ledger:lines").key("ledger:refusals").arg(lease.term.fence).arg(pid);
                call.invoke_async::<i64>(connection).await.expect("the server is up") == 1
            }
        }
    }

    /// All written lines, in order.
    pub(super) async fn lines(&mut self) -> Vec<Line> {
        self.read("lines").await
    }

    /// All refused lines, in order.
    pub(super) async fn refusals(&mut self) -> Vec<Line> {
        self.read("refusals").await
    }

    async fn read(&mut self, what: &str) -> Vec<Line> {
        match self {
            Self::Postgres(client) => {
                let all = format!("SELECT fence, pid FROM ledger.{what} ORDER BY id");
                let rows = client.query(&all, &[]).await.expect("the server is up");
                rows.iter().map(|row| Line { fence: row.get(0), pid: row.get(1) }).collect()
            }
            Self::Redis(connection) => {
                let mut all = redis::cmd("LRANGE");
                all.arg(format!("ledger:{what}")).arg(0).arg(-1);
                let lines: Vec<String> = all.query_async(connection).await.expect("the server is up");
                lines.iter().map(|line| read_line(line)).collect()
            }
        }
    }
}

/// The settings of a connection that also waits for a busy machine.
pub(super) fn patient() -> redis::AsyncConnectionConfig {
    let config = redis::AsyncConnectionConfig::new();
    config.set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE))
}

fn read_line(line: &str) -> Line {
    let (fence, pid) = line.split_once(' ').expect("two numbers");
    Line { fence: fence.parse().expect("a number"), pid: pid.parse().expect("a number") }
}
