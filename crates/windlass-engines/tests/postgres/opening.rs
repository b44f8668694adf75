//! Opening a store: by many processes at once on a schema that is not created yet, and with migrations that
//! are interrupted in the middle.

use std::process::{Child, Command, Stdio};
use std::thread;

use windlass_core::engine::Engine;
use windlass_core::error::EngineError;
use windlass_engines::postgres::{PostgresEngine, PostgresOptions, migrate};
use windlass_servers::proxy::Proxy;

use super::{TestStore, claim, enqueue, eventually, server, session};

/// The environment variable by which a test tells a child process the schema to open.
const SCHEMA: &str = "WINDLASS_TEST_SCHEMA";
/// The environment variable for the URL of the server.
const URL: &str = "WINDLASS_TEST_URL";

fn tables(place: &TestStore) -> String {
    place.sql(&format!(
        "SELECT c.relname, c.relkind FROM pg_class c WHERE c.relnamespace = '{}'::regnamespace \
         AND c.relname !~ '_\\d{{8}}' ORDER BY 1",
        place.schema
    ))
}

fn assert_one_whole_schema(place: &TestStore) {
    let single = TestStore::shared();
    single_open(&single);
    assert_eq!(tables(place), tables(&single));
    assert_eq!(migrations(place), migrations(&single));
}

fn migrations(place: &TestStore) -> String {
    place.sql("SELECT version, name FROM windlass.schema_versions ORDER BY version")
}

/// Opens and closes the store, on a runtime and in a thread of its own.
fn single_open(place: &TestStore) {
    let (url, options) = (place.url.clone(), place.options());
    let opened = thread::spawn(move || runtime().block_on(PostgresEngine::connect(&url, options)).map(drop));
    opened.join().unwrap().expect("the schema can be opened");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn twenty_threads_open_a_fresh_schema_at_once_and_make_it_once() {
    let place = TestStore::shared();
    thread::scope(|scope| {
        let openers: Vec<_> = (0..20).map(|_| scope.spawn(|| single_open(&place))).collect();
        openers.into_iter().for_each(|opener| opener.join().unwrap());
    });
    assert_one_whole_schema(&place);
}

#[test]
fn twenty_processes_open_a_fresh_schema_at_once_and_make_it_once() {
    if let (Ok(url), Ok(schema)) = (std::env::var(URL), std::env::var(SCHEMA)) {
        return single_open(&TestStore::at(url, schema));
    }
    let place = TestStore::shared();
    let children: Vec<_> = (0..20).map(|_| this_test_again(&place)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert_one_whole_schema(&place);
}

fn this_test_again(place: &TestStore) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "opening::twenty_processes_open_a_fresh_schema_at_once_and_make_it_once"]);
    command.env(URL, &place.url).env(SCHEMA, &place.schema);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A schema in which another session is about to create one of our tables, so that a migration waits in its
/// middle.
struct Obstacle {
    place: TestStore,
    session: tokio_postgres::Client,
}

impl Obstacle {
    async fn at(place: TestStore) -> Self {
        let session = session(&place.url).await;
        let schema = &place.schema;
        session.batch_execute(&format!("CREATE SCHEMA {schema}")).await.unwrap();
        let begun = format!("BEGIN; CREATE TABLE {schema}.delayed_jobs_dlq (id int)");
        session.batch_execute(&begun).await.unwrap();
        Self { place, session }
    }

    /// Returns the server process that runs the migration, once it waits.
    fn waiting(&self) -> String {
        let sql = format!(
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'",
            self.place.schema
        );
        eventually("the migration waits", || Some(self.place.sql(&sql)).filter(|pid| !pid.is_empty()))
    }

    async fn go_away(self) -> TestStore {
        self.session.batch_execute("ROLLBACK").await.unwrap();
        self.place
    }
}

fn opening(url: String, options: PostgresOptions) -> thread::JoinHandle<Result<(), EngineError>> {
    thread::spawn(move || runtime().block_on(PostgresEngine::connect(&url, options)).map(drop))
}

async fn assert_works(place: &TestStore) {
    let engine = place.ready().await;
    enqueue(&engine, 1).await;
    assert_eq!(claim(&engine, 1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_whose_session_is_ended_in_the_middle_leaves_nothing_and_can_be_made_again() {
    let obstacle = Obstacle::at(TestStore::shared()).await;
    let opening = opening(obstacle.place.url.clone(), obstacle.place.options());
    let pid = obstacle.waiting();
    obstacle.place.sql(&format!("SELECT pg_terminate_backend({pid})"));
    let error = opening.join().unwrap().expect_err("its session was ended");
    assert!(error.is_passing(), "a repeat helps: {error:?}");
    let place = obstacle.go_away().await;
    assert_eq!(tables(&place), "", "no table of a partial migration remains");
    assert_works(&place).await;
    assert_one_whole_schema(&place);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_whose_connection_is_cut_in_the_middle_is_made_once() {
    let proxy = Proxy::start(server().address()).unwrap();
    let obstacle = Obstacle::at(TestStore::on(server().url())).await;
    let opening = opening(proxy.url(&server().url()), obstacle.place.options());
    obstacle.waiting();
    proxy.cut_all();
    let error = opening.join().unwrap().expect_err("its connection was cut");
    assert!(error.is_unknown(), "the server may continue the migration: {error:?}");
    let place = obstacle.go_away().await;
    // The server has received the whole text and does not know yet that no client waits for it. It may
    // finish the migration or abandon it; both outcomes are correct.
    assert_works(&place).await;
    assert_one_whole_schema(&place);
}

#[tokio::test]
async fn a_migration_waits_for_another_one_and_finds_nothing_to_do() {
    let place = TestStore::shared();
    let (first, second) = (place.options(), place.options());
    let both = tokio::join!(migrate::apply(&place.url, &first), migrate::apply(&place.url, &second));
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
    assert_one_whole_schema(&place);
    assert_eq!(migrate::pending(&place.url, &place.options()).await.unwrap(), []);
}

#[tokio::test]
async fn an_engine_without_rights_to_create_works_on_a_schema_that_is_up_to_date() {
    let server = server();
    let owner = TestStore::on(server.url());
    owner.open().await;
    let schema = &owner.schema;
    server
        .psql(&format!(
            "CREATE ROLE worker LOGIN; GRANT USAGE ON SCHEMA {schema} TO worker;
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO worker;
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO worker;
             GRANT EXECUTE ON FUNCTION {schema}.create_partitions, {schema}.drop_partitions TO worker"
        ))
        .unwrap();
    let place = TestStore::at(server.url().replace("postgres@", "worker@"), schema.clone());
    assert_works(&place).await;
    let engine = place.open_with(PostgresOptions { migrate: false, ..place.options() }).await;
    engine.sweep(10).await.unwrap();
    engine.prune(10).await.unwrap();
    let days = "pg_tables WHERE tablename ~ '^job_history_\\d{8}'";
    assert!(place.count(days) > 0, "even the partitions ahead can be created");
}
