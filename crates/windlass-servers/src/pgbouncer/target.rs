//! The parts of a PostgreSQL URL that a pooler needs.

use crate::Error;

const SHAPE: &str = "postgres://user:password@host:port/database";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) user: String,
    password: Option<String>,
    host: String,
    port: u16,
    pub(super) database: String,
}

impl Target {
    pub(super) fn read(url: &str) -> Result<Self, Error> {
        let wrong = || std::io::Error::other(format!("expected a URL such as {SHAPE}, got {url:?}"));
        Self::parts(url).ok_or_else(wrong).map_err(Error::io("reading the server's URL"))
    }

    fn parts(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
        let rest = rest.split_once('?').map_or(rest, |(before, _)| before);
        let (whole_address, database) = rest.split_once('/')?;
        let (who, address) = whole_address.rsplit_once('@')?;
        let (user, password) = who.split_once(':').map_or((who, None), |(user, word)| (user, Some(word)));
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "5432"));
        Some(Self {
            user: user.to_owned(),
            password: password.map(decoded),
            host: host.to_owned(),
            port: port.parse().ok()?,
            database: database.to_owned(),
        })
    }

    /// Formats the target as a PgBouncer connection string.
    pub(super) fn connection(&self) -> String {
        let Self { user, password, host, port, .. } = self;
        let password = password.iter().map(|word| format!(" password='{}'", word.replace('\'', "''")));
        format!("host={host} port={port} user={user}{}", password.collect::<String>())
    }
}

/// Decodes percent codes: `%40` is `@`. Any other text stays as it is.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(&part.as_bytes()[2..]);
            }
            None => bytes.extend(format!("%{part}").as_bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let target = Target::read("postgres://me:a%40b'c%@127.0.0.1:6000/jobs?sslmode=disable").unwrap();
        assert_eq!(target.connection(), "host=127.0.0.1 port=6000 user=me password='a@b''c%'");
        assert_eq!(target.database, "jobs");
        let short = Target::read("postgresql://me@db/jobs").unwrap();
        assert_eq!(short.connection(), "host=db port=5432 user=me");
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused_with_the_shape_that_is_expected() {
        for wrong in ["redis://a@b/c", "postgres://me", "postgres://a@b:many/c", ""] {
            let failure = Target::read(wrong).unwrap_err();
            let cause = std::error::Error::source(&failure).unwrap().to_string();
            assert!(cause.contains(SHAPE), "{wrong}: {cause}");
        }
    }
}
