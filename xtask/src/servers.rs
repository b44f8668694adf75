//! `cargo xtask servers -- COMMAND`: runs any command with throw-away servers.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

use windlass_servers::{Error, postgres, redis, shared};

use crate::command;

/// Starts servers, runs the command with their addresses, removes the servers, and returns the command's
/// exit code.
pub(crate) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let [program, arguments @ ..] = words else {
        return Err("expected a command, as in `cargo xtask servers -- cargo test`".to_owned());
    };
    run_with_servers(command::as_from_a_shell(Command::new(program).args(arguments)))
}

/// Runs a command with servers that exist only for it.
pub(crate) fn run_with_servers(command: &mut Command) -> Result<ExitCode, String> {
    let servers = Servers::start(&settings(), 1)?;
    run_without(servers.tell(command))
}

/// Runs a command and gives its exit code.
pub(crate) fn run_without(command: &mut Command) -> Result<ExitCode, String> {
    let status = command.status();
    let program = command.get_program().display();
    Ok(exit_code(status.map_err(|error| format!("starting `{program}` failed: {error}"))?))
}

/// The servers that were started here. Dropping it stops and removes them. If this process is ended first,
/// for example by Ctrl-C, the servers end as soon as the last of its children has ended.
pub(crate) struct Servers {
    variables: Vec<(&'static str, String)>,
    /// More than one if several programs run at once.
    postgres: Vec<postgres::Server>,
    /// The number of databases that were created.
    databases: AtomicU32,
    /// Never read; it stops the server on drop.
    _redis: Option<redis::Server>,
}

impl Servers {
    /// Starts new servers.
    fn start(settings: &postgres::Options, count: usize) -> Result<Self, String> {
        let postgres = (0..count).map(|_| postgres::Server::start(settings)).collect::<Result<Vec<_>, _>>();
        let postgres = postgres.map_err(|error| with_causes(&error))?;
        let redis = match redis::Server::start(&redis::Options::default()) {
            Err(missing @ Error::MissingProgram { .. }) => {
                eprintln!("Redis: none, and REDIS_URL is not set: {missing}");
                None
            }
            started => Some(started.map_err(|error| with_causes(&error))?),
        };
        // The standard output has only what the command prints: it may be JSON.
        for server in &postgres {
            // Called only now: otherwise each server would be a child that keeps the other alive.
            server.wait_for_children().map_err(|error| with_causes(&error))?;
            eprintln!("PostgreSQL: {}", server.url());
        }
        let mut variables: Vec<_> =
            postgres.first().map(|first| ("DATABASE_URL", first.url())).into_iter().collect();
        if let Some(redis) = &redis {
            redis.wait_for_children().map_err(|error| with_causes(&error))?;
            eprintln!("Redis: {}", redis.url());
            variables.push(("REDIS_URL", redis.url()));
        }
        Ok(Self { variables, postgres, databases: AtomicU32::new(0), _redis: redis })
    }

    /// The server that the caller named in `DATABASE_URL`; otherwise one new server for each of `lanes`
    /// test programs that run at once.
    pub(crate) fn for_tests(lanes: usize) -> Result<Self, String> {
        if shared::given_url().is_none() {
            return Self::start(&settings_for_tests(), lanes);
        }
        eprintln!(
            "PostgreSQL: the server in DATABASE_URL; Redis: the server in REDIS_URL, or one for each test program"
        );
        Ok(Self { variables: Vec::new(), postgres: Vec::new(), databases: AtomicU32::new(0), _redis: None })
    }

    /// Passes the addresses of the servers to a command, in its environment.
    pub(crate) fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.variables.iter().map(|(name, url)| (name, url)))
    }

    /// Passes the addresses to a command, with a new database on the lane's own server, if servers were
    /// started here. Two programs that create tables at once on one server make its sessions discard their
    /// cached table definitions again and again. With separate databases, no program sees the thousands of
    /// schemas that other programs have created.
    pub(crate) fn tell_apart(&self, command: &mut Command, lane: usize) -> Result<(), String> {
        self.tell(command);
        if let Some(server) = self.postgres.get(lane) {
            let name = format!("tests_{}", self.databases.fetch_add(1, Ordering::Relaxed));
            let url = server.create_database(&name).map_err(|error| with_causes(&error))?;
            command.env("DATABASE_URL", url);
        }
        Ok(())
    }
}

/// The settings of a small server as a careful administrator would choose them: benchmarks are measured on
/// it.
fn settings() -> postgres::Options {
    postgres::Options {
        shared_buffers: "512MB".to_owned(),
        settings: vec![("max_wal_size".to_owned(), "4GB".to_owned())],
        ..postgres::Options::default()
    }
}

/// The settings of the fastest server: if it dies, the tests are over anyway. Tests that end a server and
/// examine what is left start their own.
fn settings_for_tests() -> postgres::Options {
    let settings = [
        ("max_wal_size", "4GB"),
        ("full_page_writes", "off"),
        // Several programs run at once, each with several tests of several processes.
        ("max_connections", "600"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    postgres::Options {
        fsync: false,
        shared_buffers: "512MB".to_owned(),
        settings,
        ..postgres::Options::default()
    }
}

/// The error with its causes, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The exit code as a shell returns it: a command that a signal ended has 128 plus the signal.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_command_is_told_before_a_server_starts() {
        let failure = run(&[]).unwrap_err();
        assert!(failure.contains("expected a command"), "{failure}");
    }

    #[test]
    fn each_program_has_a_database_of_its_own_on_the_server_of_its_lane() {
        let servers = Servers::start(&settings_for_tests(), 2).unwrap();
        let database_of = |lane: usize| {
            let mut command = Command::new("sh");
            command.args(["-c", "psql -XAtc 'SELECT current_database(), inet_server_port()' $DATABASE_URL"]);
            servers.tell_apart(&mut command, lane).unwrap();
            let answer = String::from_utf8(command.output().unwrap().stdout).unwrap();
            let (database, port) = answer.trim_end().split_once('|').unwrap();
            (database.to_owned(), port.to_owned())
        };
        let [(first, here), (second, also_here), (third, there)] =
            [database_of(0), database_of(0), database_of(1)];
        assert_eq!([first, second, third], ["tests_0", "tests_1", "tests_2"]);
        assert_eq!(here, also_here);
        assert_ne!(here, there);
    }

    #[test]
    fn the_exit_code_is_the_commands_own() {
        let code = |wait_status| exit_code(ExitStatus::from_raw(wait_status));
        assert_eq!(code(3 << 8), ExitCode::from(3));
        assert_eq!(code(9), ExitCode::from(137));
        assert_eq!(code(0), ExitCode::SUCCESS);
    }

    #[test]
    fn a_command_finds_the_servers_in_its_environment_and_its_exit_code_comes_back() {
        let check = "case $DATABASE_URL in postgres://*) exit 7;; *) exit 1;; esac";
        assert_eq!(run(&["sh", "-c", check]).unwrap(), ExitCode::from(7));
    }
}
