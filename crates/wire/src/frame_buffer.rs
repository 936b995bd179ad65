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
}

/// A record has a body, metadata and a payload at most.
const FRAMES_MAX: usize = 3;

#[derive(Debug, Default)]
struct Slot {
    start: usize,
    end: usize,
    payload: Option<Bytes>,
}

impl FrameBuffer {
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
    pub(crate) fn end(&self) -> usize {
        self.count
            .checked_sub(1)
            .and_then(|last| self.slots.get(last))
            .map_or(0, |slot| slot.end)
    }

    #[inline]
    pub(crate) fn buf(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }

    #[inline]
    pub(crate) fn push(&mut self, start: usize, end: usize, payload: Option<Bytes>) {
        if let Some(slot) = self.slots.get_mut(self.count) {
            slot.start = start;
            slot.end = end;
            slot.payload = payload;
            self.count = self.count.saturating_add(1);
        }
    }
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
