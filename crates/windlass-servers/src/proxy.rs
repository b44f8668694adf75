//! A proxy on loopback between a client and its server, in which a test injects faults.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

mod link;
mod pump;
mod switches;

use crate::Error;
use link::Link;
use switches::Switches;

/// How long the server may take to accept.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Forwards every connection to a target until a test switches a fault on. Dropping it cuts all
/// connections.
///
/// A switch holds for every byte that moves after the call has returned.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    target: SocketAddr,
    switches: Arc<Switches>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free port.
    pub fn start(target: SocketAddr) -> Result<Self, Error> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::io("listening on loopback"))?;
        let address = listener.local_addr().map_err(Error::io("reading the proxy's port"))?;
        let switches = Arc::new(Switches::default());
        let acceptor = {
            let switches = Arc::clone(&switches);
            thread::spawn(move || accept_connections(&listener, target, &switches))
        };
        Ok(Self { address, target, switches, acceptor: Some(acceptor) })
    }

    /// Returns the address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a URL of the target that leads through this proxy.
    pub fn url(&self, url_of_target: &str) -> String {
        url_of_target.replace(&self.target.to_string(), &self.address.to_string())
    }

    /// Counts the connections that clients have opened so far, refused ones included.
    pub fn connections(&self) -> u64 {
        self.switches.connections()
    }

    /// Counts the connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.switches.open_links()
    }

    /// Closes all connections that have reached the server. New connections are accepted.
    pub fn cut_all(&self) {
        self.switches.cut_all();
    }

    /// While on, drops the answers of the server; requests of clients still reach it.
    pub fn swallow_answers(&self, on: bool) {
        self.switches.set(|settings| settings.swallowing = on);
    }

    /// While on, holds the requests of clients back. They are forwarded when this is switched off, even if
    /// the client is gone by then. Answers are forwarded.
    pub fn hold_questions(&self, on: bool) {
        self.switches.set(|settings| settings.holding = on);
    }

    /// Counts the connections on which a request of a client is held back.
    pub fn stuck_connections(&self) -> usize {
        self.switches.stuck_links()
    }

    /// While on, closes new connections at once. Open connections stay.
    pub fn refuse(&self, on: bool) {
        self.switches.set(|settings| settings.refusing = on);
    }

    /// While on, forwards nothing in either direction. Connections stay open, also those that one side has
    /// closed.
    pub fn freeze(&self, on: bool) {
        self.switches.set(|settings| settings.frozen = on);
    }

    /// Delays each piece of an answer by this time from now on. Requests of clients are not delayed.
    pub fn delay_answers(&self, by: Duration) {
        self.switches.set(|settings| settings.answer_delay = by);
    }

    /// Forwards this number of further bytes of answers, counted over all connections, and then cuts all
    /// connections, once.
    pub fn cut_after_answers(&self, bytes: usize) {
        self.switches.cut_after_answers(bytes);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.switches.end();
        // The accepting thread waits for a connection. If it accepts none, it has ended already.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            // A panic in the thread has been printed, and this may run during another panic.
            let _ = acceptor.join();
        }
    }
}

fn accept_connections(listener: &TcpListener, target: SocketAddr, switches: &Arc<Switches>) {
    for client in listener.incoming() {
        if switches.is_over() {
            return;
        }
        // A client that is gone before it was accepted does not count.
        if let Ok(client) = client {
            switches.count_connection();
            let switches = Arc::clone(switches);
            // The connection to the server is made in another thread: a server that does not accept must
            // not block the next client.
            thread::spawn(move || let_in(client, target, &switches));
        }
    }
}

/// Dropping the client closes its connection, as a client expects of a server that is unavailable.
fn let_in(client: TcpStream, target: SocketAddr, switches: &Arc<Switches>) {
    if switches.is_refusing() {
        return;
    }
    let linked: io::Result<_> =
        TcpStream::connect_timeout(&target, CONNECT_MAX).and_then(|server| Link::new(client, server));
    let Ok(link) = linked.map(Arc::new) else { return };
    if switches.add(&link) {
        pump::both_ways(&link, switches);
        switches.remove(&link);
    }
}
