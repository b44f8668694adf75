//! One client's connection and the matching connection to the server.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A write that waits longer is interrupted and repeated, so that a switch never waits long for a write.
const WRITE_MAX: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: TcpStream,
    pub(super) server: TcpStream,
    is_cut: AtomicBool,
    is_stuck: AtomicBool,
}

impl Link {
    pub(super) fn new(client: TcpStream, server: TcpStream) -> io::Result<Self> {
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(WRITE_MAX))?;
        }
        Ok(Self { client, server, is_cut: AtomicBool::new(false), is_stuck: AtomicBool::new(false) })
    }

    /// Closes both connections. This wakes every thread that reads from them or writes to them.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in [&self.client, &self.server] {
            // A connection that is closed already is no error.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Notes whether a request of the client is held back.
    pub(super) fn note_stuck(&self, on: bool) {
        self.is_stuck.store(on, Ordering::SeqCst);
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::SeqCst)
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::SeqCst)
    }
}
