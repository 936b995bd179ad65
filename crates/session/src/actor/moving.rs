//! The Actor's half of a move: 42 out, 43 in, 44 abort (RL-125, RL-358, SB-80 to SB-82).

use spotlane_types::count::SessionSequence;
use spotlane_types::id::RelocationId;
use spotlane_types::kind::RelocationRole;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::session::{
    SessionRelocationRoute, SessionRelocationSeal, SessionRelocationSealed,
};
use spotlane_wire::reference::{RelocationCoordinatorFence, SessionRouteUpdate};

use super::{
    ActorBinding, ActorEffect, ActorIgnored, CarriedBinding, Moving, Registered, SealWait, Sealing,
    Stage,
};
use crate::identity::Peer;

type Effects = Vec<ActorEffect>;

impl ActorBinding {
    /// SB-80: one 42, if somebody is bound.
    pub(super) fn move_begins(
        &mut self,
        now: Monotonic,
        relocation: RelocationId,
        coordinator: RelocationCoordinatorFence,
        deadline: Monotonic,
        out: &mut Effects,
    ) {
        match self.moving {
            Moving::Settled => {}
            Moving::Sealing(_) | Moving::Captured(_) => {
                out.push(ActorEffect::Ignored(ActorIgnored::OtherStage));
                return;
            }
        }
        let sealing = match &self.registered {
            None => {
                out.push(ActorEffect::SealReady);
                Sealing {
                    seal: None,
                    wait: SealWait::Over,
                }
            }
            Some(registered) => {
                let seal = Box::new(self.seal_for(registered, relocation, coordinator));
                out.push(ActorEffect::SendSeal {
                    to: registered.owner_peer(),
                    seal: seal.clone(),
                });
                Sealing {
                    seal: Some(seal),
                    // RL-358: whichever is earlier.
                    wait: SealWait::Until(deadline.min(now.after(self.seal_timeout))),
                }
            }
        };
        self.moving = Moving::Sealing(sealing);
    }

    fn seal_for(
        &self,
        registered: &Registered,
        relocation: RelocationId,
        coordinator: RelocationCoordinatorFence,
    ) -> SessionRelocationSeal {
        let owner = &registered.session.owner;
        SessionRelocationSeal {
            relocation,
            coordinator,
            // WR-51
            sender_role: RelocationRole::Source,
            actor: self.tenure.fence(),
            session_owner_node_rid: owner.node_rid.clone(),
            session_owner_node_generation: owner.node_generation,
            session_owner_id: owner.owner_id.clone(),
            session_owner_lease_generation: owner.owner_lease_generation,
            session_rid: registered.session.session_rid.clone(),
            binding_generation: registered.generation,
        }
    }

    /// Refuses new binds from now on and names the binding, for a coordinator that seals it itself (RL-358).
    /// [`ActorEvent::MoveAborted`](super::ActorEvent::MoveAborted) allows them again and sends nothing then.
    pub fn refuse_binds(&mut self) -> Option<CarriedBinding> {
        self.moving = Moving::Sealing(Sealing {
            seal: None,
            wait: SealWait::Over,
        });
        let registered = self.registered.as_ref()?;
        match registered.stage {
            Stage::Bound => Some(CarriedBinding::new(
                registered.session.clone(),
                registered.generation,
                SessionSequence::new(registered.next_sequence).unwrap_or(SessionSequence::MAX),
                self.tenure.fence(),
            )),
            Stage::Leaving(_) => None,
        }
    }

    pub(super) fn sealed(&mut self, sealed: &SessionRelocationSealed, out: &mut Effects) {
        if let Moving::Sealing(sealing) = &mut self.moving {
            let ours = sealing.seal.as_ref().is_some_and(|s| answers(s, sealed));
            match sealing.wait {
                SealWait::Until(_) if ours => {
                    sealing.wait = SealWait::Over;
                    out.push(ActorEffect::SealReady);
                    return;
                }
                SealWait::Until(_) | SealWait::Over => {}
            }
        }
        out.push(ActorEffect::Ignored(ActorIgnored::SealedOfNobody));
    }

    /// RL-358: a binding that ends meanwhile is not waited for.
    pub(super) fn binding_gone(&mut self, out: &mut Effects) {
        if let Moving::Sealing(sealing) = &mut self.moving {
            match sealing.wait {
                SealWait::Until(_) => {
                    sealing.wait = SealWait::Over;
                    out.push(ActorEffect::SealReady);
                }
                SealWait::Over => {}
            }
        }
    }

    pub(super) fn move_captured(&mut self, out: &mut Effects) {
        match &mut self.moving {
            Moving::Sealing(sealing) => {
                let seal = sealing.seal.take();
                self.moving = Moving::Captured(seal);
            }
            Moving::Settled | Moving::Captured(_) => {
                out.push(ActorEffect::Ignored(ActorIgnored::OtherStage));
                return;
            }
        }
        // SB-65: its callback is work that was accepted, and moves with the queue.
        let leaving = |registered: &Registered| matches!(registered.stage, Stage::Leaving(_));
        if self.registered.as_ref().is_some_and(leaving) {
            self.end_binding(out);
        }
    }

    /// SB-82, RL-358: an abort for every 42, answered or not. Past the boundary nobody comes here (SB-83).
    pub(super) fn move_aborted(&mut self, out: &mut Effects) {
        let seal = match core::mem::replace(&mut self.moving, Moving::Settled) {
            Moving::Sealing(sealing) => sealing.seal,
            Moving::Captured(seal) => seal,
            Moving::Settled => {
                out.push(ActorEffect::Ignored(ActorIgnored::OtherStage));
                return;
            }
        };
        let Some(seal) = seal else { return };
        let current = self.tenure.authority_owner_generation;
        out.push(ActorEffect::SendRoute {
            to: Peer {
                node_rid: seal.session_owner_node_rid.clone(),
                node_generation: seal.session_owner_node_generation,
            },
            update: Box::new(SessionRelocationRoute {
                relocation: seal.relocation,
                coordinator: seal.coordinator,
                sender_role: RelocationRole::Source,
                actor: seal.actor.actor,
                session_owner_node_rid: seal.session_owner_node_rid,
                session_owner_node_generation: seal.session_owner_node_generation,
                session_owner_id: seal.session_owner_id,
                session_owner_lease_generation: seal.session_owner_lease_generation,
                session_rid: seal.session_rid,
                binding_generation: seal.binding_generation,
                route: SessionRouteUpdate::Abort {
                    current_authority_owner_generation: current,
                },
            }),
        });
    }
}

fn answers(seal: &SessionRelocationSeal, sealed: &SessionRelocationSealed) -> bool {
    sealed.relocation == seal.relocation
        && sealed.coordinator == seal.coordinator
        && sealed.actor == seal.actor
        && sealed.session_owner_node_rid == seal.session_owner_node_rid
        && sealed.session_owner_node_generation == seal.session_owner_node_generation
        && sealed.session_owner_id == seal.session_owner_id
        && sealed.session_owner_lease_generation == seal.session_owner_lease_generation
        && sealed.session_rid == seal.session_rid
        && sealed.binding_generation == seal.binding_generation
}
