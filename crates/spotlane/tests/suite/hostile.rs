//! A peer that speaks every command of a move out of order, twice, and in the name of others.

use std::time::Duration;

use bytes::Bytes;
use spotlane::JobLimit;
use spotlane::memory::MemoryStore;
use spotlane::prelude::*;
use spotlane_location::{Monotonic, Repository, Timing};
use spotlane_mesh::{
    Flow, Inbound, Mesh, MeshConfig, NodeIdentity, PeerEvent, PeerIntent, PeerLink, Received,
};
use spotlane_store_memory::{FaultControl, FaultStore};
use spotlane_types::count::{
    ApplicationVersion, BoundaryRecordCount, CapacityLimit, Correlation, PendingCapacityLimit,
    RelocationChunkCount, RelocationLogicalLength, ReplyRouteId, Weight,
};
use spotlane_types::generation::{
    AuthorityOwnerGeneration, DescriptorRevision, NodeGeneration, ObjectGeneration,
    OwnerLeaseGeneration, TargetAttemptGeneration,
};
use spotlane_types::id::{
    ActorId, ContentType, Endpoint, MeshName, NodeRid, OperationId, OwnerId, PacketName,
    ProtocolCapability, RelocationId, SecurityIdentity, SpotId, StableType, StoreVersion,
};
use spotlane_types::kind::{
    FailureCode, MeshOperationKind, ObjectRole, RelocationRole, RuntimeState, TerminalResult,
};
use spotlane_wire::Record;
use spotlane_wire::blob::{DurableBlob, PayloadBytes};
use spotlane_wire::command::membership::{ActorDestroy, ActorJoin, ActorJoined, ActorLookup};
use spotlane_wire::command::relocation::{
    RelocationCutover, RelocationData, RelocationFailed, RelocationPrepare, RelocationReady,
    RelocationState,
};
use spotlane_wire::command::reply::{ActorJoinReply, ReplyTail};
use spotlane_wire::descriptor::{
    Channels, DescriptorExtension, ProtocolCapabilities, RouteMeshAdmission,
};
use spotlane_wire::frozen::{FrozenRecord, FrozenRecordBody, FrozenSource};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::{
    ActorRef as WireActor, ActorRouteFence, RelocationCoordinatorFence, RelocationTargetFence,
    SpotMembership, SpotRef, SpotRouteFence,
};
use spotlane_wire::relocation::RelocationObject;

use crate::app::{Counter, Shared, Stores, add, builder, host, settings, text};
use crate::left_behind::{no_job_is_left, until as until_so};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A peer that looks at nothing.
struct Deaf;

impl Inbound for Deaf {
    fn on_record(&self, _: Received) -> Flow {
        Flow::Continue
    }

    fn on_peer(&self, _: &PeerLink, _: PeerEvent) {}
}

/// A peer that keeps what it gets.
struct Ears(tokio::sync::mpsc::UnboundedSender<Record>);

impl Inbound for Ears {
    fn on_record(&self, received: Received) -> Flow {
        self.0.send(received.record).ok();
        Flow::Continue
    }

    fn on_peer(&self, _: &PeerLink, _: PeerEvent) {}
}

/// Time stands still for the one look at the store.
pub(crate) struct Still;

impl Timing for Still {
    fn now(&self) -> Monotonic {
        Monotonic::ORIGIN
    }

    async fn pause(&self, _: u32) {
        tokio::task::yield_now().await;
    }
}

/// The store as any member of the mesh reads it.
pub(crate) fn repository(stores: &Stores) -> Repository<MemoryStore, Still> {
    Repository::new(stores.location.clone(), Still)
}

pub(crate) fn until() -> Monotonic {
    Monotonic::from_origin(PATIENCE)
}

pub(crate) fn rid(text: &str) -> NodeRid {
    NodeRid::new(text.as_bytes()).unwrap()
}

fn descriptor() -> RouteMeshAdmission {
    let capability = ProtocolCapability::new("framework-service-v13").unwrap();
    RouteMeshAdmission {
        mesh_name: MeshName::new("test").unwrap(),
        security_identity: SecurityIdentity::new("plaintext").unwrap(),
        lifecycle_generation: NodeGeneration::new(7).unwrap(),
        descriptor_revision: DescriptorRevision::new(1).unwrap(),
        advertised_endpoint: Endpoint::new("tcp://127.0.0.1:1").unwrap(),
        channels: Channels::new(vec![]).unwrap(),
        extension: DescriptorExtension {
            runtime_state: RuntimeState::Serving,
            application_version: ApplicationVersion::new(1).unwrap(),
            protocol_capabilities: ProtocolCapabilities::new(vec![capability]).unwrap(),
            object_role: ObjectRole::Server,
            placement_weight: Weight::new(1).unwrap(),
            active_capacity_limit: CapacityLimit::new(10).unwrap(),
            pending_capacity_limit: PendingCapacityLimit::new(10).unwrap(),
            active_capacity_used: 0,
            pending_capacity_used: 0,
            spot_types: None,
            stateful_capabilities: None,
            maintenance_wave: None,
        },
    }
}

pub(crate) async fn hostile_peer(of: &Host) -> (Mesh, PeerLink) {
    hostile_peer_with(of, Deaf).await
}

async fn hostile_peer_with(of: &Host, inbound: impl Inbound) -> (Mesh, PeerLink) {
    let identity = NodeIdentity {
        rid: rid("evil"),
        descriptor: descriptor(),
    };
    let to = PeerIntent::manual(of.endpoint().unwrap().as_str(), None).unwrap();
    let mesh = Mesh::start(MeshConfig::new(identity).peer(to), inbound)
        .await
        .unwrap();
    let mut peers = mesh.watch_peers();
    let found = peers.wait_for(|peers| !peers.is_empty());
    drop(
        tokio::time::timeout(PATIENCE, found)
            .await
            .unwrap()
            .unwrap(),
    );
    let link = mesh.link(of.node_id()).unwrap();
    (mesh, link)
}

/// The real fence of the host, which any member of the mesh can read in the store.
pub(crate) async fn fence_of(host: &Host, stores: &Stores) -> RelocationTargetFence {
    let repository = repository(stores);
    let nodes = repository
        .discover(host.mesh_name(), until())
        .await
        .unwrap();
    let node = nodes
        .iter()
        .map(|node| &node.descriptor().row.descriptor)
        .find(|node| node.routing_id == *host.node_id())
        .unwrap();
    RelocationTargetFence {
        target_node_rid: node.routing_id.clone(),
        target_node_generation: node.lifecycle_generation,
        target_owner_id: node.owner_id.clone(),
        target_owner_lease_generation: node.lease_generation,
    }
}

/// One forged move.
struct Forged {
    move_id: u64,
    as_node: (NodeRid, NodeGeneration),
    owner: OwnerId,
    lease: OwnerLeaseGeneration,
    actor: WireActor,
    target: RelocationTargetFence,
    role: RelocationRole,
    length: u64,
    checksum: u32,
}

impl Forged {
    fn relocation(&self) -> RelocationId {
        RelocationId::new(9, self.move_id).unwrap()
    }

    fn attempt(&self) -> TargetAttemptGeneration {
        TargetAttemptGeneration::new(self.move_id).unwrap()
    }

    fn coordinator(&self) -> RelocationCoordinatorFence {
        RelocationCoordinatorFence {
            coordinator_owner_id: self.owner.clone(),
            coordinator_lease_generation: self.lease,
            coordinator_node_rid: self.as_node.0.clone(),
            coordinator_node_generation: self.as_node.1,
            expected_authority_store_version: StoreVersion::new("1").unwrap(),
        }
    }

    fn object(&self) -> RelocationObject {
        RelocationObject::Actor {
            actor: self.actor.clone(),
            expected_authority_owner_generation: AuthorityOwnerGeneration::new(1).unwrap(),
        }
    }

    fn prepare(&self) -> Record {
        RelocationPrepare {
            relocation: self.relocation(),
            target_attempt_generation: self.attempt(),
            coordinator: self.coordinator(),
            target: self.target.clone(),
            initiator_role: self.role,
            object: self.object(),
            source_node_rid: self.as_node.0.clone(),
            source_node_generation: self.as_node.1,
            payload_total_length: RelocationLogicalLength::new(self.length).unwrap(),
            payload_chunk_count: RelocationChunkCount::new(2).unwrap(),
            payload_checksum_crc32c: self.checksum,
            // That of the host: with another one it would look no further.
            application_version: ApplicationVersion::new(0).unwrap(),
        }
        .into()
    }

    fn chunk(&self, ordinal: u32) -> Record {
        RelocationState {
            relocation: self.relocation(),
            target_attempt_generation: self.attempt(),
            coordinator: self.coordinator(),
            sender_role: self.role,
            object: self.object(),
            chunk_ordinal: ordinal,
            chunk_data: DurableBlob::new(Bytes::from_static(b"not a stream")).unwrap(),
        }
        .into()
    }

    fn ready(&self) -> Record {
        RelocationReady {
            relocation: self.relocation(),
            target_attempt_generation: self.attempt(),
            coordinator: self.coordinator(),
            target: self.target.clone(),
            object: self.object(),
            sender_role: RelocationRole::Target,
        }
        .into()
    }

    fn failed(&self) -> Record {
        RelocationFailed {
            relocation: self.relocation(),
            target_attempt_generation: self.attempt(),
            coordinator: self.coordinator(),
            target: self.target.clone(),
            object: self.object(),
            sender_role: RelocationRole::Target,
            failure_code: FailureCode::RelocationDataLost,
        }
        .into()
    }

    fn relay(&self) -> Record {
        let payload = ApplicationPayload {
            packet_name: PacketName::new("note").unwrap(),
            content_type: ContentType::new("text/plain").unwrap(),
            payload: PayloadBytes::new(Bytes::from_static(b"forged")).unwrap(),
        };
        let target_actor = ActorRouteFence {
            actor: self.actor.clone(),
            target_node_rid: self.target.target_node_rid.clone(),
            target_node_generation: self.target.target_node_generation,
            expected_authority_owner_generation: AuthorityOwnerGeneration::new(1).unwrap(),
            expected_owner_lease_generation: self.target.target_owner_lease_generation,
        };
        let record = FrozenRecord {
            source: FrozenSource::Node {
                source_node_rid: self.as_node.0.clone(),
                source_node_generation: self.as_node.1,
                source_owner_id: self.owner.clone(),
                source_owner_lease_generation: self.lease,
            },
            metadata: None,
            operation_id: Some(OperationId::new(0, 42).unwrap()),
            operation_kind: MeshOperationKind::ActorRequest,
            reply_route: Some(ReplyRouteId::new(99).unwrap()),
            body: FrozenRecordBody::ActorRequest {
                target_actor,
                payload,
            },
        };
        RelocationData {
            relocation: self.relocation(),
            target_attempt_generation: self.attempt(),
            coordinator: self.coordinator(),
            sender_role: self.role,
            object: self.object(),
            record: Box::new(record),
        }
        .into()
    }

    fn cutover(&self) -> Record {
        RelocationCutover {
            relocation: self.relocation(),
            target_attempt_generation: self.attempt(),
            coordinator: self.coordinator(),
            sender_role: self.role,
            object: self.object(),
            boundary_record_count: BoundaryRecordCount::new(u64::from(self.checksum)).unwrap(),
            boundary_checksum_crc32c: self.checksum,
        }
        .into()
    }

    /// Everything, in an order in which no move comes, and then once more.
    fn storm(&self) -> Vec<Record> {
        let once = || {
            vec![
                self.cutover(),
                self.chunk(1),
                self.relay(),
                self.prepare(),
                self.ready(),
                self.chunk(7),
                self.prepare(),
                self.cutover(),
                self.chunk(0),
                self.failed(),
                self.relay(),
                self.chunk(1),
            ]
        };
        [once(), once()].concat()
    }
}

async fn send(link: &PeerLink, record: Record) {
    link.send(record, Some(PATIENCE)).await.unwrap();
}

/// Waits until no queue is left of the moves of an Actor that never was: then every command 40 is done with.
async fn ghost_is_gone(host: &Host) {
    let missing = tokio::time::timeout(PATIENCE, async {
        loop {
            match text(host, "ghost", "log").await {
                Err(error) if error.kind() == ErrorKind::NotFound => return,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable),
                Ok(log) => panic!("a ghost answers: {log}"),
            }
        }
    });
    missing.await.unwrap();
}

/// RL-5, RL-29, RL-353, WR-51, TGT-6, TGT-9, TGT-32, TGT-37, SRC-32: nothing of it changes anything, and nothing of it stays.
#[tokio::test(flavor = "multi_thread")]
async fn forged_moves_change_nothing() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    let made = a.actors().create::<Counter>("c").await.unwrap();
    let generation = made.actor().unwrap().generation();
    add(&a, "c", 5).await.unwrap();
    let target = fence_of(&a, &stores).await;
    let (mesh, link) = hostile_peer(&a).await;
    let evil = (rid("evil"), NodeGeneration::new(7).unwrap());
    let of_a = (a.node_id().clone(), target.target_node_generation);
    let stranger = OwnerId::new("somebody").unwrap();
    let lease = OwnerLeaseGeneration::new(3).unwrap();
    let mut move_id = 0;
    for (name, generation) in [("c", generation), ("ghost", ObjectGeneration::MIN)] {
        let actor = WireActor {
            actor_id: ActorId::new(name).unwrap(),
            object_generation: generation,
        };
        for (as_node, owner, lease) in [
            (evil.clone(), stranger.clone(), lease),
            (
                of_a.clone(),
                target.target_owner_id.clone(),
                target.target_owner_lease_generation,
            ),
            (
                evil.clone(),
                target.target_owner_id.clone(),
                target.target_owner_lease_generation,
            ),
        ] {
            for role in [
                RelocationRole::Source,
                RelocationRole::Target,
                RelocationRole::Coordinator,
            ] {
                for (length, checksum) in [(24, 0), (1 << 30, 1)] {
                    move_id += 1;
                    let forged = Forged {
                        move_id,
                        as_node: as_node.clone(),
                        owner: owner.clone(),
                        lease,
                        actor: actor.clone(),
                        target: target.clone(),
                        role,
                        length,
                        checksum,
                    };
                    for record in forged.storm() {
                        send(&link, record).await;
                    }
                    assert_eq!(text(&a, "c", "log").await.unwrap(), "5");
                }
            }
        }
    }
    ghost_is_gone(&a).await;
    assert_eq!(add(&a, "c", 1).await.unwrap(), "6");
    assert_eq!(text(&a, "c", "place").await.unwrap(), "a");
    let status = a.status();
    assert_eq!(
        (status.actors, status.moving, status.handlers_panicked),
        (1, 0, 0)
    );
    no_job_is_left(&a).await;
    // The host has kept the connection or has closed it; it serves others either way.
    mesh.shutdown(PATIENCE).await;
    a.actors().create::<Counter>("d").await.unwrap();
}

/// Spots of both kinds.
fn spots() -> [RelocationObject; 2] {
    let spot_id = SpotId::new("s").unwrap();
    [
        RelocationObject::UserSpot {
            spot: SpotRef {
                spot_id: spot_id.clone(),
                object_generation: ObjectGeneration::MIN,
            },
            expected_authority_owner_generation: AuthorityOwnerGeneration::new(1).unwrap(),
        },
        RelocationObject::InstanceSpot {
            instance_type: StableType::new("t").unwrap(),
            spot_id,
            object_generation: ObjectGeneration::MIN,
        },
    ]
}

/// The command 53 that answers a command 40.
fn refusal(prepare: &RelocationPrepare, failure_code: FailureCode) -> RelocationFailed {
    RelocationFailed {
        relocation: prepare.relocation,
        target_attempt_generation: prepare.target_attempt_generation,
        coordinator: prepare.coordinator.clone(),
        target: prepare.target.clone(),
        object: prepare.object.clone(),
        sender_role: RelocationRole::Target,
        failure_code,
    }
}

/// TGT-6, RL-352, WR-51, WR-56: a Spot does not move to this host, and its source is told so with the contents of its command
/// 40, each time that it asks: with silence its operation could only end as indeterminate, and its Spot not open again. Nothing
/// of it stays here.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_of_an_object_that_is_not_served_is_refused_by_name() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    let target = fence_of(&a, &stores).await;
    let (ears, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let (mesh, link) = hostile_peer_with(&a, Ears(ears)).await;
    let here = target.target_node_generation;
    let elsewhere = NodeGeneration::new(here.get() ^ 1).unwrap();
    let (source, not_served) = (RelocationRole::Source, FailureCode::RequestTargetNotFound);
    let answers = [
        (RelocationRole::Coordinator, here, None),
        (source, here, Some(not_served)),
        (source, elsewhere, Some(FailureCode::RouteNotConnected)),
    ];
    let objects = spots().into_iter().enumerate();
    for ((number, object), (role, run, code)) in
        objects.flat_map(|object| answers.map(|answer| (object.clone(), answer)))
    {
        let target = RelocationTargetFence {
            target_node_generation: run,
            ..target.clone()
        };
        let forged = Forged {
            move_id: number as u64 + 1,
            role,
            ..ghost_move(target)
        };
        let Record::RelocationPrepare(mut prepare) = forged.prepare() else {
            panic!("it is one");
        };
        prepare.object = object;
        for _ in 0..2 {
            send(&link, Record::RelocationPrepare(prepare.clone())).await;
            let Some(code) = code else { continue };
            let answer = tokio::time::timeout(PATIENCE, heard.recv()).await;
            let Record::RelocationFailed(failed) = answer.unwrap().unwrap() else {
                panic!("a move is answered by command 53 alone");
            };
            assert_eq!(*failed, refusal(&prepare, code));
        }
    }
    assert_eq!(a.status().actors, 0);
    mesh.shutdown(PATIENCE).await;
}

/// A move of an Actor that never was.
fn ghost_move(target: RelocationTargetFence) -> Forged {
    Forged {
        move_id: 1,
        as_node: (rid("evil"), NodeGeneration::new(7).unwrap()),
        owner: OwnerId::new("somebody").unwrap(),
        lease: OwnerLeaseGeneration::new(3).unwrap(),
        actor: WireActor {
            actor_id: ActorId::new("ghost").unwrap(),
            object_generation: ObjectGeneration::MIN,
        },
        target,
        role: RelocationRole::Source,
        length: 24,
        checksum: 0,
    }
}

/// TGT-15, RL-354, EX-152: time passes for a unit however much comes for it. A peer that never stops relaying does not keep a
/// move alive whose validity is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_does_not_stop_the_clock_of_a_move() {
    let stores = Stores::new();
    let faults = FaultControl::new();
    let location = FaultStore::new(stores.location.clone(), faults.clone());
    let mut short = settings();
    short.relocation_cutover_wait_timeout = Duration::from_millis(100);
    short.relocation_restore_validity = Duration::from_millis(500);
    let a = builder("a", &stores, &Shared::default())
        .location_store(location)
        .settings(short);
    let a = a.start().await.unwrap();
    let target = fence_of(&a, &stores).await;
    let (ears, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let (mesh, link) = hostile_peer_with(&a, Ears(ears)).await;
    // The row of the object is not read, so that nothing else ends its move.
    faults.delay_every(3 * PATIENCE);
    let forged = ghost_move(target);
    send(&link, forged.prepare()).await;
    let relay = forged.relay();
    let flood =
        tokio::spawn(
            async move { while link.send(relay.clone(), Some(PATIENCE)).await.is_ok() {} },
        );
    let answer = tokio::time::timeout(PATIENCE, heard.recv()).await;
    let Record::RelocationFailed(failed) = answer.unwrap().unwrap() else {
        panic!("a move is answered by command 53 alone");
    };
    assert_eq!(failed.failure_code, FailureCode::WorkerTimedOut);
    flood.abort();
    faults.delay_every(Duration::ZERO);
    mesh.shutdown(PATIENCE).await;
}

/// EX-120, EX-121, EX-128, EX-136, RL-129: what a move brings passes the limit of jobs like any record. Command 40 waits while
/// there is no permit, and gives the one that it gets back at once; its answer needs none.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_move_brings_waits_for_a_permit() {
    let stores = Stores::new();
    let mut tight = settings();
    tight.job_limit = JobLimit::Manual(1);
    let shared = Shared::default();
    let a = builder("a", &stores, &shared).settings(tight);
    let a = a.start().await.unwrap();
    a.actors().create::<Counter>("c").await.unwrap();
    let target = fence_of(&a, &stores).await;
    let (ears, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let (mesh, link) = hostile_peer_with(&a, Ears(ears)).await;
    let blocker = a.actor("c");
    let waiting = tokio::spawn(async move { blocker.request("wait", ()).await });
    shared.began.notified().await;
    a.actor("c").send("note", "x").await.unwrap();
    until_so("no permit is left", || a.status().jobs.queued == 1).await;
    let forged = ghost_move(target);
    send(&link, forged.prepare()).await;
    until_so("command 40 waits", || a.status().jobs.waiters == 1).await;
    assert!(heard.try_recv().is_err(), "it was not taken");
    shared.gate.notify_one();
    waiting.await.unwrap().unwrap();
    let answer = tokio::time::timeout(PATIENCE, heard.recv()).await;
    let Record::RelocationFailed(failed) = answer.unwrap().unwrap() else {
        panic!("a move is answered by command 53 alone");
    };
    assert_eq!(failed.failure_code, FailureCode::ActorLocationStale);
    assert_eq!(text(&a, "c", "log").await.unwrap(), "x");
    no_job_is_left(&a).await;
    mesh.shutdown(PATIENCE).await;
}

fn here(fence: &RelocationTargetFence, actor: WireActor) -> ActorRouteFence {
    ActorRouteFence {
        actor,
        target_node_rid: fence.target_node_rid.clone(),
        target_node_generation: fence.target_node_generation,
        expected_authority_owner_generation: AuthorityOwnerGeneration::new(1).unwrap(),
        expected_owner_lease_generation: fence.target_owner_lease_generation,
    }
}

fn entry_join(fence: &RelocationTargetFence, actor: WireActor, spot: SpotRef) -> ActorJoin {
    ActorJoin {
        correlation: Correlation::new(2).unwrap(),
        actor: here(fence, actor),
        entry: true,
        target_spot: SpotRouteFence {
            spot,
            target_node_rid: fence.target_node_rid.clone(),
            target_node_generation: fence.target_node_generation,
            expected_authority_owner_generation: AuthorityOwnerGeneration::new(1).unwrap(),
            expected_owner_lease_generation: fence.target_owner_lease_generation,
        },
        payload: None,
    }
}

/// WR-58: what this host answers and never asks: 26 and 27 by the row, 28 for an Entry Spot at once, and 37 has no effect.
#[tokio::test(flavor = "multi_thread")]
async fn commands_that_only_others_send_are_answered() {
    let stores = Stores::new();
    let (a, _) = host("a", &stores).await;
    let made = a.actors().create::<Counter>("c").await.unwrap();
    let fence = fence_of(&a, &stores).await;
    let (mesh, link) = hostile_peer(&a).await;
    let actor = WireActor {
        actor_id: ActorId::new("c").unwrap(),
        object_generation: made.actor().unwrap().generation(),
    };
    let ghost = WireActor {
        actor_id: ActorId::new("ghost").unwrap(),
        object_generation: ObjectGeneration::MIN,
    };
    let number = |n| Correlation::new(n).unwrap();
    let ask = |record: Record| link.request(record, PATIENCE);
    let looked_up = ActorLookup {
        correlation: number(1),
        actor_id: actor.actor_id.clone(),
    };
    let ReplyTail::ActorLookup(found) = ask(looked_up.into()).await.unwrap().outcome.tail else {
        panic!("no look-up");
    };
    assert_eq!(found.actor, actor);
    let spot = SpotRef {
        spot_id: found.spot_id,
        object_generation: found.spot_generation,
    };
    let joined = ActorJoined {
        actor: actor.clone(),
        previous_membership: None,
        current_membership: SpotMembership { spot: spot.clone() },
        current_authority_owner_generation: found.authority_owner_generation,
    };
    send(&link, joined.into()).await;
    let join = entry_join(&fence, actor.clone(), spot.clone());
    let ReplyTail::ActorJoin(answer) = ask(join.into()).await.unwrap().outcome.tail else {
        panic!("no join");
    };
    assert!(matches!(answer.join, ActorJoinReply::Accepted { spot: of, .. } if of == spot));
    assert_eq!(add(&a, "c", 1).await.unwrap(), "1");
    for (n, actor, result, code) in [
        (
            3,
            ghost,
            TerminalResult::NotFound,
            FailureCode::ActorRouteNotFound,
        ),
        (4, actor, TerminalResult::Ok, FailureCode::None),
    ] {
        let destroy = ActorDestroy {
            correlation: number(n),
            actor: here(&fence, actor),
        };
        let outcome = ask(destroy.into()).await.unwrap().outcome;
        assert_eq!(
            (outcome.terminal_result, outcome.failure_code),
            (result, code)
        );
    }
    assert_eq!(a.actors().find("c").await.unwrap(), None);
    mesh.shutdown(PATIENCE).await;
}

/// EX-152: what other nodes ask for waits for no permit of applications; a node that piles it up at a store that does not answer
/// is told so, and its bound is no other node's.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_piles_up_at_a_silent_store_is_bounded() {
    const OVER: u64 = 8;
    let (stores, faults) = (Stores::new(), FaultControl::new());
    let a = builder("a", &stores, &Shared::default())
        .location_store(FaultStore::new(stores.location.clone(), faults.clone()));
    let a = a.start().await.unwrap();
    let (mesh, link) = hostile_peer(&a).await;
    faults.delay_every(Duration::from_hours(1));
    let mut asked = tokio::task::JoinSet::new();
    for n in 1..=1_024 + OVER {
        let lookup = ActorLookup {
            correlation: Correlation::new(n).unwrap(),
            actor_id: ActorId::new(&format!("ghost-{n}")).unwrap(),
        };
        let link = link.clone();
        asked.spawn(async move { link.request(lookup.into(), 3 * PATIENCE).await });
    }
    for _ in 0..OVER {
        let refused = tokio::time::timeout(PATIENCE, asked.join_next()).await;
        let outcome = refused.unwrap().unwrap().unwrap().unwrap().outcome;
        assert_eq!(outcome.failure_code, FailureCode::RouteNotConnected);
    }
    assert!(
        asked.try_join_next().is_none(),
        "the others wait for the store"
    );
    drop(asked);
    mesh.shutdown(PATIENCE).await;
}
