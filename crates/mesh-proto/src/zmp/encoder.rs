//! Messages to bytes: heads in one buffer, payloads as parts of their own.

use bytes::{Bytes, BytesMut};
use spotlane_wire::{FrameBuffer, FramePart};

use super::header::{Edition, Flags, Header};
use super::message::{ENVELOPE_BYTES, Envelope, Mark};
use crate::bound::{FRAME_CHARGE, HEADER_BYTES};

/// From this size on a frame body stays a part of its own instead of being copied (as in the codec).
const SPLIT_MIN: usize = 512;

/// The bytes of one message, ready for a vectored write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    pieces: Vec<Bytes>,
    charge: u64,
    body_bytes: u64,
}

impl Parts {
    /// Bytes that are no message: the handshake. They are not charged.
    pub(crate) fn of_control(bytes: Bytes) -> Self {
        Self {
            pieces: vec![bytes],
            ..Self::default()
        }
    }

    /// The parts in order.
    pub fn as_slice(&self) -> &[Bytes] {
        &self.pieces
    }

    /// What the message takes of the budget of its lane: 64 bytes and the body, per frame (TR-50).
    pub const fn charge(&self) -> u64 {
        self.charge
    }

    /// The bytes of all bodies, which is what a receiver's limit is compared with (TR-17).
    pub const fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Everything in one buffer. Copies; meant for tests and tools.
    pub fn to_bytes(&self) -> Bytes {
        self.pieces.concat().into()
    }
}

/// Where the bytes of a message go, in order.
pub trait Sink {
    /// Bytes that have to be copied.
    fn copy(&mut self, bytes: &[u8]);
    /// Bytes that may be kept as they are.
    fn share(&mut self, bytes: &Bytes);
}

/// How large a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Size {
    /// What it takes of the budget of its lane: 64 bytes and the body, per frame (TR-50).
    pub charge: u64,
    /// The bytes of all bodies, which is what a receiver's limit is compared with (TR-17).
    pub body_bytes: u64,
}

impl Size {
    fn of(edition: Edition, envelope: Envelope, bodies: impl Iterator<Item = usize>) -> Self {
        let mut size = match (edition, envelope) {
            (_, Envelope::Plain) => Self::default(),
            // TR-40: four frames with 1, 1, 1 and 8 bytes.
            (
                Edition::E1,
                Envelope::Request(_) | Envelope::Reply(_) | Envelope::CompletionControl,
            ) => Self {
                charge: ENVELOPE_BODY_BYTES.saturating_add(FRAME_CHARGE.saturating_mul(4)),
                body_bytes: ENVELOPE_BODY_BYTES,
            },
            // TR-45: the sequence belongs to the header.
            (
                Edition::E2,
                Envelope::Request(_) | Envelope::Reply(_) | Envelope::CompletionControl,
            ) => Self::default(),
        };
        for body in bodies {
            let body = u64::try_from(body).unwrap_or(u64::MAX);
            size.body_bytes = size.body_bytes.saturating_add(body);
            let charge = body.saturating_add(FRAME_CHARGE);
            size.charge = size.charge.saturating_add(charge);
        }
        size
    }
}

const ENVELOPE_BODY_BYTES: u64 = 11;

/// How large a record is as a message.
pub fn size_of(edition: Edition, envelope: Envelope, record: &FrameBuffer) -> Size {
    Size::of(
        edition,
        envelope,
        record.frames().map(|frame| frame.bytes()),
    )
}

/// A buffer for records with room for what [`write_in_room`] puts in front of their frames.
pub(crate) fn record_buffer() -> FrameBuffer {
    FrameBuffer::with_room(ENVELOPE_BYTES.saturating_add(HEADER_BYTES), HEADER_BYTES)
}

/// Writes a record as a message, in one piece but for a large payload. The record is in a
/// [`record_buffer`].
pub(crate) fn write_in_room(
    edition: Edition,
    envelope: Envelope,
    record: &mut FrameBuffer,
    sink: &mut impl Sink,
) {
    let count = record.frames().len();
    for at in 0..count {
        let bytes = record.frames().nth(at).map_or(0, |frame| frame.bytes());
        let flags = more_if(at.saturating_add(1) < count);
        let mark = match edition {
            Edition::E2 if at == 0 => envelope.mark(),
            Edition::E1 | Edition::E2 => None,
        };
        let mut put = true;
        if let Some(mark) = mark {
            put &= record.put_in_front(at, &mark.sequence.get().to_be_bytes());
        }
        let kind = mark.map(|mark| mark.kind);
        put &= record.put_in_front(at, &Header::encode_kind(flags, kind, length(bytes)));
        if let (Edition::E1, 0, Some(envelope)) = (edition, at, envelope.bytes()) {
            put &= record.put_in_front(at, &envelope);
        }
        debug_assert!(put, "the buffer has room for the longest front");
    }
    record.each_part(|part| match part {
        FramePart::Copied(bytes) => sink.copy(bytes),
        FramePart::Payload(payload) => write_body(payload, sink),
    });
}

/// Encodes a record, whose large payload is not copied.
pub fn encode_record(edition: Edition, envelope: Envelope, record: &FrameBuffer) -> Parts {
    let mut writer = Writer::default();
    let mut start = write_envelope(edition, envelope, &mut writer);
    let mut frames = record.frames().peekable();
    while let Some(frame) = frames.next() {
        let flags = more_if(frames.peek().is_some());
        write_header(start.take(), flags, length(frame.bytes()), &mut writer);
        writer.copy(frame.head());
        if let Some(payload) = frame.payload() {
            write_body(payload, &mut writer);
        }
    }
    writer.finish(size_of(edition, envelope, record))
}

/// Encodes frames of any content; large ones are not copied.
pub fn encode_frames(edition: Edition, envelope: Envelope, frames: &[Bytes]) -> Parts {
    let mut writer = Writer::default();
    let mut start = write_envelope(edition, envelope, &mut writer);
    let mut rest = frames.iter().peekable();
    while let Some(frame) = rest.next() {
        let flags = more_if(rest.peek().is_some());
        write_header(start.take(), flags, length(frame.len()), &mut writer);
        write_body(frame, &mut writer);
    }
    writer.finish(Size::of(edition, envelope, frames.iter().map(Bytes::len)))
}

/// TR-40, TR-45: what is in front of the payload, or what the first frame of it is marked with.
#[inline]
fn write_envelope(edition: Edition, envelope: Envelope, sink: &mut impl Sink) -> Option<Mark> {
    match edition {
        Edition::E1 => {
            if let Some(bytes) = envelope.bytes() {
                sink.copy(&bytes);
            }
            None
        }
        Edition::E2 => envelope.mark(),
    }
}

#[inline]
fn write_header(mark: Option<Mark>, flags: Flags, length: u32, sink: &mut impl Sink) {
    match mark {
        None => sink.copy(&Header::encode(flags, length)),
        Some(Mark { kind, sequence }) => {
            sink.copy(&Header::encode_kind(flags, Some(kind), length));
            sink.copy(&sequence.get().to_be_bytes());
        }
    }
}

fn write_body(body: &Bytes, sink: &mut impl Sink) {
    if body.len() < SPLIT_MIN {
        sink.copy(body);
    } else {
        sink.share(body);
    }
}

/// A body above 4 GiB cannot be built: the codec bounds a record, and a larger application payload is
/// refused there.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

const fn more_if(more: bool) -> Flags {
    if more { Flags::MORE } else { Flags::LAST }
}

#[derive(Default)]
struct Writer {
    heads: BytesMut,
    pieces: Vec<Bytes>,
}

impl Writer {
    fn flush(&mut self) {
        if !self.heads.is_empty() {
            self.pieces.push(self.heads.split().freeze());
        }
    }

    fn finish(mut self, size: Size) -> Parts {
        self.flush();
        Parts {
            pieces: self.pieces,
            charge: size.charge,
            body_bytes: size.body_bytes,
        }
    }
}

impl Sink for Writer {
    fn copy(&mut self, bytes: &[u8]) {
        self.heads.extend_from_slice(bytes);
    }

    fn share(&mut self, bytes: &Bytes) {
        self.flush();
        self.pieces.push(bytes.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmp::Sequence;

    /// TR-40, TR-50
    #[test]
    fn a_request_has_four_frames_in_front_and_each_frame_is_charged() {
        let sequence = Sequence::new(2).unwrap();
        let frames = [Bytes::from_static(b"ask")];
        let parts = encode_frames(Edition::E1, Envelope::Request(sequence), &frames);
        assert_eq!(
            &parts.to_bytes()[..],
            b"\x5A\x01\x01\0\0\0\0\x01\x01\x5A\x01\x01\0\0\0\0\x01\x01\x5A\x01\x01\0\0\0\0\x01\x01\
              \x5A\x01\x01\0\0\0\0\x08\0\0\0\0\0\0\0\x02\x5A\x01\0\0\0\0\0\x03ask"
        );
        assert_eq!(parts.charge(), 5 * 64 + 1 + 1 + 1 + 8 + 3);
    }

    /// TR-45
    #[test]
    fn a_request_of_the_second_edition_is_marked_on_its_first_frame() {
        let sequence = Sequence::new(2).unwrap();
        let frames = ["ask", "more"].map(|body| Bytes::from_static(body.as_bytes()));
        let encode = |envelope| encode_frames(Edition::E2, envelope, &frames);
        let request = encode(Envelope::Request(sequence));
        assert_eq!(
            &request.to_bytes()[..],
            b"\x5A\x01\x01\x01\0\0\0\x03\0\0\0\0\0\0\0\x02ask\x5A\x01\0\0\0\0\0\x04more"
        );
        assert_eq!(request.charge(), 2 * 64 + 3 + 4);
        assert_eq!(encode(Envelope::Reply(sequence)).to_bytes()[3], 2);
        let plain = b"\x5A\x01\x01\0\0\0\0\x03ask\x5A\x01\0\0\0\0\0\x04more";
        assert_eq!(&encode(Envelope::Plain).to_bytes()[..], plain);
        assert_eq!(&encode(Envelope::CompletionControl).to_bytes()[..], plain);
    }

    /// TR-38
    #[test]
    fn large_bodies_are_not_copied() {
        let large = Bytes::from(vec![1; SPLIT_MIN]);
        let frames = [large.clone(), Bytes::from_static(b"x")];
        let parts = encode_frames(Edition::E1, Envelope::Plain, &frames);
        assert_eq!(parts.as_slice().len(), 3);
        assert_eq!(parts.as_slice()[1].as_ptr(), large.as_ptr());
    }
}
