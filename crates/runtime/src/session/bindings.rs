//! The session owner's half: what an aggregate decides goes out, in order, and its answers come back.

use std::sync::{Arc, Weak};
use std::time::Duration;

use spotlane_session::{BindAnswer, Diagnostic, NoticeEnd, Peer, SessionOwner, SessionTimes};
use spotlane_stream::{ActorBindings, BindRequest, BindTicket, NoticeTicket, Relay, RelayTicket};
use spotlane_types::count::HopCount;
use spotlane_types::generation::{
    AuthorityOwnerGeneration, BindingGeneration, OwnerLeaseGeneration,
};
use spotlane_types::id::{ActorId, SessionRid};
use spotlane_wire::Record;
use spotlane_wire::command::reply::{Reply, ReplyTail};
use spotlane_wire::command::session::{BoundSessionBind, SessionRelocationSealed};
use spotlane_wire::reference::BindingTransition;

use crate::core::Core;
use crate::session::actor::{self, BindReply};
use crate::session::line::{Leaves, Lines};
use crate::session::{follow, relay, to_node};

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
            let settings = &core.settings.all;
            times.seal_timeout = settings.session_relocation_seal_timeout;
            times.replacement_callback_timeout = settings.session_replacement_callback_timeout;
            times.lifecycle_deadline = settings.default_request_timeout;
        }
        times
    }

    fn admitted_for(&self) -> Option<Duration> {
        let core = self.0.upgrade()?;
        Some(core.lease.admits_for(core.clock))
    }

    fn next_generation(&self) -> BindingGeneration {
        let core = self.0.upgrade();
        core.map_or(BindingGeneration::MAX, |core| {
            core.sessions.next_generation()
        })
    }

    fn bind(&self, request: BindRequest, ticket: BindTicket) {
        let Some(core) = self.0.upgrade() else { return };
        let (session, actor) = (request.session_rid.clone(), request.actor.actor_id.clone());
        let mut numbers = core.sessions.numbers();
        numbers.add(session, actor, request.generation);
        drop(numbers);
        let binding = BindingTransition::Active {
            binding_generation: request.generation,
        };
        send_bind(&core, request, binding, BindReply::Bind(ticket));
    }

    fn tombstone(&self, request: BindRequest, ticket: Option<NoticeTicket>) {
        let Some(core) = self.0.upgrade() else { return };
        if ticket.is_none() {
            // SB-27: it was perhaps never made, and nobody hears of its end.
            core.sessions.numbers().remove(request.generation);
        }
        let binding = BindingTransition::Tombstone {
            retired_binding_generation: request.generation,
        };
        let reply = ticket.map_or(BindReply::Nobody, BindReply::Notice);
        send_bind(&core, request, binding, reply);
    }

    fn relay(&self, relay: Relay, ticket: RelayTicket) {
        let Some(core) = self.0.upgrade() else { return };
        if relay.route.node_rid == core.identity.rid {
            relay::here(&core, relay, ticket);
        } else {
            relay::there(&core, relay, ticket);
        }
    }

    fn session_ended(&self, session: &SessionRid) {
        if let Some(core) = self.0.upgrade() {
            core.sessions.numbers().remove_session(session);
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
        return actor::bind(core, owner(core), bind, reply, HopCount::MIN);
    }
    let actor_id = bind.actor.actor.actor_id.clone();
    let named = match bind.binding {
        BindingTransition::Active { binding_generation } => {
            let mut asked = core.sessions.asked();
            asked.add(binding_generation, bind.actor.clone());
            Some((actor_id, binding_generation))
        }
        BindingTransition::Tombstone { .. } => None,
    };
    let task = Arc::clone(core);
    let leaves = Leaves::Request {
        timeout: core.settings.all.default_request_timeout,
        then: Box::new(move |answer| {
            let Ok(answer) = answer else {
                return answered(&task, named, reply, BindAnswer::Unreachable, None);
            };
            let core = Arc::clone(&task);
            task.tasks.spawn(async move {
                let (answer, tenure) = match answer.await {
                    Ok(Reply { outcome, .. }) => {
                        let tenure = match outcome.tail {
                            ReplyTail::StreamBind(tail) => Some(tail.authority_owner_generation),
                            _ => None,
                        };
                        let (result, failure) = (outcome.terminal_result, outcome.failure_code);
                        (actor::from_wire(result, failure), tenure)
                    }
                    Err(_) => (BindAnswer::Unanswered, None),
                };
                if let (Some((id, generation)), Some(tenure)) = (&named, tenure) {
                    let within = core.settings.all.send_timeout;
                    core.sessions.told_of(id, *generation, tenure, within).await;
                }
                answered(&core, named, reply, answer, tenure);
            });
        }),
    };
    Lines::send(core, &route.node_rid, Record::from(bind), leaves);
}

/// SB-24: the answer to a bind or notice of another node, with the place that it came from.
fn answered(
    core: &Core,
    bind: Option<(ActorId, BindingGeneration)>,
    reply: BindReply,
    answer: BindAnswer,
    tenure: Option<AuthorityOwnerGeneration>,
) {
    let Some((id, generation)) = bind else {
        return ended(core, reply, answer);
    };
    let answer = match (answer, follow::registered_at(core, &id, generation, tenure)) {
        (BindAnswer::Registered { .. }, Ok(followed)) => BindAnswer::Registered { followed },
        (BindAnswer::Registered { .. }, Err(())) => BindAnswer::Unanswered,
        (answer, _) => answer,
    };
    core.sessions.asked().remove(&id, generation);
    ended(core, reply, answer);
}

/// A bind or notice of this host has its answer.
pub(super) fn ended(core: &Core, reply: BindReply, answer: BindAnswer) {
    match reply {
        BindReply::Bind(ticket) => {
            let mut numbers = core.sessions.numbers();
            match answer {
                BindAnswer::Registered { .. } => numbers.made(ticket.generation()),
                BindAnswer::Refused(_) => numbers.remove(ticket.generation()),
                // SB-27: taken back by a tombstone.
                BindAnswer::Unanswered | BindAnswer::Unreachable => {}
            }
            drop(numbers);
            ticket.answer(answer);
        }
        BindReply::Notice(ticket) => {
            core.sessions.numbers().remove(ticket.generation());
            ticket.ended(match answer {
                BindAnswer::Registered { .. } => NoticeEnd::Answered,
                // Not current there is as good as ended, and so it is answered.
                BindAnswer::Refused(_) | BindAnswer::Unanswered | BindAnswer::Unreachable => {
                    NoticeEnd::Failed
                }
            });
        }
        BindReply::Peer { .. } | BindReply::Message { .. } | BindReply::Nobody => {}
    }
}
