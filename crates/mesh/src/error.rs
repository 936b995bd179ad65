//! What can go wrong, sorted by who must act.

use std::time::Duration;

use spotlane_mesh_proto::link::{Class, EndReason};
use spotlane_mesh_proto::peers::RefusedJoin;
use spotlane_wire::command::reply::Reply;
use spotlane_wire::{EncodeError, Record};
use thiserror::Error;

/// What a caller does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers branch on all of them")]
pub enum Recovery {
    /// The call is wrong; repeating it cannot help.
    FixCall,
    /// Nothing was sent; the same call may succeed inside its deadline.
    Retry,
    /// The peer may have acted; find out before doing it again.
    ReadThenDecide,
    /// Report it.
    GiveUp,
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// TR-62.
    #[error("{endpoint:?} is no endpoint; write tcp://host:port or tls://host:port")]
    Endpoint {
        /// What was given.
        endpoint: String,
    },
    /// TR-62.
    #[error("{endpoint} cannot be dialled; advertise an endpoint with a host and a port")]
    Wildcard {
        /// What was given.
        endpoint: String,
    },
    /// TR-64: certificates, keys or authorities that cannot be used.
    #[error("the TLS settings cannot be used: {reason}")]
    Tls {
        /// What is wrong with them.
        reason: String,
    },
    /// A `tls` endpoint without TLS settings, or without a certificate to listen with.
    #[error("{endpoint} needs TLS settings with a certificate; give them to the configuration")]
    NoTls {
        /// What was given.
        endpoint: String,
    },
    /// TR-12: an id was to be drawn.
    #[error("the system gives no random numbers; name the node")]
    NoRandomNumbers,
    /// EX-266.
    #[error("a send timeout of {timeout:?} is not in 1 ms to 2147483647 ms")]
    SendTimeout {
        /// What was given.
        timeout: Duration,
    },
}

impl ConfigError {
    /// What the caller does about it: fix the setting.
    pub const fn recovery(&self) -> Recovery {
        Recovery::FixCall
    }
}

/// Why a mesh did not start; nothing is left of it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The endpoint could not be bound.
    #[error("cannot listen on {endpoint}")]
    Listen {
        /// What was to be bound.
        endpoint: String,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
}

impl StartError {
    /// What the caller does about it.
    pub const fn recovery(&self) -> Recovery {
        match self {
            Self::Config(_) => Recovery::FixCall,
            Self::Listen { .. } => Recovery::Retry,
        }
    }
}

/// Why nothing of a record was taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotSubmitted {
    /// The peer has no admitted link (TR-37, TR-90).
    #[error("not connected")]
    NotConnected,
    /// The pinned connection is over, or another one is used (TR-93).
    #[error("the pinned connection is over or not used any more")]
    OtherConnection,
    /// The queue to the peer is full (TR-51).
    #[error("{charge} of {max} wait to be written; wait for room")]
    Full {
        /// What waits.
        charge: u64,
        /// The bound.
        max: u64,
    },
    /// As many requests as the table holds wait for a reply.
    #[error("{max} requests wait for a reply already; wait for some to end")]
    TooManyRequests {
        /// The bound.
        max: usize,
    },
    /// The peer takes only smaller messages (TR-17).
    #[error("{bytes} bytes are above the peer's limit of {max}; send less")]
    TooLarge {
        /// What the message has.
        bytes: u64,
        /// What the peer takes.
        max: u64,
    },
    /// The record cannot be encoded.
    #[error(transparent)]
    Encode(EncodeError),
    /// A record of this class is not sent with this call (TR-66).
    #[error("a record of class {0:?} is not sent with this call")]
    Misused(Class),
    /// The mesh is shutting down.
    #[error("the mesh is shutting down")]
    Shutdown,
}

impl NotSubmitted {
    /// What the caller does about it. Nothing was sent in any case.
    pub const fn recovery(&self) -> Recovery {
        match self {
            Self::NotConnected | Self::Full { .. } | Self::TooManyRequests { .. } => {
                Recovery::Retry
            }
            Self::TooLarge { .. } | Self::Encode(_) | Self::Misused(_) => Recovery::FixCall,
            Self::OtherConnection | Self::Shutdown => Recovery::GiveUp,
        }
    }
}

/// A record that was not taken, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{why}")]
#[expect(clippy::exhaustive_structs, reason = "says all there is")]
pub struct Refused {
    /// The record, unchanged.
    pub record: Box<Record>,
    /// Why.
    #[source]
    pub why: NotSubmitted,
}

impl Refused {
    pub(crate) fn new(record: Record, why: NotSubmitted) -> Self {
        let record = Box::new(record);
        Self { record, why }
    }
}

/// A send that failed; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// It was refused for another reason than lack of room.
    #[error(transparent)]
    Refused(Refused),
    /// No room came up in time (EX-266).
    #[error("no room within {waited:?}")]
    DeadlineExceeded {
        /// The record, unchanged.
        record: Box<Record>,
        /// How long the send waited.
        waited: Duration,
    },
}

impl SendError {
    /// What the caller does about it. Nothing was sent in any case.
    pub const fn recovery(&self) -> Recovery {
        match self {
            Self::Refused(refused) => refused.why.recovery(),
            Self::DeadlineExceeded { .. } => Recovery::Retry,
        }
    }

    /// The record, unchanged.
    pub fn into_record(self) -> Box<Record> {
        match self {
            Self::Refused(Refused { record, .. }) | Self::DeadlineExceeded { record, .. } => record,
        }
    }
}

/// How a request ended without a reply (TR-90).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Nothing was sent.
    #[error(transparent)]
    NotSent(SendError),
    /// No reply came in time (TR-41).
    #[error("no reply within {timeout:?}")]
    TimedOut {
        /// The time that it had.
        timeout: Duration,
    },
    /// The peer answered with an error reply (TR-42).
    #[error("the peer answered with error {errno:?}")]
    PeerError {
        /// The number that it gave.
        errno: Option<u32>,
    },
    /// The peer answered with something that is no reply to this request (TR-69).
    #[error("the peer's answer is no reply to this request")]
    BrokenReply,
    /// The link ended; whether the peer has acted is not known.
    #[error("the link ended before the reply")]
    LinkEnded,
    /// The run of the peer that it was sent to is over (TR-76).
    #[error("the peer has started anew")]
    RunEnded,
}

impl RequestError {
    /// What the caller does about it.
    pub const fn recovery(&self) -> Recovery {
        match self {
            Self::NotSent(error) => error.recovery(),
            Self::TimedOut { .. } | Self::LinkEnded | Self::RunEnded => Recovery::ReadThenDecide,
            Self::PeerError { .. } | Self::BrokenReply => Recovery::GiveUp,
        }
    }
}

/// A reply that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{why}")]
#[expect(clippy::exhaustive_structs, reason = "says all there is")]
pub struct NotAnswered {
    /// The reply, unchanged.
    pub reply: Box<Reply>,
    /// Why: the connection of the request is over, or the reply is at fault.
    #[source]
    pub why: NotSubmitted,
}

/// Why a peer is not there any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LostReason {
    /// The link ended.
    #[error(transparent)]
    Ended(EndReason),
    /// The peer does not read the answers that it causes.
    #[error("the peer does not read what it asked for")]
    Stalled,
    /// The peer has more links than a peer may have (TR-33).
    #[error("the peer has too many links")]
    TooManyLinks,
    /// Its connections do not make a pair (TR-24).
    #[error(transparent)]
    NotJoined(RefusedJoin),
    /// Nobody wants to be connected to it any more: the host has withdrawn the intent.
    #[error("the intent to be connected was withdrawn")]
    Withdrawn,
    /// The mesh is shutting down.
    #[error("the mesh is shutting down")]
    Shutdown,
    /// The peer has started anew on the same link (TR-76).
    #[error("the peer has started anew")]
    RunEnded,
    /// Another link of the peer is used from now on (TR-74).
    #[error("another link of the peer is used")]
    Superseded,
}
