//! One server for all tests of a process.

use std::sync::OnceLock;

use crate::Error;
use crate::postgres::{Options, Server};
use crate::redis;

static POSTGRES: OnceLock<Result<Server, Error>> = OnceLock::new();
static REDIS: OnceLock<Result<redis::Server, Error>> = OnceLock::new();

/// Returns `DATABASE_URL` if the environment has it, else the URL of a server that the first caller starts
/// and that goes when this process ends. Tests share it: each creates a schema or a database of its own,
/// and none restarts it.
pub fn postgres_url() -> Result<String, &'static Error> {
    if let Some(url) = given_url() {
        return Ok(url);
    }
    // No test restarts it, so no test can see what a power cut would leave of it.
    let options = || Options { fsync: false, ..Options::default() };
    // The value is never dropped; its watchdog removes the server.
    POSTGRES.get_or_init(|| Server::start(&options())).as_ref().map(Server::url)
}

/// Returns `DATABASE_URL` of the environment. An empty value counts as missing.
pub fn given_url() -> Option<String> {
    std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty())
}

/// Returns `REDIS_URL` if the environment has it, else the URL of a server that the first caller starts and
/// that goes when this process ends. Tests share it: each has a namespace of its own, and none restarts or
/// empties it.
pub fn redis_url() -> Result<String, &'static Error> {
    if let Some(url) = std::env::var("REDIS_URL").ok().filter(|url| !url.is_empty()) {
        return Ok(url);
    }
    REDIS.get_or_init(|| redis::Server::start(&redis::Options::default())).as_ref().map(redis::Server::url)
}

/// Makes the children of this process keep the shared server alive from now on, even if this process ends
/// before them.
pub fn wait_for_children() -> Result<(), Error> {
    match POSTGRES.get() {
        Some(Ok(server)) => server.wait_for_children(),
        _ => Ok(()),
    }
}
