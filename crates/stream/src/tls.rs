//! The server's certificate (ST-133, ST-134).

use std::fmt;
use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::error::StartError;

/// A certificate chain with its key, and who may connect.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
}

impl ServerTls {
    /// Of a certificate chain and its key, both in PEM. TLS 1.2 and 1.3, no ALPN (ST-134).
    ///
    /// # Errors
    /// One of them cannot be read, or they do not belong together: fix the files.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, StartError> {
        Self::build(chain, key, None)
    }

    /// As [`Self::from_pem`]; a client needs a certificate of one of these authorities (ST-133).
    ///
    /// # Errors
    /// As [`Self::from_pem`].
    pub fn with_client_authorities(
        chain: &[u8],
        key: &[u8],
        authorities: &[u8],
    ) -> Result<Self, StartError> {
        Self::build(chain, key, Some(authorities))
    }

    fn build(chain: &[u8], key: &[u8], clients: Option<&[u8]>) -> Result<Self, StartError> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(bad)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(bad)?;
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(authorities) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(authorities)? {
                    roots.add(authority).map_err(bad)?;
                }
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                config.with_client_cert_verifier(verifier.build().map_err(bad)?)
            }
        };
        let config = config.with_single_cert(chain, key).map_err(bad)?;
        Ok(Self {
            config: Arc::new(config),
        })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(bad)?;
    if found.is_empty() {
        return Err(bad("there is no certificate in it"));
    }
    Ok(found)
}

fn bad(error: impl fmt::Display) -> StartError {
    StartError::Tls(error.to_string())
}
