//! The short way for a message that lies in the input as a whole.
//!
//! It takes what nearly every message is, and leaves everything else, faults included, to the decoder
//! and the assembler: whatever the split, they give the same.

use bytes::{Buf as _, Bytes};

use super::control::Lane;
use super::frames::Frames;
use super::header::{Edition, Header, Kind};
use super::message::{ENVELOPE_BYTES, Mark, Message, Sequence, read_envelope};
use crate::bound::{HEADER_BYTES, SEQUENCE_BYTES};

/// A record has three frames at most.
const FRAMES_MAX: usize = 3;

/// Takes one whole message off the front of `input`, if it is of the common kind.
#[inline]
pub(super) fn scan(edition: Edition, limit: u32, lane: Lane, input: &mut Bytes) -> Option<Message> {
    match edition {
        Edition::E1 => scan_enveloped(limit, lane, input),
        // TR-54: with a limit the sum of the parts has to be judged, too.
        Edition::E2 if limit < u32::MAX => None,
        Edition::E2 => scan_marked(lane, input),
    }
}

fn scan_enveloped(limit: u32, lane: Lane, input: &mut Bytes) -> Option<Message> {
    let envelope = input
        .first_chunk::<ENVELOPE_BYTES>()
        .and_then(read_envelope);
    if !is_common(lane, envelope) {
        return None;
    }
    let start = envelope.map_or(0, |_| ENVELOPE_BYTES);
    let bodies = bodies(Edition::E1, limit, input, start, 0)?;
    let payload = take(input, &bodies);
    wrap(envelope, payload)
}

/// TR-45: a request on the Application lane, a reply on the other one, or a plain message.
fn scan_marked(lane: Lane, input: &mut Bytes) -> Option<Message> {
    let first = *input.first_chunk::<HEADER_BYTES>()?;
    let kind = Header::of_frame(Edition::E2, u32::MAX, first).ok()?.kind;
    let mark = match (lane, kind) {
        (Lane::Application, None) => None,
        (Lane::Application, Some(kind @ Kind::Request))
        | (Lane::Completion, Some(kind @ Kind::Reply)) => {
            let sequence = input.get(HEADER_BYTES..)?.first_chunk()?;
            let sequence = Sequence::new(u64::from_be_bytes(*sequence))?;
            Some(Mark { kind, sequence })
        }
        _ => return None,
    };
    let before = mark.map_or(0, |_| SEQUENCE_BYTES);
    let bodies = bodies(Edition::E2, u32::MAX, input, 0, before)?;
    let payload = take(input, &bodies);
    Message::marked(lane, mark, payload).ok()
}

/// Where the bodies of a message lie.
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
        let header = Header::of_frame(edition, limit, *rest.first_chunk::<HEADER_BYTES>()?).ok()?;
        let before = if count == 0 { before } else { 0 };
        // TR-8: a mark inside of a message is for the slow way.
        if header.kind.is_some() != (before > 0) {
            return None;
        }
        let first = end.checked_add(HEADER_BYTES)?.checked_add(before)?;
        end = first.checked_add(usize::try_from(header.length).ok()?)?;
        if !header.flags.is_data() || end > input.len() {
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

/// TR-40, TR-43, TR-44: the kinds that are what they look like on their lane. Checked before anything is
/// taken off the input.
const fn is_common(lane: Lane, envelope: Option<(u8, u64)>) -> bool {
    match (lane, envelope) {
        (Lane::Application, None) => true,
        (Lane::Application, Some((kind, sequence))) => kind == 1 && sequence != 0,
        (Lane::Completion, Some((kind, sequence))) => {
            (kind == 2 && sequence != 0) || (kind == 4 && sequence == 0)
        }
        (Lane::Completion, None) => false,
    }
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

fn wrap(envelope: Option<(u8, u64)>, payload: Frames) -> Option<Message> {
    Some(match envelope {
        None => Message::Plain(payload),
        Some((4, _)) => Message::CompletionControl(payload),
        Some((kind, sequence)) => {
            let sequence = Sequence::new(sequence)?;
            if kind == 1 {
                Message::Request { sequence, payload }
            } else {
                Message::Reply { sequence, payload }
            }
        }
    })
}
