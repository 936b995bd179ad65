//! The operations of ST section 7 as changes: what each needs, and the one batch that it is. Pure.

use std::time::Duration;

use spotlane_store::{ArgumentError, Condition, Mutation, StoreKey, StoreValue, Ttl};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::generation::{AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration};
use spotlane_types::id::{NodeRid, OperationId, StableType};
use spotlane_types::kind::{
    ActorAuthorityState, InstanceAuthorityState, RelocationPhase, SpotAuthorityState,
    StatefulObjectKind,
};
use spotlane_wire::authority::{
    AuthorityObject, AuthorityPayload, InstanceAuthorityIdentity, SpotAuthorityIdentity,
};
use spotlane_wire::durable;

use super::plan::{Change, Effect, Fence, First, Issues, Whose};
use super::state::{ActiveObject, ClosingObject, Known, ReservedObject, aggregate_of};
use crate::directory::Candidate;
use crate::error::{Conflict, LocationError, Stale};
use crate::key;
use crate::lease::{HeldLease, LiveLease};
use crate::record::{
    Allocation, AllocationState, AuthorityRow, CapacityBundle, DescriptorName, MeshNodeDescriptor,
    PendingCreation, V1,
};

/// What a payload says of its object.
pub(crate) struct Identity {
    pub(crate) object: AuthorityKey,
    pub(crate) kind: StatefulObjectKind,
    pub(crate) stable_type: StableType,
    pub(crate) life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Creating,
    Ready,
    Closing,
    Relocating,
}

/// Reads the object of a payload. An Entry Spot has no allocation kind (ST-51), so no row of it can be written.
pub(crate) fn identity(object: &AuthorityObject) -> Result<Identity, LocationError> {
    let spot =
        |spot_id: &spotlane_types::id::SpotId, stable_type: &StableType, kind, life| Identity {
            object: AuthorityKey::Spot(spot_id.clone()),
            kind,
            stable_type: stable_type.clone(),
            life,
        };
    Ok(match object {
        AuthorityObject::Actor { actor } => Identity {
            object: AuthorityKey::Actor(actor.actor_id.clone()),
            kind: StatefulObjectKind::Actor,
            stable_type: actor.actor_type.clone(),
            life: match actor.state {
                ActorAuthorityState::Creating => Life::Creating,
                ActorAuthorityState::Ready => Life::Ready,
            },
        },
        AuthorityObject::Spot { spot: identity } => match identity {
            SpotAuthorityIdentity::Entry { .. } => {
                return Err(LocationError::Call {
                    rule: "an entry spot has no allocation",
                });
            }
            SpotAuthorityIdentity::User {
                spot_id,
                spot_type,
                state,
            } => spot(
                spot_id,
                spot_type,
                StatefulObjectKind::UserSpot,
                spot_life(*state),
            ),
            SpotAuthorityIdentity::Instance { instance } => {
                let (InstanceAuthorityIdentity::ColdActivating {
                    instance_type,
                    spot_id,
                }
                | InstanceAuthorityIdentity::Ready {
                    instance_type,
                    spot_id,
                }
                | InstanceAuthorityIdentity::Closing {
                    instance_type,
                    spot_id,
                }
                | InstanceAuthorityIdentity::Relocating {
                    instance_type,
                    spot_id,
                }) = instance;
                let life = instance_life(instance.kind());
                spot(
                    spot_id,
                    instance_type,
                    StatefulObjectKind::InstanceSpot,
                    life,
                )
            }
        },
    })
}

fn spot_life(state: SpotAuthorityState) -> Life {
    match state {
        SpotAuthorityState::Creating => Life::Creating,
        SpotAuthorityState::Ready => Life::Ready,
        SpotAuthorityState::Closing => Life::Closing,
        SpotAuthorityState::Relocating => Life::Relocating,
    }
}

fn instance_life(state: InstanceAuthorityState) -> Life {
    match state {
        InstanceAuthorityState::ColdActivating => Life::Creating,
        InstanceAuthorityState::Ready => Life::Ready,
        InstanceAuthorityState::Closing => Life::Closing,
        InstanceAuthorityState::Relocating => Life::Relocating,
    }
}

/// How long the result of a creation is kept past the deadline of the operation (RL-87).
pub const TERMINAL_RECORD_SLACK: Duration = Duration::from_mins(5);

/// What is reserved.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reservation {
    /// The framework's part: the object in the state of creation, and its owner to be.
    pub payload: AuthorityPayload,
    /// The request, when somebody else than the reserver will run it (RL-84). Its reservation id is used once.
    pub pending_creation: Option<PendingCreation>,
}

impl Reservation {
    /// A reservation.
    pub fn new(payload: AuthorityPayload, pending_creation: Option<PendingCreation>) -> Self {
        Self {
            payload,
            pending_creation,
        }
    }
}

/// One creation, as the node that asked for it names it: only a resend of the same operation has the same (RL-87).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by RL-87")]
pub struct CreationOperation {
    /// The node that asked.
    pub source: NodeRid,
    /// The run of that node.
    pub source_generation: NodeGeneration,
    /// Its operation.
    pub operation: OperationId,
}

impl CreationOperation {
    pub(crate) fn key(&self) -> StoreKey {
        key::creation_terminal(&self.source, self.source_generation, self.operation)
    }
}

/// The terminal result of a creation, written in the batch that ends it (RL-85, RL-87).
///
/// [`Repository::creation_result`](crate::Repository::creation_result) reads it.
#[derive(Clone, Debug)]
pub struct TerminalRecord {
    put: Mutation,
}

impl TerminalRecord {
    /// The result of an operation whose deadline is this far away, in the bytes of the wire contract. They hold no
    /// correlation and no reply route, because the answer to a resend is encoded for the connection that it came on.
    ///
    /// # Errors
    /// [`ArgumentError`], by recovery `FixCall`, when the bytes are more than 1 MiB, or the deadline a century away.
    pub fn new(
        operation: CreationOperation,
        bytes: impl Into<bytes::Bytes>,
        until_deadline: Duration,
    ) -> Result<Self, ArgumentError> {
        // RL-87: by store time, which only the store knows; a time to live is counted from the commit.
        let ttl = Ttl::new(until_deadline.saturating_add(TERMINAL_RECORD_SLACK))?;
        Mutation::put(operation.key(), bytes, Some(ttl)).map(|put| Self { put })
    }
}

/// The right to become the owner of a moving object: the target has run factory and restore, holds its lease, and has
/// written down what the row will say (RL-20, RL-24, RL-96).
///
/// Only the relocation target makes one, at the one place where it has established all that. The source has no lease of
/// the target and so cannot.
#[derive(Clone, Debug)]
#[must_use]
pub struct PreparedTarget {
    held: HeldLease,
    payload: AuthorityPayload,
}

impl PreparedTarget {
    /// Takes the target's lease and the payload that names it as owner.
    ///
    /// # Errors
    /// [`LocationError::Call`], by recovery `FixCall`: the payload names another owner, or a relocation phase that is not
    /// the commit.
    pub fn new(held: HeldLease, payload: AuthorityPayload) -> Result<Self, LocationError> {
        owned_by(&payload, held.lease())?;
        if let Some(state) = &payload.relocation_state
            && state.phase != RelocationPhase::Committed
        {
            return Err(LocationError::Call {
                rule: "an owner change writes the phase committed",
            });
        }
        Ok(Self { held, payload })
    }

    /// The lease it acts with.
    pub fn held(&self) -> &HeldLease {
        &self.held
    }
}

fn owned_by(payload: &AuthorityPayload, lease: &LiveLease) -> Result<(), LocationError> {
    if lease.is_of(&payload.owner_id, payload.owner_lease_generation) {
        return Ok(());
    }
    Err(LocationError::Call {
        rule: "the payload names the owner of the lease",
    })
}

fn encode(payload: &AuthorityPayload) -> Result<bytes::Bytes, LocationError> {
    durable::encode(payload).map_err(LocationError::Payload)
}

fn node_of(payload: &AuthorityPayload) -> (DescriptorName, NodeGeneration) {
    let name = DescriptorName {
        mesh_name: payload.owner_mesh_name.clone(),
        routing_id: payload.owner_node_rid.clone(),
    };
    (name, payload.owner_node_generation)
}

/// Whether the node counts room for one more; its counts are a hint that the version condition makes binding (RL-83).
pub(crate) fn has_room(
    node: &MeshNodeDescriptor,
    kind: StatefulObjectKind,
    stable_type: &StableType,
) -> bool {
    let fits = |active: u32, reserved: u32, limit: u32| {
        limit == 0 || active.saturating_add(reserved) < limit
    };
    let capacity = &node.capacity;
    let all = match kind {
        StatefulObjectKind::Actor => &capacity.actors,
        StatefulObjectKind::UserSpot | StatefulObjectKind::InstanceSpot => &capacity.spots,
    };
    let of_type = capacity
        .spot_types
        .iter()
        .find(|slots| slots.object_kind == kind && slots.stable_type == *stable_type);
    fits(all.active, all.reserved, all.limit)
        && of_type.is_none_or(|slots| fits(slots.active, slots.reserved, slots.limit))
}

/// ST section 7, Reserve (RL-10): missing to reserved, both generations issued.
pub(crate) fn reserve(
    by: &HeldLease,
    to: &Candidate,
    reservation: Reservation,
) -> Result<Change, LocationError> {
    // RL-84: another host learns from the row what to create; and two reservers of one target that wrote the same bytes
    // could both take them for their own after a lost answer.
    if reservation.pending_creation.is_none() && by.lease() != to.lease() {
        return Err(LocationError::Call {
            rule: "a reservation on another host has a pending creation",
        });
    }
    let payload = reservation.payload;
    owned_by(&payload, to.lease())?;
    let identity = identity(&payload.object)?;
    if identity.life != Life::Creating {
        return Err(LocationError::Call {
            rule: "a reservation is for an object in creation",
        });
    }
    let (descriptor, generation) = node_of(&payload);
    let node = &to.descriptor().row.descriptor;
    if descriptor.mesh_name != node.mesh_name
        || descriptor.routing_id != node.routing_id
        || generation != node.lifecycle_generation
    {
        return Err(LocationError::Call {
            rule: "the payload names the node of the candidate",
        });
    }
    if !has_room(node, identity.kind, &identity.stable_type) {
        return Err(LocationError::conflict(Conflict::TargetCapacity));
    }
    let row = AuthorityRow {
        record_version: V1,
        payload: encode(&payload)?,
        // Both are issued by the batch; these two are never written.
        object_generation: ObjectGeneration::MIN,
        authority_owner_generation: AuthorityOwnerGeneration::MIN,
        owner_id: payload.owner_id,
        owner_lease_generation: payload.owner_lease_generation,
        allocation: Allocation {
            state: AllocationState::Reserved,
            object_kind: identity.kind,
            capacity: CapacityBundle::of_one(identity.kind, &identity.stable_type),
            stable_type: identity.stable_type,
            descriptor,
            descriptor_lifecycle_generation: generation,
        },
        pending_creation: reservation.pending_creation,
    };
    Ok(Change {
        key: key::authority(&identity.object),
        first: First::Missing,
        fence: Fence {
            lease: to.lease().clone(),
            whose: Whose::Target,
        },
        descriptor: Some(to.descriptor().clone()),
        effect: Effect::Row(row, Issues::ObjectAndOwner),
        also: None,
        extra: Vec::new(),
        incarnation: None,
    })
}

/// The change of a row that its owner makes.
fn own(known: &Known, held: &HeldLease, effect: Effect) -> Result<Change, LocationError> {
    let row = &known.seen.row;
    if !held
        .lease()
        .is_of(&row.owner_id, row.owner_lease_generation)
    {
        return Err(LocationError::stale(Stale::NotOwner));
    }
    Ok(Change {
        key: key::authority(&known.object),
        first: First::At(known.seen.version.clone()),
        fence: Fence {
            lease: held.lease().clone(),
            whose: Whose::Own,
        },
        descriptor: None,
        effect,
        also: None,
        extra: Vec::new(),
        incarnation: Some(row.object_generation),
    })
}

/// A payload that keeps object and owner of its row.
fn kept(
    known: &Known,
    held: &HeldLease,
    payload: &AuthorityPayload,
) -> Result<Identity, LocationError> {
    // First of all: a former owner is stale, whatever it wants to write.
    let row = &known.seen.row;
    if !held
        .lease()
        .is_of(&row.owner_id, row.owner_lease_generation)
    {
        return Err(LocationError::stale(Stale::NotOwner));
    }
    owned_by(payload, held.lease())?;
    let identity = same_object(known, payload)?;
    let (descriptor, generation) = node_of(payload);
    let allocation = &known.seen.row.allocation;
    if descriptor != allocation.descriptor
        || generation != allocation.descriptor_lifecycle_generation
    {
        return Err(LocationError::Call {
            rule: "the payload keeps the node of the row",
        });
    }
    Ok(identity)
}

fn same_object(known: &Known, payload: &AuthorityPayload) -> Result<Identity, LocationError> {
    let identity = identity(&payload.object)?;
    let allocation = &known.seen.row.allocation;
    if identity.object != known.object
        || identity.kind != allocation.object_kind
        || identity.stable_type != allocation.stable_type
    {
        return Err(LocationError::Call {
            rule: "the payload keeps the object of the row",
        });
    }
    Ok(identity)
}

/// ST section 7, Commit (RL-11): the same reservation, active.
pub(crate) fn commit(
    reserved: &ReservedObject,
    node: &Candidate,
    held: &HeldLease,
    payload: &AuthorityPayload,
    terminal: Option<TerminalRecord>,
) -> Result<Change, LocationError> {
    let known = &reserved.0;
    if kept(known, held, payload)?.life != Life::Ready {
        return Err(LocationError::Call {
            rule: "a commit makes its object ready",
        });
    }
    let mut row = known.seen.row.clone();
    row.payload = encode(payload)?;
    row.allocation.state = AllocationState::Active;
    row.pending_creation = None;
    let mut change = own(known, held, Effect::Row(row, Issues::None))?;
    change.descriptor = Some(descriptor_of(known, node)?);
    change.extra.extend(terminal.map(|record| record.put));
    Ok(change)
}

/// ST section 7, Abort (RL-11): the same reservation, missing; its capacity goes with the row.
pub(crate) fn abort(
    reserved: &ReservedObject,
    node: &Candidate,
    held: &HeldLease,
    terminal: Option<TerminalRecord>,
) -> Result<Change, LocationError> {
    let known = &reserved.0;
    let mut change = own(known, held, Effect::Gone)?;
    change.descriptor = Some(descriptor_of(known, node)?);
    change.extra.extend(terminal.map(|record| record.put));
    Ok(change)
}

fn descriptor_of(
    known: &Known,
    node: &Candidate,
) -> Result<crate::record::Seen<crate::record::NodeDescriptorRow>, LocationError> {
    let allocation = &known.seen.row.allocation;
    let found = &node.descriptor().row.descriptor;
    if found.mesh_name != allocation.descriptor.mesh_name
        || found.routing_id != allocation.descriptor.routing_id
        || found.lifecycle_generation != allocation.descriptor_lifecycle_generation
    {
        return Err(LocationError::conflict(Conflict::TargetDescriptor));
    }
    Ok(node.descriptor().clone())
}

/// ST section 7, Preserve (RL-12): another payload; owner, generations and capacity stay.
pub(crate) fn preserve(
    active: &ActiveObject,
    held: &HeldLease,
    payload: &AuthorityPayload,
) -> Result<Change, LocationError> {
    // ST-85: while a row points at an aggregate, only that move changes it.
    if active.aggregate().is_some() {
        return Err(LocationError::conflict(Conflict::InAggregate));
    }
    preserve_in_aggregate(active, held, payload)
}

/// The same, for the move that the row points at.
pub(crate) fn preserve_in_aggregate(
    active: &ActiveObject,
    held: &HeldLease,
    payload: &AuthorityPayload,
) -> Result<Change, LocationError> {
    kept(&active.0, held, payload)?;
    let mut row = active.row().clone();
    row.payload = encode(payload)?;
    own(&active.0, held, Effect::Row(row, Issues::None))
}

/// ST section 7, `NewOwner` (RL-13): the target becomes the owner; capacity moves because the row names the target's node.
pub(crate) fn new_owner(
    active: &ActiveObject,
    target: &PreparedTarget,
) -> Result<Change, LocationError> {
    if active.aggregate().is_some() || aggregate_of(&target.payload).is_some() {
        return Err(LocationError::conflict(Conflict::InAggregate));
    }
    let known = &active.0;
    same_object(known, &target.payload)?;
    let (descriptor, generation) = node_of(&target.payload);
    let mut row = active.row().clone();
    row.payload = encode(&target.payload)?;
    row.owner_id = target.payload.owner_id.clone();
    row.owner_lease_generation = target.payload.owner_lease_generation;
    row.allocation.descriptor = descriptor;
    row.allocation.descriptor_lifecycle_generation = generation;
    Ok(Change {
        key: key::authority(&known.object),
        first: First::At(known.seen.version.clone()),
        fence: Fence {
            lease: target.held.lease().clone(),
            whose: Whose::Own,
        },
        descriptor: None,
        effect: Effect::Row(row, Issues::Owner),
        also: None,
        extra: Vec::new(),
        incarnation: Some(active.row().object_generation),
    })
}

/// ST-88: a row that points at a move that is over, in the name of the move's target.
pub(crate) fn settle_member(
    member: &ActiveObject,
    held: &HeldLease,
    payload: &AuthorityPayload,
    generation: AuthorityOwnerGeneration,
) -> Result<Change, LocationError> {
    owned_by(payload, held.lease())?;
    same_object(&member.0, payload)?;
    if aggregate_of(payload).is_some() {
        return Err(LocationError::Call {
            rule: "the payload points at no aggregate",
        });
    }
    let (descriptor, node_generation) = node_of(payload);
    let mut row = member.row().clone();
    row.payload = encode(payload)?;
    row.owner_id = payload.owner_id.clone();
    row.owner_lease_generation = payload.owner_lease_generation;
    row.authority_owner_generation = generation;
    row.allocation.descriptor = descriptor;
    row.allocation.descriptor_lifecycle_generation = node_generation;
    Ok(Change {
        key: key::authority(member.object()),
        first: First::At(member.version().clone()),
        fence: Fence {
            lease: held.lease().clone(),
            whose: Whose::Own,
        },
        descriptor: None,
        effect: Effect::Row(row, Issues::None),
        also: None,
        extra: Vec::new(),
        incarnation: Some(member.row().object_generation),
    })
}

/// ST section 7, Reincarnate (RL-14, RL-103): a new incarnation on the same owner, lease and capacity.
pub(crate) fn reincarnate(
    closing: &ClosingObject,
    held: &HeldLease,
    payload: &AuthorityPayload,
) -> Result<Change, LocationError> {
    kept(&closing.0, held, payload)?;
    let mut row = closing.row().clone();
    row.payload = encode(payload)?;
    own(&closing.0, held, Effect::Row(row, Issues::ObjectAndOwner))
}

/// ST section 7, Delete (RL-14): the row goes, and its capacity with it.
pub(crate) fn delete(active: &ActiveObject, held: &HeldLease) -> Result<Change, LocationError> {
    if active.aggregate().is_some() {
        return Err(LocationError::conflict(Conflict::InAggregate));
    }
    own(&active.0, held, Effect::Gone)
}

/// ST-74: removes a reservation whose target has ended, under the evidence for it.
pub(crate) fn release(
    reserved: &ReservedObject,
    evidence: Condition,
) -> (Vec<Condition>, Vec<Mutation>) {
    let key = key::authority(reserved.object());
    let version = Condition::Version(key.clone(), reserved.version().clone());
    (vec![version, evidence], vec![Mutation::Delete { key }])
}

/// The evidence that a lease is gone or another run's.
pub(crate) fn lease_ended(key: StoreKey, found: Option<StoreValue>) -> Condition {
    match found {
        Some(value) => Condition::Value(key, value),
        None => Condition::Missing(key),
    }
}
