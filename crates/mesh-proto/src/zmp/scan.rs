//! The short way for a message that lies in the input as a whole.
//!
//! It takes what nearly every message is, and leaves everything else, faults included, to the decoder
//! and the assembler: whatever the split, they give the same.

use bytes::{Buf as _, Bytes};

use super::control::Lane;
use super::frames::Frames;
use super::header::{Edition, Header};
use super::message::{ENVELOPE_BYTES, Message, Sequence, read_envelope};
use crate::bound::HEADER_BYTES;

/// A record has three frames at most.
const FRAMES_MAX: usize = 3;

/// Takes one whole message off the front of `input`, if it is of the common kind.
pub(super) fn scan(edition: Edition, limit: u32, lane: Lane, input: &mut Bytes) -> Option<Message> {
    let envelope = input
        .first_chunk::<ENVELOPE_BYTES>()
        .and_then(|bytes| read_envelope(edition, bytes));
    if !is_common(lane, envelope) {
        return None;
    }
    let start = envelope.map_or(0, |_| ENVELOPE_BYTES);
    let mut bodies = [(0_usize, 0_usize); FRAMES_MAX];
    let mut end = start;
    let mut count = 0_usize;
    for body in &mut bodies {
        let rest = input.get(end..)?;
        let header = Header::of_frame(edition, limit, *rest.first_chunk::<HEADER_BYTES>()?).ok()?;
        let first = end.checked_add(HEADER_BYTES)?;
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
            let payload = take(input, bodies.get(..count)?, end);
            return wrap(envelope, payload);
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

fn take(input: &mut Bytes, bodies: &[(usize, usize)], end: usize) -> Frames {
    let mut frames = Frames::new();
    for (from, to) in bodies {
        frames.push(input.slice(*from..*to));
    }
    input.advance(end);
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
