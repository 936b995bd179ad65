//! The binding of an Actor at its owner: who is bound, what is refused, and the way to the session.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spotlane_location::cache::Tenure;
use spotlane_mesh::ReplyHandle;
use spotlane_relocation::source::{BindingName, SourceEvent};
use spotlane_relocation::unit::{Binding, SessionOwner as MovedOwner};
use spotlane_session::actor::{ActorBinding, ActorEffect, ActorEvent, CarriedBinding, Push};
use spotlane_session::{
    BindAnswer, BindRefusal, BindingIdentity, Machine as _, Peer, SessionIdentity, SessionNotBound,
    SessionOwner,
};
use spotlane_stream::{BindTicket, NoticeTicket};
use spotlane_types::count::{Correlation, HopCount};
use spotlane_types::generation::{AuthorityOwnerGeneration, BindingGeneration};
use spotlane_types::id::{ActorId, PacketName, RelocationId};
use spotlane_types::kind::{FailureCode, TerminalResult};
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::command::reply::{ReplyTail, StreamBindReply};
use spotlane_wire::command::session::BoundSessionBind;
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::reference::{ActorRef as WireActorRef, ActorRouteFence, BindingTransition};

use crate::cell::{Leave, Work};
use crate::core::Core;
use crate::error::Error;
use crate::inbound::{redispatch, send_reply};
use crate::message::{ReplyTo, application_name};
use crate::payload::IntoPayload;
use crate::session::callbacks::Callbacks;
use crate::session::{SessionCounts, bindings, follow, to_node};
use crate::slots::{Live, Slot, Unit};

/// What an Actor's owner knows of the session that is bound to it (SB-12).
pub(crate) struct ActorSession {
    /// The machine and who waits for its answers. A leaf lock.
    state: Mutex<State>,
}

struct State {
    machine: ActorBinding,
    /// By the number under which the machine knows the request.
    waiting: HashMap<Correlation, BindReply>,
    /// The binding that came with the Actor (RL-357).
    carried: Option<CarriedBinding>,
    callbacks: Callbacks,
}

/// Where the answer to a bind or tombstone goes.
pub(crate) enum BindReply {
    /// To another node; with the binding that it asked for, which the answer repeats.
    Peer {
        handle: ReplyHandle,
        correlation: Correlation,
        asked: Option<BindingGeneration>,
    },
    /// To the hop that forwarded it (SB-24).
    Message { reply: ReplyTo, name: PacketName },
    /// To a bind of this host.
    Bind(BindTicket),
    /// To a notice of this host.
    Notice(NoticeTicket),
    /// Nobody waits.
    Nobody,
}

impl ActorSession {
    pub(crate) fn new(id: &ActorId, tenure: &Tenure) -> Self {
        Self {
            state: Mutex::new(State {
                machine: ActorBinding::new(tenure_of(id, tenure)),
                waiting: HashMap::new(),
                carried: None,
                callbacks: Callbacks::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// SB-33: the one judge of a relay; `None` for a peer that forwards it (SB-34).
    pub(crate) fn takes(&self, peer: Option<&Peer>, tail: &BoundSessionTail) -> bool {
        let mut state = self.lock();
        let judged = match peer {
            Some(peer) => state.machine.judge_relay(peer, tail),
            None => state.machine.judge_followed_relay(tail),
        };
        judged.is_ok()
    }

    /// RL-358: no new binds; the one there is moves with the Actor.
    pub(crate) fn refuse_binds(&self) -> Vec<Binding> {
        let carried = self.lock().machine.refuse_binds();
        carried.as_ref().map(to_moved).into_iter().collect()
    }

    /// The Actor is captured: gives the record that carries its binding in front of the saved work (RL-357). A session that
    /// leaves from now on joins the hold (SB-65), in one step with this: what is carried has not left.
    pub(crate) fn capture(
        &self,
        core: &Arc<Core>,
        relocation: RelocationId,
    ) -> Option<FrozenRecord> {
        let mut state = self.lock();
        let carried = state.machine.carry(relocation);
        state.callbacks.capture();
        self.on_locked(core, state, ActorEvent::MoveCaptured);
        carried
    }

    /// How many disconnect callbacks travel as saved work.
    pub(crate) fn captured_callbacks(&self) -> u64 {
        self.lock().callbacks.captured()
    }

    /// The Actor crosses the boundary: gives how many disconnect callbacks joined its hold. What comes from now on is given
    /// back by [`Self::bind`].
    pub(crate) fn cross(&self) -> u64 {
        self.lock().callbacks.cross()
    }

    /// A turn for a disconnect callback has begun: gives the guard of the one to run, if any waits.
    pub(crate) fn callback(&self, core: &Arc<Core>, live: Arc<Unit>) -> Option<CallbackEnd> {
        let callback = self.lock().callbacks.turn_begins()?;
        Some(CallbackEnd {
            core: Arc::clone(core),
            unit: live,
            binding: callback.binding,
        })
    }

    /// The session left while the Actor was on its way here; its callback is yet to run.
    pub(crate) fn left_on_the_way(&self) {
        let mut state = self.lock();
        if let Some(carried) = state.carried.take() {
            state.machine.end_carried(&carried.identity());
        }
    }

    /// As [`Self::left_on_the_way`] when the news comes after the Actor, which may have moved on since. The binding that
    /// came with it ends wherever it is now.
    pub(crate) fn left_late(&self, core: &Arc<Core>, live: &Arc<Live>) {
        let mut state = self.lock();
        let carried = state.carried.take();
        let current = state.machine.identity();
        let fence = state.machine.tenure().fence();
        drop(state);
        let moved_on = !live.is_in(&core.slots);
        let carried = carried.filter(|it| moved_on || current.as_ref() == Some(&it.identity()));
        let Some(carried) = carried else {
            // The binding has ended, and the callback is yet to run.
            let mut state = self.lock();
            state.callbacks.accept_ended();
            let wants_turn = state.callbacks.wants_turn();
            drop(state);
            if wants_turn {
                self.bring_turn(core, live);
            }
            return;
        };
        let SessionIdentity { owner, session_rid } = carried.session().clone();
        let notice = BoundSessionBind {
            correlation: core.ids.correlation(),
            actor: fence,
            session_rid,
            binding: BindingTransition::Tombstone {
                retired_binding_generation: carried.generation(),
            },
        };
        bind(core, owner, notice, BindReply::Nobody, HopCount::MIN);
    }

    /// The run that the bound session's owner is in.
    pub(super) fn owner(&self) -> Option<Peer> {
        self.lock().machine.session_owner()
    }

    /// The owner of the bound session has ended (SB-91).
    pub(super) fn owner_gone(&self, core: &Arc<Core>, owner: Peer) {
        self.on(core, ActorEvent::OwnerGone(owner));
    }

    /// Adds what is kept for sessions here.
    pub(super) fn count(&self, counts: &mut SessionCounts) {
        let state = self.lock();
        let bound = usize::from(state.machine.session().is_some());
        counts.bound_actors = counts.bound_actors.saturating_add(bound);
        counts.waiting = counts.waiting.saturating_add(state.waiting.len());
        counts.callbacks = counts.callbacks.saturating_add(state.callbacks.len());
    }

    /// The move did not happen.
    pub(crate) fn allow_binds(&self, core: &Arc<Core>) {
        self.on(core, ActorEvent::MoveAborted);
        let wants_turn = self.lock().callbacks.stay();
        if wants_turn {
            self.turn(core);
        }
    }

    /// The Actor arrived with its binding (RL-357).
    pub(crate) fn arrived(&self, bindings: Vec<Binding>) {
        let carried = bindings.into_iter().next().map(from_moved);
        let mut state = self.lock();
        let tenure = state.machine.tenure().clone();
        state.machine = ActorBinding::at_target(tenure, carried.clone());
        state.carried = carried;
    }

    /// It lives here now: nobody here has looked yet whether its session owner lives.
    pub(crate) fn opened(&self, core: &Core) {
        if self.owner().is_some() {
            core.sessions.watch.look_again();
        }
    }

    /// The owner change that made this host the owner.
    pub(crate) fn owned_since(&self, generation: AuthorityOwnerGeneration) {
        self.lock().machine.owned_since(generation);
    }

    fn push(&self, name: PacketName, payload: crate::payload::Payload) -> Result<Push, Error> {
        let payload = payload.into_wire(name)?;
        self.lock().machine.push(payload).map_err(not_bound)
    }

    fn close(&self) -> Result<Push, Error> {
        self.lock().machine.close().map_err(not_bound)
    }

    /// How this host names the Actor in its tenure.
    pub(super) fn fence(&self) -> ActorRouteFence {
        self.lock().machine.tenure().fence()
    }

    /// Takes command 38, or gives it back when the Actor has left meanwhile.
    pub(super) fn bind(
        &self,
        core: &Arc<Core>,
        from: SessionOwner,
        bind: BoundSessionBind,
        reply: BindReply,
    ) -> Result<(), Box<(SessionOwner, BoundSessionBind, BindReply)>> {
        let mut state = self.lock();
        if state.callbacks.is_gone() {
            return Err(Box::new((from, bind, reply)));
        }
        // Requests of several nodes may have one number, so the machine gets one of this host.
        let correlation = core.ids.correlation();
        let request = Box::new(BoundSessionBind {
            correlation,
            ..bind
        });
        state.waiting.insert(correlation, reply);
        self.on_locked(core, state, ActorEvent::Bind { from, request });
        Ok(())
    }

    fn on(&self, core: &Arc<Core>, event: ActorEvent) {
        self.on_locked(core, self.lock(), event);
    }

    fn on_locked(&self, core: &Arc<Core>, mut state: MutexGuard<'_, State>, event: ActorEvent) {
        let now = Monotonic::from_origin(core.clock.elapsed());
        let mut out = Vec::new();
        let mut answers = Vec::new();
        let before = state.name_of_binding();
        state.machine.on_event(now, event, &mut out);
        let ended = before.filter(|name| state.name_of_binding().as_ref() != Some(name));
        for effect in &out {
            if let ActorEffect::Answer {
                correlation,
                result,
            } = effect
            {
                let reply = state.waiting.remove(correlation);
                let fence = result.map(|()| state.machine.tenure().fence());
                answers.push((reply.unwrap_or(BindReply::Nobody), fence));
            }
        }
        let wants_turn = state.accept_callbacks(&out);
        drop(state);
        // RL-358: a move does not wait for the seal of a binding that has ended.
        if let Some(name) = ended
            && let Some(source) = core.moves.source_of(&name.actor_id)
        {
            source.push(SourceEvent::BindingEnded(name));
        }
        // SB-50: first the answer to the new session, then the news for the one before.
        for (reply, result) in answers {
            answer(core, reply, result);
        }
        for effect in out {
            // Callbacks are accepted already, and the coordinator of a move seals by itself (RL-125).
            if let ActorEffect::SendReplaced { to, replaced } = effect {
                to_node(core, &to.node_rid, Record::from(*replaced));
            }
        }
        if wants_turn {
            self.turn(core);
        }
    }
}

impl ActorSession {
    /// EX-29: a disconnect callback is lifecycle work of the Actor's queue, and joins its hold while it is sealed (SB-65).
    fn turn(&self, core: &Arc<Core>) {
        let id = self.lock().machine.tenure().actor.actor_id.clone();
        let live = core.slots.live(&id);
        match live.filter(|live| std::ptr::eq(&raw const live.unit.session, self)) {
            Some(live) => self.bring_turn(core, &live),
            None => self.no_turn(core),
        }
    }

    /// Brings a turn into the lane. All callbacks of an Actor share it, so that one task at most waits for room.
    fn bring_turn(&self, core: &Arc<Core>, live: &Arc<Live>) {
        let Err(refused) = live.lane.enqueue_lifecycle(Work::Disconnected(Leave::Next)) else {
            return;
        };
        let (reason, work) = (refused.reason().clone(), refused.into_item());
        if reason.is_full() {
            let (task, live) = (Arc::clone(core), Arc::clone(live));
            core.tasks.spawn(async move {
                if let Err(refused) = live.lane.submit_lifecycle(work).await {
                    live.unit
                        .session
                        .hold_turn(&task, &live, refused.into_item());
                }
            });
        } else {
            self.hold_turn(core, live, work);
        }
    }

    /// SB-65: a lane that is sealed for a move takes it among what it holds.
    fn hold_turn(&self, core: &Arc<Core>, live: &Live, work: Work) {
        if live.lane.enqueue_with_payload_bytes(work, 0).is_err() {
            self.no_turn(core);
        }
    }

    /// The Actor ends, and its callbacks with it (EX-306). One that leaves takes them along.
    fn no_turn(&self, core: &Arc<Core>) {
        let ended = self.lock().callbacks.end();
        if let Some(binding) = ended {
            self.on(core, ActorEvent::DisconnectedEnded(binding));
        }
    }
}

/// Says that a disconnect callback has ended, in whichever way (SB-62), and lets the next one follow.
pub(crate) struct CallbackEnd {
    core: Arc<Core>,
    unit: Arc<Unit>,
    /// The binding that ends with it.
    binding: Option<BindingIdentity>,
}

impl Drop for CallbackEnd {
    fn drop(&mut self) {
        let session = &self.unit.session;
        if let Some(binding) = self.binding.take() {
            session.on(&self.core, ActorEvent::DisconnectedEnded(binding));
        }
        let wants_turn = session.lock().callbacks.wants_turn();
        if wants_turn {
            session.turn(&self.core);
        }
    }
}

impl State {
    /// Takes the callbacks that the machine asks for; `true` when the lane needs a turn for them.
    fn accept_callbacks(&mut self, effects: &[ActorEffect]) -> bool {
        let mut wants_turn = false;
        for effect in effects {
            match effect {
                ActorEffect::RunDisconnected(binding) => {
                    self.callbacks.accept(binding.clone());
                    wants_turn |= self.callbacks.wants_turn();
                }
                // SB-65: with a place of its own among what the Actor holds. One that has left has a target that sees for
                // itself whether the session owner lives.
                ActorEffect::HoldDisconnected(binding) if !self.callbacks.is_gone() => {
                    self.callbacks.accept(binding.clone());
                    self.callbacks.add_turn();
                    wants_turn = true;
                }
                _ => {}
            }
        }
        wants_turn
    }

    fn name_of_binding(&self) -> Option<BindingName> {
        let session = self.machine.session()?;
        Some(BindingName {
            actor_id: self.machine.tenure().actor.actor_id.clone(),
            session_rid: session.session_rid.clone(),
            binding_generation: self.machine.identity()?.generation,
        })
    }
}

impl fmt::Debug for ActorSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActorSession").finish_non_exhaustive()
    }
}

/// Command 38 has come, from another node or from this one.
pub(super) fn bind(
    core: &Arc<Core>,
    from: SessionOwner,
    bind: BoundSessionBind,
    reply: BindReply,
    hops: HopCount,
) {
    let id = &bind.actor.actor.actor_id;
    match (core.slots.get(id), &bind.binding) {
        (Some(Slot::Live(live)), _) => {
            if let Err(late) = live.unit.session.bind(core, from, bind, reply) {
                // What stands in the Actor's place by now is another thing.
                let (from, bound, reply) = *late;
                self::bind(core, from, bound, reply, hops);
            }
        }
        // SB-72
        (Some(Slot::Arriving(_) | Slot::Leaving(_)), BindingTransition::Active { .. }) => {
            answer(core, reply, Err(BindRefusal::Sealed));
        }
        // SB-65: it is not refused, and finds the Actor where its dispatch opens next.
        (Some(Slot::Arriving(_) | Slot::Leaving(_)), BindingTransition::Tombstone { .. }) => {
            let id = id.clone();
            if let Some(message) = follow::message(core, from, &bind, reply, hops) {
                redispatch(core, &id, message);
            }
        }
        // SB-24
        (Some(Slot::Follow), _) => follow::forward(core, from, &bind, reply, hops),
        // SB-70
        (None, _) => answer(core, reply, Err(BindRefusal::StaleLocation)),
    }
}

/// Answers once; a registration with the tenure that it is in.
pub(super) fn answer(core: &Core, reply: BindReply, bound: Result<ActorRouteFence, BindRefusal>) {
    match reply {
        BindReply::Peer {
            handle,
            correlation,
            asked,
        } => {
            let (terminal, failure) = match &bound {
                Ok(_) => (TerminalResult::Ok, FailureCode::None),
                Err(refusal) => to_wire(*refusal),
            };
            let tail = match (asked, bound) {
                (Some(binding_generation), Ok(fence)) => ReplyTail::StreamBind(StreamBindReply {
                    binding_generation,
                    authority_owner_generation: fence.expected_authority_owner_generation,
                }),
                _ => ReplyTail::None,
            };
            send_reply(handle, correlation, terminal, failure, tail, None);
        }
        BindReply::Message { reply, name } => reply.answer(&name, follow::to_message(bound)),
        reply => bindings::ended(
            core,
            reply,
            match bound {
                Ok(_) => BindAnswer::Registered { followed: None },
                Err(refusal) => BindAnswer::Refused(refusal),
            },
        ),
    }
}

fn to_wire(refusal: BindRefusal) -> (TerminalResult, FailureCode) {
    let code = match refusal {
        BindRefusal::StaleLocation | BindRefusal::Superseded => FailureCode::ActorLocationStale,
        BindRefusal::OtherGeneration => FailureCode::SpotGenerationStale,
        BindRefusal::Sealed => FailureCode::SpotMoving,
        BindRefusal::NoFactory => FailureCode::RequestTargetNotFound,
        BindRefusal::ShuttingDown => return (TerminalResult::Terminated, FailureCode::None),
        BindRefusal::Failed => FailureCode::RequestFailed,
    };
    let result = code.terminal_result().unwrap_or(TerminalResult::Conflict);
    (result, code)
}

/// What the answer of another node says.
pub(super) fn from_wire(result: TerminalResult, code: FailureCode) -> BindAnswer {
    BindAnswer::Refused(match (result, code) {
        (TerminalResult::Ok, _) => return BindAnswer::Registered { followed: None },
        (_, FailureCode::SpotGenerationStale)
        | (TerminalResult::InvalidState, FailureCode::None) => BindRefusal::OtherGeneration,
        (_, FailureCode::SpotMoving) => BindRefusal::Sealed,
        (_, FailureCode::RequestTargetNotFound | FailureCode::HandlerNotFound) => {
            BindRefusal::NoFactory
        }
        (TerminalResult::Terminated, _) => BindRefusal::ShuttingDown,
        (_, FailureCode::RequestFailed | FailureCode::WorkerFailed) => BindRefusal::Failed,
        // SB-70: whatever else keeps the Actor from being there.
        _ => BindRefusal::StaleLocation,
    })
}

fn not_bound(error: SessionNotBound) -> Error {
    Error::invalid(error.to_string()).with_source(error)
}

fn tenure_of(id: &ActorId, tenure: &Tenure) -> spotlane_session::actor::Tenure {
    spotlane_session::actor::Tenure {
        actor: WireActorRef {
            actor_id: id.clone(),
            object_generation: tenure.object_generation,
        },
        node_rid: tenure.node_rid.clone(),
        node_generation: tenure.node_generation,
        authority_owner_generation: tenure.authority_owner_generation,
        owner_lease_generation: tenure.owner_lease_generation,
    }
}

fn to_moved(carried: &CarriedBinding) -> Binding {
    let SessionIdentity { owner, session_rid } = carried.session();
    Binding {
        actor: carried.source().clone(),
        session_owner: MovedOwner {
            node_rid: owner.node_rid.clone(),
            node_generation: owner.node_generation,
            owner_id: owner.owner_id.clone(),
            owner_lease_generation: owner.owner_lease_generation,
        },
        session_rid: session_rid.clone(),
        binding_generation: carried.generation(),
        next_sequence: carried.next_sequence(),
    }
}

fn from_moved(binding: Binding) -> CarriedBinding {
    let owner = binding.session_owner;
    let session = SessionIdentity {
        owner: SessionOwner {
            node_rid: owner.node_rid,
            node_generation: owner.node_generation,
            owner_id: owner.owner_id,
            owner_lease_generation: owner.owner_lease_generation,
        },
        session_rid: binding.session_rid,
    };
    CarriedBinding::new(
        session,
        binding.binding_generation,
        binding.next_sequence,
        binding.actor,
    )
}

/// The client session that is bound to an Actor, as its handlers see it (SB-6).
///
/// There is one at most, and it may change between two turns; no session can be named from here.
pub struct BoundSession<'a> {
    core: &'a Arc<Core>,
    unit: &'a Unit,
}

impl<'a> BoundSession<'a> {
    pub(crate) const fn new(core: &'a Arc<Core>, unit: &'a Unit) -> Self {
        Self { core, unit }
    }

    /// Whether a session is bound now.
    pub fn is_bound(&self) -> bool {
        self.unit.session.lock().machine.session().is_some()
    }

    /// Sends a packet to the client, one-way: it is on its way when this returns, and nobody says whether the client got
    /// it (SB-37).
    ///
    /// # Errors
    /// `InvalidOperation`: no session is bound; the same call succeeds after a bind (SB-74).
    pub fn send(&self, name: &str, message: impl IntoPayload) -> Result<(), Error> {
        let name = application_name(name)?;
        let push = self.unit.session.push(name, message.into_payload()?)?;
        to_node(self.core, &push.to.node_rid, Record::from(push.record));
        Ok(())
    }

    /// Closes the client's connection (SB-39).
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn close(&self) -> Result<(), Error> {
        let push = self.unit.session.close()?;
        to_node(self.core, &push.to.node_rid, Record::from(push.record));
        Ok(())
    }
}

impl fmt::Debug for BoundSession<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundSession")
            .field("actor", self.unit.id())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
