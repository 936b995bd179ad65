//! Accepts connections and finds the link that each belongs to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use spotlane_mesh_proto::Machine as _;
use spotlane_mesh_proto::admission::Expected;
use spotlane_mesh_proto::bound::HANDSHAKE_TIMEOUT;
use spotlane_mesh_proto::link::AcceptedLane;
use spotlane_mesh_proto::zmp::{
    Connection, ConnectionEffect, ConnectionEnd, ConnectionEvent, PeerReady,
};
use spotlane_types::time::Monotonic;
use tokio::net::{TcpListener, TcpStream};

use crate::config::Scheme;
use crate::inbound::Diagnostic;
use crate::node::Node;
use crate::stream::{Incoming, Stream};

/// Between two attempts to accept when the system has no room for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Room for what comes before a connection belongs to a link.
const READ_BYTES: usize = 4096;

/// Accepts until the node stops.
pub(crate) async fn listen(node: Arc<Node>, listener: TcpListener, scheme: Scheme) {
    let open = Arc::new(AtomicUsize::new(0));
    let mut stopping = node.stopping.subscribe();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((tcp, _)) = accepted else {
            // Sleep: the system is out of descriptors or memory, and nothing tells when it is not.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(place) = Place::take(&open, node.config.bounds.connections_max) else {
            // A bound of memory: the peer sees a lost connection and comes again.
            drop(tcp);
            node.inbound.on_diagnostic(Diagnostic::TooManyConnections);
            continue;
        };
        let task = Arc::clone(&node);
        let mut stopping = node.stopping.subscribe();
        node.spawn(async move {
            let _place = place;
            let joined = tokio::select! {
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => return,
                joined = shake_hands(&task, tcp, scheme) => joined,
            };
            // TR-65: whoever does not get this far has touched no peer.
            let (accepted, stream, incoming) = match joined {
                Ok(joined) => joined,
                Err(diagnostic) => return task.inbound.on_diagnostic(diagnostic),
            };
            let lane = accepted.ready.lane;
            if let Some(core) = task.join_lane(accepted, scheme, &stream) {
                core.run_lane(lane, stream, incoming).await;
            } else {
                stream.close();
                task.inbound.on_diagnostic(Diagnostic::NotJoined);
            }
        });
    }
}

/// One of a bounded number of connections.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>, max: usize) -> Option<Self> {
        let next = |now: usize| (now < max).then(|| now.saturating_add(1));
        open.fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
            .ok()?;
        Some(Self(Arc::clone(open)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

type Joinable = (AcceptedLane, Arc<Stream>, Incoming);

/// Runs the handshake of one accepted connection.
async fn shake_hands(node: &Node, tcp: TcpStream, scheme: Scheme) -> Result<Joinable, Diagnostic> {
    // TR-26: one timer for all of it. The machine of the connection ends by itself in time; this is for what comes before it.
    let since = node.clock().now();
    let limit = node.clock().until(since.after(HANDSHAKE_TIMEOUT));
    let secured = match tokio::time::timeout(limit, secure(node, tcp, scheme)).await {
        Ok(secured) => secured,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    let not_secured = |error: io::Error| Diagnostic::NotSecured {
        error: error.kind(),
    };
    let (stream, mut incoming) = secured.map_err(not_secured)?;
    let shaken = run_handshake(node, &stream, &mut incoming, scheme, since).await;
    let shaken = shaken.map_err(not_secured)?;
    match shaken {
        Ok(accepted) => Ok((accepted, stream, incoming)),
        Err(end) => {
            stream.close();
            Err(Diagnostic::NotAccepted { end })
        }
    }
}

async fn secure(
    node: &Node,
    tcp: TcpStream,
    scheme: Scheme,
) -> io::Result<(Arc<Stream>, Incoming)> {
    match (scheme, &node.config.tls) {
        (Scheme::Tls, Some(tls)) => Stream::secure(tcp, tls.accept()?).await,
        (Scheme::Tcp, _) | (Scheme::Tls, None) => Stream::plain(tcp),
    }
}

async fn run_handshake(
    node: &Node,
    stream: &Stream,
    incoming: &mut Incoming,
    scheme: Scheme,
    since: Monotonic,
) -> io::Result<Result<AcceptedLane, ConnectionEnd>> {
    let clock = node.clock();
    let deadline = since.after(HANDSHAKE_TIMEOUT);
    let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
    let settings = node.settings(Expected::Anyone, scheme).connection();
    let mut effects = Vec::new();
    let mut connection = Connection::accept(settings, since, &mut effects);
    let mut done = Handshake::default();
    loop {
        for effect in effects.drain(..) {
            match effect {
                ConnectionEffect::Write(bytes) => {
                    let written = write(stream, bytes);
                    let written = tokio::time::timeout(clock.until(deadline), written);
                    written.await.map_err(timed_out)??;
                }
                ConnectionEffect::Ready(ready) => done.ready = Some(ready),
                early @ (ConnectionEffect::Message(_) | ConnectionEffect::Flow(_)) => {
                    done.early.push(early);
                }
                ConnectionEffect::Dropped(_) => {}
                ConnectionEffect::End(end) => return Ok(Err(end)),
            }
        }
        if let Some(ready) = done.ready {
            let early = done.early;
            let accepted = AcceptedLane {
                connection,
                ready,
                early,
            };
            return Ok(Ok(accepted));
        }
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        let due = connection.next_deadline().unwrap_or(deadline);
        let read = tokio::time::timeout(clock.until(due), incoming.read(&mut buffer)).await;
        let now = clock.now();
        match read {
            Ok(Ok(0) | Err(_)) => connection.on_event(now, ConnectionEvent::Closed, &mut effects),
            Ok(Ok(_)) => {
                let received = ConnectionEvent::Received(buffer.freeze());
                connection.on_event(now, received, &mut effects);
            }
            Err(_) => connection.on_deadline(now, &mut effects),
        }
    }
}

#[derive(Default)]
struct Handshake {
    ready: Option<PeerReady>,
    early: Vec<ConnectionEffect>,
}

async fn write(stream: &Stream, bytes: Bytes) -> io::Result<()> {
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        match stream.try_write(&[io::IoSlice::new(rest)]) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    loop {
        match stream.try_flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            other => return other,
        }
    }
}
