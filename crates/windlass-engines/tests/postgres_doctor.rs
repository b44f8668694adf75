//! A check-up of a real server names what is wrong with it.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use windlass_engines::postgres::{Finding, Grade, PostgresEngine, PostgresOptions};

async fn engine() -> (PostgresEngine, String, tokio_postgres::Client) {
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let schema = format!("doctor_{:016x}", fastrand::u64(..));
    let options = PostgresOptions { schema: schema.clone(), ..PostgresOptions::default() };
    let engine = PostgresEngine::connect(&url, options).await.expect("a fresh schema");
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    (engine, schema, client)
}

fn about<'a>(findings: &'a [Finding], what: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.about == what).expect("everything is looked at")
}

#[tokio::test]
async fn a_fresh_schema_is_in_good_health() {
    let (engine, _, _client) = engine().await;
    let findings = engine.examine().await.unwrap();
    for what in ["indexes", "notifications", "clock", "tables"] {
        assert_eq!(about(&findings, what).grade, Grade::Good, "{findings:?}");
    }
}

#[tokio::test]
async fn a_missing_index_is_named() {
    let (engine, schema, client) = engine().await;
    client.batch_execute(&format!("DROP INDEX {schema}.delayed_jobs_ready")).await.unwrap();
    let findings = engine.examine().await.unwrap();
    let finding = about(&findings, "indexes");
    assert_eq!(finding.grade, Grade::Bad);
    assert!(finding.found.contains("delayed_jobs_ready"), "{finding:?}");
    assert_eq!(findings[0].about, "indexes", "the worst comes first");
}

#[tokio::test]
async fn the_session_that_holds_back_vacuum_is_named() {
    let (engine, _, client) = engine().await;
    client
        .batch_execute(
            "SET application_name = 'nightly-export'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1",
        )
        .await
        .unwrap();
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    // Others of the same run may hold one for a moment, but this one stays and so becomes the oldest.
    let named = tokio::time::timeout(std::time::Duration::from_secs(30), async {
        loop {
            let findings = engine.examine().await.unwrap();
            let found = about(&findings, "vacuum").found.clone();
            if found.contains(&pid.to_string()) {
                return found;
            }
        }
    });
    let found = named.await.expect("the session is named in the end");
    assert!(found.contains("nightly-export"), "{found}");
}
