//! What the owner of an Actor knows about the one session that is bound to it.
//!
//! | binding | event | next |
//! |---|---|---|
//! | none | bind that fits the tenure (SB-21) | `Bound` |
//! | `Bound` | bind of a later identity | `Bound` to that one; 51 to the one before (SB-51) |
//! | `Bound` | tombstone of this identity | `Leaving`: the callback runs (SB-61) |
//! | `Leaving` | its callback ended | none |
//! | `Bound`, `Leaving` | tombstone, Actor sealed (SB-65) | none; the callback joins the hold |
//! | any of them | its session owner has ended (SB-91) | as by a tombstone |
//!
//! | move | event | next |
//! |---|---|---|
//! | `Settled` | begins (42) | `Sealing` |
//! | `Sealing` | 43, or the binding ended meanwhile (RL-358) | `Sealing`, ready |
//! | `Sealing` | no 43 in time | `Sealing`, failed: the coordinator aborts |
//! | `Sealing` | captured | `Captured` |
//! | `Sealing`, `Captured` | aborted (44 to everybody who got 42) | `Settled` |

mod binding;
mod carry;
mod moving;

use core::time::Duration;

use spotlane_types::count::{Correlation, SessionSequence};
use spotlane_types::generation::{
    AuthorityOwnerGeneration, BindingGeneration, NodeGeneration, OwnerLeaseGeneration,
};
use spotlane_types::id::{NodeRid, RelocationId};
use spotlane_types::time::Monotonic;
use spotlane_wire::command::message::BoundSessionTail;
use spotlane_wire::command::session::{
    BoundSessionBind, BoundSessionReplaced, BoundSessionSend, SessionRelocationRoute,
    SessionRelocationSeal, SessionRelocationSealed,
};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::{ActorRef, ActorRouteFence, RelocationCoordinatorFence};
use thiserror::Error;

use crate::bound::{SEAL_TIMEOUT, SESSION_CLOSE_PACKET};
use crate::error::{BindRefusal, FailureKind, SessionNotBound};
use crate::identity::{BindingIdentity, Peer, SessionIdentity, SessionOwner};
use crate::machine::Machine;

pub use carry::{CarriedBinding, CarryError};

/// The tenure in which this node owns the Actor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the fields of an Actor fence")]
pub struct Tenure {
    /// The Actor.
    pub actor: ActorRef,
    /// This node.
    pub node_rid: NodeRid,
    /// Its run.
    pub node_generation: NodeGeneration,
    /// The change of owner that made it so.
    pub authority_owner_generation: AuthorityOwnerGeneration,
    /// The lease of this host.
    pub owner_lease_generation: OwnerLeaseGeneration,
}

impl Tenure {
    /// The fence of a record about the Actor in this tenure.
    #[must_use]
    pub fn fence(&self) -> ActorRouteFence {
        ActorRouteFence {
            actor: self.actor.clone(),
            target_node_rid: self.node_rid.clone(),
            target_node_generation: self.node_generation,
            expected_authority_owner_generation: self.authority_owner_generation,
            expected_owner_lease_generation: self.owner_lease_generation,
        }
    }
}

/// The binding of one Actor at its owner.
#[derive(Debug)]
pub struct ActorBinding {
    tenure: Tenure,
    seal_timeout: Duration,
    /// SB-2: one session at most.
    registered: Option<Registered>,
    /// The last identity that ended or was refused as late, so that it does not come back.
    ended: Option<BindingIdentity>,
    moving: Moving,
}

#[derive(Debug)]
struct Registered {
    session: SessionIdentity,
    generation: BindingGeneration,
    next_sequence: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Bound,
    /// The disconnect callback is queued or runs; these requests wait for its end.
    Leaving(Vec<Correlation>),
}

#[derive(Debug)]
enum Moving {
    Settled,
    Sealing(Sealing),
    Captured(Option<Box<SessionRelocationSeal>>),
}

#[derive(Debug)]
struct Sealing {
    /// What was sent; `None` when nobody was bound, so that there is nothing to wait for.
    seal: Option<Box<SessionRelocationSeal>>,
    wait: SealWait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SealWait {
    Until(Monotonic),
    Over,
}

/// What can happen to the binding of an Actor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActorEvent {
    /// Command 38.
    Bind {
        /// Who sent it, with owner id and lease from its descriptor (SB-12).
        from: SessionOwner,
        /// The record.
        request: Box<BoundSessionBind>,
    },
    /// The callback that [`ActorEffect::RunDisconnected`] asked for ended, in whichever way.
    DisconnectedEnded(BindingIdentity),
    /// This run of a session owner has ended, and its clients' connections with it (SB-91).
    OwnerGone(Peer),
    /// A move of the Actor needs its session to hold (RL-125, RL-358).
    MoveBegins {
        /// The move.
        relocation: RelocationId,
        /// Its coordinator: this host.
        coordinator: Box<RelocationCoordinatorFence>,
        /// The end of the operation.
        deadline: Monotonic,
    },
    /// Command 43.
    Sealed(Box<SessionRelocationSealed>),
    /// The Actor was captured: its dispatch is closed (S0).
    MoveCaptured,
    /// The move failed before its boundary, and the queue of the Actor is open again (SB-82).
    MoveAborted,
}

/// What the driver of an Actor's binding has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActorEffect {
    /// Answer command 38, once. The state behind it is complete already (SB-22).
    Answer {
        /// The request.
        correlation: Correlation,
        /// Whether it was accepted.
        result: Result<(), BindRefusal>,
    },
    /// Send command 51 (SB-51).
    SendReplaced {
        /// The previous session owner.
        to: Peer,
        /// The record.
        replaced: Box<BoundSessionReplaced>,
    },
    /// Queue the callback of the current Spot and report its end (SB-61).
    RunDisconnected(BindingIdentity),
    /// Put that callback into the hold of the move, as a `disconnected` lifecycle record (SB-65).
    HoldDisconnected(BindingIdentity),
    /// Send command 42.
    SendSeal {
        /// The session owner.
        to: Peer,
        /// The record.
        seal: Box<SessionRelocationSeal>,
    },
    /// The move need not wait for this Actor's session any more.
    SealReady,
    /// No 43 came in time: the move fails (SRC-4).
    SealFailed,
    /// Send command 44 with an abort.
    SendRoute {
        /// The session owner.
        to: Peer,
        /// The record.
        update: Box<SessionRelocationRoute>,
    },
    /// The event changed nothing.
    Ignored(ActorIgnored),
}

/// Input of an Actor's binding that changed nothing, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActorIgnored {
    /// No callback of this identity is awaited.
    CallbackOfNobody,
    /// No session of this owner is bound.
    OwnerOfNobody,
    /// No seal, or another one, waits for this answer.
    SealedOfNobody,
    /// The Actor moves already, or does not move.
    OtherStage,
}

/// A relay that was judged current, to be put into the Actor's queue.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct CurrentRelay {
    sequence: SessionSequence,
}

impl CurrentRelay {
    /// Its place in the order of its session.
    pub const fn sequence(&self) -> SessionSequence {
        self.sequence
    }
}

/// SB-33: the relay is of a session that is not bound, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the message comes from a session that is not bound to the actor")]
#[non_exhaustive]
pub struct RetiredRelay;

impl RetiredRelay {
    /// What the caller of a request sees; a one-way is dropped and recorded.
    #[must_use]
    pub const fn kind(self) -> FailureKind {
        FailureKind::Unavailable
    }
}

/// A push to the session, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by SB-37")]
pub struct Push {
    /// The session owner.
    pub to: Peer,
    /// Command 36.
    pub record: BoundSessionSend,
}

impl ActorBinding {
    /// An Actor that nobody is bound to.
    pub const fn new(tenure: Tenure) -> Self {
        Self {
            tenure,
            seal_timeout: SEAL_TIMEOUT,
            registered: None,
            ended: None,
            moving: Moving::Settled,
        }
    }

    /// Sets how long a 43 is waited for: this host's own `SessionRelocationSealTimeout` (RL-358).
    #[must_use]
    pub const fn with_seal_timeout(mut self, timeout: Duration) -> Self {
        self.seal_timeout = timeout;
        self
    }

    /// The change of owner that made this node the owner; known when a move is committed.
    pub const fn owned_since(&mut self, generation: AuthorityOwnerGeneration) {
        self.tenure.authority_owner_generation = generation;
    }

    /// The session that is bound, while it is.
    pub fn session(&self) -> Option<&SessionIdentity> {
        self.registered
            .as_ref()
            .map(|registered| &registered.session)
    }

    /// The run of the session owner, while a session is bound.
    pub fn session_owner(&self) -> Option<Peer> {
        self.registered.as_ref().map(Registered::owner_peer)
    }

    /// The identity of the binding, while there is one.
    pub fn identity(&self) -> Option<BindingIdentity> {
        self.registered.as_ref().map(Registered::identity)
    }

    /// The tenure.
    pub const fn tenure(&self) -> &Tenure {
        &self.tenure
    }

    /// The one judge of a relay (SB-33). `peer` is the authenticated sender.
    ///
    /// # Errors
    /// The session is not the one that is bound now. Nothing changes.
    pub fn judge_relay(
        &mut self,
        peer: &Peer,
        tail: &BoundSessionTail,
    ) -> Result<CurrentRelay, RetiredRelay> {
        let registered = self.registered.as_mut().ok_or(RetiredRelay)?;
        let owner = &registered.session.owner;
        if peer.node_rid != owner.node_rid || peer.node_generation != owner.node_generation {
            return Err(RetiredRelay);
        }
        registered.judge(tail)
    }

    /// As [`Self::judge_relay`] for a relay that a former owner has sent on (SB-34): its sender is the hop, so that session
    /// and binding number are all that names the binding.
    ///
    /// # Errors
    /// As there.
    pub fn judge_followed_relay(
        &mut self,
        tail: &BoundSessionTail,
    ) -> Result<CurrentRelay, RetiredRelay> {
        self.registered.as_mut().ok_or(RetiredRelay)?.judge(tail)
    }

    /// A push to the bound session. Needs a binding and nothing else (SB-37).
    ///
    /// # Errors
    /// Nobody is bound; succeeds after a bind (SB-74).
    pub fn push(&self, payload: ApplicationPayload) -> Result<Push, SessionNotBound> {
        let Some(registered) = &self.registered else {
            return Err(SessionNotBound {
                actor_id: self.tenure.actor.actor_id.clone(),
            });
        };
        Ok(Push {
            to: registered.owner_peer(),
            record: BoundSessionSend {
                actor: self.tenure.fence(),
                expected_binding_generation: registered.generation,
                payload,
            },
        })
    }

    /// Asks the session owner to close the connection (SB-39).
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn close(&self) -> Result<Push, SessionNotBound> {
        let not_bound = || SessionNotBound {
            actor_id: self.tenure.actor.actor_id.clone(),
        };
        // Both texts are within their bounds, so that this is the not-bound error and no other.
        let payload = carry::empty_payload(SESSION_CLOSE_PACKET).ok_or_else(not_bound)?;
        self.push(payload)
    }
}

impl Registered {
    fn judge(&mut self, tail: &BoundSessionTail) -> Result<CurrentRelay, RetiredRelay> {
        let current = tail.source_session_rid == self.session.session_rid
            && tail.source_binding_generation == self.generation;
        if !current {
            return Err(RetiredRelay);
        }
        // SB-32: kept for the next owner; a gap is no error, and neither is a number that Message Follow
        // let overtake another one.
        let sequence = tail.source_session_sequence;
        let next = sequence.get().saturating_add(1);
        self.next_sequence = self.next_sequence.max(next);
        Ok(CurrentRelay { sequence })
    }

    fn identity(&self) -> BindingIdentity {
        BindingIdentity {
            owner_rid: self.session.owner.node_rid.clone(),
            lifecycle: self.session.owner.node_generation,
            generation: self.generation,
        }
    }

    fn owner_peer(&self) -> Peer {
        Peer {
            node_rid: self.session.owner.node_rid.clone(),
            node_generation: self.session.owner.node_generation,
        }
    }
}

impl Machine for ActorBinding {
    type Event = ActorEvent;
    type Effect = ActorEffect;

    fn on_event(&mut self, now: Monotonic, event: ActorEvent, out: &mut Vec<ActorEffect>) {
        match event {
            ActorEvent::Bind { from, request } => self.bind(from, *request, out),
            ActorEvent::DisconnectedEnded(identity) => self.disconnected_ended(&identity, out),
            ActorEvent::OwnerGone(owner) => self.owner_gone(&owner, out),
            ActorEvent::MoveBegins {
                relocation,
                coordinator,
                deadline,
            } => self.move_begins(now, relocation, *coordinator, deadline, out),
            ActorEvent::Sealed(sealed) => self.sealed(&sealed, out),
            ActorEvent::MoveCaptured => self.move_captured(out),
            ActorEvent::MoveAborted => self.move_aborted(out),
        }
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        match &self.moving {
            Moving::Sealing(Sealing {
                wait: SealWait::Until(until),
                ..
            }) => Some(*until),
            Moving::Sealing(_) | Moving::Settled | Moving::Captured(_) => None,
        }
    }

    fn on_deadline(&mut self, now: Monotonic, out: &mut Vec<ActorEffect>) {
        if let Moving::Sealing(sealing) = &mut self.moving {
            match sealing.wait {
                SealWait::Until(until) if until <= now => {
                    // RL-358
                    sealing.wait = SealWait::Over;
                    out.push(ActorEffect::SealFailed);
                }
                SealWait::Until(_) | SealWait::Over => {}
            }
        }
    }
}
