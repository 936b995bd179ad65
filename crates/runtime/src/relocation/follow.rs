//! Message Follow: the former owner forwards what still comes to it (RL-150 to RL-163).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use spotlane_location::cache::Tenure;
use spotlane_relocation::identity::AuthorityView;
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::{HopCount, ReplyRouteId};
use spotlane_types::id::ActorId;
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::command::follow::{
    FollowNotice, FollowRoute as WireRoute, MessageFollow, NoticeHopCount,
};
use spotlane_wire::command::message::{ActorRequest, ActorSend};
use spotlane_wire::frozen::FrozenSource;
use spotlane_wire::reference::{ActorRef, ActorRouteFence};

use crate::core::Core;
use crate::error::Error;
use crate::inbound::refuse;
use crate::message::{Message, Origin, PeerOrigin, ReplyTo};
use crate::remote;

/// One committed route of a former owner: both tenures and an end (RL-151).
#[derive(Debug)]
pub(crate) struct FollowRoute {
    source: Tenure,
    target: Tenure,
    /// On the host's clock; nothing moves it (RL-150).
    until: Duration,
    /// RL-163: one marker per route.
    noticed: AtomicBool,
}

impl FollowRoute {
    pub(super) fn new(
        core: &Core,
        source: &Tenure,
        row: &AuthorityView,
        until: Monotonic,
    ) -> Option<Self> {
        let target = Tenure {
            object: source.object.clone(),
            object_generation: row.object_generation,
            node_rid: row.owner.node_rid.clone(),
            node_generation: row.owner.node_generation,
            authority_owner_generation: row.authority_owner_generation,
            owner_lease_generation: row.owner.owner_lease_generation,
        };
        // A route to oneself: the object came back before its commit away was seen.
        if core.is_here(&target) {
            return None;
        }
        Some(Self {
            source: source.clone(),
            target,
            until: until.since(Monotonic::ORIGIN),
            noticed: AtomicBool::new(false),
        })
    }

    /// The tenure that ended here.
    pub(crate) fn source(&self) -> &Tenure {
        &self.source
    }

    /// The tenure that messages are forwarded to.
    pub(crate) fn target(&self) -> &Tenure {
        &self.target
    }

    fn actor_id(&self) -> Option<&ActorId> {
        match &self.target.object {
            AuthorityKey::Actor(id) => Some(id),
            AuthorityKey::Spot(_) => None,
        }
    }

    /// RL-152, RL-153: whether the hop is allowed, and with which count.
    pub(crate) fn hop(
        &self,
        now: Duration,
        hops: HopCount,
        addressed: Option<&ActorRouteFence>,
    ) -> Result<HopCount, Error> {
        let no = |why: &'static str| Error::unavailable(why);
        if self.until <= now {
            return Err(no("the follow route has ended"));
        }
        if let Some(fence) = addressed {
            if fence.actor.object_generation != self.target.object_generation {
                return Err(Error::invalid("the message names another incarnation"));
            }
            let target = self.target.authority_owner_generation;
            if !target.is_after(fence.expected_authority_owner_generation) {
                return Err(no("the route does not lead forward"));
            }
        }
        HopCount::new(hops.get().saturating_add(1))
            .map_err(|_| no("the message was forwarded too often"))
    }
}

/// Forwards a message, or ends it: one terminal for a request, a recorded drop for the rest (RL-153). Reads no store and
/// runs no handler.
pub(crate) fn forward(
    core: &Arc<Core>,
    route: &Arc<FollowRoute>,
    message: Box<Message>,
    addressed: Option<&ActorRouteFence>,
) {
    let hops = match &message.from {
        Origin::Peer(peer) => peer.hops,
        Origin::Local { .. } | Origin::Frozen { .. } => HopCount::MIN,
    };
    let hop = match route.hop(core.clock.elapsed(), hops, addressed) {
        Ok(hop) => hop,
        Err(error) => return refuse(message, error),
    };
    let peer = match &message.from {
        Origin::Peer(peer) => Some((**peer).clone()),
        Origin::Local { .. } | Origin::Frozen { .. } => None,
    };
    let reply_route = message.reply_route(core);
    let sent = if reply_route.is_some() {
        forward_request(core, route, message, hop)
    } else {
        forward_send(core, route, message, hop)
    };
    match (sent, peer) {
        (Ok(()), Some(peer)) => notify(core, route, &peer, hop, reply_route),
        (Ok(()), None) => {}
        (Err(error), _) => {
            tracing::trace!(target: "spotlane::runtime::follow", %error, reason = "stale_target", "zlink.message_flow");
        }
    }
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

fn forward_send(
    core: &Arc<Core>,
    route: &FollowRoute,
    message: Box<Message>,
    hop: HopCount,
) -> Result<(), Error> {
    let id = route.actor_id().ok_or_else(|| Error::invalid("no actor"))?;
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
        message_follow_hop_count: hop,
        source_actor,
        target_actor: remote::fence_of(id, &route.target),
        // SB-34: the new owner judges the session.
        bound_session_tail: tail.map(|tail| *tail),
        metadata,
        payload: payload.into_wire(name)?,
    });
    let node = &route.target.node_rid;
    match core.mesh()?.submit(node, record) {
        Ok(()) => Ok(()),
        // RL-151: volume is not capped; a full queue is waited for.
        Err(refused) => {
            let (task, node, record) = (Arc::clone(core), node.clone(), refused.record);
            core.tasks.spawn(async move {
                let Ok(mesh) = task.mesh() else { return };
                if let Err(error) = mesh.send(&node, *record, None).await {
                    tracing::trace!(target: "spotlane::runtime::follow", %error, reason = "stale_target", "zlink.message_flow");
                }
            });
            Ok(())
        }
    }
}

/// RL-155, RL-269: with a wait of its own, and the answer goes back along the hop.
fn forward_request(
    core: &Arc<Core>,
    route: &FollowRoute,
    message: Box<Message>,
    hop: HopCount,
) -> Result<(), Error> {
    let id = route.actor_id().ok_or_else(|| Error::invalid("no actor"))?;
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
        message_follow_hop_count: hop,
        source_actor,
        target_actor: remote::fence_of(id, &route.target),
        // SB-34: the new owner judges the session.
        bound_session_tail: tail.map(|tail| *tail),
        metadata,
        payload: payload.into_wire(name.clone())?,
    });
    let (task, node) = (Arc::clone(core), route.target.node_rid.clone());
    let left = route.until.saturating_sub(core.clock.elapsed());
    let window = core.settings.all.default_request_timeout.min(left);
    let key = (operation, ReplyRouteId::new(correlation.get())?);
    let mut hop = Box::pin(async move {
        let deadline = task.deadline(window);
        let outcome = remote::tracked(&task, &node, record, key, &deadline).await;
        ReplyTo::answer(reply, &name, outcome.and_then(remote::outcome_of));
    });
    // Polled once here, so that what is forwarded keeps the order in which it came.
    let done = {
        let hop: Pin<&mut _> = hop.as_mut();
        poll_now(hop)
    };
    if !done {
        core.tasks.spawn(hop);
    }
    Ok(())
}

/// Polls a future once; its next poll brings a waker that counts.
fn poll_now(future: Pin<&mut (impl Future<Output = ()> + ?Sized)>) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    matches!(future.poll(&mut context), Poll::Ready(()))
}

/// RL-160, RL-162, RL-163: the sender is told once per route; sent or not, nothing depends on it.
fn notify(
    core: &Core,
    route: &FollowRoute,
    peer: &PeerOrigin,
    hop: HopCount,
    reply_route: Option<ReplyRouteId>,
) {
    let Some(id) = route.actor_id() else { return };
    let Ok(hop_count) = NoticeHopCount::new(hop) else {
        return;
    };
    if route.noticed.swap(true, Ordering::AcqRel) {
        return;
    }
    let notice = Record::from(MessageFollow {
        route: FollowNotice {
            source: WireRoute::Actor {
                actor: remote::fence_of(id, &route.source),
            },
            target: WireRoute::Actor {
                actor: remote::fence_of(id, &route.target),
            },
            hop_count,
            queued_messages: 0,
            queued_bytes: 0,
            original_operation: peer.operation,
            original_reply_route_id: reply_route.map_or(0, ReplyRouteId::get),
        },
    });
    let sent = core.mesh().map(|mesh| mesh.submit(&peer.node, notice));
    if !matches!(sent, Ok(Ok(()))) {
        route.noticed.store(false, Ordering::Release);
    }
}
