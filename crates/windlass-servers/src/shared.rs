//! One server for all tests of a process.

use std::sync::OnceLock;

use crate::Error;
use crate::postgres::{Options, Server};
use crate::redis;

static POSTGRES: OnceLock<Result<Server, Error>> = OnceLock::new();
static REDIS: OnceLock<Result<redis::Server, Error>> = OnceLock::new();

/// `DATABASE_URL` if the environment has it, else a server that is started by the first caller and goes when this
/// process ends. Tests share it: each makes a schema or a database of its own, and none restarts it.
pub fn postgres_url() -> Result<String, &'static Error> {
    if let Some(url) = given_url() {
        return Ok(url);
    }
    // Nobody restarts it, so nobody can tell what a power cut would leave of it.
    let options = || Options { fsync: false, ..Options::default() };
    // The value is never dropped; its watchdog removes the server.
    POSTGRES.get_or_init(|| Server::start(&options())).as_ref().map(Server::url)
}

/// What the environment has in `DATABASE_URL`. An empty one is none.
pub fn given_url() -> Option<String> {
    std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty())
}

/// `REDIS_URL` if the environment has it, else a server that is started by the first caller and goes when this process
/// ends. Tests share it: each has a namespace of its own, and none restarts or empties it.
pub fn redis_url() -> Result<String, &'static Error> {
    if let Some(url) = std::env::var("REDIS_URL").ok().filter(|url| !url.is_empty()) {
        return Ok(url);
    }
    REDIS.get_or_init(|| redis::Server::start(&redis::Options::default())).as_ref().map(redis::Server::url)
}

/// From now on the children of this process keep the shared server alive, even if this process ends before them.
pub fn wait_for_children() -> Result<(), Error> {
    match POSTGRES.get() {
        Some(Ok(server)) => server.wait_for_children(),
        _ => Ok(()),
    }
}
