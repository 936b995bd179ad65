//! Command 38 of a session owner: what was asked, and what the answer means (SB-20 to SB-27, SB-61).

use std::time::Duration;

use anyhow::{Context as _, Result};
use spotlane_relocation::identity::ConnectionId;
use spotlane_session::{
    ActorRoute, BindAnswer, BoundActor, CallId, NoticeEnd, NoticeKind, SessionEvent,
};
use spotlane_types::generation::BindingGeneration;
use spotlane_wire::Record;
use spotlane_wire::command::session::BoundSessionBind;
use spotlane_wire::reference::{ActorRef, BindingTransition};

use super::Call;
use crate::agenda::{BindReply, Packet};
use crate::cast::session_rid;
use crate::host::target::frames;
use crate::host::{Host, Job};
use crate::mutant::Mutant;
use crate::observation::{SessionIndex, SessionSight};
use crate::shared::{Shared, Submit};

/// A command 38 that waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    session: SessionIndex,
    generation: BindingGeneration,
    what: Ask,
    connection: Option<ConnectionId>,
    pub(super) until: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Bind,
    Notice,
    /// Nobody waits for its answer (SB-27).
    Retract,
}

impl Asked {
    /// What the aggregate is told when no answer comes.
    fn unanswered(&self, bind: BindAnswer) -> Option<SessionEvent> {
        let generation = self.generation;
        match self.what {
            Ask::Bind => Some(SessionEvent::BindAnswered {
                generation,
                answer: bind,
            }),
            Ask::Notice => Some(SessionEvent::NoticeEnded {
                generation,
                end: NoticeEnd::Failed,
            }),
            Ask::Retract => None,
        }
    }
}

impl Host {
    /// SB-20: one request, to this host or to another.
    pub(super) fn request_bind(
        &mut self,
        session: SessionIndex,
        route: &ActorRoute,
        actor: ActorRef,
        generation: BindingGeneration,
        shared: &mut Shared,
    ) -> Result<()> {
        let index = shared.cast.actor_of(&actor.actor_id);
        let index = index.context("an Actor of this world")?;
        let binding = shared.cast.binding(self.index, generation);
        if let Some(unit) = self.sessions.units.get_mut(&session) {
            unit.asking.insert(index, (binding, generation));
        }
        self.sessions.bound.insert(binding, session);
        shared.sight(SessionSight::BindAsked {
            session,
            actor: index,
            binding,
        });
        let transition = BindingTransition::Active {
            binding_generation: generation,
        };
        let asked = Asked {
            session,
            generation,
            what: Ask::Bind,
            connection: None,
            until: shared.now() + shared.plan.request_timeout,
        };
        self.send_bind(route, &actor, transition, asked, shared)
    }

    pub(super) fn send_tombstone(
        &mut self,
        session: SessionIndex,
        route: &ActorRoute,
        actor: ActorRef,
        generation: BindingGeneration,
        kind: NoticeKind,
        shared: &mut Shared,
    ) -> Result<()> {
        let asked = Asked {
            session,
            generation,
            what: match kind {
                NoticeKind::Awaited => Ask::Notice,
                NoticeKind::Unawaited => Ask::Retract,
            },
            connection: None,
            until: shared.now() + shared.plan.request_timeout,
        };
        if shared.has(Mutant::LoseNotice) && asked.what == Ask::Notice {
            let end = NoticeEnd::Answered;
            let event = Box::new(SessionEvent::NoticeEnded { generation, end });
            self.jobs.push_back(Job::Session(session, event));
            return Ok(());
        }
        let transition = BindingTransition::Tombstone {
            retired_binding_generation: generation,
        };
        self.send_bind(route, &actor, transition, asked, shared)
    }

    fn send_bind(
        &mut self,
        route: &ActorRoute,
        actor: &ActorRef,
        binding: BindingTransition,
        mut asked: Asked,
        shared: &mut Shared,
    ) -> Result<()> {
        let correlation = shared.correlation();
        let bind = BoundSessionBind {
            correlation,
            actor: route.fence(actor),
            session_rid: session_rid(asked.session)?,
            binding,
        };
        let to = shared.cast.host_of(&route.node_rid);
        let to = to.context("a host of this world")?;
        if to == self.index {
            self.jobs
                .push_back(Job::Bind(Box::new(bind), self.index, 0));
        } else {
            let link = self.links.get(&to).copied();
            let packet = Packet::Bind {
                frames: frames(&Record::from(bind))?,
                owner: self.index,
                hops: 0,
            };
            if shared.send(self.index, to, link, packet) == Submit::Failed {
                if let Some(event) = asked.unanswered(BindAnswer::Unreachable) {
                    let job = Job::Session(asked.session, Box::new(event));
                    self.jobs.push_back(job);
                }
                return Ok(());
            }
            asked.connection = link;
        }
        if asked.what != Ask::Retract {
            self.sessions.asked.insert(correlation, asked);
        }
        Ok(())
    }

    /// The answer to a command 38.
    pub(in crate::host) fn bind_answered(
        &mut self,
        reply: &BindReply,
        shared: &mut Shared,
    ) -> Result<()> {
        let Some(asked) = self.sessions.asked.remove(&reply.correlation) else {
            return Ok(());
        };
        let generation = asked.generation;
        let event = match (asked.what, &reply.result) {
            (Ask::Bind, Ok(())) => SessionEvent::BindAnswered {
                generation,
                answer: BindAnswer::Registered {
                    followed: reply.followed.as_deref().cloned(),
                },
            },
            (Ask::Bind, Err(refusal)) => SessionEvent::BindAnswered {
                generation,
                answer: BindAnswer::Refused(*refusal),
            },
            (Ask::Notice | Ask::Retract, result) => SessionEvent::NoticeEnded {
                generation,
                end: match result {
                    Ok(()) => NoticeEnd::Answered,
                    Err(_) => NoticeEnd::Failed,
                },
            },
        };
        self.drive_session(asked.session, event, shared)
    }

    /// A connection is gone, and with it the answers that were to come on it.
    pub(in crate::host) fn asked_lost(&mut self, connection: ConnectionId) {
        let lost = |asked: &Asked| asked.connection == Some(connection);
        self.end_asked(lost, &BindAnswer::Unreachable);
    }

    pub(super) fn end_asked(&mut self, over: impl Fn(&Asked) -> bool, bind: &BindAnswer) {
        let jobs = &mut self.jobs;
        self.sessions.asked.retain(|_, asked| {
            let ends = over(asked);
            if let Some(event) = asked.unanswered(bind.clone()).filter(|_| ends) {
                jobs.push_back(Job::Session(asked.session, Box::new(event)));
            }
            !ends
        });
    }

    pub(super) fn bind_ended(
        &mut self,
        session: SessionIndex,
        call: CallId,
        bound: Option<BoundActor>,
        shared: &mut Shared,
    ) {
        let Some(Call::Bind(actor)) = self.end_call(session, call) else {
            return;
        };
        let Some(unit) = self.sessions.units.get_mut(&session) else {
            return;
        };
        if let Some(bound) = bound {
            unit.tokens.insert(actor, bound.token);
            return;
        }
        shared.sight(SessionSight::BindFailed { session, actor });
        if let Some(client) = shared.clients.get_mut(unit.client.0) {
            client.not_bound(session, actor);
        }
    }

    pub(super) fn end_call(&mut self, session: SessionIndex, call: CallId) -> Option<Call> {
        let unit = self.sessions.units.get_mut(&session)?;
        unit.calls.remove(&call)
    }
}
