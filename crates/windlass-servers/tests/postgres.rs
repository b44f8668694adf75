//! PostgreSQL servers can be killed, frozen and restarted, and leave nothing behind.

#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::processes_in;
use windlass_servers::postgres::{self, Options, Server};

mod common;

fn start() -> Server {
    Server::start(&Options::default()).unwrap()
}

#[test]
fn a_server_answers_on_loopback_and_on_its_socket() {
    let server = start();
    for url in [server.url(), server.socket_url()] {
        assert_eq!(postgres::psql(&url, "SELECT 1, 'a'; SELECT 2").unwrap(), "1|a\n2");
    }
}

#[test]
fn settings_are_as_documented_and_the_callers_win() {
    let settings = vec![("max_connections".to_owned(), "17".to_owned())];
    let server = Server::start(&Options { settings, fsync: false, ..Options::default() }).unwrap();
    let shown = |name: &str| server.psql(&format!("SHOW {name}")).unwrap();
    assert_eq!(shown("max_connections"), "17");
    assert_eq!(shown("fsync"), "off");
    assert_eq!(shown("synchronous_commit"), "on");
    assert_eq!(shown("shared_buffers"), "128MB");
    assert_eq!(shown("server_encoding"), "UTF8");
    assert_eq!(shown("lc_collate"), "C");
}

#[test]
fn a_database_may_have_any_name() {
    let server = start();
    let url = server.create_database("jobs").unwrap();
    assert_eq!(postgres::psql(&url, "SELECT current_database()").unwrap(), "jobs");
    server.create_database("a \"b\"").unwrap();
    let failure = server.create_database("jobs").unwrap_err().to_string();
    assert!(failure.contains("already exists"), "{failure}");
}

#[test]
fn a_wrong_password_is_refused() {
    let hba = vec!["host all guarded 127.0.0.1/32 scram-sha-256".to_owned()];
    let server = Server::start(&Options { hba, ..Options::default() }).unwrap();
    server.psql("CREATE ROLE guarded LOGIN PASSWORD 'right'").unwrap();
    let url = |password: &str| server.url().replace("postgres@", &format!("guarded:{password}@"));
    assert_eq!(postgres::psql(&url("right"), "SELECT 1").unwrap(), "1");
    let failure = postgres::psql(&url("wrong"), "SELECT 1").unwrap_err().to_string();
    assert!(failure.contains("password authentication failed"), "{failure}");
}

#[test]
fn a_killed_server_leaves_no_process_and_keeps_what_was_committed() {
    let mut server = start();
    let url = server.url();
    server.psql("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)").unwrap();
    assert!(processes_in(server.folder()) > 1, "the first process and its children");
    server.kill().unwrap();
    assert_eq!(processes_in(server.folder()), 0);
    assert!(postgres::psql(&url, "SELECT 1").is_err());
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(server.psql("SELECT n FROM kept").unwrap(), "7");
    assert!(server.log().contains("not properly shut down"), "a kill is not a clean stop");
}

#[test]
fn a_server_that_was_stopped_in_good_order_needs_no_repair() {
    let mut server = start();
    server.stop().unwrap();
    assert_eq!(processes_in(server.folder()), 0);
    server.restart().unwrap();
    server.restart().unwrap();
    assert_eq!(server.psql("SELECT 1").unwrap(), "1");
    assert!(!server.log().contains("not properly shut down"));
}

#[test]
fn a_frozen_server_is_silent_until_it_thaws() {
    let server = start();
    server.freeze().unwrap();
    let mut client = TcpStream::connect(server.address()).unwrap();
    // The request whether the server speaks TLS, which it answers with one letter.
    client.write_all(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let silence = client.read_exact(&mut [0]).unwrap_err();
    assert_eq!(silence.kind(), ErrorKind::WouldBlock);
    server.thaw().unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = [0];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"N");
}

#[test]
fn a_frozen_server_can_be_killed_and_restarted() {
    let mut server = start();
    server.freeze().unwrap();
    server.kill().unwrap();
    server.restart().unwrap();
    server.freeze().unwrap();
    server.restart().unwrap();
    assert_eq!(server.psql("SELECT 1").unwrap(), "1");
}

#[test]
fn a_dropped_server_leaves_nothing_behind() {
    let server = start();
    let (folder, url) = (server.folder().to_owned(), server.url());
    drop(server);
    assert!(!folder.exists());
    assert_eq!(processes_in(&folder), 0);
    assert!(postgres::psql(&url, "SELECT 1").is_err());
}

#[test]
fn a_setting_that_does_not_exist_is_told_with_the_servers_own_words() {
    let settings = vec![("no_such_setting".to_owned(), "1".to_owned())];
    let failure = Server::start(&Options { settings, ..Options::default() }).unwrap_err().to_string();
    assert!(failure.contains("no_such_setting"), "{failure}");
}

#[test]
fn a_client_can_tell_by_the_certificate_that_it_is_this_server() {
    let options = Options { tls: true, ..Options::default() };
    let (server, other) = (Server::start(&options).unwrap(), Server::start(&options).unwrap());
    let ask = |authority: &Server| {
        let path = authority.authority().unwrap();
        let url = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), path.display());
        postgres::psql(&url, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    };
    assert_eq!(ask(&server).unwrap(), "t");
    let failure = ask(&other).unwrap_err().to_string();
    assert!(failure.contains("certificate verify failed"), "{failure}");
    assert_eq!(start().authority(), None, "a server without TLS has no certificate");
}
