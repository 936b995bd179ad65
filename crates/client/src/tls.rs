//! Whom a client trusts (ST-133).

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::TlsConnector;

use crate::endpoint::ConfigError;

/// Whom a client trusts. TLS 1.2 and 1.3; chain and host name are verified.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// The authorities of the system.
    ///
    /// # Errors
    /// There are none that can be used.
    pub fn system() -> Result<Self, ConfigError> {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(bad("the system has no certificate authorities"));
        }
        Self::trusting(roots)
    }

    /// These authorities and no others, in PEM.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn authorities(pem: &[u8]) -> Result<Self, ConfigError> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(pem) {
            roots.add(authority.map_err(bad)?).map_err(bad)?;
        }
        if roots.is_empty() {
            return Err(bad("there is no certificate in it"));
        }
        Self::trusting(roots)
    }

    /// Everybody. For tests only: nothing tells the server from somebody between.
    ///
    /// # Errors
    /// The cryptography of this build is not usable.
    pub fn dangerous_without_verification() -> Result<Self, ConfigError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(bad)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustAll(provider)))
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
        })
    }

    fn trusting(roots: RootCertStore) -> Result<Self, ConfigError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(bad)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
        })
    }

    pub(crate) fn connector(&self) -> TlsConnector {
        TlsConnector::from(Arc::clone(&self.config))
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

fn bad(error: impl fmt::Display) -> ConfigError {
    ConfigError::Tls(error.to_string())
}

/// Accepts every certificate, but only with the key that belongs to it.
#[derive(Debug)]
struct TrustAll(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
