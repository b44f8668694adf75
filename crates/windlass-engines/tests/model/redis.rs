//! Redis against the model.

use std::any::Any;
use std::sync::Arc;

use proptest_state_machine::prop_state_machine;

use windlass_core::clock::ManualClock;
use windlass_core::engine::Engine;
use windlass_engines::redis::{RedisEngine, RedisOptions};

use crate::config;
use crate::pair::{Subject, Test};

/// The Redis engine in a fresh namespace.
struct Redis;

impl Subject for Redis {
    fn open(clock: Arc<ManualClock>) -> (Arc<dyn Engine>, Box<dyn Any>) {
        let url = windlass_servers::shared::redis_url().expect("a Redis server");
        let namespace = format!("model-{:016x}", fastrand::u64(..));
        let options = RedisOptions { namespace, clock: Some(clock), ..RedisOptions::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let engine = runtime.block_on(RedisEngine::connect(&url, options)).expect("a fresh namespace");
        (Arc::new(engine), Box::new(()))
    }
}

type RedisAndModel = Test<Redis>;

prop_state_machine! {
    #![proptest_config(config(24))]

    #[test]
    fn redis_answers_as_the_model_does(sequential 1..80 => RedisAndModel);
}
