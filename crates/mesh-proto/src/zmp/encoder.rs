//! Messages to bytes: heads in one buffer, payloads as parts of their own.

use bytes::{Bytes, BytesMut};
use spotlane_wire::FrameBuffer;

use super::header::{Edition, Flags, Header};
use super::message::Envelope;
use crate::bound::FRAME_CHARGE;

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

/// Encodes a record, whose large payload is not copied.
pub fn encode_record(edition: Edition, envelope: Envelope, record: &FrameBuffer) -> Parts {
    let mut writer = Writer::start(edition, envelope);
    let mut frames = record.frames().peekable();
    while let Some(frame) = frames.next() {
        let flags = more_if(frames.peek().is_some());
        writer.head(flags, frame.bytes());
        writer.heads.extend_from_slice(frame.head());
        if let Some(payload) = frame.payload() {
            writer.body(payload);
        }
    }
    writer.finish()
}

/// Encodes frames of any content; large ones are not copied.
pub fn encode_frames(edition: Edition, envelope: Envelope, frames: &[Bytes]) -> Parts {
    let mut writer = Writer::start(edition, envelope);
    let mut frames = frames.iter().peekable();
    while let Some(frame) = frames.next() {
        writer.head(more_if(frames.peek().is_some()), frame.len());
        writer.body(frame);
    }
    writer.finish()
}

const fn more_if(more: bool) -> Flags {
    if more { Flags::MORE } else { Flags::LAST }
}

struct Writer {
    edition: Edition,
    heads: BytesMut,
    out: Parts,
}

impl Writer {
    /// TR-40: in E1 the envelope is four frames in front of the payload.
    fn start(edition: Edition, envelope: Envelope) -> Self {
        let mut writer = Self {
            edition,
            heads: BytesMut::with_capacity(256),
            out: Parts::default(),
        };
        match edition {
            Edition::E1 => {
                if let Some((kind, sequence)) = envelope.wire() {
                    for byte in [1, 1, kind] {
                        writer.head(Flags::MORE, 1);
                        writer.heads.extend_from_slice(&[byte]);
                    }
                    writer.head(Flags::MORE, 8);
                    writer.heads.extend_from_slice(&sequence.to_be_bytes());
                }
            }
        }
        writer
    }

    fn head(&mut self, flags: Flags, length: usize) {
        // A body above 4 GiB cannot be built: the codec bounds a record, and a larger application
        // payload is refused there.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let body = u64::from(length);
        let charge = body.saturating_add(FRAME_CHARGE);
        self.out.charge = self.out.charge.saturating_add(charge);
        self.out.body_bytes = self.out.body_bytes.saturating_add(body);
        self.heads
            .extend_from_slice(&Header::encode(self.edition, flags, length));
    }

    fn body(&mut self, body: &Bytes) {
        if body.len() < SPLIT_MIN {
            self.heads.extend_from_slice(body);
        } else {
            self.flush();
            self.out.pieces.push(body.clone());
        }
    }

    fn flush(&mut self) {
        if !self.heads.is_empty() {
            self.out.pieces.push(self.heads.split().freeze());
        }
    }

    fn finish(mut self) -> Parts {
        self.flush();
        self.out
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
