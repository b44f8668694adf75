//! A proxy injects the faults that a test has switched on. The server behind it echoes its input.

#![allow(clippy::unwrap_used, reason = "all of this is a test, also what tests share")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::until;
use windlass_servers::proxy::Proxy;

mod common;

/// Long enough for a byte that moves, short enough to wait for one that does not.
const SILENCE: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that counts the bytes that it receives and sends them back.
struct Echo {
    address: SocketAddr,
    heard: Arc<AtomicUsize>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let echo = Self { address: listener.local_addr().unwrap(), heard: Arc::default() };
        let heard = Arc::clone(&echo.heard);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let heard = Arc::clone(&heard);
                thread::spawn(move || say_again(client, &heard));
            }
        });
        echo
    }
}

fn say_again(mut client: TcpStream, heard: &AtomicUsize) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = client.read(&mut chunk) {
        heard.fetch_add(count, Ordering::SeqCst);
        if client.write_all(&chunk[..count]).is_err() {
            return;
        }
    }
}

fn start() -> (Echo, Proxy) {
    let echo = Echo::start();
    let proxy = Proxy::start(echo.address).unwrap();
    (echo, proxy)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect(proxy.address()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// Connects a client, and returns when the proxy has certainly accepted it.
fn connect_and_talk(proxy: &Proxy) -> TcpStream {
    let mut client = connect(proxy);
    talk(&mut client);
    client
}

fn talk(client: &mut TcpStream) {
    client.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
}

fn expect_silence(client: &mut TcpStream) {
    client.set_read_timeout(Some(SILENCE)).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
}

/// Reads all bytes before the connection ends, in whatever way it ends.
fn read_to_the_end(client: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match client.read(&mut chunk) {
            Ok(0) => return all,
            Ok(count) => all.extend(&chunk[..count]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
                return all;
            }
        }
    }
}

#[test]
fn bytes_go_both_ways_and_connections_are_counted() {
    let (_echo, proxy) = start();
    let mut clients = [connect_and_talk(&proxy), connect_and_talk(&proxy)];
    clients.iter_mut().for_each(talk);
    assert_eq!((proxy.connections(), proxy.open_connections()), (2, 2));
    drop(clients);
    until("both are gone", || proxy.open_connections() == 0);
    assert_eq!(proxy.connections(), 2);
}

#[test]
fn a_long_text_comes_through_whole() {
    let (_echo, proxy) = start();
    let mut client = connect(&proxy);
    let text: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut writer = client.try_clone().unwrap();
    let question = text.clone();
    // All bytes are sent before any is read: the buffers fill up, and writes must be repeated.
    let asking = thread::spawn(move || {
        writer.write_all(&question).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let answer = read_to_the_end(&mut client);
    asking.join().unwrap();
    assert!(answer == text, "expected {} bytes as they were, got {}", text.len(), answer.len());
}

#[test]
fn a_cut_closes_all_connections_and_new_ones_are_welcome() {
    let (_echo, proxy) = start();
    let mut clients = [connect_and_talk(&proxy), connect_and_talk(&proxy)];
    proxy.cut_all();
    for client in &mut clients {
        assert_eq!(read_to_the_end(client), b"");
    }
    connect_and_talk(&proxy);
}

#[test]
fn answers_are_swallowed_while_the_server_still_hears() {
    let (echo, proxy) = start();
    let mut client = connect_and_talk(&proxy);
    let before = echo.heard.load(Ordering::SeqCst);
    proxy.swallow_answers(true);
    client.write_all(b"lost").unwrap();
    expect_silence(&mut client);
    assert_eq!(echo.heard.load(Ordering::SeqCst) - before, 4);
    proxy.swallow_answers(false);
    talk(&mut client);
}

#[test]
fn refused_clients_are_closed_and_those_inside_stay() {
    let (_echo, proxy) = start();
    let mut inside = connect_and_talk(&proxy);
    proxy.refuse(true);
    assert_eq!(read_to_the_end(&mut connect(&proxy)), b"");
    talk(&mut inside);
    proxy.refuse(false);
    connect_and_talk(&proxy);
    assert_eq!(proxy.connections(), 3);
}

#[test]
fn nothing_moves_through_a_frozen_proxy_and_nothing_is_lost() {
    let (echo, proxy) = start();
    let mut client = connect_and_talk(&proxy);
    let before = echo.heard.load(Ordering::SeqCst);
    proxy.freeze(true);
    client.write_all(b"later").unwrap();
    expect_silence(&mut client);
    assert_eq!(echo.heard.load(Ordering::SeqCst), before, "the server receives nothing either");
    proxy.freeze(false);
    let mut answer = [0; 5];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"later");
}

#[test]
fn questions_that_are_held_arrive_later_though_their_client_is_gone_and_answers_move_meanwhile() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
    let mut client = connect(&proxy);
    let (mut server, _) = listener.accept().unwrap();
    proxy.hold_questions(true);
    client.write_all(b"later").unwrap();
    until("the connection is stuck", || proxy.stuck_connections() == 1);
    server.write_all(b"answer").unwrap();
    let mut answer = [0; 6];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
    drop(client);
    proxy.hold_questions(false);
    assert_eq!(read_to_the_end(&mut server), b"later");
    until("the client is gone", || proxy.stuck_connections() == 0);
}

#[test]
fn the_end_of_a_server_is_not_seen_through_a_frozen_proxy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
    let mut client = connect(&proxy);
    let (server, _) = listener.accept().unwrap();
    proxy.freeze(true);
    drop(server);
    expect_silence(&mut client);
    proxy.freeze(false);
    assert_eq!(read_to_the_end(&mut client), b"");
}

#[test]
fn a_frozen_proxy_can_be_cut_and_dropped() {
    let (_echo, proxy) = start();
    let mut clients = [connect_and_talk(&proxy), connect_and_talk(&proxy)];
    proxy.freeze(true);
    clients[0].write_all(b"never").unwrap();
    proxy.cut_all();
    assert_eq!(read_to_the_end(&mut clients[0]), b"");
    drop(proxy);
    assert_eq!(read_to_the_end(&mut clients[1]), b"");
}

#[test]
fn an_answer_is_cut_in_the_middle_and_the_next_one_is_whole() {
    let (_echo, proxy) = start();
    let mut client = connect_and_talk(&proxy);
    proxy.cut_after_answers(7);
    client.write_all(b"0123456789").unwrap();
    assert_eq!(read_to_the_end(&mut client), b"0123456");
    let mut next = connect_and_talk(&proxy);
    next.write_all(b"0123456789").unwrap();
    next.read_exact(&mut [0; 10]).unwrap();
}

#[test]
fn no_answer_at_all_means_a_cut_at_once() {
    let (_echo, proxy) = start();
    let mut client = connect_and_talk(&proxy);
    proxy.cut_after_answers(0);
    assert_eq!(read_to_the_end(&mut client), b"");
}

#[test]
fn a_server_that_is_not_there_looks_like_a_closed_connection() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::start(unused).unwrap();
    assert_eq!(read_to_the_end(&mut connect(&proxy)), b"");
}

#[test]
fn a_url_is_led_through_the_proxy() {
    let (echo, proxy) = start();
    let url = format!("postgres://me@{}/jobs", echo.address);
    assert_eq!(proxy.url(&url), format!("postgres://me@{}/jobs", proxy.address()));
}
