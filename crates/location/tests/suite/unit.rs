//! A Spot with members, and the steps of its move, for tests.

use spotlane_location::aggregate::HeldAggregate;
use spotlane_location::authority::{ActiveObject, Reservation};
use spotlane_location::member_list::MemberList;
use spotlane_location::record::{AggregateSide, AggregateSpot};
use spotlane_location::{LocationError, Monotonic};
use spotlane_store::BoxedStore;
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::ApplicationVersion;
use spotlane_types::generation::ObjectGeneration;
use spotlane_types::id::{RelocationId, RelocationReference, SpotId};
use spotlane_types::kind::{
    ActorAuthorityState, ActorSpotKind, AuthorityOperationKind, RelocationPhase,
    SourceCleanupState, SpotAuthorityState,
};
use spotlane_wire::authority::{
    ActorAuthorityIdentity, AuthorityObject, AuthorityPayload, AuthorityRelocationState,
    RecordedAggregateGeneration,
};
use spotlane_wire::reference::SpotRef;

use crate::host::Host;

pub(crate) const MEMBERS: [&str; 3] = ["ann", "bob", "cy"];

pub(crate) fn move_id() -> RelocationId {
    RelocationId::new(7, 9).unwrap()
}

pub(crate) fn actor(host: &Host, id: &str, state: ActorAuthorityState) -> AuthorityPayload {
    let mut payload = host.payload("room", SpotAuthorityState::Ready);
    payload.object = AuthorityObject::Actor {
        actor: ActorAuthorityIdentity {
            actor_type: "player".parse().unwrap(),
            actor_id: id.parse().unwrap(),
            state,
            current_spot: SpotRef {
                spot_id: SpotId::new("room").unwrap(),
                object_generation: ObjectGeneration::new(1).unwrap(),
            },
            current_spot_kind: ActorSpotKind::User,
        },
    };
    payload
}

pub(crate) fn steady(host: &Host, member: &ActiveObject) -> AuthorityPayload {
    match member.object() {
        AuthorityKey::Actor(id) => actor(host, id.as_str(), ActorAuthorityState::Ready),
        AuthorityKey::Spot(id) => host.payload(id.as_str(), SpotAuthorityState::Ready),
    }
}

pub(crate) fn pointing(host: &Host, member: &ActiveObject) -> AuthorityPayload {
    let mut payload = match member.object() {
        AuthorityKey::Actor(_) => steady(host, member),
        AuthorityKey::Spot(id) => host.payload(id.as_str(), SpotAuthorityState::Relocating),
    };
    payload.operation_kind = AuthorityOperationKind::MaintenanceRelocation;
    payload.relocation_state = Some(AuthorityRelocationState {
        relocation: move_id(),
        aggregate_generation: RecordedAggregateGeneration::NONE,
        target_attempt_generation: None,
        relocation_reference: RelocationReference::new(&format!("aggregate/{}", move_id()))
            .unwrap(),
        relocation_checksum_crc32c: 0,
        source_node_rid: payload.owner_node_rid.clone(),
        source_node_generation: payload.owner_node_generation,
        source_owner_id: payload.owner_id.clone(),
        source_owner_lease_generation: payload.owner_lease_generation,
        target_node_rid: None,
        target_node_generation: None,
        target_owner_id: None,
        target_owner_lease_generation: None,
        coordinator_owner_id: payload.owner_id.clone(),
        coordinator_lease_generation: payload.owner_lease_generation,
        coordinator_node_rid: payload.owner_node_rid.clone(),
        coordinator_node_generation: payload.owner_node_generation,
        phase: RelocationPhase::Preparing,
        application_version: ApplicationVersion::new(0).unwrap(),
        source_cleanup_state: SourceCleanupState::Pending,
    });
    payload
}

pub(crate) fn side(host: &Host) -> AggregateSide {
    AggregateSide {
        owner_id: host.held.lease().owner().clone(),
        owner_lease_generation: host.held.lease().generation(),
        node_rid: host.node.routing_id.clone(),
        node_generation: host.node.lifecycle_generation,
    }
}

pub(crate) fn room() -> AggregateSpot {
    AggregateSpot {
        id: SpotId::new("room").unwrap(),
        object_generation: ObjectGeneration::new(1).unwrap(),
    }
}

pub(crate) async fn create_actor(host: &Host, id: &str) -> ActiveObject {
    let creating = Reservation::new(actor(host, id, ActorAuthorityState::Creating), None);
    let (node, until) = (host.candidate().await, host.until());
    let repository = &host.repository;
    let reserved = repository
        .reserve(&host.held, &node, creating, until)
        .await
        .unwrap();
    let ready = actor(host, id, ActorAuthorityState::Ready);
    let commit = repository.commit(&host.held, &node, &reserved, &ready, None, until);
    commit.await.unwrap()
}

pub(crate) struct Unit {
    pub(crate) source: Host,
    pub(crate) members: Vec<ActiveObject>,
    pub(crate) list: MemberList,
    pub(crate) aggregate: HeldAggregate,
}

/// A Spot and its members, all of one host.
pub(crate) async fn create_unit(host: &Host, ids: &[&str]) -> Vec<ActiveObject> {
    let mut rows = vec![host.create("room").await];
    for id in ids {
        rows.push(create_actor(host, id).await);
    }
    rows
}

/// A Spot with three members, sealed and pointing at a prepared record.
pub(crate) async fn unit(store: &BoxedStore) -> Unit {
    let source = Host::start("a", store, store.clone()).await;
    let rows = create_unit(&source, &MEMBERS).await;
    let until = source.until();
    let members = point(&source, rows, until).await.unwrap();
    let list = MemberList::of_rows(&members).unwrap();
    let aggregate = prepare(&source, &list, until).await.unwrap();
    Unit {
        source,
        members,
        list,
        aggregate,
    }
}

type Rows = Result<Vec<ActiveObject>, LocationError>;

pub(crate) async fn point(source: &Host, rows: Vec<ActiveObject>, until: Monotonic) -> Rows {
    let payload_of = |row: &ActiveObject| pointing(source, row);
    source
        .repository
        .point_at_aggregate(&source.held, move_id(), rows, payload_of, until)
        .await
}

pub(crate) async fn prepare(
    source: &Host,
    list: &MemberList,
    until: Monotonic,
) -> Result<HeldAggregate, LocationError> {
    source
        .repository
        .prepare_aggregate(&source.held, move_id(), room(), side(source), list, until)
        .await
}

pub(crate) async fn settle(
    target: &Host,
    aggregate: &HeldAggregate,
    rows: Vec<ActiveObject>,
    until: Monotonic,
) -> Rows {
    let payload_of = |row: &ActiveObject| steady(target, row);
    target
        .repository
        .settle_rows(&target.held, aggregate, rows, payload_of, until)
        .await
}

pub(crate) async fn unpoint(source: &Host, rows: Vec<ActiveObject>, until: Monotonic) -> Rows {
    let payload_of = |row: &ActiveObject| steady(source, row);
    source
        .repository
        .unpoint_rows(&source.held, move_id(), rows, payload_of, until)
        .await
}
