//! The records of sessions between hosts, read from the wire: commands 24, 25, 36, 38, 42, 43, 44 and 51.

use spotlane::prelude::*;
use spotlane_types::count::{Correlation, HopCount, SessionSequence};
use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::SessionRid;
use spotlane_types::kind::{FailureCode, MeshOperationKind, RelocationRole, TerminalResult};
use spotlane_wire::Record;
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::command::reply::{Reply, ReplyTail, StreamBindReply};
use spotlane_wire::command::session::{
    BoundSessionBind, BoundSessionReplaced, BoundSessionSend, SessionRelocationRoute,
    SessionRelocationSeal, SessionRelocationSealed,
};
use spotlane_wire::reference::{ActorRouteFence, BindingTransition, SessionRouteUpdate};

use crate::app::{Stores, settings};
use crate::players::{Client, Game, Player, gate, player_builder, tell, until};
use crate::proxy::{Proxy, Way, Wire};
use crate::tap::{Form, Said, Tap};
use crate::two_hosts::acquainted;

/// `a` with the Actor `p`, `b` where it can move, and `g` for streams, with a tap on everything between them.
async fn tapped() -> ([Host; 3], Game, Tap) {
    let (stores, game, tap) = (Stores::new(), Game::default(), Tap::default());
    let wire = Wire::heard_by(&tap);
    let at = async |node: &str| {
        let proxy = Proxy::start(&wire, Way::In).await;
        let host = player_builder(node, &stores, &game, settings())
            .listen(proxy.listen())
            .advertise(proxy.advertise());
        host.start().await.unwrap()
    };
    let a = at("a").await;
    a.actors().create::<Player>("p").await.unwrap();
    let (b, g) = (at("b").await, at("g").await);
    acquainted(&[&a, &b, &g]).await;
    ([a, b, g], game, tap)
}

/// What was said with one command, in order.
fn said(tap: &Tap, command: u8) -> Vec<Said> {
    let all = tap.said().into_iter();
    all.filter(|said| said.command == command).collect()
}

/// The one record of a command, and the way it took.
fn only(tap: &Tap, command: u8) -> (Said, Record) {
    let mut all = said(tap, command);
    assert_eq!(all.len(), 1, "{command}: {all:?}");
    let said = all.remove(0);
    let record = said.record(MeshOperationKind::None);
    (said, record)
}

fn went(said: &Said, from: &str, to: &str) {
    assert_eq!((&said.from[..], &said.to[..]), (from, to), "{said:?}");
}

/// The answer to a request, which names it on the link and in itself (WR-20).
fn answer(tap: &Tap, asked: &Said, correlation: Correlation, kind: MeshOperationKind) -> Reply {
    let Form::Request(sequence) = asked.form else {
        panic!("{asked:?}");
    };
    let mut all = tap.said().into_iter().filter(|said| {
        said.form == Form::Answer(sequence) && said.from == asked.to && said.to == asked.from
    });
    let answer = all.next().expect("it was answered");
    assert!(all.next().is_none(), "once");
    let Record::Reply(reply) = answer.record(kind) else {
        panic!("{answer:?}");
    };
    assert_eq!(reply.correlation, correlation);
    reply
}

fn one() -> BindingGeneration {
    BindingGeneration::new(1).unwrap()
}

/// The first session of a host.
fn session() -> SessionRid {
    SessionRid::new(&1_u32.to_be_bytes()).unwrap()
}

fn tail(sequence: u64) -> BoundSessionTail {
    BoundSessionTail {
        source_session_rid: session(),
        source_binding_generation: one(),
        source_session_sequence: SessionSequence::new(sequence).unwrap(),
    }
}

fn is_at(actor: &ActorRouteFence, host: &Host) {
    assert_eq!(actor.actor.actor_id.as_str(), "p");
    assert_eq!(actor.target_node_rid, *host.node_id());
    assert_eq!(actor.target_node_generation, host.status().node_generation);
}

/// 38 and its answer: gives the fence that the bind names.
fn bound(tap: &Tap, at: &Host) -> ActorRouteFence {
    let (asked, Record::BoundSessionBind(bind)) = only(tap, 38) else {
        panic!("38");
    };
    went(&asked, "g", "a");
    let BoundSessionBind {
        correlation,
        actor,
        session_rid,
        binding,
    } = bind;
    is_at(&actor, at);
    assert_eq!(session_rid, session());
    let active = BindingTransition::Active {
        binding_generation: one(),
    };
    assert_eq!(binding, active);
    let reply = answer(tap, &asked, correlation, MeshOperationKind::StreamBind);
    assert_eq!(reply.outcome.terminal_result, TerminalResult::Ok);
    assert_eq!(reply.outcome.failure_code, FailureCode::None);
    let registered = StreamBindReply {
        binding_generation: one(),
        authority_owner_generation: actor.expected_authority_owner_generation,
    };
    assert_eq!(reply.outcome.tail, ReplyTail::StreamBind(registered));
    actor
}

/// 24 and 25 with the bound-session tail, to an Actor on that route.
fn relayed(tap: &Tap, target: &ActorRouteFence, to: &str, [send, request]: [u64; 2]) {
    let all = said(tap, 24).into_iter();
    let sends: Vec<Said> = all
        .filter(|said| said.from == "g" && said.to == to)
        .collect();
    assert_eq!(sends.len(), 1);
    assert_eq!(sends[0].form, Form::OneWay);
    let Record::ActorSend(jot) = sends[0].record(MeshOperationKind::None) else {
        panic!("24");
    };
    assert_eq!(jot.bound_session_tail, Some(tail(send)));
    assert_eq!((&jot.target_actor, jot.source_actor), (target, None));
    assert_eq!(jot.message_follow_hop_count, HopCount::MIN);
    assert_eq!(jot.payload.packet_name.as_str(), "jot");
    let all = said(tap, 25).into_iter();
    let mut requests = all.filter(|said| said.from == "g" && said.to == to);
    let asked = requests.next().expect("25");
    assert!(requests.next().is_none());
    let Record::ActorRequest(note) = asked.record(MeshOperationKind::None) else {
        panic!("25");
    };
    assert_eq!(note.bound_session_tail, Some(tail(request)));
    assert_eq!((&note.target_actor, note.source_actor), (target, None));
    assert_eq!(note.payload.packet_name.as_str(), "note");
    let kind = MeshOperationKind::ActorRequest;
    let reply = answer(tap, &asked, note.correlation, kind);
    assert_eq!(reply.outcome.terminal_result, TerminalResult::Ok);
}

/// SB-20, SB-30, SB-31, SB-32, SB-37, WR-1: bind, relay and push to an Actor of another host
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_07_bind_relay_and_push_between_hosts_on_the_wire() {
    let ([a, _b, g], _game, tap) = tapped().await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    let actor = bound(&tap, &a);
    client.write_one_way("jot", "1").await;
    assert_eq!(client.ask("note", "2").await.unwrap(), "1,2");
    relayed(&tap, &actor, "a", [1, 2]);
    tell(&a, "p", "hello").await.unwrap();
    assert_eq!(client.pushed().await.1, "hello");
    let (sent, Record::BoundSessionSend(push)) = only(&tap, 36) else {
        panic!("36");
    };
    went(&sent, "a", "g");
    assert_eq!(sent.form, Form::OneWay);
    let BoundSessionSend {
        actor: by,
        expected_binding_generation,
        payload,
    } = push;
    assert_eq!((by, expected_binding_generation), (actor, one()));
    assert_eq!(payload.packet_name.as_str(), "told");
    assert_eq!(&payload.payload.as_bytes()[..], b"hello");
    for command in [42, 43, 44, 45, 51] {
        assert!(said(&tap, command).is_empty(), "{command}");
    }
}

/// SB-21, SB-38, SB-50: a session whose copy of the owner's lease is out of date binds, and what the Actor pushes right after
/// it comes through, although the copy stays. Each of the three other values of the bind is a reason to refuse. T-BND-20
#[tokio::test(flavor = "multi_thread")]
async fn t_bnd_20_the_lease_decides_nothing() {
    let ([a, _b, g], _game, tap) = tapped().await;
    let stream = gate(&g).await;
    let mut first = Client::login(&stream, "p").await;
    let actor = bound(&tap, &a);
    first.ask("remember", "").await.unwrap();
    first.ask("alter", "lease").await.unwrap();
    let mut client = Client::connect(&stream).await;
    client.ask("login-there", "").await.unwrap();
    tell(&a, "p", "hello").await.unwrap();
    assert_eq!(client.pushed().await.1, "hello");
    first.closed().await;

    let binds = said(&tap, 38);
    let Record::BoundSessionBind(bind) = binds[1].record(MeshOperationKind::None) else {
        panic!("38");
    };
    let (asked, current) = (&bind.actor, &actor);
    let leases = [asked, current].map(|fence| fence.expected_owner_lease_generation);
    assert_ne!(leases[0], leases[1], "the copy is out of date");
    let lease = current.expected_owner_lease_generation;
    let same = ActorRouteFence {
        expected_owner_lease_generation: lease,
        ..asked.clone()
    };
    assert_eq!(same, actor, "in nothing but the lease");
    let (_, Record::BoundSessionSend(push)) = only(&tap, 36) else {
        panic!("36");
    };
    assert_eq!(push.actor, actor, "the owner says what it is");

    for (value, refusal) in [
        ("object", "InvalidOperation"),
        ("node", "Unavailable"),
        ("owner", "Unavailable"),
    ] {
        client.ask("remember", "").await.unwrap();
        client.ask("alter", value).await.unwrap();
        let mut other = Client::connect(&stream).await;
        let refused = other.ask("login-there", "").await.unwrap_err();
        assert!(refused.contains(refusal), "{value}: {refused}");
        tell(&a, "p", value).await.unwrap();
        assert_eq!(client.pushed().await.1, value, "the binding stays");
    }
}

/// 42 from the source and 43 from the session owner, which says the same of the same binding and no more (WR-55).
fn sealed(tap: &Tap, before: &ActorRouteFence, g: &Host) -> SessionRelocationSeal {
    let (asked, Record::SessionRelocationSeal(seal)) = only(tap, 42) else {
        panic!("42");
    };
    went(&asked, "a", "g");
    assert_eq!(seal.sender_role, RelocationRole::Source);
    assert_eq!(
        seal.coordinator.coordinator_node_rid,
        before.target_node_rid
    );
    let run = before.target_node_generation;
    assert_eq!(seal.coordinator.coordinator_node_generation, run);
    assert_eq!(seal.actor, *before);
    assert_eq!(seal.session_owner_node_rid, *g.node_id());
    let run = g.status().node_generation;
    assert_eq!(seal.session_owner_node_generation, run);
    assert_eq!(
        (&seal.session_rid, seal.binding_generation),
        (&session(), one())
    );
    let (sealed, Record::SessionRelocationSealed(answer)) = only(tap, 43) else {
        panic!("43");
    };
    went(&sealed, "g", "a");
    let it = seal.clone();
    let same = SessionRelocationSealed {
        relocation: it.relocation,
        coordinator: it.coordinator,
        actor: it.actor,
        session_owner_node_rid: it.session_owner_node_rid,
        session_owner_node_generation: it.session_owner_node_generation,
        session_owner_id: it.session_owner_id,
        session_owner_lease_generation: it.session_owner_lease_generation,
        session_rid: it.session_rid,
        binding_generation: it.binding_generation,
    };
    assert_eq!(*answer, same);
    *seal
}

/// 44 from the target, one commit: gives the route that the session has from now on.
fn committed(tap: &Tap, seal: SessionRelocationSeal, b: &Host) -> ActorRouteFence {
    let (sent, Record::SessionRelocationRoute(update)) = only(tap, 44) else {
        panic!("44");
    };
    went(&sent, "b", "g");
    assert_eq!(sent.form, Form::OneWay, "nobody answers it");
    let SessionRouteUpdate::Commit {
        previous_authority_owner_generation,
        target_authority_owner_generation,
        target_node_rid,
        target_node_generation,
        target_owner_lease_generation,
    } = update.route.clone()
    else {
        panic!("{update:?}");
    };
    let before = seal.actor.expected_authority_owner_generation;
    assert_eq!(previous_authority_owner_generation, before);
    assert_ne!(target_authority_owner_generation, before);
    let same = SessionRelocationRoute {
        relocation: seal.relocation,
        coordinator: seal.coordinator,
        sender_role: RelocationRole::Target,
        actor: seal.actor.actor.clone(),
        session_owner_node_rid: seal.session_owner_node_rid,
        session_owner_node_generation: seal.session_owner_node_generation,
        session_owner_id: seal.session_owner_id,
        session_owner_lease_generation: seal.session_owner_lease_generation,
        session_rid: seal.session_rid,
        binding_generation: seal.binding_generation,
        route: update.route.clone(),
    };
    assert_eq!(*update, same);
    let after = ActorRouteFence {
        actor: seal.actor.actor,
        target_node_rid,
        target_node_generation,
        expected_authority_owner_generation: target_authority_owner_generation,
        expected_owner_lease_generation: target_owner_lease_generation,
    };
    is_at(&after, b);
    after
}

/// 51 from the Actor's owner to the session owner before, with the six values of the retired binding.
fn replaced(tap: &Tap, by: &ActorRouteFence, seal: &SessionRelocationSeal) {
    let (sent, Record::BoundSessionReplaced(replaced)) = only(tap, 51) else {
        panic!("51");
    };
    went(&sent, "b", "g");
    assert_eq!(sent.form, Form::OneWay);
    let BoundSessionReplaced {
        actor_authority,
        retired_session: retired,
    } = *replaced;
    assert_eq!(actor_authority, *by);
    assert_eq!(retired.session_owner_node_rid, seal.session_owner_node_rid);
    let run = seal.session_owner_node_generation;
    assert_eq!(retired.session_owner_node_generation, run);
    assert_eq!(retired.session_owner_id, seal.session_owner_id);
    let lease = seal.session_owner_lease_generation;
    assert_eq!(retired.session_owner_lease_generation, lease);
    assert_eq!(retired.session_rid, seal.session_rid);
    assert_eq!(retired.retired_binding_generation, seal.binding_generation);
}

/// SB-51, SB-61, SB-80, SB-81, SB-84, WR-55, RL-128: a move, a second session and its end. T-SES-07
#[tokio::test(flavor = "multi_thread")]
async fn t_ses_07_seal_route_and_replacement_between_hosts_on_the_wire() {
    let ([a, b, g], game, tap) = tapped().await;
    let stream = gate(&g).await;
    let mut client = Client::login(&stream, "p").await;
    let before = bound(&tap, &a);
    a.relocate("p", b.node_id()).await.unwrap();
    client.write_one_way("jot", "1").await;
    assert_eq!(client.ask("note", "2").await.unwrap(), "1,2");
    let seal = sealed(&tap, &before, &g);
    until(|| !said(&tap, 44).is_empty()).await;
    let after = committed(&tap, seal.clone(), &b);
    // Released onto the new route.
    relayed(&tap, &after, "b", [1, 2]);

    let at_a = gate(&a).await;
    let mut second = Client::login(&at_a, "p").await;
    second.ask("note", "3").await.unwrap();
    client.closed().await;
    replaced(&tap, &after, &seal);
    drop(second);
    game.left(1).await;
    let ended = || said(&tap, 38).into_iter().filter(|said| said.from == "a");
    until(|| ended().count() == 2).await;
    let last = ended().next_back().expect("the notice");
    went(&last, "a", "b");
    let Record::BoundSessionBind(notice) = last.record(MeshOperationKind::None) else {
        panic!("38");
    };
    let tombstone = BindingTransition::Tombstone {
        retired_binding_generation: one(),
    };
    assert_eq!((&notice.actor, &notice.binding), (&after, &tombstone));
    until(|| a.session_counts().sessions == 0).await;
    // SB-61: without a tail, so that it reads as the answer to an operation that has none.
    let reply = answer(&tap, &last, notice.correlation, MeshOperationKind::None);
    assert_eq!(reply.outcome.terminal_result, TerminalResult::Ok);
    assert_eq!(reply.outcome.tail, ReplyTail::None);
    // 45 does not exist, and whatever else was said is a record (SB-84, WR-3).
    assert!(said(&tap, 45).is_empty());
    assert_eq!(said(&tap, 44).len(), 1);
}
