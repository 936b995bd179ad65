//! What happens to a link.

use core::num::NonZeroU64;

use bytes::Bytes;
use spotlane_types::count::{Correlation, ProbeId};
use spotlane_types::id::NodeRid;
use spotlane_types::kind::MeshOperationKind;
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::command::reply::Reply;
use spotlane_wire::descriptor::RouteMeshAdmission;

use super::hold::HeldBudget;
use crate::admission::Terms;
use crate::bound::PENDING_MAX;
use crate::pending::SubmitId;
use crate::zmp::{
    Accepts, Connection, ConnectionEffect, ConnectionSettings, FlowState, Lane, Opening, PairKey,
    PeerReady, Sequence,
};

/// What a link needs to know beforehand.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkSettings {
    /// The editions that we speak (TR-1).
    pub opening: Opening,
    /// The largest frame that we take, and in E2 the largest message (TR-54).
    pub receive_limit: Option<NonZeroU64>,
    /// Whom we are and whom we admit.
    pub terms: Terms,
    /// A fresh id for the first probe.
    pub first_probe: ProbeId,
    /// How many requests may wait for a reply.
    pub pending_max: usize,
    /// What is left for records that come before admission; one for all links of a node (TR-80).
    pub held: HeldBudget,
}

impl LinkSettings {
    /// The settings of a mesh node.
    pub fn new(terms: Terms, first_probe: ProbeId) -> Self {
        Self {
            opening: Opening::default(),
            receive_limit: None,
            terms,
            first_probe,
            pending_max: PENDING_MAX,
            held: HeldBudget::default(),
        }
    }

    /// The settings of each of its connections; an acceptor needs them before it has a link.
    pub fn connection(&self) -> ConnectionSettings {
        ConnectionSettings {
            opening: self.opening,
            id: self.terms.own_id.clone(),
            receive_limit: self.receive_limit,
            accepts: Accepts::Routers,
        }
    }
}

/// Names a pair to those who must not confuse it with another one (TR-92).
///
/// Compared for equality only. A redial and a handover give another token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionToken {
    peer: NodeRid,
    key: PairKey,
}

impl ConnectionToken {
    pub(super) const fn new(peer: NodeRid, key: PairKey) -> Self {
        Self { peer, key }
    }

    /// The peer at the other end.
    pub const fn peer(&self) -> &NodeRid {
        &self.peer
    }
}

/// An accepted connection whose handshake is done.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct AcceptedLane {
    /// The connection.
    pub connection: Connection,
    /// What the peer said.
    pub ready: PeerReady,
    /// What came in the same segment as its READY (TR-6).
    pub early: Vec<ConnectionEffect>,
}

/// Something to send.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct Submit {
    /// What its outcome names.
    pub id: SubmitId,
    /// The record: of class one-way, relocation or request.
    pub record: Record,
    /// The pair it must go to, if that matters (TR-93).
    pub pin: Option<ConnectionToken>,
    /// How its reply is awaited; exactly for records of class request.
    pub awaits: Option<Awaits>,
}

/// How a reply is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct Awaits {
    /// The correlation in the record (TR-69).
    pub correlation: Correlation,
    /// What the tail of the reply is read by (WR-21).
    pub kind: MeshOperationKind,
    /// When to stop waiting (TR-41).
    pub deadline: Monotonic,
}

/// What can happen to a link.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the driver of a link is its only caller"
)]
pub enum LinkEvent {
    /// The connection that we asked for is open, since that time: the timer of its handshake runs from there (TR-26).
    Opened(Lane, Monotonic),
    /// The connection that we asked for could not be opened.
    OpenFailed(Lane),
    /// The sister of an accepted connection.
    Joined(Box<AcceptedLane>),
    /// Bytes came.
    Received(Lane, Bytes),
    /// What a detached connection asks for: everything that its machine gave, in order.
    Decoded(Lane, Vec<ConnectionEffect>),
    /// What a detached connection keeps of a message that is not whole yet, as long as its peer is not admitted (TR-80).
    Begun(Lane, u64),
    /// A connection ended or failed.
    Closed(Lane),
    /// The host has something to send.
    Submit(Box<Submit>),
    /// The host answers a request of the peer.
    Answer {
        /// What was handed up with the request.
        sequence: Sequence,
        /// The reply.
        reply: Box<Reply>,
    },
    /// The caller of a request gives it up.
    Cancel(SubmitId),
    /// The host takes no new records, or takes them again: the peer is told, if its edition has a way
    /// to (TR-46).
    Flow(FlowState),
    /// Our own descriptor has changed (TR-77).
    Describe(Box<RouteMeshAdmission>),
    /// Another link of the same peer is used instead (TR-74).
    Supersede,
    /// The link that was used instead has ended: use this one again (TR-33).
    Resume,
    /// The peer has lost this pair, or its run is over: another link proves it (TR-76).
    Outlived,
    /// A hello came on a superseded link: admit here (TR-74).
    AnswerHello,
    /// The host is going down.
    Shutdown,
}
