//! Redis servers can be killed, frozen and restarted. `cargo xtask test` runs these if Redis is installed.

#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::processes_in;
use windlass_servers::redis::{Options, Server};

mod common;

fn start() -> Server {
    Server::start(&Options::default()).unwrap()
}

/// Returns the first line of the answer.
fn ask(address: SocketAddr, command: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

#[test]
fn a_killed_server_keeps_what_it_has_acknowledged_and_comes_back_on_the_same_port() {
    let mut server = start();
    let (url, address) = (server.url(), server.address());
    assert_eq!(ask(address, "INCRBY jobs 7").unwrap(), ":7");
    server.kill().unwrap();
    assert_eq!(processes_in(server.folder()), 0);
    assert!(ask(address, "PING").is_err());
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(ask(address, "INCRBY jobs 0").unwrap(), ":7");
    server.restart().unwrap();
    assert_eq!(ask(address, "INCRBY jobs 0").unwrap(), ":7");
}

#[test]
fn a_server_has_a_process_group_of_its_own_so_that_the_end_of_a_shell_does_not_thaw_it() {
    let server = start();
    let group_of = |process: &Path| -> String {
        let stat = std::fs::read_to_string(process.join("stat")).unwrap();
        let (_, after_name) = stat.rsplit_once(") ").unwrap();
        after_name.split(' ').nth(2).unwrap().to_owned()
    };
    let places = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_ours = |process: &PathBuf| {
        std::fs::read_link(process.join("cwd")).is_ok_and(|place| place.starts_with(server.folder()))
    };
    let processes: Vec<_> = places.filter(is_ours).collect();
    assert!(!processes.is_empty(), "it runs");
    let own = group_of(Path::new("/proc/self"));
    assert!(processes.iter().all(|process| group_of(process) != own), "{processes:?} beside {own}");
}

#[test]
fn a_frozen_server_is_silent_until_it_thaws() {
    let server = start();
    server.freeze().unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let silence = reader.read_line(&mut String::new()).unwrap_err();
    assert_eq!(silence.kind(), ErrorKind::WouldBlock);
    server.thaw().unwrap();
    reader.get_ref().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "+PONG\r\n");
}

#[test]
fn a_dropped_server_leaves_nothing_behind_and_a_wrong_setting_is_told() {
    let server = start();
    let (folder, address) = (server.folder().to_owned(), server.address());
    drop(server);
    assert!(!folder.exists());
    assert_eq!(processes_in(&folder), 0);
    assert!(ask(address, "PING").is_err());
    let settings = vec![("no-such-setting".to_owned(), "1".to_owned())];
    let failure = Server::start(&Options { settings, ..Options::default() }).unwrap_err().to_string();
    assert!(failure.contains("no-such-setting"), "{failure}");
}
