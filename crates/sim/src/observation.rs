//! What can be seen of a world: the one stream that trace, oracle, invariants and vocabulary read.

mod session;

use spotlane_relocation::diagnostic::Diagnostic;
use spotlane_relocation::source::{MoveFailure, SourceStage};
use spotlane_relocation::target::TargetStage;
use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::id::RelocationId;

use crate::network::HostIndex;

pub use session::{
    BindingNumber, ClientIndex, Ending, PushId, SessionIndex, SessionSight, Verdict,
};

/// An Actor of a world by its place, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a plain number")]
pub struct ActorIndex(pub usize);

/// A sender of a world by its place, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a plain number")]
pub struct SenderIndex(pub usize);

/// Who issued a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the two kinds of origin")]
pub enum Origin {
    /// A sender in a host.
    Sender(SenderIndex),
    /// A client, on one of its connections.
    Session(SessionIndex),
}

/// Names one message of a world, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a plain number")]
pub struct MessageId(pub u64);

/// Whether a message wants an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two kinds of message")]
pub enum Kind {
    /// One-way.
    Send,
    /// Its caller waits for one terminal.
    Request,
}

/// What a handler turn was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "what an Actor handles here")]
pub enum Work {
    /// A message.
    Message(MessageId),
    /// The due tick with this number of the Actor's timer.
    Tick(u64),
    /// `OnDisconnectActor` for this binding (SB-61).
    Disconnected(BindingNumber),
}

/// Where an arriving message went (RL-170).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by the order of inbound dispatch"
)]
pub enum Place {
    /// The queue of the owner.
    Queue,
    /// The hold of a sealed source, or its relay after the boundary.
    Hold,
    /// The temporary queue of a target.
    Temporary,
    /// The saved work in a relocation stream.
    Saved,
}

/// How a request ended for its caller, or what was sent back for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the terminals of this model")]
pub enum Answer {
    /// The handler's reply.
    Reply,
    /// `Unavailable`.
    Unavailable,
    /// `InvalidOperation`: another incarnation.
    InvalidOperation,
    /// The caller's own deadline.
    TimedOut,
}

/// Why a message will not be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    clippy::exhaustive_enums,
    reason = "what the contract allows a message to be lost by"
)]
pub enum Loss {
    /// It never left its sender: no route or no connection. The sender knows.
    NotSubmitted,
    /// The connection that carried it was cut.
    Cut,
    /// The same, as part of the batch before the boundary, which is sent again while its window is open (RL-134).
    BatchCut,
    /// The process that held it died.
    Crash,
    /// Whoever received it could not serve or forward it, and said so.
    Refused,
    /// The prepared target that held it was removed (TGT-25, TGT-26).
    Removed,
    /// It reached a unit that had become unavailable after the boundary (SRC-23).
    Unavailable,
    /// Its session did not send it on: no binding, no valid route, or closed while it was held (SB-33, SB-88).
    NotRelayed,
    /// The Actor's owner refused it, because its binding is not the one in force (SB-33).
    Retired,
}

impl Loss {
    /// Whether it may happen where nothing goes wrong: somebody said no, and the sender was told if it asked.
    pub const fn is_refusal(self) -> bool {
        // WR-56: what came directly to a target that then refused the move ends with it.
        matches!(self, Self::Removed | Self::NotRelayed | Self::Retired)
    }
}

/// Which copy of a payload is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "one copy on either side")]
pub enum Side {
    /// In memory of the source, until the window is over (RL-133).
    Source,
    /// Assembled at the target.
    Target,
}

/// A step of a unit that no stage names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    clippy::exhaustive_enums,
    reason = "what a driver does for the machines"
)]
pub enum Step {
    /// The admission seal was applied.
    Sealed,
    /// The adapter captured the application's state.
    StateCaptured,
    /// The payload is fixed.
    Captured,
    /// The temporary queue was registered.
    TemporaryQueue,
    /// The factory ran.
    Factory,
    /// The adapter restored the application's state.
    StateRestored,
    /// The unit is restored and staged.
    Restored,
    /// The owner change is confirmed.
    Committed,
    /// The lifecycle callbacks have ended.
    Lifecycle,
    /// The first saved item was admitted, or there was none.
    SavedAdmitted,
    /// The first item of the temporary queue was admitted, or there was none.
    TemporaryAdmitted,
    /// Dispatch is open.
    Opened,
    /// The row says that the target serves.
    Published,
    /// The source began to clean up.
    CleanUpStarted,
    /// `OnClosing` ran at the source.
    Closing,
    /// The source has cleaned up.
    CleanedUp,
    /// The relocation state has left the row.
    Completed,
}

/// One thing that was seen.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "every reader decides about every kind"
)]
#[expect(missing_docs, reason = "the fields are named by their types")]
pub enum Observation {
    /// A sender issued a message.
    Issued {
        message: MessageId,
        kind: Kind,
        origin: Origin,
        actor: ActorIndex,
        at: HostIndex,
    },
    /// A host took a message in.
    Accepted {
        message: MessageId,
        at: HostIndex,
        place: Place,
    },
    /// A former owner sent it on by Message Follow.
    Forwarded {
        message: MessageId,
        at: HostIndex,
        to: HostIndex,
    },
    /// A handler turn began.
    Started {
        actor: ActorIndex,
        at: HostIndex,
        work: Work,
    },
    /// A handler turn ended, and its effect is part of the state.
    Ended {
        actor: ActorIndex,
        at: HostIndex,
        work: Work,
    },
    /// A host sent a terminal back.
    Answered {
        message: MessageId,
        at: HostIndex,
        answer: Answer,
    },
    /// The caller got its terminal.
    Settled { message: MessageId, answer: Answer },
    /// One more terminal came for a caller that had one.
    LateTerminal { message: MessageId, answer: Answer },
    /// A message is gone, and why.
    Lost { message: MessageId, loss: Loss },
    /// A move was asked for.
    MoveRequested {
        relocation: RelocationId,
        actor: ActorIndex,
        from: HostIndex,
        to: HostIndex,
    },
    /// The operation has its result.
    MoveFinished {
        relocation: RelocationId,
        at: HostIndex,
        result: Result<(), MoveFailure>,
    },
    /// A request to move was refused.
    MoveRefused {
        relocation: RelocationId,
        at: HostIndex,
        why: MoveFailure,
    },
    /// The source machine entered a stage.
    Source {
        relocation: RelocationId,
        at: HostIndex,
        stage: SourceStage,
    },
    /// The target machine entered a stage.
    Target {
        relocation: RelocationId,
        at: HostIndex,
        stage: TargetStage,
    },
    /// A driver did something for a machine.
    Step {
        relocation: RelocationId,
        at: HostIndex,
        step: Step,
    },
    /// A payload copy came into being.
    Retained {
        relocation: RelocationId,
        at: HostIndex,
        side: Side,
    },
    /// A payload copy was given up.
    Released {
        relocation: RelocationId,
        at: HostIndex,
        side: Side,
    },
    /// Chunk bytes in flight on one connection changed.
    InFlight {
        at: HostIndex,
        to: HostIndex,
        bytes: u64,
        chunk: u64,
        budget: u64,
    },
    /// A former owner told a sender of the new route.
    Notice {
        at: HostIndex,
        to: HostIndex,
        source: AuthorityOwnerGeneration,
        target: AuthorityOwnerGeneration,
    },
    /// A machine reported something.
    Diagnosed {
        relocation: RelocationId,
        at: HostIndex,
        what: Diagnostic,
    },
    /// Something about sessions and bindings.
    Session(SessionSight),
    /// A process died.
    Crashed { at: HostIndex },
    /// A process stands still.
    Paused { at: HostIndex },
    /// A process goes on.
    Resumed { at: HostIndex },
    /// Two hosts lost their connection.
    Cut { a: HostIndex, b: HostIndex },
    /// Two hosts are connected.
    Connected { a: HostIndex, b: HostIndex },
    /// Everything that can heal has healed.
    Healed,
}
