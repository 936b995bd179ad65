//! Authority rows: as machines see them, and as owners write them.

use anyhow::{Context as _, Result};
use spotlane_location::LocationError;
use spotlane_location::authority::{ActiveObject, Authority};
use spotlane_location::lease::LiveLease;
use spotlane_relocation::identity::{
    AuthorityView, OwnerView, ProgressView, RelocationIdentity, RowRead,
};
use spotlane_types::count::ApplicationVersion;
use spotlane_types::generation::AggregateGeneration;
use spotlane_types::id::{RelocationReference, StoreVersion};
use spotlane_types::kind::{
    ActorAuthorityState, ActorSpotKind, AuthorityOperationKind, RelocationPhase, SourceCleanupState,
};
use spotlane_wire::authority::{
    ActorAuthorityIdentity, AuthorityObject, AuthorityPayload, AuthorityRelocationState,
    RecordedAggregateGeneration,
};
use spotlane_wire::reference::RelocationTargetFence;

use crate::cast::Cast;
use crate::network::HostIndex;
use crate::observation::ActorIndex;

/// The version of the application's state in every world.
pub(crate) fn application_version() -> Result<ApplicationVersion> {
    Ok(ApplicationVersion::new(1)?)
}

/// What a read means for a machine.
pub(super) fn row_read(found: Result<Authority, LocationError>) -> RowRead {
    match found {
        Ok(Authority::Active(active)) => {
            view(&active).map_or(RowRead::Unreadable, |view| RowRead::Row(Box::new(view)))
        }
        Ok(Authority::Missing) => RowRead::Absent,
        Ok(Authority::Reserved(_)) | Err(_) => RowRead::Unreadable,
    }
}

/// A row as machines see it.
pub(super) fn view(active: &ActiveObject) -> Result<AuthorityView> {
    let row = active.row();
    let payload = active.payload();
    Ok(AuthorityView {
        object_generation: row.object_generation,
        authority_owner_generation: row.authority_owner_generation,
        owner: OwnerView {
            owner_id: row.owner_id.clone(),
            owner_lease_generation: row.owner_lease_generation,
            node_rid: payload.owner_node_rid.clone(),
            node_generation: payload.owner_node_generation,
        },
        store_version: store_version(active)?,
        progress: payload.relocation_state.as_ref().map(|state| ProgressView {
            relocation: state.relocation,
            phase: state.phase,
        }),
    })
}

/// The version of a row as the wire carries it.
pub(super) fn store_version(active: &ActiveObject) -> Result<StoreVersion> {
    Ok(StoreVersion::new(active.version().as_str())?)
}

/// What a row says of an Actor that is owned by a host and in the middle of nothing.
pub(crate) fn steady(
    cast: &Cast,
    owner: HostIndex,
    lease: &LiveLease,
    actor: ActorIndex,
    state: ActorAuthorityState,
) -> Result<AuthorityPayload> {
    Ok(AuthorityPayload {
        operation_kind: AuthorityOperationKind::Steady,
        object: AuthorityObject::Actor {
            actor: ActorAuthorityIdentity {
                actor_type: cast.actor_type.clone(),
                actor_id: cast.actor(actor)?.clone(),
                state,
                current_spot: cast.entry(owner)?,
                current_spot_kind: ActorSpotKind::Entry,
            },
        },
        owner_id: lease.owner().clone(),
        owner_lease_generation: lease.generation(),
        owner_mesh_name: cast.mesh.clone(),
        owner_node_rid: cast.node(owner)?.clone(),
        owner_node_generation: cast.run,
        relocation_state: None,
        activation_recovery_state: None,
    })
}

/// What a row says of an Actor that a target has taken over.
pub(super) fn moved(
    steady: AuthorityPayload,
    identity: &RelocationIdentity,
    target: &RelocationTargetFence,
    phase: RelocationPhase,
) -> Result<AuthorityPayload> {
    let coordinator = &identity.coordinator;
    let aggregate = RecordedAggregateGeneration::new(AggregateGeneration::new(1)?);
    let aggregate_generation = aggregate.ok().context("an issued aggregate generation")?;
    let reference = format!("completion/{}", identity.relocation);
    let state = AuthorityRelocationState {
        relocation: identity.relocation,
        aggregate_generation,
        target_attempt_generation: Some(identity.attempt),
        relocation_reference: RelocationReference::new(&reference)?,
        relocation_checksum_crc32c: 0,
        source_node_rid: coordinator.coordinator_node_rid.clone(),
        source_node_generation: coordinator.coordinator_node_generation,
        source_owner_id: coordinator.coordinator_owner_id.clone(),
        source_owner_lease_generation: coordinator.coordinator_lease_generation,
        target_node_rid: Some(target.target_node_rid.clone()),
        target_node_generation: Some(target.target_node_generation),
        target_owner_id: Some(target.target_owner_id.clone()),
        target_owner_lease_generation: Some(target.target_owner_lease_generation),
        coordinator_owner_id: coordinator.coordinator_owner_id.clone(),
        coordinator_lease_generation: coordinator.coordinator_lease_generation,
        coordinator_node_rid: coordinator.coordinator_node_rid.clone(),
        coordinator_node_generation: coordinator.coordinator_node_generation,
        phase,
        application_version: application_version()?,
        source_cleanup_state: SourceCleanupState::Pending,
    };
    Ok(AuthorityPayload {
        operation_kind: AuthorityOperationKind::MaintenanceRelocation,
        relocation_state: Some(state),
        ..steady
    })
}
