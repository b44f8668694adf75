//! Verification of a server's certificate.

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

/// Makes the checks of a certificate that the settings ask for.
#[derive(Debug)]
pub(super) struct Verifier {
    /// The trusted authorities. With none, any server is trusted.
    authorities: Option<Authorities>,
    /// Whether the certificate must be for the requested host.
    checks_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// Reads the trusted authorities.
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

    // Every mode checks that the server has the key of the certificate: a password may be bound to it.
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

/// The authorities that may sign for servers.
#[derive(Debug)]
struct Authorities {
    roots: RootCertStore,
    /// Their certificates, as they were read.
    named: Vec<CertificateDer<'static>>,
}

impl Authorities {
    fn of(named: Vec<CertificateDer<'static>>) -> Self {
        let mut roots = RootCertStore::empty();
        // A certificate that is no authority signs for no server, but the machine's list may well hold one
        // among many.
        roots.add_parsable_certificates(named.iter().cloned());
        Self { roots, named }
    }

    /// Reads the machine's own list: its administrator decides which authorities are trusted, and renews
    /// the list without a new Windlass.
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

    /// Accepts a named certificate that signs for itself. PostgreSQL's own manual makes one that counts as
    /// an authority. The library refuses it as a server's, after it has checked the dates. If it is the
    /// very one that was named, it is accepted.
    fn forgive(&self, error: Error, shown: &CertificateDer<'_>) -> std::result::Result<(), Error> {
        let is_authority = matches!(&error, Error::InvalidCertificate(CertificateError::Other(why))
            if why.0.to_string() == "CaUsedAsEndEntity");
        if is_authority && self.named.iter().any(|named| named == shown) { Ok(()) } else { Err(error) }
    }
}
