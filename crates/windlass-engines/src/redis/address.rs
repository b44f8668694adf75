//! The servers of a Redis URL: one, or several of which one has the data.

use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, TlsCertificates};
use rustls::crypto::CryptoProvider;
use windlass_core::engine::Result;
use windlass_core::error::EngineError;

use super::store_error::{StoreError, StoreResult};

/// Servers and how to reach them.
#[derive(Clone)]
pub struct Address {
    hosts: Vec<ConnectionInfo>,
    /// The PEM certificate of the authority that signed the servers' certificates, if the system does not
    /// know it.
    authority: Option<Vec<u8>>,
}

/// Prints only hosts and ports, since a URL may contain a password.
impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({})", self.place())
    }
}

impl Address {
    /// Parses `redis://user:password@host:port,host:port/database`; `rediss://` selects TLS.
    pub fn parse(url: &str) -> Result<Self> {
        let hosts: Result<Vec<_>> = one_url_a_host(url)?.iter().map(|url| read(url)).collect();
        Ok(Self { hosts: hosts?, authority: None })
    }

    /// Sets the authority that signed the servers' certificates.
    pub(super) fn with_authority(self, authority: Option<Vec<u8>>) -> Self {
        Self { authority, ..self }
    }

    /// The hosts and ports, for people to read: without any password.
    pub fn place(&self) -> String {
        let places: Vec<_> = self.hosts.iter().map(|host| host.addr().to_string()).collect();
        places.join(", ")
    }

    /// Each of the hosts as an address of its own.
    pub(super) fn each(&self) -> impl Iterator<Item = Self> {
        self.hosts.iter().map(|host| Self { hosts: vec![host.clone()], authority: self.authority.clone() })
    }

    /// The number of hosts.
    pub(super) fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Creates a client of one of the hosts; the index wraps around.
    pub(super) fn client(&self, host: usize) -> StoreResult<Client> {
        self.client_of(self.hosts[host % self.hosts.len()].clone())
    }

    /// Creates a client of a server that a cluster has named.
    pub(super) fn client_at(&self, place: &str) -> StoreResult<Client> {
        let wrong = || StoreError::Unreachable(format!("expected host:port from the cluster, got {place:?}"));
        let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let first = &self.hosts[0];
        // A server that does not know its own name leaves it out: then it means the server that was queried.
        let host = if host.is_empty() { host_of(first.addr()) } else { host.to_owned() };
        let addr = match first.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        self.client_of(first.clone().set_addr(addr))
    }

    fn client_of(&self, info: ConnectionInfo) -> StoreResult<Client> {
        // Otherwise the driver sends its name, by a command that was introduced in Redis 7.2.
        let settings = info.redis_settings().clone().set_skip_set_lib_name();
        // Without it a claim that follows an enqueue waits in this machine until the enqueue was
        // acknowledged.
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
        let place = info.addr().to_string();
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            choose_provider();
        }
        let client = match (&self.authority, info.addr()) {
            (Some(authority), ConnectionAddr::TcpTls { .. }) => {
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(authority.clone()) };
                Client::build_with_tls(info, certificates)
            }
            _ => Client::open(info),
        };
        client.map_err(|error| StoreError::connecting(error, &place))
    }
}

/// Selects a TLS provider for the process if there is none. The driver takes the provider of the process, and
/// panics if there is none. An application that has chosen a provider keeps it.
fn choose_provider() {
    if CryptoProvider::get_default().is_none() {
        // An error means that another thread has installed a provider first, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

fn host_of(addr: &ConnectionAddr) -> String {
    match addr {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => "localhost".to_owned(),
    }
}

/// Splits a URL into one URL for each of its hosts.
fn one_url_a_host(url: &str) -> Result<Vec<String>> {
    let Some((scheme, rest)) = url.split_once("://") else { return Err(no_url()) };
    // A password may contain a comma; a host cannot.
    let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(login, rest)| (login, rest));
    let (hosts, path) = rest.split_once('/').map_or((rest, ""), |(hosts, path)| (hosts, path));
    let at = if login.is_empty() { "" } else { "@" };
    Ok(hosts.split(',').map(|host| format!("{scheme}://{login}{at}{host}/{path}")).collect())
}

fn read(url: &str) -> Result<ConnectionInfo> {
    url.into_connection_info().map_err(|_| no_url())
}

/// The error does not contain the URL: it may contain a password.
fn no_url() -> EngineError {
    EngineError::Refused(
        "expected a Redis URL such as redis://user:password@host:6379/0, or rediss:// for TLS, got something else; \
         characters such as @ or / in a password must be written as %40 or %2F"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_name_several_hosts_with_one_login() {
        let address = Address::parse("redis://me:a,b%40c@one:1,two:2/3").unwrap();
        assert_eq!(address.place(), "one:1, two:2");
        let second = address.client(1).unwrap();
        let settings = second.get_connection_info().redis_settings().clone();
        assert_eq!((settings.username(), settings.password(), settings.db()), (Some("me"), Some("a,b@c"), 3));
    }

    #[test]
    fn tls_and_login_go_along_to_where_a_cluster_sends_us() {
        let address = Address::parse("rediss://:secret@one:1").unwrap();
        let moved = address.client_at("10.0.0.7:7001").unwrap();
        let info = moved.get_connection_info();
        assert!(matches!(info.addr(), ConnectionAddr::TcpTls { host, port: 7001, .. } if host == "10.0.0.7"));
        assert_eq!(info.redis_settings().password(), Some("secret"));
    }

    #[test]
    fn no_connection_holds_back_what_is_small() {
        let address = Address::parse("redis://one:1").unwrap();
        for client in [address.client(0).unwrap(), address.client_at("10.0.0.7:7001").unwrap()] {
            assert!(client.get_connection_info().tcp_settings().nodelay());
        }
    }

    #[test]
    fn what_is_no_url_is_refused_without_being_told() {
        for url in ["localhost:6379", "http://x", "redis://:pass word@", "redis://host:port"] {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains("redis://") && !error.contains("pass word"), "{error}");
        }
    }
}
