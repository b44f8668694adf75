//! The address of a database. It may hold a password, so it is never printed in full.

use std::borrow::Cow;
use std::fmt;

use tokio_postgres::config::Host;
use windlass_core::error::EngineError;
use windlass_engines::postgres::Address;

/// The address of a PostgreSQL database, validated for the driver.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DatabaseUrl(String);

impl DatabaseUrl {
    /// Whether a text that names a store is the address of a PostgreSQL server, and not a file.
    pub(crate) fn is_meant_by(text: &str) -> bool {
        ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme))
    }

    /// Parses an address, and refuses one that the driver could not read. The message leaves out the text:
    /// it may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match Address::parse(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(EngineError::Unusable { why }) => Err(why),
            Err(other) => Err(other.to_string()),
        }
    }

    /// The address as it was written, with the password.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Address::parse(&self.0).map_err(|_| fmt::Error)?;
        let config = address.config();
        let host = |host: &Host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        };
        let mut ports = config.get_ports().iter().copied().cycle();
        let hosts: Vec<_> = config
            .get_hosts()
            .iter()
            .map(|name| ports.next().map_or_else(|| host(name), |port| format!("{}:{port}", host(name))))
            .collect();
        let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
        let database = config.get_dbname().map(|name| format!("/{name}")).unwrap_or_default();
        write!(f, "postgres://{user}{}{database}", hosts.join(","))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

/// A text for an error message, without what may be the secret part of an address.
pub(crate) fn without_password(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("://") else { return without_assignment(text) };
    match rest.rsplit_once('@') {
        Some((_, place)) => Cow::Owned(format!("{scheme}://…@{}", without_assignment(place))),
        None => without_assignment(text),
    }
}

/// Cuts off `password=…` in the other form of an address, or after its question mark.
fn without_assignment(text: &str) -> Cow<'_, str> {
    const NAME: &str = "password=";
    match text.find(NAME) {
        Some(at) => Cow::Owned(format!("{}…", &text[..at + NAME.len()])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (written, shown) in [
            (
                "postgres://ada:secret@db.example:5433/jobs?sslmode=prefer",
                "postgres://ada@db.example:5433/jobs",
            ),
            ("postgresql://ada:p%40ss@a,b/jobs", "postgres://ada@a:5432,b:5432/jobs"),
            ("postgres://ada@a:1,b:2/jobs?password=secret", "postgres://ada@a:1,b:2/jobs"),
            ("host=/run/pg user=ada password=secret dbname=jobs", "postgres://ada@/run/pg/jobs"),
            ("postgres://localhost", "postgres://localhost:5432"),
            (
                "postgres://ada@db.example/jobs?sslmode=verify-full&sslrootcert=/ca.pem",
                "postgres://ada@db.example:5432/jobs",
            ),
        ] {
            let url = DatabaseUrl::parse(written).unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("DatabaseUrl({shown})"));
            assert_eq!(url.secret(), written);
        }
    }

    #[test]
    fn an_address_that_cannot_be_read_is_refused_without_repeating_it() {
        for wrong in
            ["postgres://ada:secret@host:port/jobs", "secret", "postgres://ada:secret@h/d?nope=secret"]
        {
            let why = DatabaseUrl::parse(wrong).unwrap_err();
            assert!(why.starts_with("expected a database URL") && !why.contains("secret"), "{why}");
        }
    }

    #[test]
    fn a_message_leaves_out_what_may_be_a_password() {
        for (text, shown) in [
            ("postgres://ada:sec/re@t@host/jobs", "postgres://…@host/jobs"),
            ("postgres://ada@host/jobs?password=secret", "postgres://…@host/jobs?password=…"),
            ("host=h password=secret", "host=h password=…"),
            ("windlass.db", "windlass.db"),
            ("redis://host", "redis://host"),
        ] {
            assert_eq!(without_password(text), shown);
        }
    }
}
