//! What can happen to a unit at its source.

use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::{ActorId, SessionRid};
use spotlane_wire::command::relocation::{RelocationFailed, RelocationReady};
use spotlane_wire::command::session::SessionRelocationSealed;
use spotlane_wire::frozen::FrozenRecord;

use super::payload::Payload;
use crate::identity::{ConnectionId, RowRead};
use crate::unit::{Binding, MovePlan};

/// What can happen to a unit at its source.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the driver of a unit is its only caller"
)]
pub enum SourceEvent {
    /// Somebody wants the unit to move, and a usable target was found.
    MoveRequested(Box<MovePlan>),
    /// Answers [`AwaitBudget`](super::SourceEffect::AwaitBudget): a new unit may start.
    BudgetOpen,
    /// Answers [`RefuseBinds`](super::SourceEffect::RefuseBinds): the bindings that the Actors of the
    /// unit have now, of which none can be added any more.
    BindsRefused(Vec<Binding>),
    /// Command 43.
    BindingSealed(Box<SessionRelocationSealed>),
    /// A binding of the unit ended while its seal was awaited (RL-358).
    BindingEnded(BindingName),
    /// Answers [`RequestSeal`](super::SourceEffect::RequestSeal): the running turn ended, dispatch
    /// stands still and what arrives is held. This moment is S0.
    SafePoint,
    /// Answers [`Capture`](super::SourceEffect::Capture).
    Captured(Result<Box<Payload>, CaptureFailure>),
    /// A record was accepted for the unit after S0.
    Arrived(Box<FrozenRecord>),
    /// Answers [`DrainHold`](super::SourceEffect::DrainHold): whatever the driver itself still held has
    /// been given as [`SourceEvent::Arrived`].
    HoldDrained,
    /// Command 30.
    Ready(Box<RelocationReady>),
    /// Command 53.
    Failed(Box<RelocationFailed>),
    /// A connection to the target ended, or a submit that was pinned to it failed (TR-93).
    ConnectionLost(ConnectionId),
    /// The target is connected and admitted, in the same run as before.
    ConnectionReady(ConnectionId),
    /// Answers [`AwaitChunk`](super::SourceEffect::AwaitChunk): the chunk fits the budget and is charged.
    ChunkOpen,
    /// Answers [`SubmitCutover`](super::SourceEffect::SubmitCutover), once.
    CutoverSubmitted(SubmitOutcome),
    /// Answers [`ReadAuthority`](super::SourceEffect::ReadAuthority).
    AuthorityRead(RowRead),
    /// Command 29 of the target: a reason to read at once.
    CommitHint,
    /// Answers [`FixAbort`](super::SourceEffect::FixAbort).
    AbortFixed,
    /// Answers [`CleanUp`](super::SourceEffect::CleanUp).
    CleanedUp(CleanUpOutcome),
    /// One of those who wait for the operation gave up.
    WaiterCancelled,
    /// The operation that asked for the move was aborted: another participant failed, or its caller
    /// was the only one.
    OperationAborted,
    /// The host is shutting down.
    Shutdown,
}

/// Names a binding of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct BindingName {
    /// The Actor.
    pub actor_id: ActorId,
    /// The session.
    pub session_rid: SessionRid,
    /// The binding.
    pub binding_generation: BindingGeneration,
}

/// Why nothing was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-119 and WR-54")]
pub enum CaptureFailure {
    /// The adapter failed (RL-119).
    Adapter,
    /// Saved work, a timer or the state cannot be encoded, or the stream does not fit 4,096 chunks of
    /// any size that the target takes (WR-54).
    NotEncodable,
    /// The list of participants could not be stored (RL-122).
    StoreUnavailable,
}

/// How the submit of the cutover ended: at the local transport, not at the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a submit ends one way or the other"
)]
pub enum SubmitOutcome {
    /// The transport took it.
    Submitted,
    /// It failed, or whether it left is not known.
    FailedOrUnknown,
}

/// How the clean-up of the source instance ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a callback fails or it does not")]
pub enum CleanUpOutcome {
    /// Everything went well.
    Done,
    /// A callback failed; everything was released all the same (SRC-28).
    CallbackFailed,
}
