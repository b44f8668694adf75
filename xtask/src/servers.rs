//! `cargo xtask servers -- COMMAND`: runs any command with throw-away servers.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

use windlass_servers::{Error, postgres, redis, shared};

use crate::command;

/// Starts servers, runs the command with their addresses, removes them, and gives the command's exit code.
pub(crate) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let [program, arguments @ ..] = words else {
        return Err("expected a command, as in `cargo xtask servers -- cargo test`".to_owned());
    };
    let servers = Servers::start(&settings(), 1)?;
    let mut command = Command::new(program);
    let command = command::as_from_a_shell(command.args(arguments));
    let status = servers.tell(command).status();
    let status = status.map_err(|error| format!("`{program}` could not be started: {error}"))?;
    Ok(exit_code(status))
}

/// Dropping it ends and removes what was started here. If this process is ended first, say by Ctrl-C, the servers go
/// as soon as the last of its children has.
pub(crate) struct Servers {
    variables: Vec<(&'static str, String)>,
    /// More than one if several programs are to run at once.
    postgres: Vec<postgres::Server>,
    /// How many databases were made.
    databases: AtomicU32,
    /// Never read: it is here to be dropped.
    _redis: Option<redis::Server>,
}

impl Servers {
    /// Always new ones.
    fn start(settings: &postgres::Options, count: usize) -> Result<Self, String> {
        let postgres = (0..count).map(|_| postgres::Server::start(settings)).collect::<Result<Vec<_>, _>>();
        let postgres = postgres.map_err(|error| told(&error))?;
        let redis = match redis::Server::start(&redis::Options::default()) {
            Err(missing @ Error::MissingProgram { .. }) => {
                eprintln!("Redis: none, and REDIS_URL is not set: {missing}");
                None
            }
            started => Some(started.map_err(|error| told(&error))?),
        };
        // What the command prints is all that goes to the standard output: it may be JSON.
        for server in &postgres {
            // Only now: else the one server would be a child that keeps the other alive.
            server.wait_for_children().map_err(|error| told(&error))?;
            eprintln!("PostgreSQL: {}", server.url());
        }
        let mut variables: Vec<_> =
            postgres.first().map(|first| ("DATABASE_URL", first.url())).into_iter().collect();
        if let Some(redis) = &redis {
            redis.wait_for_children().map_err(|error| told(&error))?;
            eprintln!("Redis: {}", redis.url());
            variables.push(("REDIS_URL", redis.url()));
        }
        Ok(Self { variables, postgres, databases: AtomicU32::new(0), _redis: redis })
    }

    /// The server that the caller named in `DATABASE_URL`, or new ones, for so many test programs at once.
    pub(crate) fn for_tests(lanes: usize) -> Result<Self, String> {
        if shared::given_url().is_none() {
            return Self::start(&settings_for_tests(), lanes);
        }
        eprintln!(
            "PostgreSQL: the one in DATABASE_URL; Redis: the one in REDIS_URL, or one for each test program"
        );
        Ok(Self { variables: Vec::new(), postgres: Vec::new(), databases: AtomicU32::new(0), _redis: None })
    }

    /// Gives a command the addresses of the servers.
    pub(crate) fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.variables.iter().map(|(name, url)| (name, url)))
    }

    /// The same, with a new database on the lane's own server, if servers were started here. Two programs that make tables at once on
    /// one server have its sessions forget again and again what they know of tables; and none finds the thousands of schemas that
    /// others have made.
    pub(crate) fn tell_apart(&self, command: &mut Command, lane: usize) -> Result<(), String> {
        self.tell(command);
        if let Some(server) = self.postgres.get(lane) {
            let name = format!("tests_{}", self.databases.fetch_add(1, Ordering::Relaxed));
            let url = server.create_database(&name).map_err(|error| told(&error))?;
            command.env("DATABASE_URL", url);
        }
        Ok(())
    }
}

/// As a careful person would set up a small server: benches are measured on it.
fn settings() -> postgres::Options {
    postgres::Options {
        shared_buffers: "512MB".to_owned(),
        settings: vec![("max_wal_size".to_owned(), "4GB".to_owned())],
        ..postgres::Options::default()
    }
}

/// As quick as it can be: whatever ends this server, tests are over. Those that end one, and look at what is left, start their own.
fn settings_for_tests() -> postgres::Options {
    let settings = [
        ("max_wal_size", "4GB"),
        ("full_page_writes", "off"),
        // Several programs are at work, each with several tests of several processes.
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

/// The error with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// As a shell gives it: a command that was ended by a signal counts from 128.
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
        let told = |lane: usize| {
            let mut command = Command::new("sh");
            command.args(["-c", "psql -XAtc 'SELECT current_database(), inet_server_port()' $DATABASE_URL"]);
            servers.tell_apart(&mut command, lane).unwrap();
            let told = String::from_utf8(command.output().unwrap().stdout).unwrap();
            let (database, port) = told.trim_end().split_once('|').unwrap();
            (database.to_owned(), port.to_owned())
        };
        let [(first, here), (second, also_here), (third, there)] = [told(0), told(0), told(1)];
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
