//! Client sessions bound to Actors: commands 36, 38, 42 to 44 and 51.

use spotlane_types::count::Correlation;
use spotlane_types::generation::{BindingGeneration, NodeGeneration, OwnerLeaseGeneration};
use spotlane_types::id::{NodeRid, OwnerId, RelocationId, SessionRid};
use spotlane_types::kind::RelocationRole;

use super::wire_command;
use crate::reference::{
    ActorRef, ActorRouteFence, BindingTransition, RelocationCoordinatorFence,
    RetiredBoundSessionRouteFence, SessionRouteUpdate,
};

wire_command! {
    /// A message of an Actor to the client that is bound to it.
    36 "boundSessionSend" command BoundSessionSend frames [payload] {
        /// The Actor in its tenure.
        actor: ActorRouteFence = "actor",
        /// The binding that the message is for.
        expected_binding_generation: BindingGeneration = "expectedBindingGeneration",
    }

    /// Binds a client session to an Actor, or retires a binding.
    38 "boundSessionBind" command BoundSessionBind frames [] {
        /// What the reply repeats.
        correlation: Correlation = "correlation",
        /// The Actor in its tenure.
        actor: ActorRouteFence = "actor",
        /// The session.
        session_rid: SessionRid = "sessionRid",
        /// What becomes of the binding.
        binding: BindingTransition = "binding",
    }

    /// Asks the session owner to hold what a binding sends.
    42 "sessionRelocationSeal" command SessionRelocationSeal frames [] {
        /// The move.
        relocation: RelocationId = "relocation",
        /// Its coordinator.
        coordinator: RelocationCoordinatorFence = "coordinator",
        /// Who speaks; only the source may (WR-51).
        sender_role: RelocationRole = "senderRole",
        /// The Actor in the tenure that it is about to leave.
        actor: ActorRouteFence = "actor",
        /// The session owner.
        session_owner_node_rid: NodeRid = "sessionOwnerNodeRid",
        /// Its run.
        session_owner_node_generation: NodeGeneration = "sessionOwnerNodeGeneration",
        /// Its owner id.
        session_owner_id: OwnerId = "sessionOwnerId",
        /// Its lease.
        session_owner_lease_generation: OwnerLeaseGeneration = "sessionOwnerLeaseGeneration",
        /// The session.
        session_rid: SessionRid = "sessionRid",
        /// The binding.
        binding_generation: BindingGeneration = "bindingGeneration",
    }

    /// The seal is installed (WR-55).
    43 "sessionRelocationSealed" command SessionRelocationSealed frames [] {
        /// The move.
        relocation: RelocationId = "relocation",
        /// Its coordinator.
        coordinator: RelocationCoordinatorFence = "coordinator",
        /// The Actor in the tenure that it is about to leave.
        actor: ActorRouteFence = "actor",
        /// The session owner.
        session_owner_node_rid: NodeRid = "sessionOwnerNodeRid",
        /// Its run.
        session_owner_node_generation: NodeGeneration = "sessionOwnerNodeGeneration",
        /// Its owner id.
        session_owner_id: OwnerId = "sessionOwnerId",
        /// Its lease.
        session_owner_lease_generation: OwnerLeaseGeneration = "sessionOwnerLeaseGeneration",
        /// The session.
        session_rid: SessionRid = "sessionRid",
        /// The binding.
        binding_generation: BindingGeneration = "bindingGeneration",
    }

    /// Ends the seal: switch to the new owner, or release to the old one.
    44 "sessionRelocationRoute" command SessionRelocationRoute frames [] {
        /// The move.
        relocation: RelocationId = "relocation",
        /// Its coordinator.
        coordinator: RelocationCoordinatorFence = "coordinator",
        /// Who speaks: the target for a commit, the source for an abort (WR-51).
        sender_role: RelocationRole = "senderRole",
        /// The Actor.
        actor: ActorRef = "actor",
        /// The session owner.
        session_owner_node_rid: NodeRid = "sessionOwnerNodeRid",
        /// Its run.
        session_owner_node_generation: NodeGeneration = "sessionOwnerNodeGeneration",
        /// Its owner id.
        session_owner_id: OwnerId = "sessionOwnerId",
        /// Its lease.
        session_owner_lease_generation: OwnerLeaseGeneration = "sessionOwnerLeaseGeneration",
        /// The session.
        session_rid: SessionRid = "sessionRid",
        /// The binding.
        binding_generation: BindingGeneration = "bindingGeneration",
        /// Switch or release.
        route: SessionRouteUpdate = "route",
    }

    /// Tells a session owner that its binding was replaced by a newer one.
    51 "boundSessionReplaced" command BoundSessionReplaced frames [] {
        /// The Actor in its tenure.
        actor_authority: ActorRouteFence = "actorAuthority",
        /// The binding that is no longer in force.
        retired_session: RetiredBoundSessionRouteFence = "retiredSession",
    }
}
