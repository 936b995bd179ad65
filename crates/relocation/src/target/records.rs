//! The commands that a target sends.

use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::kind::{FailureCode, RelocationRole};
use spotlane_wire::Record;
use spotlane_wire::command::membership::ActorLeft;
use spotlane_wire::command::relocation::{RelocationFailed, RelocationPrepare, RelocationReady};
use spotlane_wire::command::session::SessionRelocationRoute;
use spotlane_wire::reference::SessionRouteUpdate;

use crate::saved::JoinData;
use crate::unit::Binding;

/// Command 30.
pub(super) fn ready(prepare: &RelocationPrepare) -> Box<Record> {
    Box::new(
        RelocationReady {
            relocation: prepare.relocation,
            target_attempt_generation: prepare.target_attempt_generation,
            coordinator: prepare.coordinator.clone(),
            target: prepare.target.clone(),
            object: prepare.object.clone(),
            sender_role: RelocationRole::Target,
        }
        .into(),
    )
}

/// Command 53, copied from the command 40 that it answers (WR-56).
pub(super) fn failed(prepare: &RelocationPrepare, failure_code: FailureCode) -> Box<Record> {
    Box::new(
        RelocationFailed {
            relocation: prepare.relocation,
            target_attempt_generation: prepare.target_attempt_generation,
            coordinator: prepare.coordinator.clone(),
            target: prepare.target.clone(),
            object: prepare.object.clone(),
            sender_role: RelocationRole::Target,
            failure_code,
        }
        .into(),
    )
}

/// Command 44 for a committed move (WR-53).
pub(super) fn route(
    prepare: &RelocationPrepare,
    binding: &Binding,
    tenure: AuthorityOwnerGeneration,
) -> Box<Record> {
    let owner = &binding.session_owner;
    let target = &prepare.target;
    Box::new(
        SessionRelocationRoute {
            relocation: prepare.relocation,
            coordinator: prepare.coordinator.clone(),
            sender_role: RelocationRole::Target,
            actor: binding.actor.actor.clone(),
            session_owner_node_rid: owner.node_rid.clone(),
            session_owner_node_generation: owner.node_generation,
            session_owner_id: owner.owner_id.clone(),
            session_owner_lease_generation: owner.owner_lease_generation,
            session_rid: binding.session_rid.clone(),
            binding_generation: binding.binding_generation,
            route: SessionRouteUpdate::Commit {
                previous_authority_owner_generation: binding
                    .actor
                    .expected_authority_owner_generation,
                target_authority_owner_generation: tenure,
                target_node_rid: target.target_node_rid.clone(),
                target_node_generation: target.target_node_generation,
                target_owner_lease_generation: target.target_owner_lease_generation,
            },
        }
        .into(),
    )
}

/// Command 29; `None` when the Actor was a member of nothing before.
pub(super) fn left(join: &JoinData, tenure: AuthorityOwnerGeneration) -> Option<Box<Record>> {
    let left = ActorLeft {
        actor: join.actor.clone(),
        previous_membership: join.previous.clone()?,
        current_authority_owner_generation: tenure,
    };
    Some(Box::new(left.into()))
}
