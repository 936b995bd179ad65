//! From a URL to a client that keeps itself connected (ST-30, ST-36).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::Builder;
use fred::types::config::{Config, ReconnectPolicy, TlsConfig, TlsConnector, TlsHostMapping};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::task::JoinSet;
use url::Url;

use crate::options::{OpenError, RedisOptions};

/// The first, the longest and the base of the waits between attempts to connect (ST-36).
const BACK_OFF_MIN_MS: u32 = 20;
const BACK_OFF_MAX_MS: u32 = 2_000;
const BACK_OFF_BASE: u32 = 2;
/// How long the client waits before it starts anew after a failure that it takes for final, a wrong password say.
const RESTART_WAIT: Duration = Duration::from_secs(1);

/// Why there is no connection, as last heard from the client.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastFault(Arc<Mutex<Option<Error>>>);

impl LastFault {
    fn set(&self, error: Option<Error>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    pub(crate) fn get(&self) -> Option<Error> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// A client and the task that keeps it connected; dropping it ends both.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) fault: LastFault,
    _keeper: JoinSet<()>,
}

impl Connection {
    /// Checks the options and starts to connect in the background.
    pub(crate) fn open(options: &RedisOptions) -> Result<Self, OpenError> {
        options.check()?;
        let timeout = options.timeout();
        let mut builder = Builder::from_config(config(options.url())?);
        builder
            .with_performance_config(|performance| performance.default_command_timeout = timeout)
            .with_connection_config(|connection| {
                connection.connection_timeout = timeout;
                connection.internal_command_timeout = timeout;
                connection.tcp.nodelay = Some(true);
                // ST-36: fred would send a command again when its connection dies; one attempt is all it gets, and
                // reads are repeated by us.
                connection.max_command_attempts = 1;
                // A connection that swallows commands without an answer is given up after two timeouts.
                connection.unresponsive.max_timeout = Some(timeout.saturating_mul(2));
                connection.unresponsive.interval = timeout.max(Duration::from_millis(10));
            })
            .set_policy(ReconnectPolicy::new_exponential(
                0,
                BACK_OFF_MIN_MS,
                BACK_OFF_MAX_MS,
                BACK_OFF_BASE,
            ));
        let client = builder.build().map_err(|error| url_error(&error))?;
        let fault = LastFault::default();
        let mut keeper = JoinSet::new();
        keeper.spawn(keep_connected(client.clone(), fault.clone()));
        Ok(Self {
            client,
            fault,
            _keeper: keeper,
        })
    }
}

/// Runs the client for ever. Its own loop ends on errors that it takes for final; a password that is wrong today may
/// be right after the operator has looked, so we start it again.
async fn keep_connected(client: Client, fault: LastFault) {
    loop {
        let mut errors = client.error_rx();
        let mut connects = client.reconnect_rx();
        let mut running = AbortOnDrop(client.connect());
        loop {
            tokio::select! {
                ended = &mut running.0 => {
                    if let Ok(Err(error)) = ended {
                        fault.set(Some(error));
                    }
                    break;
                }
                Ok((error, _)) = errors.recv() => fault.set(Some(error)),
                Ok(_) = connects.recv() => fault.set(None),
            }
        }
        tokio::time::sleep(RESTART_WAIT).await;
    }
}

/// fred's loop is a task of its own; it must not outlive ours.
struct AbortOnDrop(fred::types::ConnectHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn url_error(error: &Error) -> OpenError {
    // Only the text of the parser, which does not repeat the URL.
    OpenError::Url {
        reason: format!("{}: {}", error.kind().to_str(), error.details()),
    }
}

fn config(text: &str) -> Result<Config, OpenError> {
    let mut url = Url::parse(text).map_err(|error| OpenError::Url {
        reason: error.to_string(),
    })?;
    let scheme = url.scheme().to_owned();
    let (family, form) = scheme.split_once('-').unwrap_or((&scheme, ""));
    let tls = match family {
        "redis" | "valkey" => false,
        "rediss" | "valkeys" => true,
        _ => {
            return Err(OpenError::Url {
                reason: format!("scheme {scheme} is not redis, rediss, valkey or valkeys"),
            });
        }
    };
    if !matches!(form, "" | "cluster" | "sentinel") {
        return Err(OpenError::Url {
            reason: format!("unknown form -{form} of the scheme"),
        });
    }
    let authority = url.query_pairs().find(|(name, _)| name == "tls-ca");
    let authority = authority.map(|(_, path)| path.into_owned());
    if authority.is_some() && !tls {
        return Err(OpenError::Url {
            reason: "tls-ca without tls".to_owned(),
        });
    }
    if tls {
        // fred is told of TLS below, with a crypto provider that we choose; it would take the process's default.
        let plain = if form.is_empty() {
            "redis".to_owned()
        } else {
            format!("redis-{form}")
        };
        url.set_scheme(&plain).map_err(|()| OpenError::Url {
            reason: "the scheme does not fit".to_owned(),
        })?;
    }
    let mut config = Config::from_url(url.as_str()).map_err(|error| url_error(&error))?;
    // The first connection may fail and be tried again like every later one (ST-63 starts without a store).
    config.fail_fast = false;
    if tls {
        config.tls = Some(TlsConfig {
            connector: TlsConnector::Rustls(tls_connector(authority.as_deref())?),
            hostnames: TlsHostMapping::DefaultHost,
        });
    }
    Ok(config)
}

fn tls_connector(authority: Option<&str>) -> Result<tokio_rustls::TlsConnector, OpenError> {
    let refuse = |reason: String| OpenError::Certificates { reason };
    let mut roots = RootCertStore::empty();
    if let Some(path) = authority {
        let certificates = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| refuse(error.to_string()))?;
        for certificate in certificates {
            roots
                .add(certificate)
                .map_err(|error| refuse(error.to_string()))?;
        }
    } else {
        let system = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(system.certs);
    }
    if roots.is_empty() {
        return Err(refuse("there are none".to_owned()));
    }
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .map_err(|error| refuse(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config).into())
}

/// Whether the last thing heard says that waiting cannot help.
pub(crate) fn is_refusal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Auth | ErrorKind::Config | ErrorKind::Tls
    ) || error.details().starts_with("WRONGPASS")
        || error.details().starts_with("NOAUTH")
        || error.details().starts_with("NOPERM")
}
