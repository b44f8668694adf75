//! Every behaviour of the conformance suite once more, behind a pooler in transaction mode whose few
//! connections all callers share. State that one statement left in a session would affect the next
//! statement of another caller.

use std::sync::{Arc, OnceLock};

use windlass_conformance::harness::Fixture;
use windlass_core::clock::ManualClock;
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};
use windlass_servers::{pgbouncer, shared};

/// The number of connections to the server, for all tests together.
const POOL_SIZE: u32 = 4;

fn pooler() -> &'static pgbouncer::Server {
    static POOLER: OnceLock<pgbouncer::Server> = OnceLock::new();
    POOLER.get_or_init(|| {
        let url = shared::postgres_url().expect("a PostgreSQL server");
        let options = pgbouncer::Options { pool_size: POOL_SIZE, ..pgbouncer::Options::default() };
        pgbouncer::Server::start(&url, &options).expect("a pooler")
    })
}

async fn behind_a_pooler() -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let schema = crate::schemas::Schema::borrow_pooled().await;
    let options = PostgresOptions {
        schema: schema.name.clone(),
        clock: Some(clock.clone()),
        pooled: true,
        ..PostgresOptions::default()
    };
    let engine = PostgresEngine::connect(&schema.url_at(&pooler().url()), options).await.expect("a schema");
    let raw = crate::raw::Tables { url: schema.url(), schema: schema.name.clone() };
    Fixture { engine: Arc::new(engine), clock, raw: Some(Box::new(raw)), keep: Box::new(schema) }
}

windlass_conformance::suite!(every, behind_a_pooler);

#[test]
fn every_behaviour_runs_behind_a_pooler_and_none_is_skipped() {
    assert_eq!(every::BEHAVIOURS, windlass_conformance::BEHAVIOURS);
    assert_eq!(every::SKIPS, []);
}

// Claims by fairness keys and of suspects are among the behaviours above; consecutive ends of jobs without
// retention are not.
windlass_conformance::used_suite!(used_for_traces, behind_a_pooler, ForJobsThatLeaveNothing);
