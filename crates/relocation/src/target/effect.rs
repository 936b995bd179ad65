//! What a target asks its driver to do.

use core::time::Duration;

use bytes::Bytes;
use spotlane_types::count::{ApplicationVersion, ParticipantId, ReceiveChunkLimit};
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::NodeRid;
use spotlane_wire::Record;
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::reference::RelocationTargetFence;
use spotlane_wire::relocation::{RelocationObject, TimerRegistration};

use super::backlog::BacklogItem;
use super::commit::OwnerCommitted;
use super::event::PrewarmKey;
use super::stage::TargetStage;
use crate::diagnostic::Diagnostic;
use crate::identity::{ConnectionId, RelocationIdentity};
use crate::saved::JoinData;
use crate::unit::Binding;

/// What the driver must do, in this order.
#[derive(Debug, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the driver has to handle each of them"
)]
pub enum TargetEffect<M> {
    /// The stage changed (RL-325).
    Entered(TargetStage),
    /// Divert messages for the object to this machine, from this moment: the temporary queue.
    RegisterQueue,
    /// Read the row, ask the Spot (`OnActorJoin`) and resolve the factory; answered by `JoinDecided`.
    AdmitJoin(Box<PrewarmKey>),
    /// Answer command 28 with accepted and this limit.
    AcceptJoin {
        /// The join.
        key: Box<PrewarmKey>,
        /// The largest chunk that this node takes (WR-57).
        chunk_limit: ReceiveChunkLimit,
    },
    /// Refuse command 28: the Actor is in a move already (`spotMoving`).
    RefuseJoin(Box<PrewarmKey>),
    /// Read the authority row of the object; answered by `AuthorityRead`.
    ReadAuthority,
    /// Make instances, restore them and stage the timers, with dispatch closed; answered by `Restored`.
    /// Waits for activation admission, if there is none (RL-130).
    Restore(Box<RestoreOrder>),
    /// Send this to the source: command 30 or 53.
    Send {
        /// The connection that the command came on which this answers.
        connection: ConnectionId,
        /// The command.
        record: Box<Record>,
    },
    /// Change the owner in one compare-and-set; answered by `CommitAnswered`.
    Commit(Box<CommitOrder>),
    /// In one step: append all this to the closed lanes in this order, remove the temporary queue, and
    /// switch the route to the lanes. What arrives from now on is the lanes' business.
    Merge(Vec<BacklogItem<M>>),
    /// Run this callback with application dispatch closed; answered by `LifecycleEnded`.
    RunLifecycle(LifecycleStep),
    /// Open ordinary dispatch behind what was merged.
    Open(OwnerCommitted),
    /// Write phase `activated`, in the background (RL-365).
    RecordActivated,
    /// Send this to a node, one-way: command 44 to a session owner, command 29 to the former owner.
    SendToNode {
        /// The node.
        node_rid: NodeRid,
        /// Its run.
        node_generation: NodeGeneration,
        /// The command.
        record: Box<Record>,
    },
    /// Put this relayed record behind what the lanes have.
    Deliver(Box<FrozenRecord>),
    /// Forward this relayed record by Message Follow: the object has moved on (RL-362).
    Forward(Box<FrozenRecord>),
    /// This message is not held here; it belongs to ordinary dispatch.
    GiveBack(M),
    /// Remove instances, temporary queue and staged timers; end these messages with `Unavailable`.
    Remove {
        /// What had arrived directly.
        arrivals: Vec<M>,
    },
    /// A point of measurement was reached.
    Reached(TargetPoint),
    /// Something is worth reporting.
    Diagnose(Diagnostic),
    /// Something came that changed nothing.
    Ignored(TargetIgnored),
}

/// What is to be restored. Asked for twice at most, each time with fresh instances (RL-119).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the driver takes it apart")]
pub struct RestoreOrder {
    /// The object that leads the unit.
    pub object: RelocationObject,
    /// The version of the application's state.
    pub application_version: ApplicationVersion,
    /// All participants in order: the state, or `None` to recreate.
    pub states: Vec<(ParticipantId, Option<Bytes>)>,
    /// The timers.
    pub timers: Vec<TimerRegistration>,
    /// The sessions that are bound to participants (RL-357).
    pub bindings: Vec<Binding>,
}

/// The owner change, as only a prepared target can ask for it.
///
/// Nobody else makes one (RL-20):
///
/// ```compile_fail,E0451
/// // Neither the source nor a session owner commits: the order has no public constructor.
/// use spotlane_relocation::identity::RelocationIdentity;
/// use spotlane_relocation::target::CommitOrder;
/// use spotlane_wire::reference::RelocationTargetFence;
/// use spotlane_wire::relocation::RelocationObject;
/// fn forge(identity: RelocationIdentity, object: RelocationObject, target: RelocationTargetFence) {
///     let order = CommitOrder { identity, object, target, join: None };
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitOrder {
    pub(super) identity: RelocationIdentity,
    pub(super) object: RelocationObject,
    pub(super) target: RelocationTargetFence,
    pub(super) join: Option<JoinData>,
}

impl CommitOrder {
    /// The move, whose coordinator fence has the expected owner and row version (RL-13, RL-28).
    pub const fn identity(&self) -> &RelocationIdentity {
        &self.identity
    }

    /// The object that leads the unit.
    pub const fn object(&self) -> &RelocationObject {
        &self.object
    }

    /// The owner to be.
    pub const fn target(&self) -> &RelocationTargetFence {
        &self.target
    }

    /// The change of membership that belongs to the same compare-and-set (RL-146).
    pub const fn join(&self) -> Option<&JoinData> {
        self.join.as_ref()
    }
}

/// A callback between merge and opening.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL-56 to RL-63")]
pub enum LifecycleStep {
    /// `OnJoinedActor` of the target Spot.
    Joined(Box<JoinData>),
    /// `OnJoinCompleted(Accepted)` of the Actor.
    JoinCompleted(Box<JoinData>),
    /// `OnRelocationReadyCompleted(Relocated)` where the application signals; otherwise nothing.
    RelocationReadyCompleted,
}

/// A point of measurement on the target's clock (RL-343, RL-344).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL section 14")]
pub enum TargetPoint {
    /// The commit is confirmed.
    S2,
    /// Dispatch is open.
    S3 {
        /// S2 to S3 (RL-333).
        resume: Duration,
    },
}

/// Why an event changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a closed list, so that tests name each"
)]
pub enum TargetIgnored {
    /// No such move is known here (TGT-37).
    UnknownIdentity,
    /// A move of this object is going on, and this belongs to another one (TGT-9).
    ForeignIdentity,
    /// The move is over (TGT-32).
    Terminal,
    /// A chunk of another connection than that of the latest command 40 (RL-136).
    OtherConnection,
    /// The same command again; its progress is used (TGT-7).
    Repeated,
    /// A relayed record or cutover before the ready reply.
    Early,
    /// An answer to something that is no longer asked.
    LateAnswer,
    /// A join that is not the one being prepared.
    OtherJoin,
    /// A move whose ready reply was sent goes on.
    MoveGoesOn,
    /// A record that the source had relayed already (RL-109).
    AlreadyRelayed,
    /// A change that makes no difference at this stage.
    NoDifference,
}
