//! How connections are protected on the way.

/// What makes a connection's TLS.
pub(super) type Tls = tokio_postgres::NoTls;
