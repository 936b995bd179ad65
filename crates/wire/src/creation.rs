//! Creation of objects: intents, reservations, results.

use spotlane_types::bound::{CREATION_INTENT_BYTES, CREATION_TERMINAL_ENVELOPE_BYTES};
use spotlane_types::count::{CreationRequestSize, PendingCapacityDelta};
use spotlane_types::generation::{
    AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
};
use spotlane_types::id::{
    ActorId, CreationContentReference, MeshName, NodeRid, OwnerId, ReservationId, Sha256, SpotId,
    StableType, StoreVersion,
};
use spotlane_types::kind::{
    ActorCreateResult, FailureCode, ReservationOperationKind, StatefulObjectKind, TerminalResult,
};

use crate::blob::DurableBlob;
use crate::error::Breach;
use crate::layout::{wire_envelope, wire_struct, wire_union};
use crate::payload::ApplicationPayload;
use crate::reference::ActorRef;
use crate::terminal::{check_payload, check_terminal};

wire_union! {
    /// The answer to the creation of an Actor.
    "actor-create-terminal" enum ActorCreateTerminal on "createResult" ActorCreateResult len u16 {
        /// It was there already.
        Existing {
            /// The Actor.
            actor: ActorRef = "actor",
        }
        /// It was created.
        Created {
            /// The Actor.
            actor: ActorRef = "actor",
        }
        /// The application refused it.
        Rejected {}
    }

    /// The address of an object that is being created.
    "object-creation-key" enum ObjectCreationKey on "objectKind" StatefulObjectKind len u16 {
        /// An Actor.
        Actor {
            /// Its address.
            actor_id: ActorId = "actorId",
        }
        /// A User Spot.
        UserSpot {
            /// Its address.
            spot_id: SpotId = "spotId",
        }
        /// An Instance Spot.
        InstanceSpot {
            /// Its address.
            spot_id: SpotId = "spotId",
        }
    }

    /// One step of the reservation of an object.
    "generic-object-reservation-v1" enum ObjectReservation
        on "operationKind" ReservationOperationKind len u32
    {
        /// Takes address, generations and capacity.
        Reserve {
            /// What is to be created.
            intent: ObjectCreationIntent = "intent",
            /// Where.
            target: ObjectCreationTarget = "target",
            /// The payload of the row while the object is being created.
            creating_payload: DurableBlob = "creatingPayload",
            /// The capacity that is taken.
            pending_capacity_delta: PendingCapacityDelta = "pendingCapacityDelta",
        }
        /// Makes the object active.
        Commit {
            /// The object.
            key: ObjectCreationKey = "key",
            /// The reservation.
            fence: ObjectReservationFence = "fence",
        }
        /// Gives everything back.
        Abort {
            /// The object.
            key: ObjectCreationKey = "key",
            /// The reservation.
            fence: ObjectReservationFence = "fence",
        }
    }
}

fn creation_terminal_shape(terminal: &CreationOperationTerminal) -> Result<(), Breach> {
    check_terminal(terminal.terminal_result, terminal.failure_code)?;
    let ok = terminal.terminal_result == TerminalResult::Ok;
    check_payload(
        terminal.terminal_result,
        terminal.application_payload.is_some(),
        "hasApplicationPayload",
    )?;
    if terminal.creation.is_some() != ok {
        return Err(Breach::new(
            "hasCreation",
            "a creation goes with the result ok and no other",
        ));
    }
    Ok(())
}

wire_envelope! {
    /// The stored end of a creation, which answers a repeated request.
    "creation-operation-terminal-v1" envelope CreationOperationTerminal
        len u32 max CREATION_TERMINAL_ENVELOPE_BYTES, rule creation_terminal_shape
    {
        /// How it ended.
        terminal_result: TerminalResult = "terminalResult",
        /// Why it failed.
        failure_code: FailureCode = "failureCode",
        /// What was created; exactly with `ok`.
        creation: Option<ActorCreateTerminal> = (flag "hasCreation" "creation"),
        /// The answer of the application; only with `ok`.
        application_payload: Option<ApplicationPayload> =
            (flag "hasApplicationPayload" "applicationPayload"),
    }

    /// What is to be created.
    "object-creation-intent-v1" envelope ObjectCreationIntent
        len u32 max CREATION_INTENT_BYTES,
    {
        /// The address.
        key: ObjectCreationKey = "key",
        /// The type.
        stable_type: StableType = "stableType",
        /// The mesh in which the object starts.
        initial_mesh_name: MeshName = "initialMeshName",
        /// Where the request of the application is stored.
        request_content_reference: CreationContentReference = "requestContentReference",
        /// The digest of that request.
        request_sha256: Sha256 = "requestSha256",
        /// Its size in bytes.
        request_encoded_size: CreationRequestSize = "requestEncodedSize",
    }
}

wire_struct! {
    /// A creation that is under way.
    "pending-object-creation-v1" struct PendingObjectCreation {
        /// The reservation.
        reservation_id: ReservationId = "reservationId",
        /// Where the request of the application is stored.
        request_content_reference: CreationContentReference = "requestContentReference",
        /// The digest of that request.
        request_sha256: Sha256 = "requestSha256",
        /// Its size in bytes.
        request_encoded_size: CreationRequestSize = "requestEncodedSize",
    }

    /// Where an object is created.
    "object-creation-target-v1" struct ObjectCreationTarget {
        /// The mesh of the node.
        mesh_name: MeshName = "meshName",
        /// The node.
        node_rid: NodeRid = "nodeRid",
        /// The run of the node.
        node_lifecycle_generation: NodeGeneration = "nodeLifecycleGeneration",
        /// The owner id of its host.
        owner_id: OwnerId = "ownerId",
        /// The lease of its host.
        owner_lease_generation: OwnerLeaseGeneration = "ownerLeaseGeneration",
    }

    /// Ties a step of a creation to one reservation.
    "object-reservation-fence" struct ObjectReservationFence {
        /// The reservation.
        reservation_id: ReservationId = "reservationId",
        /// The version of the authority row.
        expected_store_version: StoreVersion = "expectedStoreVersion",
        /// The incarnation that was issued.
        object_generation: ObjectGeneration = "objectGeneration",
        /// The owner generation that was issued.
        authority_owner_generation: AuthorityOwnerGeneration = "authorityOwnerGeneration",
        /// The node that creates the object.
        target_node_rid: NodeRid = "targetNodeRid",
        /// The run of that node.
        target_node_generation: NodeGeneration = "targetNodeGeneration",
        /// The owner id of its host.
        target_owner_id: OwnerId = "targetOwnerId",
        /// The lease of its host.
        target_owner_lease_generation: OwnerLeaseGeneration = "targetOwnerLeaseGeneration",
        /// The capacity that was taken.
        pending_capacity_delta: PendingCapacityDelta = "pendingCapacityDelta",
    }
}
