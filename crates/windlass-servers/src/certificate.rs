//! A certificate for one server, made with the program `openssl`.
//!
//! There is an authority beside the server's own certificate, since some clients refuse a self-signed
//! server certificate.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::daemon::Daemon;
use crate::{Error, programs};

const INSTALL: &str = "Debian, Ubuntu: `apt install openssl`; Fedora: `dnf install openssl`";

/// The complete request configuration, so that the defaults of the machine do not matter.
const REQUEST: &str = "\
[req]
distinguished_name = name
prompt = no
x509_extensions = authority
[name]
CN = localhost
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[client]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = clientAuth
[server]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
";

const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

pub(crate) fn authority(folder: &Path) -> PathBuf {
    folder.join("authority.crt")
}

pub(crate) fn server(folder: &Path) -> PathBuf {
    folder.join("server.crt")
}

pub(crate) fn key(folder: &Path) -> PathBuf {
    folder.join("server.key")
}

/// Creates the authority, the server's key and its certificate, all valid for two days.
pub(crate) fn make(daemon: &Daemon) -> Result<(), Error> {
    daemon.write("request", REQUEST)?;
    openssl(
        daemon,
        "req -config request -x509 -days 2 -subj /CN=windlass NEW_KEY -keyout authority.key -out authority.crt",
    )?;
    openssl(daemon, "req -config request -new NEW_KEY -keyout server.key -out server.csr")?;
    sign(daemon, "server", "server")?;
    // PostgreSQL refuses a key file that other accounts may read.
    let key = key(daemon.path());
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600))
        .map_err(Error::io(format!("protecting {}", key.display())))
}

/// Creates a certificate that identifies a client as this role, and its key. The role is a plain word.
pub(crate) fn make_for_client(daemon: &Daemon, role: &str) -> Result<(PathBuf, PathBuf), Error> {
    openssl(
        daemon,
        &format!("req -config request -new -subj /CN={role} NEW_KEY -keyout {role}.key -out {role}.csr"),
    )?;
    sign(daemon, role, "client")?;
    let file = |kind: &str| daemon.path().join(format!("{role}.{kind}"));
    Ok((file("crt"), file("key")))
}

fn sign(daemon: &Daemon, name: &str, extensions: &str) -> Result<(), Error> {
    openssl(
        daemon,
        &format!(
            "x509 -req -days 2 -in {name}.csr -CA authority.crt -CAkey authority.key -set_serial 1 \
             -extfile request -extensions {extensions} -out {name}.crt"
        ),
    )
}

/// Runs `openssl` in the server's folder.
fn openssl(daemon: &Daemon, arguments: &str) -> Result<(), Error> {
    let mut command = Command::new(programs::find("openssl", &[], INSTALL)?);
    let words = arguments.split_whitespace();
    let words = words.flat_map(|word| if word == "NEW_KEY" { NEW_KEY.to_vec() } else { vec![word] });
    daemon.run(command.args(words))
}
