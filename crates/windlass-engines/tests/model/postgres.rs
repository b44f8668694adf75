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
#[path = "../schemas/mod.rs"]
mod schemas;
use schemas::Schema;

/// The PostgreSQL engine in an empty schema.
struct Postgres;

impl Subject for Postgres {
    fn open(clock: Arc<ManualClock>) -> (Arc<dyn Engine>, Box<dyn Any>) {
        let (engine, schema) = open(clock);
        (Arc::new(engine), Box::new(schema))
    }
}

/// The PostgreSQL engine, with enqueues through the SQL function.
struct PostgresThroughSql;

impl Subject for PostgresThroughSql {
    fn open(clock: Arc<ManualClock>) -> (Arc<dyn Engine>, Box<dyn Any>) {
        let (engine, schema) = open(clock);
        (Arc::new(ThroughSql { engine, url: schema.url() }), Box::new(schema))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn open(clock: Arc<ManualClock>) -> (PostgresEngine, Schema) {
    let schema = Schema::borrow().await;
    let options =
        PostgresOptions { schema: schema.name.clone(), clock: Some(clock), ..PostgresOptions::default() };
    let engine = PostgresEngine::connect(&schema.url(), options).await.expect("a schema");
    (engine, schema)
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
