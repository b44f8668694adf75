//! PostgreSQL as the primary.

use std::sync::Arc;

use windlass_core::engine::Engine;
use windlass_core::enqueue::Enqueued;
use windlass_engines::fallback::Connect;
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};
use windlass_servers::proxy::Proxy;

use crate::place::{Primary, job, payloads, put, quick, spill, sqlite, status, until_away, until_home};

async fn on_postgres() -> Primary {
    let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
    let address = url.split('@').nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let proxy = Proxy::start(address.parse().unwrap()).unwrap();
    let schema = format!("home_{:016x}", fastrand::u64(..));
    let options = PostgresOptions { schema, ..PostgresOptions::default() };
    let store = Arc::new(PostgresEngine::connect(&url, options.clone()).await.unwrap());
    let through = proxy.url(&url);
    let connect: Connect = Arc::new(move || {
        let (url, options) = (through.clone(), options.clone());
        Box::pin(
            async move { Ok(Arc::new(PostgresEngine::connect(&url, options).await?) as Arc<dyn Engine>) },
        )
    });
    Primary { proxy, name: "postgres", connect, store }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_into_the_spill_while_postgres_is_away_and_come_home_when_it_is_back() {
    let primary = on_postgres().await;
    let folder = tempfile::tempdir().unwrap();
    let engine = primary.with(sqlite(folder.path()), quick()).await;
    assert!(matches!(put(&engine, job(0)).await, Enqueued::New(_)));
    primary.go();
    until_away(&engine).await;
    for number in 1..20 {
        spill(&engine, job(number)).await;
    }
    primary.come_back();
    until_home(&engine).await;
    assert_eq!(payloads(&*primary.store).await, (0..20).collect::<Vec<_>>());
    assert_eq!(status(&engine).await.returned, 19);
}
