//! Whether a server's certificate will do.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use windlass_core::engine::Result;

use super::settings::Trust;
use super::{certificates, unusable};

/// Asks of a certificate what the settings want to know.
#[derive(Debug)]
pub(super) struct Verifier {
    /// Whoever answers is trusted if there are none.
    authorities: Option<Authorities>,
    /// Whether the certificate must be for the host that was asked for.
    checks_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// Reads the authorities that are trusted.
    pub(super) fn new(trust: &Trust, provider: &Arc<CryptoProvider>) -> Result<Self> {
        let algorithms = provider.signature_verification_algorithms;
        let (authorities, checks_name) = match trust {
            Trust::Anyone => (None, false),
            Trust::Authority(file) => (Some(Authorities::of(certificates("sslrootcert", file)?)), false),
            Trust::AuthorityAndName(Some(file)) => {
                (Some(Authorities::of(certificates("sslrootcert", file)?)), true)
            }
            Trust::AuthorityAndName(None) => (Some(Authorities::of_this_machine()?), true),
        };
        Ok(Self { authorities, checks_name, algorithms })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        if let Some(authorities) = &self.authorities {
            let shown = ParsedCertificate::try_from(end_entity)?;
            let signed = verify_server_cert_signed_by_trust_anchor(
                &shown,
                &authorities.roots,
                intermediates,
                now,
                self.algorithms.all,
            );
            signed.or_else(|error| authorities.forgive(error, end_entity))?;
            if self.checks_name {
                verify_server_name(&shown, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    // That the server has the key of the certificate is checked in every mode: a password may be bound to it.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Who may sign for servers.
#[derive(Debug)]
struct Authorities {
    roots: RootCertStore,
    /// The same, as they came.
    named: Vec<CertificateDer<'static>>,
}

impl Authorities {
    fn of(named: Vec<CertificateDer<'static>>) -> Self {
        let mut roots = RootCertStore::empty();
        // What is no authority signs for nobody, but the machine's list may well hold one among many.
        roots.add_parsable_certificates(named.iter().cloned());
        Self { roots, named }
    }

    /// The machine's own list: whoever keeps the machine decides whom it trusts, and renews it without a new Windlass.
    fn of_this_machine() -> Result<Self> {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            let why =
                found.errors.first().map_or_else(|| "none is installed".to_owned(), ToString::to_string);
            return Err(unusable(format!(
                "expected certificates of authorities on this machine, got none ({why}); install them (package \
                 ca-certificates), or name a file as sslrootcert in the database URL"
            )));
        }
        Ok(Self::of(found.certs))
    }

    /// PostgreSQL's own manual makes a certificate that signs for itself and counts as an authority. The library refuses
    /// it as a server's, after it has looked at the dates; if it is the very one that was named, it will do.
    fn forgive(&self, error: Error, shown: &CertificateDer<'_>) -> std::result::Result<(), Error> {
        let is_authority = matches!(&error, Error::InvalidCertificate(CertificateError::Other(why))
            if why.0.to_string() == "CaUsedAsEndEntity");
        if is_authority && self.named.iter().any(|named| named == shown) { Ok(()) } else { Err(error) }
    }
}
