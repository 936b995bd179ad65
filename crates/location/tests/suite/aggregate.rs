//! The owner change of a whole unit (ST-83 to ST-89, RL-15, RL-122).

use spotlane_location::aggregate::HeldAggregate;
use spotlane_location::authority::{ActiveObject, Reservation};
use spotlane_location::member_list::MemberList;
use spotlane_location::record::{AggregatePhase, AggregateSide, AggregateSpot, PageEntry};
use spotlane_location::{Conflict, LocationError, Resolved, key};
use spotlane_store::{BoxedStore, Mutation, Recovery, StoreProvider, StoreVersion, WriteRequest};
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

use crate::host::{Host, memory, spot};

const MEMBERS: [&str; 3] = ["ann", "bob", "cy"];

fn move_id() -> RelocationId {
    RelocationId::new(7, 9).unwrap()
}

fn actor(host: &Host, id: &str, state: ActorAuthorityState) -> AuthorityPayload {
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

fn steady(host: &Host, member: &ActiveObject) -> AuthorityPayload {
    match member.object() {
        AuthorityKey::Actor(id) => actor(host, id.as_str(), ActorAuthorityState::Ready),
        AuthorityKey::Spot(id) => host.payload(id.as_str(), SpotAuthorityState::Ready),
    }
}

fn pointing(host: &Host, member: &ActiveObject) -> AuthorityPayload {
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

fn side(host: &Host) -> AggregateSide {
    AggregateSide {
        owner_id: host.held.lease().owner().clone(),
        owner_lease_generation: host.held.lease().generation(),
        node_rid: host.node.routing_id.clone(),
        node_generation: host.node.lifecycle_generation,
    }
}

fn room() -> AggregateSpot {
    AggregateSpot {
        id: SpotId::new("room").unwrap(),
        object_generation: ObjectGeneration::new(1).unwrap(),
    }
}

async fn create_actor(host: &Host, id: &str) -> ActiveObject {
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

struct Unit {
    source: Host,
    members: Vec<ActiveObject>,
    list: MemberList,
    aggregate: HeldAggregate,
}

/// A Spot with three members, sealed and pointing at a prepared record.
async fn unit(store: &BoxedStore) -> Unit {
    let source = Host::start("a", store, store.clone()).await;
    let mut members = vec![source.create("room").await];
    for id in MEMBERS {
        members.push(create_actor(&source, id).await);
    }
    let point = |row: &ActiveObject| pointing(&source, row);
    let pointed = source
        .repository
        .point_at_aggregate(&source.held, move_id(), members, point, source.until())
        .await
        .unwrap();
    let list = MemberList::of_rows(&pointed).unwrap();
    let aggregate = source
        .repository
        .prepare_aggregate(
            &source.held,
            move_id(),
            room(),
            side(&source),
            &list,
            source.until(),
        )
        .await
        .unwrap();
    Unit {
        source,
        members: pointed,
        list,
        aggregate,
    }
}

async fn settle(
    target: &Host,
    aggregate: &HeldAggregate,
    rows: Vec<ActiveObject>,
) -> Result<Vec<ActiveObject>, LocationError> {
    let payload_of = |row: &ActiveObject| steady(target, row);
    target
        .repository
        .settle_rows(&target.held, aggregate, rows, payload_of, target.until())
        .await
}

async fn unpoint(
    source: &Host,
    rows: Vec<ActiveObject>,
) -> Result<Vec<ActiveObject>, LocationError> {
    let payload_of = |row: &ActiveObject| steady(source, row);
    source
        .repository
        .unpoint_rows(&source.held, move_id(), rows, payload_of, source.until())
        .await
}

async fn owners(reader: &Host, unit: &Unit) -> Vec<Option<String>> {
    let mut owners = Vec::new();
    for member in &unit.members {
        let found = reader
            .repository
            .find(member.object(), reader.until())
            .await
            .unwrap();
        owners.push(match found {
            Resolved::Ready(route) => Some(route.owner_id.to_string()),
            Resolved::NotReady => None,
            Resolved::Missing => panic!("a member is missing"),
        });
    }
    owners
}

fn all(owner: Option<&str>) -> Vec<Option<String>> {
    vec![owner.map(str::to_owned); MEMBERS.len() + 1]
}

fn conflict<T: std::fmt::Debug>(outcome: Result<T, LocationError>) -> Conflict {
    match outcome {
        Err(LocationError::Conflict { reason }) => reason,
        other => panic!("expected a conflict, found {other:?}"),
    }
}

/// ST-83 to ST-88: the whole way, with one generation for all, and every look-up agreeing at every point.
#[tokio::test]
async fn a_unit_changes_its_owner_by_one_change_of_one_record() {
    let (store, _) = memory();
    let unit = unit(&store).await;
    let b = Host::start("b", &store, store.clone()).await;
    let until = b.until();
    assert_eq!(owners(&b, &unit).await, all(Some("a")));
    let verify = b.repository.verify_aggregate(move_id(), until);
    let verified = verify.await.unwrap();
    assert_eq!(*verified.list(), unit.list);
    let commit = b
        .repository
        .commit_aggregate(&b.held, &verified, side(&b), until);
    let committed = commit.await.unwrap();
    let generation = committed.record().authority_owner_generation.unwrap();
    assert!(
        unit.members
            .iter()
            .all(|member| generation.is_after(member.row().authority_owner_generation))
    );
    assert_eq!(owners(&b, &unit).await, all(None));
    let activated = b
        .repository
        .activate_aggregate(&b.held, &committed, until)
        .await
        .unwrap();
    assert_eq!(owners(&b, &unit).await, all(Some("b")));
    let early = b
        .repository
        .finish_aggregate(&b.held, activated.clone(), &unit.list, until)
        .await;
    assert_eq!(conflict(early), Conflict::InAggregate);
    let members = verified.into_parts().1;
    let settled = settle(&b, &activated, members.clone()).await.unwrap();
    for (settled, member) in settled.iter().zip(&members) {
        assert_eq!(settled.object(), member.object());
        assert_eq!(settled.row().authority_owner_generation, generation);
        assert_eq!(
            settled.row().object_generation,
            member.row().object_generation
        );
        assert_eq!(settled.aggregate(), None);
    }
    b.repository
        .finish_aggregate(&b.held, activated, &unit.list, until)
        .await
        .unwrap();
    assert_eq!(owners(&b, &unit).await, all(Some("b")));
    let rows = crate::host::everything(&store).await;
    assert!(
        !rows
            .iter()
            .any(|row| row.key.as_str().starts_with("aggregate"))
    );
}

/// ST-85: while a row points at the record, nothing else changes it.
#[tokio::test]
async fn a_row_of_a_moving_unit_is_changed_by_the_move_alone() {
    let (store, _) = memory();
    let Unit {
        source, members, ..
    } = unit(&store).await;
    let b = Host::start("b", &store, store.clone()).await;
    let until = source.until();
    let payload = source.payload("room", SpotAuthorityState::Ready);
    let (repository, held) = (&source.repository, &source.held);
    let room = &members[0];
    let outcomes = [
        conflict(repository.preserve(held, room, &payload, until).await),
        conflict(repository.delete(held, room, until).await),
        conflict(
            b.repository
                .new_owner(&b.prepared("room"), room, b.until())
                .await,
        ),
        conflict(
            repository
                .point_at_aggregate(
                    held,
                    RelocationId::new(8, 8).unwrap(),
                    vec![room.clone()],
                    |row| pointing(&source, row),
                    until,
                )
                .await,
        ),
    ];
    assert_eq!(outcomes, [Conflict::InAggregate; 4]);
}

/// ST-89: the source gives up; its rows were its own all the time, and no target can commit any more.
#[tokio::test]
async fn an_aborted_move_leaves_everything_with_the_source() {
    let (store, _) = memory();
    let unit = unit(&store).await;
    let b = Host::start("b", &store, store.clone()).await;
    let verified = b
        .repository
        .verify_aggregate(move_id(), b.until())
        .await
        .unwrap();
    let (a, until) = (&unit.source, unit.source.until());
    let abort = a
        .repository
        .abort_aggregate(&a.held, &unit.aggregate, until);
    let aborted = abort.await.unwrap();
    let late = b
        .repository
        .commit_aggregate(&b.held, &verified, side(&b), b.until())
        .await;
    assert_eq!(conflict(late), Conflict::Changed);
    assert_eq!(owners(&b, &unit).await, all(Some("a")));
    let taken = unpoint(a, unit.members.clone()).await.unwrap();
    assert!(taken.iter().all(|row| row.aggregate().is_none()));
    a.repository
        .finish_aggregate(&a.held, aborted, &unit.list, until)
        .await
        .unwrap();
    assert_eq!(owners(&b, &unit).await, all(Some("a")));
}

/// ST-86, ST-89: pointers to a record that was never written leave the source the owner, which can take them back.
#[tokio::test]
async fn pointers_without_a_record_are_taken_back_by_the_owner() {
    let (store, _) = memory();
    let Unit {
        source: a, members, ..
    } = unit(&store).await;
    let refused = unpoint(&a, members.clone()).await;
    assert_eq!(conflict(refused), Conflict::Aggregate);
    let delete = Mutation::Delete {
        key: key::aggregate(move_id()),
    };
    let request = WriteRequest::new(vec![], vec![delete]).unwrap();
    assert!(store.write(request).await.unwrap().applied().is_some());
    let found = a.repository.find(members[0].object(), a.until()).await;
    assert!(
        matches!(found.unwrap(), Resolved::Ready(route) if route.owner_id == *a.held.lease().owner())
    );
    let taken = unpoint(&a, members).await.unwrap();
    assert!(taken.iter().all(|row| row.aggregate().is_none()));
    // Once more: there is nothing left to do, and nothing is written.
    assert_eq!(unpoint(&a, taken.clone()).await.unwrap(), taken);
}

/// ST-87: of two targets one commits; after it the source can no longer give up.
#[tokio::test]
async fn one_target_commits_and_nobody_after_it() {
    let (store, _) = memory();
    let unit = unit(&store).await;
    let b = Host::start("b", &store, store.clone()).await;
    let c = Host::start("c", &store, store.clone()).await;
    let seen = [
        b.repository
            .verify_aggregate(move_id(), b.until())
            .await
            .unwrap(),
        c.repository
            .verify_aggregate(move_id(), c.until())
            .await
            .unwrap(),
    ];
    let commit = b
        .repository
        .commit_aggregate(&b.held, &seen[0], side(&b), b.until());
    let won = commit.await.unwrap();
    assert_eq!(won.record().phase, AggregatePhase::Committed);
    let late = c
        .repository
        .commit_aggregate(&c.held, &seen[1], side(&c), c.until())
        .await;
    assert_eq!(conflict(late), Conflict::Changed);
    let a = &unit.source;
    let late = a
        .repository
        .abort_aggregate(&a.held, &unit.aggregate, a.until())
        .await;
    assert_eq!(conflict(late), Conflict::Changed);
}

/// ST-84, RL-122: more members than fit into one page or one batch; a lost or changed page is noticed.
#[tokio::test]
async fn a_long_list_is_read_back_and_a_bad_page_is_not() {
    let (store, _) = memory();
    let a = Host::start("a", &store, store.clone()).await;
    let objects = (1..2_500).map(|n| AuthorityKey::Actor(format!("actor-{n}").parse().unwrap()));
    let entries = objects.chain([spot("room")]).map(|object| PageEntry {
        object,
        object_generation: ObjectGeneration::new(1).unwrap(),
        store_version: StoreVersion::new("1").unwrap(),
    });
    let list = MemberList::new(entries.collect()).unwrap();
    let prepare =
        a.repository
            .prepare_aggregate(&a.held, move_id(), room(), side(&a), &list, a.until());
    let held = prepare.await.unwrap();
    assert_eq!(held.record().entry_count, 2_500);
    let verified = a
        .repository
        .read_aggregate(move_id(), a.until())
        .await
        .unwrap();
    assert_eq!(*verified.list(), list);
    let page = key::aggregate_page(&list.root());
    for (mutation, recovery) in [
        (
            Mutation::put(page.clone(), r#"{"recordVersion":1,"pages":[]}"#, None).unwrap(),
            Recovery::GiveUp,
        ),
        (Mutation::Delete { key: page }, Recovery::ReadThenDecide),
    ] {
        let request = WriteRequest::new(vec![], vec![mutation]).unwrap();
        assert!(store.write(request).await.unwrap().applied().is_some());
        let refused = a
            .repository
            .read_aggregate(move_id(), a.until())
            .await
            .unwrap_err();
        assert_eq!(refused.recovery(), recovery);
    }
    let nobody = a.repository.find(&spot("room"), a.until()).await.unwrap();
    assert_eq!(nobody, Resolved::Missing);
}
