//! PostgreSQL against the model.

use std::any::Any;
use std::sync::Arc;

use proptest_state_machine::prop_state_machine;

use windlass_core::clock::ManualClock;
use windlass_core::engine::Engine;
use windlass_engines::postgres::{PostgresEngine, PostgresOptions};

use crate::config;
use crate::pair::{Subject, Test};

/// The PostgreSQL engine in a fresh schema.
struct Postgres;

impl Subject for Postgres {
    fn open(clock: Arc<ManualClock>) -> (Arc<dyn Engine>, Box<dyn Any>) {
        let url = windlass_servers::shared::postgres_url().expect("a PostgreSQL server");
        let schema = format!("model_{:016x}", fastrand::u64(..));
        let options = PostgresOptions { schema, clock: Some(clock), ..PostgresOptions::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let engine = runtime.block_on(PostgresEngine::connect(&url, options)).expect("a fresh schema");
        (Arc::new(engine), Box::new(()))
    }
}

type PostgresAndModel = Test<Postgres>;

prop_state_machine! {
    #![proptest_config(config(24))]

    #[test]
    fn postgres_answers_as_the_model_does(sequential 1..80 => PostgresAndModel);
}
