//! The short way for a message that lies in the input as a whole.
//!
//! It takes what nearly every message is, and leaves everything else, faults included, to the decoder
//! and the assembler: whatever the split, they give the same.

use bytes::{Buf as _, Bytes};
use spotlane_wire::FrameSlice;

use super::control::Lane;
use super::frames::Frames;
use super::header::{Edition, Header, Kind};
use super::message::{ENVELOPE_BYTES, Message, Sequence, read_envelope};
use crate::bound::{HEADER_BYTES, SEQUENCE_BYTES};

/// A record has three frames at most.
const FRAMES_MAX: usize = 3;

/// A whole message of the common kind, where it lies in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    is: Is,
    bodies: Bodies,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Plain,
    Request(Sequence),
    Reply(Sequence),
    CompletionControl,
}

impl Whole {
    /// The sequence of a request; `None` for a plain message.
    ///
    /// # Errors
    /// It is something else.
    #[inline]
    pub const fn application(&self) -> Result<Option<Sequence>, NotCommon> {
        match self.is {
            Is::Plain => Ok(None),
            Is::Request(sequence) => Ok(Some(sequence)),
            Is::Reply(_) | Is::CompletionControl => Err(NotCommon),
        }
    }

    /// The sequence, if it is a reply.
    #[inline]
    pub const fn reply(&self) -> Option<Sequence> {
        match self.is {
            Is::Reply(sequence) => Some(sequence),
            Is::Plain | Is::Request(_) | Is::CompletionControl => None,
        }
    }

    /// A byte of its first frame.
    #[inline]
    pub fn first_byte_at(&self, buffer: &[u8], at: usize) -> Option<u8> {
        let (from, to) = *self.bodies.list.first()?;
        buffer.get(from..to)?.get(at).copied()
    }

    /// Where it ends in its buffer.
    pub const fn end(&self) -> usize {
        self.bodies.end
    }

    /// Gives its frames, which lie in `buffer`: that in which it was found.
    #[inline]
    pub fn with_frames<T>(
        &self,
        buffer: &Bytes,
        call: impl FnOnce(&[FrameSlice<'_>]) -> T,
    ) -> Option<T> {
        let list = &self.bodies.list;
        let slice = |at: usize| {
            let (from, to) = *list.get(at)?;
            FrameSlice::in_buffer(buffer, from..to)
        };
        let [first, second, third] = [slice(0)?, slice(1)?, slice(2)?];
        let frames = [first, second, third];
        frames.get(..self.bodies.count).map(call)
    }

    fn into_message(self, input: &mut Bytes) -> Message {
        let payload = take(input, &self.bodies);
        match self.is {
            Is::Plain => Message::Plain(payload),
            Is::Request(sequence) => Message::Request { sequence, payload },
            Is::Reply(sequence) => Message::Reply { sequence, payload },
            Is::CompletionControl => Message::CompletionControl(payload),
        }
    }
}

/// A message that does not come on the Application lane of an admitted peer usually.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "says all there is")]
pub struct NotCommon;

/// Takes one whole message off the front of `input`, if it is of the common kind.
#[inline]
pub(super) fn scan(edition: Edition, limit: u32, lane: Lane, input: &mut Bytes) -> Option<Message> {
    let whole = find(edition, limit, lane, input, 0)?;
    Some(whole.into_message(input))
}

/// Finds the message that begins at `start`, if it is there as a whole and of the common kind.
#[inline]
pub(super) fn find(
    edition: Edition,
    limit: u32,
    lane: Lane,
    input: &[u8],
    start: usize,
) -> Option<Whole> {
    match edition {
        Edition::E1 => find_enveloped(limit, lane, input, start),
        // TR-54: with a limit the sum of the parts has to be judged, too.
        Edition::E2 if limit < u32::MAX => None,
        Edition::E2 => find_marked(lane, input, start),
    }
}

fn find_enveloped(limit: u32, lane: Lane, input: &[u8], start: usize) -> Option<Whole> {
    let envelope = (input.get(start..)?)
        .first_chunk::<ENVELOPE_BYTES>()
        .and_then(read_envelope);
    // TR-40, TR-43, TR-44: the kinds that are what they look like on their lane.
    let is = match (lane, envelope) {
        (Lane::Application, None) => Is::Plain,
        (Lane::Application, Some((1, sequence))) => Is::Request(Sequence::new(sequence)?),
        (Lane::Completion, Some((2, sequence))) => Is::Reply(Sequence::new(sequence)?),
        (Lane::Completion, Some((4, 0))) => Is::CompletionControl,
        (Lane::Application | Lane::Completion, _) => return None,
    };
    let first = match envelope {
        Some(_) => start.checked_add(ENVELOPE_BYTES)?,
        None => start,
    };
    let bodies = bodies(Edition::E1, limit, input, first, 0)?;
    Some(Whole { is, bodies })
}

/// TR-45: a request on the Application lane, a reply on the other one, or a plain message.
fn find_marked(lane: Lane, input: &[u8], start: usize) -> Option<Whole> {
    let rest = input.get(start..)?;
    let first = *rest.first_chunk::<HEADER_BYTES>()?;
    let kind = Header::of_frame(Edition::E2, u32::MAX, first).ok()?.kind;
    let sequence = || {
        let sequence = rest.get(HEADER_BYTES..)?.first_chunk()?;
        Sequence::new(u64::from_be_bytes(*sequence))
    };
    let (is, before) = match (lane, kind) {
        (Lane::Application, None) => (Is::Plain, 0),
        (Lane::Application, Some(Kind::Request)) => (Is::Request(sequence()?), SEQUENCE_BYTES),
        (Lane::Completion, Some(Kind::Reply)) => (Is::Reply(sequence()?), SEQUENCE_BYTES),
        _ => return None,
    };
    let bodies = bodies(Edition::E2, u32::MAX, input, start, before)?;
    Some(Whole { is, bodies })
}

/// Where the bodies of a message lie.
#[derive(Clone, Copy, Debug)]
struct Bodies {
    list: [(usize, usize); FRAMES_MAX],
    count: usize,
    end: usize,
}

/// Finds the bodies of the message whose first header is at `start`; `before` bytes are between that
/// header and its body.
#[inline]
fn bodies(
    edition: Edition,
    limit: u32,
    input: &[u8],
    start: usize,
    before: usize,
) -> Option<Bodies> {
    let mut list = [(0_usize, 0_usize); FRAMES_MAX];
    let mut end = start;
    let mut count = 0_usize;
    for body in &mut list {
        let rest = input.get(end..)?;
        let header = Header::of_data(edition, limit, *rest.first_chunk::<HEADER_BYTES>()?)?;
        let before = if count == 0 { before } else { 0 };
        // TR-8: a mark inside of a message is for the slow way.
        if header.kind.is_some() != (before > 0) {
            return None;
        }
        let first = end.checked_add(HEADER_BYTES)?.checked_add(before)?;
        end = first.checked_add(usize::try_from(header.length).ok()?)?;
        if end > input.len() {
            return None;
        }
        // One byte could be the first of an envelope that is not well-formed (TR-47).
        if count == 0 && header.length <= 1 {
            return None;
        }
        *body = (first, end);
        count = count.saturating_add(1);
        if !header.flags.has_more() {
            return Some(Bodies { list, count, end });
        }
    }
    None
}

#[inline]
fn take(input: &mut Bytes, bodies: &Bodies) -> Frames {
    let mut frames = Frames::new();
    for (from, to) in bodies.list.iter().take(bodies.count) {
        frames.push(input.slice(*from..*to));
    }
    input.advance(bodies.end);
    frames
}
