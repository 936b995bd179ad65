//! The commands that a source sends.

use bytes::Bytes;
use spotlane_types::kind::RelocationRole;
use spotlane_wire::blob::DurableBlob;
use spotlane_wire::command::relocation::{
    RelocationCutover, RelocationData, RelocationFailed, RelocationPrepare, RelocationReady,
    RelocationState,
};
use spotlane_wire::command::session::{
    SessionRelocationRoute, SessionRelocationSeal, SessionRelocationSealed,
};
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::reference::SessionRouteUpdate;
use spotlane_wire::stream::EnvelopeSummary;
use spotlane_wire::{FrameBuffer, Record};

use super::effect::SourceEffect;
use crate::boundary::Boundary;
use crate::identity::OfMove;
use crate::unit::{Binding, MovePlan};

/// What the transport charges for each frame besides its body (TR-50).
const FRAME_CHARGE: u64 = 64;

/// Command 40.
pub(super) fn prepare(plan: &MovePlan, summary: EnvelopeSummary) -> Record {
    let identity = plan.identity.clone();
    RelocationPrepare {
        relocation: identity.relocation,
        target_attempt_generation: identity.attempt,
        coordinator: identity.coordinator,
        target: plan.target.clone(),
        initiator_role: RelocationRole::Source,
        object: plan.object.clone(),
        source_node_rid: plan.source.node_rid.clone(),
        source_node_generation: plan.source.node_generation,
        payload_total_length: summary.total_length,
        payload_chunk_count: summary.chunk_count,
        payload_checksum_crc32c: summary.checksum_crc32c,
        application_version: plan.application_version,
    }
    .into()
}

/// Command 52; `None` when the chunk is larger than any chunk may be, which no payload makes.
pub(super) fn chunk(plan: &MovePlan, ordinal: u32, bytes: Bytes) -> Option<Record> {
    let identity = plan.identity.clone();
    let command = RelocationState {
        relocation: identity.relocation,
        target_attempt_generation: identity.attempt,
        coordinator: identity.coordinator,
        sender_role: RelocationRole::Source,
        object: plan.object.clone(),
        chunk_ordinal: ordinal,
        chunk_data: DurableBlob::new(bytes).ok()?,
    };
    Some(command.into())
}

/// Command 31.
pub(super) fn relay(plan: &MovePlan, record: FrozenRecord) -> Record {
    let identity = plan.identity.clone();
    RelocationData {
        relocation: identity.relocation,
        target_attempt_generation: identity.attempt,
        coordinator: identity.coordinator,
        sender_role: RelocationRole::Source,
        object: plan.object.clone(),
        record: Box::new(record),
    }
    .into()
}

/// Command 34.
pub(super) fn cutover(plan: &MovePlan, boundary: &Boundary) -> Record {
    let identity = plan.identity.clone();
    RelocationCutover {
        relocation: identity.relocation,
        target_attempt_generation: identity.attempt,
        coordinator: identity.coordinator,
        sender_role: RelocationRole::Source,
        object: plan.object.clone(),
        boundary_record_count: boundary.count(),
        boundary_checksum_crc32c: boundary.checksum(),
    }
    .into()
}

/// Command 42 for one binding.
pub(super) fn seal(plan: &MovePlan, binding: &Binding) -> SourceEffect {
    let owner = binding.session_owner.clone();
    SourceEffect::SendToSession {
        node_rid: owner.node_rid.clone(),
        node_generation: owner.node_generation,
        record: Box::new(
            SessionRelocationSeal {
                relocation: plan.identity.relocation,
                coordinator: plan.identity.coordinator.clone(),
                sender_role: RelocationRole::Source,
                actor: binding.actor.clone(),
                session_owner_node_rid: owner.node_rid,
                session_owner_node_generation: owner.node_generation,
                session_owner_id: owner.owner_id,
                session_owner_lease_generation: owner.owner_lease_generation,
                session_rid: binding.session_rid.clone(),
                binding_generation: binding.binding_generation,
            }
            .into(),
        ),
    }
}

/// Command 44, which gives a seal back.
pub(super) fn abort(plan: &MovePlan, binding: &Binding) -> SourceEffect {
    let owner = binding.session_owner.clone();
    SourceEffect::SendToSession {
        node_rid: owner.node_rid.clone(),
        node_generation: owner.node_generation,
        record: Box::new(
            SessionRelocationRoute {
                relocation: plan.identity.relocation,
                coordinator: plan.identity.coordinator.clone(),
                sender_role: RelocationRole::Source,
                actor: binding.actor.actor.clone(),
                session_owner_node_rid: owner.node_rid,
                session_owner_node_generation: owner.node_generation,
                session_owner_id: owner.owner_id,
                session_owner_lease_generation: owner.owner_lease_generation,
                session_rid: binding.session_rid.clone(),
                binding_generation: binding.binding_generation,
                route: SessionRouteUpdate::Abort {
                    current_authority_owner_generation: binding
                        .actor
                        .expected_authority_owner_generation,
                },
            }
            .into(),
        ),
    }
}

/// Whether a 43 answers the 42 of this binding.
pub(super) fn answers(
    plan: &MovePlan,
    binding: &Binding,
    sealed: &SessionRelocationSealed,
) -> bool {
    let owner = &binding.session_owner;
    sealed.relocation == plan.identity.relocation
        && sealed.coordinator == plan.identity.coordinator
        && sealed.actor == binding.actor
        && sealed.session_owner_node_rid == owner.node_rid
        && sealed.session_owner_node_generation == owner.node_generation
        && sealed.session_owner_id == owner.owner_id
        && sealed.session_owner_lease_generation == owner.owner_lease_generation
        && sealed.session_rid == binding.session_rid
        && sealed.binding_generation == binding.binding_generation
}

/// How a reply of a target relates to a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It answers the 40 of this move (RL-352).
    Ours,
    /// It belongs to another move or to none.
    Foreign,
    /// It names a sender that may not send it (WR-51).
    WrongRole,
}

fn reply(plan: &MovePlan, command: &impl OfMove, same_target: bool) -> Reply {
    if command.role() != RelocationRole::Target {
        return Reply::WrongRole;
    }
    let ours = command.identity() == plan.identity && *command.object() == plan.object;
    if ours && same_target {
        Reply::Ours
    } else {
        Reply::Foreign
    }
}

/// Judges a command 30.
pub(super) fn ready_reply(plan: &MovePlan, ready: &RelocationReady) -> Reply {
    reply(plan, ready, ready.target == plan.target)
}

/// Judges a command 53.
pub(super) fn failed_reply(plan: &MovePlan, failed: &RelocationFailed) -> Reply {
    reply(plan, failed, failed.target == plan.target)
}

/// What the transport will charge for a record.
pub(super) fn charge_of(record: &Record) -> u64 {
    let mut frames = FrameBuffer::default();
    if record.encode(&mut frames).is_err() {
        return 0;
    }
    frames.frames().fold(0, |sum: u64, frame| {
        let body = u64::try_from(frame.bytes()).unwrap_or(u64::MAX);
        sum.saturating_add(body).saturating_add(FRAME_CHARGE)
    })
}
