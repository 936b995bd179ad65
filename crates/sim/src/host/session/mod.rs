//! The session owner's half: the aggregates of a host's sessions, and everything that they ask for, in its order.

mod acts;
mod binds;
mod ends;
mod relays;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use spotlane_session::{
    ActorRoute, BindingToken, BoundActor, CallId, CallbackEnd, Machine as _,
    SessionBindingAggregate, SessionEffect, SessionEvent,
};
use spotlane_types::count::Correlation;
use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::RelocationId;
use spotlane_wire::command::session::SessionRelocationSeal;
use spotlane_wire::reference::ActorRef;

use super::Host;
use crate::cast::push_of;
use crate::mutant::Mutant;
use crate::observation::{
    ActorIndex, BindingNumber, ClientIndex, Kind, MessageId, SessionIndex, SessionSight,
};
use crate::shared::{Shared, monotonic, since_origin};

use binds::Asked;

/// The sessions of a host.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    units: BTreeMap<SessionIndex, SessionUnit>,
    /// SB-10: counted by this run of the host.
    last_generation: u64,
    /// Which session a binding belongs to: a push names nothing else.
    bound: BTreeMap<BindingNumber, SessionIndex>,
    asked: BTreeMap<Correlation, Asked>,
    /// The first route to each Actor that this host ever bound along.
    first: BTreeMap<ActorIndex, (ActorRef, ActorRoute)>,
    /// Calls that had no end when their session was over.
    unended: usize,
    /// Seals that a mutant has answered and not installed.
    late_seals: Vec<(Duration, SessionIndex, SessionRelocationSeal)>,
}

/// Whether the client can be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Open,
    /// SB-53: only what the replaced callback sends.
    Closing,
    Closed,
}

/// A call of the session's handler that has not ended.
#[derive(Clone, Copy, Debug)]
enum Call {
    Bind(ActorIndex),
    Relay(RelayCall),
    Notify,
}

/// A message on its way through the aggregate.
#[derive(Clone, Copy, Debug)]
struct RelayCall {
    message: MessageId,
    actor: ActorIndex,
    kind: Kind,
}

/// A binding as it was last seen.
#[derive(Clone, Debug)]
struct Known {
    binding: BindingNumber,
    generation: BindingGeneration,
    bound: BoundActor,
}

/// One connection of a client.
#[derive(Debug)]
struct SessionUnit {
    machine: SessionBindingAggregate,
    client: ClientIndex,
    wire: Wire,
    calls: BTreeMap<CallId, Call>,
    next_call: u64,
    /// The handles of the handler, also those whose binding has ended.
    tokens: BTreeMap<ActorIndex, BindingToken>,
    known: BTreeMap<ActorIndex, Known>,
    /// The binding that was asked for last.
    asking: BTreeMap<ActorIndex, (BindingNumber, BindingGeneration)>,
    /// The moves for which it holds.
    sealed: BTreeMap<ActorIndex, RelocationId>,
    held: BTreeMap<MessageId, CallId>,
    callback: Option<(Duration, CallbackEnd)>,
}

impl SessionUnit {
    fn new(machine: SessionBindingAggregate, client: ClientIndex) -> Self {
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
    fn call(&mut self, call: Call) -> CallId {
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
    fn is_closed(&self, session: SessionIndex) -> bool {
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
        let releases = matches!(event, SessionEvent::Route { .. });
        let mut effects = Vec::new();
        unit.machine.on_event(now, event, &mut effects);
        if releases {
            spoil_release(&mut effects, shared);
        }
        self.session_effects(session, effects, shared)
    }

    /// Carries effects out, between what they are based on and what they end.
    fn session_effects(
        &mut self,
        session: SessionIndex,
        effects: Vec<SessionEffect>,
        shared: &mut Shared,
    ) -> Result<()> {
        // A replacement that came before the answer ends the binding in the step that makes it.
        let made = effects.iter().filter_map(|effect| match effect {
            SessionEffect::BindEnded {
                result: Ok(bound), ..
            } => Some(bound.clone()),
            _ => None,
        });
        self.note_bound(session, made.collect(), shared);
        for effect in effects {
            self.session_effect(session, effect, shared)?;
        }
        self.note_unbound(session, shared);
        let over = self.sessions.units.get(&session);
        if over.is_some_and(|unit| unit.machine.is_over() && unit.wire == Wire::Closed)
            && !shared.has(Mutant::KeepSession)
            && let Some(unit) = self.sessions.units.remove(&session)
        {
            self.sessions.unended += unit.calls.len();
            self.sessions.bound.retain(|_, owner| *owner != session);
        }
        Ok(())
    }

    /// Notes what has come into force, and where routes lead now.
    fn note_bound(&mut self, session: SessionIndex, made: Vec<BoundActor>, shared: &mut Shared) {
        let Some(unit) = self.sessions.units.get_mut(&session) else {
            return;
        };
        let mut seen = Vec::new();
        for bound in made.into_iter().chain(unit.machine.bound()) {
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
            // The mutant has answered already.
            SessionEffect::SendSealed { .. } if shared.has(Mutant::SealedTooEarly) => {}
            SessionEffect::SendSealed { sealed, .. } => {
                self.send_sealed(session, *sealed, shared)?;
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
}
