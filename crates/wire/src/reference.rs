//! References to objects, their memberships, and the fences that tie a message to one tenure.

use spotlane_types::generation::{
    AuthorityOwnerGeneration, BindingGeneration, NodeGeneration, ObjectGeneration,
    OwnerLeaseGeneration,
};
use spotlane_types::id::{ActorId, NodeRid, OwnerId, SessionRid, SpotId, StoreVersion};
use spotlane_types::kind::{BindingState, SessionRouteAction};

#[cfg(feature = "serde")]
use crate::json::{self, JsonError, Node};
use crate::layout::{
    Layout, field_view, standalone, wire_envelope, wire_option, wire_struct, wire_union,
};
use crate::reader::{Read, Reader};
use crate::view::Viewed;
use crate::writer::{Writer, Written};

wire_struct! {
    /// Names one incarnation of an Actor.
    "actor-ref" struct ActorRef view ActorRefView {
        /// The address, which a later incarnation may reuse.
        actor_id: ActorId = "actorId",
        /// The incarnation.
        object_generation: ObjectGeneration = "objectGeneration",
    }

    /// Names one incarnation of a Spot.
    "spot-ref" struct SpotRef view SpotRefView {
        /// The address, which a later incarnation may reuse.
        spot_id: SpotId = "spotId",
        /// The incarnation.
        object_generation: ObjectGeneration = "objectGeneration",
    }

    /// The Spot that an Actor is a member of.
    "spot-membership" struct SpotMembership {
        /// The Spot.
        spot: SpotRef = "spot",
    }

    /// Ties a message to one tenure of an Actor.
    "actor-route-fence" struct ActorRouteFence view ActorRouteFenceView {
        /// The Actor.
        actor: ActorRef = "actor",
        /// The node that is believed to own it.
        target_node_rid: NodeRid = "targetNodeRid",
        /// The run of that node.
        target_node_generation: NodeGeneration = "targetNodeGeneration",
        /// The change of owner that made it so.
        expected_authority_owner_generation: AuthorityOwnerGeneration =
            "expectedAuthorityOwnerGeneration",
        /// The lease under which it owns the Actor.
        expected_owner_lease_generation: OwnerLeaseGeneration = "expectedOwnerLeaseGeneration",
    }

    /// Ties a message to one tenure of a Spot.
    "spot-route-fence" struct SpotRouteFence view SpotRouteFenceView {
        /// The Spot.
        spot: SpotRef = "spot",
        /// The node that is believed to own it.
        target_node_rid: NodeRid = "targetNodeRid",
        /// The run of that node.
        target_node_generation: NodeGeneration = "targetNodeGeneration",
        /// The change of owner that made it so.
        expected_authority_owner_generation: AuthorityOwnerGeneration =
            "expectedAuthorityOwnerGeneration",
        /// The lease under which it owns the Spot.
        expected_owner_lease_generation: OwnerLeaseGeneration = "expectedOwnerLeaseGeneration",
    }

    /// One state of an authority row: whose it is and in which version.
    "authority-generation-fence" struct AuthorityGenerationFence {
        /// The incarnation of the object.
        object_generation: ObjectGeneration = "objectGeneration",
        /// The owner.
        owner_id: OwnerId = "ownerId",
        /// The change of owner that made it so.
        authority_owner_generation: AuthorityOwnerGeneration = "authorityOwnerGeneration",
        /// The lease of the owner.
        lease_generation: OwnerLeaseGeneration = "leaseGeneration",
        /// The version of the row.
        store_version: StoreVersion = "storeVersion",
    }

    /// Who coordinates a move: the source, under the lease and row version it started with (RL-5).
    "relocation-coordinator-fence" struct RelocationCoordinatorFence {
        /// The owner id of the coordinator.
        coordinator_owner_id: OwnerId = "coordinatorOwnerId",
        /// Its lease.
        coordinator_lease_generation: OwnerLeaseGeneration = "coordinatorLeaseGeneration",
        /// Its node.
        coordinator_node_rid: NodeRid = "coordinatorNodeRid",
        /// The run of its node.
        coordinator_node_generation: NodeGeneration = "coordinatorNodeGeneration",
        /// The version of the authority row that the commit compares with.
        expected_authority_store_version: StoreVersion = "expectedAuthorityStoreVersion",
    }

    /// Who is to become the owner.
    "relocation-target-fence" struct RelocationTargetFence {
        /// The node of the target.
        target_node_rid: NodeRid = "targetNodeRid",
        /// The run of that node.
        target_node_generation: NodeGeneration = "targetNodeGeneration",
        /// The owner id of the target.
        target_owner_id: OwnerId = "targetOwnerId",
        /// Its lease.
        target_owner_lease_generation: OwnerLeaseGeneration = "targetOwnerLeaseGeneration",
    }

    /// Who sent a request whose reply is relayed.
    "request-source-fence" struct RequestSourceFence {
        /// The owner id of the source.
        source_owner_id: OwnerId = "sourceOwnerId",
        /// Its lease.
        source_owner_lease_generation: OwnerLeaseGeneration = "sourceOwnerLeaseGeneration",
        /// Its node.
        source_node_rid: NodeRid = "sourceNodeRid",
        /// The run of that node.
        source_node_generation: NodeGeneration = "sourceNodeGeneration",
    }

    /// The binding of a client session that was replaced by a newer one.
    "retired-bound-session-route-fence" struct RetiredBoundSessionRouteFence {
        /// The node that holds the client's connection.
        session_owner_node_rid: NodeRid = "sessionOwnerNodeRid",
        /// The run of that node.
        session_owner_node_generation: NodeGeneration = "sessionOwnerNodeGeneration",
        /// Its owner id.
        session_owner_id: OwnerId = "sessionOwnerId",
        /// Its lease.
        session_owner_lease_generation: OwnerLeaseGeneration = "sessionOwnerLeaseGeneration",
        /// The session.
        session_rid: SessionRid = "sessionRid",
        /// The binding that is no longer in force.
        retired_binding_generation: BindingGeneration = "retiredBindingGeneration",
    }
}

wire_envelope! {
    /// Ties the close of a User Spot to one tenure and row version.
    "user-spot-close-fence-v1" envelope UserSpotCloseFence len u16 max u32::MAX, {
        /// The Spot.
        spot: SpotRef = "spot",
        /// The node that is believed to own it.
        target_node_rid: NodeRid = "targetNodeRid",
        /// The run of that node.
        target_node_generation: NodeGeneration = "targetNodeGeneration",
        /// The change of owner that made it so.
        expected_authority_owner_generation: AuthorityOwnerGeneration =
            "expectedAuthorityOwnerGeneration",
        /// The version of the authority row.
        expected_store_version: StoreVersion = "expectedStoreVersion",
    }
}

wire_option! {
    "optional-spot-ref" Option<SpotRef> on "hasSpot" len u16, "spot";
    "optional-spot-membership" Option<SpotMembership> on "hasMembership" len u16, "membership";
}

wire_union! {
    /// What becomes of a binding.
    "bound-session-binding-transition" enum BindingTransition on "bindingState" BindingState len u16 {
        /// It comes into force.
        Active {
            /// The binding.
            binding_generation: BindingGeneration = "bindingGeneration",
        }
        /// It is retired.
        Tombstone {
            /// The binding.
            retired_binding_generation: BindingGeneration = "retiredBindingGeneration",
        }
    }

    /// How the session owner ends the seal of a binding.
    "session-relocation-route-update" enum SessionRouteUpdate on "action" SessionRouteAction len u16 {
        /// The move was committed: switch to the target.
        Commit {
            /// The generation of the route that is left.
            previous_authority_owner_generation: AuthorityOwnerGeneration =
                "previousAuthorityOwnerGeneration",
            /// The generation of the new route.
            target_authority_owner_generation: AuthorityOwnerGeneration =
                "targetAuthorityOwnerGeneration",
            /// The node of the new owner.
            target_node_rid: NodeRid = "targetNodeRid",
            /// The run of that node.
            target_node_generation: NodeGeneration = "targetNodeGeneration",
            /// The lease of the new owner, for the fence of later records (WR-53).
            target_owner_lease_generation: OwnerLeaseGeneration = "targetOwnerLeaseGeneration",
        }
        /// The move failed before the boundary: release to the route that was sealed.
        Abort {
            /// The generation of the route that stays.
            current_authority_owner_generation: AuthorityOwnerGeneration =
                "currentAuthorityOwnerGeneration",
        }
    }
}

impl Viewed for Option<ActorRef> {
    type View<'a> = Option<ActorRefView<'a>>;

    #[inline]
    fn view<'a>(r: &mut Reader<'a>) -> Read<Option<ActorRefView<'a>>> {
        let at = r.offset();
        let len = match r.u8() {
            Ok(0) => return Ok(None),
            Ok(len) => usize::from(len),
            Err(error) => return Err(error.within("actorId")),
        };
        let actor_id = match r.borrowed(at, len, ActorId::borrow_prefix) {
            Ok(actor_id) => actor_id,
            Err(error) => return Err(error.within("actorId")),
        };
        let object_generation = field_view!(r, ObjectGeneration, "generation");
        Ok(Some(ActorRefView {
            actor_id,
            object_generation,
        }))
    }

    #[inline(always)]
    fn from_view(view: &Option<ActorRefView<'_>>) -> Self {
        view.as_ref().map(ActorRef::from_view)
    }
}

/// `optional-actor-ref`: an empty id without generation, or both.
impl Layout for Option<ActorRef> {
    const MIN: usize = 1;

    #[inline]
    fn read(r: &mut Reader<'_>) -> Read<Self> {
        Self::view(r).map(|view| Self::from_view(&view))
    }

    #[inline]
    fn write(&self, w: &mut Writer<'_>) -> Written {
        if let Some(actor) = self {
            return actor.write(w);
        }
        w.u8(0);
        Ok(())
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        json::object(|m| match self {
            Some(actor) => {
                m.push("actorId", actor.actor_id.to_json());
                m.push("generation", actor.object_generation.to_json());
            }
            None => m.push("actorId", Node::Text(String::new())),
        })
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        json::read_object(node, |object| {
            let Some(actor_id) = object.take::<Option<spotlane_types::text::Text8>>("actorId")?
            else {
                return Ok(None);
            };
            let actor_id = ActorId::from_bytes(actor_id.as_bytes())
                .map_err(|e| JsonError::new(e.to_string()).within("actorId"))?;
            let object_generation = object.take("generation")?;
            Ok(Some(ActorRef {
                actor_id,
                object_generation,
            }))
        })
    }
}

standalone!("optional-actor-ref", Option<ActorRef>);
