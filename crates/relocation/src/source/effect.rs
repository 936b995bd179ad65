//! What a source asks its driver to do.

use core::time::Duration;

use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::NodeRid;
use spotlane_types::kind::FailureCode;
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::stream::EnvelopeHead;
use thiserror::Error;

use super::event::CaptureFailure;
use super::payload::ChunkSizes;
use super::stage::SourceStage;
use crate::diagnostic::Diagnostic;
use crate::identity::{AuthorityView, ConnectionId};
use crate::unit::PendingRequest;

/// What the driver must do, in this order.
///
/// None of these writes an owner: the source has no commit, so this does not compile (RL-20):
///
/// ```compile_fail,E0599
/// use spotlane_relocation::source::SourceEffect;
/// let effect = SourceEffect::Commit;
/// ```
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the driver has to handle each of them"
)]
pub enum SourceEffect {
    /// The stage changed (RL-325).
    Entered(SourceStage),
    /// Ask the budget whether a unit may start to this target; answered by `BudgetOpen`.
    AwaitBudget,
    /// Refuse new binds to the Actors of the unit (RL-358); answered by `BindsRefused`.
    RefuseBinds,
    /// Allow binds again.
    AllowBinds,
    /// Send this to a session owner: command 42, or 44 for an abort. One-way for the machine.
    SendToSession {
        /// The node of the session owner.
        node_rid: NodeRid,
        /// The run of that node.
        node_generation: NodeGeneration,
        /// The command.
        record: Box<Record>,
    },
    /// Ask the lanes of the unit for the admission seal; answered by `SafePoint` at the first turn
    /// boundary. Dispatch goes on until then.
    RequestSeal,
    /// Withdraw the request for the seal, or give it back if it was just taken.
    WithdrawSeal,
    /// Capture and encode (off the loop, if it is large); answered by `Captured`.
    Capture(Box<CaptureOrder>),
    /// Send this to the target, pinned to the connection (TR-93): command 40, 52 or 31.
    Send {
        /// The connection.
        connection: ConnectionId,
        /// The command.
        record: Box<Record>,
    },
    /// Ask the budget for room for the next chunk; answered by `ChunkOpen`.
    AwaitChunk {
        /// What the transport will charge for it (TR-50).
        charge: u64,
    },
    /// The boundary was crossed. Give the machine what the lanes still hold, in acceptance order, then
    /// `HoldDrained`. From here new arrivals come to the machine at once.
    DrainHold,
    /// Submit command 34, pinned; answered by `CutoverSubmitted`, once.
    SubmitCutover {
        /// The connection.
        connection: ConnectionId,
        /// The command.
        record: Box<Record>,
    },
    /// The submit is terminal: return the queued-job permit of the unit (RL-133).
    ReturnPermit,
    /// Read the authority row of the object; answered by `AuthorityRead`.
    ReadAuthority,
    /// Put the queue back: saved work is where it was captured, these follow it, in this order, and
    /// what the driver itself holds comes last. Dispatch stays closed.
    RestoreQueue {
        /// What the machine held.
        held: Vec<FrozenRecord>,
    },
    /// Undo what the store shows of the move (RL-28), and repeat until it is done; answered by
    /// `AbortFixed`.
    FixAbort,
    /// Open dispatch again at the source (with the completion `Continued` where the application
    /// signals, RL-207).
    Reopen,
    /// Payload and batch copy are no longer held here: drop what belongs to them. Comes once.
    ReleasePayload,
    /// Forward from now on to the owner in this row, until the given moment (RL-150).
    FollowTo {
        /// The row that showed the commit.
        row: Box<AuthorityView>,
        /// When the route ends.
        until: Monotonic,
    },
    /// Forward this record by Message Follow.
    Forward(Box<FrozenRecord>),
    /// The route has ended: remove it.
    RemoveFollow,
    /// End each of these requests with `Unavailable`, once.
    EndRequests(Vec<PendingRequest>),
    /// One-way records that go nowhere: record the drop (`stale_target`).
    Dropped {
        /// How many.
        records: u64,
    },
    /// Run `OnClosing(RelocationOut)` if the kind has it, and dispose of the instance; answered by
    /// `CleanedUp`.
    CleanUp(Closing),
    /// The operation has its result. Comes once for each accepted request to move.
    Finished(Result<(), MoveFailure>),
    /// A request to move was refused, and nothing changed.
    Refused(MoveFailure),
    /// A point of measurement was reached.
    Reached(SourcePoint),
    /// Something is worth reporting.
    Diagnose(Diagnostic),
    /// Something came that changed nothing.
    Ignored(SourceIgnored),
}

/// What is to be captured, and how it is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the driver takes it apart")]
pub struct CaptureOrder {
    /// What the stream begins with.
    pub head: EnvelopeHead,
    /// The sizes that its chunks may have.
    pub chunks: ChunkSizes,
}

/// The callback of the source's clean-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-60 to RL-63")]
pub enum Closing {
    /// An Actor has none.
    None,
    /// A Spot: `OnClosing(RelocationOut)` (RL-53).
    RelocationOut,
}

/// Why a move failed, or was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-211")]
pub enum MoveFailure {
    /// A participant has `DisableRelocation`.
    #[error("a participant does not allow relocation")]
    Disabled,
    /// The unit is being moved already, or was.
    #[error("the object is moving")]
    AlreadyMoving,
    /// A session owner did not seal a binding in time.
    #[error("a client session was not sealed in time")]
    NotSealed,
    /// The time of the operation was over.
    #[error("the deadline of the operation has passed")]
    DeadlineExceeded,
    /// The operation was aborted.
    #[error("the operation was aborted")]
    Aborted,
    /// The host is shutting down.
    #[error("the host is shutting down")]
    ShuttingDown,
    /// Nothing could be captured.
    #[error("capture failed: {0:?}")]
    Capture(CaptureFailure),
    /// The target said no.
    #[error("the target failed: {0:?}")]
    Target(FailureCode),
}

/// A point of measurement on the source's clock (RL-341, RL-342, RL-345).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL section 14")]
pub enum SourcePoint {
    /// The admission seal was applied.
    S0,
    /// The submit of the cutover is terminal.
    S1 {
        /// S0 to S1: how long nobody served the object as far as the source knows (RL-332).
        interruption: Duration,
        /// Whether that was longer than it should be (RL-325).
        target: InterruptionTarget,
    },
    /// The follow route is over.
    S4 {
        /// S1 to S4 (RL-334); `None` where the boundary was never seen here.
        convergence: Option<Duration>,
    },
}

/// Whether an interruption was within its target of 1 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "met or not")]
pub enum InterruptionTarget {
    /// Within.
    Met,
    /// A warning, without any effect.
    Exceeded,
}

/// Why an event changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a closed list, so that tests name each"
)]
pub enum SourceIgnored {
    /// A reply of another or of a finished move (SRC-32).
    ForeignReply,
    /// A seal that nobody waits for.
    ForeignSeal,
    /// A binding that does not belong to the unit.
    ForeignBinding,
    /// A connection that is not the one in use, or a change that makes no difference here.
    OtherConnection,
    /// An answer to something that is no longer asked.
    LateAnswer,
    /// A hint without a read to bring forward.
    LateHint,
    /// One waiter less; the unit follows the rule of its stage (SRC-10).
    Waiter,
    /// Past the point where an abort means something (SRC-27).
    PastAbort,
    /// A move that was sealed before the shutdown goes on (RL-222).
    MoveGoesOn,
    /// Nothing is held here at this stage, so the record belongs to ordinary dispatch.
    NotHeld,
}
