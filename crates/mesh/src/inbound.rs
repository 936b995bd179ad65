//! What comes in, and who takes it.

use std::fmt;
use std::sync::Arc;

use spotlane_mesh_proto::link::ConnectionToken;
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::NodeRid;
use spotlane_wire::Record;
use spotlane_wire::command::reply::Reply;
use spotlane_wire::descriptor::RouteMeshAdmission;

use crate::error::{LostReason, NotAnswered, NotSubmitted, Refused};
use crate::mesh::Tracked;

/// Takes what comes in. Implemented by the host.
///
/// Both methods are called by the tasks of the mesh and must return at once: whatever takes time is
/// put into a queue. They may call back into the mesh, except for its `shutdown`.
pub trait Inbound: Send + Sync + 'static {
    /// Takes one record. Records of one connection come one at a time and in the order in which they
    /// were submitted; those of different peers come side by side.
    fn on_record(&self, received: Received) -> Flow;

    /// A peer has come, has changed or has gone. Of one peer these come one at a time and in order:
    /// admitted, then any number of updates, then lost. A record comes between the admission and the
    /// loss of its connection only.
    fn on_peer(&self, link: &PeerLink, event: PeerEvent);
}

/// One record with where it came from.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "the receiver takes it apart")]
pub struct Received {
    /// The connection that it came on.
    pub from: PeerLink,
    /// The record.
    pub record: Record,
    /// How to answer it; for records of class request alone (TR-66).
    pub reply: Option<ReplyHandle>,
}

/// What the receiver of a record wants next.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "the mesh handles each of them")]
pub enum Flow {
    /// The record is taken; go on.
    Continue,
    /// The record is taken; offer nothing more of this connection until [`PeerLink::resume`].
    Pause,
    /// The record is not taken. It stays with the mesh and is offered again, before everything behind
    /// it, after [`PeerLink::resume`] (EX-120). Meanwhile the connection is not read, so the peer is
    /// held back by TCP; replies and probes have their own connection and go on (TR-52).
    Later(Box<Received>),
}

/// What happens to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerEvent {
    /// It is admitted; records can be submitted to it.
    Admitted {
        /// How it describes itself.
        descriptor: Arc<RouteMeshAdmission>,
    },
    /// It has changed what it says of itself (TR-77).
    Updated {
        /// How it describes itself now.
        descriptor: Arc<RouteMeshAdmission>,
    },
    /// Its connection is not used any more. When another one is used instead, its admission follows.
    Lost {
        /// Why.
        reason: LostReason,
    },
}

/// One connection to an admitted peer, by which the host tells it from an earlier and a later one.
///
/// Equal when they name the same connection of the same run (TR-92). What is submitted here goes to
/// this connection or fails; it is never moved to another one (TR-93). Cheap to clone; it keeps no
/// connection alive.
#[derive(Clone)]
pub struct PeerLink {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) token: ConnectionToken,
    pub(crate) run: NodeGeneration,
}

impl PeerLink {
    /// The peer.
    pub fn peer(&self) -> &NodeRid {
        self.inner.token.peer()
    }

    /// The run of the peer.
    pub fn node_generation(&self) -> NodeGeneration {
        self.inner.run
    }

    /// The connection: the pair and its generation, compared for equality only.
    pub fn token(&self) -> &ConnectionToken {
        &self.inner.token
    }

    /// Goes on after [`Flow::Pause`] or [`Flow::Later`]. Without one of them it changes nothing, and
    /// it is not lost when it comes before they are returned.
    pub fn resume(&self) {}

    /// As [`Mesh::submit`](crate::Mesh::submit), on this connection alone.
    ///
    /// # Errors
    /// As there; [`NotSubmitted::OtherConnection`] when this one is over or not used any more.
    pub fn submit(&self, record: Record) -> Result<(), Refused> {
        Err(Refused {
            record: Box::new(record),
            why: NotSubmitted::NotConnected,
        })
    }

    /// As [`Mesh::submit_tracked`](crate::Mesh::submit_tracked), on this connection alone.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_tracked(&self, record: Record) -> Result<Tracked, Refused> {
        self.submit(record).map(|()| Tracked::empty())
    }
}

impl PartialEq for PeerLink {
    fn eq(&self, other: &Self) -> bool {
        self.inner.token == other.inner.token && self.inner.run == other.inner.run
    }
}

impl Eq for PeerLink {}

impl fmt::Debug for PeerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerLink")
            .field("token", &self.inner.token)
            .field("run", &self.inner.run)
            .finish_non_exhaustive()
    }
}

/// Answers one request. Dropped, it sends nothing, and the peer's request ends by its own timeout.
#[derive(Debug)]
pub struct ReplyHandle {
    link: PeerLink,
}

impl ReplyHandle {
    /// The connection of the request, on which alone the answer goes (TR-40).
    pub fn link(&self) -> &PeerLink {
        &self.link
    }

    /// Sends the answer. Never refused for lack of room: a peer that does not read its answers is not
    /// read either, so what waits is bounded by the requests that were taken from it.
    ///
    /// # Errors
    /// Nothing was sent: the connection is over (by recovery `GiveUp`), or the reply cannot be
    /// encoded or is too large for the peer (`FixCall`).
    pub fn answer(self, reply: Reply) -> Result<(), NotAnswered> {
        Err(NotAnswered {
            reply: Box::new(reply),
            why: NotSubmitted::NotConnected,
        })
    }
}
