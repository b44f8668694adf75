//! The settings of `[store]` for Redis.

use std::fmt;
use std::path::PathBuf;

use windlass::redis::{Address, RedisOptions};

use super::section::{Section, boolean, text};
use super::tree::Value;

/// How a Redis server is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RedisSettings {
    /// The address. If `None`, the environment's `REDIS_URL` is used.
    pub(crate) url: Option<RedisUrl>,
    /// The prefix of all keys.
    pub(crate) namespace: String,
    /// The prefix of the keys of ready jobs, if it is not the default.
    pub(crate) ready_key: Option<String>,
    /// The prefix of the keys of scheduled jobs, if it is not the default.
    pub(crate) scheduled_key: Option<String>,
    /// The authority that signed the server's certificate.
    pub(crate) ca_file: Option<PathBuf>,
    /// Whether a server that may drop keys is accepted.
    pub(crate) allow_eviction: bool,
}

impl Default for RedisSettings {
    fn default() -> Self {
        let RedisOptions { namespace, allow_eviction, .. } = RedisOptions::default();
        Self { url: None, namespace, ready_key: None, scheduled_key: None, ca_file: None, allow_eviction }
    }
}

pub(super) fn read(section: &mut Section<'_, '_>) -> RedisSettings {
    let default = RedisSettings::default();
    RedisSettings {
        url: section.get("url", url).flatten(),
        namespace: section.get("namespace", text).unwrap_or(default.namespace),
        ready_key: section.get("ready_key", text),
        scheduled_key: section.get("scheduled_key", text),
        ca_file: section.get("ca_file", text).map(PathBuf::from),
        allow_eviction: section.get("allow_eviction", boolean).unwrap_or(default.allow_eviction),
    }
}

/// The URL, if it leads to Redis and not to PostgreSQL.
fn url(value: &Value) -> Result<Option<RedisUrl>, String> {
    let text = text(value)?;
    if RedisUrl::is_meant_by(&text) { RedisUrl::parse(&text).map(Some) } else { Ok(None) }
}

/// The address of a Redis server. It may hold a password, so it is never printed in full.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RedisUrl(String);

impl RedisUrl {
    /// Whether a text that names a store is the address of a Redis server.
    pub(crate) fn is_meant_by(text: &str) -> bool {
        ["redis://", "rediss://"].iter().any(|scheme| text.starts_with(scheme))
    }

    /// Parses an address, and refuses one that the driver could not read. The message leaves out the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Address::parse(text).map(|_| Self(text.to_owned())).map_err(|why| why.to_string())
    }

    /// The address as it was written, with the password.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.split("://").next().unwrap_or_default();
        let address = Address::parse(&self.0).map_err(|_| fmt::Error)?;
        write!(f, "{scheme}://{}", address.place())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let url = RedisUrl::parse("rediss://ada:secret@one:1,two:2/3").unwrap();
        assert_eq!(url.to_string(), "rediss://one:1, two:2");
        assert!(!format!("{url:?}").contains("secret"));
        assert!(!RedisUrl::parse("redis://ada:secret@host:port").unwrap_err().contains("secret"));
    }
}
