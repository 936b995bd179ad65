//! What can happen to a unit at its target.

use spotlane_types::count::Correlation;
use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::id::NodeRid;
use spotlane_types::kind::FailureCode;
use spotlane_wire::command::relocation::{
    RelocationCutover, RelocationData, RelocationPrepare, RelocationState,
};
use spotlane_wire::reference::ActorRouteFence;

use crate::identity::{ConnectionId, RowRead};

/// What can happen to a unit at its target. `M` is what the host queues when a message arrives here
/// directly.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the driver of a unit is its only caller"
)]
pub enum TargetEvent<M> {
    /// Command 28 for a User Spot.
    JoinRequested(Box<PrewarmKey>),
    /// Answers [`AdmitJoin`](super::TargetEffect::AdmitJoin).
    JoinDecided {
        /// The join.
        key: Box<PrewarmKey>,
        /// The answer.
        decision: JoinDecision,
    },
    /// Command 40, given in the receive step.
    Prepare {
        /// The connection that it came on.
        connection: ConnectionId,
        /// The command.
        prepare: Box<RelocationPrepare>,
        /// What this node knows about itself (TGT-5).
        local: LocalCheck,
    },
    /// Command 52.
    Chunk {
        /// The connection that it came on.
        connection: ConnectionId,
        /// The command.
        chunk: Box<RelocationState>,
    },
    /// Command 31.
    Relay {
        /// The connection that it came on.
        connection: ConnectionId,
        /// The command.
        relay: Box<RelocationData>,
    },
    /// Command 34.
    Cutover {
        /// The connection that it came on.
        connection: ConnectionId,
        /// The command.
        cutover: Box<RelocationCutover>,
    },
    /// A connection to the source ended.
    ConnectionLost(ConnectionId),
    /// A message for the object arrived here directly.
    Arrived(M),
    /// Answers [`ReadAuthority`](super::TargetEffect::ReadAuthority).
    AuthorityRead(RowRead),
    /// Answers [`Restore`](super::TargetEffect::Restore).
    Restored(Result<(), RestoreFailure>),
    /// Answers [`Commit`](super::TargetEffect::Commit), once.
    CommitAnswered(CommitAnswer),
    /// Answers [`RunLifecycle`](super::TargetEffect::RunLifecycle).
    LifecycleEnded(LifecycleOutcome),
    /// The object has left this node again, or has ended here.
    TenureEnded,
    /// The host is shutting down.
    Shutdown,
}

/// Names a prepared join (RL-361).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the parts of RL-361")]
pub struct PrewarmKey {
    /// The node that asks.
    pub peer: NodeRid,
    /// The Actor in its tenure.
    pub actor: ActorRouteFence,
    /// The request.
    pub correlation: Correlation,
}

/// What came of asking the Spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "yes or no")]
pub enum JoinDecision {
    /// The row matches and the Spot accepts.
    Accepted,
    /// The row differs, or the Spot rejects. The driver has answered.
    Refused,
}

/// Whether this node can take the unit, as far as it knows without the store (TGT-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the guards of TGT-5")]
pub enum LocalCheck {
    /// It can.
    Fits,
    /// The target fence is not this node run.
    NotThisRun,
    /// The own lease is past its admission deadline.
    LeasePast,
    /// The host is shutting down.
    ShuttingDown,
    /// It has as many objects as it takes (RL-189).
    Full,
    /// Kind, type or version is not served here.
    NotServed,
}

impl LocalCheck {
    /// The code of the refusal; `None` for none (WR-56).
    pub(super) const fn failure(self) -> Option<FailureCode> {
        match self {
            Self::Fits => None,
            Self::NotThisRun | Self::LeasePast | Self::ShuttingDown | Self::Full => {
                Some(FailureCode::RouteNotConnected)
            }
            Self::NotServed => Some(FailureCode::RequestTargetNotFound),
        }
    }
}

/// Why a unit was not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the causes of WR-56")]
pub enum RestoreFailure {
    /// Factory or restore failed; it is tried once more (TGT-13).
    Failed,
    /// The type that the row names is not served here.
    NotServed,
}

/// What the store said to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a write ends in one of these ways")]
pub enum CommitAnswer {
    /// The change was applied.
    Applied {
        /// The new tenure.
        authority_owner_generation: AuthorityOwnerGeneration,
    },
    /// A condition did not hold. Which one is not known (RL-17).
    NotApplied,
    /// No answer, or a transient error: it may have happened.
    Unknown,
    /// Nothing was sent: the own lease is past its admission deadline (TGT-33).
    NotTried,
}

/// How a lifecycle callback ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a callback fails or it does not")]
pub enum LifecycleOutcome {
    /// It returned.
    Done,
    /// It failed; it is retried with admission closed (TGT-28).
    Failed,
}
