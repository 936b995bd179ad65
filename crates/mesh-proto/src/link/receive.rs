//! What comes in.

use bytes::Bytes;
use spotlane_types::kind::MeshOperationKind;
use spotlane_types::time::Monotonic;
use spotlane_wire::command::Command as _;
use spotlane_wire::command::admission::{Hello, Reject, Update};
use spotlane_wire::command::liveness::{LivenessAck, LivenessProbe};
use spotlane_wire::command::message::{ActorRequest, ActorRequestView, ActorSend, ActorSendView};
use spotlane_wire::command::reply::Reply;
use spotlane_wire::{FrameSlice, Record, ViewCommand as _, view_command_slices};

use super::class::{COMMAND_AT, Class, class_of, command_of};
use super::effect::{EndReason, Ignored, LinkEffect, Outcome};
use super::event::LinkEvent;
use super::{Effects, Link, Responsive, Stage, Used};
use crate::admission::{AdmissionEvent, Offered};
use crate::liveness::Acknowledged;
use crate::pending::{Request, Unmatched};
use crate::zmp::{
    Connection, ConnectionEffect, ConnectionEvent, Lane, Message, NotCommon, Sequence, Whole,
};

/// How a record was wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrapped {
    Plain,
    Request(Sequence),
    CompletionControl,
}

/// Reads a message that needs nothing of its link once the peer is admitted: a record for the layers
/// above. It is what the link would deliver, with the sequence that an answer has to name.
///
/// # Errors
/// The message is something else, or not legal: the link has to look at it.
#[inline]
#[expect(
    clippy::result_large_err,
    reason = "both are moved once, and a box for each message costs more"
)]
pub fn ordinary(message: Message) -> Result<(Record, Option<Sequence>), Message> {
    let (frames, sequence) = match &message {
        Message::Plain(frames) => (frames, None),
        Message::Request { sequence, payload } => (payload, Some(*sequence)),
        Message::Reply { .. }
        | Message::ErrorReply { .. }
        | Message::CompletionControl(_)
        | Message::Misplaced => return Err(message),
    };
    if command_of(frames).is_none_or(|id| id <= LivenessAck::ID) {
        return Err(message);
    }
    let Ok(record) = Record::decode(frames, MeshOperationKind::None) else {
        return Err(message);
    };
    if is_ordinary(&record, sequence) {
        Ok((record, sequence))
    } else {
        Err(message)
    }
}

/// A message to an Actor that was checked and is not copied yet: whoever puts it into a queue makes of it what that queue
/// holds, and nothing in between (EX-384).
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the two commands of the contract")]
pub enum ActorMessage<'a> {
    /// Command 24.
    Send(ActorSendView<'a>),
    /// Command 25.
    Request(ActorRequestView<'a>),
}

impl ActorMessage<'_> {
    /// The record as a value of its own.
    pub fn to_record(&self) -> Record {
        match self {
            Self::Send(view) => ActorSend::from_view(view).into(),
            Self::Request(view) => ActorRequest::from_view(view).into(),
        }
    }
}

/// As [`ordinary`], for a message that lies in a buffer as a whole; gives the record to `take`, with the
/// sequence that an answer has to name.
///
/// # Errors
/// As there; the message is still in the buffer.
#[inline]
pub fn ordinary_whole<T>(
    whole: &Whole,
    buffer: &Bytes,
    take: impl FnOnce(Record, Option<Sequence>) -> T,
) -> Result<T, NotCommon> {
    let sequence = whole.application()?;
    let decode = |frames: &[FrameSlice<'_>]| Record::decode_slices(frames, MeshOperationKind::None);
    match whole.with_frames(buffer, decode) {
        Some(Ok(record)) if is_ordinary(&record, sequence) => Ok(take(record, sequence)),
        _ => Err(NotCommon),
    }
}

/// Whether a message that lies in a buffer as a whole is for [`message_whole`].
#[inline]
pub fn is_message(whole: &Whole, buffer: &Bytes) -> bool {
    let command = whole.first_byte_at(buffer, COMMAND_AT);
    matches!(command, Some(ActorSend::ID | ActorRequest::ID))
}

/// As [`ordinary_whole`], for a message to an Actor, which `take` gets where it lies.
///
/// # Errors
/// It is something else, or not legal; it is still in the buffer.
#[inline]
pub fn message_whole<T>(
    whole: &Whole,
    buffer: &Bytes,
    take: impl FnOnce(&ActorMessage<'_>, Option<Sequence>) -> T,
) -> Result<T, NotCommon> {
    let sequence = whole.application()?;
    let taken = match sequence {
        None => whole.with_frames(buffer, |frames| {
            let view = view_command_slices::<ActorSend>(frames).ok()?;
            Some(take(&ActorMessage::Send(view), None))
        }),
        Some(_) => whole.with_frames(buffer, |frames| {
            let view = view_command_slices::<ActorRequest>(frames).ok()?;
            Some(take(&ActorMessage::Request(view), sequence))
        }),
    };
    taken.flatten().ok_or(NotCommon)
}

/// Whether a record is for the layers above, and wrapped as its class says.
#[inline]
const fn is_ordinary(record: &Record, sequence: Option<Sequence>) -> bool {
    match (class_of(record.by_ref()), sequence) {
        (Class::OneWay | Class::Relocation, None) | (Class::Request, Some(_)) => true,
        (Class::OneWay | Class::Relocation, Some(_))
        | (Class::Request, None)
        | (Class::Reply | Class::Admission | Class::Liveness, _) => false,
    }
}

/// As [`reply_outcome`], for a reply that lies in a buffer as a whole; `None` for a broken one.
#[inline]
pub fn reply_whole(request: &Request, whole: &Whole, buffer: &Bytes) -> Option<Reply> {
    let decode = |frames: &[FrameSlice<'_>]| {
        spotlane_wire::decode_command_slices::<Reply>(frames, request.kind)
    };
    match whole.with_frames(buffer, decode) {
        Some(Ok(reply)) if reply.correlation == request.correlation => Some(reply),
        _ => None,
    }
}

/// What the frames of a reply are for the request that they answer (TR-69).
pub fn reply_outcome(request: &Request, frames: &[Bytes]) -> Outcome {
    let reply = spotlane_wire::decode_command::<Reply>(frames, request.kind);
    match reply {
        Ok(reply) if reply.correlation == request.correlation => Outcome::Reply(Box::new(reply)),
        Ok(_) | Err(_) => Outcome::BrokenReply,
    }
}

impl Link {
    pub(super) fn opened(
        &mut self,
        now: Monotonic,
        lane: Lane,
        since: Monotonic,
        out: &mut Effects,
    ) {
        if !self.lanes.is_dialling(lane) {
            out.push(LinkEffect::Ignored(Ignored::LateLane(lane)));
            return;
        }
        let mut effects = Vec::new();
        let settings = self.settings.connection();
        let connection = Connection::dial(settings, self.key, lane, since, &mut effects);
        self.lanes.put(lane, connection);
        self.run(now, lane, effects, out);
    }

    pub(super) fn received(&mut self, now: Monotonic, lane: Lane, bytes: Bytes, out: &mut Effects) {
        match self.lanes.received(now, lane, bytes) {
            Some(effects) => {
                self.run(now, lane, effects, out);
                self.begun(lane, self.lanes.begun_bytes(lane), out);
            }
            None => out.push(LinkEffect::Ignored(Ignored::LateLane(lane))),
        }
    }

    /// TR-25, TR-80: half a message takes as much memory as a whole one, so it counts with those that are held. A peer that is
    /// admitted is not bounded here.
    pub(super) fn begun(&mut self, lane: Lane, bytes: u64, out: &mut Effects) {
        let held = match &mut self.stage {
            Stage::Opening(opening) => &mut opening.held,
            Stage::Up(up) if up.admission.admitted().is_none() => &mut up.held,
            Stage::Up(_) | Stage::Ended => return,
        };
        if held.begun(lane, bytes).is_err() {
            self.end(EndReason::HeldTooMuch, out);
        }
    }

    pub(super) fn decoded(
        &mut self,
        now: Monotonic,
        lane: Lane,
        effects: Vec<ConnectionEffect>,
        out: &mut Effects,
    ) {
        if self.lanes.is_detached(lane) {
            self.run(now, lane, effects, out);
        } else {
            out.push(LinkEffect::Ignored(Ignored::LateLane(lane)));
        }
    }

    pub(super) fn closed(&mut self, now: Monotonic, lane: Lane, out: &mut Effects) {
        match self.lanes.on_event(now, lane, ConnectionEvent::Closed) {
            Some(effects) => self.run(now, lane, effects, out),
            None => out.push(LinkEffect::Ignored(Ignored::LateLane(lane))),
        }
    }

    /// TR-87: what comes after the end changes nothing; a submit still gets its answer (TR-90).
    pub(super) fn late(&mut self, event: LinkEvent, out: &mut Effects) {
        match event {
            LinkEvent::Submit(submit) => self.submit(*submit, out),
            LinkEvent::Answer { sequence, reply } => self.answer(sequence, *reply, out),
            LinkEvent::Cancel(id) => out.push(LinkEffect::Ignored(Ignored::LateCancel(id))),
            LinkEvent::Opened(..)
            | LinkEvent::OpenFailed(_)
            | LinkEvent::Joined(_)
            | LinkEvent::Received(..)
            | LinkEvent::Decoded(..)
            | LinkEvent::Begun(..)
            | LinkEvent::Closed(_)
            | LinkEvent::Flow(_)
            | LinkEvent::Describe(_)
            | LinkEvent::Supersede
            | LinkEvent::Resume
            | LinkEvent::Outlived
            | LinkEvent::AnswerHello
            | LinkEvent::Shutdown => out.push(LinkEffect::Ignored(Ignored::AfterEnd)),
        }
    }

    /// Takes a whole message of one lane.
    pub(super) fn message(
        &mut self,
        now: Monotonic,
        lane: Lane,
        message: Message,
        out: &mut Effects,
    ) {
        let held = match &mut self.stage {
            // TR-25: nothing is delivered before the pair is ready.
            Stage::Opening(opening) => Some(&mut opening.held),
            // TR-80: nor are records of a peer that is not admitted, except those that admit it.
            Stage::Up(up) if up.admission.admitted().is_none() && !is_control(&message) => {
                Some(&mut up.held)
            }
            Stage::Up(_) | Stage::Ended => None,
        };
        if let Some(held) = held {
            if held.push(lane, message).is_err() {
                self.end(EndReason::HeldTooMuch, out);
            }
            return;
        }
        match message {
            Message::Plain(frames) if is_empty(&frames) => {
                self.admission(now, AdmissionEvent::Asked, out);
            }
            Message::Plain(frames) => self.record(now, &frames, Wrapped::Plain, out),
            Message::Request { sequence, payload } => {
                self.record(now, &payload, Wrapped::Request(sequence), out);
            }
            Message::CompletionControl(frames) => {
                self.record(now, &frames, Wrapped::CompletionControl, out);
            }
            Message::Reply { sequence, payload } => self.reply(sequence, &payload, out),
            Message::ErrorReply { sequence, errno } => {
                self.complete(sequence, out, |_| Outcome::PeerError(errno));
            }
            Message::Misplaced => {}
        }
    }

    fn record(&mut self, now: Monotonic, frames: &[Bytes], wrapped: Wrapped, out: &mut Effects) {
        let record = match Record::decode(frames, MeshOperationKind::None) {
            Ok(record) => record,
            Err(error) => {
                return match command_of(frames) {
                    // TR-72: a descriptor that cannot be read is answered, not cut off.
                    Some(Hello::ID) => {
                        self.admission(now, AdmissionEvent::Hello(Offered::Malformed), out);
                    }
                    Some(Update::ID) => {
                        self.admission(now, AdmissionEvent::Update(Offered::Malformed), out);
                    }
                    Some(_) | None => self.end(EndReason::BrokenRecord(error), out),
                };
            }
        };
        let class = class_of(record.by_ref());
        match (class, wrapped) {
            (Class::Admission, Wrapped::Plain | Wrapped::CompletionControl) => {
                self.admission_record(now, record, frames, out);
            }
            (Class::Liveness, Wrapped::Plain | Wrapped::CompletionControl) => {
                self.liveness_record(now, &record, out);
            }
            (Class::OneWay, Wrapped::Plain)
            | (Class::Relocation, Wrapped::Plain | Wrapped::CompletionControl) => {
                self.deliver(record, None, out);
            }
            (Class::Request, Wrapped::Request(sequence)) => {
                self.deliver(record, Some(sequence), out);
            }
            (Class::OneWay, Wrapped::CompletionControl)
            | (Class::Request, Wrapped::Plain | Wrapped::CompletionControl)
            | (Class::Reply, _)
            | (
                Class::OneWay | Class::Relocation | Class::Admission | Class::Liveness,
                Wrapped::Request(_),
            ) => {
                out.push(LinkEffect::Ignored(Ignored::Misplaced(class)));
            }
        }
    }

    fn deliver(&mut self, record: Record, answer: Option<Sequence>, out: &mut Effects) {
        if let Stage::Up(up) = &self.stage {
            out.push(LinkEffect::Deliver {
                token: up.token.clone(),
                record: Box::new(record),
                answer,
            });
        }
    }

    fn admission_record(
        &mut self,
        now: Monotonic,
        record: Record,
        frames: &[Bytes],
        out: &mut Effects,
    ) {
        let frame = frames.first().map_or(&[][..], |frame| &frame[..]);
        let event = if let Record::Hello(hello) = record {
            // TR-74: a link that lost does not answer; the one that is kept does.
            if self.used() == Used::No {
                out.push(LinkEffect::AnswerOnKeeper);
                return;
            }
            AdmissionEvent::Hello(Offered::of(hello.admission, frame))
        } else if let Record::Admit(admit) = record {
            AdmissionEvent::Admit(Offered::of(admit.admission, frame))
        } else if let Record::Update(update) = record {
            AdmissionEvent::Update(Offered::of(update.admission, frame))
        } else if let Record::Reject(Reject { reason }) = record {
            AdmissionEvent::Reject(reason)
        } else {
            let class = class_of(record.by_ref());
            out.push(LinkEffect::Ignored(Ignored::Misplaced(class)));
            return;
        };
        self.admission(now, event, out);
    }

    /// TR-88: answered in every state, and never handed up.
    fn liveness_record(&mut self, now: Monotonic, record: &Record, out: &mut Effects) {
        if let Record::LivenessProbe(LivenessProbe { probe_id }) = record {
            let probe_id = *probe_id;
            return self.control(&LivenessAck { probe_id }.into(), out);
        }
        let (Stage::Up(up), Record::LivenessAck(ack)) = (&mut self.stage, record) else {
            return;
        };
        let acknowledged = up.liveness.as_mut().map_or(Acknowledged::Foreign, |it| {
            it.acknowledge(now, ack.probe_id)
        });
        match (acknowledged, up.responsive) {
            (Acknowledged::Counts, Responsive::NotYet) => {
                up.responsive = Responsive::Yes;
                out.push(LinkEffect::Responsive);
            }
            (Acknowledged::Counts, Responsive::Yes) => {}
            (Acknowledged::Foreign, Responsive::NotYet | Responsive::Yes) => {
                out.push(LinkEffect::Ignored(Ignored::ForeignAcknowledgement));
            }
        }
    }

    /// TR-41, TR-69: the envelope finds the request, and the record must repeat its correlation.
    fn reply(&mut self, sequence: Sequence, frames: &[Bytes], out: &mut Effects) {
        self.complete(sequence, out, |request| reply_outcome(request, frames));
    }

    /// Takes the request that a reply names out of the table, for a driver that reads the reply itself
    /// ([`reply_outcome`]).
    ///
    /// # Errors
    /// No request waits for it.
    pub fn take_request(&mut self, sequence: Sequence) -> Result<Request, Unmatched> {
        match &mut self.stage {
            Stage::Up(up) => up.pending.take(sequence),
            Stage::Opening(_) | Stage::Ended => Err(Unmatched::Finished),
        }
    }

    fn complete(
        &mut self,
        sequence: Sequence,
        out: &mut Effects,
        outcome: impl FnOnce(&Request) -> Outcome,
    ) {
        let Stage::Up(up) = &mut self.stage else {
            out.push(LinkEffect::Ignored(Ignored::AfterEnd));
            return;
        };
        match up.pending.take(sequence) {
            Ok(request) => {
                let outcome = outcome(&request);
                if outcome == Outcome::BrokenReply {
                    out.push(LinkEffect::Ignored(Ignored::BrokenReply));
                }
                let id = request.id;
                out.push(LinkEffect::Completed { id, outcome });
            }
            Err(unmatched) => out.push(LinkEffect::Ignored(Ignored::Reply(unmatched))),
        }
    }

    fn used(&self) -> Used {
        match &self.stage {
            Stage::Up(up) => up.used,
            Stage::Opening(_) | Stage::Ended => Used::Yes,
        }
    }
}

/// TR-29: the probe of the socket, one empty frame.
fn is_empty(frames: &[Bytes]) -> bool {
    matches!(frames, [frame] if frame.is_empty())
}

/// Whether a message is for the link itself: commands 1 to 6, and the empty message.
fn is_control(message: &Message) -> bool {
    match message {
        Message::Plain(frames) => {
            is_empty(frames) || command_of(frames).is_some_and(|id| id <= LivenessAck::ID)
        }
        Message::CompletionControl(frames) => {
            command_of(frames).is_some_and(|id| id <= LivenessAck::ID)
        }
        // No request of ours waits before admission, so these find nothing and need no place.
        Message::Reply { .. } | Message::ErrorReply { .. } | Message::Misplaced => true,
        Message::Request { .. } => false,
    }
}
