//! A proxy on loopback between a client and its server, which a test tells to lose things.

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

/// Forwards every connection to a target until it is told otherwise. Dropping it cuts all connections.
///
/// Whatever is switched holds for every byte that moves after the call has returned.
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
        let address = listener.local_addr().map_err(Error::io("asking for the proxy's port"))?;
        let switches = Arc::new(Switches::default());
        let acceptor = {
            let switches = Arc::clone(&switches);
            thread::spawn(move || accept_connections(&listener, target, &switches))
        };
        Ok(Self { address, target, switches, acceptor: Some(acceptor) })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL of the target, led through this proxy.
    pub fn url(&self, url_of_target: &str) -> String {
        url_of_target.replace(&self.target.to_string(), &self.address.to_string())
    }

    /// Connections that clients have made so far, refused ones included.
    pub fn connections(&self) -> u64 {
        self.switches.connections()
    }

    /// Connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.switches.open_links()
    }

    /// Closes all connections that have reached the server. New ones are welcome.
    pub fn cut_all(&self) {
        self.switches.cut_all();
    }

    /// While on, what the server answers is dropped, and what clients say still reaches it.
    pub fn swallow_answers(&self, on: bool) {
        self.switches.set(|settings| settings.swallowing = on);
    }

    /// While on, what clients say is held back, and goes on when this is switched off, also if the client is gone by then. Answers move.
    pub fn hold_questions(&self, on: bool) {
        self.switches.set(|settings| settings.holding = on);
    }

    /// Connections on which something that a client said does not move.
    pub fn stuck_connections(&self) -> usize {
        self.switches.stuck_links()
    }

    /// While on, new connections are closed at once. Those that are open stay.
    pub fn refuse(&self, on: bool) {
        self.switches.set(|settings| settings.refusing = on);
    }

    /// While on, nothing moves in either direction, and connections stay open, also those that one side has closed.
    pub fn freeze(&self, on: bool) {
        self.switches.set(|settings| settings.frozen = on);
    }

    /// From now on each piece of an answer reaches the client only after this time. What clients say is not
    /// delayed.
    pub fn delay_answers(&self, by: Duration) {
        self.switches.set(|settings| settings.answer_delay = by);
    }

    /// Lets so many more bytes of answers through, counted over all connections, and then cuts all, once.
    pub fn cut_after_answers(&self, bytes: usize) {
        self.switches.cut_after_answers(bytes);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.switches.end();
        // The accepting thread waits for somebody to come. If nobody can, it is gone already.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            // A panic in the thread has been printed, and this may run during another.
            let _ = acceptor.join();
        }
    }
}

fn accept_connections(listener: &TcpListener, target: SocketAddr, switches: &Arc<Switches>) {
    for client in listener.incoming() {
        if switches.is_over() {
            return;
        }
        // A client that is gone before it was let in is none.
        if let Ok(client) = client {
            switches.count_connection();
            let switches = Arc::clone(switches);
            // Not here: a server that does not accept must not keep the next client waiting.
            thread::spawn(move || let_in(client, target, &switches));
        }
    }
}

/// Dropping the client closes its connection, which is what it sees of a server that is not there.
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
