//! PgBouncer in transaction mode in front of a PostgreSQL server. Every transaction of a client may run on
//! another connection, so that the state of a session is lost or belongs to another client.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

mod target;

use crate::daemon::Daemon;
use crate::{Error, port, programs};
use target::Target;

const INSTALL: &str = "Debian, Ubuntu: `apt install pgbouncer`; Fedora: `dnf install pgbouncer`";
/// Debian installs it in a folder that only root has in `PATH`.
const ELSEWHERE: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
const READY_MAX: Duration = Duration::from_secs(30);
/// The log line that says that it accepts connections.
const UP: &str = "LOG process up: ";

/// The configuration of a pooler.
#[derive(Debug, Clone)]
pub struct Options {
    /// The number of connections to the server, for each database and user.
    pub pool_size: u32,
    /// Further settings by name. They take precedence over all others.
    pub settings: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { pool_size: 20, settings: Vec::new() }
    }
}

/// A running pooler. Dropping it ends the process.
#[derive(Debug)]
pub struct Server {
    daemon: Daemon,
    program: PathBuf,
    target: Target,
    options: Options,
    port: u16,
}

/// Checks that the program is installed on this machine; the error says what to install.
pub fn is_installed() -> Result<(), Error> {
    program().map(drop)
}

fn program() -> Result<PathBuf, Error> {
    programs::find("pgbouncer", &ELSEWHERE.map(PathBuf::from), INSTALL)
}

impl Server {
    /// Starts a pooler in front of the server at a URL such as
    /// `postgres://user:password@127.0.0.1:5432/database`.
    pub fn start(url: &str, options: &Options) -> Result<Self, Error> {
        let program = program()?;
        let target = Target::read(url)?;
        let mut server = Self { daemon: Daemon::new()?, program, target, options: options.clone(), port: 0 };
        port::on_a_free_one(|port| server.start_on(port))?;
        Ok(server)
    }

    /// Returns the URL that clients connect to, for the same database.
    pub fn url(&self) -> String {
        format!("postgres://{}@{}/{}", self.target.user, self.address(), self.target.database)
    }

    /// Returns the address on which the pooler listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the folder that holds its files.
    pub fn folder(&self) -> &Path {
        self.daemon.path()
    }

    /// Returns its whole log.
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    /// Kills it at once; all its connections are cut.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.daemon.kill()
    }

    /// Starts it again on the same port, after killing it if it runs.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.kill()?;
        self.start_on(self.port)
    }

    /// Freezes its process. Connections stay open, and no request is answered.
    pub fn freeze(&self) -> Result<(), Error> {
        self.daemon.freeze()
    }

    /// Resumes its process.
    pub fn thaw(&self) -> Result<(), Error> {
        self.daemon.thaw()
    }

    fn start_on(&mut self, port: u16) -> Result<(), Error> {
        self.port = port;
        let settings = self.daemon.write("pgbouncer.ini", &self.settings())?;
        let mut command = Command::new(&self.program);
        let ups_before = self.log().matches(UP).count();
        let is_up = |daemon: &Daemon| daemon.log().matches(UP).count() > ups_before;
        self.daemon.start(command.arg(settings), READY_MAX, &is_up)
    }

    /// `auth_type = any` accepts every client, as the user that is configured with the database.
    fn settings(&self) -> String {
        let Self { port, options, target, .. } = self;
        let further = options.settings.iter().map(|(name, value)| format!("{name} = {value}\n"));
        format!(
            "[databases]\n* = {}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\nmax_client_conn = 500\ndefault_pool_size = {}\n\
             ignore_startup_parameters = extra_float_digits\n{}",
            target.connection(),
            options.pool_size,
            further.collect::<String>()
        )
    }
}
