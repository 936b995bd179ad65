//! What the engine refuses, how a call ends without a reply, and what a handler may report.

use std::error::Error;
use std::fmt;

use thiserror::Error;

/// Which of the two FIFOs of an execution object (EX-60).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-60")]
pub enum Fifo {
    /// Business payloads, ticks and resume records.
    Application,
    /// Join, leave, relocation and lifecycle control.
    Lifecycle,
}

impl fmt::Display for Fifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Application => "application",
            Self::Lifecycle => "lifecycle",
        })
    }
}

/// Why a lane did not take an item. Internal verdicts, not public error kinds (EX-352).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The FIFO holds as many items as it may (EX-100). Callers that wait use `submit`.
    #[error("the {fifo} fifo holds {used} items, the limit is {items_max}")]
    ItemsFull {
        /// The FIFO without room.
        fifo: Fifo,
        /// Accepted items that have not ended.
        used: u64,
        /// The limit that was reached.
        items_max: u64,
    },
    /// The charge of the item does not fit into what is left of the FIFO's bytes (EX-93, EX-100).
    #[error("the {fifo} fifo holds {used} bytes, {charge} more exceed the limit of {bytes_max}")]
    BytesFull {
        /// The FIFO without room.
        fifo: Fifo,
        /// Bytes charged by accepted items that have not ended.
        used: u64,
        /// The charge of the refused item.
        charge: u64,
        /// The limit that would be exceeded.
        bytes_max: u64,
    },
    /// Earlier operations wait for room in this FIFO and are not overtaken (EX-101).
    #[error("{waiting} earlier operations wait for room in the {fifo} fifo")]
    Queueing {
        /// The FIFO without room.
        fifo: Fifo,
        /// How many operations stand in front.
        waiting: usize,
    },
    /// The lane is sealed for a move and this kind of work is not held (EX-109, EX-113).
    #[error("the lane is sealed for a move")]
    Sealed,
    /// The object moved away, ended, or never opened here (EX-112).
    #[error("the lane ended")]
    Ended,
    /// The session's connection closes or is closed (EX-111).
    #[error("the connection is closing")]
    ConnectionClosing,
    /// The host takes no new work (EX-105).
    #[error("the host is shutting down")]
    ShuttingDown,
    /// The caller's deadline passed while the item waited for room (EX-100, EX-266).
    #[error("the deadline passed while the item waited for room")]
    DeadlineExceeded,
}

impl Refusal {
    /// Whether waiting can help: the FIFO had no room, nothing else stood in the way.
    pub const fn is_full(&self) -> bool {
        matches!(
            self,
            Self::ItemsFull { .. } | Self::BytesFull { .. } | Self::Queueing { .. }
        )
    }
}

/// An item that was not accepted, given back with the reason.
///
/// Nothing of the attempt is left behind: count, bytes, accepted sequence and owner are as before
/// (EX-96).
pub struct Refused<T> {
    pub(crate) item: T,
    pub(crate) reason: Refusal,
}

impl<T> Refused<T> {
    /// Why the item was not accepted.
    pub const fn reason(&self) -> &Refusal {
        &self.reason
    }

    /// The item, unchanged.
    pub fn into_item(self) -> T {
        self.item
    }
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.reason, f)
    }
}

impl<T> Error for Refused<T> {}

/// How a call to a lane ended without a reply. Exactly one of these or the reply, once (EX-269).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AskError {
    /// The lane did not accept the item; nothing ran.
    #[error("the item was not accepted: {0}")]
    Refused(Refusal),
    /// The handler reported a failure (EX-12).
    #[error("the handler failed")]
    Failed(#[source] HandlerError),
    /// The handler panicked; only this item failed (EX-12).
    #[error("the handler panicked: {message}")]
    Panicked {
        /// The text of the panic, when it had one.
        message: String,
    },
    /// The object moved or ended before the item ran to its end (EX-44, EX-112).
    #[error("the object became unavailable before the item ended")]
    Unavailable,
    /// The host was stopped before the item ran to its end (EX-306).
    #[error("the host was stopped before the item ended")]
    ShuttingDown,
    /// The call would have waited for its own turn (EX-37, EX-38, EX-39) or yielded where Yield is not
    /// offered (EX-34). Refused before submission.
    #[error("invalid operation: {0}")]
    InvalidOperation(InvalidOperation),
    /// The caller's deadline passed (EX-268).
    #[error("the deadline passed")]
    DeadlineExceeded,
}

/// Which rule about waiting a call broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidOperation {
    /// The target is the calling Actor, which holds its own claim (EX-37).
    #[error("an actor cannot wait for itself")]
    OwnClaim,
    /// The target runs behind the gate that the caller keeps (EX-38, EX-39).
    #[error("the target runs behind the gate that the caller keeps")]
    OwnGate,
    /// Yield is not offered for this gate or this kind of turn (EX-33, EX-34).
    #[error("yield is not offered here")]
    YieldNotOffered,
    /// A barrier of the same handler stands in front of the target (EX-45).
    #[error("the handler deferred a barrier to the target")]
    BehindOwnBarrier,
    /// Marking a boundary for a move is not offered: another mode, or no application turn of the Spot (EX-203, RL-206).
    #[error("this turn cannot mark a boundary for a move")]
    ReadyNotOffered,
    /// The turn has marked its boundary, which is the last operation of a turn (EX-203, RL-206).
    #[error("the turn has marked its boundary for a move already")]
    AfterReady,
}

/// Why a yielded wait did not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum YieldError {
    /// Yield is not offered here; nothing was submitted and no gate released (EX-34).
    #[error("invalid operation: {0}")]
    InvalidOperation(InvalidOperation),
}

/// What a handler reports when it fails (EX-12).
#[derive(Debug)]
pub struct HandlerError(Box<dyn Error + Send + Sync>);

impl HandlerError {
    /// Wraps the cause of a failing handler.
    pub fn new(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for HandlerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
