//! How calls fail: the conditions of section 7 of the session contract (SB-70 to SB-75).

use spotlane_types::id::ActorId;
use thiserror::Error;

/// The public kind of a failed call, as far as session bindings use them (EX-340 to EX-351).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by SB-70 to SB-75")]
pub enum FailureKind {
    /// Route, owner or binding cannot be used now.
    Unavailable,
    /// Wrong place or time: another incarnation, or no binding.
    InvalidOperation,
    /// The type is not registered; a retry cannot help.
    NotFound,
    /// A wait passed its deadline.
    DeadlineExceeded,
    /// The host takes no new work.
    ShuttingDown,
    /// The Actor owner failed in a way it did not name.
    InternalFailure,
}

/// Why an Actor owner refused a binding; its answer names exactly one (SB-70 to SB-73, SB-75).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(clippy::exhaustive_enums, reason = "closed by SB-70 to SB-75")]
pub enum BindRefusal {
    /// SB-70, SB-75: the Actor is not hosted there in this tenure, and no Follow route leads on.
    #[error("its location is stale and no follow route leads on; look the actor up again")]
    StaleLocation,
    /// SB-71: the Actor lives there in another incarnation.
    #[error("it lives in another incarnation; bind the reference of that one")]
    OtherGeneration,
    /// SB-72: the Actor is about to move.
    #[error("it is sealed for a move; try again when it has moved")]
    Sealed,
    /// SB-73: nobody can make an Actor of this type.
    #[error("its type has no factory")]
    NoFactory,
    /// SB-75: a later binding of the same session owner is in force or ended already.
    #[error("a later binding has taken its place")]
    Superseded,
    /// The Actor owner is going down.
    #[error("its owner is shutting down")]
    ShuttingDown,
    /// Something else broke at the Actor owner.
    #[error("its owner failed")]
    Failed,
}

impl BindRefusal {
    /// The kind that the caller sees.
    #[must_use]
    pub const fn kind(self) -> FailureKind {
        match self {
            // SB-70, SB-72, SB-75
            Self::StaleLocation | Self::Sealed | Self::Superseded => FailureKind::Unavailable,
            // SB-71
            Self::OtherGeneration => FailureKind::InvalidOperation,
            // SB-73
            Self::NoFactory => FailureKind::NotFound,
            Self::ShuttingDown => FailureKind::ShuttingDown,
            Self::Failed => FailureKind::InternalFailure,
        }
    }
}

/// Why a bind did not make a binding. What was bound before is still bound (SB-50).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BindError {
    /// The Actor owner refused.
    #[error("actor {actor_id} was not bound: {refusal}")]
    Refused {
        /// The Actor.
        actor_id: ActorId,
        /// Its owner's reason.
        refusal: BindRefusal,
    },
    /// No answer came; whether the Actor owner registered the binding is unknown (SB-27).
    #[error("actor {actor_id} was not bound: its owner did not answer in time")]
    Unanswered {
        /// The Actor.
        actor_id: ActorId,
    },
    /// The link to the Actor owner is not there or broke before the answer.
    #[error("actor {actor_id} was not bound: its owner cannot be reached")]
    Unreachable {
        /// The Actor.
        actor_id: ActorId,
    },
    /// This session's binding of another incarnation is sealed for a move (SB-90).
    #[error("actor {actor_id} was not bound: an earlier incarnation of it is being moved")]
    Moving {
        /// The Actor.
        actor_id: ActorId,
    },
    /// The session is closing, closed, or its host makes no new bindings (RL-229).
    #[error("actor {actor_id} was not bound: the session takes no new bindings")]
    SessionClosing {
        /// The Actor.
        actor_id: ActorId,
    },
}

impl BindError {
    /// The kind that the caller sees.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Refused { refusal, .. } => refusal.kind(),
            Self::Unanswered { .. } => FailureKind::DeadlineExceeded,
            Self::Unreachable { .. } | Self::Moving { .. } | Self::SessionClosing { .. } => {
                FailureKind::Unavailable
            }
        }
    }
}

/// Why a message was not relayed to the Actor, or a notice not sent to it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The binding of this handle ended or was replaced (SB-33, SB-75).
    #[error("actor {actor_id} is no longer bound by this handle; bind it again")]
    BindingEnded {
        /// The Actor.
        actor_id: ActorId,
    },
    /// The lease or admission deadline of the stored route has passed (SB-15).
    #[error("the route to actor {actor_id} is no longer valid")]
    RouteExpired {
        /// The Actor.
        actor_id: ActorId,
    },
    /// The session closed while the message was held.
    #[error("the session closed before the message for actor {actor_id} could be sent on")]
    SessionClosed {
        /// The Actor.
        actor_id: ActorId,
    },
    /// The node of the stored route is not connected (SB-75).
    #[error("the node of actor {actor_id} is not reachable; nothing was sent")]
    Unreachable {
        /// The Actor.
        actor_id: ActorId,
    },
    /// The queue to that node had no room for the whole send timeout (EX-266).
    #[error("the queue to the node of actor {actor_id} stayed full; nothing was sent")]
    QueueFull {
        /// The Actor.
        actor_id: ActorId,
    },
    /// The notice found no answer in the lifecycle deadline; the binding is gone all the same (SB-63).
    #[error("actor {actor_id} did not answer its disconnect notice in time")]
    Unanswered {
        /// The Actor.
        actor_id: ActorId,
    },
}

impl RelayError {
    /// The kind that the caller sees.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        match self {
            // SB-70, SB-75
            Self::BindingEnded { .. }
            | Self::RouteExpired { .. }
            | Self::SessionClosed { .. }
            | Self::Unreachable { .. } => FailureKind::Unavailable,
            Self::QueueFull { .. } | Self::Unanswered { .. } => FailureKind::DeadlineExceeded,
        }
    }
}

/// A push or close of an Actor that no session is bound to (SB-74).
///
/// Succeeds after a bind. Kind `InvalidOperation`, code `actorSessionNotBound`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("actor {actor_id} has no bound session; bind one first")]
pub struct SessionNotBound {
    pub(crate) actor_id: ActorId,
}

impl SessionNotBound {
    /// The Actor.
    pub const fn actor_id(&self) -> &ActorId {
        &self.actor_id
    }

    /// The kind that the caller sees.
    #[must_use]
    pub const fn kind(&self) -> FailureKind {
        FailureKind::InvalidOperation
    }
}
