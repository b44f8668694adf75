//! The checks of `windlass doctor`: what on the server slows jobs down or stops them, what causes it, and
//! what to do.

use tokio_postgres::Row;
use windlass_core::clock::Clock;
use windlass_core::engine::Result;

use super::store_error::StoreResult;
use super::value::{Instant, number};
use super::{PostgresEngine, Store, migrate};
use crate::clock::SystemClock;
use crate::finding::of_clock;
pub use crate::finding::{Finding, Grade};

/// A transaction that is older than this holds vacuum back for longer than is good.
const OLD_SNAPSHOT_SECONDS: f64 = 60.0;
/// From this age on, claims and settles walk over many dead rows.
const OLD_SNAPSHOT_BAD_SECONDS: f64 = 900.0;
/// The same limits for holders of which only the number of transactions since is known.
const OLD_SNAPSHOT_TRANSACTIONS: (f64, f64) = (100_000.0, 10_000_000.0);
/// Dead rows per live row, and how many there must be for it to matter.
const DEAD_PER_LIVE: i64 = 2;
const DEAD_ROWS: i64 = 100_000;
/// Unused space below this does not matter; and how many times its content a table or an index may be big.
const SPACE_BYTES: i64 = 64_000_000;
const SPACE_TIMES: i64 = 4;
/// How full the notification queue may be: it should be nearly empty.
const NOTIFICATIONS: (f64, f64) = (0.01, 0.1);

impl PostgresEngine {
    /// Checks the server and returns findings, worst first.
    pub async fn examine(&self) -> Result<Vec<Finding>> {
        self.run(|store| async move { store.examine().await }).await
    }
}

impl Store {
    async fn examine(&self) -> StoreResult<Vec<Finding>> {
        let mut findings = vec![
            self.examine_snapshots().await?,
            self.examine_indexes().await?,
            self.examine_notifications().await?,
            self.examine_clock().await?,
        ];
        findings.extend(self.examine_tables().await?);
        findings.extend(self.examine_space().await?);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.grade));
        Ok(findings)
    }

    /// Checks the oldest snapshot: vacuum cannot remove rows that it may still see, and dead rows pile up.
    async fn examine_snapshots(&self) -> StoreResult<Finding> {
        let conn = self.work.get().await?;
        let rows = conn.query(&self.sql.oldest_snapshot, &[]).await?;
        let finding = match rows.first() {
            Some(row) => of_snapshot(row)?,
            None => Finding::good("vacuum", "nothing holds back vacuum".to_owned()),
        };
        let rows = conn.query(&self.sql.hidden_sessions, &[]).await?;
        let hidden: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        if hidden == 0 || finding.grade != Grade::Good {
            return Ok(finding);
        }
        let found =
            format!("{} as far as this role sees, but {hidden} sessions are hidden from it", finding.found);
        Ok(Finding::new(
            "vacuum",
            Grade::Unread,
            found,
            "let this role see them: GRANT pg_read_all_stats TO …",
        ))
    }

    async fn examine_indexes(&self) -> StoreResult<Finding> {
        let rows = self.work.get().await?.query(&self.sql.our_indexes, &[]).await?;
        let mut invalid = Vec::new();
        let mut there = Vec::new();
        for row in &rows {
            let name: String = row.try_get(0)?;
            if row.try_get::<_, bool>(1)? { there.push(name) } else { invalid.push(name) }
        }
        let known = |name: &String| there.contains(name) || invalid.contains(name);
        let missing: Vec<_> = migrate::indexes().into_iter().filter(|name| !known(name)).collect();
        if invalid.is_empty() && missing.is_empty() {
            return Ok(Finding::good("indexes", format!("all {} indexes exist and are valid", there.len())));
        }
        Ok(of_indexes(&missing, &invalid))
    }

    async fn examine_notifications(&self) -> StoreResult<Finding> {
        let rows = self.work.get().await?.query(&self.sql.notification_queue, &[]).await?;
        let used: f64 = rows.first().map_or(Ok(0.0), |row| row.try_get(0))?;
        let found = format!("the notification queue is {:.2} % full", used * 100.0);
        let advice = "a session that listens has an open transaction; find it in pg_stat_activity by its LISTEN, and end it".to_owned();
        Ok(Finding::graded("notifications", found, used, NOTIFICATIONS, advice))
    }

    async fn examine_clock(&self) -> StoreResult<Finding> {
        let before = SystemClock.now();
        let rows = self.work.get().await?.query(&self.sql.read_clock, &[]).await?;
        let after = SystemClock.now();
        let server = rows.first().map_or(Ok(Instant(after)), |row| row.try_get::<_, Instant>(0))?.0;
        Ok(of_clock(server, before, after))
    }

    /// Checks for tables in which dead rows outnumber live ones.
    async fn examine_tables(&self) -> StoreResult<Vec<Finding>> {
        let rows = self.work.get().await?.query(&self.sql.our_tables, &[]).await?;
        let mut findings = Vec::new();
        for row in &rows {
            let (name, live, dead): (&str, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let (table, indexes): (&str, &str) = (row.try_get(3)?, row.try_get(4)?);
            let found = format!("{name}: {live} rows, {dead} dead ones; {table}, its indexes {indexes}");
            let is_bloated = dead > DEAD_ROWS && dead > live.saturating_mul(DEAD_PER_LIVE);
            let advice = format!("end what holds back vacuum, or run VACUUM {name}");
            let grade = if is_bloated { Grade::Poor } else { Grade::Good };
            findings.push(Finding::new("tables", grade, found, advice));
        }
        Ok(findings)
    }

    /// Checks for tables and indexes that are far bigger than their content. Vacuum makes room within them
    /// and gives none back.
    async fn examine_space(&self) -> StoreResult<Vec<Finding>> {
        let rows = self.work.get().await?.query(&self.sql.our_space, &[number(&SPACE_BYTES)]).await?;
        let space = |row: &Row| -> StoreResult<Option<Finding>> {
            let (name, is_index): (&str, bool) = (row.try_get(0)?, row.try_get(1)?);
            let (bytes, needed): (i64, i64) = (row.try_get(2)?, row.try_get(3)?);
            Ok(of_space(name, is_index, bytes, needed))
        };
        rows.iter().filter_map(|row| space(row).transpose()).collect()
    }
}

/// The finding about the size of a table or an index, if it is too big.
fn of_space(name: &str, is_index: bool, bytes: i64, needed: i64) -> Option<Finding> {
    if bytes < SPACE_BYTES || bytes <= needed.saturating_mul(SPACE_TIMES) {
        return None;
    }
    let mega = |bytes: i64| bytes / 1_000_000;
    let found = format!("{name} takes {} MB for content that needs about {} MB", mega(bytes), mega(needed));
    let advice = if is_index {
        format!("rebuild it while jobs go on: REINDEX INDEX CONCURRENTLY {name}")
    } else {
        format!(
            "the space is used again when jobs come as fast as before; to give it back, run VACUUM FULL {name} \
             when traffic is low; it locks the table against all other sessions"
        )
    };
    Some(Finding::new("space", Grade::Poor, found, advice))
}

/// The finding about indexes. An invalid index does not count as missing, too.
fn of_indexes(missing: &[String], invalid: &[String]) -> Finding {
    let mut found = Vec::new();
    if !missing.is_empty() {
        found.push(format!("missing: {}", missing.join(", ")));
    }
    if !invalid.is_empty() {
        found.push(format!("invalid: {}", invalid.join(", ")));
    }
    let advice = "create missing indexes as the migration does (`windlass migrate --dry-run` on an empty database prints it), \
                  and rebuild invalid ones with REINDEX INDEX CONCURRENTLY; drop invalid ones that are not Windlass's";
    Finding::new("indexes", Grade::Bad, found.join("; "), advice)
}

/// The finding about the session, prepared transaction or slot that holds back vacuum for the longest.
fn of_snapshot(row: &Row) -> StoreResult<Finding> {
    let (who, kind): (String, &str) = (row.try_get(0)?, row.try_get(3)?);
    let (transactions, seconds): (i32, Option<f64>) = (row.try_get(1)?, row.try_get(2)?);
    let advice = match kind {
        "slot" => {
            format!("drop the replication slot if it is not in use: SELECT pg_drop_replication_slot('{who}')")
        }
        "prepared" => format!("end the prepared transaction: ROLLBACK PREPARED '{who}' (or COMMIT PREPARED)"),
        _ => {
            let pid: i32 = row.try_get(4)?;
            format!("end that transaction, or its session: SELECT pg_terminate_backend({pid})")
        }
    };
    let (found, value, bounds) = match seconds {
        Some(seconds) => {
            let bounds = (OLD_SNAPSHOT_SECONDS, OLD_SNAPSHOT_BAD_SECONDS);
            (format!("{who} has held back vacuum for {seconds:.0} s"), seconds, bounds)
        }
        None => {
            let found = format!("{who} has held back vacuum for {transactions} transactions");
            (found, f64::from(transactions), OLD_SNAPSHOT_TRANSACTIONS)
        }
    };
    Ok(Finding::graded("vacuum", found, value, bounds, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row as the statement for the oldest snapshot may return it.
    async fn snapshot(seconds: &str, transactions: i32, kind: &str) -> Finding {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let text = format!("SELECT 'holder', {transactions}, {seconds}::float8, '{kind}', 4711");
        of_snapshot(&client.query_one(&text, &[]).await.unwrap()).unwrap()
    }

    #[test]
    fn what_takes_more_than_four_times_what_it_holds_is_named_if_it_is_big() {
        assert_eq!(of_space("small", true, SPACE_BYTES - 1, 0), None);
        assert_eq!(of_space("full", true, 4 * SPACE_BYTES, SPACE_BYTES), None);
        for (is_index, cure) in [(true, "REINDEX INDEX CONCURRENTLY it"), (false, "VACUUM FULL it")] {
            let finding = of_space("it", is_index, 401_000_000, 100_000_000).expect("it is too big");
            assert_eq!(finding.found, "it takes 401 MB for content that needs about 100 MB");
            assert!(finding.advice.as_ref().unwrap().contains(cure), "{finding:?}");
        }
    }

    #[tokio::test]
    async fn a_session_that_holds_back_vacuum_is_graded_by_how_long_and_the_advice_ends_it() {
        for (seconds, transactions, grade) in [
            ("59", 1_000_000, Grade::Good),
            ("60", 1, Grade::Poor),
            ("900", 1, Grade::Bad),
            // How old a slot is, only its number of transactions says.
            ("NULL", 99_999, Grade::Good),
            ("NULL", 100_000, Grade::Poor),
            ("NULL", 10_000_000, Grade::Bad),
        ] {
            let finding = snapshot(seconds, transactions, "slot").await;
            assert_eq!(finding.grade, grade, "{finding:?}");
            assert_eq!(finding.advice.is_some(), grade != Grade::Good);
        }
        for (kind, cure) in [
            ("slot", "pg_drop_replication_slot('holder')"),
            ("prepared", "ROLLBACK PREPARED 'holder'"),
            ("session", "pg_terminate_backend(4711)"),
        ] {
            let advice = snapshot("61", 1, kind).await.advice.expect("it is poor");
            assert!(advice.contains(cure), "{advice}");
        }
    }
}
