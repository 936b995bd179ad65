//! The handle of a running mesh.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use spotlane_types::id::{Endpoint, NodeRid, ProtocolCapability};
use spotlane_types::kind::RuntimeState;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::reply::Reply;
use spotlane_wire::descriptor::RouteMeshAdmission;
use spotlane_wire::{Record, RecordRef};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::config::{Address, MeshConfig, Scheme, parse_endpoint};
use crate::dialer::Dialer;
use crate::error::{
    ConfigError, LostReason, NotSubmitted, Refused, RequestError, SendError, StartError,
};
use crate::inbound::{Inbound, PeerLink};
use crate::intent::PeerIntent;
use crate::link::{Asked, Charge, How, LinkCore, refused};
use crate::listener::listen;
use crate::node::Node;
use crate::tracked::Tracked;

/// The capability that a peer must have unless the configuration names another one (TR-81).
const REQUIRED: &str = "framework-service-v13";
/// TR-30
const BACKLOG: u32 = 100;

/// A running mesh. Clones are the same mesh; when the last one is dropped, it ends at once.
#[derive(Clone, Debug)]
pub struct Mesh {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    node: Arc<Node>,
    dialer: Dialer,
    advertised: Endpoint,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.node.abort();
    }
}

/// One admitted peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerInfo {
    /// The connection that is used.
    pub link: PeerLink,
    /// How the peer describes itself.
    pub descriptor: Arc<RouteMeshAdmission>,
}

impl PeerInfo {
    /// Whether new work may be sent to it (TR-89): a peer that is draining, stopped or in error keeps
    /// its link for accepted work and is not chosen for new one.
    pub fn is_ready(&self) -> bool {
        self.descriptor.extension.runtime_state == RuntimeState::Serving
    }
}

impl Mesh {
    /// Listens, and dials the peers of the configuration.
    ///
    /// # Errors
    /// By recovery: `FixCall` for a setting, `Retry` when the endpoint cannot be bound.
    ///
    /// # Cancel safety
    /// Dropped early, nothing has started.
    pub async fn start(mut config: MeshConfig, inbound: impl Inbound) -> Result<Self, StartError> {
        let (_, mut address) = parse_endpoint(&config.listen)?;
        check_tls(&config, &address)?;
        let listener = bind(&address).await.map_err(|source| StartError::Listen {
            endpoint: config.listen.clone(),
            source,
        })?;
        let bound = listener.local_addr().map_err(|source| StartError::Listen {
            endpoint: config.listen.clone(),
            source,
        })?;
        address.port = bound.port();
        let advertised = if let Some(advertised) = &config.advertise {
            advertised.clone()
        } else {
            // TR-62: the actual port is advertised, and a wildcard is not.
            address.check_dialable()?;
            parse_endpoint(&address.to_string())?.0
        };
        let required = match &config.required {
            Some(required) => required.clone(),
            None => ProtocolCapability::new(REQUIRED).map_err(|_| ConfigError::Endpoint {
                endpoint: REQUIRED.to_owned(),
            })?,
        };
        config.identity.descriptor.advertised_endpoint = advertised.clone();
        let node = Node::new(config, required, Arc::new(inbound));
        node.spawn(Arc::clone(&node).tell());
        node.spawn(listen(Arc::clone(&node), listener, address.scheme));
        let dialer = Dialer::default();
        dialer.set(&node, Vec::new());
        Ok(Self {
            shared: Arc::new(Shared {
                node,
                dialer,
                advertised,
            }),
        })
    }

    fn node(&self) -> &Arc<Node> {
        &self.shared.node
    }

    /// What others dial to reach this node, with the port that was chosen.
    pub fn advertised_endpoint(&self) -> &Endpoint {
        &self.shared.advertised
    }

    /// Takes no new records, writes what is queued, lets the peers close, and waits for all tasks: for
    /// `deadline` at most, then it ends at once. A second call changes nothing.
    ///
    /// Each peer reads everything that was submitted to it before it sees the end (TR-28).
    ///
    /// # Cancel safety
    /// Dropped early, the mesh takes no records any more; call it again to end it.
    pub async fn shutdown(&self, deadline: Duration) {
        let deadline = Instant::now() + deadline;
        let node = self.node();
        node.stop();
        let finished = async {
            let links = node.links();
            let mut finishing = tokio::task::JoinSet::new();
            for link in links {
                finishing.spawn(async move { link.finish().await });
            }
            while finishing.join_next().await.is_some() {}
        };
        // Links that do not end in time are ended now.
        timeout_at(deadline, finished).await.ok();
        for link in node.links() {
            link.end_by(LostReason::Shutdown);
        }
        let down = async {
            for link in node.links() {
                link.ended().await;
            }
            node.close_events();
            node.join().await;
        };
        let grace = deadline.max(Instant::now() + Duration::from_millis(100));
        timeout_at(grace, down).await.ok();
        node.abort();
    }

    /// Changes what this node says of itself, and tells every admitted peer (TR-77). The revision must
    /// rise; the advertised endpoint stays what it is.
    pub fn describe(&self, descriptor: RouteMeshAdmission) {
        self.node().describe(descriptor);
    }

    /// Replaces the peers that discovery found; those of the configuration stay.
    ///
    /// An intent that is not there any more is not dialled any more, and its link ends.
    pub fn set_peers(&self, peers: Vec<PeerIntent>) {
        self.shared.dialer.set(self.node(), peers);
    }

    /// Waits until a shutdown begins.
    pub(crate) async fn stopped(&self) {
        let mut stopping = self.node().stopping.subscribe();
        // The sender lives as long as `self`.
        stopping.wait_for(|stopping| *stopping).await.ok();
    }

    pub(crate) fn now(&self) -> Monotonic {
        self.node().clock().now()
    }

    /// Waits for a time of the mesh's clock.
    pub(crate) async fn sleep(&self, time: Duration) {
        tokio::time::sleep(self.node().clock().real(time)).await;
    }

    /// The admitted peers, ordered by id.
    pub fn peers(&self) -> Arc<[PeerInfo]> {
        Arc::clone(&self.node().peers.borrow())
    }

    /// The admitted peers, and each change of them.
    pub fn watch_peers(&self) -> watch::Receiver<Arc<[PeerInfo]>> {
        self.node().peers.subscribe()
    }

    /// The connection to a peer, for pinned submits (TR-93); `None` when it is not admitted.
    pub fn link(&self, peer: &NodeRid) -> Option<PeerLink> {
        self.node().current(peer)?.peer_link()
    }

    fn to(&self, peer: &NodeRid) -> Result<Arc<LinkCore>, NotSubmitted> {
        self.node().current(peer).ok_or(NotSubmitted::NotConnected)
    }

    /// Puts a record of class one-way or relocation into the queue to a peer.
    ///
    /// Records to one peer arrive in the order of their submits, whichever tasks they come from.
    /// `Ok` is the local admission of EX-264: it says nothing about the peer, and a later loss of the
    /// connection does not change it.
    ///
    /// # Errors
    /// Nothing was sent, and the record comes back.
    pub fn submit(&self, peer: &NodeRid, record: Record) -> Result<(), Refused> {
        let core = self.to(peer);
        let taken =
            core.and_then(|core| core.submit(record.by_ref(), How::ToPeer, Charge::Untracked));
        refused(taken, record).map(drop)
    }

    /// As [`Self::submit`], for a record that its caller keeps: nothing is moved, and nothing need come back.
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn submit_ref<'a>(
        &self,
        peer: &NodeRid,
        record: impl Into<RecordRef<'a>>,
    ) -> Result<(), NotSubmitted> {
        let core = self.to(peer)?;
        let taken = core.submit(record.into(), How::ToPeer, Charge::Untracked);
        taken.map(drop)
    }

    /// As [`Self::submit`], and tells when the record has left the queue (TR-94).
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_tracked(&self, peer: &NodeRid, record: Record) -> Result<Tracked, Refused> {
        let core = self.to(peer);
        let taken = core.and_then(|core| core.submit_tracked(record.by_ref(), How::ToPeer));
        refused(taken, record)
    }

    /// As [`Self::submit`], and waits for room: for the send timeout of the configuration, or for
    /// `within` if that is shorter (EX-266, EX-267).
    ///
    /// # Errors
    /// Nothing was sent, and the record comes back.
    ///
    /// # Cancel safety
    /// Dropped before it is done, nothing was sent.
    pub async fn send(
        &self,
        peer: &NodeRid,
        record: Record,
        within: Option<Duration>,
    ) -> Result<(), SendError> {
        match self.to(peer) {
            Ok(core) if core.send_now(record.by_ref(), How::ToPeer) => Ok(()),
            Ok(core) => core.send(record, How::ToPeer, within).await,
            Err(why) => refused(Err(why), record).map_err(SendError::Refused),
        }
    }

    /// Waits until the queue to a peer may have room again, for whoever keeps a line of its own. Completes
    /// at once for a peer that is not connected; the next submit says so.
    ///
    /// # Cancel safety
    /// Nothing is reserved; dropping it changes nothing.
    pub async fn room(&self, peer: &NodeRid) {
        if let Ok(core) = self.to(peer) {
            core.room().await;
        }
    }

    /// Puts a record of class request into the queue to a peer, as [`Self::submit`] does for others. The
    /// future gives its end; it ends exactly once and is never sent again (TR-90).
    ///
    /// # Errors
    /// Nothing was sent, and the record comes back.
    pub fn ask(&self, peer: &NodeRid, record: Record, timeout: Duration) -> Result<Asked, Refused> {
        let core = self.to(peer);
        let taken = core.and_then(|core| core.ask(record.by_ref(), How::ToPeer, timeout));
        refused(taken, record)
    }

    /// As [`Self::ask`], for a record that its caller keeps.
    ///
    /// # Errors
    /// Nothing was sent.
    pub fn ask_ref<'a>(
        &self,
        peer: &NodeRid,
        record: impl Into<RecordRef<'a>>,
        timeout: Duration,
    ) -> Result<Asked, NotSubmitted> {
        self.to(peer)?.ask(record.into(), How::ToPeer, timeout)
    }

    /// Sends a record of class request and waits for its reply, for `timeout` in all (EX-268).
    ///
    /// It ends exactly once and is never sent again (TR-90). The caller chooses a correlation that no
    /// waiting request of its own has (TR-69).
    ///
    /// # Errors
    /// [`RequestError::NotSent`] gives the record back; after any other the peer may have acted.
    ///
    /// # Cancel safety
    /// Dropped early, the request is given up: if it was sent, the peer may act on it all the same.
    pub async fn request(
        &self,
        peer: &NodeRid,
        record: Record,
        timeout: Duration,
    ) -> Result<Reply, RequestError> {
        match self.to(peer) {
            Ok(core) => core.request(record, How::ToPeer, timeout).await,
            Err(why) => {
                let refused = refused(Err(why), record).map_err(SendError::Refused);
                refused.map_err(RequestError::NotSent)
            }
        }
    }
}

/// A `tls` endpoint needs TLS settings.
fn check_tls(config: &MeshConfig, listen: &Address) -> Result<(), ConfigError> {
    let tls = config.tls.as_ref();
    if listen.scheme == Scheme::Tls && !tls.is_some_and(crate::TlsSettings::can_listen) {
        return Err(ConfigError::NoTls {
            endpoint: listen.to_string(),
        });
    }
    for peer in &config.peers {
        let (_, address) = parse_endpoint(peer.endpoint().as_str())?;
        if address.scheme == Scheme::Tls && tls.is_none() {
            return Err(ConfigError::NoTls {
                endpoint: address.to_string(),
            });
        }
    }
    Ok(())
}

async fn bind(address: &Address) -> io::Result<TcpListener> {
    let host = if address.host == "*" {
        "0.0.0.0"
    } else {
        &address.host
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in tokio::net::lookup_host((host, address.port)).await? {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        socket.set_reuseaddr(true)?;
        let bound = socket.bind(address).and_then(|()| socket.listen(BACKLOG));
        match bound {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}
