//! How a server differs from the next.

/// How to set a server up. The default is a safe, small one.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether a commit survives a power cut. Off is faster, and good for tests that never look.
    pub fsync: bool,
    /// Memory for pages, as PostgreSQL writes it.
    pub shared_buffers: String,
    /// Whether the server speaks TLS too, with a certificate made for it. Needs the program `openssl`.
    pub tls: bool,
    /// Further settings by name. They win over all others.
    pub settings: Vec<(String, String)>,
    /// Lines of `pg_hba.conf` that come before the one that trusts everybody on this machine.
    pub hba: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            fsync: true,
            shared_buffers: "128MB".to_owned(),
            tls: false,
            settings: Vec::new(),
            hba: Vec::new(),
        }
    }
}
