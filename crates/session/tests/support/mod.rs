//! A session, an Actor and short names for both.

use bytes::Bytes;
use spotlane_session::actor::{ActorBinding, Tenure};
use spotlane_session::{
    ActorRoute, BindAnswer, BindCall, BindingToken, BoundActor, CallId, Machine, Peer, RelayForm,
    RelayMessage, SessionBindingAggregate, SessionEffect, SessionEvent, SessionIdentity,
    SessionOwner, SessionTimes,
};
use spotlane_types::generation::{
    AuthorityOwnerGeneration, BindingGeneration, NodeGeneration, ObjectGeneration,
    OwnerLeaseGeneration,
};
use spotlane_types::id::{NodeRid, RelocationId, SessionRid};
use spotlane_types::kind::RelocationRole;
use spotlane_types::time::Monotonic;
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::command::session::{
    BoundSessionReplaced, BoundSessionSend, SessionRelocationRoute, SessionRelocationSeal,
};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::{
    ActorRef, RelocationCoordinatorFence, RetiredBoundSessionRouteFence, SessionRouteUpdate,
};
use std::time::Duration;

pub fn ms(millis: u64) -> Monotonic {
    Monotonic::ORIGIN.after(Duration::from_millis(millis))
}

pub fn binding(number: u64) -> BindingGeneration {
    BindingGeneration::new(number).unwrap()
}

pub fn tenure_number(number: u64) -> AuthorityOwnerGeneration {
    AuthorityOwnerGeneration::new(number).unwrap()
}

pub fn actor(id: &str, incarnation: u64) -> ActorRef {
    ActorRef {
        actor_id: id.parse().unwrap(),
        object_generation: ObjectGeneration::new(incarnation).unwrap(),
    }
}

/// The route to a node in its run 1, in the given tenure of the Actor.
pub fn route(node: &str, tenure: u64) -> ActorRoute {
    ActorRoute {
        mesh_name: "world".parse().unwrap(),
        node_rid: rid(node),
        node_generation: NodeGeneration::new(1).unwrap(),
        authority_owner_generation: tenure_number(tenure),
        owner_lease_generation: OwnerLeaseGeneration::new(1).unwrap(),
    }
}

pub fn tenure(id: &str, node: &str, number: u64) -> Tenure {
    let route = route(node, number);
    Tenure {
        actor: actor(id, 1),
        node_rid: route.node_rid,
        node_generation: route.node_generation,
        authority_owner_generation: route.authority_owner_generation,
        owner_lease_generation: route.owner_lease_generation,
    }
}

pub fn rid(text: &str) -> NodeRid {
    NodeRid::new(text.as_bytes()).unwrap()
}

pub fn peer(node: &str) -> Peer {
    Peer {
        node_rid: rid(node),
        node_generation: NodeGeneration::new(1).unwrap(),
    }
}

pub fn identity(gate: &str, session: &str) -> SessionIdentity {
    SessionIdentity {
        owner: SessionOwner {
            node_rid: rid(gate),
            node_generation: NodeGeneration::new(1).unwrap(),
            owner_id: gate.parse().unwrap(),
            owner_lease_generation: OwnerLeaseGeneration::new(8).unwrap(),
        },
        session_rid: SessionRid::new(session.as_bytes()).unwrap(),
    }
}

pub fn payload(text: &str) -> ApplicationPayload {
    ApplicationPayload {
        packet_name: "note".parse().unwrap(),
        content_type: "application/json".parse().unwrap(),
        payload: PayloadBytes::new(Bytes::copy_from_slice(text.as_bytes())).unwrap(),
    }
}

pub fn message(text: &str) -> RelayMessage {
    RelayMessage {
        form: RelayForm::Request,
        metadata: None,
        payload: payload(text),
    }
}

/// A session with its effects since they were last taken.
pub struct Session {
    pub machine: SessionBindingAggregate,
    pub now: u64,
    calls: u64,
}

impl Session {
    pub fn new() -> Self {
        Self::named("gate", "session")
    }

    pub fn named(gate: &str, session: &str) -> Self {
        let machine =
            SessionBindingAggregate::new(identity(gate, session), SessionTimes::default());
        Self {
            machine,
            now: 0,
            calls: 0,
        }
    }

    pub fn call(&mut self) -> CallId {
        self.calls += 1;
        CallId::new(self.calls)
    }

    pub fn on(&mut self, event: SessionEvent) -> Vec<SessionEffect> {
        let mut out = Vec::new();
        self.machine.on_event(ms(self.now), event, &mut out);
        out
    }

    pub fn wait(&mut self, millis: u64) -> Vec<SessionEffect> {
        self.now += millis;
        let mut out = Vec::new();
        self.machine.on_deadline(ms(self.now), &mut out);
        out
    }

    pub fn ask(&mut self, actor: ActorRef, route: ActorRoute, number: u64) -> Vec<SessionEffect> {
        let call = self.call();
        self.on(SessionEvent::Bind(BindCall {
            call,
            actor,
            route,
            generation: binding(number),
        }))
    }

    pub fn answered(&mut self, number: u64, answer: BindAnswer) -> Vec<SessionEffect> {
        self.on(SessionEvent::BindAnswered {
            generation: binding(number),
            answer,
        })
    }

    /// Binds Actor `id` on node `a` in tenure 11.
    pub fn bound(&mut self, id: &str, number: u64) -> BoundActor {
        self.ask(actor(id, 1), route("a", 11), number);
        let effects = self.answered(number, BindAnswer::Registered { followed: None });
        match &effects[..] {
            [
                SessionEffect::BindEnded {
                    result: Ok(bound), ..
                },
            ] => bound.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub fn relay(&mut self, token: &BindingToken, text: &str) -> Vec<SessionEffect> {
        let call = self.call();
        let token = token.clone();
        let message = message(text);
        self.on(SessionEvent::Relay {
            call,
            token,
            message,
        })
    }

    pub fn notify(&mut self, token: &BindingToken) -> Vec<SessionEffect> {
        let call = self.call();
        let token = token.clone();
        self.on(SessionEvent::NotifyDisconnected { call, token })
    }
}

/// A push of Actor `id` by node `a`, run 1.
pub fn push(id: &str, tenure: u64, number: u64, text: &str) -> BoundSessionSend {
    BoundSessionSend {
        actor: route("a", tenure).fence(&actor(id, 1)),
        expected_binding_generation: binding(number),
        payload: payload(text),
    }
}

pub fn replaced(identity: &SessionIdentity, id: &str, number: u64) -> BoundSessionReplaced {
    BoundSessionReplaced {
        actor_authority: route("a", 11).fence(&actor(id, 1)),
        retired_session: RetiredBoundSessionRouteFence {
            session_owner_node_rid: identity.owner.node_rid.clone(),
            session_owner_node_generation: identity.owner.node_generation,
            session_owner_id: identity.owner.owner_id.clone(),
            session_owner_lease_generation: identity.owner.owner_lease_generation,
            session_rid: identity.session_rid.clone(),
            retired_binding_generation: binding(number),
        },
    }
}

pub fn coordinator() -> RelocationCoordinatorFence {
    RelocationCoordinatorFence {
        coordinator_owner_id: "a".parse().unwrap(),
        coordinator_lease_generation: OwnerLeaseGeneration::new(3).unwrap(),
        coordinator_node_rid: rid("a"),
        coordinator_node_generation: NodeGeneration::new(1).unwrap(),
        expected_authority_store_version: "v17".parse().unwrap(),
    }
}

pub fn relocation(number: u64) -> RelocationId {
    RelocationId::new(7, number).unwrap()
}

pub fn seal(identity: &SessionIdentity, id: &str, number: u64, mv: u64) -> SessionRelocationSeal {
    SessionRelocationSeal {
        relocation: relocation(mv),
        coordinator: coordinator(),
        sender_role: RelocationRole::Source,
        actor: route("a", 11).fence(&actor(id, 1)),
        session_owner_node_rid: identity.owner.node_rid.clone(),
        session_owner_node_generation: identity.owner.node_generation,
        session_owner_id: identity.owner.owner_id.clone(),
        session_owner_lease_generation: identity.owner.owner_lease_generation,
        session_rid: identity.session_rid.clone(),
        binding_generation: binding(number),
    }
}

/// The commit to node `b` in tenure 12 that ends a seal.
pub fn commit(seal: &SessionRelocationSeal) -> SessionRelocationRoute {
    let route = SessionRouteUpdate::Commit {
        previous_authority_owner_generation: tenure_number(11),
        target_authority_owner_generation: tenure_number(12),
        target_node_rid: rid("b"),
        target_node_generation: NodeGeneration::new(1).unwrap(),
        target_owner_lease_generation: OwnerLeaseGeneration::new(1).unwrap(),
    };
    update(seal, RelocationRole::Target, route)
}

pub fn abort(seal: &SessionRelocationSeal) -> SessionRelocationRoute {
    let route = SessionRouteUpdate::Abort {
        current_authority_owner_generation: tenure_number(11),
    };
    update(seal, RelocationRole::Source, route)
}

fn update(
    seal: &SessionRelocationSeal,
    role: RelocationRole,
    route: SessionRouteUpdate,
) -> SessionRelocationRoute {
    SessionRelocationRoute {
        relocation: seal.relocation,
        coordinator: seal.coordinator.clone(),
        sender_role: role,
        actor: seal.actor.actor.clone(),
        session_owner_node_rid: seal.session_owner_node_rid.clone(),
        session_owner_node_generation: seal.session_owner_node_generation,
        session_owner_id: seal.session_owner_id.clone(),
        session_owner_lease_generation: seal.session_owner_lease_generation,
        session_rid: seal.session_rid.clone(),
        binding_generation: seal.binding_generation,
        route,
    }
}

pub fn routed(update: SessionRelocationRoute) -> SessionEvent {
    SessionEvent::Route {
        mesh_name: "world".parse().unwrap(),
        update,
    }
}

/// An Actor at its owner.
pub fn at_owner(id: &str) -> ActorBinding {
    ActorBinding::new(tenure(id, "a", 11))
}
