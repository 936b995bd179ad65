//! The payload of an authority row: who owns an object and what it is in the middle of (WR-62, WR-63).

use spotlane_types::bound::AGGREGATE_GENERATION_ISSUED_MAX;
use spotlane_types::count::{ApplicationVersion, CreationRequestSize, InboxSequence, ReplayCursor};
use spotlane_types::generation::{
    AggregateGeneration, NodeGeneration, OwnerLeaseGeneration, TargetAttemptGeneration,
};
use spotlane_types::id::{
    ActorId, DescriptorVersion, MeshName, NodeRid, OwnerId, RecoveryReference, RelocationId,
    RelocationReference, SpotId, StableType,
};
use spotlane_types::kind::{
    ActorAuthorityState, ActorSpotKind, AuthorityObjectKind, AuthorityOperationKind,
    InstanceAuthorityState, RelocationPhase, SourceCleanupState, SpotAuthorityState, SpotKind,
};
use spotlane_types::time::DeadlineUnixMillis;

use crate::error::{Breach, Reason};
use crate::frozen::InstanceCall;
#[cfg(feature = "serde")]
use crate::json::{JsonError, Node};
use crate::layout::{Layout, wire_option, wire_struct, wire_union};
use crate::payload::{ApplicationPayload, MetadataFrame};
use crate::reader::{Read, Reader};
use crate::reference::SpotRef;
use crate::scalar::RawSha256;
use crate::writer::{Writer, Written};

wire_struct! {
    /// The Actor of an authority row.
    "actor-authority-identity" struct ActorAuthorityIdentity {
        /// Its type.
        actor_type: StableType = "actorType",
        /// Its address.
        actor_id: ActorId = "actorId",
        /// Whether it is ready.
        state: ActorAuthorityState = "state",
        /// The Spot it is a member of.
        current_spot: SpotRef = "currentSpot",
        /// The kind of that Spot.
        current_spot_kind: ActorSpotKind = "currentSpotKind",
    }
}

wire_union! {
    /// The Instance Spot of an authority row; the case is its state.
    "instance-authority-identity" enum InstanceAuthorityIdentity
        on "authorityState" InstanceAuthorityState len u16
    {
        /// It is being activated.
        ColdActivating {
            /// Its type.
            instance_type: StableType = "instanceType",
            /// Its address.
            spot_id: SpotId = "spotId",
        }
        /// It is ready.
        Ready {
            /// Its type.
            instance_type: StableType = "instanceType",
            /// Its address.
            spot_id: SpotId = "spotId",
        }
        /// It is being closed.
        Closing {
            /// Its type.
            instance_type: StableType = "instanceType",
            /// Its address.
            spot_id: SpotId = "spotId",
        }
        /// It is being moved.
        Relocating {
            /// Its type.
            instance_type: StableType = "instanceType",
            /// Its address.
            spot_id: SpotId = "spotId",
        }
    }

    /// The Spot of an authority row.
    "spot-authority-identity" enum SpotAuthorityIdentity on "spotKind" SpotKind len u16 {
        /// An Entry Spot.
        Entry {
            /// Its address.
            spot_id: SpotId = "spotId",
            /// Its type.
            spot_type: StableType = "spotType",
            /// Its state.
            state: SpotAuthorityState = "state",
        }
        /// A User Spot.
        User {
            /// Its address.
            spot_id: SpotId = "spotId",
            /// Its type.
            spot_type: StableType = "spotType",
            /// Its state.
            state: SpotAuthorityState = "state",
        }
        /// An Instance Spot.
        Instance {
            /// The Spot and its state.
            instance: InstanceAuthorityIdentity = "instance",
        }
    }

    /// The object of an authority row.
    "authority-object-identity" enum AuthorityObject on "objectKind" AuthorityObjectKind len u16 {
        /// An Actor.
        Actor {
            /// The Actor and its membership.
            actor: ActorAuthorityIdentity = "actor",
        }
        /// A Spot.
        Spot {
            /// The Spot and its state.
            spot: SpotAuthorityIdentity = "spot",
        }
    }
}

/// What WR-62 wants to know of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectState {
    Actor,
    Spot(SpotAuthorityState),
    Instance(InstanceAuthorityState),
}

impl AuthorityObject {
    fn state(&self) -> ObjectState {
        match self {
            Self::Actor { .. } => ObjectState::Actor,
            Self::Spot { spot } => match spot {
                SpotAuthorityIdentity::Entry { state, .. }
                | SpotAuthorityIdentity::User { state, .. } => ObjectState::Spot(*state),
                SpotAuthorityIdentity::Instance { instance } => {
                    ObjectState::Instance(instance.kind())
                }
            },
        }
    }
}

/// The generation of an aggregate inside a relocation state: 0 to 2^63 - 2, 0 only while preparing.
///
/// Contract: `ordinal-or-zero` with a bound of its own (WR-63).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedAggregateGeneration(Option<AggregateGeneration>);

impl RecordedAggregateGeneration {
    /// Before a root exists.
    pub const NONE: Self = Self(None);

    /// A generation that was issued.
    ///
    /// # Errors
    /// It is 2^63 - 1, which marks an exhausted counter and is never issued.
    pub const fn new(generation: AggregateGeneration) -> Result<Self, AggregateGeneration> {
        if generation.get() > AGGREGATE_GENERATION_ISSUED_MAX {
            return Err(generation);
        }
        Ok(Self(Some(generation)))
    }

    /// The generation, if there is one.
    pub const fn get(self) -> Option<AggregateGeneration> {
        self.0
    }

    const fn wire(self) -> u64 {
        match self.0 {
            Some(generation) => generation.get(),
            None => 0,
        }
    }

    fn from_wire(value: u64) -> Result<Self, Reason> {
        if value == 0 {
            return Ok(Self::NONE);
        }
        AggregateGeneration::new(value)
            .ok()
            .and_then(|g| Self::new(g).ok())
            .ok_or(Reason::Above {
                bound: AGGREGATE_GENERATION_ISSUED_MAX,
                actual: value,
            })
    }
}

impl Layout for RecordedAggregateGeneration {
    const MIN: usize = 8;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        let at = r.offset();
        Self::from_wire(r.u64()?).map_err(|reason| Reader::invalid(at, reason))
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        w.u64(self.wire());
        Ok(())
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        self.wire().to_json()
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        Self::from_wire(u64::from_json(node)?).map_err(|reason| JsonError::new(reason.to_string()))
    }
}

/// The four fields that name the target of a move; all there or none (WR-63).
fn target_fields(state: &AuthorityRelocationState) -> Option<bool> {
    let there = [
        state.target_node_rid.is_some(),
        state.target_node_generation.is_some(),
        state.target_owner_id.is_some(),
        state.target_owner_lease_generation.is_some(),
    ];
    let [first, ..] = there;
    there.iter().all(|field| *field == first).then_some(first)
}

/// WR-63.
fn relocation_state_rule(state: &AuthorityRelocationState) -> Result<(), Breach> {
    let preparing = state.phase == RelocationPhase::Preparing;
    if state.aggregate_generation.get().is_none() && !preparing {
        let rule = "an aggregate generation of 0 is legal only in the phase preparing";
        return Err(Breach::new("aggregateGeneration", rule));
    }
    let Some(target) = target_fields(state) else {
        return Err(Breach::new(
            "targetNodeRid",
            "the target fields are all set or all empty",
        ));
    };
    let legal = match state.phase {
        RelocationPhase::Preparing => !target,
        RelocationPhase::None | RelocationPhase::Captured | RelocationPhase::Aborted => true,
        RelocationPhase::Prepared
        | RelocationPhase::Committed
        | RelocationPhase::Activating
        | RelocationPhase::Activated
        | RelocationPhase::Cleaning
        | RelocationPhase::Completed => target,
    };
    if legal {
        return Ok(());
    }
    let rule = "the target is empty in the phase preparing and set from prepared on";
    Err(Breach::new("targetNodeRid", rule))
}

wire_struct! {
    /// How far a move of the object has got.
    ///
    /// The present case of `authority-relocation-state`.
    "authority-relocation-state:true" struct AuthorityRelocationState rule relocation_state_rule {
        /// The move.
        relocation: RelocationId = "relocation",
        /// The change of the aggregate that the row belongs to.
        aggregate_generation: RecordedAggregateGeneration = "aggregateGeneration",
        /// The attempt to prepare a target; none on the wire is 0.
        target_attempt_generation: Option<TargetAttemptGeneration> = "targetAttemptGeneration",
        /// Where the completion root is or will be (WR-63).
        relocation_reference: RelocationReference = "relocationReference",
        /// CRC-32C of that root; 0 while there is none.
        relocation_checksum_crc32c: u32 = "relocationChecksumCrc32c",
        /// The node that owned the object.
        source_node_rid: NodeRid = "sourceNodeRid",
        /// The run of that node.
        source_node_generation: NodeGeneration = "sourceNodeGeneration",
        /// Its owner id.
        source_owner_id: OwnerId = "sourceOwnerId",
        /// Its lease.
        source_owner_lease_generation: OwnerLeaseGeneration = "sourceOwnerLeaseGeneration",
        /// The node that is to own the object.
        target_node_rid: Option<NodeRid> = "targetNodeRid",
        /// The run of that node.
        target_node_generation: Option<NodeGeneration> = "targetNodeGeneration",
        /// Its owner id.
        target_owner_id: Option<OwnerId> = "targetOwnerId",
        /// Its lease.
        target_owner_lease_generation: Option<OwnerLeaseGeneration> = "targetOwnerLeaseGeneration",
        /// Who coordinates the move.
        coordinator_owner_id: OwnerId = "coordinatorOwnerId",
        /// Its lease.
        coordinator_lease_generation: OwnerLeaseGeneration = "coordinatorLeaseGeneration",
        /// Its node.
        coordinator_node_rid: NodeRid = "coordinatorNodeRid",
        /// The run of its node.
        coordinator_node_generation: NodeGeneration = "coordinatorNodeGeneration",
        /// How far the move has got.
        phase: RelocationPhase = "phase",
        /// The version of the application's state.
        application_version: ApplicationVersion = "applicationVersion",
        /// What became of the source.
        source_cleanup_state: SourceCleanupState = "sourceCleanupState",
    }

    /// The stored intent that a ready Instance Spot has still to work off.
    ///
    /// The present case of `authority-activation-recovery-state`.
    "authority-activation-recovery-state:true" struct ActivationRecoveryState {
        /// Where the intent is stored.
        reference: RecoveryReference = "reference",
        /// Its digest.
        sha256: RawSha256 = "sha256",
        /// Its size in bytes.
        encoded_size: CreationRequestSize = "encodedSize",
        /// The place of its message in the inbox.
        inbox_sequence: InboxSequence = "inboxSequence",
        /// How far the inbox has been replayed.
        replay_cursor: ReplayCursor = "replayCursor",
    }

    /// Where the root of a relocation is stored.
    ///
    /// The present case of `relocation-root-pointer`.
    "relocation-root-pointer:true" struct RelocationRootPointer {
        /// The root.
        reference: RelocationReference = "reference",
        /// CRC-32C of its bytes.
        checksum_crc32c: u32 = "checksumCrc32c",
    }
}

wire_option! {
    "authority-relocation-state" Option<AuthorityRelocationState>
        on "hasRelocation" len u32, (flat);
    "authority-activation-recovery-state" Option<ActivationRecoveryState>
        on "hasActivationRecovery" len u32, (flat);
    "relocation-root-pointer" Option<RelocationRootPointer> on "hasRelocation" len u16, (flat);
}

impl AuthorityRelocationState {
    /// Whether this row belongs to the change of the aggregate that the root names (WR-63).
    ///
    /// Every member of an aggregate repeats the generation of its root; a row that names another one
    /// is not part of that change.
    pub fn agrees_with_root(&self, root: AggregateGeneration) -> bool {
        self.aggregate_generation.get() == Some(root)
    }
}

/// WR-62.
fn authority_payload_rule(payload: &AuthorityPayload) -> Result<(), Breach> {
    let moving = payload.operation_kind == AuthorityOperationKind::MaintenanceRelocation;
    let state = payload.object.state();
    let refuse = |rule| Err(Breach::new("operationKind", rule));
    if moving != payload.relocation_state.is_some() {
        return refuse("maintenanceRelocation goes with a relocation state and no other does");
    }
    if moving {
        match state {
            ObjectState::Actor
            | ObjectState::Spot(SpotAuthorityState::Relocating)
            | ObjectState::Instance(InstanceAuthorityState::Relocating) => {}
            ObjectState::Spot(_) | ObjectState::Instance(_) => {
                return refuse("a spot with a relocation state is relocating");
            }
        }
    }
    if payload.operation_kind == AuthorityOperationKind::ColdActivation
        && state != ObjectState::Instance(InstanceAuthorityState::ColdActivating)
    {
        return refuse("coldActivation is for an instance spot in coldActivating");
    }
    if payload.operation_kind == AuthorityOperationKind::Close
        && state != ObjectState::Spot(SpotAuthorityState::Closing)
        && state != ObjectState::Instance(InstanceAuthorityState::Closing)
    {
        return refuse("close is for a spot in closing");
    }
    if payload.activation_recovery_state.is_some()
        && state != ObjectState::Instance(InstanceAuthorityState::Ready)
    {
        let rule = "activation recovery is for a ready instance spot";
        return Err(Breach::new("activationRecoveryState", rule));
    }
    Ok(())
}

wire_struct! {
    /// The framework's part of an authority row.
    ///
    /// Stored as the durable format `ZLAU`, see [`crate::durable`].
    "authority-payload-v1" struct AuthorityPayload rule authority_payload_rule {
        /// What the row is in the middle of.
        operation_kind: AuthorityOperationKind = "operationKind",
        /// The object.
        object: AuthorityObject = "object",
        /// Its owner.
        owner_id: OwnerId = "ownerId",
        /// The lease of its owner.
        owner_lease_generation: OwnerLeaseGeneration = "ownerLeaseGeneration",
        /// The mesh of its owner.
        owner_mesh_name: MeshName = "ownerMeshName",
        /// The node of its owner.
        owner_node_rid: NodeRid = "ownerNodeRid",
        /// The run of that node.
        owner_node_generation: NodeGeneration = "ownerNodeGeneration",
        /// How far a move has got.
        relocation_state: Option<AuthorityRelocationState> = "relocationState",
        /// What a ready Instance Spot has still to work off.
        activation_recovery_state: Option<ActivationRecoveryState> = "activationRecoveryState",
    }

    /// The stored intent to activate an Instance Spot with its first message.
    ///
    /// Stored as the durable format `ZLIA`, see [`crate::durable`].
    "instance-activation-recovery-v1" struct InstanceActivationRecovery {
        /// The Spot.
        target_spot_id: SpotId = "targetSpotId",
        /// Its type.
        stable_type: StableType = "stableType",
        /// The mesh of the node that is to own it.
        target_mesh_name: MeshName = "targetMeshName",
        /// That node.
        target_node_rid: NodeRid = "targetNodeRid",
        /// Its run.
        target_node_generation: NodeGeneration = "targetNodeGeneration",
        /// The descriptor by which it was chosen.
        target_descriptor_version: DescriptorVersion = "targetDescriptorVersion",
        /// The node that sent the message.
        source_node_rid: NodeRid = "sourceNodeRid",
        /// Its run.
        source_node_generation: NodeGeneration = "sourceNodeGeneration",
        /// The Spot that sent the message, if it was one.
        source_spot_id: Option<SpotId> = (flag "hasSourceSpot" "sourceSpotId"),
        /// What names the message, and the way back.
        call: InstanceCall = (flat),
        /// When the activation is given up.
        deadline_unix_ms: DeadlineUnixMillis = "deadlineUnixMs",
        /// The metadata of the message.
        metadata: Option<MetadataFrame> = (flag "hasMetadata" "metadata"),
        /// The message.
        application_payload: ApplicationPayload = "applicationPayload",
    }
}
