//! The server: accepts, makes sessions, drains, and ends.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use spotlane_lane::{Engine, FifoLimits, GateUse, JobQueue, Kind, Lane, LaneLimits};
use spotlane_stream_io::Clock;
use spotlane_stream_proto::server::{ServerClose, ServerConnection};
use spotlane_stream_proto::{CloseReason, Control, SessionClosing, to_bytes};
use spotlane_types::id::SessionRid;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::accept::{handshake, turn_away};
use crate::actors::{ActorBindings, SessionActors};
use crate::connection::{Connection, Ending, InboundState};
use crate::error::StartError;
use crate::handler::{Accepted, SessionFactory};
use crate::outbox::Outbox;
use crate::seat::{Seat, Unpacking};
use crate::session::{Inner, Session};
use crate::settings::{Endpoint, StreamSettings};
use crate::signal::Signal;
use crate::stats::StreamStats;

/// Packets of one session that wait for its handler, and their bytes; more wait in the socket.
const SESSION_PACKETS: u64 = 64;
const SESSION_BYTES: u64 = 1 << 20;

/// Before the next attempt to accept when the system has no room for one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a host lends to its stream servers.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the two parts of an execution engine"
)]
pub struct Execution<'a> {
    /// Runs the callbacks.
    pub engine: &'a Engine,
    /// Gives the permits under which packets wait for them (EX-120).
    pub jobs: JobQueue,
}

/// Gives session ids; shared by the servers of one host, so that an id names one session (ST-135).
#[derive(Clone, Debug, Default)]
pub struct SessionIds(Arc<AtomicU64>);

impl SessionIds {
    #[expect(
        clippy::expect_used,
        reason = "eight bytes are within the bounds of an id"
    )]
    fn next(&self) -> SessionRid {
        let number = self.0.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let rid = match u32::try_from(number) {
            Ok(short) => SessionRid::new(&short.to_be_bytes()),
            Err(_) => SessionRid::new(&number.to_be_bytes()),
        };
        rid.expect("an id of four or eight bytes")
    }
}

type Quiet = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A session that is open, with a way to wait for its callbacks.
struct Entry {
    session: Session,
    quiet: Box<dyn Fn() -> Quiet + Send + Sync>,
}

struct Shared<F: SessionFactory> {
    settings: StreamSettings,
    acceptor: Option<TlsAcceptor>,
    factory: F,
    kind: Kind<Box<Seat<F::Handler>>>,
    jobs: JobQueue,
    bindings: Option<Arc<dyn ActorBindings>>,
    ids: SessionIds,
    clock: Clock,
    open: Arc<Open>,
}

/// What the handle of a server and its task have in common.
#[derive(Default)]
struct Open {
    /// Protects the sessions; a leaf, held to put in, take out or copy.
    sessions: Mutex<BTreeMap<SessionRid, Entry>>,
    draining: AtomicBool,
    stats: Arc<StreamStats>,
    /// How many sessions are open.
    count: watch::Sender<usize>,
}

impl Open {
    fn sessions(&self) -> MutexGuard<'_, BTreeMap<SessionRid, Entry>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, entry: Entry) {
        let mut sessions = self.sessions();
        sessions.insert(entry.session.rid().clone(), entry);
        self.count.send_replace(sessions.len());
    }

    fn remove(&self, rid: &SessionRid) {
        let mut sessions = self.sessions();
        let removed = sessions.remove(rid);
        self.count.send_replace(sessions.len());
        drop(sessions);
        drop(removed);
    }
}

/// A stream server on one endpoint. Dropping it cuts off its connections; [`StreamServer::shutdown`] takes
/// leave of them.
pub struct StreamServer {
    endpoint: Endpoint,
    open: Arc<Open>,
    tasks: JoinSet<()>,
}

impl StreamServer {
    /// Listens and serves. `factory` makes the handler of each session; `bindings` carries out what their
    /// Actors need, and without it sessions have none (ST-136).
    ///
    /// # Errors
    /// The endpoint and its certificate do not fit together, or the address cannot be listened on.
    ///
    /// # Cancel safety
    /// Dropped, nothing listens.
    pub async fn start<F: SessionFactory>(
        settings: StreamSettings,
        execution: Execution<'_>,
        ids: SessionIds,
        bindings: Option<Arc<dyn ActorBindings>>,
        factory: F,
    ) -> Result<Self, StartError> {
        let endpoint = settings.endpoint;
        let acceptor = match (&settings.tls, endpoint.transport.has_tls()) {
            (Some(tls), true) => Some(tls.acceptor()),
            (None, false) => None,
            // ST-137
            (None, true) => {
                let endpoint = endpoint.to_string();
                return Err(StartError::TlsMissing { endpoint });
            }
            (Some(_), false) => {
                let endpoint = endpoint.to_string();
                return Err(StartError::TlsUnused { endpoint });
            }
        };
        let listening = |source| StartError::Listen {
            endpoint: endpoint.to_string(),
            source,
        };
        let listener = TcpListener::bind(endpoint.address).await;
        let listener = listener.map_err(listening)?;
        let address = listener.local_addr().map_err(listening)?;
        let kind = execution.engine.kind(limits(&settings), GateUse::Own);
        let open = Arc::new(Open::default());
        let shared = Arc::new(Shared {
            settings,
            acceptor,
            factory,
            kind,
            jobs: execution.jobs,
            bindings,
            ids,
            clock: Clock::start(),
            open: Arc::clone(&open),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, shared));
        let endpoint = Endpoint {
            address,
            ..endpoint
        };
        Ok(Self {
            endpoint,
            open,
            tasks,
        })
    }

    /// Where it listens, with the port that the system chose.
    pub const fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Its counters.
    pub fn stats(&self) -> &StreamStats {
        &self.open.stats
    }

    /// A session that is open.
    pub fn session(&self, rid: &SessionRid) -> Option<Session> {
        let sessions = self.open.sessions();
        sessions.get(rid).map(|entry| entry.session.clone())
    }

    /// All sessions that are open.
    pub fn sessions(&self) -> Vec<Session> {
        let sessions = self.open.sessions();
        sessions
            .values()
            .map(|entry| entry.session.clone())
            .collect()
    }

    /// Makes no new sessions and bindings from now on, waits up to `grace` for callbacks that run, then
    /// tells each client that the server drains and closes (S§10). Completes when all are gone.
    ///
    /// New connections are answered with the same reason until the server is shut down.
    ///
    /// # Cancel safety
    /// Dropped, the server goes on draining and closes who is not closed.
    pub async fn drain(&self, grace: Duration) {
        self.open.draining.store(true, Ordering::Release);
        let mut quiet = JoinSet::new();
        for entry in self.open.sessions().values() {
            if let Some(actors) = entry.session.dispatch() {
                actors.refuse_binds();
            }
            let (waits, session) = ((entry.quiet)(), entry.session.clone());
            quiet.spawn(async move {
                // Whoever is not done by then is closed all the same.
                drop(tokio::time::timeout(grace, waits).await);
                session.inner.signal.close(ServerClose::Drain);
            });
        }
        while quiet.join_next().await.is_some() {}
        // Sessions that were made while we began.
        for session in self.sessions() {
            session.inner.signal.close(ServerClose::Drain);
        }
        let mut count = self.open.count.subscribe();
        // The sender lives in `self`.
        drop(count.wait_for(|count| *count == 0).await);
    }

    /// [`Self::drain`], then stops listening and waits for its tasks.
    ///
    /// # Cancel safety
    /// Dropped, what is left is cut off.
    pub async fn shutdown(mut self, grace: Duration) {
        self.drain(grace).await;
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
    }
}

impl fmt::Debug for StreamServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamServer")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

fn limits(settings: &StreamSettings) -> LaneLimits {
    let largest = u64::from(settings.message_bytes_max.unwrap_or(u32::MAX));
    let bytes = SESSION_BYTES.max(largest.saturating_mul(2));
    LaneLimits::DEFAULT.application(FifoLimits::new(SESSION_PACKETS, bytes))
}

async fn accept<F: SessionFactory>(listener: TcpListener, shared: Arc<Shared<F>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => {
                    if connections.len() >= shared.settings.sessions_max {
                        shared.open.stats.count_refused();
                        drop(socket);
                    } else {
                        connections.spawn(connection(Arc::clone(&shared), socket, peer));
                    }
                }
                // Out of descriptors, or a client that was gone before: others go on.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection<F: SessionFactory>(
    shared: Arc<Shared<F>>,
    socket: TcpStream,
    peer: SocketAddr,
) {
    let settings = &shared.settings;
    let Ok(ready) = handshake(socket, shared.acceptor.as_ref(), settings).await else {
        // ST-145: there is no session that could hear of it.
        shared.open.stats.count_handshake_failed();
        return;
    };
    if shared.open.draining.load(Ordering::Acquire) {
        shared.open.stats.count_refused();
        let closing = SessionClosing::new(CloseReason::ServerDrain, "draining");
        let notice = to_bytes(&Control::SessionClosing(closing).into());
        let within = settings.times.flush_timeout;
        return turn_away(ready, &notice.unwrap_or_default(), within).await;
    }
    let session = session(&shared, peer);
    let lane = lane(&shared, &session, peer);
    let quiet = lane.clone();
    shared.open.add(Entry {
        session: session.clone(),
        quiet: Box::new(move || {
            let lane = quiet.clone();
            Box::pin(async move { lane.await_quiescence().await })
        }),
    });
    shared.open.stats.session_opened();
    let rid = session.rid().clone();
    let connection = Connection {
        io: ready.io,
        carrier: ready.carrier,
        machine: ServerConnection::new(shared.clock.now(), settings.times),
        session,
        lane,
        clock: shared.clock,
        source: Some(shared.jobs.source()),
        permit: None,
        output: BytesMut::new(),
        waiting: None,
        next: VecDeque::new(),
        inbound: InboundState::Dispatched,
        ending: Ending::No,
        sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
    };
    // A task that is cut off leaves through here as well.
    let leave = Leave {
        open: &shared.open,
        rid,
        reason: CloseReason::ServerDrain,
    };
    let reason = connection.serve().await;
    leave.with(reason);
}

fn session<F: SessionFactory>(shared: &Shared<F>, peer: SocketAddr) -> Session {
    let settings = &shared.settings;
    let outbox = Arc::new(Outbox::new(settings.outbound_bytes));
    let signal = Arc::new(Signal::default());
    let stats = Arc::clone(&shared.open.stats);
    let rid = shared.ids.next();
    let actors = shared.bindings.as_ref().map(|bindings| {
        SessionActors::new(
            rid.clone(),
            Arc::clone(bindings),
            Arc::clone(&outbox),
            Arc::clone(&signal),
            Arc::clone(&stats),
            shared.clock,
        )
    });
    Session {
        inner: Arc::new(Inner {
            rid,
            peer,
            transport: settings.endpoint.transport,
            outbox,
            signal,
            stats,
            send_timeout: settings.send_timeout,
            actors,
        }),
    }
}

fn lane<F: SessionFactory>(
    shared: &Shared<F>,
    session: &Session,
    peer: SocketAddr,
) -> Lane<Box<Seat<F::Handler>>> {
    let settings = &shared.settings;
    let accepted = Accepted {
        peer,
        transport: settings.endpoint.transport,
    };
    shared.kind.lane(Box::new(Seat {
        handler: shared.factory.session(accepted),
        session: session.clone(),
        unpacking: Unpacking {
            compression: settings.compression,
            plain_bytes_max: settings.plain_bytes_max,
        },
    }))
}

/// Takes a session out of the server when its task ends, in whichever way.
struct Leave<'a> {
    open: &'a Open,
    rid: SessionRid,
    reason: CloseReason,
}

impl Leave<'_> {
    fn with(mut self, reason: CloseReason) {
        self.reason = reason;
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.open.stats.session_closed(self.reason);
        self.open.remove(&self.rid);
    }
}
