//! A PostgreSQL server for one test or one run of tests.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

mod options;
mod programs;
mod configure;
mod psql;
mod session;

pub use options::Options;
pub use session::Session;

use crate::daemon::Daemon;
use crate::{Error, certificate, port};
use programs::Programs;

/// After a kill, the server replays its write-ahead log first.
const READY_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(30);
/// The role that owns all objects.
const OWNER: &str = "postgres";
/// The database that every server has.
const DATABASE: &str = "postgres";

/// A running server, on loopback and on a Unix socket. Dropping it ends the server and removes its data.
#[derive(Debug)]
pub struct Server {
    daemon: Daemon,
    programs: Programs,
    port: u16,
}

/// Checks that the programs are installed on this machine; the error says what to install.
pub fn is_installed() -> Result<(), Error> {
    Programs::find().map(drop)
}

/// Runs SQL on any server with `psql` and returns the rows, without headings, columns separated by `|`.
pub fn psql(url: &str, sql: &str) -> Result<String, Error> {
    psql::run(&Programs::find()?.psql, url, sql)
}

impl Server {
    /// Starts a new, empty server.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let programs = Programs::find()?;
        let daemon = Daemon::new()?;
        let mut server = Self { daemon, programs, port: 0 };
        server.make_data(options)?;
        port::on_a_free_one(|port| server.start_on(port, options))?;
        Ok(server)
    }

    /// Starts a standby that replicates this server until it is promoted.
    pub fn standby(&self, options: &Options) -> Result<Self, Error> {
        let mut standby = Self { daemon: Daemon::new()?, programs: Programs::find()?, port: 0 };
        let mut copy = Command::new(&standby.programs.basebackup);
        copy.args(["--checkpoint=fast", "--write-recovery-conf", "--no-sync", "--dbname", &self.url()]);
        standby.daemon.run(copy.arg("--pgdata").arg(standby.data()))?;
        port::on_a_free_one(|port| standby.start_on(port, options))?;
        Ok(standby)
    }

    /// Promotes a standby to a server of its own that accepts writes.
    pub fn promote(&self) -> Result<(), Error> {
        self.psql("SELECT pg_promote(true, 60)").map(drop)
    }

    /// Returns the URL that clients connect to.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// Returns the URL that clients of another database connect to.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://{OWNER}@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the URL of the same server through its Unix socket.
    pub fn socket_url(&self) -> String {
        let folder = self.daemon.path().to_string_lossy().replace('/', "%2F");
        format!("postgres://{OWNER}@{folder}:{}/{DATABASE}", self.port)
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the certificate by which clients verify this server, if it speaks TLS.
    pub fn authority(&self) -> Option<PathBuf> {
        Some(certificate::authority(self.daemon.path())).filter(|path| path.exists())
    }

    /// Creates a certificate that identifies a client as this role, and its key, if the server speaks TLS.
    /// Lines of `pg_hba.conf` with `cert` require it.
    pub fn client_certificate(&self, role: &str) -> Result<(PathBuf, PathBuf), Error> {
        certificate::make_for_client(&self.daemon, role)
    }

    /// Returns the folder that holds all files of the server.
    pub fn folder(&self) -> &Path {
        self.daemon.path()
    }

    /// Returns the server's whole log.
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    /// Runs SQL with `psql` on the database that every server has.
    pub fn psql(&self, sql: &str) -> Result<String, Error> {
        psql::run(&self.programs.psql, &self.url(), sql)
    }

    /// Creates a database and returns its URL.
    pub fn create_database(&self, name: &str) -> Result<String, Error> {
        self.psql(&format!("CREATE DATABASE {}", psql::quoted(name)))?;
        Ok(self.url_of(name))
    }

    /// Kills all processes at once, as a power cut would, and keeps the data.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.daemon.kill()?;
        self.forget_the_dead();
        Ok(())
    }

    /// Stops the server cleanly, without waiting for its clients, and keeps the data.
    pub fn stop(&mut self) -> Result<(), Error> {
        self.daemon.ask_to_end(Signal::INT, STOP_MAX)
    }

    /// Starts the server again on the same port and data, after stopping it if it runs.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        self.launch()
    }

    /// Freezes all its processes. Connections stay open, and no request is answered.
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

    fn data(&self) -> PathBuf {
        self.daemon.path().join("data")
    }

    fn make_data(&self, options: &Options) -> Result<(), Error> {
        let mut initdb = Command::new(&self.programs.initdb);
        initdb.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username", OWNER]);
        self.daemon.run(initdb.arg("--pgdata").arg(self.data()))?;
        if options.tls {
            certificate::make(&self.daemon)?;
        }
        configure::authentication(&self.data(), options)
    }

    fn start_on(&mut self, port: u16, options: &Options) -> Result<(), Error> {
        self.port = port;
        configure::settings(self.daemon.path(), &self.data(), port, options)?;
        self.launch()
    }

    fn launch(&mut self) -> Result<(), Error> {
        let mut postgres = Command::new(&self.programs.postgres);
        postgres.arg("-D").arg(self.data());
        let lock_file = self.lock_file();
        self.daemon.start(&mut postgres, READY_MAX, &|daemon| is_ready(daemon, &lock_file))
    }

    fn lock_file(&self) -> PathBuf {
        self.data().join("postmaster.pid")
    }

    /// Removes the lock file of a dead server, which would keep the next one from starting if another
    /// process got its process id meanwhile. The lock file also names the shared memory that the dead
    /// server could not release.
    fn forget_the_dead(&self) {
        let Ok(lock) = fs::read_to_string(self.lock_file()) else { return };
        if let Some(segment) = lock.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) {
            // Without `ipcrm`, 56 bytes stay until the machine restarts.
            let _ = Command::new("ipcrm").args(["-m", segment]).output();
        }
        // A failure shows when the next server starts.
        let _ = fs::remove_file(self.lock_file());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a failure, dropping the daemon removes the remaining processes.
        let _ = self.kill();
    }
}

/// Whether the server is up. It writes its own process id to the lock file first and its state last. A
/// standby accepts no writes, but it is up.
fn is_ready(daemon: &Daemon, lock_file: &Path) -> bool {
    let lock = fs::read_to_string(lock_file).unwrap_or_default();
    let lines: Vec<_> = lock.lines().map(str::trim).collect();
    let pid = daemon.pid().map(|pid| pid.as_raw_nonzero().to_string());
    lines.first().copied() == pid.as_deref() && matches!(lines.get(7), Some(&("ready" | "standby")))
}
