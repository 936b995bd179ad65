//! The session owner's half: the aggregates of a host's sessions, and everything that they ask for, in its order.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use spotlane_relocation::identity::ConnectionId;
use spotlane_session::{
    ActorRoute, BindAnswer, BindingToken, BoundActor, CallId, CallbackEnd, Machine as _, NoticeEnd,
    NoticeKind, SessionBindingAggregate, SessionEffect, SessionEvent,
};
use spotlane_types::count::{Correlation, SessionSequence};
use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::RelocationId;
use spotlane_wire::Record;
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::command::session::{
    BoundSessionBind, SessionRelocationSeal, SessionRelocationSealed,
};
use spotlane_wire::reference::{ActorRef, BindingTransition};

use super::target::frames;
use super::{Host, Job};
use crate::agenda::{BindReply, Packet};
use crate::cast::{Sender, push_of, session_rid};
use crate::mutant::Mutant;
use crate::observation::{
    ActorIndex, Answer, BindingNumber, ClientIndex, Ending, Kind, Loss, MessageId, SessionIndex,
    SessionSight,
};
use crate::shared::{Shared, Submit, monotonic, since_origin};

/// The sessions of a host.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub(super) units: BTreeMap<SessionIndex, SessionUnit>,
    /// SB-10: counted by this run of the host.
    pub(super) last_generation: u64,
    /// Which session a binding belongs to: a push names nothing else.
    pub(super) bound: BTreeMap<BindingNumber, SessionIndex>,
    asked: BTreeMap<Correlation, Asked>,
    /// The first route to each Actor that this host ever bound along.
    pub(super) first: BTreeMap<ActorIndex, (ActorRef, ActorRoute)>,
    /// Calls that had no end when their session was over.
    unended: usize,
    /// Seals that a mutant has answered and not installed.
    pub(super) late_seals: Vec<(Duration, SessionIndex, SessionRelocationSeal)>,
}

/// Whether the client can be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Open,
    /// SB-53: only what the replaced callback sends.
    Closing,
    Closed,
}

/// A call of the session's handler that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Bind(ActorIndex),
    Relay(RelayCall),
    Notify,
}

/// A message on its way through the aggregate.
#[derive(Clone, Copy, Debug)]
pub(super) struct RelayCall {
    pub(super) message: MessageId,
    pub(super) actor: ActorIndex,
    pub(super) kind: Kind,
}

/// A binding as it was last seen.
#[derive(Clone, Debug)]
pub(super) struct Known {
    binding: BindingNumber,
    generation: BindingGeneration,
    bound: BoundActor,
}

/// One connection of a client.
#[derive(Debug)]
pub(super) struct SessionUnit {
    machine: SessionBindingAggregate,
    pub(super) client: ClientIndex,
    pub(super) wire: Wire,
    calls: BTreeMap<CallId, Call>,
    next_call: u64,
    /// The handles of the handler, also those whose binding has ended.
    pub(super) tokens: BTreeMap<ActorIndex, BindingToken>,
    known: BTreeMap<ActorIndex, Known>,
    /// The binding that was asked for last.
    asking: BTreeMap<ActorIndex, (BindingNumber, BindingGeneration)>,
    /// The moves for which it holds.
    sealed: BTreeMap<ActorIndex, RelocationId>,
    held: BTreeMap<MessageId, CallId>,
    callback: Option<(Duration, CallbackEnd)>,
}

/// A command 38 that waits for its answer.
#[derive(Debug)]
struct Asked {
    session: SessionIndex,
    generation: BindingGeneration,
    what: Ask,
    connection: Option<ConnectionId>,
    until: Duration,
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

impl SessionUnit {
    pub(super) fn new(machine: SessionBindingAggregate, client: ClientIndex) -> Self {
        Self {
            machine,
            client,
            wire: Wire::Open,
            calls: BTreeMap::new(),
            next_call: 1,
            tokens: BTreeMap::new(),
            known: BTreeMap::new(),
            asking: BTreeMap::new(),
            sealed: BTreeMap::new(),
            held: BTreeMap::new(),
            callback: None,
        }
    }

    /// A number for a call of the handler.
    pub(super) fn call(&mut self, call: Call) -> CallId {
        let id = CallId::new(self.next_call);
        self.next_call = self.next_call.saturating_add(1);
        self.calls.insert(id, call);
        id
    }

    fn next_at(&self) -> Option<Duration> {
        let machine = self.machine.next_deadline().map(since_origin);
        let callback = self.callback.map(|(at, _)| at);
        [machine, callback].into_iter().flatten().min()
    }
}

impl Sessions {
    /// All of them.
    pub(super) fn all(&self) -> Vec<SessionIndex> {
        self.units.keys().copied().collect()
    }

    /// When something of a session is due.
    pub(super) fn next_at(&self) -> Option<Duration> {
        let units = self.units.values().filter_map(SessionUnit::next_at).min();
        let asked = self.asked.values().map(|asked| asked.until).min();
        let late = self.late_seals.iter().map(|(at, ..)| *at).min();
        [units, asked, late].into_iter().flatten().min()
    }

    /// Whether the connection of a session is gone.
    pub(super) fn is_closed(&self, session: SessionIndex) -> bool {
        let unit = self.units.get(&session);
        unit.is_none_or(|unit| unit.wire == Wire::Closed)
    }

    /// The session of a held message, and its call.
    fn holder(&self, message: MessageId) -> Option<(SessionIndex, CallId)> {
        self.units.iter().find_map(|(session, unit)| {
            let call = unit.held.get(&message)?;
            Some((*session, *call))
        })
    }

    /// The session that holds an Actor, if it is in the hands of one, with the binding.
    pub(super) fn holders(
        &self,
        actor: ActorIndex,
    ) -> impl Iterator<Item = (SessionIndex, BindingNumber)> {
        self.units.iter().filter_map(move |(session, unit)| {
            let known = unit.known.get(&actor)?;
            (unit.wire != Wire::Closed).then_some((*session, known.binding))
        })
    }

    /// What should not be here when nothing happens any more.
    pub(super) fn residents(&self) -> Vec<String> {
        let mut left = Vec::new();
        if self.unended > 0 {
            left.push(format!("{} calls that never ended", self.unended));
        }
        if !self.asked.is_empty() {
            left.push(format!("{} requests about bindings", self.asked.len()));
        }
        for (session, unit) in &self.units {
            if unit.wire != Wire::Open {
                left.push(format!("{session:?}, which is {:?}", unit.wire));
            }
            let open = [unit.sealed.len(), unit.held.len(), unit.calls.len()];
            if open != [0; 3] {
                let [sealed, held, calls] = open;
                left.push(format!(
                    "{session:?} with {sealed} seals, {held} held messages and {calls} calls"
                ));
            }
        }
        left
    }
}

/// What the mutants make of a release.
fn spoil_release(effects: &mut Vec<SessionEffect>, shared: &Shared) {
    let submits = |effect: &SessionEffect| matches!(effect, SessionEffect::SubmitRelay { .. });
    if shared.has(Mutant::RouteTwice) {
        let again: Vec<SessionEffect> =
            effects.iter().filter(|one| submits(one)).cloned().collect();
        effects.extend(again);
    }
    if shared.has(Mutant::HeldBackwards) {
        effects.reverse();
    }
}

impl Host {
    /// One event for the aggregate of a session.
    pub(super) fn drive_session(
        &mut self,
        session: SessionIndex,
        event: SessionEvent,
        shared: &mut Shared,
    ) -> Result<()> {
        let now = monotonic(shared.now());
        let Some(unit) = self.sessions.units.get_mut(&session) else {
            return Ok(());
        };
        if shared.has(Mutant::KeepSession) && unit.wire == Wire::Closed {
            return Ok(());
        }
        let releases = matches!(event, SessionEvent::Route { .. });
        let mut effects = Vec::new();
        unit.machine.on_event(now, event, &mut effects);
        if releases {
            spoil_release(&mut effects, shared);
        }
        self.session_effects(session, effects, shared)
    }

    /// Carries effects out, between what they are based on and what they end.
    pub(super) fn session_effects(
        &mut self,
        session: SessionIndex,
        effects: Vec<SessionEffect>,
        shared: &mut Shared,
    ) -> Result<()> {
        self.note_bound(session, shared);
        for effect in effects {
            self.session_effect(session, effect, shared)?;
        }
        self.note_unbound(session, shared);
        let over = self.sessions.units.get(&session);
        if over.is_some_and(|unit| unit.machine.is_over() && unit.wire == Wire::Closed)
            && let Some(unit) = self.sessions.units.remove(&session)
        {
            self.sessions.unended += unit.calls.len();
            self.sessions.bound.retain(|_, owner| *owner != session);
        }
        Ok(())
    }

    /// Notes what has come into force, and where routes lead now.
    fn note_bound(&mut self, session: SessionIndex, shared: &mut Shared) {
        let Some(unit) = self.sessions.units.get_mut(&session) else {
            return;
        };
        let mut seen = Vec::new();
        for bound in unit.machine.bound() {
            let Some(actor) = shared.cast.actor_of(&bound.actor.actor_id) else {
                continue;
            };
            let tenure = bound.route.authority_owner_generation;
            let before = unit.known.get(&actor);
            let same = before.filter(|known| known.bound.token == bound.token);
            let (binding, generation) = match (same, unit.asking.get(&actor)) {
                (Some(known), _) => (known.binding, known.generation),
                (None, Some(asked)) => *asked,
                (None, None) => continue,
            };
            if let Some(known) = before.filter(|_| same.is_none()) {
                let binding = known.binding;
                seen.push(SessionSight::Unbound {
                    session,
                    actor,
                    binding,
                });
            }
            match same {
                None => seen.push(SessionSight::Bound {
                    session,
                    actor,
                    binding,
                    tenure,
                }),
                Some(known) if known.bound.route.authority_owner_generation != tenure => {
                    seen.push(SessionSight::Rerouted {
                        session,
                        actor,
                        tenure,
                    });
                }
                Some(_) => {}
            }
            let known = Known {
                binding,
                generation,
                bound,
            };
            unit.known.insert(actor, known);
        }
        for seen in seen {
            shared.sight(seen);
        }
    }

    /// Notes what is not in force any more.
    fn note_unbound(&mut self, session: SessionIndex, shared: &mut Shared) {
        let Some(unit) = self.sessions.units.get_mut(&session) else {
            return;
        };
        let machine = &unit.machine;
        let mut ended = Vec::new();
        unit.known.retain(|actor, known| {
            let stays = machine.find(&known.bound.actor.actor_id).is_some();
            if !stays {
                ended.push((*actor, known.binding));
            }
            stays
        });
        for (actor, binding) in ended {
            unit.sealed.remove(&actor);
            shared.sight(SessionSight::Unbound {
                session,
                actor,
                binding,
            });
        }
    }

    fn session_effect(
        &mut self,
        session: SessionIndex,
        effect: SessionEffect,
        shared: &mut Shared,
    ) -> Result<()> {
        match effect {
            SessionEffect::RequestBind {
                route,
                actor,
                generation,
            } => self.request_bind(session, &route, actor, generation, shared)?,
            SessionEffect::SendTombstone {
                route,
                actor,
                generation,
                kind,
            } => self.send_tombstone(session, &route, actor, generation, kind, shared)?,
            SessionEffect::BindEnded { call, result } => {
                self.bind_ended(session, call, result.ok(), shared);
            }
            SessionEffect::NotifyEnded { call, .. } => {
                self.end_call(session, call);
            }
            SessionEffect::SubmitRelay {
                call,
                route,
                actor,
                tail,
                ..
            } => self.submit_relay(session, call, (&route, &actor, tail), shared)?,
            SessionEffect::RelayHeld { call } => self.relay_held(session, call, shared),
            SessionEffect::RelayFailed { call, .. } => {
                self.relay_failed(session, call, shared)?;
            }
            SessionEffect::DeliverPush { payload, .. } => {
                let push = push_of(&payload)?;
                shared.sight(SessionSight::Delivered { session, push });
            }
            SessionEffect::BeginClosing => {
                if let Some(unit) = self.sessions.units.get_mut(&session) {
                    unit.wire = Wire::Closing;
                }
            }
            SessionEffect::RunReplacedCallback { .. } => self.run_callback(session, shared),
            SessionEffect::SendSealed { sealed, .. } => {
                // The mutant has answered already.
                if !shared.has(Mutant::SealedTooEarly) {
                    self.send_sealed(session, *sealed, shared)?;
                }
            }
            SessionEffect::CloseConnection { cause } => {
                self.close_wire(session, cause.into(), shared);
            }
            SessionEffect::Finished => shared.sight(SessionSight::Over { session }),
            SessionEffect::Report {
                diagnostic,
                actor_id,
            } => {
                let actor = shared.cast.actor_of(&actor_id);
                let actor = actor.context("an Actor of this world")?;
                shared.sight(SessionSight::Reported {
                    session,
                    actor,
                    what: diagnostic,
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// SB-20: one request, to this host or to another.
    fn request_bind(
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

    fn send_tombstone(
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
    pub(super) fn bind_answered(&mut self, reply: &BindReply, shared: &mut Shared) -> Result<()> {
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
    pub(super) fn asked_lost(&mut self, connection: ConnectionId) {
        let lost = |asked: &Asked| asked.connection == Some(connection);
        self.end_asked(lost, &BindAnswer::Unreachable);
    }

    fn end_asked(&mut self, over: impl Fn(&Asked) -> bool, bind: &BindAnswer) {
        let jobs = &mut self.jobs;
        self.sessions.asked.retain(|_, asked| {
            let ends = over(asked);
            if let Some(event) = asked.unanswered(bind.clone()).filter(|_| ends) {
                jobs.push_back(Job::Session(asked.session, Box::new(event)));
            }
            !ends
        });
    }

    fn bind_ended(
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

    /// Commands 24 and 25 (SB-30, SB-31).
    fn submit_relay(
        &mut self,
        session: SessionIndex,
        call: CallId,
        to: (&ActorRoute, &ActorRef, BoundSessionTail),
        shared: &mut Shared,
    ) -> Result<()> {
        let Some(Call::Relay(relay)) = self.end_call(session, call) else {
            return Ok(());
        };
        if let Some(unit) = self.sessions.units.get_mut(&session) {
            unit.held.remove(&relay.message);
            if shared.has(Mutant::RouteTwice) {
                unit.calls.insert(call, Call::Relay(relay));
            }
        }
        self.send_relay(session, relay, to, shared)
    }

    fn send_relay(
        &mut self,
        session: SessionIndex,
        relay: RelayCall,
        to: (&ActorRoute, &ActorRef, BoundSessionTail),
        shared: &mut Shared,
    ) -> Result<()> {
        let RelayCall {
            message,
            actor,
            kind,
        } = relay;
        let (route, reference, tail) = to;
        shared.sight(SessionSight::Relayed {
            session,
            actor,
            message,
        });
        let lease = self.held.lease().generation();
        let owner = shared.cast.session_owner(self.index, lease)?;
        let from = Sender {
            owner: &owner,
            tail,
            actor: reference,
        };
        let record = shared
            .cast
            .relayed(from, route.fence(reference), message, kind)?;
        let record = Box::new(record);
        let to = shared.cast.host_of(&route.node_rid);
        let to = to.context("a host of this world")?;
        if to == self.index {
            return self.arrive(record, 0, shared);
        }
        let link = self.links.get(&to).copied();
        let packet = Packet::Message { record, hops: 0 };
        if shared.send(self.index, to, link, packet) == Submit::Failed {
            self.not_submitted(message, kind, shared);
        }
        Ok(())
    }

    fn relay_held(&mut self, session: SessionIndex, call: CallId, shared: &mut Shared) {
        let Some(unit) = self.sessions.units.get_mut(&session) else {
            return;
        };
        if let Some(Call::Relay(relay)) = unit.calls.get(&call) {
            unit.held.insert(relay.message, call);
            shared.sight(SessionSight::Held {
                session,
                actor: relay.actor,
                message: relay.message,
            });
        }
    }

    fn relay_failed(
        &mut self,
        session: SessionIndex,
        call: CallId,
        shared: &mut Shared,
    ) -> Result<()> {
        let Some(Call::Relay(relay)) = self.end_call(session, call) else {
            return Ok(());
        };
        let message = relay.message;
        let unit = self.sessions.units.get_mut(&session);
        if let Some(unit) = unit
            && unit.held.remove(&message).is_some()
            && unit.wire == Wire::Closed
            && shared.has(Mutant::HeldAfterClose)
            && let Some(known) = unit.known.get(&relay.actor)
        {
            let bound = known.bound.clone();
            let tail = BoundSessionTail {
                source_session_rid: session_rid(session)?,
                source_binding_generation: known.generation,
                source_session_sequence: SessionSequence::MAX,
            };
            let to = (&bound.route, &bound.actor, tail);
            return self.send_relay(session, relay, to, shared);
        }
        shared.sight(SessionSight::NotRelayed { session, message });
        shared.lose(message, Loss::NotRelayed);
        if shared.has(Mutant::ForgetFailedRelay) {
            self.callers.remove(&message);
        } else if self.callers.contains_key(&message) {
            self.settle(message, Answer::Unavailable, shared);
        }
        Ok(())
    }

    /// SB-86: a held message whose caller has given it up leaves the hold.
    pub(super) fn withdraw(&mut self, message: MessageId, shared: &mut Shared) -> Result<()> {
        let Some((session, call)) = self.sessions.holder(message) else {
            return Ok(());
        };
        if let Some(unit) = self.sessions.units.get_mut(&session) {
            unit.held.remove(&message);
            unit.calls.remove(&call);
        }
        shared.sight(SessionSight::Withdrawn { session, message });
        shared.lose(message, Loss::NotRelayed);
        self.drive_session(session, SessionEvent::RelayWithdrawn { call }, shared)
    }

    /// SB-53: the last turn of the session, which may take too long.
    fn run_callback(&mut self, session: SessionIndex, shared: &mut Shared) {
        shared.sight(SessionSight::ReplacedBegins { session });
        let longest = if shared.session_random.percent(10) {
            900_000
        } else {
            40_000
        };
        let at = shared.now() + shared.session_random.micros(0, longest);
        let end = if shared.session_random.percent(20) {
            CallbackEnd::Failed
        } else {
            CallbackEnd::Completed
        };
        if let Some(unit) = self.sessions.units.get_mut(&session) {
            unit.callback = Some((at, end));
        }
    }

    pub(super) fn send_sealed(
        &mut self,
        session: SessionIndex,
        sealed: SessionRelocationSealed,
        shared: &mut Shared,
    ) -> Result<()> {
        let actor = shared.cast.actor_of(&sealed.actor.actor.actor_id);
        let actor = actor.context("an Actor of this world")?;
        let relocation = sealed.relocation;
        shared.sight(SessionSight::Sealed {
            session,
            actor,
            relocation,
        });
        if let Some(unit) = self.sessions.units.get_mut(&session) {
            unit.sealed.insert(actor, relocation);
        }
        let to = &sealed.coordinator.coordinator_node_rid;
        let to = shared.cast.host_of(to).context("a host of this world")?;
        self.to_host(to, Record::from(sealed), shared)
    }

    /// Notes that an update ends the hold that it was for.
    pub(super) fn unsealed(
        &mut self,
        session: SessionIndex,
        actor: ActorIndex,
        relocation: RelocationId,
        shared: &mut Shared,
    ) {
        if let Some(unit) = self.sessions.units.get_mut(&session)
            && unit.sealed.get(&actor) == Some(&relocation)
        {
            unit.sealed.remove(&actor);
            shared.sight(SessionSight::Unsealed {
                session,
                actor,
                relocation,
            });
        }
    }

    /// The connection ends; its client learns it at once.
    pub(super) fn close_wire(
        &mut self,
        session: SessionIndex,
        ending: Ending,
        shared: &mut Shared,
    ) {
        let Some(unit) = self.sessions.units.get_mut(&session) else {
            return;
        };
        if unit.wire == Wire::Closed {
            return;
        }
        unit.wire = Wire::Closed;
        unit.callback = None;
        if let Some(client) = shared.clients.get_mut(unit.client.0)
            && client.session.is_some_and(|(_, mine)| mine == session)
        {
            client.cut_off();
        }
        shared.sight(SessionSight::Closed { session, ending });
    }

    /// What is due for sessions.
    pub(super) fn wake_sessions(&mut self, shared: &mut Shared) -> Result<()> {
        let now = shared.now();
        self.end_asked(|asked| asked.until <= now, &BindAnswer::Unanswered);
        for session in self.sessions.all() {
            self.wake_session(session, shared)?;
        }
        let (due, later) = std::mem::take(&mut self.sessions.late_seals)
            .into_iter()
            .partition(|(at, ..)| *at <= now);
        self.sessions.late_seals = later;
        let due: Vec<(Duration, SessionIndex, SessionRelocationSeal)> = due;
        for (_, session, seal) in due {
            self.drive_session(session, SessionEvent::Seal(seal), shared)?;
        }
        Ok(())
    }

    fn wake_session(&mut self, session: SessionIndex, shared: &mut Shared) -> Result<()> {
        let now = shared.now();
        let Some(unit) = self.sessions.units.get_mut(&session) else {
            return Ok(());
        };
        if shared.has(Mutant::KeepSession) && unit.wire == Wire::Closed {
            return Ok(());
        }
        let mut effects = Vec::new();
        let due = unit.machine.next_deadline();
        if due.is_some_and(|at| at <= monotonic(now)) {
            unit.machine.on_deadline(monotonic(now), &mut effects);
        }
        let callback = unit.callback.take_if(|(at, _)| *at <= now);
        self.session_effects(session, effects, shared)?;
        let Some((_, end)) = callback else {
            return Ok(());
        };
        if self.sessions.is_closed(session) {
            return Ok(());
        }
        shared.sight(SessionSight::ReplacedEnded { session });
        let event = SessionEvent::ReplacedCallbackEnded(end);
        self.drive_session(session, event, shared)?;
        if shared.has(Mutant::CloseAtOnce) {
            self.drive_session(session, SessionEvent::Close, shared)?;
        }
        Ok(())
    }
}
