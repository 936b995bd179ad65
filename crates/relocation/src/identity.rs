//! What ties a message to one move (RL-5): the relocation identity, and the connection it came on.
//!
//! Nothing else does: neither the order of arrival nor the time.

use core::num::NonZeroU64;

use spotlane_types::generation::{
    AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
    TargetAttemptGeneration,
};
use spotlane_types::id::{NodeRid, OwnerId, RelocationId, StoreVersion};
use spotlane_types::kind::{RelocationPhase, RelocationRole};
use spotlane_wire::command::relocation::{
    RelocationCutover, RelocationData, RelocationFailed, RelocationPrepare, RelocationReady,
    RelocationState,
};
use spotlane_wire::reference::{RelocationCoordinatorFence, RelocationTargetFence};
use spotlane_wire::relocation::RelocationObject;

/// Names one connection to a peer, as long as the process runs.
///
/// The driver gives a new number to every connection token of the mesh (TR-92); a redial and a
/// handover are new connections. Compared for equality only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(NonZeroU64);

impl ConnectionId {
    /// The connection with this number.
    pub const fn new(number: NonZeroU64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> NonZeroU64 {
        self.0
    }
}

/// Names one attempt of one move (RL-5).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the three parts of RL-5")]
pub struct RelocationIdentity {
    /// The move.
    pub relocation: RelocationId,
    /// Its attempt to prepare this target.
    pub attempt: TargetAttemptGeneration,
    /// What its coordinator expects of the owner.
    pub coordinator: RelocationCoordinatorFence,
}

/// A command that carries a relocation identity.
///
/// Sealed: these are the six commands between source and target.
pub trait OfMove: sealed::Sealed {
    /// The identity it carries.
    fn identity(&self) -> RelocationIdentity;
    /// The object it is about.
    fn object(&self) -> &RelocationObject;
    /// Who says to have sent it.
    fn role(&self) -> RelocationRole;
}

mod sealed {
    #[expect(unnameable_types, reason = "nobody else implements it")]
    pub trait Sealed {}
}

macro_rules! of_move {
    ($($command:ident by $role:ident;)+) => {$(
        impl sealed::Sealed for $command {}
        impl OfMove for $command {
            fn identity(&self) -> RelocationIdentity {
                RelocationIdentity {
                    relocation: self.relocation,
                    attempt: self.target_attempt_generation,
                    coordinator: self.coordinator.clone(),
                }
            }

            fn object(&self) -> &RelocationObject {
                &self.object
            }

            fn role(&self) -> RelocationRole {
                self.$role
            }
        }
    )+};
}

of_move! {
    RelocationPrepare by initiator_role;
    RelocationState by sender_role;
    RelocationReady by sender_role;
    RelocationFailed by sender_role;
    RelocationData by sender_role;
    RelocationCutover by sender_role;
}

/// The source's tenure, as the move expects it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct SourceFence {
    /// The node that owns the object.
    pub node_rid: NodeRid,
    /// Its run.
    pub node_generation: NodeGeneration,
    /// The tenure that the commit ends.
    pub authority_owner_generation: AuthorityOwnerGeneration,
}

/// What an authority row says, as far as a move asks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct AuthorityView {
    /// The incarnation.
    pub object_generation: ObjectGeneration,
    /// The tenure.
    pub authority_owner_generation: AuthorityOwnerGeneration,
    /// Who owns it.
    pub owner: OwnerView,
    /// The version of the row.
    pub store_version: StoreVersion,
    /// The move that the row shows, if it shows one.
    pub progress: Option<ProgressView>,
}

/// The owner of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct OwnerView {
    /// Its owner id.
    pub owner_id: OwnerId,
    /// Its lease.
    pub owner_lease_generation: OwnerLeaseGeneration,
    /// Its node.
    pub node_rid: NodeRid,
    /// The run of the node.
    pub node_generation: NodeGeneration,
}

/// The relocation state of a row, or of the aggregate that it points at (RL-365).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct ProgressView {
    /// The move.
    pub relocation: RelocationId,
    /// How far it has got.
    pub phase: RelocationPhase,
}

/// What a read of the authority row gave.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a read gives one of these")]
pub enum RowRead {
    /// The row.
    Row(Box<AuthorityView>),
    /// There is no row.
    Absent,
    /// The store did not answer, or not with something usable.
    Unreadable,
}

impl AuthorityView {
    /// Whether the row names this target, in this move (RL-356).
    pub(crate) fn is_owned_by(
        &self,
        target: &RelocationTargetFence,
        identity: &RelocationIdentity,
    ) -> bool {
        let owner = &self.owner;
        owner.owner_id == target.target_owner_id
            && owner.owner_lease_generation == target.target_owner_lease_generation
            && owner.node_rid == target.target_node_rid
            && owner.node_generation == target.target_node_generation
            && self
                .progress
                .is_some_and(|progress| progress.relocation == identity.relocation)
    }

    /// Whether the row is still the one that the coordinator read first (RL-13, RL-28).
    pub(crate) fn is_first_read(&self, coordinator: &RelocationCoordinatorFence) -> bool {
        let owner = &self.owner;
        owner.owner_id == coordinator.coordinator_owner_id
            && owner.owner_lease_generation == coordinator.coordinator_lease_generation
            && owner.node_rid == coordinator.coordinator_node_rid
            && owner.node_generation == coordinator.coordinator_node_generation
            && self.store_version == coordinator.expected_authority_store_version
    }
}

/// The incarnation that a move is about.
pub(crate) fn object_generation(object: &RelocationObject) -> ObjectGeneration {
    match object {
        RelocationObject::Actor { actor, .. } => actor.object_generation,
        RelocationObject::UserSpot { spot, .. } => spot.object_generation,
        RelocationObject::InstanceSpot {
            object_generation, ..
        } => *object_generation,
    }
}
