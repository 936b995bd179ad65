//! Who a session, a binding and a route are.

use core::cmp::Ordering;

use spotlane_types::generation::{
    AuthorityOwnerGeneration, BindingGeneration, NodeGeneration, OwnerLeaseGeneration,
};
use spotlane_types::id::{ActorId, MeshName, NodeRid, OwnerId, SessionRid};
use spotlane_wire::reference::{ActorRef, ActorRouteFence};

/// An authenticated neighbor in one of its runs, as the transport vouches for it (SB-4).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "closed by SB-4")]
pub struct Peer {
    /// Its routing id.
    pub node_rid: NodeRid,
    /// Its run.
    pub node_generation: NodeGeneration,
}

/// One run of the host that holds client connections.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields are those of SB-12")]
pub struct SessionOwner {
    /// Its routing id.
    pub node_rid: NodeRid,
    /// Its run: the lifecycle in which binding generations are counted (SB-10).
    pub node_generation: NodeGeneration,
    /// Its owner id.
    pub owner_id: OwnerId,
    /// The lease of this run.
    pub owner_lease_generation: OwnerLeaseGeneration,
}

/// One physical session at its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by SB-12")]
pub struct SessionIdentity {
    /// The host that holds the connection.
    pub owner: SessionOwner,
    /// The session at that host.
    pub session_rid: SessionRid,
}

/// The identity of one binding (SB-10).
///
/// ```
/// use core::cmp::Ordering;
/// use spotlane_session::BindingIdentity;
/// # use spotlane_types::{generation::{BindingGeneration, NodeGeneration}, id::NodeRid};
/// let of = |run, number| -> Result<BindingIdentity, spotlane_types::ValueError> {
///     Ok(BindingIdentity {
///         owner_rid: NodeRid::new(b"gate-1")?,
///         lifecycle: NodeGeneration::new(run)?,
///         generation: BindingGeneration::new(number)?,
///     })
/// };
/// assert_eq!(of(1, 8)?.order(&of(1, 7)?), Some(Ordering::Greater));
/// assert_eq!(of(2, 1)?.order(&of(1, 7)?), None, "a restart starts over");
/// # Ok::<(), spotlane_types::ValueError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by SB-10")]
pub struct BindingIdentity {
    /// The session owner.
    pub owner_rid: NodeRid,
    /// Its run.
    pub lifecycle: NodeGeneration,
    /// The number of the binding in that run.
    pub generation: BindingGeneration,
}

impl BindingIdentity {
    /// Which of two bindings was made later; `None` unless both were counted in one run of one
    /// session owner (SB-10).
    #[must_use]
    pub fn order(&self, other: &Self) -> Option<Ordering> {
        let same = self.owner_rid == other.owner_rid && self.lifecycle == other.lifecycle;
        same.then(|| self.generation.get().cmp(&other.generation.get()))
    }
}

/// The handle by which a session names one of its bindings (SB-13).
///
/// Local to its session and never on a record. It ends with its binding: a later binding of the same
/// Actor has another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingToken {
    actor_id: ActorId,
    generation: BindingGeneration,
}

impl BindingToken {
    pub(crate) const fn new(actor_id: ActorId, generation: BindingGeneration) -> Self {
        Self {
            actor_id,
            generation,
        }
    }

    /// The Actor of the binding.
    pub const fn actor_id(&self) -> &ActorId {
        &self.actor_id
    }

    pub(crate) const fn generation(&self) -> BindingGeneration {
        self.generation
    }
}

/// Where records for an Actor go, and in which of its tenures (SB-11).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields are those of SB-11")]
pub struct ActorRoute {
    /// The mesh in which the owner is reached.
    pub mesh_name: MeshName,
    /// The owner's node.
    pub node_rid: NodeRid,
    /// The run of that node.
    pub node_generation: NodeGeneration,
    /// The tenure.
    pub authority_owner_generation: AuthorityOwnerGeneration,
    /// The lease of the tenure; carried along, never judged here (SB-21).
    pub owner_lease_generation: OwnerLeaseGeneration,
}

impl ActorRoute {
    /// The fence of a record for `actor` on this route.
    #[must_use]
    pub fn fence(&self, actor: &ActorRef) -> ActorRouteFence {
        ActorRouteFence {
            actor: actor.clone(),
            target_node_rid: self.node_rid.clone(),
            target_node_generation: self.node_generation,
            expected_authority_owner_generation: self.authority_owner_generation,
            expected_owner_lease_generation: self.owner_lease_generation,
        }
    }
}

/// Names a call of the application until it ended; chosen by the driver, unique in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

impl CallId {
    /// The call with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}
