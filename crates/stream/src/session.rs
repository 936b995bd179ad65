//! The handle of a session: what a handler, and anybody else, may do with a client.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use spotlane_stream_proto::server::ServerClose;
use spotlane_stream_proto::{
    Extras, Frame, Metadata, Name, Payload, RemoteError, Sequence, to_bytes,
};
use spotlane_types::id::SessionRid;

use crate::actors::{BoundActors, SessionActors};
use crate::error::SendError;
use crate::outbox::Outbox;
use crate::settings::Transport;
use crate::signal::Signal;
use crate::stats::StreamStats;

/// One client connection. Cloning is cheap; the session ends with its connection, not with its handles.
#[derive(Clone)]
pub struct Session {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) rid: SessionRid,
    pub(crate) peer: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) signal: Arc<Signal>,
    pub(crate) stats: Arc<StreamStats>,
    pub(crate) send_timeout: Duration,
    pub(crate) actors: Option<SessionActors>,
}

impl Session {
    /// Names the session at its server (ST-135).
    pub fn rid(&self) -> &SessionRid {
        &self.inner.rid
    }

    /// Where the client is.
    pub fn peer(&self) -> SocketAddr {
        self.inner.peer
    }

    /// How it is connected.
    pub fn transport(&self) -> Transport {
        self.inner.transport
    }

    /// The Actors of this session; `None` when the server has no Actor dispatch (ST-136).
    pub fn actors(&self) -> Option<BoundActors<'_>> {
        self.dispatch().map(BoundActors)
    }

    pub(crate) fn dispatch(&self) -> Option<&SessionActors> {
        self.inner.actors.as_ref()
    }

    /// Sends a packet to the client; waits for room for at most the send timeout (ST-149).
    ///
    /// Completed means that the connection's queue took it, not that the client has it.
    ///
    /// # Errors
    /// The session is over, or there was no room in time.
    ///
    /// # Cancel safety
    /// Dropped before it completed, nothing is sent.
    pub async fn send(&self, name: Name, payload: Payload) -> Result<(), SendError> {
        self.send_with(name, payload, None).await
    }

    /// As [`Self::send`], with metadata.
    ///
    /// # Errors
    /// As [`Self::send`].
    ///
    /// # Cancel safety
    /// As [`Self::send`].
    pub async fn send_with(
        &self,
        name: Name,
        payload: Payload,
        metadata: Option<Metadata>,
    ) -> Result<(), SendError> {
        let frame = Frame::Send {
            name,
            payload,
            extras: Extras {
                metadata,
                ..Extras::default()
            },
        };
        self.inner.send(&frame).await
    }

    /// Closes the connection: what is queued is written first, for at most a second (ST-155). The client
    /// is told nothing, and dials again if it does that by itself.
    pub fn close(&self) {
        self.inner.signal.close(ServerClose::Application);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("rid", &self.inner.rid)
            .field("transport", &self.inner.transport)
            .finish_non_exhaustive()
    }
}

impl Inner {
    async fn send(&self, frame: &Frame) -> Result<(), SendError> {
        let bytes = to_bytes(frame)?;
        self.outbox.send(bytes, self.send_timeout).await
    }
}

/// The right to answer one request, once (ST-147).
///
/// Dropping it answers nothing: the client runs into its timeout.
#[derive(Debug)]
pub struct Replier {
    outbox: Arc<Outbox>,
    send_timeout: Duration,
    request: Arc<Request>,
}

/// A request that waits for its answer; shared with whoever answers for a failed handler.
#[derive(Debug)]
pub(crate) struct Request {
    sequence: Sequence,
    /// Correlation id and flow of the request, for its answer.
    extras: Extras,
    answered: AtomicBool,
}

impl Request {
    pub(crate) fn new(sequence: Sequence, extras: &Extras) -> Arc<Self> {
        Arc::new(Self {
            sequence,
            extras: Extras {
                // ST-117: an answer has no metadata.
                metadata: None,
                ..extras.clone()
            },
            answered: AtomicBool::new(false),
        })
    }

    /// EX-280: taken before any attempt to send, and used up even if that fails.
    fn take(&self) -> Result<(), SendError> {
        if self.answered.swap(true, Ordering::AcqRel) {
            return Err(SendError::Answered);
        }
        Ok(())
    }

    fn response(&self, payload: Payload) -> Result<Bytes, SendError> {
        Ok(to_bytes(&Frame::Response {
            sequence: self.sequence,
            payload,
            extras: self.extras.clone(),
        })?)
    }

    fn error(&self, error: &RemoteError) -> Result<Bytes, SendError> {
        Ok(to_bytes(&Frame::Error {
            sequence: Some(self.sequence),
            payload: Payload::json(error.to_payload()),
            extras: self.extras.clone(),
        })?)
    }
}

impl Replier {
    pub(crate) fn new(session: &Inner, request: Arc<Request>) -> Self {
        Self {
            outbox: Arc::clone(&session.outbox),
            send_timeout: session.send_timeout,
            request,
        }
    }

    /// Answers with a response.
    ///
    /// # Errors
    /// It was answered already, the session is over, or there was no room in time.
    ///
    /// # Cancel safety
    /// Dropped before it completed, nothing is sent and the right is used up.
    pub async fn reply(self, payload: Payload) -> Result<(), SendError> {
        self.request.take()?;
        let bytes = self.request.response(payload)?;
        self.outbox.send(bytes, self.send_timeout).await
    }

    /// Answers with an error.
    ///
    /// # Errors
    /// As [`Self::reply`].
    ///
    /// # Cancel safety
    /// As [`Self::reply`].
    pub async fn fail(self, error: &RemoteError) -> Result<(), SendError> {
        self.request.take()?;
        let bytes = self.request.error(error)?;
        self.outbox.send(bytes, self.send_timeout).await
    }

    /// As [`Self::reply`], for those who cannot wait: the answer takes its place in line at once.
    ///
    /// # Errors
    /// As [`Self::reply`]; there is no room when the client has not read for long.
    pub fn reply_now(self, payload: Payload) -> Result<(), SendError> {
        self.request.take()?;
        self.outbox.send_now(self.request.response(payload)?)
    }

    /// As [`Self::fail`], for those who cannot wait.
    ///
    /// # Errors
    /// As [`Self::reply_now`].
    pub fn fail_now(self, error: &RemoteError) -> Result<(), SendError> {
        self.request.take()?;
        self.outbox.send_now(self.request.error(error)?)
    }
}
