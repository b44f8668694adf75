//! The configuration files of a server.

use std::fs;
use std::path::Path;

use super::Options;
use crate::Error;
use crate::certificate;

/// Every client on this machine is trusted: the server holds only test data.
const TRUST: [&str; 3] =
    ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"];

/// Writes the rules for clients. The first line that matches decides, so the caller's lines come first.
pub(super) fn authentication(data: &Path, options: &Options) -> Result<(), Error> {
    let lines = options.hba.iter().map(String::as_str).chain(TRUST);
    write(&data.join("pg_hba.conf"), lines)
}

/// Writes all settings. A setting that is missing here has the server's own default.
pub(super) fn settings(folder: &Path, data: &Path, port: u16, options: &Options) -> Result<(), Error> {
    let ours = [
        ("listen_addresses", "127.0.0.1".to_owned()),
        ("port", port.to_string()),
        ("unix_socket_directories", folder.display().to_string()),
        ("max_connections", "300".to_owned()),
        ("shared_buffers", options.shared_buffers.clone()),
        ("fsync", on_or_off(options.fsync)),
        ("synchronous_commit", on_or_off(true)),
        // It lies in the server's folder, so that a killed server leaves no file of it behind in /dev/shm.
        ("dynamic_shared_memory_type", "mmap".to_owned()),
        ("log_line_prefix", "%m [%p] ".to_owned()),
        ("ssl", on_or_off(options.tls)),
        ("ssl_cert_file", certificate::server(folder).display().to_string()),
        (
            "ssl_ca_file",
            if options.tls { certificate::authority(folder).display().to_string() } else { String::new() },
        ),
        ("ssl_key_file", certificate::key(folder).display().to_string()),
    ];
    let ours = ours.iter().map(|(name, value)| line(name, value));
    let further = options.settings.iter().map(|(name, value)| line(name, value));
    let lines: Vec<_> = ours.chain(further).collect();
    write(&data.join("postgresql.conf"), lines.iter().map(String::as_str))
}

fn on_or_off(is_on: bool) -> String {
    if is_on { "on".to_owned() } else { "off".to_owned() }
}

/// Formats one setting. Every value may be quoted; a quote inside is doubled.
fn line(name: &str, value: &str) -> String {
    format!("{name} = '{}'", value.replace('\'', "''"))
}

/// Writes to a file that exists already, so that its owner stays.
fn write<'a>(path: &Path, lines: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let text = lines.flat_map(|line| [line, "\n"]).collect::<String>();
    fs::write(path, text).map_err(Error::io(format!("writing {}", path.display())))
}
