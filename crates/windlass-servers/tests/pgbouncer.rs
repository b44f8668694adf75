//! A pooler in transaction mode between a test and its server.

#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

use common::processes_in;
use windlass_servers::{pgbouncer, postgres};

mod common;

fn start(pool_size: u32) -> (postgres::Server, pgbouncer::Server) {
    let server = postgres::Server::start(&postgres::Options::default()).unwrap();
    let options = pgbouncer::Options { pool_size, ..pgbouncer::Options::default() };
    let pooler = pgbouncer::Server::start(&server.url(), &options).unwrap();
    (server, pooler)
}

/// In session mode, the second client would wait for the first to disconnect.
#[test]
fn two_clients_share_one_connection_between_their_transactions() {
    let (_server, pooler) = start(1);
    let url = pooler.url();
    let sql = format!("SELECT pg_backend_pid();\n\\! psql -XAtc 'SELECT pg_backend_pid()' {url}\n");
    let answer = postgres::psql(&url, &sql).unwrap();
    let pids: Vec<_> = answer.lines().collect();
    assert_eq!(pids.len(), 2, "{answer}");
    assert_eq!(pids[0], pids[1], "both ran on the only connection to the server");
}

#[test]
fn a_pooler_that_is_killed_comes_back_on_the_same_port() {
    let (_server, mut pooler) = start(5);
    let url = pooler.url();
    pooler.kill().unwrap();
    assert_eq!(processes_in(pooler.folder()), 0);
    assert!(postgres::psql(&url, "SELECT 1").is_err());
    pooler.restart().unwrap();
    assert_eq!(pooler.url(), url);
    assert_eq!(postgres::psql(&url, "SELECT 1").unwrap(), "1");
}

#[test]
fn a_pooler_leads_to_any_database_of_the_server_and_leaves_nothing_behind() {
    let (server, pooler) = start(5);
    server.create_database("jobs").unwrap();
    let jobs = pgbouncer::Server::start(&server.url_of("jobs"), &pgbouncer::Options::default()).unwrap();
    assert_eq!(postgres::psql(&jobs.url(), "SELECT current_database()").unwrap(), "jobs");
    let folder = pooler.folder().to_owned();
    drop(pooler);
    assert!(!folder.exists());
    assert_eq!(processes_in(&folder), 0);
}

#[test]
fn a_setting_that_does_not_exist_is_told_with_its_own_words() {
    let settings = vec![("pool_mood".to_owned(), "bad".to_owned())];
    let options = pgbouncer::Options { settings, ..pgbouncer::Options::default() };
    let failure = pgbouncer::Server::start("postgres://a@127.0.0.1:1/b", &options).unwrap_err().to_string();
    assert!(failure.contains("pool_mood"), "{failure}");
}
