//! Errors of Redis, and their translation to errors of the engine interface.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use windlass_core::error::EngineError;

/// The result of a step.
pub(super) type StoreResult<T> = Result<T, StoreError>;

/// Why a step failed.
#[derive(Debug)]
pub(super) enum StoreError {
    /// The server refused, before it wrote anything.
    Refused(RedisError),
    /// The connection broke, or no answer came, or a script stopped half way. The call may have been executed
    /// all the same.
    Lost(String),
    /// Nothing could be sent.
    Unreachable(String),
    /// Queues or types have changed since this process read them.
    Stale,
    /// The request or the store is wrong, or the outcome is known to be unknown.
    Engine(EngineError),
}

impl StoreError {
    /// Classifies an error of an existing connection.
    pub(super) fn of_call(error: RedisError) -> Self {
        let is_servers_word = matches!(
            error.kind(),
            ErrorKind::Server(_) | ErrorKind::Extension | ErrorKind::AuthenticationFailed
        );
        if is_servers_word { Self::Refused(error) } else { Self::Lost(error.to_string()) }
    }

    /// Classifies an error while connecting.
    pub(super) fn connecting(error: RedisError, place: &str) -> Self {
        match error.kind() {
            ErrorKind::AuthenticationFailed
            | ErrorKind::InvalidClientConfig
            | ErrorKind::RESP3NotSupported => Self::Engine(no_login(&error, place)),
            _ if has_too_many_clients(&error) => Self::Unreachable(format!(
                "the server at {place} has no room for another connection ({error}); raise its `maxclients`"
            )),
            ErrorKind::Server(_) | ErrorKind::Extension => Self::Refused(error),
            _ if is_about_tls(&error) => Self::Engine(EngineError::Unusable {
                why: format!(
                    "connecting to {place} with TLS failed ({error}); check that this port speaks TLS, and set `ca_file` to \
                     the certificate of the authority that signed the server's"
                ),
            }),
            _ => Self::Unreachable(format!(
                "no server at {place} ({error}); check that the server runs and that host and port of the Redis URL are right"
            )),
        }
    }

    /// Whether another connection may lead to a better server: this connection is broken, its server may no
    /// longer be written to, or requires a login that it did not require when this connection was made.
    pub(super) fn needs_another_connection(&self) -> bool {
        match self {
            Self::Lost(_) => true,
            Self::Refused(error) => ["READONLY", "MASTERDOWN", "MOVED", "ASK", "CLUSTERDOWN", "NOAUTH"]
                .contains(&code_of(&error.to_string(), error.code())),
            _ => false,
        }
    }

    /// Returns a copy for callers that come a moment later, if the error is about the way to the server.
    pub(super) fn again(&self) -> Option<Self> {
        match self {
            Self::Unreachable(why) => Some(Self::Unreachable(why.clone())),
            Self::Refused(error) => Some(Self::Refused(error.clone())),
            Self::Engine(EngineError::Unusable { why }) => {
                Some(Self::Engine(EngineError::Unusable { why: why.clone() }))
            }
            Self::Lost(_) | Self::Stale | Self::Engine(_) => None,
        }
    }

    /// Whether the way to the server broke, and not a script.
    pub(super) fn is_connection_error(&self) -> bool {
        matches!(self, Self::Lost(why) | Self::Unreachable(why) if !why.contains("user_script"))
    }

    /// Whether the server has lost a script.
    pub(super) fn is_about_a_missing_script(&self) -> bool {
        matches!(self, Self::Refused(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
    }

    /// Translates the error of a call that only reads: a lost answer leaves nothing open.
    pub(super) fn of_read(self) -> Self {
        match self {
            Self::Lost(why) => Self::Unreachable(why),
            other => other,
        }
    }

    /// Translates the error of a script that writes: a script that stopped inside may have left a part of its
    /// changes behind.
    pub(super) fn of_write(self) -> Self {
        match self {
            Self::Refused(error) if stopped_half_way(&error) => Self::Lost(error.to_string()),
            other => other,
        }
    }
}

/// Codes with which a server refuses the first write of a script. After that write it accepts the others. A
/// command that the user may not send is refused at any position.
const REFUSED_BEFORE_START: [&str; 5] = ["OOM", "READONLY", "MISCONF", "NOREPLICAS", "MASTERDOWN"];

/// Whether an error comes from inside a script. All versions name the line then.
fn stopped_half_way(error: &RedisError) -> bool {
    let message = error.to_string();
    message.contains("user_script") && !REFUSED_BEFORE_START.contains(&code_of(&message, error.code()))
}

/// Whether the server has as many connections as it accepts. This passes.
fn has_too_many_clients(error: &RedisError) -> bool {
    error.to_string().contains("max number of clients")
}

/// The code by which the server names the error. Before Redis 7 an error from inside a script comes wrapped:
/// the code follows the last ` -`.
fn code_of<'a>(message: &'a str, code: Option<&'a str>) -> &'a str {
    match code {
        Some(code) if code != "ERR" => code,
        code => match message.split_once("Error running script") {
            Some((_, script)) => {
                let inner = script.rsplit_once(" -").map_or("", |(_, inner)| inner);
                inner.split_whitespace().next().unwrap_or_default()
            }
            None => code.unwrap_or_default(),
        },
    }
}

fn is_about_tls(error: &RedisError) -> bool {
    let text = error.to_string();
    ["certificate", "InvalidContentType", "tls", "TLS", "UnknownIssuer"]
        .iter()
        .any(|word| text.contains(word))
}

fn no_login(error: &RedisError, place: &str) -> EngineError {
    let why = format!("login at {place} failed ({error}); check user and password of the Redis URL");
    EngineError::Unusable { why }
}

impl From<EngineError> for StoreError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<StoreError> for EngineError {
    fn from(fault: StoreError) -> Self {
        match fault {
            StoreError::Refused(error) => refused(&error),
            StoreError::Lost(why) => Self::Unknown { why },
            StoreError::Unreachable(why) => Self::Unavailable { why },
            StoreError::Stale => {
                Self::Unavailable { why: "queues and types change faster than they can be read".to_owned() }
            }
            StoreError::Engine(error) => error,
        }
    }
}

/// Translates a refusal of the server.
fn refused(error: &RedisError) -> EngineError {
    let message = error.to_string();
    let code = code_of(&message, error.code());
    let unusable = |advice: &str| EngineError::Unusable { why: format!("{message}; {advice}") };
    match code {
        "OOM" => EngineError::Full {
            why: format!(
                "Redis has no memory left ({message}); raise `maxmemory` or finish jobs, then it continues by itself"
            ),
        },
        "MISCONF" => EngineError::Full {
            why: format!(
                "Redis cannot write its data to disk ({message}); free space or fix the disk, then it continues by itself"
            ),
        },
        "NOAUTH" | "WRONGPASS" => unusable("check user and password of the Redis URL"),
        "NOPERM" => unusable("grant this user the commands and keys that docs/engines/redis.md lists"),
        "LOADING" | "BUSY" | "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "MOVED" | "ASK"
        | "NOREPLICAS" | "NOSCRIPT" | "UNBLOCKED" => EngineError::Unavailable { why: message },
        _ if has_too_many_clients(error) => EngineError::Unavailable { why: message },
        // With these errors a server refuses long commands before it says that it requires a login.
        _ if error.kind() == ErrorKind::AuthenticationFailed || message.contains("unauthenticated") => {
            unusable("check user and password of the Redis URL")
        }
        _ => EngineError::Unusable { why: message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_from_inside_a_script_of_an_older_server_is_understood() {
        let wrapped = |inner: &str| {
            format!(
                "An error was signalled by the server - ResponseError: Error running script (call to f_1a2b): @user_script:4: {inner}"
            )
        };
        let oom = wrapped("@user_script: 4: -OOM command not allowed when used memory > 'maxmemory'.");
        assert_eq!(code_of(&oom, Some("ERR")), "OOM");
        let read_only = wrapped("-READONLY You can't write against a read only replica.");
        assert_eq!(code_of(&read_only, Some("ERR")), "READONLY");
        assert_eq!(code_of("MISCONF Redis is configured to save", Some("MISCONF")), "MISCONF");
        assert_eq!(code_of(&wrapped("attempt to index a nil value"), Some("ERR")), "");
    }

    /// An error as the driver reads it from a server's answer.
    fn from_server(answer: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{answer}\r\n").as_bytes()).unwrap();
        value.extract_error().unwrap_err()
    }

    #[test]
    fn a_script_that_stopped_half_way_may_have_written_a_part() {
        let inside = "WRONGTYPE Operation against a key of another kind script: 1a2b, on @user_script:4.";
        let wrapped = "ERR Error running script (call to f_1a2b): @user_script:4: no such thing";
        let forbidden =
            "NOPERM this user has no permissions to run the command script: 1a2b, on @user_script:4.";
        for answer in [inside, wrapped, forbidden] {
            let class = |fault: StoreError| EngineError::from(fault);
            let unknown = class(StoreError::of_call(from_server(answer)).of_write());
            assert!(unknown.is_unknown(), "{answer}: {unknown:?}");
            let read = class(StoreError::of_call(from_server(answer)).of_read());
            assert!(matches!(read, EngineError::Unusable { .. }), "{answer}: {read:?}");
        }
    }

    #[test]
    fn a_script_that_was_not_let_begin_has_written_nothing() {
        for answer in [
            "OOM command not allowed when used memory > 'maxmemory'. script: 1a2b, on @user_script:4.",
            "READONLY You can't write against a read only replica. script: 1a2b, on @user_script:4.",
            "NOAUTH Authentication required.",
        ] {
            let error = EngineError::from(StoreError::of_call(from_server(answer)).of_write());
            assert!(!error.is_unknown(), "{answer}: {error:?}");
        }
    }

    #[test]
    fn a_server_that_wants_a_login_is_told_with_what_to_do_however_it_says_so() {
        for answer in
            ["NOAUTH Authentication required.", "ERR Protocol error: unauthenticated multibulk length"]
        {
            let error = EngineError::from(StoreError::of_call(from_server(answer)));
            assert!(matches!(&error, EngineError::Unusable { why } if why.contains("password")), "{error:?}");
        }
    }

    #[test]
    fn a_server_with_too_many_connections_is_asked_again_later() {
        let error = || from_server("ERR max number of clients reached");
        assert!(EngineError::from(StoreError::of_call(error())).is_passing());
        assert!(EngineError::from(StoreError::connecting(error(), "here")).is_passing());
    }
}
