//! What a link asks its driver to do, and how it ends.

use spotlane_types::kind::RejectReason;
use spotlane_wire::command::reply::Reply;
use spotlane_wire::descriptor::RouteMeshAdmission;
use spotlane_wire::{DecodeError, EncodeError, Record};
use thiserror::Error;

use super::class::Class;
use super::event::ConnectionToken;
use crate::admission::{AdmissionEnd, AdmissionIgnored};
use crate::pending::{NotTaken, SubmitId, Unmatched};
use crate::zmp::{ConnectionEnd, Dropped, FlowState, Lane, Parts, Sequence};

/// What the driver must do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the driver has to handle each of them"
)]
pub enum LinkEffect {
    /// Open a connection for this lane; answered by opened or open-failed.
    Open(Lane),
    /// Write this message, whole and behind all that was written before on this lane.
    Write(Lane, Parts),
    /// Write what the socket takes at once, then close (TR-18).
    Close(Lane),
    /// Both lanes are ready; records can come (TR-25).
    PairReady(ConnectionToken),
    /// The peer takes no new messages from the next message boundary on, or takes them again (TR-46).
    /// Records of the link itself go on.
    PeerFlow(FlowState),
    /// The peer is admitted; submits are taken from now on.
    Admitted(Box<RouteMeshAdmission>),
    /// The admitted peer has changed.
    Updated(Box<RouteMeshAdmission>),
    /// The admitted run of the peer is over: forget its routes (TR-76).
    RunEnded,
    /// The peer acknowledged its first probe.
    Responsive,
    /// The peer refuses our descriptor, and the link stays.
    RefusedByPeer(RejectReason),
    /// A record of the peer for the layers above.
    Deliver {
        /// The pair that it came on.
        token: ConnectionToken,
        /// The record.
        record: Box<Record>,
        /// What its answer has to name; for requests alone.
        answer: Option<Sequence>,
    },
    /// A request has ended; this comes exactly once for each that was not refused (TR-90).
    Completed {
        /// The request.
        id: SubmitId,
        /// How.
        outcome: Outcome,
    },
    /// A submit was not taken; nothing of it was sent.
    NotSubmitted {
        /// The submit.
        id: SubmitId,
        /// Why.
        why: NotSubmitted,
    },
    /// An answer could not be sent.
    NotAnswered {
        /// The request of the peer.
        sequence: Sequence,
        /// Why.
        why: NotSubmitted,
    },
    /// A hello came although this link is not used: the link that is kept has to admit (TR-74).
    AnswerOnKeeper,
    /// Something came that changed nothing.
    Ignored(Ignored),
    /// The link is over; always the last effect.
    Ended(EndReason),
}

/// How a request ended; told by its type alone (EX-276).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The peer answered.
    Reply(Box<Reply>),
    /// The peer answered with an error reply (TR-42).
    PeerError(Option<u32>),
    /// The peer answered with something that is no reply to this request (TR-69).
    BrokenReply,
    /// Its deadline passed.
    TimedOut,
    /// Its caller gave it up.
    Cancelled,
    /// The run of the peer that it was sent to is over (TR-76).
    RunEnded,
    /// The link ended; whether the peer has acted is not known.
    LinkEnded,
}

/// Why nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotSubmitted {
    /// The peer is not admitted on this link (TR-90).
    #[error("not connected")]
    NotConnected,
    /// Another link is used for this peer (TR-74).
    #[error("another link is used")]
    Superseded,
    /// The pinned pair is another one (TR-93).
    #[error("the pinned connection is another one")]
    OtherConnection,
    /// The peer takes only smaller messages (TR-17).
    #[error("{bytes} bytes are above the peer's limit of {max}")]
    TooLarge {
        /// What the message has.
        bytes: u64,
        /// What the peer takes.
        max: u64,
    },
    /// The table of waiting requests does not take it.
    #[error(transparent)]
    NotTaken(NotTaken),
    /// The record cannot be encoded.
    #[error(transparent)]
    Encode(EncodeError),
    /// A record of this class is not submitted, or not in this way.
    #[error("a record of class {0:?} is not submitted like this")]
    Misused(Class),
}

/// Input that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ignored {
    /// A connection dropped it.
    Connection(Lane, Dropped),
    /// The admission did not act on it.
    Admission(AdmissionIgnored),
    /// A reply that no request waits for (TR-41).
    Reply(Unmatched),
    /// A reply that the codec or the correlation refused; its request has failed (TR-69).
    BrokenReply,
    /// An acknowledgement that does not count (TR-84).
    ForeignAcknowledgement,
    /// A record that does not travel in this way (TR-66).
    Misplaced(Class),
    /// Records that were held for a peer that was never admitted (TR-80).
    HeldRecords(usize),
    /// An event about a lane in a state that does not know it.
    LateLane(Lane),
    /// A cancel of a request that has ended.
    LateCancel(SubmitId),
    /// A choice among links that this one cannot be part of yet.
    NotUp,
    /// Anything after the end (TR-87).
    AfterEnd,
}

/// Why a link ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndReason {
    /// A connection could not be opened.
    #[error("the {0:?} lane could not be opened")]
    OpenFailed(Lane),
    /// A connection ended, and the pair with it (TR-58).
    #[error("the {lane:?} lane ended: {end}")]
    Lane {
        /// Which one.
        lane: Lane,
        /// Why.
        end: ConnectionEnd,
    },
    /// The other lane did not become ready in time (TR-27).
    #[error("the sister of a lane did not become ready")]
    NoSister,
    /// The lanes name different peers (TR-24).
    #[error("the lanes name different identities")]
    OtherIdentity,
    /// The lanes speak different editions (TR-3).
    #[error("the lanes speak different editions")]
    MixedEditions,
    /// The admission failed.
    #[error(transparent)]
    Admission(AdmissionEnd),
    /// No acknowledgement counted for too long (TR-86).
    #[error("the peer does not answer probes")]
    NotAlive,
    /// Too much came before the peer was admitted (TR-80).
    #[error("too many records came before admission")]
    HeldTooMuch,
    /// A record that the codec refused (TR-66).
    #[error("a record is not legal")]
    BrokenRecord(#[source] DecodeError),
    /// The peer takes only messages that are too small for the mesh (TR-17).
    #[error("the peer's limit is too small for control records")]
    PeerLimit,
    /// We dialled it, and another link is used (TR-74).
    #[error("another link to the peer is used")]
    Superseded,
    /// Another link proves that the peer has lost this one, or that its run is over (TR-76).
    #[error("the peer has left this link")]
    Outlived,
    /// The host went down.
    #[error("the host is shutting down")]
    Shutdown,
}

/// Whether a dialler tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a dialler does one or the other")]
pub enum Redial {
    /// With the same intent, after its wait (TR-56).
    Again,
    /// Not by itself: the owner of the intent decides (TR-60).
    Stop,
}

impl EndReason {
    /// What the dialler of the link does next.
    pub const fn redial(&self) -> Redial {
        match self {
            Self::Lane { end, .. } => match end {
                ConnectionEnd::Refused(refusal) if refusal.is_final() => Redial::Stop,
                ConnectionEnd::PeerError { .. } => Redial::Stop,
                ConnectionEnd::Refused(_)
                | ConnectionEnd::NoIdentity
                | ConnectionEnd::Overlong
                | ConnectionEnd::Closed(_) => Redial::Again,
            },
            Self::MixedEditions
            | Self::Admission(AdmissionEnd::NotRequired)
            | Self::Superseded
            | Self::Outlived
            | Self::Shutdown => Redial::Stop,
            Self::OpenFailed(_)
            | Self::NoSister
            | Self::OtherIdentity
            | Self::Admission(
                AdmissionEnd::RefusedByPeer(_)
                | AdmissionEnd::RefusedPeer(_)
                | AdmissionEnd::NotAdmitted,
            )
            | Self::NotAlive
            | Self::HeldTooMuch
            | Self::BrokenRecord(_)
            | Self::PeerLimit => Redial::Again,
        }
    }
}
