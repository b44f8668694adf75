//! The address in a database URL, and how connections get there.

use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config};
use windlass_core::engine::Result;
use windlass_core::error::EngineError;

use super::store_error::StoreError;
use super::tls::{self, Tls, TlsSettings};

/// The address in a database URL, and how connections to it are protected.
#[derive(Debug, Clone)]
pub struct Address {
    config: Config,
    tls: TlsSettings,
}

impl Address {
    /// Reads a URL such as `postgres://user@host:5432/database?sslmode=verify-full`, or words such as
    /// `host=… user=…`. Opens no file: certificates are read when a connection is made.
    pub fn parse(url: &str) -> Result<Self> {
        refuse_second_at(url)?;
        let (url, tls) = tls::take_settings(url)?;
        let mut config = Config::from_str(&url).map_err(|error| wrong_url(&error))?;
        refuse_at_in_host(&config)?;
        config.ssl_mode(tls.transport());
        be_ready_for_tls(&mut config);
        notice_a_silent_peer(&mut config);
        if config.get_application_name().is_none() {
            config.application_name("windlass");
        }
        Ok(Self { config, tls })
    }

    /// The driver's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Opens a session of your own, for example to enqueue in your own transaction. Its connection is
    /// driven by a task on the calling runtime and ends with the value.
    pub async fn connect(&self) -> Result<Client> {
        let connected = self.config.connect(self.connector()?).await;
        let (client, connection) =
            connected.map_err(|error| EngineError::from(StoreError::connecting_to(error, &self.place())))?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// The same address with settings for its sessions that the URL overrides.
    pub(super) fn with_defaults(mut self, settings: &str) -> Self {
        let all = format!("{settings} {}", self.config.get_options().unwrap_or_default());
        self.config.options(all);
        self
    }

    /// The same address with settings that override the URL's.
    pub(super) fn with_settings(mut self, settings: &str) -> Self {
        let all = format!("{} {settings}", self.config.get_options().unwrap_or_default());
        self.config.options(all);
        self
    }

    /// The TLS connector of the address. Reads the files that the URL names.
    pub(super) fn connector(&self) -> Result<Tls> {
        tls::connector(&self.tls)
    }

    /// The hosts and ports of the address, for people to read, and nothing that is secret.
    pub(super) fn place(&self) -> String {
        let ports = self.config.get_ports();
        let port = |nth: usize| ports.get(nth).or(ports.first()).copied().unwrap_or(5432);
        let host = |host: &Host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(folder) => folder.display().to_string(),
        };
        let hosts = self.config.get_hosts().iter().enumerate();
        hosts.map(|(nth, name)| format!("{}:{}", host(name), port(nth))).collect::<Vec<_>>().join(", ")
    }
}

/// Refuses a second `@` before the options. The driver takes the text after the first `@` for the host. If
/// that `@` was in a password, the rest of the password would be shown to each person who reads the
/// address.
fn refuse_second_at(url: &str) -> Result<()> {
    let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let Some((_, place)) = rest.and_then(|rest| rest.split_once('@')) else { return Ok(()) };
    let before_options = place.split('?').next().unwrap_or(place);
    if before_options.contains('@') { Err(torn_password()) } else { Ok(()) }
}

fn refuse_at_in_host(config: &Config) -> Result<()> {
    let is_torn = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
    if config.get_hosts().iter().any(is_torn) { Err(torn_password()) } else { Ok(()) }
}

/// The error for a second `@`. It repeats nothing of the URL.
fn torn_password() -> EngineError {
    let why = "expected a database URL with one @, before the host, got another one behind it; special characters in a \
               password are percent-encoded: write @ as %40, / as %2F and ? as %3F";
    EngineError::Unusable { why: why.to_owned() }
}

/// Prepares the driver for TLS. It wants a host name for TLS even if the URL has only an address, and asks
/// for TLS on a Unix socket, where no server has it.
fn be_ready_for_tls(config: &mut Config) {
    if config.get_hosts().is_empty() {
        for address in config.get_hostaddrs().to_vec() {
            config.host(address.to_string());
        }
    }
    let is_socket = |host: &Host| matches!(host, Host::Unix(_));
    if !config.get_hosts().is_empty() && config.get_hosts().iter().all(is_socket) {
        config.ssl_mode(SslMode::Disable);
    }
}

/// Sets timeouts so that a peer that went away in silence is noticed within half a minute, unless the URL
/// says otherwise.
fn notice_a_silent_peer(config: &mut Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(20));
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(Duration::from_secs(5)).keepalives_idle(Duration::from_secs(10));
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(3);
    }
}

/// The error for an unreadable URL. The driver names an option that it does not know, and that may be a
/// part of a password with a `?` in it. An option that it does know, such as one with a wrong value, has a
/// name that is safe to repeat.
fn wrong_url(error: &tokio_postgres::Error) -> EngineError {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    let safe = cause.filter(|cause| cause.starts_with("invalid value for option"));
    let cause = safe.unwrap_or_else(|| "an unknown option or a wrong character".to_owned());
    EngineError::Unusable {
        why: format!(
            "expected a database URL such as postgres://user@host:5432/database, got one that cannot be read ({cause}); \
             in a password, write @ as %40, / as %2F and ? as %3F"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str) -> SslMode {
        Address::parse(url).unwrap().config().get_ssl_mode()
    }

    #[test]
    fn an_address_without_a_name_has_one_for_tls() {
        let address = Address::parse("hostaddr=10.0.0.7 user=app").unwrap();
        assert_eq!(address.config().get_hosts(), [Host::Tcp("10.0.0.7".to_owned())]);
    }

    #[test]
    fn a_unix_socket_never_has_tls_whatever_is_asked_for() {
        assert_eq!(mode("postgres:///app?host=/run/postgresql&sslmode=verify-full"), SslMode::Disable);
        assert_eq!(mode("postgres:///app?host=db.example&sslmode=verify-full"), SslMode::Require);
    }

    #[test]
    fn a_password_with_a_bare_at_is_refused_and_no_part_of_it_is_told() {
        let urls = [
            "postgres://me:hun@ter2@db.example/app",
            "postgresql://me:hun@ter2/x@db.example/app",
            "postgres://me:hun@ter2@db.example/app?sslmode=ter2@x",
            "host=ter2@db.example user=me",
            "postgres:///app?host=ter2%40db.example",
        ];
        for url in urls {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains("percent-encoded") && error.contains("%40"), "{error}");
            assert!(!error.contains("hun") && !error.contains("ter2"), "{error}");
        }
        assert!(
            Address::parse("host=here password=x://y@z@").is_ok(),
            "words of the form name=value need no such check"
        );
        let address = Address::parse("postgres://me:hun%40ter2@db.example/app?application_name=a@b").unwrap();
        assert_eq!(address.config().get_password(), Some("hun@ter2".as_bytes()));
        assert_eq!(address.place(), "db.example:5432");
    }

    #[test]
    fn a_url_that_says_nothing_prefers_tls() {
        assert_eq!(mode("postgres://app@db.example/app"), SslMode::Prefer);
        assert_eq!(mode("postgres://app@db.example/app?sslmode=disable"), SslMode::Disable);
    }
}
