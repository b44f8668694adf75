//! Protection of connections: TLS with rustls, by the options that every client of PostgreSQL knows.
//!
//! [`settings`] reads them from the database URL, and [`verify`] decides whether a server's certificate is
//! accepted. This module turns files into a connector and refusals into advice.

mod settings;
mod verify;

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, ClientConfig};
use windlass_core::engine::Result;
use windlass_core::error::EngineError;

use settings::Identity;
pub(super) use settings::{TlsSettings, take as take_settings};
use verify::Verifier;

/// The TLS connector of a connection.
pub(super) type Tls = tokio_postgres_rustls::MakeRustlsConnect;

/// Reads the files that the settings name.
pub(super) fn connector(settings: &TlsSettings) -> Result<Tls> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(Verifier::new(&settings.trust, &provider)?);
    // Our verifier makes the same checks as the library's own, but for those that the settings leave out.
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has ciphers for both versions")
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => builder
            .with_client_auth_cert(certificates("sslcert", certificate)?, private_key(key)?)
            .map_err(|error| {
                unusable(format!(
                    "sslcert and sslkey do not match ({error}); name a certificate and its own key"
                ))
            })?,
    };
    Ok(Tls::new(config))
}

/// Reads all certificates of a file. A file that is named and missing is an error in every mode.
fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let wrong = |why: &dyn Error| {
        let path = path.display();
        unusable(format!(
            "expected a file with PEM certificates at {path}, got none that can be read ({why}); check {option} in the database URL"
        ))
    };
    let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))?;
    let certificates = read.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
    if certificates.is_empty() {
        return Err(wrong(&io::Error::other("it holds no certificate")));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| {
        let path = path.display();
        unusable(format!(
            "expected a private key in PEM without a password at {path}, got none that can be read ({error}); check sslkey in the database URL"
        ))
    })
}

fn unusable(why: String) -> EngineError {
    EngineError::Unusable { why }
}

/// The advice for a connection that failed because of TLS; nothing if that was not the reason.
pub(super) fn advice(error: &tokio_postgres::Error, place: &str) -> Option<EngineError> {
    let mut cause = error.source();
    while let Some(source) = cause {
        if let Some(refusal) = source.downcast_ref::<io::Error>().and_then(of_rustls) {
            return Some(advice_on(refusal, place));
        }
        cause = source.source();
    }
    // The driver has no other way to report it.
    let told = error.source().map(ToString::to_string);
    told.filter(|told| told == "server does not support TLS").map(|_| {
        unusable(format!(
            "expected TLS at {place}, as sslmode asks, got a server without it; set ssl = on on the server, or \
             sslmode=prefer in the database URL if the network is trusted"
        ))
    })
}

fn of_rustls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())
}

fn advice_on(refusal: &rustls::Error, place: &str) -> EngineError {
    match refusal {
        rustls::Error::InvalidCertificate(error) => unusable(match error {
            // A bad signature is one by an authority of the same name with another key.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
                "expected a certificate of {place} that a trusted authority has signed, got one of an authority that is not \
                 trusted; name the file with the right authority as sslrootcert in the database URL"
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
                "expected a certificate for the host name in the database URL, got one of {place} for another ({refusal}); \
                 connect by a name that the certificate has as a subject alternative name, or use sslmode=verify-ca"
            ),
            _ => format!(
                "expected a valid certificate of {place}, got an invalid one ({refusal}); issue a new one for the server"
            ),
        }),
        rustls::Error::AlertReceived(_) => unusable(format!(
            "the server at {place} ended the TLS connection ({refusal}); if it asks for a certificate of its clients, name one \
             that it trusts as sslcert, and its key as sslkey, in the database URL"
        )),
        _ => EngineError::Unavailable { why: format!("no TLS with the server at {place} ({refusal})") },
    }
}
