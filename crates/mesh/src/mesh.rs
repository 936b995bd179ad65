//! The handle of a running mesh.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use spotlane_types::id::{Endpoint, NodeRid};
use spotlane_types::kind::RuntimeState;
use spotlane_wire::Record;
use spotlane_wire::command::reply::Reply;
use spotlane_wire::descriptor::RouteMeshAdmission;
use tokio::sync::{oneshot, watch};

use crate::config::MeshConfig;
use crate::error::{BulkError, NotSubmitted, Refused, RequestError, SendError, StartError};
use crate::inbound::{Inbound, PeerLink};
use crate::intent::PeerIntent;

/// A running mesh. Clones are the same mesh; when the last one is dropped, it ends at once.
#[derive(Clone, Debug)]
pub struct Mesh {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    advertised: Endpoint,
    peers: watch::Sender<Arc<[PeerInfo]>>,
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

/// What became of a record after it was taken (TR-94).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-94")]
pub enum Written {
    /// The socket took all its bytes. It says nothing about the peer.
    Taken,
    /// The connection was lost before; how much of it left is not known, and it is never sent again
    /// (TR-61).
    Lost,
}

/// A record that was taken into the queue; as a future it gives the moment when it left it.
///
/// Cancel safety: dropping it changes nothing about the record.
#[derive(Debug)]
pub struct Tracked {
    charge: u64,
    written: oneshot::Receiver<Written>,
}

impl Tracked {
    pub(crate) fn empty() -> Self {
        let (_, written) = oneshot::channel();
        Self { charge: 0, written }
    }

    /// What the record is charged: 64 bytes and the body, per frame (TR-50).
    pub const fn charge(&self) -> u64 {
        self.charge
    }
}

impl Future for Tracked {
    type Output = Written;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Written> {
        let written = Pin::new(&mut self.written).poll(cx);
        // The sender goes with the queue of its connection only.
        written.map(|written| written.unwrap_or(Written::Lost))
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
    #[expect(clippy::unused_async, reason = "name look-ups come with the listener")]
    pub async fn start(config: MeshConfig, inbound: impl Inbound) -> Result<Self, StartError> {
        drop(inbound);
        let advertised = config.identity.descriptor.advertised_endpoint;
        let peers = watch::Sender::new(Arc::from(Vec::new()));
        let shared = Shared { advertised, peers };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// What others dial to reach this node.
    pub fn advertised_endpoint(&self) -> &Endpoint {
        &self.shared.advertised
    }

    /// Takes no new records, writes what is queued, closes every link and waits for all tasks, for
    /// `deadline` at most. A second call waits for the first.
    ///
    /// # Cancel safety
    /// Dropped early, the mesh goes on to end by itself.
    #[expect(clippy::unused_async, reason = "the tasks come with the links")]
    pub async fn shutdown(&self, deadline: Duration) {
        let _ = deadline;
    }

    /// Changes what this node says of itself, and tells every admitted peer (TR-77). The revision must
    /// rise; the advertised endpoint stays what it is.
    pub fn describe(&self, descriptor: RouteMeshAdmission) {
        drop(descriptor);
    }

    /// Replaces the peers that discovery found; those of the configuration stay.
    pub fn set_peers(&self, peers: Vec<PeerIntent>) {
        drop(peers);
    }

    /// The admitted peers, ordered by id.
    pub fn peers(&self) -> Arc<[PeerInfo]> {
        Arc::clone(&self.shared.peers.borrow())
    }

    /// The admitted peers, and each change of them.
    pub fn watch_peers(&self) -> watch::Receiver<Arc<[PeerInfo]>> {
        self.shared.peers.subscribe()
    }

    /// The connection to a peer, for pinned submits (TR-93); `None` when it is not admitted.
    pub fn link(&self, peer: &NodeRid) -> Option<PeerLink> {
        let peers = self.shared.peers.borrow();
        let found = peers.iter().find(|info| info.link.peer() == peer);
        found.map(|info| info.link.clone())
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
        match self.link(peer) {
            Some(link) => link.submit(record),
            None => Err(Refused {
                record: Box::new(record),
                why: NotSubmitted::NotConnected,
            }),
        }
    }

    /// As [`Self::submit`], and tells when the record has left the queue (TR-94).
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_tracked(&self, peer: &NodeRid, record: Record) -> Result<Tracked, Refused> {
        self.submit(peer, record).map(|()| Tracked::empty())
    }

    /// As [`Self::submit`], and waits for room: for the send timeout of the configuration, or for
    /// `within` if that is shorter (EX-266, EX-267).
    ///
    /// # Errors
    /// Nothing was sent, and the record comes back.
    ///
    /// # Cancel safety
    /// Dropped before it is done, nothing was sent. Waiting sends of one peer are served in turn.
    #[expect(clippy::unused_async, reason = "waiting comes with the queue")]
    pub async fn send(
        &self,
        peer: &NodeRid,
        record: Record,
        within: Option<Duration>,
    ) -> Result<(), SendError> {
        let _ = within;
        self.submit(peer, record).map_err(SendError::Refused)
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
    #[expect(clippy::unused_async, reason = "waiting comes with the queue")]
    pub async fn request(
        &self,
        peer: &NodeRid,
        record: Record,
        timeout: Duration,
    ) -> Result<Reply, RequestError> {
        let _ = timeout;
        let refused = match self.submit(peer, record) {
            Ok(()) => return Err(RequestError::LinkEnded),
            Err(refused) => refused,
        };
        Err(RequestError::NotSent(SendError::Refused(refused)))
    }

    /// Puts a relocation chunk (52) into the bulk queue of a pinned connection, if the budgets allow
    /// (RL-131). The charge counts until the future says that it is written or lost.
    ///
    /// Bulk goes out in its own order and never before a record that was submitted earlier; records
    /// that are submitted later may pass it, so a record that must not is submitted as bulk too.
    ///
    /// # Errors
    /// Nothing was sent, and the record comes back.
    pub fn submit_bulk(&self, link: &PeerLink, record: Record) -> Result<Tracked, BulkError> {
        link.submit_tracked(record).map_err(BulkError::Refused)
    }

    /// Waits until neither the budget of the peer nor that of the node is used up (RL-131).
    ///
    /// # Cancel safety
    /// Nothing is reserved; dropping it changes nothing.
    #[expect(clippy::unused_async, reason = "waiting comes with the queue")]
    pub async fn bulk_room(&self, link: &PeerLink) {
        let _ = link;
    }

    /// The charge of chunks in flight to the peer of this connection.
    pub fn bulk_in_flight(&self, link: &PeerLink) -> u64 {
        let _ = link;
        0
    }

    /// The charge of chunks in flight to all peers.
    pub fn bulk_in_flight_of_node(&self) -> u64 {
        0
    }
}
