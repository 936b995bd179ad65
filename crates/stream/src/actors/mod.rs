//! The bindings of a session, carried out: the seam between client connections and Actors.
//!
//! This crate owns the sessions and runs [`SessionBindingAggregate`] for each of them. Whoever knows
//! Actors implements [`ActorBindings`], which sends the aggregate's records, and reports what comes back
//! through the tickets and the `on_…` methods of [`SessionActors`].

mod bound;
mod convert;
mod seam;
mod ticket;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spotlane_session::{
    ActorRoute, BindCall, BindError, BoundActor, CallId, CloseCause, Diagnostic, Machine as _,
    NoticeEnd, NoticeKind, Peer, RelayError, SessionBindingAggregate, SessionEffect, SessionEvent,
    SessionIdentity,
};
use spotlane_stream_io::Clock;
use spotlane_stream_proto::server::ServerClose;
use spotlane_stream_proto::{Extras, Frame, Name, RemoteError, to_bytes};
use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::{ActorId, MeshName, SessionRid};
use spotlane_types::time::Monotonic;
use spotlane_wire::command::session::{
    BoundSessionReplaced, BoundSessionSend, SessionRelocationRoute, SessionRelocationSeal,
};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::ActorRef;
use tokio::sync::oneshot;

use crate::outbox::Outbox;
use crate::session::Replier;
use crate::signal::Signal;
use crate::stats::StreamStats;

use convert::from_application;

pub use bound::{RelayFailure, SessionActor, route_of};
pub use seam::{ActorBindings, BindRequest, Relay};
pub use ticket::{BindTicket, NoticeTicket, RelayTicket};

/// The Actors of one session, for whoever carries out its bindings. Handlers of sessions get [`BoundActors`] (SB-1).
#[derive(Clone)]
pub struct SessionActors {
    inner: Arc<Inner>,
}

/// What is bound to one session, as its handler sees it.
#[derive(Clone, Copy)]
pub struct BoundActors<'a>(pub(crate) &'a SessionActors);

impl BoundActors<'_> {
    /// This session's binding of an Actor; looks nowhere else (SB-6).
    pub fn find(self, actor_id: &ActorId) -> Option<SessionActor> {
        self.0.find(actor_id)
    }

    /// Every binding of this session.
    pub fn bound(self) -> Vec<SessionActor> {
        self.0.bound()
    }
}

impl fmt::Debug for BoundActors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = self.bound();
        let ids = bound.iter().map(|bound| &bound.actor_ref().actor_id);
        f.debug_list().entries(ids).finish()
    }
}

/// The seam of a session: binds with routes, and takes what comes for it. No part of what an application sees (SB-1).
pub fn actors_of(session: &crate::session::Session) -> Option<&SessionActors> {
    session.dispatch()
}

struct Inner {
    /// Protects the aggregate and its calls. Leaf of the lock order: nothing else is locked, and no
    /// effect carried out, while it is held. One event at a time (EX-179).
    state: Mutex<State>,
    bindings: Arc<dyn ActorBindings>,
    outbox: Arc<Outbox>,
    signal: Arc<Signal>,
    stats: Arc<StreamStats>,
    clock: Clock,
}

struct State {
    machine: SessionBindingAggregate,
    /// Effects in order; whoever finds nobody at it carries them out.
    effects: VecDeque<SessionEffect>,
    carrying: Carrying,
    calls: BTreeMap<CallId, Call>,
    next_call: u64,
    /// Payload bytes that are held while Actors move.
    held: usize,
}

/// So much of one session is held with its calls complete. Nothing is refused beyond (SB-86): the call completes with the
/// release, so that its lane and then its socket make the client wait (ST-140).
const HELD_AHEAD: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrying {
    Nobody,
    Somebody,
}

enum Call {
    Bind(oneshot::Sender<Result<BoundActor, BindError>>),
    Notify(oneshot::Sender<Result<(), RelayError>>),
    Relay(RelayCall),
}

struct RelayCall {
    accepted: Option<oneshot::Sender<Result<(), RelayError>>>,
    replier: Option<Replier>,
    bytes: usize,
    hold: Hold,
}

/// Whether a relay waits for the end of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    No,
    Yes,
}

impl State {
    /// Takes the call that an effect ends.
    fn take(&mut self, call: CallId) -> Option<Call> {
        let call = self.calls.remove(&call)?;
        if let Call::Relay(relay) = &call
            && relay.hold == Hold::Yes
        {
            self.held = self.held.saturating_sub(relay.bytes);
        }
        Some(call)
    }

    /// EX-264: the hold took the message, so the call is complete and the session's lane is free; its reply is still to
    /// come.
    fn hold(&mut self, call: CallId) -> Option<oneshot::Sender<Result<(), RelayError>>> {
        let Some(Call::Relay(relay)) = self.calls.get_mut(&call) else {
            return None;
        };
        relay.hold = Hold::Yes;
        self.held = self.held.saturating_add(relay.bytes);
        (self.held <= HELD_AHEAD).then(|| relay.accepted.take())?
    }
}

impl SessionActors {
    pub(crate) fn new(
        session_rid: SessionRid,
        bindings: Arc<dyn ActorBindings>,
        outbox: Arc<Outbox>,
        signal: Arc<Signal>,
        stats: Arc<StreamStats>,
        clock: Clock,
    ) -> Self {
        let identity = SessionIdentity {
            owner: bindings.owner(),
            session_rid,
        };
        let mut machine = SessionBindingAggregate::new(identity, bindings.times());
        if let Some(left) = bindings.admitted_for() {
            // SB-15; a session that has just begun answers nothing to it.
            let now = clock.now();
            let until = SessionEvent::AdmissionUntil(now.after(left));
            machine.on_event(now, until, &mut Vec::new());
        }
        let first = State {
            machine,
            effects: VecDeque::new(),
            carrying: Carrying::Nobody,
            calls: BTreeMap::new(),
            next_call: 1,
            held: 0,
        };
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(first),
                bindings,
                outbox,
                signal,
                stats,
                clock,
            }),
        }
    }

    /// Binds an Actor; what is bound already is returned unchanged (SB-26).
    ///
    /// # Errors
    /// The Actor owner refused or did not answer; what was bound before stays (SB-50).
    ///
    /// # Cancel safety
    /// Dropped, the bind is taken back: the Actor owner gets a tombstone for it (SB-27).
    pub async fn bind(
        &self,
        actor: ActorRef,
        route: ActorRoute,
    ) -> Result<SessionActor, BindError> {
        let actor_id = actor.actor_id.clone();
        let generation = self.inner.bindings.next_generation();
        let (call, ended) = self.call(Call::Bind);
        let abandon = Abandon { actors: self, call };
        self.on(SessionEvent::Bind(BindCall {
            call,
            actor,
            route,
            generation,
        }));
        let ended = ended.await;
        drop(abandon);
        let bound = ended.unwrap_or(Err(BindError::SessionClosing { actor_id }))?;
        let actors = self.clone();
        Ok(SessionActor { actors, bound })
    }

    fn find(&self, actor_id: &ActorId) -> Option<SessionActor> {
        let bound = self.lock().machine.find(actor_id)?;
        let actors = self.clone();
        Some(SessionActor { actors, bound })
    }

    fn bound(&self) -> Vec<SessionActor> {
        let bound: Vec<BoundActor> = self.lock().machine.bound().collect();
        let with = |bound| SessionActor {
            actors: self.clone(),
            bound,
        };
        bound.into_iter().map(with).collect()
    }

    /// Command 36 came for this session (SB-38).
    pub fn on_push(&self, push: BoundSessionSend) {
        self.on(SessionEvent::Push(push));
    }

    /// Command 51 came for this session (SB-52).
    pub fn on_replaced(&self, peer: Peer, replaced: BoundSessionReplaced) {
        self.on(SessionEvent::Replaced { peer, replaced });
    }

    /// Command 42 came for this session (SES-1).
    pub fn on_seal(&self, seal: SessionRelocationSeal) {
        self.on(SessionEvent::Seal(seal));
    }

    /// Command 44 came for this session in a mesh (SES-4).
    pub fn on_route(&self, mesh_name: MeshName, update: SessionRelocationRoute) {
        self.on(SessionEvent::Route { mesh_name, update });
    }

    /// The host's lease holds until then (SB-15). `left` is the time from now.
    pub fn admit_for(&self, left: std::time::Duration) {
        let until = self.inner.clock.now().after(left);
        self.on(SessionEvent::AdmissionUntil(until));
    }

    /// The host makes no new bindings (RL-229).
    pub fn refuse_binds(&self) {
        self.on(SessionEvent::RefuseBinds);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.inner.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(
        &self,
        make: impl FnOnce(oneshot::Sender<T>) -> Call,
    ) -> (CallId, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        let call = CallId::new(state.next_call);
        state.next_call = state.next_call.saturating_add(1);
        state.calls.insert(call, make(sender));
        (call, receiver)
    }

    pub(crate) fn on(&self, event: SessionEvent) {
        self.with(|machine, now, out| machine.on_event(now, event, out));
    }

    pub(crate) fn on_deadline(&self) {
        self.with(SessionBindingAggregate::on_deadline);
    }

    pub(crate) fn next_deadline(&self) -> Option<Monotonic> {
        self.lock().machine.next_deadline()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().machine.is_over()
    }

    /// Lets the aggregate decide, and carries out what it decided: in order, whoever came first, and
    /// never with the lock held.
    fn with(
        &self,
        decide: impl FnOnce(&mut SessionBindingAggregate, Monotonic, &mut Vec<SessionEffect>),
    ) {
        let now = self.inner.clock.now();
        let mut out = Vec::new();
        let mut state = self.lock();
        let before = state.machine.next_deadline();
        decide(&mut state.machine, now, &mut out);
        let after = state.machine.next_deadline();
        state.effects.extend(out);
        let carries = state.carrying == Carrying::Nobody;
        state.carrying = Carrying::Somebody;
        drop(state);
        if before != after {
            self.inner.signal.look();
        }
        if !carries {
            return;
        }
        let mut state = self.lock();
        while let Some(effect) = state.effects.pop_front() {
            let call = effect_call(&effect).and_then(|call| state.take(call));
            drop(state);
            self.carry_out(effect, call);
            state = self.lock();
        }
        state.carrying = Carrying::Nobody;
    }

    fn carry_out(&self, effect: SessionEffect, call: Option<Call>) {
        match effect {
            SessionEffect::RequestBind {
                route,
                actor,
                generation,
            } => self.request_bind(route, actor, generation),
            SessionEffect::SendTombstone {
                route,
                actor,
                generation,
                kind,
            } => self.send_tombstone(route, actor, generation, kind),
            SessionEffect::BindEnded { result, .. } => {
                if let Some(Call::Bind(ended)) = call {
                    drop(ended.send(result));
                }
            }
            SessionEffect::NotifyEnded { result, .. } => {
                if let Some(Call::Notify(ended)) = call {
                    drop(ended.send(result));
                }
            }
            SessionEffect::SubmitRelay {
                route,
                actor,
                tail,
                message,
                ..
            } => {
                let relay = Relay {
                    route,
                    actor,
                    tail,
                    message,
                };
                self.submit(relay, call);
            }
            SessionEffect::RelayHeld { call } => self.held(call),
            SessionEffect::RelayFailed { error, .. } => Self::relay_failed(call, &error),
            SessionEffect::DeliverPush { actor_id, payload } => self.deliver(&actor_id, &payload),
            SessionEffect::RunReplacedCallback { actor_id } => self.inner.signal.replaced(actor_id),
            SessionEffect::SendSealed { to, sealed } => self.inner.bindings.sealed(to, *sealed),
            SessionEffect::CloseConnection { cause } => {
                // Section 12 of the stream contract: no frame fits any of these causes.
                let (CloseCause::Replaced
                | CloseCause::ReplacedCallbackTimeout
                | CloseCause::SealTimeout
                | CloseCause::ActorClosed
                | CloseCause::HandlerClosed) = cause;
                self.inner.signal.close(ServerClose::Application);
            }
            SessionEffect::Finished => {
                let session = self.lock().machine.identity().session_rid.clone();
                self.inner.bindings.session_ended(&session);
                self.inner.signal.look();
            }
            SessionEffect::Report {
                diagnostic,
                actor_id,
            } => self.report(diagnostic, &actor_id),
            // The replaced callback closes the way in by itself; what changed nothing needs nothing.
            _ => {}
        }
    }

    fn report(&self, diagnostic: Diagnostic, actor_id: &ActorId) {
        let session = self.lock().machine.identity().session_rid.clone();
        self.inner.bindings.report(&session, diagnostic, actor_id);
    }

    fn request_bind(&self, route: ActorRoute, actor: ActorRef, generation: BindingGeneration) {
        let ticket = BindTicket {
            actors: self.clone(),
            generation,
            answer: None,
        };
        let request = self.request(route, actor, generation);
        self.inner.bindings.bind(request, ticket);
    }

    fn send_tombstone(
        &self,
        route: ActorRoute,
        actor: ActorRef,
        generation: BindingGeneration,
        kind: NoticeKind,
    ) {
        let ticket = (kind == NoticeKind::Awaited).then(|| NoticeTicket {
            actors: self.clone(),
            generation,
            end: NoticeEnd::Failed,
        });
        let request = self.request(route, actor, generation);
        self.inner.bindings.tombstone(request, ticket);
    }

    fn submit(&self, relay: Relay, call: Option<Call>) {
        let (accepted, replier) = match call {
            Some(Call::Relay(call)) => (call.accepted, call.replier),
            _ => (None, None),
        };
        let ticket = RelayTicket {
            actor_id: relay.actor.actor_id.clone(),
            accepted,
            replier,
        };
        self.inner.bindings.relay(relay, ticket);
    }

    fn request(
        &self,
        route: ActorRoute,
        actor: ActorRef,
        generation: BindingGeneration,
    ) -> BindRequest {
        let session_rid = self.lock().machine.identity().session_rid.clone();
        BindRequest {
            session_rid,
            route,
            actor,
            generation,
        }
    }

    fn held(&self, call: CallId) {
        let accepted = self.lock().hold(call);
        if let Some(accepted) = accepted {
            drop(accepted.send(Ok(())));
        }
    }

    fn relay_failed(call: Option<Call>, error: &RelayError) {
        let Some(Call::Relay(relay)) = call else {
            return;
        };
        match (relay.accepted, relay.replier) {
            // The caller hears it, and the replier is the handler's to use no more.
            (Some(accepted), replier) => {
                drop(replier);
                drop(accepted.send(Err(error.clone())));
            }
            // It was held: only the client is left to be told.
            (None, Some(replier)) => {
                let error = RemoteError {
                    code: format!("{:?}", error.kind()),
                    message: error.to_string(),
                };
                drop(replier.fail_now(&error));
            }
            (None, None) => {}
        }
    }

    /// ST-149: a push becomes a Send frame of the connection.
    fn deliver(&self, actor_id: &ActorId, payload: &ApplicationPayload) {
        let Ok(name) = Name::application(payload.packet_name.as_str()) else {
            return self.inner.stats.count_push_dropped();
        };
        let frame = Frame::Send {
            name,
            payload: from_application(payload),
            extras: Extras::default(),
        };
        let sent = to_bytes(&frame).map_err(drop).and_then(|bytes| {
            let sent = self.inner.outbox.send_now(bytes);
            sent.map_err(drop)
        });
        if sent.is_err() {
            // RL-330: never silent.
            self.inner.stats.count_push_dropped();
            self.report(Diagnostic::PushRefused, actor_id);
        }
    }
}

/// The call that an effect ends; a held relay is not at its end.
fn effect_call(effect: &SessionEffect) -> Option<CallId> {
    match effect {
        SessionEffect::BindEnded { call, .. }
        | SessionEffect::NotifyEnded { call, .. }
        | SessionEffect::SubmitRelay { call, .. }
        | SessionEffect::RelayFailed { call, .. } => Some(*call),
        _ => None,
    }
}

/// Takes a bind back when its caller is gone.
struct Abandon<'a> {
    actors: &'a SessionActors,
    call: CallId,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        let waiting = self.actors.lock().calls.remove(&self.call);
        if waiting.is_some() {
            let call = self.call;
            self.actors.on(SessionEvent::BindAbandoned { call });
        }
    }
}

impl fmt::Debug for SessionActors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionActors").finish_non_exhaustive()
    }
}
