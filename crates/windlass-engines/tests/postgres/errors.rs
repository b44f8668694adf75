//! Errors that say what to do, each of its own kind, and never the password.

use std::sync::Once;

use windlass_core::engine::{Admin, Engine};
use windlass_core::error::EngineError;
use windlass_core::job::JobId;
use windlass_engines::postgres::{PostgresEngine, PostgresOptions, migrate};
use windlass_servers::postgres::Server;

use super::{TestStore, new_job, request, server};

const SECRET: &str = "hunter2-secret";

/// Starts a server with a user who needs a password, and a user without any right.
fn guarded() -> &'static Server {
    static USERS: Once = Once::new();
    let make = format!("CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'; CREATE ROLE poor LOGIN");
    USERS.call_once(|| drop(server().psql(&make).unwrap()));
    server()
}

fn url_of(user: &str, database: &str) -> String {
    format!("postgres://{user}@{}/{database}", guarded().address())
}

/// Returns the error of opening a store.
async fn refusal(url: &str, options: PostgresOptions) -> EngineError {
    match PostgresEngine::connect(url, options).await {
        Ok(_) => panic!("expected an error"),
        Err(error) => said(error),
    }
}

/// Asserts that no error contains the password.
fn said(error: EngineError) -> EngineError {
    let text = format!("{error} {error:?}");
    assert!(!text.contains(SECRET) && !text.contains("hunter2"), "{text}");
    error
}

fn assert_unusable(error: &EngineError, words: &[&str]) {
    assert!(matches!(error, EngineError::Unusable { .. }), "{error:?}");
    assert_says(error, words);
}

fn assert_says(error: &EngineError, words: &[&str]) {
    let text = error.to_string();
    words.iter().for_each(|word| assert!(text.contains(word), "expected {word:?} in: {text}"));
}

#[tokio::test]
async fn a_wrong_password_is_told_apart_from_a_server_that_is_away() {
    let url = url_of(&format!("guarded:{SECRET}-but-wrong"), "postgres");
    let error = refusal(&url, PostgresOptions::default()).await;
    assert_unusable(&error, &["guarded", "check user and password"]);
}

#[tokio::test]
async fn a_missing_password_says_where_it_belongs() {
    let error = refusal(&url_of("guarded", "postgres"), PostgresOptions::default()).await;
    assert_unusable(&error, &["password", "database URL"]);
}

#[tokio::test]
async fn an_unknown_user_is_named() {
    let error = refusal(&url_of("missing_role", "postgres"), PostgresOptions::default()).await;
    assert_unusable(&error, &["missing_role", "check user and password"]);
}

#[tokio::test]
async fn a_missing_database_is_named_with_what_makes_it() {
    let url = url_of(&format!("guarded:{SECRET}"), "not_there");
    let error = refusal(&url, PostgresOptions::default()).await;
    assert_unusable(&error, &["\"not_there\" does not exist", "createdb"]);
}

#[tokio::test]
async fn a_user_who_may_not_create_is_told_who_may_migrate() {
    let place = TestStore::on(url_of("poor", "postgres"));
    let error = refusal(&place.url, place.options()).await;
    assert_unusable(&error, &["permission denied", "grant", "migrate"]);
}

#[tokio::test]
async fn a_schema_that_an_administrator_made_for_a_user_needs_no_right_to_make_schemas() {
    let place = TestStore::on(url_of("poor", "postgres"));
    guarded().psql(&format!("CREATE SCHEMA {} AUTHORIZATION poor", place.schema)).unwrap();
    place.ready().await.enqueue(request(vec![new_job()])).await.unwrap();
}

#[tokio::test]
async fn a_user_without_rights_on_the_tables_is_told_which_one_it_lacks() {
    let owner = TestStore::on(guarded().url());
    owner.open().await;
    let place = TestStore::at(url_of("poor", "postgres"), owner.schema.clone());
    let error = refusal(&place.url, PostgresOptions { migrate: false, ..place.options() }).await;
    assert_unusable(&error, &["permission denied for schema", "grant"]);

    owner.sql(&format!(
        "GRANT USAGE ON SCHEMA {0} TO poor; GRANT SELECT ON ALL TABLES IN SCHEMA {0} TO poor",
        owner.schema
    ));
    let reader = place.open().await;
    assert!(reader.job(JobId(1)).await.unwrap().is_none(), "reading is allowed");
    let declared = windlass_core::engine::Declaration {
        queues: vec![windlass_core::queue::QueueSpec::new(super::queue())],
        types: Vec::new(),
    };
    assert_unusable(&said(reader.declare(declared).await.unwrap_err()), &["permission denied", "grant"]);
}

#[tokio::test]
async fn a_schema_that_a_newer_binary_made_is_left_alone() {
    let place = TestStore::shared();
    place.open().await;
    place.sql("INSERT INTO windlass.schema_versions (version, name) VALUES (999, 'from the future')");
    for migrate in [true, false] {
        let error = refusal(&place.url, PostgresOptions { migrate, ..place.options() }).await;
        assert_unusable(&error, &["999", "newer"]);
    }
    let error = migrate::pending(&place.url, &place.options()).await.unwrap_err();
    assert_unusable(&error, &["999", "newer"]);
}

#[tokio::test]
async fn a_missing_schema_is_named_if_it_may_not_be_made() {
    let place = TestStore::shared();
    let error = refusal(&place.url, PostgresOptions { migrate: false, ..place.options() }).await;
    assert_unusable(&error, &[&place.schema, "windlass migrate"]);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_by_host_and_port() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("postgres://me:{SECRET}@{free}/jobs");
    let error = refusal(&url, PostgresOptions::default()).await;
    assert!(matches!(error, EngineError::Unavailable { .. }), "{error:?}");
    assert_says(&error, &["127.0.0.1", &free.port().to_string(), "check that the server runs"]);
}

#[tokio::test]
async fn an_unknown_host_is_named() {
    let url = format!("postgres://me:{SECRET}@no-such-host.invalid/jobs");
    let error = refusal(&url, PostgresOptions::default()).await;
    assert!(matches!(error, EngineError::Unavailable { .. }), "{error:?}");
    assert_says(&error, &["no-such-host.invalid"]);
}

#[tokio::test]
async fn a_server_that_takes_no_writes_says_where_to_go() {
    let place = TestStore::shared();
    let url = format!("{}?options=-c%20default_transaction_read_only%3Don", place.url);
    let standby = TestStore::at(url, place.schema.clone());
    let error = refusal(&standby.url, standby.options()).await;
    assert!(matches!(error, EngineError::Unavailable { .. }), "{error:?}");
    assert_says(&error, &["read-only", "primary", "target_session_attrs"]);

    place.ready().await;
    let reader = standby.open().await;
    assert!(reader.job(JobId(1)).await.unwrap().is_none(), "a standby can be read");
    let error = reader.enqueue(request(vec![new_job()])).await.unwrap_err();
    assert!(matches!(error, EngineError::Unavailable { .. }), "{error:?}");
    assert_says(&error, &["read-only", "primary"]);
}

#[tokio::test]
async fn a_url_that_cannot_be_read_is_refused_without_repeating_it() {
    let wrong = [
        format!("postgres://me:{SECRET}@host:many/jobs"),
        format!("postgres://me:{SECRET}@host/jobs?channel_binding=perhaps"),
        format!("postgres://me:{SECRET}@host/jobs?{SECRET}=1"),
        format!("host=here password={SECRET} port=many"),
        format!("host=here {SECRET}"),
        format!("mysql://me:{SECRET}@host/jobs"),
        SECRET.to_owned(),
    ];
    for url in wrong {
        let error = refusal(&url, PostgresOptions::default()).await;
        assert_unusable(&error, &["expected a database URL such as postgres://"]);
    }
    let url = format!("postgres://me:not@{SECRET}@host/jobs");
    assert_unusable(&refusal(&url, PostgresOptions::default()).await, &["percent-encoded", "%40"]);
    let url = format!("postgres://me:{SECRET}@host/jobs?sslmode={SECRET}");
    assert_unusable(&refusal(&url, PostgresOptions::default()).await, &["sslmode", "verify-full"]);
    let url = format!("postgres://me:{SECRET}@host/jobs?sslmode=perhaps");
    let error = refusal(&url, PostgresOptions::default()).await;
    assert_unusable(&error, &["sslmode", "verify-full", "perhaps"]);
}

#[tokio::test]
async fn nothing_that_is_printed_holds_a_password() {
    let url = url_of(&format!("guarded:{SECRET}"), "postgres");
    guarded().psql("GRANT CREATE ON DATABASE postgres TO guarded").unwrap();
    let place = TestStore::on(url.clone());
    let options = PostgresOptions { listen_url: Some(url), ..place.options() };
    let printed = format!("{options:?}");
    assert!(printed.contains("listen_url") && !printed.contains(SECRET), "{printed}");
    let engine = place.open_with(options).await;
    let printed = format!("{engine:?} {engine:#?}");
    assert!(!printed.contains(SECRET), "{printed}");
}
