//! What the endpoint needs of a node, and the JSON that goes over the wire.

use std::future::Future;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A node, as an operator sees it.
pub(crate) trait Node: Send + Sync + 'static {
    /// What it is and does now; cheap enough to be asked every second.
    fn status(&self) -> Status;

    /// Whether it takes new work.
    fn is_ready(&self) -> bool;

    /// Where an object lives.
    fn find(&self, object: &ObjectName) -> impl Future<Output = Result<Location, Refusal>> + Send;

    /// Moves one object to the node of that name and returns when the move has ended.
    ///
    /// # Cancel safety
    /// A dropped future ends the wait, not the move.
    fn relocate(
        &self,
        object: &ObjectName,
        to: &str,
    ) -> impl Future<Output = Result<Location, Refusal>> + Send;

    /// Moves everything away, for as long as it may take.
    ///
    /// # Cancel safety
    /// A dropped future ends the wait, not the moves that are under way.
    fn drain(&self, limit: Duration) -> impl Future<Output = Result<Drained, Refusal>> + Send;
}

/// The address of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectName {
    /// `actor` or `spot`.
    pub(crate) kind: ObjectKind,
    /// What the application calls it.
    pub(crate) id: String,
}

/// The kinds of objects that have an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ObjectKind {
    /// An Actor.
    Actor,
    /// A Spot.
    Spot,
}

impl ObjectKind {
    /// Reads the word of a path.
    pub(crate) fn of(word: &str) -> Option<Self> {
        match word {
            "actor" => Some(Self::Actor),
            "spot" => Some(Self::Spot),
            _ => None,
        }
    }
}

/// `GET /v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Its name, which `relocate` takes.
    pub(crate) node: String,
    /// The version of the program.
    pub(crate) version: String,
    /// `starting`, `running`, `draining` or `stopping`.
    pub(crate) state: String,
    /// Seconds since it started.
    pub(crate) uptime_seconds: u64,
    /// Where other nodes connect.
    pub(crate) mesh: String,
    /// Where clients connect, if they may.
    pub(crate) stream: Option<String>,
    /// `redis` or `memory`; the URL may hold a password.
    pub(crate) store: String,
    /// Actors that it owns.
    pub(crate) actors: u64,
    /// Spots that it owns.
    pub(crate) spots: u64,
    /// Clients that are connected.
    pub(crate) sessions: u64,
    /// Actors that are leaving.
    pub(crate) moving: u64,
    /// Whether everything has left, so that nobody misses this node.
    pub(crate) safe_to_shutdown: bool,
    /// The other nodes that it knows.
    pub(crate) peers: Vec<Peer>,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    /// Its name.
    pub(crate) node: String,
    /// Where it is dialed.
    pub(crate) mesh: String,
    /// `connected` or `away`.
    pub(crate) state: String,
}

/// `GET /v1/objects/{kind}/{id}` and the answer to `POST /v1/relocate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Location {
    /// Which object.
    #[serde(flatten)]
    pub(crate) object: ObjectName,
    /// The name of its owner.
    pub(crate) node: String,
    /// Tells incarnations apart; a text, because it may be larger than numbers of JSON are.
    pub(crate) generation: String,
}

/// The body of `POST /v1/relocate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RelocateBody {
    /// `actor` or `spot`.
    pub(crate) kind: ObjectKind,
    /// The object.
    pub(crate) id: String,
    /// The node that shall own it.
    pub(crate) to: String,
}

/// The body of `POST /v1/drain`; may be absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrainBody {
    /// How long it may take, in seconds.
    pub(crate) seconds: u64,
}

/// The answer to `POST /v1/drain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drained {
    /// Objects that live elsewhere now.
    pub(crate) moved: u64,
    /// Objects that are still here.
    pub(crate) left: u64,
    /// Why some are still here, for example `TargetUnavailable`.
    pub(crate) reason: Option<String>,
}

/// The body of every answer that is no success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErrorBody {
    /// What went wrong.
    pub(crate) error: ErrorDetail,
}

/// Inside of [`ErrorBody`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErrorDetail {
    /// One word to branch on.
    pub(crate) kind: String,
    /// For people.
    pub(crate) message: String,
}

/// Why a node did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}", kind = .kind.word())]
#[non_exhaustive]
pub(crate) struct Refusal {
    /// One word to branch on.
    pub(crate) kind: RefusalKind,
    /// For people.
    pub(crate) message: String,
}

impl Refusal {
    /// A refusal of that kind.
    pub(crate) fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// The error kinds that an operator can meet, named as the facade names them (EX-340).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// There is no such object, node or path.
    NotFound,
    /// The request cannot be right.
    InvalidOperation,
    /// The token is missing or wrong.
    Unauthorized,
    /// Policy refused it.
    Rejected,
    /// Not now.
    Unavailable,
    /// It took too long.
    DeadlineExceeded,
    /// The node takes no new work.
    ShuttingDown,
    /// A defect.
    InternalFailure,
}

impl RefusalKind {
    /// As JSON has it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::InvalidOperation => "InvalidOperation",
            Self::Unauthorized => "Unauthorized",
            Self::Rejected => "Rejected",
            Self::Unavailable => "Unavailable",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::ShuttingDown => "ShuttingDown",
            Self::InternalFailure => "InternalFailure",
        }
    }
}
