//! The options by which test servers differ.

/// The configuration of a server. The default is a safe, small one.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether a commit survives a power cut. Off is faster, and sufficient for tests that never simulate a
    /// power cut.
    pub fsync: bool,
    /// The memory for pages, in PostgreSQL's notation.
    pub shared_buffers: String,
    /// Whether the server speaks TLS too, with a certificate created for it. Needs the program `openssl`.
    pub tls: bool,
    /// Further settings by name. They take precedence over all others.
    pub settings: Vec<(String, String)>,
    /// Lines of `pg_hba.conf` that come before the line that trusts every client on this machine.
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
