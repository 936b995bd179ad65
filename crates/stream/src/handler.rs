//! What an application implements: a handler for each session.

use std::future::{Future, ready};
use std::net::SocketAddr;

use spotlane_stream_proto::{CloseReason, Extras, Metadata, Name, Payload};
use spotlane_types::id::ActorId;

use crate::error::HandlerFailure;
use crate::session::{Replier, Session};
use crate::settings::Transport;

/// A connection that was accepted, before it has a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// Where the client is.
    pub peer: SocketAddr,
    /// How it is connected.
    pub transport: Transport,
}

/// A packet of a client.
#[derive(Debug)]
pub struct Packet {
    pub(crate) name: Name,
    pub(crate) payload: Payload,
    pub(crate) extras: Extras,
    pub(crate) replier: Option<Replier>,
}

impl Packet {
    /// What it is.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Its payload, not decoded and never compressed (ST-143).
    pub const fn payload(&self) -> &Payload {
        &self.payload
    }

    /// What came with it.
    pub const fn metadata(&self) -> Option<&Metadata> {
        self.extras.metadata.as_ref()
    }

    /// Whether the client waits for an answer.
    pub const fn can_reply(&self) -> bool {
        self.replier.is_some()
    }

    /// The right to answer; `None` for a one-way, or when it was taken before.
    pub const fn take_replier(&mut self) -> Option<Replier> {
        self.replier.take()
    }

    /// Answers the request; does nothing for a one-way.
    ///
    /// # Errors
    /// As [`Replier::reply`].
    ///
    /// # Cancel safety
    /// As [`Replier::reply`].
    pub async fn reply(mut self, payload: Payload) -> Result<(), crate::SendError> {
        match self.replier.take() {
            Some(replier) => replier.reply(payload).await,
            None => Ok(()),
        }
    }
}

/// The callbacks of one session, one at a time and in order (ST-144).
///
/// `connected` comes first and `disconnected` last, each exactly once. They run on the session's lane, so
/// that a callback that waits holds this session and no other.
pub trait SessionHandler: Send + 'static {
    /// The connection is there. A failure closes it.
    ///
    /// # Errors
    /// Whatever the application wants to close the session for.
    fn connected(
        &mut self,
        session: &Session,
    ) -> impl Future<Output = Result<(), HandlerFailure>> + Send {
        let _ = session;
        ready(Ok(()))
    }

    /// A packet came.
    ///
    /// # Errors
    /// A request is answered with the failure, once, unless it was answered before; a one-way is
    /// counted. The connection stays (ST-148).
    fn packet(
        &mut self,
        session: &Session,
        packet: Packet,
    ) -> impl Future<Output = Result<(), HandlerFailure>> + Send;

    /// Another session has bound one of the Actors of this one: the last turn in which the client can
    /// be told something. The connection closes 100 ms after it ends (ST-157); do not close it here.
    ///
    /// # Errors
    /// Reported, and changes nothing.
    fn replaced(
        &mut self,
        session: &Session,
        actor_id: &ActorId,
    ) -> impl Future<Output = Result<(), HandlerFailure>> + Send {
        let _ = (session, actor_id);
        ready(Ok(()))
    }

    /// The transport of this session failed, or its bytes are no frames (ST-145). A plain end of the
    /// stream is no error.
    fn error(&mut self, session: &Session, text: &str) -> impl Future<Output = ()> + Send {
        let _ = (session, text);
        ready(())
    }

    /// The connection is gone.
    fn disconnected(
        &mut self,
        session: &Session,
        reason: CloseReason,
    ) -> impl Future<Output = ()> + Send {
        let _ = (session, reason);
        ready(())
    }
}

/// Makes the handler of each session of a server; a server has one type of them (ST-136).
pub trait SessionFactory: Send + Sync + 'static {
    /// The handlers it makes.
    type Handler: SessionHandler;

    /// A handler for a connection that was accepted.
    fn session(&self, accepted: Accepted) -> Self::Handler;
}

impl<F, H> SessionFactory for F
where
    F: Fn(Accepted) -> H + Send + Sync + 'static,
    H: SessionHandler,
{
    type Handler = H;

    fn session(&self, accepted: Accepted) -> H {
        self(accepted)
    }
}
