//! Frames to messages, and how requests and replies are told from others: by an envelope of four frames
//! in E1, by a mark on the first frame in E2.

use core::num::NonZeroU64;

use bytes::Bytes;
use thiserror::Error;

use super::control::Lane;
use super::decoder::Frame;
use super::frames::Frames;
use super::header::{Flags, Header, Kind};
use super::refusal::Refusal;
use crate::bound::{
    COMPLETION_CONTROL_FRAMES_MAX, FRAME_CHARGE, HEADER_BYTES, MESSAGE_BYTES_MAX,
    MESSAGE_FRAMES_MAX,
};

/// Ties a reply to its request; counted by the requesting side from 1 (TR-40).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(NonZeroU64);

impl Sequence {
    /// The first one of a link.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Takes a number; `None` for zero, which names no request.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// What the first frame of a request or reply of E2 says besides its body (TR-45).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by TR-45")]
pub struct Mark {
    /// What the message is.
    pub kind: Kind,
    /// Which request it belongs to.
    pub sequence: Sequence,
}

/// How a message that we send travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "what TR-40 lets a mesh node send; no error reply (TR-42)"
)]
pub enum Envelope {
    /// Without one.
    Plain,
    /// A request, on the Application lane.
    Request(Sequence),
    /// Its reply, on the Completion lane.
    Reply(Sequence),
    /// A completion control, on the Completion lane; a plain message in E2, which has none.
    CompletionControl,
}

impl Envelope {
    /// The bytes of it in E1: four frames in front of the payload (TR-40).
    pub(super) fn bytes(self) -> Option<[u8; ENVELOPE_BYTES]> {
        let (kind, sequence) = self.wire()?;
        let mut bytes = EMPTY_ENVELOPE;
        if let Some(place) = bytes.get_mut(KIND_AT) {
            *place = kind;
        }
        if let Some(place) = bytes.last_chunk_mut::<8>() {
            *place = sequence.to_be_bytes();
        }
        Some(bytes)
    }

    /// What it is in E2: a mark on the first frame (TR-45).
    pub(super) const fn mark(self) -> Option<Mark> {
        let (kind, sequence) = match self {
            Self::Plain | Self::CompletionControl => return None,
            Self::Request(sequence) => (Kind::Request, sequence),
            Self::Reply(sequence) => (Kind::Reply, sequence),
        };
        Some(Mark { kind, sequence })
    }

    /// Type and sequence (TR-40, TR-44).
    const fn wire(self) -> Option<(u8, u64)> {
        match self {
            Self::Plain => None,
            Self::Request(sequence) => Some((1, sequence.get())),
            Self::Reply(sequence) => Some((2, sequence.get())),
            Self::CompletionControl => Some((4, 0)),
        }
    }
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by TR-40 to TR-44")]
pub enum Message {
    /// Without an envelope.
    Plain(Frames),
    /// A request.
    Request {
        /// What its reply repeats.
        sequence: Sequence,
        /// At least one frame.
        payload: Frames,
    },
    /// The reply to a request of ours.
    Reply {
        /// The sequence of the request.
        sequence: Sequence,
        /// At least one frame.
        payload: Frames,
    },
    /// A reply that tells of a failure (TR-42).
    ErrorReply {
        /// The sequence of the request.
        sequence: Sequence,
        /// The number that the peer gave; `None` when its frame has another length.
        errno: Option<u32>,
    },
    /// A completion control.
    CompletionControl(Frames),
    /// A message that the lane does not carry; it is dropped (TR-43).
    Misplaced,
}

impl Message {
    /// Reads the envelope of a message that came on `lane`.
    ///
    /// Replies and completion controls exist on the Completion lane alone, and nothing else does: on
    /// the Application lane their frames are an ordinary message (TR-43).
    pub fn classify(lane: Lane, frames: Frames) -> Self {
        let Some((kind, sequence)) = envelope_of(&frames) else {
            return match lane {
                Lane::Application => Self::Plain(frames),
                Lane::Completion => Self::Misplaced,
            };
        };
        match (lane, kind, Sequence::new(sequence)) {
            (Lane::Application, 1, Some(sequence)) => Self::Request {
                sequence,
                payload: frames.split_off(ENVELOPE_FRAMES),
            },
            (Lane::Application, _, _) => Self::Plain(frames),
            (Lane::Completion, 2, Some(sequence)) => Self::Reply {
                sequence,
                payload: frames.split_off(ENVELOPE_FRAMES),
            },
            (Lane::Completion, 3, Some(sequence)) => Self::ErrorReply {
                sequence,
                errno: frames.get(ENVELOPE_FRAMES).and_then(errno),
            },
            (Lane::Completion, 4, None) => {
                let payload = frames.split_off(ENVELOPE_FRAMES);
                if payload.len() > COMPLETION_CONTROL_FRAMES_MAX {
                    return Self::Misplaced;
                }
                Self::CompletionControl(payload)
            }
            (Lane::Completion, _, _) => Self::Misplaced,
        }
    }

    /// Reads a message of E2 that came on `lane`, whose first frame has this mark.
    ///
    /// # Errors
    /// It is a request or reply of E1 (TR-3): no record begins like one (TR-47).
    pub fn marked(lane: Lane, mark: Option<Mark>, frames: Frames) -> Result<Self, Refusal> {
        let Some(Mark { kind, sequence }) = mark else {
            return match lane {
                _ if envelope_of(&frames).is_some() => Err(Refusal::OtherEdition),
                Lane::Application => Ok(Self::Plain(frames)),
                Lane::Completion => Ok(Self::Misplaced),
            };
        };
        let payload = frames;
        Ok(match (lane, kind) {
            (Lane::Application, Kind::Request) => Self::Request { sequence, payload },
            (Lane::Completion, Kind::Reply) => Self::Reply { sequence, payload },
            (Lane::Completion, Kind::ErrorReply) => Self::ErrorReply {
                sequence,
                errno: payload.first().and_then(errno),
            },
            (Lane::Application, Kind::Reply | Kind::ErrorReply)
            | (Lane::Completion, Kind::Request) => Self::Misplaced,
        })
    }

    /// The bytes of all frames that are kept, with the charge of each (TR-50).
    pub fn held_bytes(&self) -> u64 {
        match self {
            Self::Plain(frames)
            | Self::CompletionControl(frames)
            | Self::Request {
                payload: frames, ..
            }
            | Self::Reply {
                payload: frames, ..
            } => frames.iter().map(charge).fold(0, u64::saturating_add),
            Self::ErrorReply { .. } | Self::Misplaced => 0,
        }
    }
}

const ENVELOPE_FRAMES: usize = 4;
/// Protocol, version and type with a byte each, the sequence with eight.
pub(super) const ENVELOPE_BYTES: usize = 3 * (HEADER_BYTES + 1) + HEADER_BYTES + 8;
/// The place of the type.
const KIND_AT: usize = 3 * (HEADER_BYTES + 1) - 1;

/// An envelope of type 0 and sequence 0.
const EMPTY_ENVELOPE: [u8; ENVELOPE_BYTES] = empty_envelope();

#[expect(
    clippy::many_single_char_names,
    reason = "made while compiling, which a loop over its parts is not"
)]
const fn empty_envelope() -> [u8; ENVELOPE_BYTES] {
    let [a, b, c, d, e, f, g, h] = Header::encode(Flags::MORE, 1);
    let [i, j, k, l, m, n, o, p] = Header::encode(Flags::MORE, 8);
    [
        a, b, c, d, e, f, g, h, 1, a, b, c, d, e, f, g, h, 1, a, b, c, d, e, f, g, h, 0, i, j, k,
        l, m, n, o, p, 0, 0, 0, 0, 0, 0, 0, 0,
    ]
}

/// Type and sequence of an envelope that lies in one piece.
pub(super) fn read_envelope(bytes: &[u8; ENVELOPE_BYTES]) -> Option<(u8, u64)> {
    // Most messages begin with a longer frame, so this is all that is looked at.
    if *bytes.get(HEADER_BYTES - 1)? != 1 {
        return None;
    }
    let word = |at: usize| -> Option<[u8; 8]> { bytes.get(at..)?.first_chunk().copied() };
    let expected =
        |at: usize| -> Option<[u8; 8]> { EMPTY_ENVELOPE.get(at..)?.first_chunk().copied() };
    // Word by word, which overlap: everything but the type and the sequence.
    for at in [0, 8, 16, 18, 27] {
        if word(at)? != expected(at)? {
            return None;
        }
    }
    let kind = *bytes.get(KIND_AT)?;
    Some((kind, u64::from_be_bytes(*bytes.last_chunk::<8>()?)))
}

fn charge(frame: &Bytes) -> u64 {
    u64::try_from(frame.len())
        .unwrap_or(u64::MAX)
        .saturating_add(FRAME_CHARGE)
}

/// Type and sequence, when the first four frames are an envelope and a payload follows (TR-40).
///
/// The first frame of an envelope has one byte and that of a record has five at least, so no record is
/// taken for one (TR-47).
fn envelope_of(frames: &[Bytes]) -> Option<(u8, u64)> {
    let [protocol, version, kind, sequence, _, ..] = frames else {
        return None;
    };
    let sequence = u64::from_be_bytes(sequence.as_ref().try_into().ok()?);
    match (protocol.as_ref(), version.as_ref(), kind.as_ref()) {
        ([1], [1], [kind @ 1..=4]) if (*kind == 4) == (sequence == 0) => Some((*kind, sequence)),
        _ => None,
    }
}

fn errno(frame: &Bytes) -> Option<u32> {
    Some(u32::from_be_bytes(frame.as_ref().try_into().ok()?))
}

/// A message with more frames or bytes than we take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a message has more frames or bytes than the receiver takes")]
#[expect(clippy::exhaustive_structs, reason = "says all there is")]
pub struct Overlong;

/// Joins the frames of a message (TR-38).
#[derive(Debug, Default)]
pub struct Assembler {
    mark: Option<Mark>,
    frames: Frames,
    bytes: u64,
}

impl Assembler {
    /// Takes the next data frame; gives the message with its last one, and the mark of its first
    /// (TR-39).
    ///
    /// # Errors
    /// The message grows beyond what we take.
    pub fn push(&mut self, frame: Frame) -> Result<Option<(Option<Mark>, Frames)>, Overlong> {
        let length = u64::try_from(frame.body.len()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(length);
        if self.frames.len() >= MESSAGE_FRAMES_MAX || self.bytes > MESSAGE_BYTES_MAX {
            return Err(Overlong);
        }
        if !self.is_inside_message() {
            self.mark = frame.mark;
        }
        self.frames.push(frame.body);
        if frame.flags.has_more() {
            return Ok(None);
        }
        self.bytes = 0;
        Ok(Some((self.mark, core::mem::take(&mut self.frames))))
    }

    /// Whether a message has begun that has not ended.
    pub fn is_inside_message(&self) -> bool {
        !self.frames.is_empty()
    }

    /// The bytes of the frames so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same with the charge of each frame, as a whole message is charged (TR-50).
    pub(super) fn held_bytes(&self) -> u64 {
        let frames = u64::try_from(self.frames.len()).unwrap_or(u64::MAX);
        self.bytes
            .saturating_add(frames.saturating_mul(FRAME_CHARGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(list: &[&[u8]]) -> Frames {
        let list = list.iter().map(|body| Bytes::copy_from_slice(body));
        Frames::from(list.collect::<Vec<_>>())
    }

    const ONE: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 1];
    const ZERO: &[u8] = &[0; 8];

    fn enveloped(lane: Lane, kind: u8, sequence: &[u8]) -> Message {
        Message::classify(lane, frames(&[&[1], &[1], &[kind], sequence, b"p"]))
    }

    /// TR-40, TR-42, TR-44
    #[test]
    fn each_type_of_envelope_is_read_on_its_lane() {
        let (sequence, payload) = (Sequence::FIRST, frames(&[b"p"]));
        assert_eq!(
            enveloped(Lane::Application, 1, ONE),
            Message::Request {
                sequence,
                payload: payload.clone()
            }
        );
        assert_eq!(
            enveloped(Lane::Completion, 2, ONE),
            Message::Reply {
                sequence,
                payload: payload.clone()
            }
        );
        assert_eq!(
            enveloped(Lane::Completion, 3, ONE),
            Message::ErrorReply {
                sequence,
                errno: None
            }
        );
        assert_eq!(
            enveloped(Lane::Completion, 4, ZERO),
            Message::CompletionControl(payload)
        );
    }

    /// TR-43
    #[test]
    fn a_reply_on_the_application_lane_is_an_ordinary_message() {
        for (kind, sequence) in [(2, ONE), (3, ONE), (4, ZERO)] {
            let message = enveloped(Lane::Application, kind, sequence);
            assert!(matches!(message, Message::Plain(frames) if frames.len() == 5));
        }
        let plain = frames(&[b"hello"]);
        assert_eq!(
            Message::classify(Lane::Completion, plain),
            Message::Misplaced
        );
        assert_eq!(enveloped(Lane::Completion, 1, ONE), Message::Misplaced);
    }

    /// TR-40
    #[test]
    fn without_payload_or_with_a_wrong_sequence_it_is_no_envelope() {
        for list in [
            frames(&[&[1], &[1], &[1], ONE]),
            frames(&[&[1], &[1], &[1], ZERO, b"p"]),
            frames(&[&[1], &[1], &[4], ONE, b"p"]),
            frames(&[&[1], &[1], &[5], ONE, b"p"]),
            frames(&[&[1], &[2], &[1], ONE, b"p"]),
            frames(&[&[1], &[1], &[1], &ONE[1..], b"p"]),
        ] {
            assert!(matches!(
                Message::classify(Lane::Application, list),
                Message::Plain(_)
            ));
        }
    }

    /// TR-47
    #[test]
    fn no_service_record_begins_like_an_envelope() {
        let head = frames(&[b"ZM\x01\x11\0", &[1], &[1], ONE, b"p"]);
        assert_eq!(envelope_of(&head), None);
    }

    /// TR-44
    #[test]
    fn a_completion_control_has_64_payload_frames_at_most() {
        for (count, taken) in [(64, true), (65, false)] {
            let mut list = frames(&[&[1], &[1], &[4], ZERO]);
            for _ in 0..count {
                list.push(Bytes::from_static(b"p"));
            }
            let message = Message::classify(Lane::Completion, list);
            assert_eq!(matches!(message, Message::CompletionControl(_)), taken);
        }
    }

    /// TR-42, TR-45
    #[test]
    fn each_kind_of_the_second_edition_is_read_on_its_lane() {
        let sequence = Sequence::FIRST;
        let payload = frames(&[&[0, 0, 0, 7], b"p"]);
        let read = |lane, kind| {
            let mark = Some(Mark { kind, sequence });
            Message::marked(lane, mark, payload.clone()).unwrap()
        };
        let request = Message::Request {
            sequence,
            payload: payload.clone(),
        };
        assert_eq!(read(Lane::Application, Kind::Request), request);
        let reply = Message::Reply {
            sequence,
            payload: payload.clone(),
        };
        assert_eq!(read(Lane::Completion, Kind::Reply), reply);
        let error = Message::ErrorReply {
            sequence,
            errno: Some(7),
        };
        assert_eq!(read(Lane::Completion, Kind::ErrorReply), error);
        for (lane, kind) in [
            (Lane::Application, Kind::Reply),
            (Lane::Application, Kind::ErrorReply),
            (Lane::Completion, Kind::Request),
        ] {
            assert_eq!(read(lane, kind), Message::Misplaced);
        }
    }

    /// TR-3
    #[test]
    fn an_envelope_of_the_first_edition_is_refused_by_the_second() {
        for (kind, sequence) in [(1, ONE), (2, ONE), (3, ONE), (4, ZERO)] {
            for lane in Lane::ALL {
                let enveloped = frames(&[&[1], &[1], &[kind], sequence, b"p"]);
                let refused = Message::marked(lane, None, enveloped);
                assert_eq!(refused, Err(Refusal::OtherEdition));
            }
        }
        let plain = Message::marked(Lane::Application, None, frames(&[b"ZM", b"p"]));
        assert!(matches!(plain, Ok(Message::Plain(_))));
        let plain = Message::marked(Lane::Completion, None, frames(&[b"ZM", b"p"]));
        assert_eq!(plain, Ok(Message::Misplaced));
    }
}
