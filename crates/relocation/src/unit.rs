//! What moves at once: one object, or a Spot and its members, and what belongs to it.

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
pub(crate) mod show;

use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::{
    ApplicationVersion, ParticipantId, ReceiveChunkLimit, ReplyRouteId, SessionSequence,
};
use spotlane_types::generation::{BindingGeneration, NodeGeneration, OwnerLeaseGeneration};
use spotlane_types::id::{NodeRid, OperationId, OwnerId, SessionRid};
use spotlane_types::kind::MeshOperationKind;
use spotlane_types::time::Monotonic;
use spotlane_wire::frozen::{FrozenRecord, FrozenSource};
use spotlane_wire::reference::{ActorRouteFence, RelocationTargetFence};
use spotlane_wire::relocation::RelocationObject;
use thiserror::Error;

use crate::identity::{ConnectionId, RelocationIdentity, SourceFence};

/// The kind of a unit, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by RL section 14")]
pub enum UnitKind {
    /// One Actor.
    Actor,
    /// A User Spot: `SpotWide` with its members, or the shell of a `PerActor` one.
    UserSpot,
    /// One Instance Spot.
    InstanceSpot,
}

impl UnitKind {
    /// The kind of the unit that this object leads.
    pub const fn of(object: &RelocationObject) -> Self {
        match object {
            RelocationObject::Actor { .. } => Self::Actor,
            RelocationObject::UserSpot { .. } => Self::UserSpot,
            RelocationObject::InstanceSpot { .. } => Self::InstanceSpot,
        }
    }

    /// The value of the label `unit_kind`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Actor => "actor",
            Self::UserSpot => "user_spot",
            Self::InstanceSpot => "instance_spot",
        }
    }
}

/// The participants of a unit in the order that numbers them (WR-41).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory(Vec<AuthorityKey>);

/// Keys that are no inventory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InventoryError {
    /// There is nobody to move.
    #[error("a unit has at least one participant")]
    Empty,
    /// One participant occurs twice.
    #[error("{0} occurs twice in one unit")]
    Twice(AuthorityKey),
}

impl Inventory {
    /// Sorts the keys of all participants.
    ///
    /// # Errors
    /// There are none, or one occurs twice.
    pub fn new(mut keys: Vec<AuthorityKey>) -> Result<Self, InventoryError> {
        if keys.is_empty() {
            return Err(InventoryError::Empty);
        }
        keys.sort_unstable();
        let twice = keys.iter().zip(keys.iter().skip(1)).find(|(a, b)| a == b);
        if let Some((key, _)) = twice {
            return Err(InventoryError::Twice(key.clone()));
        }
        Ok(Self(keys))
    }

    /// The keys, sorted.
    pub fn keys(&self) -> &[AuthorityKey] {
        &self.0
    }

    /// The number of a participant: its place from 1.
    pub fn id_of(&self, key: &AuthorityKey) -> Option<ParticipantId> {
        let index = self.0.binary_search(key).ok()?;
        let place = u64::try_from(index).ok()?.checked_add(1)?;
        ParticipantId::new(place).ok()
    }

    /// The participant with a number.
    pub fn key_of(&self, id: ParticipantId) -> Option<&AuthorityKey> {
        let index = usize::try_from(id.get().checked_sub(1)?).ok()?;
        self.0.get(index)
    }
}

/// The session owner of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct SessionOwner {
    /// Its node.
    pub node_rid: NodeRid,
    /// The run of the node.
    pub node_generation: NodeGeneration,
    /// Its owner id.
    pub owner_id: OwnerId,
    /// Its lease.
    pub owner_lease_generation: OwnerLeaseGeneration,
}

/// A client session that is bound to a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct Binding {
    /// The Actor in the source's tenure.
    pub actor: ActorRouteFence,
    /// Who holds the client's connection.
    pub session_owner: SessionOwner,
    /// The session.
    pub session_rid: SessionRid,
    /// The binding.
    pub binding_generation: BindingGeneration,
    /// The next message that is expected of the session.
    pub next_sequence: SessionSequence,
}

/// Whether the policies of all participants let the unit move (RL-110, RL-113).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a unit moves or it does not")]
pub enum UnitPolicy {
    /// Every participant may be recreated or has an adapter.
    Movable,
    /// At least one participant has `DisableRelocation`.
    Disabled,
}

/// Whether progress of the move stands in the store before the commit (RL-28).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it is recorded or it is not")]
pub enum EarlyProgress {
    /// Nothing is written before the commit: a single unit.
    None,
    /// The members point at an aggregate: a `SpotWide` unit (ST-85). An abort is fixed in the store.
    Recorded,
}

/// Everything that is fixed before a unit starts to move (SRC-2).
///
/// Who makes one has found a target that serves the kind, type and version of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct MovePlan {
    /// The move.
    pub identity: RelocationIdentity,
    /// The object that leads the unit.
    pub object: RelocationObject,
    /// The tenure that ends.
    pub source: SourceFence,
    /// The tenure that is to begin.
    pub target: RelocationTargetFence,
    /// The version of the application's state.
    pub application_version: ApplicationVersion,
    /// Whether the unit may move.
    pub policy: UnitPolicy,
    /// Whether an abort has something to undo in the store.
    pub early_progress: EarlyProgress,
    /// What the target advertised before the seal, if a reply did (RL-132).
    pub receive_chunk_limit: Option<ReceiveChunkLimit>,
    /// The connection to the target.
    pub connection: ConnectionId,
    /// The operation's own deadline; it counts up to the boundary (RL-354).
    pub deadline: Monotonic,
}

/// A request that was accepted at the source and whose caller waits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the four parts that name a caller"
)]
pub struct PendingRequest {
    /// Who sent it.
    pub source: FrozenSource,
    /// The operation.
    pub operation_id: OperationId,
    /// Its kind.
    pub kind: MeshOperationKind,
    /// The way back.
    pub reply_route: ReplyRouteId,
}

impl PendingRequest {
    /// The request in a record, if the record is one.
    pub fn of(record: &FrozenRecord) -> Option<Self> {
        Some(Self {
            source: record.source.clone(),
            operation_id: record.operation_id?,
            kind: record.operation_kind,
            reply_route: record.reply_route?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(id: &str) -> AuthorityKey {
        AuthorityKey::Actor(id.parse().unwrap())
    }

    /// WR-41
    #[test]
    fn participants_are_numbered_in_the_order_of_their_keys() {
        let spot = AuthorityKey::Spot("a".parse().unwrap());
        let inventory = Inventory::new(vec![spot.clone(), actor("b"), actor("a")]).unwrap();
        assert_eq!(inventory.keys(), [actor("a"), actor("b"), spot.clone()]);
        let id = inventory.id_of(&spot).unwrap();
        assert_eq!(id.get(), 3);
        assert_eq!(inventory.key_of(id), Some(&spot));
        assert_eq!(inventory.id_of(&actor("c")), None);
        assert_eq!(inventory.key_of(ParticipantId::new(4).unwrap()), None);
    }

    /// WR-41
    #[test]
    fn an_inventory_has_every_participant_once() {
        assert_eq!(Inventory::new(Vec::new()), Err(InventoryError::Empty));
        let twice = Inventory::new(vec![actor("a"), actor("b"), actor("a")]);
        assert_eq!(twice, Err(InventoryError::Twice(actor("a"))));
    }
}
