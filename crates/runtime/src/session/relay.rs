//! Packets of sessions on their way to Actors (SB-30 to SB-35).

use std::sync::Arc;

use spotlane_mesh::Asked;
use spotlane_session::{ActorRoute, Peer, RelayError, RelayForm};
use spotlane_stream::{Relay, RelayTicket};
use spotlane_stream_proto::RemoteError;
use spotlane_types::count::{HopCount, ReplyRouteId};
use spotlane_types::id::ActorId;
use spotlane_wire::Record;
use spotlane_wire::command::message::{ActorRequest, ActorSend};
use tokio::sync::oneshot;

use crate::core::Core;
use crate::inbound::redispatch;
use crate::message::{Message, Origin, Outcome, ReplyTo};
use crate::payload::Payload;
use crate::relocation::{CallKey, Registered};
use crate::remote::{outcome, request_error};
use crate::session::line::{Leaves, Lines, NotSent};
use crate::slots::Slot;

/// SB-30: straight into the Actor's queue, as from another node.
pub(super) fn here(core: &Arc<Core>, relay: Relay, mut ticket: RelayTicket) {
    let id = relay.actor.actor_id.clone();
    let slot = core.slots.get(&id);
    let here = Peer {
        node_rid: core.identity.rid.clone(),
        node_generation: core.identity.generation,
    };
    let takes = match &slot {
        Some(Slot::Live(live)) => live.unit.session.takes(Some(&here), &relay.tail),
        Some(Slot::Leaving(unit)) => unit.session().takes(Some(&here), &relay.tail),
        // As from another node: nobody is told of a place before the Actor has come there.
        Some(Slot::Arriving(_)) | None => false,
        // SB-34: the new owner judges.
        Some(Slot::Follow) => true,
    };
    if !takes {
        // SB-33; dropped, the ticket refuses the call.
        return;
    }
    let tail = matches!(slot, Some(Slot::Follow)).then_some(relay.tail);
    let (name, payload) = Payload::from_wire(relay.message.payload);
    let reply = if relay.message.form == RelayForm::Request {
        let (sender, answer) = oneshot::channel();
        ticket.accepted();
        let task = Arc::clone(core);
        core.tasks.spawn(async move {
            end(ticket, answer.await.unwrap_or_else(|_| Err(task.gone())));
        });
        ReplyTo::local(sender)
    } else {
        ticket.accepted();
        ReplyTo::NOBODY
    };
    let from = Origin::Local { actor: None };
    let message = Message::new(name, payload, relay.message.metadata, from, reply);
    let message = message.of_session(tail);
    redispatch(core, &id, Box::new(message));
}

/// SB-30, SB-31: commands 24 and 25. Nothing is sent again elsewhere (SB-35).
pub(super) fn there(core: &Arc<Core>, relay: Relay, ticket: RelayTicket) {
    let Relay {
        route,
        actor,
        tail,
        message,
    } = relay;
    let ActorRoute { node_rid, .. } = &route;
    let target_actor = route.fence(&actor);
    let operation = core.ids.operation();
    let (record, leaves) = match message.form {
        RelayForm::Send => {
            let record = Record::from(ActorSend {
                operation,
                message_follow_hop_count: HopCount::MIN,
                source_actor: None,
                target_actor,
                bound_session_tail: Some(tail),
                metadata: message.metadata,
                payload: message.payload,
            });
            (record, one_way(actor.actor_id, ticket))
        }
        RelayForm::Request => {
            let correlation = core.ids.correlation();
            let record = Record::from(ActorRequest {
                correlation,
                operation,
                message_follow_hop_count: HopCount::MIN,
                source_actor: None,
                target_actor,
                bound_session_tail: Some(tail),
                metadata: message.metadata,
                payload: message.payload,
            });
            let Ok(reply_route) = ReplyRouteId::new(correlation.get()) else {
                return;
            };
            let key = (operation, reply_route);
            (record, request(core, key, actor.actor_id, ticket))
        }
    };
    Lines::send(core, node_rid, record, leaves);
}

fn one_way(actor_id: ActorId, mut ticket: RelayTicket) -> Leaves {
    Leaves::OneWay(Box::new(move |sent| match sent {
        Ok(()) => ticket.accepted(),
        Err(why) => ticket.refused(&not_relayed(why, actor_id)),
    }))
}

fn request(core: &Arc<Core>, key: CallKey, actor_id: ActorId, mut ticket: RelayTicket) -> Leaves {
    let (sender, relayed) = oneshot::channel();
    // EX-272: before it is sent.
    core.pending.register(key, sender);
    let task = Arc::clone(core);
    Leaves::Request {
        timeout: core.settings.all.default_request_timeout,
        then: Box::new(move |asked| match asked {
            Ok(asked) => {
                ticket.accepted();
                let core = Arc::clone(&task);
                task.tasks
                    .spawn(async move { answered(&core, key, asked, relayed, ticket).await });
            }
            Err(why) => {
                drop(task.pending.take(&key));
                ticket.refused(&not_relayed(why, actor_id));
            }
        }),
    }
}

/// The answer comes on the connection of the request, or from the Actor's new owner (RL-265).
async fn answered(
    core: &Core,
    key: CallKey,
    asked: Asked,
    relayed: oneshot::Receiver<Outcome>,
    ticket: RelayTicket,
) {
    let _registered = Registered {
        pending: &core.pending,
        key,
    };
    let ended = tokio::select! {
        biased;
        answer = asked => match answer {
            Ok(reply) => outcome(reply),
            Err(error) => Err(request_error(error)),
        },
        Ok(outcome) = relayed => outcome,
    };
    end(ticket, ended);
}

fn not_relayed(why: NotSent, actor_id: ActorId) -> RelayError {
    match why {
        NotSent::Unreachable => RelayError::Unreachable { actor_id },
        NotSent::Full => RelayError::QueueFull { actor_id },
    }
}

/// EX-281: the Actor's answer completes the request of the client, once.
fn end(ticket: RelayTicket, outcome: Outcome) {
    let answer = outcome.and_then(|payload| payload.into_wire(crate::inbound::reply_name()));
    match answer {
        Ok(payload) => ticket.reply(&payload),
        Err(error) => ticket.fail(&RemoteError {
            code: error.kind().name().to_owned(),
            message: error.message().to_owned(),
        }),
    }
}
