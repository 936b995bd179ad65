//! One TCP connection: handshake, then messages.
//!
//! | stage | HELLO | READY | data | ERROR | other control | closed | deadline |
//! |---|---|---|---|---|---|---|---|
//! | hello | → ready | refused | refused | refused | refused | ended | ended |
//! | ready | refused | → open | refused | ended | refused | ended | ended |
//! | open | dropped | refused | message | ended | dropped, or a flow state of E2 | ended | none |
//! | ended | dropped | dropped | dropped | dropped | dropped | dropped | none |

use core::num::NonZeroU64;

use bytes::buf::Limit;
use bytes::{Bytes, BytesMut};
use spotlane_types::id::NodeRid;
use spotlane_types::time::Monotonic;
use thiserror::Error;

use super::control::{
    ERROR, Flow, FlowState, HELLO, Hello, Lane, PairKey, Pairing, READY, Ready, SocketType, WEIGHT,
    error_frame, hello_frame, ready_frame,
};
use super::decoder::{Decoder, Expect, Frame};
use super::frames::Frames;
use super::header::{Edition, Opening};
use super::message::{Assembler, Mark, Message};
use super::refusal::Refusal;
use super::scan::{Whole, find, scan};
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
    /// The editions that we speak.
    pub opening: Opening,
    /// Our identity (TR-11).
    pub id: NodeRid,
    /// The largest frame that we take, and in E2 the largest message; `None` is no limit (TR-54).
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
    /// The pair that the connection belongs to; `None` in E2, where the identity alone joins two
    /// connections.
    pub key: Option<PairKey>,
    /// Which connection of the pair it is.
    pub lane: Lane,
    /// The largest message that the peer takes (TR-17).
    pub receive_limit: Option<NonZeroU64>,
}

impl PeerReady {
    /// The edition that the connection speaks from now on (TR-2).
    pub const fn edition(&self) -> Edition {
        match self.key {
            Some(_) => Edition::E1,
            None => Edition::E2,
        }
    }
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
    /// A flow state that is not legal, or older than the one that holds (TR-46).
    FlowState,
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
    /// The peer has changed whether it takes new messages (TR-46).
    Flow(FlowState),
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
    Open(Open),
    Ended,
}

#[derive(Debug)]
struct Open {
    edition: Edition,
    lane: Lane,
    assembler: Assembler,
    first: First,
    /// The epoch of the flow state that holds; 0 before the first one.
    flow: u64,
}

/// Whether a Completion lane of E2 has begun as it must (TR-45).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Expected,
    Seen,
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
    /// Starts on a connection that we opened: HELLO and READY of E1 go out at once; whoever speaks
    /// something else waits for the HELLO of the peer (TR-2).
    pub fn dial(
        settings: ConnectionSettings,
        key: PairKey,
        lane: Lane,
        now: Monotonic,
        out: &mut Effects,
    ) -> Self {
        let hello = hello_frame(&settings.id);
        let first = match settings.opening {
            Opening::Fixed(Edition::E1) => {
                let ready = settings.ready(Pairing::ByKey(key), lane);
                [hello, ready].concat().into()
            }
            Opening::Fixed(Edition::E2) | Opening::Neutral => hello,
        };
        out.push(ConnectionEffect::Write(first));
        Self::start(settings, Opener::Us { key, lane }, now)
    }

    /// Starts on a connection that a peer opened: HELLO goes out at once, READY after the peer's.
    pub fn accept(settings: ConnectionSettings, now: Monotonic, out: &mut Effects) -> Self {
        out.push(ConnectionEffect::Write(hello_frame(&settings.id)));
        Self::start(settings, Opener::Peer, now)
    }

    fn start(settings: ConnectionSettings, opener: Opener, now: Monotonic) -> Self {
        let limit = settings.receive_limit.map_or(u32::MAX, |limit| {
            u32::try_from(limit.get()).unwrap_or(u32::MAX)
        });
        Self {
            decoder: Decoder::new(settings.opening.assumed(), limit),
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

    /// Whether it has ended.
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Ended)
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

    /// What is kept of a message that is not whole yet, charged as a whole one is (TR-50).
    pub fn begun_bytes(&self) -> u64 {
        let Stage::Open(open) = &self.stage else {
            return 0;
        };
        let body = u64::try_from(self.decoder.gathered_bytes()).unwrap_or(u64::MAX);
        open.assembler.held_bytes().saturating_add(body)
    }

    /// Finds the message that begins at `start`, if it lies in the input as a whole and is of the common
    /// kind; for a driver that takes such messages itself. Everything else is for
    /// [`Self::receive_message`]. A connection that is in the middle of a message finds none.
    #[inline]
    pub fn find_whole(&mut self, input: &[u8], start: usize) -> Option<Whole> {
        let Stage::Open(open) = &mut self.stage else {
            return None;
        };
        if open.assembler.is_inside_message() || self.decoder.is_inside_frame() {
            return None;
        }
        let whole = find(open.edition, self.decoder.limit(), open.lane, input, start)?;
        open.first = First::Seen;
        Some(whole)
    }

    /// Takes bytes off the front of `input` up to the end of a message, or all when it does not end in
    /// them.
    pub fn receive_message(&mut self, input: &mut Bytes, out: &mut Effects) {
        loop {
            let expect = match &self.stage {
                Stage::Hello(_) => Expect::Hello,
                Stage::Ready(..) => Expect::Ready,
                Stage::Open(open) if open.assembler.is_inside_message() => {
                    Expect::More(open.assembler.bytes())
                }
                Stage::Open(_) => Expect::Any,
                Stage::Ended => {
                    out.push(ConnectionEffect::Dropped(Dropped::AfterEnd));
                    return;
                }
            };
            match self.decoder.next(expect, input) {
                Ok(Some(frame)) => self.frame(frame, out),
                Ok(None) => return,
                Err(refusal) => self.refuse(refusal, out),
            }
            let inside = match &self.stage {
                Stage::Open(open) => open.assembler.is_inside_message(),
                Stage::Hello(_) | Stage::Ready(..) | Stage::Ended => false,
            };
            // A frame without a body is whole with its header, so nothing waits for more bytes.
            if input.is_empty() || !inside {
                return;
            }
        }
    }

    fn receive(&mut self, mut input: Bytes, out: &mut Effects) {
        loop {
            self.scan(&mut input, out);
            self.receive_message(&mut input, out);
            if input.is_empty() || self.is_over() {
                return;
            }
        }
    }

    /// Takes the messages that lie in the input as a whole.
    fn scan(&mut self, input: &mut Bytes, out: &mut Effects) {
        let Stage::Open(open) = &mut self.stage else {
            return;
        };
        if open.assembler.is_inside_message() || self.decoder.is_inside_frame() {
            return;
        }
        let limit = self.decoder.limit();
        while let Some(message) = scan(open.edition, limit, open.lane, input) {
            open.first = First::Seen;
            out.push(ConnectionEffect::Message(message));
        }
    }

    fn frame(&mut self, frame: Frame, out: &mut Effects) {
        match core::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Hello(handshake) => self.hello(handshake, &frame, out),
            Stage::Ready(handshake, peer) => self.ready(handshake, peer, &frame, out),
            Stage::Open(open) => self.open(open, frame, out),
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
        let Some(peer) = hello.id else {
            return self.end(ConnectionEnd::NoIdentity, out);
        };
        // TR-2: now that the peer is there, a dialler says which editions it speaks.
        let pairing = match (handshake.opener, self.settings.opening) {
            (Opener::Us { .. }, Opening::Fixed(Edition::E2)) => Some(Pairing::ByIdentity),
            (Opener::Us { key, .. }, Opening::Neutral) => Some(Pairing::Either(key)),
            (Opener::Us { .. }, Opening::Fixed(Edition::E1)) | (Opener::Peer, _) => None,
        };
        if let (Some(pairing), Opener::Us { lane, .. }) = (pairing, handshake.opener) {
            let ready = self.settings.ready(pairing, lane);
            out.push(ConnectionEffect::Write(ready));
        }
        self.stage = Stage::Ready(handshake, peer);
    }

    /// TR-16: what may come where READY is due.
    fn ready(&mut self, handshake: Handshake, peer: NodeRid, frame: &Frame, out: &mut Effects) {
        let ready = match frame.body.split_first() {
            Some((&READY, properties)) => Ready::parse(self.settings.opening, &peer, properties),
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
        let key = match ready.pairing {
            Pairing::ByKey(key) => Some(key),
            Pairing::ByIdentity | Pairing::Either(_) => None,
        };
        match handshake.opener {
            // TR-23: the acceptor echoes what we sent.
            Opener::Us { key: ours, lane }
                if lane != ready.lane || key.is_some_and(|key| key != ours) =>
            {
                return self.refuse(Refusal::PairMetadataInvalid, out);
            }
            Opener::Us { .. } => {}
            Opener::Peer => {
                let answer = self.settings.ready(ready.pairing, ready.lane);
                out.push(ConnectionEffect::Write(answer));
            }
        }
        let ready = PeerReady {
            id: peer,
            key,
            lane: ready.lane,
            receive_limit: ready.receive_limit,
        };
        self.decoder.speak(ready.edition());
        self.stage = Stage::Open(Open {
            edition: ready.edition(),
            lane: ready.lane,
            assembler: Assembler::default(),
            first: First::Expected,
            flow: 0,
        });
        out.push(ConnectionEffect::Ready(ready));
    }

    fn open(&mut self, mut open: Open, frame: Frame, out: &mut Effects) {
        if frame.flags.is_special() {
            out.push(ConnectionEffect::Dropped(Dropped::Special));
        } else if frame.flags.is_control() {
            match open.control(&frame.body) {
                Ok(effect) => out.push(effect),
                Err(Refusal::PeerSentError) => {
                    return self.peer_error(frame.body.get(1..).unwrap_or_default(), out);
                }
                Err(refusal) => return self.refuse(refusal, out),
            }
        } else {
            match open.assembler.push(frame) {
                Ok(None) => {}
                Ok(Some((mark, frames))) => match open.message(mark, frames) {
                    Ok(effect) => out.push(effect),
                    Err(refusal) => return self.refuse(refusal, out),
                },
                Err(_) => return self.end(ConnectionEnd::Overlong, out),
            }
        }
        self.stage = Stage::Open(open);
    }

    /// TR-19: a received ERROR is an error of the protocol itself.
    fn peer_error(&mut self, rest: &[u8], out: &mut Effects) {
        let answer = error_frame(Refusal::PeerSentError);
        out.push(ConnectionEffect::Write(answer));
        let code = rest.first().copied().unwrap_or(0);
        self.end(ConnectionEnd::PeerError { code }, out);
    }

    /// TR-18: one ERROR, then the end.
    fn refuse(&mut self, refusal: Refusal, out: &mut Effects) {
        let error = error_frame(refusal);
        out.push(ConnectionEffect::Write(error));
        self.end(ConnectionEnd::Refused(refusal), out);
    }

    fn end(&mut self, end: ConnectionEnd, out: &mut Effects) {
        self.stage = Stage::Ended;
        out.push(ConnectionEffect::End(end));
    }

    /// The stream is over. TR-8: E2 answers one that ends too early, for the case that it is still
    /// open in our direction. It is a lost connection all the same: a peer that was killed leaves one.
    fn closed(&mut self, cut: Cut, edition: Edition, out: &mut Effects) {
        let early = self.decoder.is_inside_frame() || cut == Cut::InMessage;
        if early && edition == Edition::E2 {
            out.push(ConnectionEffect::Write(error_frame(Refusal::Incomplete)));
        }
        self.end(ConnectionEnd::Closed(cut), out);
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

impl Open {
    /// A control frame after READY (TR-16, TR-20, TR-21).
    fn control(&mut self, body: &[u8]) -> Result<ConnectionEffect, Refusal> {
        match body.first() {
            Some(&ERROR) => return Err(Refusal::PeerSentError),
            Some(&READY) => return Err(Refusal::DuplicateReady),
            Some(_) | None => {}
        }
        // TR-38: nothing stands between the frames of a message.
        if self.assembler.is_inside_message() {
            return Err(match self.edition {
                Edition::E1 => Refusal::InvalidControl,
                Edition::E2 => Refusal::MultipartInvalid,
            });
        }
        Ok(match (body.first(), self.edition) {
            (Some(&HELLO), _) => ConnectionEffect::Dropped(Dropped::SecondHello),
            (_, Edition::E2) if Flow::is_named(body) => self.flow(body),
            (Some(_), _) if body.starts_with(WEIGHT) => ConnectionEffect::Dropped(Dropped::Weight),
            (Some(_) | None, _) => ConnectionEffect::Dropped(Dropped::UnknownControl),
        })
    }

    /// TR-46: the state of the highest epoch holds, and only the Completion lane brings one.
    fn flow(&mut self, body: &[u8]) -> ConnectionEffect {
        let flow = match self.lane {
            Lane::Application => None,
            Lane::Completion => {
                self.first = First::Seen;
                Flow::parse(body).filter(|flow| flow.epoch.get() > self.flow)
            }
        };
        match flow {
            Some(Flow { state, epoch }) => {
                self.flow = epoch.get();
                ConnectionEffect::Flow(state)
            }
            None => ConnectionEffect::Dropped(Dropped::FlowState),
        }
    }

    /// A whole message.
    fn message(&mut self, mark: Option<Mark>, frames: Frames) -> Result<ConnectionEffect, Refusal> {
        let message = match self.edition {
            Edition::E1 => Message::classify(self.lane, frames),
            Edition::E2 => Message::marked(self.lane, mark, frames)?,
        };
        let first = core::mem::replace(&mut self.first, First::Seen);
        match message {
            Message::Misplaced => match (self.edition, self.lane, first) {
                // TR-45
                (Edition::E2, Lane::Completion, First::Expected) => Err(Refusal::NotCompletion),
                _ => Ok(ConnectionEffect::Dropped(Dropped::Misplaced)),
            },
            message @ (Message::Plain(_)
            | Message::Request { .. }
            | Message::Reply { .. }
            | Message::ErrorReply { .. }
            | Message::CompletionControl(_)) => Ok(ConnectionEffect::Message(message)),
        }
    }
}

impl ConnectionSettings {
    fn ready(&self, pairing: Pairing, lane: Lane) -> Bytes {
        let ready = Ready {
            pairing,
            lane,
            receive_limit: self.receive_limit,
        };
        ready_frame(&self.id, &ready)
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
                let edition = self.settings.opening.assumed();
                self.closed(Cut::InHandshake, edition, out);
            }
            (Stage::Open(open), ConnectionEvent::Closed) => {
                let (cut, edition) = (self.cut(&open.assembler), open.edition);
                self.closed(cut, edition, out);
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
