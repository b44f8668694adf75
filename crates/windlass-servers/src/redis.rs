//! A Redis server for one test or one run of tests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::daemon::Daemon;
use crate::{Error, certificate, port, programs};

const INSTALL: &str = "Debian, Ubuntu: `apt install redis-server`; Fedora: `dnf install redis`";
const READY_MAX: Duration = Duration::from_secs(30);
const STOP_MAX: Duration = Duration::from_secs(30);
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The configuration of a server.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Further settings by name. They take precedence over all others.
    pub settings: Vec<(String, String)>,
    /// Whether the server speaks TLS on a second port, with a certificate created for it. Needs the program
    /// `openssl`.
    pub tls: bool,
}

/// A running server on loopback. It writes every change to a file and syncs the file every second. Dropping
/// it ends the server and removes its data.
#[derive(Debug)]
pub struct Server {
    daemon: Daemon,
    program: PathBuf,
    options: Options,
    port: u16,
    tls_port: u16,
}

/// Checks that the program is installed on this machine; the error says what to install.
pub fn is_installed() -> Result<(), Error> {
    program().map(drop)
}

fn program() -> Result<PathBuf, Error> {
    programs::find("redis-server", &[], INSTALL)
}

impl Server {
    /// Starts a new, empty server.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let program = program()?;
        let mut server =
            Self { daemon: Daemon::new()?, program, options: options.clone(), port: 0, tls_port: 0 };
        if options.tls {
            certificate::make(&server.daemon)?;
            server.tls_port = port::free()?;
        }
        port::on_a_free_one(|port| server.start_on(port))?;
        Ok(server)
    }

    /// Returns the URL that clients connect to.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Returns the URL that clients connect to with TLS, if the server speaks it.
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}", self.tls_port)
    }

    /// Returns the certificate by which clients verify this server, if it speaks TLS.
    pub fn authority(&self) -> PathBuf {
        certificate::authority(self.folder())
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the folder that holds all files of the server.
    pub fn folder(&self) -> &Path {
        self.daemon.path()
    }

    /// Returns the server's whole log.
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    /// Kills the server at once, as a crash would, and keeps the data.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.daemon.kill()
    }

    /// Stops the server cleanly and keeps the data.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.daemon.ask_to_end(Signal::TERM, STOP_MAX)
    }

    /// Starts the server again on the same port and data, after stopping it if it runs.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        self.start_on(self.port)
    }

    /// Freezes the server. Connections stay open, and no request is answered.
    pub fn freeze(&self) -> Result<(), Error> {
        self.daemon.freeze()
    }

    /// Resumes a frozen server.
    pub fn thaw(&self) -> Result<(), Error> {
        self.daemon.thaw()
    }

    /// Makes the children of this process keep the server alive from now on, even if this process ends
    /// before them.
    pub fn wait_for_children(&self) -> Result<(), Error> {
        self.daemon.wait_for_children()
    }

    fn start_on(&mut self, port: u16) -> Result<(), Error> {
        self.port = port;
        let (port, folder) = (port.to_string(), self.folder().display().to_string());
        let ours = [
            ("bind", "127.0.0.1"),
            ("port", &port),
            ("dir", &folder),
            ("appendonly", "yes"),
            ("appendfsync", "everysec"),
            ("save", ""),
        ];
        let tls = self.tls_settings();
        let tls = tls.iter().map(|(name, value)| (*name, value.as_str()));
        let mut command = Command::new(&self.program);
        let further = self.options.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in ours.into_iter().chain(tls).chain(further) {
            command.arg(format!("--{name}")).arg(value);
        }
        let address = self.address();
        self.daemon.start(&mut command, READY_MAX, &|daemon| is_ready(daemon, address))
    }
}

impl Server {
    fn tls_settings(&self) -> Vec<(&'static str, String)> {
        if !self.options.tls {
            return Vec::new();
        }
        let path = |path: PathBuf| path.display().to_string();
        vec![
            ("tls-port", self.tls_port.to_string()),
            ("tls-cert-file", path(certificate::server(self.folder()))),
            ("tls-key-file", path(certificate::key(self.folder()))),
            ("tls-ca-cert-file", path(certificate::authority(self.folder()))),
            ("tls-auth-clients", "no".to_owned()),
        ]
    }
}

/// Whether this server is up. A server that still loads its data reports that. Another server on the same
/// port reports another process id.
fn is_ready(daemon: &Daemon, address: SocketAddr) -> bool {
    let number = daemon.pid().map(|pid| format!("process_id:{}\r\n", pid.as_raw_nonzero()));
    let is_ours = |answer: String| {
        number.is_some_and(|number| answer.contains(&number)) && answer.contains("\r\nloading:0\r\n")
    };
    ask(address).is_ok_and(is_ours)
}

/// Returns the server's own description, the answer to `INFO`.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(b"INFO\r\nQUIT\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
