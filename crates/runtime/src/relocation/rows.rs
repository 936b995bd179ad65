//! Authority rows as the machines see them, and the row that a commit writes (RL-13, RL-24, RL-365).

use spotlane_location::LocationError;
use spotlane_location::authority::{ActiveObject, Authority, PreparedTarget};
use spotlane_relocation::identity::{AuthorityView, OwnerView, ProgressView, RowRead};
use spotlane_relocation::target::{CommitAnswer, CommitOrder};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::generation::AggregateGeneration;
use spotlane_types::id::{RelocationReference, StoreVersion};
use spotlane_types::kind::{AuthorityOperationKind, RelocationPhase, SourceCleanupState};
use spotlane_wire::authority::{
    AuthorityObject, AuthorityPayload, AuthorityRelocationState, RecordedAggregateGeneration,
};

use crate::clock::Deadline;
use crate::core::Core;
use crate::error::Error;

/// Reads the row of an object; the row itself comes along for whoever changes it.
pub(super) async fn read(
    core: &Core,
    key: &AuthorityKey,
    deadline: &Deadline,
) -> (RowRead, Option<Box<ActiveObject>>) {
    match core.repository.read(key, deadline.location()).await {
        Ok(Authority::Active(active)) => match view(&active) {
            Some(view) => (RowRead::Row(Box::new(view)), Some(Box::new(active))),
            None => (RowRead::Unreadable, None),
        },
        // A reserved row is another incarnation in creation: this one is gone.
        Ok(Authority::Missing | Authority::Reserved(_)) => (RowRead::Absent, None),
        Err(error) => {
            tracing::debug!(target: "spotlane::runtime::relocation", %error, "a row was not read");
            (RowRead::Unreadable, None)
        }
    }
}

pub(super) fn view(active: &ActiveObject) -> Option<AuthorityView> {
    let row = active.row();
    let progress = active.payload().relocation_state.as_ref();
    Some(AuthorityView {
        object_generation: row.object_generation,
        authority_owner_generation: row.authority_owner_generation,
        owner: OwnerView {
            owner_id: row.owner_id.clone(),
            owner_lease_generation: row.owner_lease_generation,
            node_rid: row.allocation.descriptor.routing_id.clone(),
            node_generation: row.allocation.descriptor_lifecycle_generation,
        },
        store_version: version(active)?,
        progress: progress.map(|state| ProgressView {
            relocation: state.relocation,
            phase: state.phase,
        }),
    })
}

/// The version of a row as it travels.
pub(super) fn version(active: &ActiveObject) -> Option<StoreVersion> {
    StoreVersion::new(active.version().as_str()).ok()
}

/// The one compare-and-set of a move: this node becomes the owner, and the Actor a member of its Entry Spot (RL-124).
pub(super) async fn commit(
    core: &Core,
    order: &CommitOrder,
    active: &ActiveObject,
    deadline: &Deadline,
) -> (CommitAnswer, Option<Box<ActiveObject>>) {
    let Ok(held) = core.held() else {
        return (CommitAnswer::NotTried, None);
    };
    let prepared = committed_payload(core, order, active, &held)
        .and_then(|payload| Ok(PreparedTarget::new(held, payload)?));
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            tracing::error!(target: "spotlane::runtime::relocation", %error, "a commit was not built");
            return (CommitAnswer::NotApplied, None);
        }
    };
    match core
        .repository
        .new_owner(&prepared, active, deadline.location())
        .await
    {
        Ok(row) => {
            let applied = CommitAnswer::Applied {
                authority_owner_generation: row.row().authority_owner_generation,
            };
            (applied, Some(Box::new(row)))
        }
        Err(LocationError::Conflict { .. }) => (CommitAnswer::NotApplied, None),
        Err(LocationError::Stale { .. }) => (CommitAnswer::NotTried, None),
        Err(error) => {
            tracing::debug!(target: "spotlane::runtime::relocation", %error, "a commit is not settled");
            (CommitAnswer::Unknown, None)
        }
    }
}

fn committed_payload(
    core: &Core,
    order: &CommitOrder,
    active: &ActiveObject,
    held: &spotlane_location::lease::HeldLease,
) -> Result<AuthorityPayload, Error> {
    let mut payload = active.payload().clone();
    let (identity, target) = (order.identity(), order.target());
    let source = &identity.coordinator;
    if let AuthorityObject::Actor { actor } = &mut payload.object {
        // RL-124: owner and membership change together.
        actor.current_spot = core.identity.entry_spot.clone();
    }
    payload.operation_kind = AuthorityOperationKind::MaintenanceRelocation;
    payload.owner_id = held.lease().owner().clone();
    payload.owner_lease_generation = held.lease().generation();
    payload.owner_mesh_name = core.identity.mesh.clone();
    payload.owner_node_rid = core.identity.rid.clone();
    payload.owner_node_generation = core.identity.generation;
    let generation = RecordedAggregateGeneration::new(AggregateGeneration::MIN)
        .map_err(|_| Error::internal("the first aggregate generation is legal"))?;
    payload.relocation_state = Some(AuthorityRelocationState {
        relocation: identity.relocation,
        aggregate_generation: generation,
        target_attempt_generation: Some(identity.attempt),
        // WR-63
        relocation_reference: RelocationReference::new(&format!(
            "relocation/{}",
            identity.relocation
        ))?,
        relocation_checksum_crc32c: 0,
        source_node_rid: source.coordinator_node_rid.clone(),
        source_node_generation: source.coordinator_node_generation,
        source_owner_id: source.coordinator_owner_id.clone(),
        source_owner_lease_generation: source.coordinator_lease_generation,
        target_node_rid: Some(target.target_node_rid.clone()),
        target_node_generation: Some(target.target_node_generation),
        target_owner_id: Some(target.target_owner_id.clone()),
        target_owner_lease_generation: Some(target.target_owner_lease_generation),
        coordinator_owner_id: source.coordinator_owner_id.clone(),
        coordinator_lease_generation: source.coordinator_lease_generation,
        coordinator_node_rid: source.coordinator_node_rid.clone(),
        coordinator_node_generation: source.coordinator_node_generation,
        phase: RelocationPhase::Committed,
        application_version: core.settings.all.application_version,
        source_cleanup_state: SourceCleanupState::Pending,
    });
    Ok(payload)
}

/// The same row one phase on; with `completed` the relocation state leaves it (RL-365).
pub(super) fn at_phase(payload: &AuthorityPayload, phase: RelocationPhase) -> AuthorityPayload {
    let mut payload = payload.clone();
    if phase == RelocationPhase::Completed {
        payload.operation_kind = AuthorityOperationKind::Steady;
        payload.relocation_state = None;
    } else if let Some(state) = &mut payload.relocation_state {
        state.phase = phase;
    }
    payload
}
