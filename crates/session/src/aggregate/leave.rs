//! The ends: replacement by another session, disconnect notices, and the end of the session.

use std::collections::BTreeMap;

use spotlane_types::generation::BindingGeneration;
use spotlane_types::id::ActorId;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::session::BoundSessionReplaced;

use super::bind::{drop_early, keep_early};
use super::slot::{Bound, EarlyRecord, Held, Notice, Slot};
use super::{
    Effects, Leaving, Replaced, ReplacedPhase, SessionBindingAggregate, Stage, report,
    session_closing,
};
use crate::bound::REPLACEMENT_CLOSE_DELAY;
use crate::effect::{CloseCause, Diagnostic, Ignored, NoticeKind, SessionEffect};
use crate::error::RelayError;
use crate::event::{CallbackEnd, NoticeEnd};
use crate::identity::{BindingToken, CallId, Peer};

impl ReplacedPhase {
    pub(super) const fn deadline(self) -> Monotonic {
        match self {
            Self::Callback { deadline } => deadline,
            Self::Pause { close_at } => close_at,
        }
    }
}

impl SessionBindingAggregate {
    /// SB-52: all of it fits, or it is about somebody else.
    pub(super) fn replaced(
        &mut self,
        now: Monotonic,
        peer: Peer,
        record: BoundSessionReplaced,
        out: &mut Effects,
    ) {
        let generation = record.retired_session.retired_binding_generation;
        if let Some(early) = self.early_of(generation) {
            // Sent behind the answer to its bind, which is still on its way.
            let replaced = record;
            return keep_early(early, EarlyRecord::Replaced { peer, replaced }, out);
        }
        let (fence, retired) = (&record.actor_authority, &record.retired_session);
        let owner = &self.identity.owner;
        let from_target = peer.node_rid == fence.target_node_rid
            && peer.node_generation == fence.target_node_generation;
        let to_this = retired.session_owner_node_rid == owner.node_rid
            && retired.session_owner_node_generation == owner.node_generation
            && retired.session_owner_id == owner.owner_id
            && retired.session_owner_lease_generation == owner.owner_lease_generation
            && retired.session_rid == self.identity.session_rid;
        let binding = (from_target && to_this)
            .then(|| self.actor_of(retired.retired_binding_generation))
            .flatten();
        let Some(actor_id) = binding else {
            out.push(SessionEffect::Ignored(Ignored::ReplacementStale));
            return;
        };
        // SB-57: it is in no snapshot from here on, so nobody tells its Actor of a disconnect.
        self.remove_binding(&actor_id, Ok(()), out);
        match self.stage {
            Stage::Open => {
                // SB-53
                self.stage = Stage::Replaced(Replaced {
                    actor_id: actor_id.clone(),
                    phase: ReplacedPhase::Callback {
                        deadline: now.after(self.times.replacement_callback_timeout),
                    },
                });
                out.push(SessionEffect::BeginClosing);
                out.push(SessionEffect::RunReplacedCallback { actor_id });
            }
            // The last application turn was given away already.
            Stage::Replaced(_) | Stage::Leaving(_) | Stage::Over => {
                out.push(SessionEffect::Ignored(Ignored::ReplacementWhileClosing));
            }
        }
    }

    pub(super) fn replaced_callback_ended(
        &mut self,
        now: Monotonic,
        end: CallbackEnd,
        out: &mut Effects,
    ) {
        let Stage::Replaced(replaced) = &mut self.stage else {
            out.push(SessionEffect::Ignored(Ignored::CallbackOfNobody));
            return;
        };
        match replaced.phase {
            ReplacedPhase::Callback { .. } => {
                // SB-54: from its end, whatever is left in the outbound queue.
                replaced.phase = ReplacedPhase::Pause {
                    close_at: now.after(REPLACEMENT_CLOSE_DELAY),
                };
                if end == CallbackEnd::Failed {
                    let actor_id = replaced.actor_id.clone();
                    out.push(report(Diagnostic::ReplacedCallbackFailed, actor_id));
                }
            }
            ReplacedPhase::Pause { .. } => {
                out.push(SessionEffect::Ignored(Ignored::CallbackOfNobody));
            }
        }
    }

    /// The 100 ms are over, or the callback is (SB-54, SB-55).
    pub(super) fn replaced_deadline(&self, out: &mut Effects) -> CloseCause {
        match &self.stage {
            Stage::Replaced(Replaced {
                actor_id,
                phase: ReplacedPhase::Callback { .. },
            }) => {
                let actor_id = actor_id.clone();
                out.push(report(Diagnostic::ReplacedCallbackTimeout, actor_id));
                CloseCause::ReplacedCallbackTimeout
            }
            Stage::Replaced(_) | Stage::Open | Stage::Leaving(_) | Stage::Over => {
                CloseCause::Replaced
            }
        }
    }

    /// SB-64: one Actor, and the connection stays.
    pub(super) fn notify_disconnected(
        &mut self,
        now: Monotonic,
        call: CallId,
        token: &BindingToken,
        out: &mut Effects,
    ) {
        let deadline = now.after(self.times.lifecycle_deadline);
        let slot = self.slots.get_mut(token.actor_id());
        let bound = slot.and_then(Slot::current_mut);
        let Some(bound) = bound.filter(|bound| bound.generation == token.generation()) else {
            let actor_id = token.actor_id().clone();
            out.push(SessionEffect::NotifyEnded {
                call,
                result: Err(RelayError::BindingEnded { actor_id }),
            });
            return;
        };
        if let Some(notice) = &mut bound.notice {
            // SB-62: whoever comes second waits for the same end.
            notice.calls.push(call);
        } else {
            out.push(tombstone(bound));
            bound.notice = Some(Notice::new(deadline, vec![call]));
        }
    }

    pub(super) fn notice_ended(
        &mut self,
        generation: BindingGeneration,
        end: NoticeEnd,
        out: &mut Effects,
    ) {
        let noticed = |slot: &Slot| slot.current().is_some_and(|bound| bound.notice.is_some());
        let actor_id = self.actor_of(generation);
        let actor_id = actor_id.filter(|id| self.slots.get(id).is_some_and(noticed));
        let Some(actor_id) = actor_id else {
            out.push(SessionEffect::Ignored(Ignored::NoticeOfNobody));
            return;
        };
        if end == NoticeEnd::Failed {
            // SB-62: reported, and it restores nothing.
            out.push(report(Diagnostic::DisconnectNoticeFailed, actor_id.clone()));
        }
        self.remove_binding(&actor_id, Ok(()), out);
    }

    /// SB-63: clean-up goes on without the answer.
    pub(super) fn late_notices(&mut self, now: Monotonic, out: &mut Effects) {
        let late = |slot: &Slot| {
            let notice = slot.current().and_then(|bound| bound.notice.as_ref());
            notice.is_some_and(|notice| notice.deadline <= now)
        };
        let late: Vec<ActorId> = self
            .slots
            .iter()
            .filter(|(_, slot)| late(slot))
            .map(|(actor_id, _)| actor_id.clone())
            .collect();
        for actor_id in late {
            out.push(report(Diagnostic::DisconnectNoticeFailed, actor_id.clone()));
            let error = RelayError::Unanswered {
                actor_id: actor_id.clone(),
            };
            self.remove_binding(&actor_id, Err(error), out);
        }
    }

    /// Takes the binding in force out of the session; a bind of another incarnation goes on.
    fn remove_binding(
        &mut self,
        actor_id: &ActorId,
        notified: Result<(), RelayError>,
        out: &mut Effects,
    ) {
        let bound = match self.slots.remove(actor_id) {
            Some(Slot::Binding(mut binding)) => {
                let previous = binding.previous.take();
                self.slots.insert(actor_id.clone(), Slot::Binding(binding));
                previous
            }
            Some(Slot::Bound(bound)) => Some(bound),
            Some(Slot::Sealed(sealed)) => {
                for held in sealed.held {
                    out.push(match held {
                        Held::Relay { call, .. } => SessionEffect::RelayFailed {
                            call,
                            error: RelayError::BindingEnded {
                                actor_id: actor_id.clone(),
                            },
                        },
                        Held::Push(_) => report(Diagnostic::PushRefused, actor_id.clone()),
                    });
                }
                Some(sealed.bound)
            }
            None => None,
        };
        if let Some(notice) = bound.and_then(|bound| bound.notice) {
            for call in notice.calls {
                let result = notified.clone();
                out.push(SessionEffect::NotifyEnded { call, result });
            }
            self.bind_again(notice.binds, out);
        }
    }

    pub(super) fn close(&mut self, now: Monotonic, cause: CloseCause, out: &mut Effects) {
        out.push(SessionEffect::CloseConnection { cause });
        self.leave(now, out);
    }

    /// SB-60, EX-309: the snapshot is taken, and everybody in it is told once. It says nothing of a move that is under way
    /// (SB-91).
    pub(super) fn leave(&mut self, now: Monotonic, out: &mut Effects) {
        let deadline = now.after(self.times.lifecycle_deadline);
        let mut notices = BTreeMap::new();
        for (actor_id, slot) in std::mem::take(&mut self.slots) {
            let bound = match slot {
                Slot::Binding(binding) => {
                    let binding = *binding;
                    // SB-27: nobody is left who could use what may be registered.
                    Self::retract(&binding.asked, out);
                    drop_early(binding.early, out);
                    let calls = std::iter::once(binding.asked).chain(binding.waiting);
                    for call in calls {
                        out.push(session_closing(call.call, actor_id.clone()));
                    }
                    binding.previous
                }
                Slot::Bound(bound) => Some(bound),
                Slot::Sealed(sealed) => {
                    // SB-88: not delivered.
                    for held in sealed.held {
                        out.push(Self::drop_held(&actor_id, held));
                    }
                    Some(sealed.bound)
                }
            };
            if let Some(mut bound) = bound {
                // SB-62: one notice for one identity, whoever began it.
                let mut notice = bound.notice.take().unwrap_or_else(|| {
                    out.push(tombstone(&bound));
                    Notice::new(deadline, Vec::new())
                });
                for call in std::mem::take(&mut notice.binds) {
                    out.push(session_closing(call.call, actor_id.clone()));
                }
                notices.insert(bound.generation.get(), (actor_id, notice));
            }
        }
        self.stage = Stage::Leaving(Leaving { notices });
        self.finish_if_settled(out);
    }

    pub(super) fn drop_held(actor_id: &ActorId, held: Held) -> SessionEffect {
        let actor_id = actor_id.clone();
        match held {
            Held::Relay { call, .. } => SessionEffect::RelayFailed {
                call,
                error: RelayError::SessionClosed { actor_id },
            },
            Held::Push(_) => report(Diagnostic::PushRefused, actor_id),
        }
    }

    pub(super) fn leaving_notice_ended(
        &mut self,
        generation: BindingGeneration,
        end: NoticeEnd,
        out: &mut Effects,
    ) {
        let settled = match &mut self.stage {
            Stage::Leaving(leaving) => leaving.notices.remove(&generation.get()),
            Stage::Open | Stage::Replaced(_) | Stage::Over => None,
        };
        let Some((actor_id, notice)) = settled else {
            out.push(SessionEffect::Ignored(Ignored::NoticeOfNobody));
            return;
        };
        if end == NoticeEnd::Failed {
            // SB-60: one failure stops neither the others nor the clean-up.
            out.push(report(Diagnostic::DisconnectNoticeFailed, actor_id));
        }
        for call in notice.calls {
            let result = Ok(());
            out.push(SessionEffect::NotifyEnded { call, result });
        }
        self.finish_if_settled(out);
    }

    pub(super) fn leaving_deadline(&mut self, now: Monotonic, out: &mut Effects) {
        let Stage::Leaving(leaving) = &mut self.stage else {
            return;
        };
        let (late, kept) = std::mem::take(&mut leaving.notices)
            .into_iter()
            .partition(|(_, (_, notice))| notice.deadline <= now);
        leaving.notices = kept;
        let late: BTreeMap<u64, (ActorId, Notice)> = late;
        for (actor_id, notice) in late.into_values() {
            out.push(report(Diagnostic::DisconnectNoticeFailed, actor_id.clone()));
            for call in notice.calls {
                let actor_id = actor_id.clone();
                let result = Err(RelayError::Unanswered { actor_id });
                out.push(SessionEffect::NotifyEnded { call, result });
            }
        }
        self.finish_if_settled(out);
    }

    fn finish_if_settled(&mut self, out: &mut Effects) {
        if matches!(&self.stage, Stage::Leaving(leaving) if leaving.notices.is_empty()) {
            self.stage = Stage::Over;
            out.push(SessionEffect::Finished);
        }
    }
}

/// SB-61: the notice is command 38 with a tombstone, over the stored route.
fn tombstone(bound: &Bound) -> SessionEffect {
    SessionEffect::SendTombstone {
        route: bound.route.clone(),
        actor: bound.actor.clone(),
        generation: bound.generation,
        kind: NoticeKind::Awaited,
    }
}
