//! Actors and their Spots: commands 26 to 29 and 37.

use spotlane_types::count::Correlation;
use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::id::ActorId;

use super::wire_command;
use crate::reference::{ActorRef, ActorRouteFence, SpotMembership, SpotRouteFence};

wire_command! {
    /// Asks where an Actor is. Answered, never sent: look-up reads the store (WR-58).
    26 "actorLookup" command ActorLookup frames [] {
        /// What the reply repeats.
        correlation: Correlation = "correlation",
        /// The Actor.
        actor_id: ActorId = "actorId",
    }

    /// Destroys an Actor (WR-58).
    27 "actorDestroy" command ActorDestroy frames [] {
        /// What the reply repeats.
        correlation: Correlation = "correlation",
        /// The Actor in its tenure.
        actor: ActorRouteFence = "actor",
    }

    /// Asks a Spot to take an Actor as member.
    28 "actorJoin" command ActorJoin frames [payload ?] {
        /// What the reply repeats.
        correlation: Correlation = "correlation",
        /// The Actor in its tenure.
        actor: ActorRouteFence = "actor",
        /// Whether the Spot is an Entry Spot (WR-58).
        entry: bool = "entry",
        /// The Spot in its tenure.
        target_spot: SpotRouteFence = "targetSpot",
    }

    /// Tells the former owner that an Actor has left. One-way, best effort (WR-58).
    29 "actorLeft" command ActorLeft frames [] {
        /// The Actor.
        actor: ActorRef = "actor",
        /// The membership before.
        previous_membership: SpotMembership = "previousMembership",
        /// The owner generation now.
        current_authority_owner_generation: AuthorityOwnerGeneration =
            "currentAuthorityOwnerGeneration",
    }

    /// Tells that an Actor has joined. Never sent and without effect when received (WR-58).
    37 "actorJoined" command ActorJoined frames [] {
        /// The Actor.
        actor: ActorRef = "actor",
        /// The membership before, if there was one.
        previous_membership: Option<SpotMembership> = "previousMembership",
        /// The membership now.
        current_membership: SpotMembership = "currentMembership",
        /// The owner generation now.
        current_authority_owner_generation: AuthorityOwnerGeneration =
            "currentAuthorityOwnerGeneration",
    }
}
