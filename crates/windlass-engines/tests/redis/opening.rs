//! What an engine checks before it begins, and what it refuses.

use windlass_core::engine::{Admin, Durability, Engine};
use windlass_core::error::EngineError;
use windlass_engines::redis::{RedisEngine, RedisOptions};

use crate::test_store::{TestStore, ask, claim, enqueue, once_it_is_back, server};

async fn refusal(place: &TestStore, options: RedisOptions) -> EngineError {
    RedisEngine::connect(&place.url, options).await.expect_err("the store is refused")
}

#[tokio::test]
async fn the_class_of_durability_is_what_the_server_does() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    for (settings, durability, lost) in [
        (&[("appendonly", "yes"), ("appendfsync", "everysec")][..], Durability::Crash, "second"),
        (&[("appendfsync", "always")], Durability::PowerCut, "nothing"),
        (&[("appendonly", "no"), ("save", "60 1")], Durability::Process, "snapshot"),
        (&[("save", "")], Durability::Process, "everything"),
    ] {
        for (name, value) in settings {
            ask::<()>(&server.url(), &["CONFIG", "SET", name, value]);
        }
        let engine = place.open_with(place.options()).await;
        assert_eq!((engine.info().name, engine.info().durability), ("redis", durability));
        assert!(engine.facts().what_can_be_lost().contains(lost), "{}", engine.facts().what_can_be_lost());
    }
}

#[tokio::test]
async fn a_server_that_drops_keys_is_refused_unless_it_is_wanted() {
    let server = server(&[("maxmemory-policy", "allkeys-lru")]);
    let place = TestStore::on(server.url());
    let error = refusal(&place, place.options()).await.to_string();
    assert!(error.contains("noeviction") && error.contains("allow_eviction"), "{error}");
    let engine = place.ready_with(RedisOptions { allow_eviction: true, ..place.options() }).await;
    enqueue(&engine, 1).await;
}

#[tokio::test]
async fn keys_of_another_layout_are_left_alone() {
    for (version, advice) in [("2", "update"), ("0", "another namespace")] {
        let place = TestStore::shared();
        ask::<i64>(&place.url, &["HSET", &place.key("layout"), "version", version, "store_epoch", "x"]);
        let error = refusal(&place, place.options()).await;
        assert!(matches!(error, EngineError::Unusable { .. }), "{error:?}");
        let told = error.to_string();
        assert!(told.contains(&format!("layout {version}")) && told.contains(advice), "{told}");
    }
}

#[tokio::test]
async fn a_process_that_would_look_for_jobs_elsewhere_is_refused() {
    let place = TestStore::shared();
    let theirs = format!("orders:{{{}}}", place.namespace);
    let engine = place.ready_with(RedisOptions { ready_key: Some(theirs.clone()), ..place.options() }).await;
    enqueue(&engine, 1).await;
    let error = refusal(&place, place.options()).await;
    assert!(matches!(error, EngineError::Unusable { .. }), "{error:?}");
    let ours = place.key("ready");
    assert!(error.to_string().contains(&ours) && error.to_string().contains(&theirs), "{error}");
    assert_eq!(claim(&engine, 5).await.len(), 1);
}

#[tokio::test]
async fn lanes_may_have_other_names() {
    let place = TestStore::shared();
    let ready_key = format!("orders:{{{}}}", place.namespace);
    let engine =
        place.ready_with(RedisOptions { ready_key: Some(ready_key.clone()), ..place.options() }).await;
    let ids = enqueue(&engine, 2).await;
    let lane = format!("{ready_key}:1:5");
    assert_eq!(ask::<u64>(&place.url, &["ZCARD", &lane]), 2);
    assert_eq!(claim(&engine, 5).await.len(), ids.len());
}

#[tokio::test]
async fn a_wrong_password_is_told_with_what_to_do_and_without_the_password() {
    let server = server(&[]);
    let direct = server.url();
    ask::<()>(&direct, &["CONFIG", "SET", "requirepass", "right"]);
    for (login, works) in [(":right@", true), (":wrong@", false), ("", false)] {
        let place = TestStore::on(direct.replace("redis://", &format!("redis://{login}")));
        match RedisEngine::connect(&place.url, place.options()).await {
            Ok(engine) => assert!(works && engine.queues().await.unwrap().is_empty()),
            Err(error) => {
                assert!(!works && matches!(error, EngineError::Unusable { .. }), "{error:?}");
                assert!(
                    error.to_string().contains("password") && !error.to_string().contains("wrong@"),
                    "{error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_user_with_rights_on_its_own_keys_and_channels_is_enough() {
    let server = server(&[]);
    let mut place = TestStore::on(server.url());
    let (keys, channels) = (format!("~{{{}}}:*", place.namespace), format!("&{{{}}}:*", place.namespace));
    let user = [
        "ACL",
        "SETUSER",
        "ada",
        "on",
        ">secret",
        "resetchannels",
        &keys,
        &channels,
        "+@all",
        "-@admin",
        "-@dangerous",
        "+info",
    ];
    ask::<()>(&server.url(), &user);
    place.url = server.url().replace("redis://", "redis://ada:secret@");
    let engine = place.ready().await;
    enqueue(&engine, 1).await;
    assert_eq!(claim(&engine, 5).await.len(), 1);
    assert_eq!(engine.facts().syncs, None, "this user may not read settings, and gets fewer facts");
}

#[tokio::test]
async fn no_server_at_the_address_is_reported_at_once_and_may_pass() {
    let place = TestStore::on("redis://127.0.0.1:1".to_owned());
    let error = refusal(&place, place.options()).await;
    assert!(error.is_passing() && error.to_string().contains("127.0.0.1:1"), "{error:?}");
}

#[tokio::test]
async fn a_new_connection_asks_the_server_again_what_it_is() {
    let server = server(&[]);
    let place = TestStore::on(server.url());
    let engine = place.ready().await;
    assert_eq!(engine.info().durability, Durability::Crash);
    ask::<()>(&server.url(), &["CONFIG", "SET", "appendfsync", "always"]);
    ask::<u64>(&server.url(), &["CLIENT", "KILL", "TYPE", "normal"]);
    // The first call may be the one that detects it.
    once_it_is_back(async || engine.now().await).await;
    assert_eq!(engine.info().durability, Durability::PowerCut);
    assert_eq!(engine.facts().syncs.as_deref(), Some("always"));
}

#[tokio::test]
async fn a_server_with_too_many_connections_may_take_another_later() {
    let server = server(&[("maxclients", "1")]);
    let place = TestStore::on(server.url());
    let only = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let error = refusal(&place, place.options()).await;
    assert!(error.is_passing(), "{error:?}");
    drop(only);
}
