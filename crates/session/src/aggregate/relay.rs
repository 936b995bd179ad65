//! Messages to the Actor and pushes from it (SB-30 to SB-39).

use spotlane_types::count::SessionSequence;
use spotlane_types::id::SessionRid;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::command::session::BoundSessionSend;

use super::bind::keep_early;
use super::slot::{Bound, EarlyRecord, Held, Slot};
use super::{Effects, SessionBindingAggregate, report};
use crate::bound::SESSION_CLOSE_PACKET;
use crate::effect::{CloseCause, Diagnostic, Ignored, SessionEffect};
use crate::error::RelayError;
use crate::event::RelayMessage;
use crate::identity::{BindingToken, CallId};

/// SB-38: the four values decide, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Of the tenure that the route names.
    Current,
    /// Of this binding, but of a tenure after it: a move is about to be announced (RL-350).
    LaterTenure,
    Stale,
}

/// A push that was judged current; only [`CurrentPush::judge`] makes one.
pub(super) struct CurrentPush(BoundSessionSend);

impl CurrentPush {
    pub(super) fn judge(bound: &Bound, push: BoundSessionSend) -> Option<Self> {
        (standing(bound, &push) == Standing::Current).then_some(Self(push))
    }
}

fn standing(bound: &Bound, push: &BoundSessionSend) -> Standing {
    let same_binding = push.actor.actor.object_generation == bound.actor.object_generation
        && push.expected_binding_generation == bound.generation;
    if !same_binding {
        return Standing::Stale;
    }
    let tenure = push.actor.expected_authority_owner_generation;
    if tenure.is_after(bound.route.authority_owner_generation) {
        return Standing::LaterTenure;
    }
    let same_tenure = tenure == bound.route.authority_owner_generation
        && push.actor.target_node_generation == bound.route.node_generation;
    if same_tenure {
        Standing::Current
    } else {
        Standing::Stale
    }
}

impl SessionBindingAggregate {
    pub(super) fn relay(
        &mut self,
        now: Monotonic,
        call: CallId,
        token: &BindingToken,
        message: RelayMessage,
        out: &mut Effects,
    ) {
        let actor_id = token.actor_id().clone();
        if self.admission_until.is_some_and(|until| until <= now) {
            // SB-15: no other route is guessed.
            let error = RelayError::RouteExpired { actor_id };
            out.push(SessionEffect::RelayFailed { call, error });
            return;
        }
        let current = |bound: &Bound| bound.generation == token.generation();
        let slot = self.slots.get_mut(&actor_id);
        let Some(slot) = slot.filter(|slot| slot.current().is_some_and(current)) else {
            let error = RelayError::BindingEnded { actor_id };
            out.push(SessionEffect::RelayFailed { call, error });
            return;
        };
        // SB-32: numbered when accepted, in order over all Actors of the session.
        let sequence = SessionSequence::new(self.next_sequence).unwrap_or(SessionSequence::MAX);
        self.next_sequence = self.next_sequence.saturating_add(1);
        match slot {
            Slot::Sealed(sealed) => {
                // SES-3
                sealed.held.push_back(Held::Relay {
                    call,
                    sequence,
                    message,
                });
                out.push(SessionEffect::RelayHeld { call });
            }
            Slot::Bound(bound) => {
                out.push(submit(
                    &self.identity.session_rid,
                    bound,
                    call,
                    sequence,
                    message,
                ));
            }
            Slot::Binding(binding) => {
                if let Some(bound) = &binding.previous {
                    let rid = &self.identity.session_rid;
                    out.push(submit(rid, bound, call, sequence, message));
                }
            }
        }
    }

    /// SB-86: a message that ends in the hold leaves it.
    pub(super) fn relay_withdrawn(&mut self, call: CallId, out: &mut Effects) {
        let is_it = |held: &Held| match held {
            Held::Relay { call: held, .. } => *held == call,
            Held::Push(_) => false,
        };
        for slot in self.slots.values_mut() {
            match slot {
                Slot::Sealed(sealed) => {
                    if let Some(at) = sealed.held.iter().position(is_it) {
                        sealed.held.remove(at);
                        return;
                    }
                }
                Slot::Binding(_) | Slot::Bound(_) => {}
            }
        }
        out.push(SessionEffect::Ignored(Ignored::CallOfNobody));
    }

    /// The one judge of a push (SB-38).
    pub(super) fn push(&mut self, now: Monotonic, push: BoundSessionSend, out: &mut Effects) {
        let actor_id = push.actor.actor.actor_id.clone();
        let Some(slot) = self.slots.get_mut(&actor_id) else {
            out.push(report(Diagnostic::PushRefused, actor_id));
            return;
        };
        if let Slot::Binding(binding) = slot
            && push.expected_binding_generation == binding.asked.generation
        {
            // Of the binding whose answer is still on its way (SB-23).
            return keep_early(&mut binding.early, EarlyRecord::Push(push), out);
        }
        if let Slot::Sealed(sealed) = slot {
            match standing(&sealed.bound, &push) {
                // SES-3, RL-350: held until the update says whose tenure it is.
                Standing::LaterTenure => return sealed.held.push_back(Held::Push(push)),
                // SES-8, SB-89
                Standing::Current | Standing::Stale => {}
            }
        }
        let current = slot
            .current()
            .and_then(|bound| CurrentPush::judge(bound, push));
        match current {
            Some(current) => self.deliver(now, current, out),
            None => out.push(report(Diagnostic::PushRefused, actor_id)),
        }
    }

    pub(super) fn deliver(&mut self, now: Monotonic, push: CurrentPush, out: &mut Effects) {
        let CurrentPush(push) = push;
        if push.payload.packet_name.as_bytes() == SESSION_CLOSE_PACKET.as_bytes() {
            // SB-39
            return self.close(now, CloseCause::ActorClosed, out);
        }
        out.push(SessionEffect::DeliverPush {
            actor_id: push.actor.actor.actor_id,
            payload: push.payload,
        });
    }
}

pub(super) fn submit(
    session_rid: &SessionRid,
    bound: &Bound,
    call: CallId,
    sequence: SessionSequence,
    message: RelayMessage,
) -> SessionEffect {
    SessionEffect::SubmitRelay {
        call,
        route: bound.route.clone(),
        actor: bound.actor.clone(),
        tail: BoundSessionTail {
            source_session_rid: session_rid.clone(),
            source_binding_generation: bound.generation,
            source_session_sequence: sequence,
        },
        message,
    }
}
