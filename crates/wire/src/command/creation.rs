//! Creation and close of objects: commands 47 to 49.

use spotlane_types::count::Correlation;
use spotlane_types::generation::NodeGeneration;
use spotlane_types::id::{ActorId, NodeRid, OperationId, SpotId, StableType};
use spotlane_types::time::DeadlineUnixMillis;

use super::wire_command;
use crate::creation::ObjectReservationFence;
use crate::reference::UserSpotCloseFence;

wire_command! {
    /// Creates a User Spot on the node that was chosen for it.
    47 "userSpotCreate" command UserSpotCreate frames [] {
        /// What the reply repeats.
        correlation: Correlation = "correlation",
        /// What deduplicates it.
        operation: OperationId = "operation",
        /// The node that asks.
        source_node_rid: NodeRid = "sourceNodeRid",
        /// Its run.
        source_node_generation: NodeGeneration = "sourceNodeGeneration",
        /// The Spot.
        spot_id: SpotId = "spotId",
        /// Its type.
        stable_type: StableType = "stableType",
        /// Its reservation.
        reservation: ObjectReservationFence = "reservation",
        /// When the creation is given up.
        deadline_unix_ms: DeadlineUnixMillis = "deadlineUnixMs",
    }

    /// Closes a User Spot.
    48 "userSpotClose" command UserSpotClose frames [] {
        /// What the reply repeats.
        correlation: Correlation = "correlation",
        /// What deduplicates it.
        operation: OperationId = "operation",
        /// The node that asks.
        source_node_rid: NodeRid = "sourceNodeRid",
        /// Its run.
        source_node_generation: NodeGeneration = "sourceNodeGeneration",
        /// The Spot in its tenure and row version.
        target: UserSpotCloseFence = "target",
        /// When the close is given up.
        deadline_unix_ms: DeadlineUnixMillis = "deadlineUnixMs",
    }

    /// Creates an Actor on the node that was chosen for it.
    49 "actorCreate" command ActorCreate frames [] {
        /// What the reply repeats.
        correlation: Correlation = "correlation",
        /// What deduplicates it.
        operation: OperationId = "operation",
        /// The node that asks.
        source_node_rid: NodeRid = "sourceNodeRid",
        /// Its run.
        source_node_generation: NodeGeneration = "sourceNodeGeneration",
        /// The Actor.
        actor_id: ActorId = "actorId",
        /// Its type.
        stable_type: StableType = "stableType",
        /// Its reservation.
        reservation: ObjectReservationFence = "reservation",
        /// When the creation is given up.
        deadline_unix_ms: DeadlineUnixMillis = "deadlineUnixMs",
    }
}
