//! What goes out.

use spotlane_wire::command::reply::Reply;
use spotlane_wire::{Record, RecordRef};

use super::class::{Class, class_of};
use super::effect::{EndReason, Ignored, LinkEffect, NotSubmitted, Outcome};
use super::event::{Awaits, ConnectionToken, Submit};
use super::{Effects, Link, Stage, Up, Used};
use crate::admission::Side;
use crate::pending::{Request, SubmitId};
use crate::zmp::{
    Edition, Envelope, Lane, Parts, Sequence, Sink, Size, encode_record, size_of, write_in_room,
};

impl Link {
    /// Takes a submit, or refuses it with nothing sent.
    pub(super) fn submit(&mut self, submit: Submit, out: &mut Effects) {
        let Submit {
            id,
            record,
            pin,
            awaits,
        } = submit;
        out.push(match self.send(id, record.by_ref(), pin.as_ref(), awaits) {
            Ok(parts) => LinkEffect::Write(Lane::Application, parts),
            Err(why) => LinkEffect::NotSubmitted { id, why },
        });
    }

    /// As [`LinkEvent::Submit`](super::LinkEvent::Submit), for a driver that wants to know at once:
    /// gives what is to be written on the Application lane.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn send(
        &mut self,
        id: SubmitId,
        record: RecordRef<'_>,
        pin: Option<&ConnectionToken>,
        awaits: Option<Awaits>,
    ) -> Result<Parts, NotSubmitted> {
        let envelope = self.admit_submit(id, record, pin, awaits)?;
        Ok(self.encoded(envelope))
    }

    /// As [`Self::send`], and writes the bytes to where the driver wants them.
    ///
    /// # Errors
    /// Nothing has changed, and nothing was written.
    pub fn send_to(
        &mut self,
        id: SubmitId,
        record: RecordRef<'_>,
        awaits: Option<Awaits>,
        sink: &mut impl Sink,
    ) -> Result<Size, NotSubmitted> {
        let envelope = self.admit_submit(id, record, None, awaits)?;
        let edition = self.edition;
        write_in_room(edition, envelope, &mut self.frames, sink);
        let size = size_of(edition, envelope, &self.frames);
        self.frames.clear();
        Ok(size)
    }

    /// Judges a submit and encodes its record; enters a request into the table.
    fn admit_submit(
        &mut self,
        id: SubmitId,
        record: RecordRef<'_>,
        pin: Option<&ConnectionToken>,
        awaits: Option<Awaits>,
    ) -> Result<Envelope, NotSubmitted> {
        let class = class_of(record);
        let up = self.usable()?;
        // TR-93: pinned to another pair, it fails and is not moved.
        if pin.is_some_and(|pin| *pin != up.token) {
            return Err(NotSubmitted::OtherConnection);
        }
        let request = match (class, awaits) {
            (Class::OneWay | Class::Relocation, None) => None,
            (Class::Request, Some(awaits)) => Some(Request {
                id,
                correlation: awaits.correlation,
                kind: awaits.kind,
                deadline: awaits.deadline,
            }),
            (Class::OneWay | Class::Relocation, Some(_))
            | (Class::Request, None)
            | (Class::Reply | Class::Admission | Class::Liveness, _) => {
                return Err(NotSubmitted::Misused(class));
            }
        };
        let envelope = match request {
            None => Envelope::Plain,
            Some(request) => {
                up.pending
                    .check(request.id)
                    .map_err(NotSubmitted::NotTaken)?;
                Envelope::Request(up.pending.next_sequence())
            }
        };
        self.encode(Lane::Application, envelope, record)?;
        if let (Some(request), Ok(up)) = (request, self.usable()) {
            up.pending.insert(request).map_err(NotSubmitted::NotTaken)?;
        }
        Ok(envelope)
    }

    /// The sequence of the next request; the id that takes the least effort.
    pub fn next_id(&self) -> SubmitId {
        match &self.stage {
            Stage::Up(up) => SubmitId::new(up.pending.next_sequence().get()),
            Stage::Opening(_) | Stage::Ended => SubmitId::new(0),
        }
    }

    /// The state of a link that submits may use.
    fn usable(&mut self) -> Result<&mut Up, NotSubmitted> {
        match &mut self.stage {
            Stage::Up(up) if up.admission.admitted().is_none() => Err(NotSubmitted::NotConnected),
            Stage::Up(up) if up.used == Used::No => Err(NotSubmitted::Superseded),
            Stage::Up(up) => Ok(up),
            Stage::Opening(_) | Stage::Ended => Err(NotSubmitted::NotConnected),
        }
    }

    /// Encodes a record for a lane, whose peer may have a limit (TR-17), into the frames.
    fn encode(
        &mut self,
        lane: Lane,
        envelope: Envelope,
        record: RecordRef<'_>,
    ) -> Result<(), NotSubmitted> {
        let limit = match (&self.stage, lane) {
            (Stage::Up(up), Lane::Application) => up.limits.application,
            (Stage::Up(up), Lane::Completion) => up.limits.completion,
            (Stage::Opening(_) | Stage::Ended, _) => return Err(NotSubmitted::NotConnected),
        };
        record
            .encode(&mut self.frames)
            .map_err(NotSubmitted::Encode)?;
        let Some(max) = limit else { return Ok(()) };
        let bytes = size_of(self.edition, envelope, &self.frames).body_bytes;
        let max = max.get();
        if bytes > max {
            self.frames.clear();
            return Err(NotSubmitted::TooLarge { bytes, max });
        }
        Ok(())
    }

    fn encoded(&mut self, envelope: Envelope) -> Parts {
        let parts = encode_record(self.edition, envelope, &self.frames);
        // A large payload is in the parts now and must not live on in the buffer.
        self.frames.clear();
        parts
    }

    /// Sends a reply on the Completion lane (TR-40). A link that is not used any more still answers
    /// what came on it.
    pub(super) fn answer(&mut self, sequence: Sequence, reply: Reply, out: &mut Effects) {
        out.push(match self.reply_to(sequence, &Record::Reply(reply)) {
            Ok(parts) => LinkEffect::Write(Lane::Completion, parts),
            Err(why) => LinkEffect::NotAnswered { sequence, why },
        });
    }

    /// As [`LinkEvent::Answer`](super::LinkEvent::Answer), for a driver that wants to know at once:
    /// gives what is to be written on the Completion lane.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn reply_to(&mut self, sequence: Sequence, reply: &Record) -> Result<Parts, NotSubmitted> {
        let envelope = self.admit_reply(sequence, reply)?;
        Ok(self.encoded(envelope))
    }

    /// As [`Self::reply_to`], and writes the bytes to where the driver wants them.
    ///
    /// # Errors
    /// Nothing has changed, and nothing was written.
    pub fn reply_into(
        &mut self,
        sequence: Sequence,
        reply: &Record,
        sink: &mut impl Sink,
    ) -> Result<Size, NotSubmitted> {
        let envelope = self.admit_reply(sequence, reply)?;
        let edition = self.edition;
        write_in_room(edition, envelope, &mut self.frames, sink);
        let size = size_of(edition, envelope, &self.frames);
        self.frames.clear();
        Ok(size)
    }

    fn admit_reply(
        &mut self,
        sequence: Sequence,
        reply: &Record,
    ) -> Result<Envelope, NotSubmitted> {
        let class = class_of(reply.by_ref());
        if class != Class::Reply {
            return Err(NotSubmitted::Misused(class));
        }
        let envelope = Envelope::Reply(sequence);
        self.encode(Lane::Completion, envelope, reply.by_ref())?;
        Ok(envelope)
    }

    /// Sends a record of the link itself.
    pub(super) fn control(&mut self, record: &Record, out: &mut Effects) {
        // TR-67: in E2 the Completion lane has replies alone.
        let (lane, envelope) = match (class_of(record.by_ref()), self.edition) {
            (Class::Liveness, Edition::E1) => (Lane::Completion, Envelope::CompletionControl),
            (Class::Liveness, Edition::E2)
            | (
                Class::OneWay
                | Class::Request
                | Class::Reply
                | Class::Admission
                | Class::Relocation,
                _,
            ) => (Lane::Application, Envelope::Plain),
        };
        match self.encode(lane, envelope, record.by_ref()) {
            Ok(()) => {
                let parts = self.encoded(envelope);
                out.push(LinkEffect::Write(lane, parts));
            }
            // Our own descriptor and a probe can always be encoded, so it is the limit.
            Err(_) => self.end(EndReason::PeerLimit, out),
        }
    }

    pub(super) fn cancel(&mut self, id: SubmitId, out: &mut Effects) {
        let request = match &mut self.stage {
            Stage::Up(up) => up.pending.cancel(id),
            Stage::Opening(_) | Stage::Ended => None,
        };
        out.push(match request {
            Some(request) => LinkEffect::Completed {
                id: request.id,
                outcome: Outcome::Cancelled,
            },
            None => LinkEffect::Ignored(Ignored::LateCancel(id)),
        });
    }

    /// TR-74: the dialler closes the link that lost; the acceptor only stops to use it.
    pub(super) fn supersede(&mut self, out: &mut Effects) {
        match (self.side, &mut self.stage) {
            (Side::Dialler, Stage::Opening(_) | Stage::Up(_)) => {
                self.end(EndReason::Superseded, out);
            }
            (Side::Acceptor, Stage::Up(up)) => up.used = Used::No,
            (Side::Acceptor, Stage::Opening(_)) => {
                out.push(LinkEffect::Ignored(Ignored::NotUp));
            }
            (Side::Dialler | Side::Acceptor, Stage::Ended) => {
                out.push(LinkEffect::Ignored(Ignored::AfterEnd));
            }
        }
    }

    /// TR-33: a standby becomes the used one again.
    pub(super) fn resume(&mut self, out: &mut Effects) {
        match &mut self.stage {
            Stage::Up(up) => up.used = Used::Yes,
            Stage::Opening(_) => out.push(LinkEffect::Ignored(Ignored::NotUp)),
            Stage::Ended => out.push(LinkEffect::Ignored(Ignored::AfterEnd)),
        }
    }
}
