//! Message Follow: the former owner forwards what still comes to it (RL-150 to RL-163).
//!
//! The pure [`FollowRegistry`] judges hops and notices; here are the lock around it, and the records.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spotlane_location::cache::Tenure;
use spotlane_relocation::follow::{FollowRefusal, FollowRegistry, Hop, RetainedRoute, route_to};
use spotlane_relocation::identity::AuthorityView;
use spotlane_relocation::notice::{self, Begin, Queued};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::{HopCount, ReplyRouteId};
use spotlane_types::id::ActorId;
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::command::follow::FollowRoute;
use spotlane_wire::command::message::{ActorRequest, ActorSend};
use spotlane_wire::frozen::FrozenSource;
use spotlane_wire::reference::{ActorRef, ActorRouteFence};

use super::line::{self, Onward};
use crate::clock::Deadline;
use crate::core::{Core, actor_key};
use crate::drops::{self, Reason};
use crate::error::Error;
use crate::inbound::refuse;
use crate::message::{Message, Origin, PeerOrigin, ReplyTo};
use crate::remote;

/// The committed routes of a former owner, one for each object that has left (RL-151).
#[derive(Debug, Default)]
pub(crate) struct Following {
    /// A leaf lock, taken inside of a change of a slot too.
    book: Mutex<FollowRegistry>,
}

impl Following {
    fn book(&self) -> MutexGuard<'_, FollowRegistry> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the route from a tenure that ended here to the owner in the row (RL-150).
    pub(super) fn retain(&self, source: &Tenure, row: &AuthorityView, until: Monotonic) {
        let Some(source) = route_of(source) else {
            return;
        };
        let target = route_to(&source, row);
        self.book().retain(RetainedRoute {
            source,
            target,
            until,
        });
    }

    /// The tenure that messages for an Actor are forwarded to.
    pub(crate) fn target(&self, id: &ActorId) -> Option<Tenure> {
        let book = self.book();
        let route = book.route(&actor_key(id))?;
        fence_of(&route.target).map(tenure_of)
    }

    /// The route of a tenure has ended (RL-150); that of a later one of the same object stays.
    pub(super) fn end(&self, id: &ActorId, source: &Tenure, now: Monotonic) {
        let (object, ended) = (actor_key(id), route_of(source));
        let mut book = self.book();
        book.expire(now);
        if ended.is_some_and(|ended| book.route(&object).is_some_and(|kept| kept.source == ended)) {
            book.remove(&object);
        }
    }

    /// The object has come back: nothing here leads away from it any more.
    pub(super) fn came_back(&self, id: &ActorId) {
        self.book().remove(&actor_key(id));
    }

    /// Judges one hop; a message without an address was addressed to the tenure that ended here (RL-152).
    fn hop(
        &self,
        id: &ActorId,
        now: Monotonic,
        hops: HopCount,
        addressed: Option<&ActorRouteFence>,
    ) -> Result<Hop, FollowRefusal> {
        let book = self.book();
        let addressed = if let Some(fence) = addressed {
            let actor = fence.clone();
            FollowRoute::Actor { actor }
        } else {
            let route = book.route(&actor_key(id));
            route.ok_or(FollowRefusal::NoRoute)?.source.clone()
        };
        book.hop(now, &addressed, hops)
    }
}

/// Whether the owner in a row is this run: the object came back before its commit away was seen.
pub(super) fn leads_here(core: &Core, row: &AuthorityView) -> bool {
    row.owner.node_rid == core.identity.rid && row.owner.node_generation == core.identity.generation
}

/// A tenure as routes name it.
pub(crate) fn route_of(tenure: &Tenure) -> Option<FollowRoute> {
    match &tenure.object {
        AuthorityKey::Actor(id) => Some(FollowRoute::Actor {
            actor: remote::fence_of(id, tenure),
        }),
        AuthorityKey::Spot(_) => None,
    }
}

/// The tenure that an address names.
pub(crate) fn tenure_of(fence: &ActorRouteFence) -> Tenure {
    Tenure {
        object: AuthorityKey::Actor(fence.actor.actor_id.clone()),
        object_generation: fence.actor.object_generation,
        node_rid: fence.target_node_rid.clone(),
        node_generation: fence.target_node_generation,
        authority_owner_generation: fence.expected_authority_owner_generation,
        owner_lease_generation: fence.expected_owner_lease_generation,
    }
}

const fn fence_of(route: &FollowRoute) -> Option<&ActorRouteFence> {
    match route {
        FollowRoute::Actor { actor } => Some(actor),
        FollowRoute::Spot { .. } => None,
    }
}

/// RL-153: what the caller of a refused request is told.
fn refusal(why: FollowRefusal) -> Error {
    match why {
        FollowRefusal::OtherGeneration => Error::invalid(why.to_string()),
        FollowRefusal::NoRoute
        | FollowRefusal::Expired
        | FollowRefusal::NotRising
        | FollowRefusal::TooManyHops
        | FollowRefusal::OtherOwner => Error::unavailable(why.to_string()),
    }
}

/// Whether a message to a former owner may hop on from here (RL-152, RL-153).
///
/// # Errors
/// Why not.
pub(crate) fn may_hop(
    core: &Core,
    addressed: &ActorRouteFence,
    hops: HopCount,
) -> Result<(), Error> {
    let now = Monotonic::from_origin(core.clock.elapsed());
    let following = &core.moves.following;
    let hop = following.hop(&addressed.actor.actor_id, now, hops, Some(addressed));
    hop.map(drop).map_err(refusal)
}

/// Forwards a message, or ends it: one terminal for a request, a recorded drop for the rest (RL-153). Reads no store and
/// runs no handler.
///
/// # Errors
/// The message, when there is no route: something else stands in the object's place by now, or nothing does.
pub(crate) fn forward(
    core: &Arc<Core>,
    id: &ActorId,
    message: Box<Message>,
    addressed: Option<&ActorRouteFence>,
) -> Result<(), Box<Message>> {
    let hops = match &message.from {
        Origin::Peer(peer) => peer.hops,
        Origin::Local { .. } | Origin::Frozen { .. } => HopCount::MIN,
    };
    let now = Monotonic::from_origin(core.clock.elapsed());
    let hop = match core.moves.following.hop(id, now, hops, addressed) {
        Ok(hop) => hop,
        Err(FollowRefusal::NoRoute) => return Err(message),
        Err(why) => {
            refuse(message, refusal(why));
            return Ok(());
        }
    };
    let peer = match &message.from {
        Origin::Peer(peer) => Some(peer.clone()),
        Origin::Local { .. } | Origin::Frozen { .. } => None,
    };
    let reply_route = message.reply_route(core);
    let sent = if reply_route.is_some() {
        forward_request(core, &hop, message)
    } else {
        forward_send(core, &hop, message)
    };
    match (sent, peer) {
        (Ok(()), Some(peer)) => notify(core, &hop, &peer, reply_route),
        (Ok(()), None) => {}
        (Err(error), _) => drops::record(Reason::StaleTarget, 1, &error),
    }
    Ok(())
}

fn sender_of(message: &Message) -> Option<ActorRef> {
    match &message.from {
        Origin::Local { actor } => actor.as_deref().cloned(),
        Origin::Peer(peer) => peer.actor.clone(),
        Origin::Frozen { source, .. } => match &**source {
            FrozenSource::Actor { source_actor, .. } => Some(source_actor.clone()),
            _ => None,
        },
    }
}

fn forward_send(core: &Arc<Core>, hop: &Hop, message: Box<Message>) -> Result<(), Error> {
    let fence = fence_of(&hop.target).ok_or_else(|| Error::invalid("no actor"))?;
    let operation = message.operation(core);
    let source_actor = sender_of(&message);
    let Message {
        name,
        payload,
        metadata,
        tail,
        ..
    } = *message;
    let record = Record::from(ActorSend {
        operation,
        message_follow_hop_count: hop.hops,
        source_actor,
        target_actor: fence.clone(),
        // SB-34: the new owner judges the session.
        bound_session_tail: tail.map(|tail| *tail),
        metadata,
        payload: payload.into_wire(name)?,
    });
    let onward = Onward::Send(Box::new(record));
    line::send_on(core, &fence.target_node_rid, onward, window(core, hop));
    Ok(())
}

/// RL-155: how long a hop waits by itself.
fn window(core: &Core, hop: &Hop) -> Deadline {
    let left = hop
        .until
        .since(Monotonic::from_origin(core.clock.elapsed()));
    core.deadline(core.settings.all.default_request_timeout.min(left))
}

/// RL-155, RL-269: with a wait of its own, and the answer goes back along the hop.
fn forward_request(core: &Arc<Core>, hop: &Hop, message: Box<Message>) -> Result<(), Error> {
    let fence = fence_of(&hop.target).ok_or_else(|| Error::invalid("no actor"))?;
    let operation = message.operation(core);
    let correlation = core.ids.correlation();
    let source_actor = sender_of(&message);
    let Message {
        name,
        payload,
        metadata,
        reply,
        tail,
        ..
    } = *message;
    let record = Record::from(ActorRequest {
        correlation,
        operation,
        message_follow_hop_count: hop.hops,
        source_actor,
        target_actor: fence.clone(),
        // SB-34: the new owner judges the session.
        bound_session_tail: tail.map(|tail| *tail),
        metadata,
        payload: payload.into_wire(name.clone())?,
    });
    let (task, node) = (Arc::clone(core), fence.target_node_rid.clone());
    let window = window(core, hop);
    let key = (operation, ReplyRouteId::new(correlation.get())?);
    let ask = Box::pin(async move {
        let outcome = remote::tracked(&task, &node, record, key, &window).await;
        ReplyTo::answer(reply, &name, outcome.and_then(remote::outcome_of));
    });
    line::send_on(core, &fence.target_node_rid, Onward::Ask(ask), window);
    Ok(())
}

/// RL-160, RL-162, RL-163: the sender is told once per route; sent or not, nothing depends on it.
fn notify(core: &Core, hop: &Hop, peer: &PeerOrigin, reply_route: Option<ReplyRouteId>) {
    let following = &core.moves.following;
    let begun = following.book().notices().begin(&hop.source, &hop.target);
    let Begin::Granted(claim) = begun else { return };
    let notice = notice::notice(hop, Queued::default(), peer.operation, reply_route);
    let sent = notice
        .zip(core.mesh().ok())
        .is_some_and(|(notice, mesh)| mesh.submit(&peer.node, notice).is_ok());
    let mut book = following.book();
    if sent {
        book.notices().mark_sent(&claim);
    } else {
        book.notices().abort(&claim);
    }
}
