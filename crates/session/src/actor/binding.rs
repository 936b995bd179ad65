//! Registration, replacement and the end of a binding (SB-20 to SB-22, SB-50, SB-51, SB-61, SB-65).

use core::cmp::Ordering;

use spotlane_types::count::Correlation;
use spotlane_types::generation::BindingGeneration;
use spotlane_wire::command::session::{BoundSessionBind, BoundSessionReplaced};
use spotlane_wire::reference::{ActorRouteFence, BindingTransition, RetiredBoundSessionRouteFence};

use super::{ActorBinding, ActorEffect, ActorIgnored, Moving, Registered, Stage};
use crate::error::BindRefusal;
use crate::identity::{BindingIdentity, Peer, SessionIdentity, SessionOwner};

type Effects = Vec<ActorEffect>;

impl ActorBinding {
    pub(super) fn bind(
        &mut self,
        from: SessionOwner,
        request: BoundSessionBind,
        out: &mut Effects,
    ) {
        let session = SessionIdentity {
            owner: from,
            session_rid: request.session_rid,
        };
        let correlation = request.correlation;
        match request.binding {
            BindingTransition::Active { binding_generation } => {
                match self.admit(&request.actor, &session, binding_generation) {
                    Err(refusal) => out.push(ActorEffect::Answer {
                        correlation,
                        result: Err(refusal),
                    }),
                    Ok(()) => self.register(correlation, session, binding_generation, out),
                }
            }
            BindingTransition::Tombstone {
                retired_binding_generation,
            } => self.tombstone(correlation, &session, retired_binding_generation, out),
        }
    }

    /// SB-21: three values decide, and whether the Actor is open.
    fn admit(
        &self,
        asked: &ActorRouteFence,
        session: &SessionIdentity,
        generation: BindingGeneration,
    ) -> Result<(), BindRefusal> {
        let here = &self.tenure;
        if asked.actor.object_generation != here.actor.object_generation {
            return Err(BindRefusal::OtherGeneration);
        }
        if asked.target_node_generation != here.node_generation
            || asked.expected_authority_owner_generation != here.authority_owner_generation
        {
            return Err(BindRefusal::StaleLocation);
        }
        if self.is_current(session, generation) {
            return Ok(());
        }
        match self.moving {
            Moving::Settled => {}
            // SB-72, RL-358: from the first 42 no binding may come that nobody seals.
            Moving::Sealing(_) | Moving::Captured(_) => return Err(BindRefusal::Sealed),
        }
        // SB-10, SB-59: what was counted earlier in the same run is late.
        let asked = identity(session, generation);
        let known = self.registered.as_ref().map(Registered::identity);
        let known = known.iter().chain(&self.ended);
        let late = known.filter_map(|known| asked.order(known));
        if late.into_iter().any(|order| order != Ordering::Greater) {
            return Err(BindRefusal::Superseded);
        }
        Ok(())
    }

    fn is_current(&self, session: &SessionIdentity, generation: BindingGeneration) -> bool {
        self.registered.as_ref().is_some_and(|registered| {
            registered.generation == generation
                && registered.session.session_rid == session.session_rid
                && registered.session.owner.node_rid == session.owner.node_rid
                && registered.session.owner.node_generation == session.owner.node_generation
        })
    }

    /// SB-22, SB-50, SB-58, EX-371: registered completely, then the answer, then the news for the one before.
    fn register(
        &mut self,
        correlation: Correlation,
        session: SessionIdentity,
        generation: BindingGeneration,
        out: &mut Effects,
    ) {
        let answer = ActorEffect::Answer {
            correlation,
            result: Ok(()),
        };
        if self.is_current(&session, generation) {
            // SB-26
            out.push(answer);
            return;
        }
        let previous = self.registered.replace(Registered {
            session: session.clone(),
            generation,
            next_sequence: 1,
            stage: Stage::Bound,
        });
        out.push(answer);
        let Some(previous) = previous else { return };
        self.ended = Some(previous.identity());
        // Who waits for the leave of the one before is answered: it is not current any more (SB-61).
        match &previous.stage {
            Stage::Bound => {}
            Stage::Leaving(waiting) => {
                out.extend(waiting.iter().map(|correlation| ActorEffect::Answer {
                    correlation: *correlation,
                    result: Ok(()),
                }));
            }
        }
        // SB-51: never to the physical session that holds the Actor now.
        let same_session = previous.session.session_rid == session.session_rid
            && previous.session.owner.node_rid == session.owner.node_rid
            && previous.session.owner.node_generation == session.owner.node_generation;
        if !same_session {
            out.push(ActorEffect::SendReplaced {
                to: previous.owner_peer(),
                replaced: Box::new(BoundSessionReplaced {
                    actor_authority: self.tenure.fence(),
                    retired_session: retired(&previous),
                }),
            });
        }
    }

    /// SB-61: exactly this identity, its callback once, and then the answer.
    fn tombstone(
        &mut self,
        correlation: Correlation,
        session: &SessionIdentity,
        generation: BindingGeneration,
        out: &mut Effects,
    ) {
        let asked = identity(session, generation);
        let current = self.is_current(session, generation);
        if !current {
            // Not current: nothing to remove and no callback. Remembered, so that the bind that it
            // overtook is late when it comes.
            let later = |ended: &BindingIdentity| asked.order(ended) == Some(Ordering::Less);
            let replaced = self.registered.as_ref().map(Registered::identity);
            if !self.ended.iter().chain(&replaced).any(later) {
                self.ended = Some(asked);
            }
            out.push(ActorEffect::Answer {
                correlation,
                result: Ok(()),
            });
            return;
        }
        self.leave(Some(correlation), out);
    }

    /// The session owner has ended, so nobody will send the notices of its sessions (RL-47, SB-91).
    pub(super) fn owner_gone(&mut self, gone: &Peer, out: &mut Effects) {
        if self.session_owner().as_ref() == Some(gone) {
            self.leave(None, out);
        } else {
            out.push(ActorEffect::Ignored(ActorIgnored::OwnerOfNobody));
        }
    }

    /// The session that is bound has left: its callback once, then the end of the binding and the answer.
    fn leave(&mut self, correlation: Option<Correlation>, out: &mut Effects) {
        let Some(registered) = &mut self.registered else {
            return;
        };
        let identity = registered.identity();
        if matches!(self.moving, Moving::Captured(_)) {
            // SB-65: ended here and now; the callback runs once, wherever dispatch opens next.
            out.push(ActorEffect::HoldDisconnected(identity));
            out.extend(correlation.map(|correlation| ActorEffect::Answer {
                correlation,
                result: Ok(()),
            }));
            return self.end_binding(out);
        }
        match &mut registered.stage {
            // SB-62: the callback is under way.
            Stage::Leaving(waiting) => waiting.extend(correlation),
            Stage::Bound => {
                registered.stage = Stage::Leaving(correlation.into_iter().collect());
                out.push(ActorEffect::RunDisconnected(identity));
            }
        }
    }

    pub(super) fn disconnected_ended(&mut self, ended: &BindingIdentity, out: &mut Effects) {
        let leaving = self.registered.as_ref().is_some_and(|registered| {
            matches!(registered.stage, Stage::Leaving(_)) && registered.identity() == *ended
        });
        if leaving {
            self.end_binding(out);
        } else {
            // A newer binding is not touched (SB-57).
            out.push(ActorEffect::Ignored(ActorIgnored::CallbackOfNobody));
        }
    }

    /// The session left while the Actor was on its way: what came with the Actor ends, and nothing that was bound since
    /// (SB-65).
    pub fn end_carried(&mut self, carried: &BindingIdentity) {
        if self.identity().as_ref() == Some(carried) {
            self.registered = None;
            self.ended = Some(carried.clone());
        }
    }

    /// Removes the binding and answers who waited for that.
    pub(super) fn end_binding(&mut self, out: &mut Effects) {
        let Some(registered) = self.registered.take() else {
            return;
        };
        self.ended = Some(registered.identity());
        match registered.stage {
            Stage::Bound => {}
            Stage::Leaving(waiting) => {
                out.extend(waiting.into_iter().map(|correlation| ActorEffect::Answer {
                    correlation,
                    result: Ok(()),
                }));
            }
        }
        self.binding_gone(out);
    }
}

fn identity(session: &SessionIdentity, generation: BindingGeneration) -> BindingIdentity {
    BindingIdentity {
        owner_rid: session.owner.node_rid.clone(),
        lifecycle: session.owner.node_generation,
        generation,
    }
}

fn retired(previous: &Registered) -> RetiredBoundSessionRouteFence {
    let SessionIdentity { owner, session_rid } = &previous.session;
    RetiredBoundSessionRouteFence {
        session_owner_node_rid: owner.node_rid.clone(),
        session_owner_node_generation: owner.node_generation,
        session_owner_id: owner.owner_id.clone(),
        session_owner_lease_generation: owner.owner_lease_generation,
        session_rid: session_rid.clone(),
        retired_binding_generation: previous.generation,
    }
}
