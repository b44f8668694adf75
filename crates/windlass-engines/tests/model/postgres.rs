//! PostgreSQL against the model.

use std::any::Any;
use std::sync::Arc;

use proptest_state_machine::prop_state_machine;

use windlass_core::clock::ManualClock;
use windlass_core::engine::Engine;
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};

use crate::config;
use crate::pair::{Subject, Test};

#[path = "../inside/through_sql.rs"]
mod through_sql;
use through_sql::ThroughSql;

/// The PostgreSQL engine in a fresh schema.
struct Postgres;

impl Subject for Postgres {
    fn open(clock: Arc<ManualClock>) -> (Arc<dyn Engine>, Box<dyn Any>) {
        (Arc::new(fresh(&url(), clock)), Box::new(()))
    }
}

/// The same, but jobs come in through the SQL function.
struct PostgresThroughSql;

impl Subject for PostgresThroughSql {
    fn open(clock: Arc<ManualClock>) -> (Arc<dyn Engine>, Box<dyn Any>) {
        let url = url();
        (Arc::new(ThroughSql { engine: fresh(&url, clock), url }), Box::new(()))
    }
}

fn url() -> String {
    windlass_servers::shared::postgres_url().expect("a PostgreSQL server")
}

fn fresh(url: &str, clock: Arc<ManualClock>) -> PostgresEngine {
    let schema = format!("model_{:016x}", fastrand::u64(..));
    let options = PostgresOptions { schema, clock: Some(clock), ..PostgresOptions::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(PostgresEngine::connect(url, options)).expect("a fresh schema")
}

type PostgresAndModel = Test<Postgres>;
type ThroughSqlAndModel = Test<PostgresThroughSql>;

prop_state_machine! {
    #![proptest_config(config(24))]

    #[test]
    fn postgres_answers_as_the_model_does(sequential 1..80 => PostgresAndModel);

    #[test]
    fn the_sql_function_answers_as_the_model_does(sequential 1..80 => ThroughSqlAndModel);
}
