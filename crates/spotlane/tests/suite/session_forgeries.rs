//! A peer that sends the records of sessions wrong, late, twice, and in the name of others.

use bytes::Bytes;
use spotlane::prelude::*;
use spotlane::session::SessionStream;
use spotlane_location::authority::Authority;
use spotlane_location::{Monotonic, Repository};
use spotlane_mesh::{Mesh, PeerLink};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::{Correlation, SessionSequence};
use spotlane_types::generation::{
    AuthorityOwnerGeneration, BindingGeneration, NodeGeneration, ObjectGeneration,
};
use spotlane_types::id::{
    ContentType, OperationId, PacketName, RelocationId, SessionRid, StoreVersion,
};
use spotlane_types::kind::{FailureCode, RelocationRole};
use spotlane_wire::Record;
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::command::follow::{FollowNotice, FollowRoute, MessageFollow, NoticeHopCount};
use spotlane_wire::command::message::{ActorSend, BoundSessionTail};
use spotlane_wire::command::session::{
    BoundSessionBind, BoundSessionReplaced, BoundSessionSend, SessionRelocationRoute,
    SessionRelocationSeal, SessionRelocationSealed,
};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::{
    ActorRef as WireActor, ActorRouteFence, BindingTransition, RelocationCoordinatorFence,
    RelocationTargetFence, RetiredBoundSessionRouteFence, SessionRouteUpdate,
};

use crate::app::{Stores, settings};
use crate::hostile::{PATIENCE, Still, fence_of, hostile_peer, rid};
use crate::players::{Client, Game, Player, gate, players, tell, until};
use crate::two_hosts::connect;

/// A client on `g` that is bound to `p` on `a`, and a peer of both that knows everything about them.
struct Scene {
    stores: Stores,
    game: Game,
    a: Host,
    g: Host,
    stream: SessionStream,
    client: Client,
    evil: Mesh,
    /// From the peer to the session owner.
    to_g: PeerLink,
    /// The session owner.
    owner: RelocationTargetFence,
    /// The Actor where it is.
    actor: ActorRouteFence,
}

impl Scene {
    async fn set(seal_timeout: std::time::Duration) -> Self {
        let (stores, game) = (Stores::new(), Game::default());
        let mut patient = settings();
        patient.session_relocation_seal_timeout = seal_timeout;
        let a = players("a", &stores, &game, patient.clone()).await;
        a.actors().create::<Player>("p").await.unwrap();
        let g = players("g", &stores, &game, patient).await;
        connect(&[&a, &g]).await;
        let stream = gate(&g).await;
        let client = Client::login(&stream, "p").await;
        let (evil, to_g) = hostile_peer(&g).await;
        let owner = fence_of(&g, &stores).await;
        let actor = fence_of_actor(&a, &stores).await;
        Self {
            stores,
            game,
            a,
            g,
            stream,
            client,
            evil,
            to_g,
            owner,
            actor,
        }
    }

    fn send(&self, record: impl Into<Record>) {
        self.to_g.submit(record.into()).unwrap();
    }

    /// The client is served by its Actor and by nobody else.
    async fn is_unharmed(&mut self) {
        tell(&self.a, "p", "mine").await.unwrap();
        assert_eq!(self.client.pushed().await.1, "mine");
        assert_eq!(self.client.ask("place", "").await.unwrap(), "a");
        assert_eq!(self.game.left.load(std::sync::atomic::Ordering::SeqCst), 0);
    }

    fn push(by: ActorRouteFence, binding: u64) -> BoundSessionSend {
        BoundSessionSend {
            actor: by,
            expected_binding_generation: BindingGeneration::new(binding).unwrap(),
            payload: payload("forged"),
        }
    }

    fn coordinator(&self, node: &str, run: u64) -> RelocationCoordinatorFence {
        RelocationCoordinatorFence {
            coordinator_owner_id: self.owner.target_owner_id.clone(),
            coordinator_lease_generation: self.owner.target_owner_lease_generation,
            coordinator_node_rid: rid(node),
            coordinator_node_generation: NodeGeneration::new(run).unwrap(),
            expected_authority_store_version: StoreVersion::new("1").unwrap(),
        }
    }

    /// A seal that fits the session in every value, of a coordinator that the peer chooses.
    fn seal(&self, number: u64, coordinator: RelocationCoordinatorFence) -> SessionRelocationSeal {
        SessionRelocationSeal {
            relocation: RelocationId::new(9, number).unwrap(),
            coordinator,
            sender_role: RelocationRole::Source,
            actor: self.actor.clone(),
            session_owner_node_rid: self.owner.target_node_rid.clone(),
            session_owner_node_generation: self.owner.target_node_generation,
            session_owner_id: self.owner.target_owner_id.clone(),
            session_owner_lease_generation: self.owner.target_owner_lease_generation,
            session_rid: session(),
            binding_generation: BindingGeneration::new(1).unwrap(),
        }
    }

    fn update(seal: &SessionRelocationSeal, to: SessionRouteUpdate) -> SessionRelocationRoute {
        SessionRelocationRoute {
            relocation: seal.relocation,
            coordinator: seal.coordinator.clone(),
            sender_role: match to {
                SessionRouteUpdate::Commit { .. } => RelocationRole::Target,
                SessionRouteUpdate::Abort { .. } => RelocationRole::Source,
            },
            actor: seal.actor.actor.clone(),
            session_owner_node_rid: seal.session_owner_node_rid.clone(),
            session_owner_node_generation: seal.session_owner_node_generation,
            session_owner_id: seal.session_owner_id.clone(),
            session_owner_lease_generation: seal.session_owner_lease_generation,
            session_rid: seal.session_rid.clone(),
            binding_generation: seal.binding_generation,
            route: to,
        }
    }

    fn to_itself(&self) -> SessionRouteUpdate {
        let next = self.actor.expected_authority_owner_generation.get() + 1;
        SessionRouteUpdate::Commit {
            previous_authority_owner_generation: self.actor.expected_authority_owner_generation,
            target_authority_owner_generation: AuthorityOwnerGeneration::new(next).unwrap(),
            target_node_rid: rid("evil"),
            target_node_generation: NodeGeneration::new(EVIL_RUN).unwrap(),
            target_owner_lease_generation: self.owner.target_owner_lease_generation,
        }
    }

    fn back(&self) -> SessionRouteUpdate {
        SessionRouteUpdate::Abort {
            current_authority_owner_generation: self.actor.expected_authority_owner_generation,
        }
    }
}

/// The run of the hostile peer.
const EVIL_RUN: u64 = 7;

/// The first session of a host.
fn session() -> SessionRid {
    SessionRid::new(&1_u32.to_be_bytes()).unwrap()
}

fn payload(name: &str) -> ApplicationPayload {
    ApplicationPayload {
        packet_name: PacketName::new(name).unwrap(),
        content_type: ContentType::new("text/plain").unwrap(),
        payload: PayloadBytes::new(Bytes::from_static(b"forged")).unwrap(),
    }
}

/// The real fence of `p`, which any member of the mesh can read in the store.
async fn fence_of_actor(at: &Host, stores: &Stores) -> ActorRouteFence {
    let repository = Repository::new(stores.location.clone(), Still);
    let until = Monotonic::from_origin(PATIENCE);
    let key = AuthorityKey::Actor("p".parse().unwrap());
    let Authority::Active(active) = repository.read(&key, until).await.unwrap() else {
        panic!("p is active");
    };
    let node = fence_of(at, stores).await;
    ActorRouteFence {
        actor: WireActor {
            actor_id: "p".parse().unwrap(),
            object_generation: active.row().object_generation,
        },
        target_node_rid: node.target_node_rid,
        target_node_generation: node.target_node_generation,
        expected_authority_owner_generation: active.row().authority_owner_generation,
        expected_owner_lease_generation: node.target_owner_lease_generation,
    }
}

/// SB-38, SB-4: a push that is not current in one of the four values, or comes from another node, reaches nobody
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_push_reaches_no_client() {
    let mut scene = Scene::set(settings().session_relocation_seal_timeout).await;
    let right = scene.actor.clone();
    // Right in every value, and sent by somebody else.
    scene.send(Scene::push(right.clone(), 1));
    let mut own = right.clone();
    own.target_node_rid = rid("evil");
    own.target_node_generation = NodeGeneration::new(EVIL_RUN).unwrap();
    scene.send(Scene::push(own.clone(), 1));
    scene.send(Scene::push(own.clone(), 2));
    scene.send(Scene::push(own.clone(), 99));
    let mut other = own.clone();
    other.actor.object_generation = ObjectGeneration::new(99).unwrap();
    scene.send(Scene::push(other, 1));
    let mut close = Scene::push(own, 1);
    close.payload.packet_name = PacketName::new("$zlink.session-close").unwrap();
    scene.send(close);
    scene.is_unharmed().await;
}

/// SB-80, SB-81, SB-82, WR-55, SES-2, SES-7: seals and routes of nobody, of others, late and twice
#[tokio::test(flavor = "multi_thread")]
async fn seals_and_routes_of_others_change_nothing() {
    let mut scene = Scene::set(settings().session_relocation_seal_timeout).await;
    let of_a = scene.coordinator("a", scene.actor.target_node_generation.get());
    let own = scene.coordinator("evil", EVIL_RUN);
    // In the name of the real source.
    let seal = scene.seal(1, of_a);
    scene.send(seal.clone());
    scene.send(Scene::update(&seal, scene.to_itself()));
    scene.send(Scene::update(&seal, scene.back()));
    // Of its own, and wrong in one value.
    let fits = scene.seal(2, own);
    let mut wrong = Vec::new();
    for change in [
        |seal: &mut SessionRelocationSeal| seal.session_rid = SessionRid::new(b"x").unwrap(),
        |seal: &mut SessionRelocationSeal| {
            seal.binding_generation = BindingGeneration::new(9).unwrap();
        },
        |seal: &mut SessionRelocationSeal| {
            seal.actor.actor.object_generation = ObjectGeneration::new(99).unwrap();
        },
        |seal: &mut SessionRelocationSeal| seal.session_owner_id = "other".parse().unwrap(),
        |seal: &mut SessionRelocationSeal| {
            seal.session_owner_node_generation = NodeGeneration::new(99).unwrap();
        },
        |seal: &mut SessionRelocationSeal| seal.sender_role = RelocationRole::Target,
    ] {
        let mut seal = fits.clone();
        change(&mut seal);
        wrong.push(seal);
    }
    for seal in wrong {
        scene.send(seal);
    }
    // Routes without a seal, twice.
    for _ in 0..2 {
        scene.send(Scene::update(&fits, scene.to_itself()));
        scene.send(Scene::update(&fits, scene.back()));
    }
    // The answer of a session that nobody asked.
    scene.send(SessionRelocationSealed {
        relocation: fits.relocation,
        coordinator: fits.coordinator.clone(),
        actor: fits.actor.clone(),
        session_owner_node_rid: rid("evil"),
        session_owner_node_generation: NodeGeneration::new(EVIL_RUN).unwrap(),
        session_owner_id: fits.session_owner_id.clone(),
        session_owner_lease_generation: fits.session_owner_lease_generation,
        session_rid: session(),
        binding_generation: fits.binding_generation,
    });
    scene.is_unharmed().await;
}

/// SB-86, SB-87, SES-3, SES-5, T-SES-05: what a client sends under a seal is held, bounded by the client's own socket, and
/// goes to the source in order when the move is given up; its other packets and heartbeats go on
#[tokio::test(flavor = "multi_thread")]
async fn t_ses_05_a_flood_under_a_seal_waits_in_its_socket_and_is_delivered_in_order() {
    let mut scene = Scene::set(PATIENCE).await;
    let seal = scene.seal(1, scene.coordinator("evil", EVIL_RUN));
    scene.send(seal.clone());
    // The seal is there when an answer does not come.
    let first = scene.client.send("note", "first").await;
    let (flooded, cut) = scene.client.flood("jot", &"x".repeat(16_384), 4_096).await;
    scene.send(Scene::update(&seal, scene.back()));
    let (sequence, answer) = scene.client.answer().await;
    assert_eq!(sequence, first);
    let notes = answer.unwrap();
    assert!(notes.ends_with("first"), "{} bytes", notes.len());
    tokio::io::AsyncWriteExt::write_all(&mut scene.client.socket, &cut)
        .await
        .unwrap();
    let count = scene.client.ask("count", "").await.unwrap();
    // The first note and the frame that stalled count too.
    assert_eq!(count, (flooded + 2).to_string());
    drop(scene.client);
    scene.game.left(1).await;
    until(|| scene.stream.stats().active() == 0).await;
}

/// SB-88, SES-6, T-SES-03, T-SES-06: nobody sends the route; the connection closes and nothing held is delivered
#[tokio::test(flavor = "multi_thread")]
async fn t_ses_03_a_seal_without_route_closes_the_connection_in_time() {
    let mut scene = Scene::set(std::time::Duration::from_millis(300)).await;
    let seal = scene.seal(1, scene.coordinator("evil", EVIL_RUN));
    scene.send(seal.clone());
    scene.send(seal.clone());
    for number in 0..50 {
        let note = scene.client.one_way("jot", &number.to_string());
        drop(tokio::io::AsyncWriteExt::write_all(&mut scene.client.socket, &note).await);
    }
    scene.client.closed().await;
    scene.game.left(1).await;
    // SES-7, T-SES-04: late, and nobody is there any more.
    scene.send(Scene::update(&seal, scene.to_itself()));
    scene.send(Scene::update(&seal, scene.back()));
    scene.client = Client::login(&scene.stream, "p").await;
    let count = scene.client.ask("count", "").await.unwrap();
    let count: usize = count.parse().unwrap();
    // What came before the seal was there, and the callback.
    assert!(count <= 51, "{count}");
    assert_eq!(scene.client.ask("place", "").await.unwrap(), "a");
}

/// SB-10, SB-33, SB-52, SB-59, SB-61: binds, notices, relays and replacements in the name of the session
#[expect(
    clippy::too_many_lines,
    reason = "one forgery after the other, each in full"
)]
#[tokio::test(flavor = "multi_thread")]
async fn nobody_ends_replaces_or_speaks_for_the_session_of_another_node() {
    let mut scene = Scene::set(settings().session_relocation_seal_timeout).await;
    // Between the peer and the Actor's owner.
    let to = spotlane_mesh::PeerIntent::manual(scene.a.endpoint().unwrap().as_str(), None).unwrap();
    scene.evil.set_peers(vec![to]);
    until(|| scene.evil.link(scene.a.node_id()).is_some()).await;
    let to_a = scene.evil.link(scene.a.node_id()).unwrap();
    let one = BindingGeneration::new(1).unwrap();
    let bind =
        |number: u64, actor: &ActorRouteFence, binding: BindingTransition| BoundSessionBind {
            correlation: Correlation::new(number).unwrap(),
            actor: actor.clone(),
            session_rid: session(),
            binding,
        };
    // The tombstone of a binding that is another node's.
    let tombstone = BindingTransition::Tombstone {
        retired_binding_generation: one,
    };
    let ended = to_a
        .request(bind(1, &scene.actor, tombstone).into(), PATIENCE)
        .await;
    // Answered once, in whichever way: a node that holds no lease is no session owner.
    assert_ne!(ended.unwrap().outcome.failure_code, FailureCode::None);
    // Binds that name another incarnation, run or tenure.
    for (number, change) in (2..).zip([
        |actor: &mut ActorRouteFence| {
            actor.actor.object_generation = ObjectGeneration::new(99).unwrap();
        },
        |actor: &mut ActorRouteFence| {
            actor.target_node_generation = NodeGeneration::new(99).unwrap();
        },
        |actor: &mut ActorRouteFence| {
            actor.expected_authority_owner_generation = AuthorityOwnerGeneration::new(99).unwrap();
        },
    ]) {
        let mut actor = scene.actor.clone();
        change(&mut actor);
        let active = BindingTransition::Active {
            binding_generation: one,
        };
        let refused = to_a
            .request(bind(number, &actor, active).into(), PATIENCE)
            .await;
        assert_ne!(refused.unwrap().outcome.failure_code, FailureCode::None);
    }
    // A relay with the session's own tail.
    to_a.submit(
        ActorSend {
            operation: OperationId::new(9, 9).unwrap(),
            message_follow_hop_count: spotlane_types::count::HopCount::MIN,
            source_actor: None,
            target_actor: scene.actor.clone(),
            bound_session_tail: Some(BoundSessionTail {
                source_session_rid: session(),
                source_binding_generation: one,
                source_session_sequence: SessionSequence::new(2).unwrap(),
            }),
            metadata: None,
            payload: payload("jot"),
        }
        .into(),
    )
    .unwrap();
    // A replacement of which one value is another.
    let mut actor = scene.actor.clone();
    actor.target_node_rid = rid("evil");
    actor.target_node_generation = NodeGeneration::new(EVIL_RUN).unwrap();
    scene.send(BoundSessionReplaced {
        actor_authority: actor,
        retired_session: RetiredBoundSessionRouteFence {
            session_owner_node_rid: scene.owner.target_node_rid.clone(),
            session_owner_node_generation: scene.owner.target_node_generation,
            session_owner_id: "other".parse().unwrap(),
            session_owner_lease_generation: scene.owner.target_owner_lease_generation,
            session_rid: session(),
            retired_binding_generation: one,
        },
    });
    scene.is_unharmed().await;
    assert_eq!(
        scene.client.ask("count", "").await.unwrap(),
        "0",
        "nothing was relayed"
    );
}

/// RL-161: notices of others, and of a hop that does not fit, touch no binding
#[tokio::test(flavor = "multi_thread")]
async fn route_notices_touch_no_binding() {
    let mut scene = Scene::set(settings().session_relocation_seal_timeout).await;
    let mut to_evil = scene.actor.clone();
    to_evil.target_node_rid = rid("evil");
    to_evil.target_node_generation = NodeGeneration::new(EVIL_RUN).unwrap();
    let hops = spotlane_types::count::HopCount::new(1).unwrap();
    for (source, target) in [
        (scene.actor.clone(), to_evil.clone()),
        (to_evil.clone(), scene.actor.clone()),
        (to_evil.clone(), to_evil),
    ] {
        for _ in 0..2 {
            scene.send(MessageFollow {
                route: FollowNotice {
                    source: FollowRoute::Actor {
                        actor: source.clone(),
                    },
                    target: FollowRoute::Actor {
                        actor: target.clone(),
                    },
                    hop_count: NoticeHopCount::new(hops).unwrap(),
                    queued_messages: u32::MAX,
                    queued_bytes: u32::MAX,
                    original_operation: OperationId::new(1, 1).unwrap(),
                    original_reply_route_id: 0,
                },
            });
        }
    }
    scene.is_unharmed().await;
    assert!(scene.g.actors().find("p").await.unwrap().is_some());
    drop(scene.stores);
}
