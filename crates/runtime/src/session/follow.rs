//! Binds and disconnect notices for an Actor that has moved on: sent after it, once (SB-24, RL-157).
//!
//! Command 38 names no session owner, because its authenticated sender is it (SB-12). A former owner therefore forwards
//! it as a request to the Actor, under a name of the framework and with the session owner in its payload, so that it
//! takes every way that a message takes: along a Follow route, and through the hold of a move. Where it arrives it is
//! judged as command 38 is, and a bind answers with the tenure that has registered it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use spotlane_relocation::saved::binding_record;
use spotlane_relocation::unit::{Binding, SessionOwner as MovedOwner};
use spotlane_session::actor::CarriedBinding;
use spotlane_session::{ActorRoute, BindAnswer, BindRefusal, SessionIdentity, SessionOwner};
use spotlane_types::count::{HopCount, ReplyRouteId, SessionSequence};
use spotlane_types::generation::{AuthorityOwnerGeneration, BindingGeneration};
use spotlane_types::id::{ActorId, OperationId, RelocationId};
use spotlane_wire::Record;
use spotlane_wire::command::follow::{
    FollowNotice, FollowRoute as WireRoute, MessageFollow, NoticeHopCount,
};
use spotlane_wire::command::session::BoundSessionBind;
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::reference::{ActorRouteFence, BindingTransition};

use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::inbound::refuse_stale;
use crate::message::{Answer, Message, Origin, Outcome, PeerOrigin, ReplyTo};
use crate::payload::Payload;
use crate::relocation;
use crate::session::actor::{self, BindReply};
use crate::session::{bindings, to_node};
use crate::slots::Unit;
use spotlane_types::id::{NodeRid, PacketName};

/// A bind on its way after the Actor.
const BIND: &str = "$zlink.bound-session-bind";
/// A disconnect notice on its way after the Actor.
const END: &str = "$zlink.bound-session-end";

/// Whether a message is one of these two.
pub(crate) fn is_followed(name: &PacketName) -> bool {
    is_followed_name(name.as_bytes())
}

/// As [`is_followed`].
pub(crate) fn is_followed_name(name: &[u8]) -> bool {
    name == BIND.as_bytes() || name == END.as_bytes()
}

/// Sends a bind or notice along a Follow route, or refuses it (RL-152, RL-153).
pub(super) fn forward(
    core: &Arc<Core>,
    from: SessionOwner,
    bind: &BoundSessionBind,
    reply: BindReply,
    hops: HopCount,
) {
    if let Err(error) = relocation::may_hop(core, &bind.actor, hops) {
        return actor::answer(core, reply, Err(refusal(&error)));
    }
    let addressed = bind.actor.clone();
    if let Some(message) = message(core, from, bind, reply, hops) {
        let id = &addressed.actor.actor_id;
        if let Err(message) = relocation::forward(core, id, message, Some(&addressed)) {
            // SB-70: the route has ended in between.
            refuse_stale(message);
        }
    }
}

/// A bind or notice as a request to the Actor. What cannot be encoded ends here.
pub(super) fn message(
    core: &Arc<Core>,
    from: SessionOwner,
    bind: &BoundSessionBind,
    reply: BindReply,
    hops: HopCount,
) -> Option<Box<Message>> {
    let (name, generation) = match bind.binding {
        BindingTransition::Active { binding_generation } => (BIND, binding_generation),
        BindingTransition::Tombstone {
            retired_binding_generation,
        } => (END, retired_binding_generation),
    };
    let origin = if from.node_rid == core.identity.rid {
        Origin::Local { actor: None }
    } else {
        Origin::Peer(PeerOrigin {
            node: from.node_rid.clone(),
            node_generation: from.node_generation,
            actor: None,
            operation: core.ids.operation(),
            hops,
        })
    };
    let session_owner = from.node_rid.clone();
    let encoded = encode(core.ids.operation(), from, bind, generation);
    let (Ok(name), Some(payload)) = (PacketName::new(name), encoded) else {
        actor::answer(core, reply, Err(BindRefusal::Failed));
        return None;
    };
    let answer = FollowAnswer {
        core: Arc::clone(core),
        reply,
        asked: bind.actor.clone(),
        session_owner,
        route: core.ids.reply_route(),
        operation: core.ids.operation(),
    };
    let reply = ReplyTo::remote(answer);
    Some(Box::new(Message::new(name, payload, None, origin, reply)))
}

/// The record that carries a binding to the target of a move carries it here as well (RL-357).
fn encode(
    operation: OperationId,
    from: SessionOwner,
    bind: &BoundSessionBind,
    generation: BindingGeneration,
) -> Option<Payload> {
    let relocation = RelocationId::new(operation.high(), operation.low()).ok()?;
    let binding = Binding {
        actor: bind.actor.clone(),
        session_owner: MovedOwner {
            node_rid: from.node_rid,
            node_generation: from.node_generation,
            owner_id: from.owner_id,
            owner_lease_generation: from.owner_lease_generation,
        },
        session_rid: bind.session_rid.clone(),
        binding_generation: generation,
        next_sequence: SessionSequence::MIN,
    };
    let record = binding_record(relocation, &binding).ok()?;
    Some(Payload::bytes(spotlane_wire::encode(&record).ok()?))
}

fn decode(payload: &Payload) -> Option<(SessionIdentity, BindingGeneration)> {
    let record: FrozenRecord = spotlane_wire::decode(payload.as_bytes()).ok()?;
    let operation = record.operation_id?;
    let relocation = RelocationId::new(operation.high(), operation.low()).ok()?;
    let binding = CarriedBinding::of_record(&record, relocation)?.ok()?;
    Some((binding.session().clone(), binding.generation()))
}

/// Takes a bind or notice that another node has forwarded, at once (SB-36). `fence` is what the hop addressed.
pub(crate) fn take(core: &Arc<Core>, fence: ActorRouteFence, message: Box<Message>) {
    let hops = match &message.from {
        Origin::Peer(peer) => peer.hops,
        Origin::Local { .. } | Origin::Frozen { .. } => HopCount::MIN,
    };
    let Message {
        name,
        payload,
        reply,
        ..
    } = *message;
    // Only a hop may speak for another node; who binds by itself sends command 38.
    let found = decode(&payload).filter(|_| hops > HopCount::MIN);
    let Some((session, generation)) = found else {
        return reply.answer(&name, Err(Error::invalid("not a bind of a session")));
    };
    let bind = BoundSessionBind {
        correlation: core.ids.correlation(),
        actor: fence,
        session_rid: session.session_rid,
        binding: transition(&name, generation),
    };
    let reply = BindReply::Message { reply, name };
    core.sessions.watch.look_again();
    actor::bind(core, session.owner, bind, reply, hops);
}

/// Takes a notice that came in the queue of its Actor (SB-65).
pub(crate) fn take_here(
    core: &Arc<Core>,
    unit: &Unit,
    name: PacketName,
    payload: &Payload,
    reply: ReplyTo,
) {
    let found = decode(payload).filter(|_| name.as_str() == END);
    let Some((session, generation)) = found else {
        return reply.answer(&name, Err(Error::invalid("not a notice of a session")));
    };
    let bind = BoundSessionBind {
        correlation: core.ids.correlation(),
        actor: unit.session.fence(),
        session_rid: session.session_rid,
        binding: transition(&name, generation),
    };
    let reply = BindReply::Message { reply, name };
    if let Err(late) = unit.session.bind(core, session.owner, bind, reply) {
        let (from, bind, reply) = *late;
        actor::bind(core, from, bind, reply, HopCount::MIN);
    }
}

fn transition(name: &PacketName, generation: BindingGeneration) -> BindingTransition {
    match name.as_str() {
        BIND => BindingTransition::Active {
            binding_generation: generation,
        },
        _ => BindingTransition::Tombstone {
            retired_binding_generation: generation,
        },
    }
}

/// What a bind or notice that was judged here answers to the hop that forwarded it.
pub(super) fn to_message(result: Result<ActorRouteFence, BindRefusal>) -> Outcome {
    match result {
        Ok(fence) => match spotlane_wire::encode(&fence) {
            Ok(bytes) => Ok(Payload::bytes(bytes)),
            Err(error) => Err(Error::internal(error.to_string())),
        },
        Err(refusal) => {
            let kind = match refusal {
                BindRefusal::OtherGeneration => ErrorKind::InvalidOperation,
                BindRefusal::ShuttingDown => ErrorKind::ShuttingDown,
                BindRefusal::Failed => ErrorKind::InternalFailure,
                BindRefusal::StaleLocation
                | BindRefusal::Sealed
                | BindRefusal::Superseded
                | BindRefusal::NoFactory => ErrorKind::Unavailable,
            };
            Err(Error::new(kind, refusal.to_string()))
        }
    }
}

fn refusal(error: &Error) -> BindRefusal {
    match error.kind() {
        ErrorKind::InvalidOperation => BindRefusal::OtherGeneration,
        ErrorKind::ShuttingDown => BindRefusal::ShuttingDown,
        ErrorKind::InternalFailure => BindRefusal::Failed,
        // SB-70
        _ => BindRefusal::StaleLocation,
    }
}

/// The way back of a bind or notice that was forwarded.
struct FollowAnswer {
    core: Arc<Core>,
    reply: BindReply,
    /// What the session owner addressed.
    asked: ActorRouteFence,
    session_owner: NodeRid,
    route: ReplyRouteId,
    operation: OperationId,
}

impl Answer for FollowAnswer {
    fn answer(self: Box<Self>, _: Option<&PacketName>, outcome: Outcome) {
        let fence = outcome.and_then(|payload| {
            let fence = spotlane_wire::decode::<ActorRouteFence>(payload.as_bytes());
            fence.map_err(|error| Error::unavailable(error.to_string()))
        });
        let fence = match fence {
            Ok(fence) => fence,
            Err(error) => return actor::answer(&self.core, self.reply, Err(refusal(&error))),
        };
        match self.reply {
            BindReply::Bind(ticket) => {
                let followed = Some(route(&self.core, &fence));
                let answer = BindAnswer::Registered { followed };
                bindings::ended(&self.core, BindReply::Bind(ticket), answer);
            }
            reply @ BindReply::Peer { asked: Some(_), .. } => {
                // RL-160: in front of the answer, so that the session owner knows where it came from.
                if let Some(notice) = notice(self.asked, &fence, self.operation, self.route) {
                    to_node(&self.core, &self.session_owner, notice);
                }
                actor::answer(&self.core, reply, Ok(fence));
            }
            reply => actor::answer(&self.core, reply, Ok(fence)),
        }
    }

    fn stale(self: Box<Self>) {
        self.answer(None, Err(Error::unavailable("the actor has moved on")));
    }

    fn gone(self: Box<Self>) {
        let gone = self.core.gone();
        self.answer(None, Err(gone));
    }

    fn route(&self) -> ReplyRouteId {
        self.route
    }

    /// The session owner asked by command 38, and waits for the answer on the connection that it came by.
    fn comes_back(&self) -> bool {
        true
    }
}

fn notice(
    source: ActorRouteFence,
    target: &ActorRouteFence,
    operation: OperationId,
    reply_route: ReplyRouteId,
) -> Option<Record> {
    let hops = HopCount::new(HopCount::MIN.get().saturating_add(1)).ok()?;
    Some(Record::from(MessageFollow {
        route: FollowNotice {
            source: WireRoute::Actor { actor: source },
            target: WireRoute::Actor {
                actor: target.clone(),
            },
            hop_count: NoticeHopCount::new(hops).ok()?,
            queued_messages: 0,
            queued_bytes: 0,
            original_operation: operation,
            original_reply_route_id: reply_route.get(),
        },
    }))
}

fn route(core: &Core, fence: &ActorRouteFence) -> ActorRoute {
    ActorRoute {
        mesh_name: core.identity.mesh.clone(),
        node_rid: fence.target_node_rid.clone(),
        node_generation: fence.target_node_generation,
        authority_owner_generation: fence.expected_authority_owner_generation,
        owner_lease_generation: fence.expected_owner_lease_generation,
    }
}

/// The binds that wait for an answer of another node, with what a hop said of where it would come from.
///
/// As many as binds are under way.
#[derive(Debug, Default)]
pub(super) struct Asked(HashMap<ActorId, BTreeMap<u64, Question>>);

#[derive(Debug)]
struct Question {
    fence: ActorRouteFence,
    followed: Option<ActorRouteFence>,
}

impl Asked {
    /// A bind is about to be sent.
    pub(super) fn add(&mut self, generation: BindingGeneration, fence: ActorRouteFence) {
        let of_actor = self.0.entry(fence.actor.actor_id.clone()).or_default();
        let question = Question {
            fence,
            followed: None,
        };
        of_actor.insert(generation.get(), question);
    }

    /// A hop says that it has sent on what was addressed to it (RL-160).
    pub(super) fn followed(&mut self, source: &ActorRouteFence, target: &ActorRouteFence) {
        if let Some(of_actor) = self.0.get_mut(&source.actor.actor_id) {
            for question in of_actor.values_mut().filter(|q| q.fence == *source) {
                question.followed = Some(target.clone());
            }
        }
    }

    /// Whether it is known where the answer of this tenure came from, or nobody waits for it.
    pub(super) fn knows(
        &self,
        id: &ActorId,
        generation: BindingGeneration,
        tenure: AuthorityOwnerGeneration,
    ) -> bool {
        self.get(id, generation).is_none_or(|question| {
            let fences = std::iter::once(&question.fence).chain(&question.followed);
            let mut tenures = fences.map(|fence| fence.expected_authority_owner_generation);
            tenures.any(|known| known == tenure)
        })
    }

    /// How many binds have no answer.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    fn get(&self, id: &ActorId, generation: BindingGeneration) -> Option<&Question> {
        self.0.get(id)?.get(&generation.get())
    }

    /// The session has its answer.
    pub(super) fn remove(&mut self, id: &ActorId, generation: BindingGeneration) {
        if let Some(of_actor) = self.0.get_mut(id) {
            of_actor.remove(&generation.get());
            if of_actor.is_empty() {
                self.0.remove(id);
            }
        }
    }
}

/// Where a bind was registered: `Ok(None)` where it was sent to.
///
/// # Errors
/// Elsewhere, and nobody said where: a binding that could not be used, so it is taken back (SB-27).
pub(super) fn registered_at(
    core: &Core,
    id: &ActorId,
    generation: BindingGeneration,
    tenure: Option<AuthorityOwnerGeneration>,
) -> Result<Option<ActorRoute>, ()> {
    let asked = core.sessions.asked();
    let question = asked.get(id, generation).ok_or(())?;
    let Some(tenure) = tenure else {
        return Ok(None);
    };
    if question.fence.expected_authority_owner_generation == tenure {
        return Ok(None);
    }
    let followed = question
        .followed
        .as_ref()
        .filter(|fence| fence.expected_authority_owner_generation == tenure);
    followed.map(|fence| Some(route(core, fence))).ok_or(())
}
