//! From a URL to a client that keeps itself connected (ST-30, ST-36).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike, EventInterface};
use fred::types::Builder;
use fred::types::config::{Config, ReconnectPolicy, TlsConfig, TlsConnector, TlsHostMapping};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::sync::watch;
use tokio::task::JoinSet;
use url::Url;

use crate::options::{OpenError, RedisOptions};

/// The first, the longest and the base of the waits between attempts to connect (ST-36).
const BACK_OFF_MIN_MS: u32 = 20;
const BACK_OFF_MAX_MS: u32 = 2_000;
const BACK_OFF_BASE: u32 = 2;
/// How long a bad word about the connection counts: longer than the first wait of the back-off.
const RUMOR_LIFE: Duration = Duration::from_millis(100);
/// How long the client waits before it starts anew after a failure that it takes for final, a wrong password say.
const RESTART_WAIT: Duration = Duration::from_secs(1);

/// What was last heard about the connection.
#[derive(Clone, Debug)]
pub(crate) struct Health(Arc<HealthState>);

#[derive(Debug)]
struct HealthState {
    /// Protects the last error. It is a leaf: nothing is locked and nothing awaited while it is held.
    fault: Mutex<Option<Error>>,
    connects: AtomicU64,
    rumor: watch::Sender<Rumor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rumor {
    Well,
    Ill,
}

impl Health {
    fn new() -> Self {
        let (rumor, _) = watch::channel(Rumor::Well);
        Self(Arc::new(HealthState {
            fault: Mutex::default(),
            connects: AtomicU64::new(0),
            rumor,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Error>> {
        self.0.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: Error) {
        *self.lock() = Some(error);
        self.0.rumor.send_replace(Rumor::Ill);
    }

    fn connected(&self) {
        *self.lock() = None;
        self.0.connects.fetch_add(1, Ordering::SeqCst);
        self.0.rumor.send_replace(Rumor::Well);
    }

    /// The last error since the connection was there.
    pub(crate) fn fault(&self) -> Option<Error> {
        self.lock().clone()
    }

    /// How many connections there have been: tells which one a command was given to.
    pub(crate) fn connects(&self) -> u64 {
        self.0.connects.load(Ordering::SeqCst)
    }

    /// Whether nothing bad was heard since the last connection.
    pub(crate) fn is_well(&self) -> bool {
        *self.0.rumor.borrow() == Rumor::Well
    }

    /// Waits until a new connection is heard of, or for as long as fred needs to notice that it has none. It goes on
    /// taking commands in between, and one of those could be sent after its caller has left.
    pub(crate) async fn recover(&self) {
        let mut rumor = self.0.rumor.subscribe();
        let well = rumor.wait_for(|rumor| *rumor == Rumor::Well);
        drop(tokio::time::timeout(RUMOR_LIFE, well).await);
        // Errors are also told of what was no loss of a connection; from here on fred's own word counts.
        self.0.rumor.send_replace(Rumor::Well);
    }
}

/// A client and the task that keeps it connected; dropping it ends both.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) health: Health,
    _keeper: JoinSet<()>,
}

impl Connection {
    /// Checks the options and starts to connect in the background.
    pub(crate) fn open(options: &RedisOptions) -> Result<Self, OpenError> {
        options.check()?;
        let timeout = options.timeout();
        let mut policy =
            ReconnectPolicy::new_exponential(0, BACK_OFF_MIN_MS, BACK_OFF_MAX_MS, BACK_OFF_BASE);
        policy.set_jitter(BACK_OFF_MIN_MS);
        let mut builder = Builder::from_config(config(options.url())?);
        // No timeout of fred's for commands: `Link` has one for the whole operation, which ends first, and a second timer
        // would be armed for nothing.
        builder
            .with_connection_config(|connection| {
                connection.connection_timeout = timeout;
                connection.internal_command_timeout = timeout;
                connection.tcp.nodelay = Some(true);
                // ST-36: fred would send a command again when its connection dies; one attempt is all it gets, and
                // reads are repeated by us.
                connection.max_command_attempts = 1;
                // fred's own watch over connections that do not answer begins anew with each command, so one that is
                // used all the time is never found out. `Link` watches instead.
                connection.unresponsive.max_timeout = None;
            })
            .set_policy(policy);
        let client = builder.build().map_err(|error| url_error(&error))?;
        let health = Health::new();
        let mut keeper = JoinSet::new();
        keeper.spawn(keep_connected(client.clone(), health.clone()));
        Ok(Self {
            client,
            health,
            _keeper: keeper,
        })
    }
}

/// Runs the client for ever. Its own loop ends on errors that it takes for final; a password that is wrong today may
/// be right after the operator has looked, so we start it again.
async fn keep_connected(client: Client, health: Health) {
    loop {
        let mut errors = client.error_rx();
        let mut connects = client.reconnect_rx();
        let mut running = AbortOnDrop(client.connect());
        loop {
            tokio::select! {
                // An error comes before the connection that follows it.
                biased;
                ended = &mut running.0 => {
                    if let Ok(Err(error)) = ended {
                        health.failed(error);
                    }
                    break;
                }
                Ok((error, _)) = errors.recv() => health.failed(error),
                Ok(_) = connects.recv() => health.connected(),
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

/// What the server says to a user that it does not let in.
const DENIED: [&str; 3] = ["WRONGPASS", "NOAUTH", "NOPERM"];
/// What TLS says of a peer that it does not trust, that does not trust us, or that does not speak TLS. fred hands these on
/// as errors of input and output.
const DISTRUSTED: [&str; 3] = ["InvalidCertificate(", "AlertReceived(", "InvalidMessage("];

/// Whether the last thing heard says that waiting cannot help.
pub(crate) fn is_refusal(error: &Error) -> bool {
    let text = error.details();
    matches!(
        error.kind(),
        ErrorKind::Auth | ErrorKind::Config | ErrorKind::Tls
    ) || DENIED.iter().any(|code| text.starts_with(code))
        || DISTRUSTED.iter().any(|reason| text.contains(reason))
}
