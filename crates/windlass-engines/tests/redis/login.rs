//! A password that is changed while an engine works.

use std::time::{Duration, Instant};

use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_engines::redis::RedisEngine;
use windlass_servers::redis::Server;

use crate::test_store::{TestStore, WAIT_MAX, ask, claim, enqueue, server};
use crate::waking::until_listening;

/// Starts a server that requires a password.
fn locked_server() -> Server {
    let server = server(&[]);
    ask::<()>(&server.url(), &["CONFIG", "SET", "requirepass", "secret"]);
    server
}

fn url_with(server: &Server, password: &str) -> String {
    server.url().replace("redis://", &format!("redis://:{password}@"))
}

/// Accepts only this password from now on, also for sessions that are open already.
fn change_password(server: &Server, from: &str, to: &str) {
    ask::<()>(&url_with(server, from), &["CONFIG", "SET", "requirepass", to]);
    for kind in ["normal", "pubsub"] {
        ask::<u64>(&url_with(server, to), &["CLIENT", "KILL", "TYPE", kind]);
    }
}

/// Repeats a call until the engine gives this answer.
async fn until_answer<T>(engine: &RedisEngine, is_so: impl Fn(Result<(), EngineError>) -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(told) = is_so(engine.now().await.map(drop)) {
            return told;
        }
        assert!(start.elapsed() < WAIT_MAX, "waited in vain");
        // may sleep: no signal says when the engine contacts the server again.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn connections(server: &Server, password: &str) -> u64 {
    let stats: String = ask(&url_with(server, password), &["INFO", "stats"]);
    let counted = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    counted.unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_password_that_is_changed_is_told_with_what_to_do_and_all_goes_on_when_it_is_right_again() {
    let server = locked_server();
    let place = TestStore::on(url_with(&server, "secret"));
    let engine = place.ready().await;
    let ids = enqueue(&engine, 3).await;
    until_listening(1, &place, &place.url).await;
    change_password(&server, "secret", "other");
    let why = until_answer(&engine, |answer| match answer {
        Err(EngineError::Unusable { why }) => Some(why),
        Err(error) if error.is_passing() => None,
        other => panic!("expected the call to be cut off or refused, got {other:?}"),
    })
    .await;
    assert!(why.contains("password") && why.contains(&server.address().to_string()), "{why}");
    assert!(!why.contains("secret"), "{why}");
    change_password(&server, "other", "secret");
    until_answer(&engine, Result::ok).await;
    until_listening(1, &place, &place.url).await;
    let claimed: Vec<_> = claim(&engine, 5).await.iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(claimed, ids);
}

#[tokio::test]
async fn a_server_that_refuses_a_login_is_not_asked_by_each_call() {
    let server = locked_server();
    let place = TestStore::on(url_with(&server, "secret"));
    let engine = place.ready().await;
    change_password(&server, "secret", "other");
    let refused = |answer| matches!(answer, Err(EngineError::Unusable { .. })).then_some(());
    until_answer(&engine, refused).await;
    // Between two logins by calls there is a pause. On a busy machine few calls fall into one pause, so the
    // test waits for a row of calls that made hardly any connection. If each call made one, no row would.
    let (start, row) = (Instant::now(), 30);
    loop {
        let before = connections(&server, "other");
        for _ in 0..row {
            assert!(matches!(engine.now().await, Err(EngineError::Unusable { .. })));
        }
        // Among them are the connection that counts, and those of polls and of the listener.
        let made = connections(&server, "other") - before;
        if made <= row / 3 {
            break;
        }
        assert!(start.elapsed() < WAIT_MAX, "expected fewer connections, got {made} by {row} calls");
    }
}
