//! `cargo xtask servers -- COMMAND`: runs any command with throw-away servers.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

use windlass_servers::{Error, postgres, redis, shared};

use crate::command;

/// Starts servers, runs the command with their addresses, removes them, and gives the command's exit code.
pub(crate) fn run(words: &[&str]) -> Result<ExitCode, String> {
    let [program, arguments @ ..] = words else {
        return Err("expected a command, as in `cargo xtask servers -- cargo test`".to_owned());
    };
    let servers = Servers::start()?;
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
    /// Never read: they are here to be dropped.
    _postgres: Option<postgres::Server>,
    _redis: Option<redis::Server>,
}

impl Servers {
    /// Always new ones.
    fn start() -> Result<Self, String> {
        let postgres = postgres::Server::start(&settings()).map_err(|error| told(&error))?;
        let redis = match redis::Server::start(&redis::Options::default()) {
            Err(missing @ Error::MissingProgram { .. }) => {
                eprintln!("Redis: none, and REDIS_URL is not set: {missing}");
                None
            }
            started => Some(started.map_err(|error| told(&error))?),
        };
        // Only now: else the one server would be a child that keeps the other alive.
        postgres.wait_for_children().map_err(|error| told(&error))?;
        // What the command prints is all that goes to the standard output: it may be JSON.
        eprintln!("PostgreSQL: {}", postgres.url());
        let mut variables = vec![("DATABASE_URL", postgres.url())];
        if let Some(redis) = &redis {
            redis.wait_for_children().map_err(|error| told(&error))?;
            eprintln!("Redis: {}", redis.url());
            variables.push(("REDIS_URL", redis.url()));
        }
        Ok(Self { variables, _postgres: Some(postgres), _redis: redis })
    }

    /// The server that the caller named in `DATABASE_URL`, or new ones.
    pub(crate) fn given_or_started() -> Result<Self, String> {
        if shared::given_url().is_none() {
            return Self::start();
        }
        eprintln!(
            "PostgreSQL: the one in DATABASE_URL; Redis: the one in REDIS_URL, or one for each test program"
        );
        Ok(Self { variables: Vec::new(), _postgres: None, _redis: None })
    }

    /// Gives a command the addresses of the servers.
    pub(crate) fn tell<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.variables.iter().map(|(name, url)| (name, url)))
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
