//! Bind: one question, one answer, one point at which the binding is there (SB-20 to SB-27).

use std::collections::VecDeque;

use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::ActorId;
use spotlane_types::time::Monotonic;

use super::slot::{Binding, Bound, Early, EarlyRecord, Slot};
use super::{Binds, Effects, SessionBindingAggregate, Stage, session_closing};
use crate::effect::{Diagnostic, Ignored, NoticeKind, SessionEffect};
use crate::error::BindError;
use crate::event::{BindAnswer, BindCall};
use crate::identity::CallId;

impl SessionBindingAggregate {
    pub(super) fn bind(&mut self, call: BindCall, out: &mut Effects) {
        let actor_id = call.actor.actor_id.clone();
        let open = matches!(self.stage, Stage::Open) && self.binds == Binds::Accepted;
        match self.slots.get_mut(&actor_id) {
            // SB-25: one after the other.
            Some(Slot::Binding(binding)) => binding.waiting.push_back(call),
            Some(Slot::Bound(bound)) => {
                if let Some(notice) = &mut bound.notice {
                    // What is being ended is not handed out again.
                    notice.binds.push_back(call);
                } else if bound.actor == call.actor {
                    // SB-25, SB-26: the same binding, unchanged; nothing is sent.
                    let result = Ok(bound.view());
                    out.push(SessionEffect::BindEnded {
                        call: call.call,
                        result,
                    });
                } else if open {
                    self.ask(call, out);
                } else {
                    out.push(session_closing(call.call, actor_id));
                }
            }
            Some(Slot::Sealed(sealed)) => {
                let result = if sealed.bound.actor == call.actor {
                    Ok(sealed.bound.view())
                } else {
                    // SB-90: no replacement starts under a seal.
                    Err(BindError::Moving { actor_id })
                };
                out.push(SessionEffect::BindEnded {
                    call: call.call,
                    result,
                });
            }
            None if open => self.ask(call, out),
            None => out.push(session_closing(call.call, actor_id)),
        }
    }

    /// SB-20: one request to the location that the caller gave.
    fn ask(&mut self, call: BindCall, out: &mut Effects) {
        let actor_id = call.actor.actor_id.clone();
        let previous = match self.slots.remove(&actor_id) {
            Some(Slot::Bound(bound)) => Some(bound),
            Some(Slot::Sealed(_) | Slot::Binding(_)) | None => None,
        };
        out.push(SessionEffect::RequestBind {
            route: call.route.clone(),
            actor: call.actor.clone(),
            generation: call.generation,
        });
        let binding = Binding {
            asked: call,
            previous,
            waiting: VecDeque::new(),
            early: Early::default(),
        };
        self.slots
            .insert(actor_id, Slot::Binding(Box::new(binding)));
    }

    pub(super) fn bind_answered(
        &mut self,
        now: Monotonic,
        generation: BindingGeneration,
        answer: BindAnswer,
        out: &mut Effects,
    ) {
        let Some(Binding {
            asked,
            previous,
            waiting,
            early,
        }) = self.take_asked(|asked| asked.generation == generation)
        else {
            // SB-59: a late answer of an earlier connection or of an abandoned bind.
            out.push(SessionEffect::Ignored(Ignored::AnswerOfNoBind));
            return;
        };
        let actor_id = asked.actor.actor_id.clone();
        let error = match answer {
            BindAnswer::Registered { followed } => {
                let bound = Bound {
                    route: followed.unwrap_or(asked.route),
                    actor: asked.actor,
                    generation,
                    notice: None,
                    last_move: None,
                };
                let view = bound.view();
                // SB-23, EX-371: from here on relay, push and seal are judged by the new binding.
                self.slots.insert(actor_id, Slot::Bound(bound));
                out.push(SessionEffect::BindEnded {
                    call: asked.call,
                    result: Ok(view),
                });
                self.previous_ended(previous, out);
                // SB-22: registered there before its answer left, so they are judged by the new binding.
                self.take_early(now, early, out);
                return self.bind_again(waiting, out);
            }
            BindAnswer::Refused(refusal) => BindError::Refused {
                actor_id: actor_id.clone(),
                refusal,
            },
            BindAnswer::Unanswered | BindAnswer::Unreachable => {
                Self::retract(&asked, out);
                let actor_id = actor_id.clone();
                match answer {
                    BindAnswer::Unreachable => BindError::Unreachable { actor_id },
                    BindAnswer::Unanswered
                    | BindAnswer::Registered { .. }
                    | BindAnswer::Refused(_) => BindError::Unanswered { actor_id },
                }
            }
        };
        drop_early(early, out);
        self.put_back(actor_id, previous);
        out.push(SessionEffect::BindEnded {
            call: asked.call,
            result: Err(error),
        });
        self.bind_again(waiting, out);
    }

    pub(super) fn bind_abandoned(&mut self, call: CallId, out: &mut Effects) {
        if let Some(binding) = self.take_asked(|asked| asked.call == call) {
            Self::retract(&binding.asked, out);
            drop_early(binding.early, out);
            self.put_back(binding.asked.actor.actor_id, binding.previous);
            return self.bind_again(binding.waiting, out);
        }
        let waiting = self.slots.values_mut().filter_map(|slot| match slot {
            Slot::Binding(binding) => Some(&mut binding.waiting),
            Slot::Bound(bound) => bound.notice.as_mut().map(|notice| &mut notice.binds),
            Slot::Sealed(_) => None,
        });
        for queue in waiting {
            if let Some(at) = queue.iter().position(|waiting| waiting.call == call) {
                queue.remove(at);
                return;
            }
        }
        out.push(SessionEffect::Ignored(Ignored::CallOfNobody));
    }

    /// SB-27: perhaps registered, so it is taken back.
    pub(super) fn retract(asked: &BindCall, out: &mut Effects) {
        out.push(SessionEffect::SendTombstone {
            route: asked.route.clone(),
            actor: asked.actor.clone(),
            generation: asked.generation,
            kind: NoticeKind::Unawaited,
        });
    }

    fn take_asked(&mut self, wanted: impl Fn(&BindCall) -> bool) -> Option<Binding> {
        let found = self.slots.iter().find_map(|(actor_id, slot)| match slot {
            Slot::Binding(binding) if wanted(&binding.asked) => Some(actor_id.clone()),
            Slot::Binding(_) | Slot::Bound(_) | Slot::Sealed(_) => None,
        })?;
        match self.slots.remove(&found) {
            Some(Slot::Binding(binding)) => Some(*binding),
            Some(Slot::Bound(_) | Slot::Sealed(_)) | None => None,
        }
    }

    /// Where records about a binding wait whose answer is still on its way; `None` when no answer is awaited for it.
    pub(super) fn early_of(&mut self, generation: BindingGeneration) -> Option<&mut Early> {
        self.slots.values_mut().find_map(|slot| match slot {
            Slot::Binding(binding) if binding.asked.generation == generation => {
                Some(&mut binding.early)
            }
            Slot::Binding(_) | Slot::Bound(_) | Slot::Sealed(_) => None,
        })
    }

    /// SB-22: sent behind the answer, so judged by the binding that it made.
    fn take_early(&mut self, now: Monotonic, early: Early, out: &mut Effects) {
        for record in early.into_records() {
            match record {
                EarlyRecord::Push(push) => self.push(now, push, out),
                EarlyRecord::Seal(seal) => self.seal(now, seal, out),
                EarlyRecord::Route { mesh_name, update } => {
                    self.route_update(now, mesh_name, update, out);
                }
                EarlyRecord::Replaced { peer, replaced } => {
                    self.replaced(now, peer, replaced, out);
                }
            }
        }
    }

    fn put_back(&mut self, actor_id: ActorId, previous: Option<Bound>) {
        if let Some(bound) = previous {
            self.slots.insert(actor_id, Slot::Bound(bound));
        }
    }

    /// The binding of another incarnation that a new one has ended: who waits for its notice is done.
    fn previous_ended(&mut self, previous: Option<Bound>, out: &mut Effects) {
        if let Some(notice) = previous.and_then(|bound| bound.notice) {
            for call in notice.calls {
                out.push(SessionEffect::NotifyEnded {
                    call,
                    result: Ok(()),
                });
            }
            self.bind_again(notice.binds, out);
        }
    }

    pub(super) fn bind_again(&mut self, waiting: VecDeque<BindCall>, out: &mut Effects) {
        for call in waiting {
            self.bind(call, out);
        }
    }
}

/// There is no binding that they could be about.
pub(super) fn drop_early(early: Early, out: &mut Effects) {
    out.extend(early.into_records().into_iter().map(refused));
}

/// What becomes of a record that no binding answers for.
fn refused(record: EarlyRecord) -> SessionEffect {
    match record {
        EarlyRecord::Push(push) => {
            super::report(Diagnostic::PushRefused, push.actor.actor.actor_id)
        }
        // WR-55: the sealer gets no answer.
        EarlyRecord::Seal(_) => SessionEffect::Ignored(Ignored::SealNotCurrent),
        EarlyRecord::Route { update, .. } => {
            super::report(Diagnostic::LateSessionRouteUpdate, update.actor.actor_id)
        }
        EarlyRecord::Replaced { .. } => SessionEffect::Ignored(Ignored::ReplacementStale),
    }
}

/// Keeps a record until the answer comes, if there is room.
pub(super) fn keep_early(early: &mut Early, record: EarlyRecord, out: &mut Effects) {
    out.extend(early.keep(record).map(refused));
}
