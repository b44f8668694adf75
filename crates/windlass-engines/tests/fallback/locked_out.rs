//! The primary runs and rejects every login: its password was changed.

use std::sync::Arc;

use windlass_core::engine::Engine;
use windlass_core::enqueue::EnqueueAnswer;
use windlass_core::error::EngineError;
use windlass_engines::fallback::{Connect, FallbackEngine};
use windlass_engines::redis::{RedisEngine, RedisOptions};
use windlass_servers::redis::{Options, Server};

use crate::primary::{
    declaration, job, memory, payloads, put, quick, spool, status, until_away, until_replayed,
};

fn url_with(server: &Server, password: &str) -> String {
    server.url().replace("redis://", &format!("redis://:{password}@"))
}

pub(crate) fn tell<T: redis::FromRedisValue>(url: &str, words: &[&str]) -> T {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| _ = command.arg(*word));
    command.query(&mut connection).unwrap()
}

/// Accepts only this password from now on, also for sessions that are open already.
fn change_password(server: &Server, from: &str, to: &str) {
    tell::<()>(&url_with(server, from), &["CONFIG", "SET", "requirepass", to]);
    tell::<u64>(&url_with(server, to), &["CLIENT", "KILL", "TYPE", "normal"]);
}

fn connect_to(url: String) -> Connect {
    Arc::new(move || {
        let url = url.clone();
        Box::pin(async move {
            Ok(Arc::new(RedisEngine::connect(&url, RedisOptions::default()).await?) as Arc<dyn Engine>)
        })
    })
}

#[tokio::test]
async fn while_the_password_is_wrong_jobs_go_into_the_spool_and_they_are_replayed_when_it_is_right_again() {
    let server = Server::start(&Options::default()).unwrap();
    tell::<()>(&server.url(), &["CONFIG", "SET", "requirepass", "secret"]);
    let connect = connect_to(url_with(&server, "secret"));
    let engine = FallbackEngine::open("redis", connect.clone(), memory(), quick()).await.unwrap();
    engine.declare(declaration()).await.unwrap();
    assert!(matches!(put(&engine, job(0)).await, EnqueueAnswer::New(_)));
    change_password(&server, "secret", "other");
    until_away(&engine).await;
    for number in 1..=3 {
        spool(&engine, job(number)).await;
    }
    let refused = FallbackEngine::open("redis", connect, memory(), quick()).await.unwrap_err();
    assert!(matches!(&refused, EngineError::Unusable { why } if why.contains("password")), "{refused:?}");
    change_password(&server, "other", "secret");
    until_replayed(&engine).await;
    let told = status(&engine).await;
    assert_eq!((told.spooled, told.returned, told.primary_healthy), (3, 3, true));
    let store = RedisEngine::connect(&url_with(&server, "secret"), RedisOptions::default()).await.unwrap();
    assert_eq!(payloads(&store).await, [0, 1, 2, 3]);
}
