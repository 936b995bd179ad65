//! `spotlane node`: one host as a process, with the sample application and an admin endpoint.

mod log;
mod metrics;
mod operator;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use spotlane::session::{ServerTls, StreamSettings};
use spotlane::{Host, Policy, SessionStream, Settings, Shutdown, StartError};
use spotlane_counter::{Counter, CounterAdapter, CounterSessions};
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;

use crate::admin::{AdminServer, Gate, Routes};
use crate::args::NodeArgs;
use crate::config::{ConfigError, NodeConfig, StreamConfig};
use crate::signal::Interrupt;
use crate::stores::Stores;
use crate::term::say;

pub(crate) use log::{LogLevel, write_log};
pub(crate) use operator::{Operator, node_of};

use metrics::Prometheus;

/// What a node writes to standard output when it takes work, after the lines with its endpoints.
pub(crate) const READY_LINE: &str = "ready";

/// Why a node ended or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum NodeError {
    /// The file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store of the file.
    #[error("{}: [store]: {cause}", .file.display())]
    Store {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        cause: spotlane::redis::OpenError,
    },
    /// The host.
    #[error("the host did not start: {0}")]
    Start(#[from] StartError),
    /// The stream endpoint.
    #[error("[stream]: {0}")]
    Stream(#[from] spotlane::session::StartError),
    /// A file of the stream endpoint.
    #[error("[stream]: {} cannot be read: {cause}", .file.display())]
    Identity {
        /// Which.
        file: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The admin endpoint.
    #[error(
        "[admin] listen: {address} cannot be listened on: {cause}; choose another port, or 0 for a free one"
    )]
    Admin {
        /// Where.
        address: std::net::SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// Signals or metrics.
    #[error("the process could not be prepared: {0}")]
    Process(String),
    /// It ended, but not in order.
    #[error("the node ended by force ({0:?}); what it left behind ends with its lease")]
    Forced(spotlane::ForceReason),
}

impl NodeError {
    /// Whether the caller has to mend something before it can be tried again.
    pub(crate) fn is_misuse(&self) -> bool {
        matches!(self, Self::Config(_) | Self::Store { .. })
    }
}

/// Runs a node until it is told to stop.
///
/// # Errors
/// [`NodeError`].
pub(crate) async fn run(args: &NodeArgs) -> Result<(), NodeError> {
    let config = NodeConfig::load(&args.config)?;
    let store = &config.store;
    let stores =
        Stores::open(&store.url, &store.key_prefix, store.operation_timeout).map_err(|cause| {
            NodeError::Store {
                file: args.config.clone(),
                cause,
            }
        })?;
    if args.check {
        say(&format!("{} is valid\n", args.config.display()));
        return Ok(());
    }
    write_log(args.log, None);
    let mut interrupt = Interrupt::new().map_err(|error| NodeError::Process(error.to_string()))?;
    let prometheus = Prometheus::install().map_err(NodeError::Process)?;
    let host = start(&config, &stores).await?;
    let (admin, stream) = match open(&host, &config, stores.name(), prometheus).await {
        Ok(open) => open,
        Err(error) => {
            host.shutdown(None).await;
            return Err(error);
        }
    };
    introduce(&host, &admin, stream.as_ref());
    // The endpoint answers until the host has ended, so that its end can be watched.
    let admin = Task::start(admin.run());
    let stopped = serve(&host, args.leash, &mut interrupt).await;
    drop(admin);
    match stopped {
        Shutdown::Stopped => Ok(()),
        Shutdown::ForceStopped(reason) => Err(NodeError::Forced(reason)),
    }
}

async fn start(config: &NodeConfig, stores: &Stores) -> Result<Host, StartError> {
    let mut host = Host::builder()
        .mesh(&config.mesh.name)
        .listen(config.mesh.listen.to_string())
        .settings(Settings::clone(&config.settings))
        .actor(Policy::preserve(CounterAdapter), Counter::default);
    if let Some(name) = &config.name {
        host = host.node_id(name);
    }
    if let Some(advertise) = &config.mesh.advertise {
        host = host.advertise(advertise.to_string());
    }
    stores.give(host).start().await
}

/// Opens the endpoints for clients and for operators.
async fn open(
    host: &Host,
    config: &NodeConfig,
    store: &'static str,
    prometheus: Prometheus,
) -> Result<(AdminServer<Operator>, Option<SessionStream>), NodeError> {
    let stream = match &config.stream {
        Some(stream) => Some(listen(host, stream).await?),
        None => None,
    };
    let operator = Operator::new(host.clone(), store, stream.clone());
    let gate = Gate::new(config.admin.token.clone());
    let routes = Routes::new(operator, gate, Arc::new(prometheus));
    let address = config.admin.listen;
    let admin = AdminServer::bind(address, routes).await;
    let admin = admin.map_err(|cause| NodeError::Admin { address, cause })?;
    Ok((admin, stream))
}

/// Listens for clients.
async fn listen(host: &Host, config: &StreamConfig) -> Result<SessionStream, NodeError> {
    let mut settings = StreamSettings::new(config.listen.to_string().parse()?);
    if let Some((certificate, key)) = &config.identity {
        let read = |file: &PathBuf| {
            let unreadable = |cause| NodeError::Identity {
                file: file.clone(),
                cause,
            };
            std::fs::read(file).map_err(unreadable)
        };
        settings = settings.tls(ServerTls::from_pem(&read(certificate)?, &read(key)?)?);
    }
    Ok(host
        .listen_for_sessions(settings, CounterSessions::new(host.clone()))
        .await?)
}

fn introduce(host: &Host, admin: &AdminServer<Operator>, stream: Option<&SessionStream>) {
    let mesh = host.endpoint().map(ToString::to_string).unwrap_or_default();
    say(&format!(
        "node {}\nmesh {mesh}\nadmin http://{}\n",
        node_of(host),
        admin.address()
    ));
    if let Some(stream) = stream {
        say(&format!("stream {}\n", stream.endpoint()));
    }
}

/// Waits for readiness, then for the word to stop; a second word ends the process at once.
async fn serve(host: &Host, leash: bool, interrupt: &mut Interrupt) -> Shutdown {
    let life = async {
        host.wait_for_state(spotlane::HostState::is_ready).await;
        say(&format!("{READY_LINE}\n"));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = life => {}
        () = interrupt.next() => {}
        () = leash_ends(leash) => {}
    }
    tokio::select! {
        stopped = host.shutdown(None) => stopped,
        () = interrupt.next() => Shutdown::ForceStopped(spotlane::ForceReason::DeadlineExceeded),
    }
}

/// Completes when standard input ends; never, when it is no leash.
async fn leash_ends(leash: bool) {
    if !leash {
        std::future::pending::<()>().await;
    }
    let mut input = tokio::io::stdin();
    let mut ignored = [0; 64];
    while matches!(input.read(&mut ignored).await, Ok(read) if read > 0) {}
}

/// A task that ends with its handle.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Task {
    #[expect(clippy::disallowed_methods, reason = "the handle is kept and aborted")]
    fn start(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
