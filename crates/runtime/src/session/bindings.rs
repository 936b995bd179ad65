//! The session owner's half: what an aggregate decides goes out, in order, and its answers come back.

use std::sync::{Arc, Weak};

use spotlane_session::{
    ActorRoute, BindAnswer, Diagnostic, Peer, RelayForm, SessionOwner, SessionTimes,
};
use spotlane_stream::{ActorBindings, BindRequest, BindTicket, NoticeTicket, Relay, RelayTicket};
use spotlane_stream_proto::RemoteError;
use spotlane_types::count::{HopCount, ReplyRouteId};
use spotlane_types::generation::{BindingGeneration, OwnerLeaseGeneration};
use spotlane_types::id::{ActorId, SessionRid};
use spotlane_wire::Record;
use spotlane_wire::command::message::{ActorRequest, ActorSend};
use spotlane_wire::command::reply::Reply;
use spotlane_wire::command::session::{BoundSessionBind, SessionRelocationSealed};
use spotlane_wire::reference::BindingTransition;
use tokio::sync::oneshot;

use crate::core::Core;
use crate::inbound::redispatch;
use crate::message::{Message, Origin, Outcome, ReplyTo};
use crate::payload::Payload;
use crate::relocation::Registered;
use crate::remote::outcome;
use crate::session::actor::{self, BindReply};
use crate::session::to_node;
use crate::slots::Slot;

/// Carries out the bindings of all sessions of a host.
pub(super) struct HostBindings(Weak<Core>);

impl HostBindings {
    pub(super) fn new(core: &Arc<Core>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(core)))
    }
}

impl ActorBindings for HostBindings {
    #[expect(
        clippy::expect_used,
        reason = "the streams of a host end before its core does"
    )]
    fn owner(&self) -> SessionOwner {
        owner(&self.0.upgrade().expect("a host that accepts clients"))
    }

    fn times(&self) -> SessionTimes {
        let mut times = SessionTimes::default();
        if let Some(core) = self.0.upgrade() {
            times.seal_timeout = core.settings.all.session_relocation_seal_timeout;
            times.lifecycle_deadline = core.settings.all.default_request_timeout;
        }
        times
    }

    fn next_generation(&self) -> BindingGeneration {
        let core = self.0.upgrade();
        core.map_or(BindingGeneration::MAX, |core| {
            core.sessions.next_generation()
        })
    }

    fn bind(&self, request: BindRequest, ticket: BindTicket) {
        let Some(core) = self.0.upgrade() else { return };
        let number = request.generation.get();
        let session = request.session_rid.clone();
        core.sessions.bound().insert(number, session);
        let binding = BindingTransition::Active {
            binding_generation: request.generation,
        };
        send_bind(&core, request, binding, BindReply::Bind(ticket));
    }

    fn tombstone(&self, request: BindRequest, ticket: Option<NoticeTicket>) {
        let Some(core) = self.0.upgrade() else { return };
        core.sessions.bound().remove(&request.generation.get());
        let binding = BindingTransition::Tombstone {
            retired_binding_generation: request.generation,
        };
        let reply = ticket.map_or(BindReply::Nobody, BindReply::Notice);
        send_bind(&core, request, binding, reply);
    }

    fn relay(&self, relay: Relay, ticket: RelayTicket) {
        let Some(core) = self.0.upgrade() else { return };
        if relay.route.node_rid == core.identity.rid {
            relay_here(&core, relay, ticket);
        } else {
            relay_there(&core, relay, ticket);
        }
    }

    fn sealed(&self, to: Peer, sealed: SessionRelocationSealed) {
        if let Some(core) = self.0.upgrade() {
            to_node(&core, &to.node_rid, Record::from(sealed));
        }
    }

    fn report(&self, _: &SessionRid, diagnostic: Diagnostic, _: &ActorId) {
        match diagnostic {
            // RL-322
            Diagnostic::LateSessionRouteUpdate => {
                tracing::warn!(target: "spotlane::runtime::session", "late_session_route_update");
            }
            Diagnostic::PushRefused => {
                tracing::debug!(target: "spotlane::runtime::session", reason = "stale_target", "zlink.message_flow");
            }
            other => {
                tracing::debug!(target: "spotlane::runtime::session", diagnostic = ?other, "a session reports");
            }
        }
    }
}

pub(super) fn owner(core: &Core) -> SessionOwner {
    let lease = core.lease.held().map(|held| held.lease().generation());
    SessionOwner {
        node_rid: core.identity.rid.clone(),
        node_generation: core.identity.generation,
        owner_id: core.identity.owner.clone(),
        owner_lease_generation: lease.unwrap_or(OwnerLeaseGeneration::MIN),
    }
}

/// SB-20: one request, to this host or to another, without a look anywhere.
fn send_bind(core: &Arc<Core>, request: BindRequest, binding: BindingTransition, reply: BindReply) {
    let BindRequest {
        session_rid,
        route,
        actor,
        ..
    } = request;
    let bind = BoundSessionBind {
        correlation: core.ids.correlation(),
        actor: route.fence(&actor),
        session_rid,
        binding,
    };
    if route.node_rid == core.identity.rid {
        return actor::bind(core, owner(core), bind, reply);
    }
    let timeout = core.settings.all.default_request_timeout;
    let mesh = core.mesh();
    let asked = mesh.map(|mesh| mesh.ask(&route.node_rid, Record::from(bind), timeout));
    let Ok(Ok(asked)) = asked else {
        return ended(reply, BindAnswer::Unreachable);
    };
    core.tasks.spawn(async move {
        let answer = match asked.await {
            Ok(answer) => {
                let Reply { outcome, .. } = answer;
                actor::from_wire(outcome.terminal_result, outcome.failure_code)
            }
            Err(_) => BindAnswer::Unanswered,
        };
        ended(reply, answer);
    });
}

fn ended(reply: BindReply, answer: BindAnswer) {
    match reply {
        BindReply::Bind(ticket) => ticket.answer(answer),
        BindReply::Notice(ticket) => {
            let answered = !matches!(answer, BindAnswer::Unanswered | BindAnswer::Unreachable);
            ticket.ended(if answered {
                spotlane_session::NoticeEnd::Answered
            } else {
                spotlane_session::NoticeEnd::Failed
            });
        }
        BindReply::Peer { .. } | BindReply::Nobody => {}
    }
}

/// SB-30: straight into the Actor's queue, as from another node.
fn relay_here(core: &Arc<Core>, relay: Relay, mut ticket: RelayTicket) {
    let id = relay.actor.actor_id.clone();
    let here = Peer {
        node_rid: core.identity.rid.clone(),
        node_generation: core.identity.generation,
    };
    if let Some(Slot::Live(live)) = core.slots.get(&id)
        && !live.unit.session.takes(&here, &relay.tail)
    {
        // SB-33; dropped, the ticket refuses the call.
        return;
    }
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
    redispatch(core, &id, Box::new(message));
}

/// SB-30, SB-31: commands 24 and 25. Nothing is sent again elsewhere (SB-35).
fn relay_there(core: &Arc<Core>, relay: Relay, mut ticket: RelayTicket) {
    let Relay {
        route,
        actor,
        tail,
        message,
    } = relay;
    let ActorRoute { node_rid, .. } = &route;
    let Ok(mesh) = core.mesh() else { return };
    let target_actor = route.fence(&actor);
    let operation = core.ids.operation();
    match message.form {
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
            if mesh.submit(node_rid, record).is_ok() {
                ticket.accepted();
            }
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
            let Ok(route) = ReplyRouteId::new(correlation.get()) else {
                return;
            };
            let key = (operation, route);
            let (sender, relayed) = oneshot::channel();
            core.pending.register(key, sender);
            let timeout = core.settings.all.default_request_timeout;
            let Ok(asked) = mesh.ask(node_rid, record, timeout) else {
                drop(core.pending.take(&key));
                return;
            };
            ticket.accepted();
            let core = Arc::clone(core);
            let task = Arc::clone(&core);
            core.tasks.spawn(async move {
                let _registered = Registered {
                    pending: &task.pending,
                    key,
                };
                let ended = tokio::select! {
                    biased;
                    answer = asked => match answer {
                        Ok(reply) => outcome(reply),
                        Err(error) => Err(crate::remote::request_error(error)),
                    },
                    Ok(outcome) = relayed => outcome,
                };
                end(ticket, ended);
            });
        }
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
