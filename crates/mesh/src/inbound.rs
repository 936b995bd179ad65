//! What comes in, and who takes it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use spotlane_mesh_proto::admission::Side;
use spotlane_mesh_proto::link::{ActorMessage, ConnectionToken};
use spotlane_mesh_proto::pending::Unmatched;
use spotlane_mesh_proto::zmp::{ConnectionEnd, Sequence};
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::{Endpoint, NodeRid};
use spotlane_wire::Record;
use spotlane_wire::command::reply::Reply;
use spotlane_wire::descriptor::RouteMeshAdmission;

use crate::error::{LostReason, NotAnswered, Refused, RequestError, SendError};
use crate::link::{Asked, Charge, How, LinkCore, refused};
use crate::tracked::Tracked;

/// Takes what comes in. Implemented by the host.
///
/// Both methods are called by the tasks of the mesh and must return at once: whatever takes time is
/// put into a queue. They may call back into the mesh, except for its `shutdown`. A host that keeps a
/// [`Mesh`](crate::Mesh) inside of its `Inbound` has to shut it down, since neither lets go of the other.
pub trait Inbound: Send + Sync + 'static {
    /// Takes one record. Records of one connection come one at a time and in the order in which they
    /// were submitted; those of different peers come side by side.
    fn on_record(&self, received: Received) -> Flow;

    /// Begins a burst: several records of one connection are at hand, `records` of them or a few less or more (EX-384). What
    /// is given takes them instead of [`Inbound::on_record`], one after the other, and is dropped behind the last one or
    /// as soon as it says anything but [`Flow::Continue`]. Nothing is waited for in between, so that it may hold what
    /// is taken once for all of them. Without one, each record comes by itself.
    fn on_burst<'a>(&'a self, from: &'a PeerLink, records: usize) -> Option<Box<dyn Burst + 'a>> {
        let _ = (from, records);
        None
    }

    /// As [`Inbound::on_record`], for a message to an Actor that lies where it was read, so that the host can make of it what
    /// it keeps, and nothing in between (EX-384). `None` asks for the record: [`Inbound::on_record`] gets it then, and may say
    /// [`Flow::Later`], for which there is no way here. So it is unless this is implemented.
    fn on_message(
        &self,
        from: &PeerLink,
        message: &ActorMessage<'_>,
        reply: Option<ReplyHandle>,
    ) -> Option<Flow> {
        let _ = (from, message);
        drop(reply);
        None
    }

    /// A peer has come, has changed or has gone. Of one peer these come one at a time and in order:
    /// admitted, then any number of updates, then lost. A record comes between the admission and the
    /// loss of its connection only.
    fn on_peer(&self, link: &PeerLink, event: PeerEvent);

    /// Something that an operator may want to know, and that changes nothing for the host. Ignored
    /// unless implemented.
    fn on_diagnostic(&self, diagnostic: Diagnostic) {
        drop(diagnostic);
    }
}

/// Takes the records of one burst; see [`Inbound::on_burst`].
pub trait Burst: Send {
    /// As [`Inbound::on_record`], of the connection that the burst is of.
    fn on_record(&mut self, record: Record, reply: Option<ReplyHandle>) -> Flow;

    /// As [`Inbound::on_message`], of the connection that the burst is of.
    fn on_message(
        &mut self,
        message: &ActorMessage<'_>,
        reply: Option<ReplyHandle>,
    ) -> Option<Flow> {
        let _ = message;
        drop(reply);
        None
    }
}

/// What happens to connections besides the coming and going of peers (TR-65).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diagnostic {
    /// A connection that a peer opened did not get through its handshake; no peer is touched.
    NotAccepted {
        /// What the protocol says of it.
        end: ConnectionEnd,
    },
    /// A connection that a peer opened failed before the protocol began, or timed out: TLS mostly.
    NotSecured {
        /// What the system says.
        error: std::io::ErrorKind,
    },
    /// A connection that a peer opened belongs to no pair (TR-24).
    NotJoined,
    /// There are as many accepted connections as there may be; another one was closed.
    TooManyConnections,
    /// An endpoint could not be reached, or its TLS handshake failed. It is dialled again.
    NotDialled {
        /// The endpoint.
        endpoint: Endpoint,
        /// What the system says.
        error: std::io::ErrorKind,
    },
    /// A reply came that no request waits for: it was dropped (EX-274).
    LateReply {
        /// Who sent it.
        peer: NodeRid,
        /// Whether its request has ended before, or never was.
        unmatched: Unmatched,
    },
    /// A link ended, admitted or not.
    LinkEnded {
        /// The peer, if its handshake was done.
        peer: Option<NodeRid>,
        /// Who opened it.
        side: Side,
        /// Why it ended.
        reason: LostReason,
    },
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
    core: Arc<LinkCore>,
    run: NodeGeneration,
}

impl PeerLink {
    pub(crate) const fn new(core: Arc<LinkCore>, run: NodeGeneration) -> Self {
        Self { core, run }
    }

    pub(crate) const fn core(&self) -> &Arc<LinkCore> {
        &self.core
    }

    /// The peer.
    pub fn peer(&self) -> &NodeRid {
        self.core.peer()
    }

    /// The run of the peer.
    pub const fn node_generation(&self) -> NodeGeneration {
        self.run
    }

    /// The connection: the pair and its generation, compared for equality only.
    pub fn token(&self) -> Option<&ConnectionToken> {
        self.core.token()
    }

    /// Goes on after [`Flow::Pause`] or [`Flow::Later`]. Without one of them it changes nothing, and
    /// it is not lost when it comes before they are returned.
    pub fn resume(&self) {
        self.core.resume();
    }

    /// As [`Mesh::submit`](crate::Mesh::submit), on this connection alone.
    ///
    /// # Errors
    /// As there; [`NotSubmitted::OtherConnection`](crate::NotSubmitted::OtherConnection) when this one
    /// is over or not used any more.
    pub fn submit(&self, record: Record) -> Result<(), Refused> {
        let how = How::Pinned(self.run);
        let taken = self.core.submit(record.by_ref(), how, Charge::Untracked);
        refused(taken, record).map(drop)
    }

    /// As [`Mesh::submit_tracked`](crate::Mesh::submit_tracked), on this connection alone.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_tracked(&self, record: Record) -> Result<Tracked, Refused> {
        let taken = self
            .core
            .submit_tracked(record.by_ref(), How::Pinned(self.run));
        refused(taken, record)
    }

    /// As [`Mesh::send`](crate::Mesh::send), on this connection alone.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn send(&self, record: Record, within: Option<Duration>) -> Result<(), SendError> {
        let how = How::Pinned(self.run);
        if self.core.send_now(record.by_ref(), how) {
            return Ok(());
        }
        self.core.send(record, how, within).await
    }

    /// As [`Mesh::ask`](crate::Mesh::ask), on this connection alone.
    ///
    /// # Errors
    /// As there.
    pub fn ask(&self, record: Record, timeout: Duration) -> Result<Asked, Refused> {
        let taken = self
            .core
            .ask(record.by_ref(), How::Pinned(self.run), timeout);
        refused(taken, record)
    }

    /// As [`Mesh::request`](crate::Mesh::request), on this connection alone.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub fn request(
        &self,
        record: Record,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reply, RequestError>> + Send {
        // Not a future around a future: the record would be moved once more.
        self.core.request(record, How::Pinned(self.run), timeout)
    }

    /// Puts a relocation chunk (52) into the bulk queue, and tells when it has left it (TR-94): its charge counts from now
    /// until the future says that it is written or lost. What may be in flight is for the caller to judge, to whom the
    /// budgets belong (RL-131); the queue itself has no bound.
    ///
    /// Bulk goes out in its own order and never before a record that was submitted earlier. Records
    /// that are submitted later may pass it, so one that must not is submitted as bulk too.
    ///
    /// # Errors
    /// Nothing was sent, and the record comes back.
    pub fn submit_bulk(&self, record: Record) -> Result<Tracked, Refused> {
        let taken = self.core.submit_bulk(record.by_ref(), self.run);
        refused(taken, record)
    }
}

impl PartialEq for PeerLink {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core) && self.run == other.run
    }
}

impl Eq for PeerLink {}

impl fmt::Debug for PeerLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerLink")
            .field("token", &self.core.token())
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

/// Answers one request. Dropped, it sends nothing, and the peer's request ends by its own timeout.
pub struct ReplyHandle {
    core: Arc<LinkCore>,
    run: NodeGeneration,
    sequence: Sequence,
}

impl ReplyHandle {
    pub(crate) const fn new(core: Arc<LinkCore>, run: NodeGeneration, sequence: Sequence) -> Self {
        Self {
            core,
            run,
            sequence,
        }
    }

    /// The connection of the request, on which alone the answer goes (TR-40).
    pub fn link(&self) -> PeerLink {
        PeerLink::new(Arc::clone(&self.core), self.run)
    }

    /// Sends the answer. Never refused for lack of room: a peer that does not read its answers is not
    /// read either, so what waits is bounded by the requests that were taken from it.
    ///
    /// # Errors
    /// Nothing was sent: the connection is over (by recovery `GiveUp`), or the reply cannot be
    /// encoded or is too large for the peer (`FixCall`).
    pub fn answer(self, reply: Reply) -> Result<(), NotAnswered> {
        self.core.answer(self.sequence, reply)
    }
}

impl Drop for ReplyHandle {
    fn drop(&mut self) {
        self.core.answered();
    }
}

impl fmt::Debug for ReplyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyHandle")
            .field("link", &self.link())
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}
