//! Records that change nothing about their link.

use core::num::NonZeroU64;

use spotlane_wire::command::reply::Reply;
use spotlane_wire::{FrameBuffer, RecordRef, encode_command};

use super::class::{Class, class_of};
use super::effect::NotSubmitted;
use super::{Link, Stage, Used};
use crate::zmp::{Edition, Envelope, Sequence, Sink, Size, record_buffer, size_of, write_in_room};

/// What a lane carries without asking its link for each record: one-way records and replies, which the
/// link keeps no book about.
///
/// A gate is a copy of what the link would judge by. It holds until an event changes that, so a driver
/// takes the gates anew after each event, in the same step in which it gave the link the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    edition: Edition,
    /// The largest message that the peer takes (TR-17).
    limit: Option<NonZeroU64>,
}

/// The gates of both lanes; `None` where nothing passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gates {
    /// For one-way records and relocation, on the Application lane of a link that is used.
    pub one_way: Option<Gate>,
    /// For replies, on the Completion lane; a link that is not used any more still answers.
    pub replies: Option<Gate>,
}

/// Where records are encoded on their way through a gate; it keeps its memory.
#[derive(Debug)]
pub struct GateBuffer(FrameBuffer);

impl Default for GateBuffer {
    fn default() -> Self {
        Self(record_buffer())
    }
}

impl Link {
    /// What may pass until the next event.
    pub fn gates(&self) -> Gates {
        let Stage::Up(up) = &self.stage else {
            return Gates::default();
        };
        let edition = self.edition;
        let gate = |limit| Some(Gate { edition, limit });
        let used = up.admission.admitted().is_some() && up.used == Used::Yes;
        Gates {
            one_way: gate(up.limits.application).filter(|_| used),
            replies: gate(up.limits.completion),
        }
    }
}

impl Gate {
    /// Writes a one-way record, as [`Link::send_to`] would.
    ///
    /// # Errors
    /// Nothing was written.
    pub fn one_way(
        self,
        record: RecordRef<'_>,
        GateBuffer(frames): &mut GateBuffer,
        sink: &mut impl Sink,
    ) -> Result<Size, NotSubmitted> {
        match class_of(record) {
            Class::OneWay | Class::Relocation => {
                record.encode(frames).map_err(NotSubmitted::Encode)?;
                self.write(Envelope::Plain, frames, sink)
            }
            class @ (Class::Request | Class::Reply | Class::Admission | Class::Liveness) => {
                Err(NotSubmitted::Misused(class))
            }
        }
    }

    /// Writes a reply, as [`Link::reply_into`] would.
    ///
    /// # Errors
    /// Nothing was written.
    pub fn reply(
        self,
        sequence: Sequence,
        reply: &Reply,
        GateBuffer(frames): &mut GateBuffer,
        sink: &mut impl Sink,
    ) -> Result<Size, NotSubmitted> {
        encode_command(reply, frames).map_err(NotSubmitted::Encode)?;
        self.write(Envelope::Reply(sequence), frames, sink)
    }

    fn write(
        self,
        envelope: Envelope,
        frames: &mut FrameBuffer,
        sink: &mut impl Sink,
    ) -> Result<Size, NotSubmitted> {
        let size = size_of(self.edition, envelope, frames);
        let bytes = size.body_bytes;
        match self.limit.map(NonZeroU64::get) {
            Some(max) if bytes > max => {
                frames.clear();
                return Err(NotSubmitted::TooLarge { bytes, max });
            }
            Some(_) | None => {}
        }
        write_in_room(self.edition, envelope, frames, sink);
        frames.clear();
        Ok(size)
    }
}
