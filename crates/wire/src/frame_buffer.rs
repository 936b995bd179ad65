//! Where encoded records go: heads in one reused buffer, large payloads as parts of their own.

use bytes::Bytes;

/// The frames of one encoded record, ready for a vectored write (WR-7).
///
/// Reuse it: it keeps its memory from record to record. A payload of 512 bytes or more is not copied,
/// but kept as the second part of its frame; a smaller one is copied, which is cheaper than one more
/// part.
///
/// ```
/// use spotlane_wire::command::{Command as _, liveness::LivenessProbe};
/// use spotlane_wire::{FrameBuffer, Record};
/// use spotlane_types::count::ProbeId;
///
/// let mut out = FrameBuffer::default();
/// Record::from(LivenessProbe { probe_id: ProbeId::new(7)? }).encode(&mut out)?;
/// let frame = out.frames().next().expect("one frame");
/// assert_eq!(frame.head(), b"ZM\x01\x05\x00\0\0\0\0\0\0\0\x07");
/// assert_eq!(frame.payload(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct FrameBuffer {
    buf: Vec<u8>,
    slots: [Slot; FRAMES_MAX],
    count: usize,
    room: Room,
}

/// Bytes that are left free in front of the first frame, and of each later one.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    first: usize,
    later: usize,
}

/// A record has a body, metadata and a payload at most.
const FRAMES_MAX: usize = 3;

#[derive(Debug, Default)]
struct Slot {
    /// Where the bytes begin that were put in front of the frame.
    front: usize,
    start: usize,
    end: usize,
    payload: Option<Bytes>,
}

impl FrameBuffer {
    /// A buffer that leaves so much room in front of the first frame and of each later one. What a
    /// transport puts there ([`Self::put_in_front`]) is then in one piece with the frames.
    ///
    /// ```
    /// use spotlane_types::count::ProbeId;
    /// use spotlane_wire::command::liveness::LivenessProbe;
    /// use spotlane_wire::{FrameBuffer, FramePart, Record};
    ///
    /// let mut out = FrameBuffer::with_room(2, 0);
    /// Record::from(LivenessProbe { probe_id: ProbeId::new(7)? }).encode(&mut out)?;
    /// assert!(out.put_in_front(0, b"> "));
    /// let mut bytes = Vec::new();
    /// out.each_part(|part| match part {
    ///     FramePart::Copied(part) => bytes.extend_from_slice(part),
    ///     FramePart::Payload(part) => bytes.extend_from_slice(part),
    /// });
    /// assert_eq!(bytes, b"> ZM\x01\x05\x00\0\0\0\0\0\0\0\x07");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_room(first: usize, later: usize) -> Self {
        Self {
            room: Room { first, later },
            ..Self::default()
        }
    }

    /// Puts bytes in front of a frame and of what was put there before. False when the room does not
    /// suffice; nothing was put then.
    #[inline]
    pub fn put_in_front(&mut self, frame: usize, bytes: &[u8]) -> bool {
        let room = if frame == 0 {
            self.room.first
        } else {
            self.room.later
        };
        let Some(slot) = self.slots.get_mut(frame).filter(|_| frame < self.count) else {
            return false;
        };
        let used = slot.start.saturating_sub(slot.front);
        if bytes.len() > room.saturating_sub(used) {
            return false;
        }
        let from = slot.front.saturating_sub(bytes.len());
        let Some(place) = self.buf.get_mut(from..slot.front) else {
            return false;
        };
        place.copy_from_slice(bytes);
        slot.front = from;
        true
    }

    /// The whole record in order: frames with what was put in front of them, in as few parts as there
    /// are.
    #[inline]
    pub fn each_part(&self, mut take: impl FnMut(FramePart<'_>)) {
        let mut copied = 0..0;
        for slot in self.slots.iter().take(self.count) {
            if slot.front != copied.end {
                if !copied.is_empty() {
                    take(FramePart::Copied(self.buf.get(copied).unwrap_or_default()));
                }
                copied = slot.front..slot.front;
            }
            copied.end = slot.end;
            if let Some(payload) = &slot.payload {
                let before = core::mem::replace(&mut copied, slot.end..slot.end);
                take(FramePart::Copied(self.buf.get(before).unwrap_or_default()));
                take(FramePart::Payload(payload));
            }
        }
        if !copied.is_empty() {
            take(FramePart::Copied(self.buf.get(copied).unwrap_or_default()));
        }
    }

    /// Forgets the frames and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        for slot in self.slots.iter_mut().take(self.count) {
            slot.payload = None;
        }
        self.count = 0;
    }

    /// The frames in order.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Frame<'_>> {
        self.slots.iter().take(self.count).map(|slot| Frame {
            head: self.buf.get(slot.start..slot.end).unwrap_or_default(),
            payload: slot.payload.as_ref(),
        })
    }

    /// The frames as buffers of their own, each in one piece. Copies; meant for tests and tools.
    pub fn to_frames(&self) -> Vec<Bytes> {
        self.frames().map(|frame| frame.to_bytes()).collect()
    }

    /// Where the next frame starts.
    #[inline]
    pub(crate) fn next_start(&self) -> usize {
        match self.count.checked_sub(1) {
            Some(last) => {
                let end = self.slots.get(last).map_or(0, |slot| slot.end);
                end.saturating_add(self.room.later)
            }
            None => self.room.first,
        }
    }

    #[inline]
    pub(crate) fn buf(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }

    #[inline]
    pub(crate) fn push(&mut self, start: usize, end: usize, payload: Option<Bytes>) {
        if let Some(slot) = self.slots.get_mut(self.count) {
            slot.front = start;
            slot.start = start;
            slot.end = end;
            slot.payload = payload;
            self.count = self.count.saturating_add(1);
        }
    }
}

/// A part of an encoded record.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "bytes are copied or they are not")]
pub enum FramePart<'a> {
    /// Bytes of the buffer.
    Copied(&'a [u8]),
    /// A payload that was not copied.
    Payload(&'a Bytes),
}

/// One frame: what was written, and perhaps a payload that follows it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    head: &'a [u8],
    payload: Option<&'a Bytes>,
}

impl<'a> Frame<'a> {
    /// The first part.
    pub const fn head(&self) -> &'a [u8] {
        self.head
    }

    /// The second part, a payload that was not copied.
    pub const fn payload(&self) -> Option<&'a Bytes> {
        self.payload
    }

    /// The bytes of both parts together.
    pub fn bytes(&self) -> usize {
        self.head
            .len()
            .saturating_add(self.payload.map_or(0, Bytes::len))
    }

    /// Both parts in one buffer. Copies.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(self.bytes());
        bytes.extend_from_slice(self.head);
        if let Some(payload) = self.payload {
            bytes.extend_from_slice(payload);
        }
        Bytes::from(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(room: (usize, usize), payload: Option<&'static [u8]>) -> FrameBuffer {
        let mut out = FrameBuffer::with_room(room.0, room.1);
        for (body, payload) in [(b"head", None), (b"body", payload.map(Bytes::from_static))] {
            let start = out.next_start();
            out.buf.resize(start, 0);
            out.buf.extend_from_slice(body);
            out.push(start, start + body.len(), payload);
        }
        out
    }

    fn parts(out: &FrameBuffer) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        out.each_part(|part| match part {
            FramePart::Copied(bytes) => parts.push(bytes.to_vec()),
            FramePart::Payload(bytes) => parts.push(bytes.to_vec()),
        });
        parts
    }

    #[test]
    fn what_fills_the_room_is_in_one_piece_with_the_frames() {
        let mut out = filled((3, 2), Some(b"payload"));
        assert!(out.put_in_front(0, b"2") && out.put_in_front(0, b"1"));
        assert!(out.put_in_front(1, b"34"));
        assert_eq!(parts(&out), [b"12head34body".to_vec(), b"payload".to_vec()]);
    }

    #[test]
    fn room_that_is_not_used_is_left_out() {
        let mut out = filled((3, 2), None);
        assert_eq!(parts(&out), [b"head", b"body"]);
        assert!(out.put_in_front(1, b"3"));
        assert_eq!(parts(&out), [&b"head"[..], b"3body"]);
    }

    #[test]
    fn more_than_the_room_is_not_put() {
        let mut out = filled((3, 0), None);
        assert!(!out.put_in_front(0, b"1234"));
        assert!(!out.put_in_front(1, b"1") && !out.put_in_front(2, b"1"));
        assert_eq!(parts(&out), [b"headbody"]);
    }
}
