//! A session on its lane: one callback at a time, in order (ST-144, EX-22).

use std::sync::Arc;

use spotlane_lane::{HandlerError, KeepGate, Owner, Session as SessionLane, Turn};
use spotlane_session::{CallbackEnd, SessionEvent};
use spotlane_stream_proto::connector::Compression;
use spotlane_stream_proto::server::Inbound;
use spotlane_stream_proto::{
    CloseReason, DecompressError, Packing, Payload, RemoteError, decompress,
};
use spotlane_types::id::ActorId;

use crate::error::HandlerFailure;
use crate::handler::{Packet, SessionHandler};
use crate::session::{Replier, Request, Session};

/// What a session does in a turn.
#[derive(Debug)]
pub(crate) enum Work {
    Connected,
    Packet(Inbound),
    Replaced(ActorId),
    Error(String),
    Disconnected(CloseReason),
}

/// What a received payload may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unpacking {
    pub(crate) compression: Compression,
    pub(crate) plain_bytes_max: u32,
}

/// The handler of a session in its lane.
pub(crate) struct Seat<H> {
    pub(crate) handler: H,
    pub(crate) session: Session,
    pub(crate) unpacking: Unpacking,
}

impl<H: SessionHandler> Owner for Box<Seat<H>> {
    type Policy = SessionLane;
    type Waits = KeepGate;
    type Item = Work;
    type Reply = ();

    async fn handle(turn: &mut Turn<'_, Self>, work: Work) -> Result<(), HandlerError> {
        let seat = turn.state();
        match work {
            Work::Connected => {
                let connected = seat.handler.connected(&seat.session).await;
                if let Err(failure) = connected {
                    seat.session.close();
                    return Err(HandlerError::new(failure));
                }
            }
            Work::Packet(inbound) => {
                return seat.packet(inbound).await.map_err(HandlerError::new);
            }
            Work::Replaced(actor_id) => {
                let ended = ReplacedEnd::new(&seat.session);
                let replaced = seat.handler.replaced(&seat.session, &actor_id).await;
                ended.with(if replaced.is_ok() {
                    CallbackEnd::Completed
                } else {
                    CallbackEnd::Failed
                });
                return replaced.map_err(HandlerError::new);
            }
            Work::Error(text) => seat.handler.error(&seat.session, &text).await,
            Work::Disconnected(reason) => {
                seat.handler.disconnected(&seat.session, reason).await;
            }
        }
        Ok(())
    }
}

impl<H: SessionHandler> Seat<H> {
    async fn packet(&mut self, inbound: Inbound) -> Result<(), HandlerFailure> {
        let inner = &self.session.inner;
        let request = inbound
            .sequence
            .map(|sequence| Request::new(sequence, &inbound.extras));
        // A handler that panics leaves its request to this value.
        let mut fallback = Fallback {
            replier: request.as_ref().map(|r| Replier::new(inner, Arc::clone(r))),
            is_send: request.is_none(),
            session: &self.session,
        };
        let result = match self.unpacking.unpack(inbound.payload) {
            // ST-125: like a handler that fails.
            Err(error) => Err(HandlerFailure::new("ProtocolError", error.to_string())),
            // ST-106: such a name has no handler.
            Ok(_) if inbound.name.is_reserved() => {
                Err(HandlerFailure::new("NotFound", "no handler has this name"))
            }
            Ok(payload) => {
                let packet = Packet {
                    name: inbound.name,
                    payload,
                    replier: request.map(|request| Replier::new(inner, request)),
                    extras: inbound.extras,
                };
                self.handler.packet(&self.session, packet).await
            }
        };
        fallback.end(result).await
    }
}

impl Unpacking {
    fn unpack(self, payload: Payload) -> Result<Payload, DecompressError> {
        match (payload.packing, self.compression) {
            (Packing::Plain, _) => Ok(payload),
            (Packing::Compressed, Compression::None) => Err(DecompressError::NotConfigured),
            (Packing::Compressed, Compression::Lz4) => {
                let bytes = decompress(&payload.bytes, u64::from(self.plain_bytes_max))?;
                Ok(Payload::plain(payload.codec, bytes))
            }
        }
    }
}

/// Answers for a handler that did not (ST-148).
struct Fallback<'a> {
    replier: Option<Replier>,
    is_send: bool,
    session: &'a Session,
}

impl Fallback<'_> {
    async fn end(&mut self, result: Result<(), HandlerFailure>) -> Result<(), HandlerFailure> {
        let replier = self.replier.take();
        let is_send = std::mem::replace(&mut self.is_send, false);
        let Err(failure) = result else {
            return Ok(());
        };
        if is_send {
            self.session.inner.stats.count_failed_send();
        }
        if let Some(replier) = replier {
            // Answered before, or nobody is there to read it.
            drop(replier.fail(failure.as_remote()).await);
        }
        Err(failure)
    }
}

impl Drop for Fallback<'_> {
    fn drop(&mut self) {
        if self.is_send {
            self.session.inner.stats.count_failed_send();
        }
        if let Some(replier) = self.replier.take() {
            let internal: RemoteError = HandlerFailure::internal().into_remote();
            drop(replier.fail_now(&internal));
        }
    }
}

/// Reports the end of the replaced callback, also when it panics (SB-54).
struct ReplacedEnd<'a> {
    session: &'a Session,
    end: CallbackEnd,
}

impl<'a> ReplacedEnd<'a> {
    const fn new(session: &'a Session) -> Self {
        Self {
            session,
            end: CallbackEnd::Failed,
        }
    }

    fn with(mut self, end: CallbackEnd) {
        self.end = end;
    }
}

impl Drop for ReplacedEnd<'_> {
    fn drop(&mut self) {
        if let Some(actors) = self.session.dispatch() {
            actors.on(SessionEvent::ReplacedCallbackEnded(self.end));
        }
    }
}
