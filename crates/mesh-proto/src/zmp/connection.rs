//! One TCP connection: handshake, then messages.
//!
//! | stage | HELLO | READY | data | ERROR | other control | closed | deadline |
//! |---|---|---|---|---|---|---|---|
//! | hello | → ready | refused | refused | refused | refused | ended | ended |
//! | ready | refused | → open | refused | ended | refused | ended | ended |
//! | open | dropped | refused | message | ended | dropped | ended | none |
//! | ended | dropped | dropped | dropped | dropped | dropped | dropped | none |

use core::num::NonZeroU64;

use bytes::buf::Limit;
use bytes::{Bytes, BytesMut};
use spotlane_types::id::NodeRid;
use spotlane_types::time::Monotonic;
use thiserror::Error;

use super::control::{
    ERROR, HELLO, Hello, Lane, PairKey, READY, Ready, SocketType, WEIGHT, error_frame, hello_frame,
    ready_frame,
};
use super::decoder::{Decoder, Expect, Frame};
use super::header::Edition;
use super::message::{Assembler, Message};
use super::refusal::Refusal;
use super::scan::scan;
use crate::bound::HANDSHAKE_TIMEOUT;
use crate::machine::Machine;

/// Which types of peers a router takes (TR-10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-10")]
pub enum Accepts {
    /// Routers, as a mesh node does.
    #[default]
    Routers,
    /// Routers and dealers, as the socket could.
    RoutersAndDealers,
}

/// What we are on a connection.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct ConnectionSettings {
    /// The edition that both sides speak.
    pub edition: Edition,
    /// Our identity (TR-11).
    pub id: NodeRid,
    /// The largest frame that we take; `None` is no limit (TR-54).
    pub receive_limit: Option<NonZeroU64>,
    /// Whom we take.
    pub accepts: Accepts,
}

/// What the peer said in its handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerReady {
    /// The identity of the peer, from HELLO alone (TR-11).
    pub id: NodeRid,
    /// The pair that the connection belongs to.
    pub key: PairKey,
    /// Which connection of the pair it is.
    pub lane: Lane,
    /// The largest message that the peer takes (TR-17).
    pub receive_limit: Option<NonZeroU64>,
}

/// Where a connection was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no other place")]
pub enum Cut {
    /// Before both sides were ready.
    InHandshake,
    /// In the middle of a frame.
    InFrame,
    /// Between two frames of one message.
    InMessage,
    /// Between two messages, as at a regular close (TR-28).
    BetweenMessages,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectionEnd {
    /// The peer broke the protocol and was told so.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The peer refused us (TR-19).
    #[error("the peer sent error {code}")]
    PeerError {
        /// The code it gave; 0 when its frame had none.
        code: u8,
    },
    /// The peer has no identity, so nothing it sends could be told from others (TR-11).
    #[error("the peer has no identity")]
    NoIdentity,
    /// A message grew beyond what we take.
    #[error("a message is too long")]
    Overlong,
    /// The stream ended.
    #[error("closed ({0:?})")]
    Closed(Cut),
}

/// Input that changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dropped {
    /// A READY without a property (TR-15).
    EmptyReady,
    /// A second HELLO (TR-16).
    SecondHello,
    /// A WEIGHT, which a mesh node does not apply (TR-21).
    Weight,
    /// A control frame that we do not know (TR-16).
    UnknownControl,
    /// A frame that routers do not use (TR-7).
    Special,
    /// A message that its lane does not carry (TR-43).
    Misplaced,
    /// Anything after the end.
    AfterEnd,
}

/// What happens to a connection.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a stream gives bytes and ends")]
pub enum ConnectionEvent {
    /// Bytes came, split anywhere.
    Received(Bytes),
    /// The stream ended or failed.
    Closed,
}

/// What a connection asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the link handles each of them")]
pub enum ConnectionEffect {
    /// Write these bytes.
    Write(Bytes),
    /// Both sides of this connection are ready.
    Ready(PeerReady),
    /// A whole message came.
    Message(Message),
    /// Something came that changed nothing.
    Dropped(Dropped),
    /// It is over: write what the socket takes of the bytes before, then close (TR-18).
    End(ConnectionEnd),
}

/// The machine of one connection.
#[derive(Debug)]
pub struct Connection {
    settings: ConnectionSettings,
    decoder: Decoder,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Hello(Handshake),
    Ready(Handshake, NodeRid),
    Open(Lane, Assembler),
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Handshake {
    opener: Opener,
    deadline: Monotonic,
}

/// Who opened the connection.
#[derive(Clone, Copy, Debug)]
enum Opener {
    Us { key: PairKey, lane: Lane },
    Peer,
}

type Effects = Vec<ConnectionEffect>;

impl Connection {
    /// Starts on a connection that we opened: HELLO and READY go out at once.
    pub fn dial(
        settings: ConnectionSettings,
        key: PairKey,
        lane: Lane,
        now: Monotonic,
        out: &mut Effects,
    ) -> Self {
        let hello = hello_frame(settings.edition, &settings.id);
        let ready = settings.ready(key, lane);
        out.push(ConnectionEffect::Write([hello, ready].concat().into()));
        Self::start(settings, Opener::Us { key, lane }, now)
    }

    /// Starts on a connection that a peer opened: HELLO goes out at once, READY after the peer's.
    pub fn accept(settings: ConnectionSettings, now: Monotonic, out: &mut Effects) -> Self {
        let hello = hello_frame(settings.edition, &settings.id);
        out.push(ConnectionEffect::Write(hello));
        Self::start(settings, Opener::Peer, now)
    }

    fn start(settings: ConnectionSettings, opener: Opener, now: Monotonic) -> Self {
        let limit = settings.receive_limit.map_or(u32::MAX, |limit| {
            u32::try_from(limit.get()).unwrap_or(u32::MAX)
        });
        Self {
            decoder: Decoder::new(settings.edition, limit),
            settings,
            stage: Stage::Hello(Handshake {
                opener,
                deadline: now.after(HANDSHAKE_TIMEOUT),
            }),
        }
    }

    /// Whether the handshake is done and the connection not over.
    pub const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(..))
    }

    /// Where a driver may read the next bytes of a large body to, as
    /// [`Decoder::body_room`](super::Decoder::body_room). It tells of what it has read by receiving no
    /// bytes.
    pub fn body_room(&mut self, least: usize, most: usize) -> Option<Limit<&mut BytesMut>> {
        match self.stage {
            Stage::Open(..) => self.decoder.body_room(least, most),
            Stage::Hello(_) | Stage::Ready(..) | Stage::Ended => None,
        }
    }

    fn receive(&mut self, mut input: Bytes, out: &mut Effects) {
        loop {
            self.scan(&mut input, out);
            let expect = match &self.stage {
                Stage::Hello(_) => Expect::Hello,
                Stage::Ready(..) => Expect::Ready,
                Stage::Open(..) => Expect::Any,
                Stage::Ended => {
                    out.push(ConnectionEffect::Dropped(Dropped::AfterEnd));
                    return;
                }
            };
            match self.decoder.next(expect, &mut input) {
                Ok(Some(frame)) => self.frame(frame, out),
                Ok(None) => return,
                Err(refusal) => self.refuse(refusal, out),
            }
            if input.is_empty() {
                // A frame without a body is whole with its header, so nothing waits for more bytes.
                return;
            }
            if matches!(self.stage, Stage::Ended) {
                return;
            }
        }
    }

    /// Takes the messages that lie in the input as a whole.
    fn scan(&self, input: &mut Bytes, out: &mut Effects) {
        let Stage::Open(lane, assembler) = &self.stage else {
            return;
        };
        if assembler.is_inside_message() || self.decoder.is_inside_frame() {
            return;
        }
        let limit = self.decoder.limit();
        while let Some(message) = scan(self.settings.edition, limit, *lane, input) {
            out.push(ConnectionEffect::Message(message));
        }
    }

    fn frame(&mut self, frame: Frame, out: &mut Effects) {
        match core::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Hello(handshake) => self.hello(handshake, &frame, out),
            Stage::Ready(handshake, peer) => self.ready(handshake, peer, &frame, out),
            Stage::Open(lane, assembler) => self.open(lane, assembler, frame, out),
            Stage::Ended => out.push(ConnectionEffect::Dropped(Dropped::AfterEnd)),
        }
    }

    fn hello(&mut self, handshake: Handshake, frame: &Frame, out: &mut Effects) {
        let hello = match Hello::parse(&frame.body) {
            Ok(hello) => hello,
            Err(refusal) => return self.refuse(refusal, out),
        };
        match (hello.socket, self.settings.accepts) {
            (SocketType::Router, _) | (SocketType::Dealer, Accepts::RoutersAndDealers) => {}
            (SocketType::Dealer, Accepts::Routers) => {
                return self.refuse(Refusal::SocketTypeMismatch, out);
            }
        }
        match hello.id {
            Some(peer) => self.stage = Stage::Ready(handshake, peer),
            None => self.end(ConnectionEnd::NoIdentity, out),
        }
    }

    /// TR-16: what may come where READY is due.
    fn ready(&mut self, handshake: Handshake, peer: NodeRid, frame: &Frame, out: &mut Effects) {
        let ready = match frame.body.split_first() {
            Some((&READY, properties)) => Ready::parse(properties),
            Some((&ERROR, rest)) => return self.peer_error(rest, out),
            Some(_) => Err(Refusal::UnknownControl),
            None => Err(Refusal::InvalidControl),
        };
        let ready = match ready {
            Ok(Some(ready)) => ready,
            Ok(None) => {
                out.push(ConnectionEffect::Dropped(Dropped::EmptyReady));
                self.stage = Stage::Ready(handshake, peer);
                return;
            }
            Err(refusal) => return self.refuse(refusal, out),
        };
        match handshake.opener {
            // TR-23: the acceptor echoes what we sent.
            Opener::Us { key, lane } if (key, lane) != (ready.key, ready.lane) => {
                return self.refuse(Refusal::PairMetadataInvalid, out);
            }
            Opener::Us { .. } => {}
            Opener::Peer => {
                let answer = self.settings.ready(ready.key, ready.lane);
                out.push(ConnectionEffect::Write(answer));
            }
        }
        self.stage = Stage::Open(ready.lane, Assembler::default());
        out.push(ConnectionEffect::Ready(PeerReady {
            id: peer,
            key: ready.key,
            lane: ready.lane,
            receive_limit: ready.receive_limit,
        }));
    }

    fn open(&mut self, lane: Lane, mut assembler: Assembler, frame: Frame, out: &mut Effects) {
        if frame.flags.is_special() {
            out.push(ConnectionEffect::Dropped(Dropped::Special));
        } else if frame.flags.is_control() {
            match Self::control(&frame.body, &assembler) {
                Ok(dropped) => out.push(ConnectionEffect::Dropped(dropped)),
                Err(Refusal::PeerSentError) => {
                    return self.peer_error(frame.body.get(1..).unwrap_or_default(), out);
                }
                Err(refusal) => return self.refuse(refusal, out),
            }
        } else {
            match assembler.push(frame) {
                Ok(None) => {}
                Ok(Some(frames)) => out.push(match Message::classify(lane, frames) {
                    Message::Misplaced => ConnectionEffect::Dropped(Dropped::Misplaced),
                    message @ (Message::Plain(_)
                    | Message::Request { .. }
                    | Message::Reply { .. }
                    | Message::ErrorReply { .. }
                    | Message::CompletionControl(_)) => ConnectionEffect::Message(message),
                }),
                Err(_) => return self.end(ConnectionEnd::Overlong, out),
            }
        }
        self.stage = Stage::Open(lane, assembler);
    }

    /// A control frame after READY (TR-16, TR-20, TR-21).
    fn control(body: &[u8], assembler: &Assembler) -> Result<Dropped, Refusal> {
        match body.first() {
            Some(&ERROR) => return Err(Refusal::PeerSentError),
            Some(&READY) => return Err(Refusal::DuplicateReady),
            Some(_) | None => {}
        }
        // TR-38: nothing stands between the frames of a message.
        if assembler.is_inside_message() {
            return Err(Refusal::InvalidControl);
        }
        Ok(match body.first() {
            Some(&HELLO) => Dropped::SecondHello,
            Some(_) if body.starts_with(WEIGHT) => Dropped::Weight,
            Some(_) | None => Dropped::UnknownControl,
        })
    }

    /// TR-19: a received ERROR is an error of the protocol itself.
    fn peer_error(&mut self, rest: &[u8], out: &mut Effects) {
        let answer = error_frame(self.settings.edition, Refusal::PeerSentError);
        out.push(ConnectionEffect::Write(answer));
        let code = rest.first().copied().unwrap_or(0);
        self.end(ConnectionEnd::PeerError { code }, out);
    }

    /// TR-18: one ERROR, then the end.
    fn refuse(&mut self, refusal: Refusal, out: &mut Effects) {
        let error = error_frame(self.settings.edition, refusal);
        out.push(ConnectionEffect::Write(error));
        self.end(ConnectionEnd::Refused(refusal), out);
    }

    fn end(&mut self, end: ConnectionEnd, out: &mut Effects) {
        self.stage = Stage::Ended;
        out.push(ConnectionEffect::End(end));
    }

    fn cut(&self, assembler: &Assembler) -> Cut {
        if self.decoder.is_inside_frame() {
            Cut::InFrame
        } else if assembler.is_inside_message() {
            Cut::InMessage
        } else {
            Cut::BetweenMessages
        }
    }
}

impl ConnectionSettings {
    fn ready(&self, key: PairKey, lane: Lane) -> Bytes {
        let ready = Ready {
            key,
            lane,
            receive_limit: self.receive_limit,
        };
        ready_frame(self.edition, &self.id, &ready)
    }
}

impl Machine for Connection {
    type Event = ConnectionEvent;
    type Effect = ConnectionEffect;

    fn on_event(&mut self, _: Monotonic, event: ConnectionEvent, out: &mut Effects) {
        match (&self.stage, event) {
            (
                Stage::Hello(_) | Stage::Ready(..) | Stage::Open(..),
                ConnectionEvent::Received(bytes),
            ) => {
                self.receive(bytes, out);
            }
            (Stage::Hello(_) | Stage::Ready(..), ConnectionEvent::Closed) => {
                self.end(ConnectionEnd::Closed(Cut::InHandshake), out);
            }
            (Stage::Open(_, assembler), ConnectionEvent::Closed) => {
                let cut = self.cut(assembler);
                self.end(ConnectionEnd::Closed(cut), out);
            }
            (Stage::Ended, ConnectionEvent::Received(_) | ConnectionEvent::Closed) => {
                out.push(ConnectionEffect::Dropped(Dropped::AfterEnd));
            }
        }
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        match &self.stage {
            Stage::Hello(handshake) | Stage::Ready(handshake, _) => Some(handshake.deadline),
            Stage::Open(..) | Stage::Ended => None,
        }
    }

    /// TR-26: the whole handshake has one time.
    fn on_deadline(&mut self, now: Monotonic, out: &mut Effects) {
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.refuse(Refusal::HandshakeTimeout, out);
        }
    }
}
