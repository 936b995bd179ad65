//! What goes out.

use spotlane_wire::Record;
use spotlane_wire::command::reply::Reply;

use super::class::{Class, class_of};
use super::effect::{EndReason, Ignored, LinkEffect, NotSubmitted, Outcome};
use super::event::{Awaits, ConnectionToken, Submit};
use super::{Effects, Link, Stage, Up, Used};
use crate::admission::Side;
use crate::pending::{Request, SubmitId};
use crate::zmp::{Envelope, Lane, Parts, Sequence, encode_record};

impl Link {
    /// Takes a submit, or refuses it with nothing sent.
    pub(super) fn submit(&mut self, submit: Submit, out: &mut Effects) {
        let Submit {
            id,
            record,
            pin,
            awaits,
        } = submit;
        out.push(match self.send(id, &record, pin.as_ref(), awaits) {
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
        record: &Record,
        pin: Option<&ConnectionToken>,
        awaits: Option<Awaits>,
    ) -> Result<Parts, NotSubmitted> {
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
        let parts = self.encode(Lane::Application, envelope, record)?;
        if let (Some(request), Ok(up)) = (request, self.usable()) {
            up.pending.insert(request).map_err(NotSubmitted::NotTaken)?;
        }
        Ok(parts)
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

    /// Encodes a record for a lane, whose peer may have a limit (TR-17).
    fn encode(
        &mut self,
        lane: Lane,
        envelope: Envelope,
        record: &Record,
    ) -> Result<Parts, NotSubmitted> {
        record
            .encode(&mut self.frames)
            .map_err(NotSubmitted::Encode)?;
        let parts = encode_record(self.settings.edition, envelope, &self.frames);
        // A large payload is in the parts now and must not live on in the buffer.
        self.frames.clear();
        let limit = match (&self.stage, lane) {
            (Stage::Up(up), Lane::Application) => up.limits.application,
            (Stage::Up(up), Lane::Completion) => up.limits.completion,
            (Stage::Opening(_) | Stage::Ended, _) => return Err(NotSubmitted::NotConnected),
        };
        match limit {
            Some(max) if parts.body_bytes() > max.get() => Err(NotSubmitted::TooLarge {
                bytes: parts.body_bytes(),
                max: max.get(),
            }),
            Some(_) | None => Ok(parts),
        }
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
        match class_of(reply) {
            Class::Reply => self.encode(Lane::Completion, Envelope::Reply(sequence), reply),
            class @ (Class::OneWay
            | Class::Request
            | Class::Admission
            | Class::Liveness
            | Class::Relocation) => Err(NotSubmitted::Misused(class)),
        }
    }

    /// Sends a record of the link itself.
    pub(super) fn control(&mut self, record: &Record, out: &mut Effects) {
        let (lane, envelope) = match class_of(record) {
            Class::Liveness => (Lane::Completion, Envelope::CompletionControl),
            Class::OneWay
            | Class::Request
            | Class::Reply
            | Class::Admission
            | Class::Relocation => (Lane::Application, Envelope::Plain),
        };
        match self.encode(lane, envelope, record) {
            Ok(parts) => out.push(LinkEffect::Write(lane, parts)),
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
