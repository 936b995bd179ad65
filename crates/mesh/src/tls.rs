//! TLS of a mesh: which certificates a node shows and which it believes (TR-63, TR-64).

use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use crate::error::ConfigError;

/// The TLS settings of a node. TLS 1.2 and 1.3 are offered, without ALPN (TR-63).
///
/// A peer whose certificate passes has the security identity that this node has itself: the authority
/// decides who belongs to the mesh, the routing id who it is.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    server: Option<Arc<ServerConfig>>,
    client: Arc<ClientConfig>,
    host_name: Option<String>,
}

/// Whether a peer that dials has to show a certificate (TR-64).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-64")]
pub enum ClientCertificate {
    /// It need not.
    #[default]
    Off,
    /// It must, and one of the same authority.
    Required,
}

/// A certificate chain and its key, both in PEM.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct PemIdentity<'a> {
    /// The chain, the node's own certificate first.
    pub chain: &'a [u8],
    /// Its key.
    pub key: &'a [u8],
}

impl TlsSettings {
    /// Settings from PEM. `authorities` are the certificates that are believed; without them those of
    /// the system are. `identity` is needed to listen, and to dial a node that requires one.
    ///
    /// # Errors
    /// A PEM text has no certificate or key in it, or they do not fit together.
    pub fn from_pem(
        identity: Option<PemIdentity<'_>>,
        authorities: Option<&[u8]>,
        clients: ClientCertificate,
    ) -> Result<Self, ConfigError> {
        let provider = Arc::new(ring::default_provider());
        let roots = Arc::new(roots(authorities)?);
        let parsed = identity.map(parse).transpose()?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let verifier = verifier.build().map_err(|e| failed(&e))?;
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| failed(&e))?
            .with_webpki_verifier(verifier);
        let client = match &parsed {
            Some((chain, key)) => client
                .with_client_auth_cert(chain.clone(), key.clone_key())
                .map_err(|e| failed(&e))?,
            None => client.with_no_client_auth(),
        };
        let server = match parsed {
            Some((chain, key)) => {
                let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
                    .with_safe_default_protocol_versions()
                    .map_err(|e| failed(&e))?;
                let server = match clients {
                    ClientCertificate::Off => server.with_no_client_auth(),
                    ClientCertificate::Required => {
                        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                        server.with_client_cert_verifier(verifier.build().map_err(|e| failed(&e))?)
                    }
                };
                let server = server
                    .with_single_cert(chain, key)
                    .map_err(|e| failed(&e))?;
                Some(Arc::new(server))
            }
            None => None,
        };
        Ok(Self {
            server,
            client: Arc::new(client),
            host_name: None,
        })
    }

    /// The host name that the certificate of a dialled peer must have; that of its endpoint (TR-64).
    #[must_use]
    pub fn host_name(mut self, name: &str) -> Self {
        self.host_name = Some(name.to_owned());
        self
    }

    pub(crate) const fn can_listen(&self) -> bool {
        self.server.is_some()
    }

    pub(crate) fn accept(&self) -> io::Result<rustls::Connection> {
        let no_key = || io::Error::other("no certificate to listen with");
        let config = Arc::clone(self.server.as_ref().ok_or_else(no_key)?);
        let session = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(session.into())
    }

    pub(crate) fn dial(&self, host: &str) -> io::Result<rustls::Connection> {
        let name = self.host_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::clone(&self.client), name);
        Ok(session.map_err(io::Error::other)?.into())
    }
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn parse(identity: PemIdentity<'_>) -> Result<Identity, ConfigError> {
    let chain = CertificateDer::pem_slice_iter(identity.chain).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|e| failed(&e))?;
    let key = PrivateKeyDer::from_pem_slice(identity.key).map_err(|e| failed(&e))?;
    Ok((chain, key))
}

fn roots(authorities: Option<&[u8]>) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|e| failed(&e))?;
                roots.add(certificate).map_err(|e| failed(&e))?;
            }
        }
        None => {
            // What cannot be read or used of the system's store is left out, as other clients do.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

fn failed(error: &dyn std::error::Error) -> ConfigError {
    ConfigError::Tls {
        reason: error.to_string(),
    }
}
