//! The seal of a binding whose Actor moves: commands 42, 43 and 44 (SB-80 to SB-90).

use std::collections::VecDeque;

use spotlane_types::id::MeshName;
use spotlane_types::kind::RelocationRole;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::session::{
    SessionRelocationRoute, SessionRelocationSeal, SessionRelocationSealed,
};
use spotlane_wire::reference::SessionRouteUpdate;

use super::bind::keep_early;
use super::relay::{CurrentPush, submit};
use super::slot::{Bound, EarlyRecord, Held, Sealed, Slot};
use super::{Effects, SessionBindingAggregate, report};
use crate::effect::{CloseCause, Diagnostic, Ignored, SessionEffect};
use crate::identity::{ActorRoute, Peer, SessionIdentity};

impl SessionBindingAggregate {
    /// SES-1, SES-2; one binding and nothing else of the session (EX-178)
    pub(super) fn seal(&mut self, now: Monotonic, seal: SessionRelocationSeal, out: &mut Effects) {
        let actor_id = seal.actor.actor.actor_id.clone();
        if seal.sender_role != RelocationRole::Source {
            // WR-51
            out.push(SessionEffect::Ignored(Ignored::WrongRole));
            return;
        }
        if let Some(early) = self.early_of(seal.binding_generation) {
            // Sent behind the answer to its bind, which is still on its way.
            return keep_early(early, EarlyRecord::Seal(seal), out);
        }
        match self.slots.remove(&actor_id) {
            Some(Slot::Sealed(sealed)) => {
                out.push(if sealed.seal == seal {
                    // A repeat of the same 42 gets the same 43.
                    send_sealed(&seal)
                } else if sealed.seal.relocation == seal.relocation {
                    // SB-85, WR-52
                    report(Diagnostic::ProtocolError, actor_id.clone())
                } else {
                    SessionEffect::Ignored(Ignored::SealedByAnother)
                });
                self.slots.insert(actor_id, Slot::Sealed(sealed));
            }
            Some(Slot::Bound(bound)) => {
                let slot = if let Some(reason) = why_not(&self.identity, &bound, &seal) {
                    // WR-55: a seal that cannot be installed is answered by silence.
                    out.push(SessionEffect::Ignored(reason));
                    Slot::Bound(bound)
                } else {
                    out.push(send_sealed(&seal));
                    Slot::Sealed(Box::new(Sealed {
                        bound,
                        seal,
                        // SB-80, SB-88: the clock starts with the installation.
                        deadline: now.after(self.times.seal_timeout),
                        held: VecDeque::new(),
                    }))
                };
                self.slots.insert(actor_id, slot);
            }
            other => {
                // SB-90: a rebind to another incarnation is under way; the sealer's is gone.
                if let Some(slot) = other {
                    self.slots.insert(actor_id, slot);
                }
                out.push(SessionEffect::Ignored(Ignored::SealNotCurrent));
            }
        }
    }

    /// SES-4, SES-5, SES-7
    pub(super) fn route_update(
        &mut self,
        now: Monotonic,
        mesh_name: MeshName,
        update: SessionRelocationRoute,
        out: &mut Effects,
    ) {
        if let Some(early) = self.early_of(update.binding_generation) {
            // Behind its seal, which waits for the same answer.
            return keep_early(early, EarlyRecord::Route { mesh_name, update }, out);
        }
        let actor_id = update.actor.actor_id.clone();
        let diagnostic = match self.slots.get(&actor_id) {
            Some(Slot::Sealed(sealed)) if sealed.seal.relocation == update.relocation => {
                if !same_move(&sealed.seal, &update) {
                    Diagnostic::ProtocolError
                } else if !has_its_role(&update) {
                    out.push(SessionEffect::Ignored(Ignored::WrongRole));
                    return;
                } else {
                    return self.release(now, mesh_name, update, out);
                }
            }
            Some(slot) => match slot.current().and_then(|bound| bound.last_move.as_ref()) {
                Some(last) if last.relocation == update.relocation && **last != update => {
                    Diagnostic::ProtocolError
                }
                // RL-322: repeated, or of another move.
                Some(_) | None => Diagnostic::LateSessionRouteUpdate,
            },
            None => Diagnostic::LateSessionRouteUpdate,
        };
        out.push(report(diagnostic, actor_id));
    }

    /// SB-87: route and snapshot, what was held, and the release, in one span.
    fn release(
        &mut self,
        now: Monotonic,
        mesh_name: MeshName,
        update: SessionRelocationRoute,
        out: &mut Effects,
    ) {
        let actor_id = update.actor.actor_id.clone();
        let Some(Slot::Sealed(sealed)) = self.slots.remove(&actor_id) else {
            return;
        };
        let Sealed {
            mut bound, held, ..
        } = *sealed;
        match &update.route {
            SessionRouteUpdate::Commit {
                target_authority_owner_generation,
                target_node_rid,
                target_node_generation,
                target_owner_lease_generation,
                previous_authority_owner_generation: _,
            } => {
                // SB-14: identity and incarnation stay; only the location changes.
                bound.route = ActorRoute {
                    mesh_name,
                    node_rid: target_node_rid.clone(),
                    node_generation: *target_node_generation,
                    authority_owner_generation: *target_authority_owner_generation,
                    owner_lease_generation: *target_owner_lease_generation,
                };
            }
            SessionRouteUpdate::Abort { .. } => {}
        }
        bound.last_move = Some(Box::new(update));
        self.slots.insert(actor_id.clone(), Slot::Bound(bound));
        for held in held {
            let bound = self.slots.get(&actor_id).and_then(Slot::current);
            match (held, bound) {
                (
                    Held::Relay {
                        call,
                        sequence,
                        message,
                    },
                    Some(bound),
                ) => {
                    let rid = &self.identity.session_rid;
                    out.push(submit(rid, bound, call, sequence, message));
                }
                (Held::Push(push), Some(bound)) => match CurrentPush::judge(bound, push) {
                    Some(current) => self.deliver(now, current, out),
                    None => out.push(report(Diagnostic::PushRefused, actor_id.clone())),
                },
                // A held push has closed the session.
                (held, None) => out.push(Self::drop_held(&actor_id, held)),
            }
        }
    }

    /// SES-6: the first binding whose update did not come ends the session.
    pub(super) fn late_seal(&mut self, now: Monotonic, out: &mut Effects) {
        let late = self.slots.iter().find_map(|(actor_id, slot)| match slot {
            Slot::Sealed(sealed) if sealed.deadline <= now => Some(actor_id.clone()),
            Slot::Sealed(_) | Slot::Bound(_) | Slot::Binding(_) => None,
        });
        if let Some(actor_id) = late {
            out.push(report(Diagnostic::SealTimeout, actor_id));
            self.close(now, CloseCause::SealTimeout, out);
        }
    }
}

/// SB-85: why the binding is not the one that the seal is for.
fn why_not(
    identity: &SessionIdentity,
    bound: &Bound,
    seal: &SessionRelocationSeal,
) -> Option<Ignored> {
    let owner = &identity.owner;
    let current = seal.session_owner_node_rid == owner.node_rid
        && seal.session_owner_node_generation == owner.node_generation
        && seal.session_owner_id == owner.owner_id
        && seal.session_owner_lease_generation == owner.owner_lease_generation
        && seal.session_rid == identity.session_rid
        && seal.binding_generation == bound.generation
        && seal.actor.actor == bound.actor;
    if !current {
        return Some(Ignored::SealNotCurrent);
    }
    let ended = bound.last_move.as_ref();
    ended
        .is_some_and(|last| last.relocation == seal.relocation)
        .then_some(Ignored::SealOfEndedMove)
}

/// SB-85: session, binding, Actor and move of an update against its seal; nothing of authority.
fn same_move(seal: &SessionRelocationSeal, update: &SessionRelocationRoute) -> bool {
    update.coordinator == seal.coordinator
        && update.actor == seal.actor.actor
        && update.session_owner_node_rid == seal.session_owner_node_rid
        && update.session_owner_node_generation == seal.session_owner_node_generation
        && update.session_owner_id == seal.session_owner_id
        && update.session_owner_lease_generation == seal.session_owner_lease_generation
        && update.session_rid == seal.session_rid
        && update.binding_generation == seal.binding_generation
}

/// SB-81, SB-82: the target commits, the source aborts.
fn has_its_role(update: &SessionRelocationRoute) -> bool {
    let needed = match update.route {
        SessionRouteUpdate::Commit { .. } => RelocationRole::Target,
        SessionRouteUpdate::Abort { .. } => RelocationRole::Source,
    };
    update.sender_role == needed
}

/// The answer to a seal: its identity without sequence or high-water (T-SES-07).
fn send_sealed(seal: &SessionRelocationSeal) -> SessionEffect {
    SessionEffect::SendSealed {
        to: Peer {
            node_rid: seal.coordinator.coordinator_node_rid.clone(),
            node_generation: seal.coordinator.coordinator_node_generation,
        },
        sealed: Box::new(SessionRelocationSealed {
            relocation: seal.relocation,
            coordinator: seal.coordinator.clone(),
            actor: seal.actor.clone(),
            session_owner_node_rid: seal.session_owner_node_rid.clone(),
            session_owner_node_generation: seal.session_owner_node_generation,
            session_owner_id: seal.session_owner_id.clone(),
            session_owner_lease_generation: seal.session_owner_lease_generation,
            session_rid: seal.session_rid.clone(),
            binding_generation: seal.binding_generation,
        }),
    }
}
