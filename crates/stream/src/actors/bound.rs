//! One binding of a session, as its handler holds it.

use std::fmt;

use spotlane_session::{
    ActorRoute, BindingToken, BoundActor, RelayError, RelayMessage, SessionEvent,
};
use spotlane_types::id::NodeRid;
use spotlane_wire::reference::ActorRef;
use thiserror::Error;

use super::convert::to_message;
use super::{Call, Hold, RelayCall, SessionActors};
use crate::handler::Packet;
use crate::session::Replier;

/// A packet that was not relayed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RelayFailure {
    /// The binding cannot take it.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// ST-115: its name, metadata or payload does not fit a service record.
    #[error("the packet does not fit a record between nodes: {0}")]
    Unfit(&'static str),
}

/// The route of a binding, while it is bound by this handle: for whoever carries out bindings. No part of what an
/// application sees (SB-1).
pub fn route_of(bound: &SessionActor) -> Option<ActorRoute> {
    let found = bound
        .actors
        .lock()
        .machine
        .find(&bound.bound.actor.actor_id)?;
    (found.token == bound.bound.token).then_some(found.route)
}

/// One binding of a session (SB-6).
#[derive(Clone)]
pub struct SessionActor {
    pub(super) actors: SessionActors,
    pub(super) bound: BoundActor,
}

impl SessionActor {
    /// The Actor; stays the same when it moves.
    pub const fn actor_ref(&self) -> &ActorRef {
        &self.bound.actor
    }

    /// The node that it is on now, while it is bound by this handle: for the eyes of operators and clients. Nothing can be
    /// sent by it (SB-1).
    pub fn node(&self) -> Option<NodeRid> {
        route_of(self).map(|route| route.node_rid)
    }

    /// Sends a packet on to the Actor, with the right to answer it (SB-30, SB-31). Completes when it
    /// was taken for sending, or is held while the Actor moves; when much is held already, with the end of
    /// the hold.
    ///
    /// # Errors
    /// The binding ended, or the packet does not fit a record.
    ///
    /// # Cancel safety
    /// Dropped, the packet may have been taken already.
    pub async fn relay(&self, packet: Packet) -> Result<(), RelayFailure> {
        let message = to_message(&packet)?;
        self.relay_message(message, packet.replier).await
    }

    async fn relay_message(
        &self,
        message: RelayMessage,
        replier: Option<Replier>,
    ) -> Result<(), RelayFailure> {
        let token: BindingToken = self.bound.token.clone();
        let actor_id = self.bound.actor.actor_id.clone();
        let bytes = message.payload.payload.as_bytes().len();
        let (call, accepted) = self.actors.call(|accepted| {
            Call::Relay(RelayCall {
                accepted: Some(accepted),
                replier,
                bytes,
                hold: Hold::No,
            })
        });
        self.actors.on(SessionEvent::Relay {
            call,
            token,
            message,
        });
        let accepted = accepted.await;
        Ok(accepted.unwrap_or(Err(RelayError::SessionClosed { actor_id }))?)
    }

    /// Tells the Actor that its client is gone, and ends the binding; the connection stays (SB-64).
    ///
    /// # Errors
    /// The binding ended before, or the Actor did not answer in time; it is gone either way.
    ///
    /// # Cancel safety
    /// Dropped, the notice goes on.
    pub async fn notify_disconnected(&self) -> Result<(), RelayError> {
        let token = self.bound.token.clone();
        let actor_id = self.bound.actor.actor_id.clone();
        let (call, ended) = self.actors.call(Call::Notify);
        self.actors
            .on(SessionEvent::NotifyDisconnected { call, token });
        ended
            .await
            .unwrap_or(Err(RelayError::SessionClosed { actor_id }))
    }
}

impl fmt::Debug for SessionActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionActor")
            .field("actor", &self.bound.actor)
            .finish_non_exhaustive()
    }
}
