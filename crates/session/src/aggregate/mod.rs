//! Everything that one session knows about its Actors.
//!
//! | stage | left by | next |
//! |---|---|---|
//! | `Open` | 51 that applies (SB-53) | `Replaced` |
//! | `Open` | close, seal timeout, loss of the connection | `Leaving`, or `Over` without bindings |
//! | `Replaced` | end of the callback (SB-54) | `Replaced`, with its 100 ms |
//! | `Replaced` | 100 ms, callback timeout, close, loss | `Leaving`, or `Over` |
//! | `Leaving` | last notice settled or late (SB-60, SB-63) | `Over` |
//!
//! | Actor | event | next |
//! |---|---|---|
//! | none | bind | `Binding` |
//! | `Binding` | registered | `Bound` |
//! | `Binding` | refused, no answer, caller gone | what was bound before |
//! | `Bound` | bind of another incarnation | `Binding` |
//! | `Bound` | 42 that is current (SES-1) | `Sealed` |
//! | `Sealed` | 44 of its move (SES-4, SES-5) | `Bound` |
//! | any with a binding | notice settled, 51 that applies | none |
//! | `Sealed` | seal timeout (SES-6) | the whole session leaves |

mod bind;
mod leave;
mod relay;
mod seal;
mod slot;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::ActorId;
use spotlane_types::time::Monotonic;

use crate::bound::{LIFECYCLE_DEADLINE, REPLACEMENT_CALLBACK_TIMEOUT, SEAL_TIMEOUT};
use crate::effect::{BoundActor, CloseCause, Diagnostic, Ignored, SessionEffect};
use crate::error::{BindError, RelayError};
use crate::event::SessionEvent;
use crate::identity::{CallId, SessionIdentity};
use crate::machine::Machine;

use slot::{Bound, Notice, Slot};

/// The settings of a session owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "closed by RL-291, RL-316 and SB-63"
)]
pub struct SessionTimes {
    /// From the installation of a seal to its route update (RL-291).
    pub seal_timeout: Duration,
    /// How long the callback of a replaced session may take (RL-316).
    pub replacement_callback_timeout: Duration,
    /// How long a disconnect notice waits (SB-63).
    pub lifecycle_deadline: Duration,
}

impl Default for SessionTimes {
    fn default() -> Self {
        Self {
            seal_timeout: SEAL_TIMEOUT,
            replacement_callback_timeout: REPLACEMENT_CALLBACK_TIMEOUT,
            lifecycle_deadline: LIFECYCLE_DEADLINE,
        }
    }
}

/// The one judge of one session's bindings (SB-3).
///
/// Binding changes, pushes, seals and the end of the session meet here and nowhere else, one event at a
/// time (EX-179). It selects no target, judges no Actor authority and knows no store.
#[derive(Debug)]
pub struct SessionBindingAggregate {
    identity: SessionIdentity,
    times: SessionTimes,
    stage: Stage,
    /// SB-2: any number of Actors, each with its own route.
    slots: BTreeMap<ActorId, Slot>,
    /// SB-32: the number of the next record that is accepted for relay.
    next_sequence: u64,
    /// SB-15: no route is used from then on.
    admission_until: Option<Monotonic>,
    binds: Binds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binds {
    Accepted,
    /// RL-229.
    Refused,
}

#[derive(Debug)]
enum Stage {
    Open,
    Replaced(Replaced),
    Leaving(Leaving),
    Over,
}

/// Another session has taken one of the Actors; the callback runs or has run.
///
/// SB-54: lifecycle, session and retired binding that were captured are the value's own existence: the
/// stage is left by every other end of the session, and then no timer of it is left to fire.
#[derive(Debug)]
struct Replaced {
    actor_id: ActorId,
    phase: ReplacedPhase,
}

#[derive(Clone, Copy, Debug)]
enum ReplacedPhase {
    Callback { deadline: Monotonic },
    Pause { close_at: Monotonic },
}

/// The notices that are not settled, by binding generation.
#[derive(Debug)]
struct Leaving {
    notices: BTreeMap<u64, (ActorId, Notice)>,
}

type Effects = Vec<SessionEffect>;

impl SessionBindingAggregate {
    /// A session without bindings.
    pub const fn new(identity: SessionIdentity, times: SessionTimes) -> Self {
        Self {
            identity,
            times,
            stage: Stage::Open,
            slots: BTreeMap::new(),
            next_sequence: 1,
            admission_until: None,
            binds: Binds::Accepted,
        }
    }

    /// Which session this is.
    pub const fn identity(&self) -> &SessionIdentity {
        &self.identity
    }

    /// The bindings in force, in the order of the Actor ids (SB-6).
    pub fn bound(&self) -> impl Iterator<Item = BoundActor> {
        self.slots
            .values()
            .filter_map(Slot::current)
            .map(Bound::view)
    }

    /// This session's binding of an Actor; looks nowhere else (SB-6).
    pub fn find(&self, actor_id: &ActorId) -> Option<BoundActor> {
        self.slots.get(actor_id)?.current().map(Bound::view)
    }

    /// Whether nothing of the session is left.
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// The Actor of the binding in force with this number; numbers are unique in a session owner.
    fn actor_of(&self, generation: BindingGeneration) -> Option<ActorId> {
        let named = |slot: &Slot| slot.current().is_some_and(|b| b.generation == generation);
        let found = self.slots.iter().find(|(_, slot)| named(slot));
        found.map(|(actor_id, _)| actor_id.clone())
    }

    fn on_live(&mut self, now: Monotonic, event: SessionEvent, out: &mut Effects) {
        match event {
            SessionEvent::Bind(call) => self.bind(call, out),
            SessionEvent::BindAnswered { generation, answer } => {
                self.bind_answered(now, generation, answer, out);
            }
            SessionEvent::BindAbandoned { call } => self.bind_abandoned(call, out),
            SessionEvent::Relay {
                call,
                token,
                message,
            } => self.relay(now, call, &token, message, out),
            SessionEvent::RelayWithdrawn { call } => self.relay_withdrawn(call, out),
            SessionEvent::NotifyDisconnected { call, token } => {
                self.notify_disconnected(now, call, &token, out);
            }
            SessionEvent::NoticeEnded { generation, end } => {
                self.notice_ended(generation, end, out);
            }
            SessionEvent::Push(push) => self.push(now, push, out),
            SessionEvent::Replaced { peer, replaced } => {
                self.replaced(now, peer, replaced, out);
            }
            SessionEvent::ReplacedCallbackEnded(end) => self.replaced_callback_ended(now, end, out),
            SessionEvent::Seal(seal) => self.seal(now, seal, out),
            SessionEvent::Route { mesh_name, update } => {
                self.route_update(now, mesh_name, update, out);
            }
            SessionEvent::AdmissionUntil(until) => self.admission_until = Some(until),
            SessionEvent::RefuseBinds => self.binds = Binds::Refused,
            SessionEvent::Close => self.close(now, CloseCause::HandlerClosed, out),
            SessionEvent::ConnectionLost => self.leave(now, out),
        }
    }

    fn on_ended(&mut self, event: SessionEvent, out: &mut Effects) {
        let ignored = |reason| SessionEffect::Ignored(reason);
        out.push(match event {
            SessionEvent::Bind(call) => session_closing(call.call, call.actor.actor_id),
            // What was asked for got its tombstone when the session left.
            SessionEvent::BindAnswered { .. } => ignored(Ignored::AnswerOfNoBind),
            SessionEvent::BindAbandoned { .. } | SessionEvent::RelayWithdrawn { .. } => {
                ignored(Ignored::CallOfNobody)
            }
            SessionEvent::Relay { call, token, .. } => SessionEffect::RelayFailed {
                call,
                error: RelayError::SessionClosed {
                    actor_id: token.actor_id().clone(),
                },
            },
            SessionEvent::NotifyDisconnected { call, token } => SessionEffect::NotifyEnded {
                call,
                result: Err(RelayError::BindingEnded {
                    actor_id: token.actor_id().clone(),
                }),
            },
            SessionEvent::NoticeEnded { generation, end } => {
                return self.leaving_notice_ended(generation, end, out);
            }
            SessionEvent::Push(push) => report(Diagnostic::PushRefused, push.actor.actor.actor_id),
            // SB-52, SB-59
            SessionEvent::Replaced { .. } => ignored(Ignored::ReplacementStale),
            SessionEvent::ReplacedCallbackEnded(_) => ignored(Ignored::CallbackOfNobody),
            SessionEvent::Seal(_) => ignored(Ignored::SealNotCurrent),
            // SES-7
            SessionEvent::Route { update, .. } => {
                report(Diagnostic::LateSessionRouteUpdate, update.actor.actor_id)
            }
            SessionEvent::AdmissionUntil(_)
            | SessionEvent::RefuseBinds
            | SessionEvent::Close
            | SessionEvent::ConnectionLost => ignored(Ignored::SessionOver),
        });
    }
}

fn report(diagnostic: Diagnostic, actor_id: ActorId) -> SessionEffect {
    SessionEffect::Report {
        diagnostic,
        actor_id,
    }
}

fn session_closing(call: CallId, actor_id: ActorId) -> SessionEffect {
    SessionEffect::BindEnded {
        call,
        result: Err(BindError::SessionClosing { actor_id }),
    }
}

impl Notice {
    const fn new(deadline: Monotonic, calls: Vec<CallId>) -> Self {
        Self {
            deadline,
            calls,
            binds: VecDeque::new(),
        }
    }
}

impl Machine for SessionBindingAggregate {
    type Event = SessionEvent;
    type Effect = SessionEffect;

    fn on_event(&mut self, now: Monotonic, event: SessionEvent, out: &mut Vec<SessionEffect>) {
        match self.stage {
            Stage::Open | Stage::Replaced(_) => self.on_live(now, event, out),
            Stage::Leaving(_) | Stage::Over => self.on_ended(event, out),
        }
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        let stage = match &self.stage {
            Stage::Open | Stage::Over => None,
            Stage::Replaced(replaced) => Some(replaced.phase.deadline()),
            Stage::Leaving(leaving) => leaving.notices.values().map(|(_, n)| n.deadline).min(),
        };
        self.slots
            .values()
            .filter_map(Slot::deadline)
            .chain(stage)
            .min()
    }

    fn on_deadline(&mut self, now: Monotonic, out: &mut Vec<SessionEffect>) {
        match &self.stage {
            Stage::Over => {}
            Stage::Leaving(_) => self.leaving_deadline(now, out),
            Stage::Replaced(replaced) if replaced.phase.deadline() <= now => {
                let cause = self.replaced_deadline(out);
                self.close(now, cause, out);
            }
            Stage::Open | Stage::Replaced(_) => {
                self.late_notices(now, out);
                self.late_seal(now, out);
            }
        }
    }
}
