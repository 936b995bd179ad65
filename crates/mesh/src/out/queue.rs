//! The bytes that wait: messages one behind the other, and what is being written of them.
//!
//! Small parts of messages are copied into one buffer, and parts of some size are kept as they are. A
//! segment takes both until it has a certain size, so a message of its own costs no memory, and what is
//! written is returned (charge, memory) in pieces of that size.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::Bytes;
use spotlane_mesh_proto::zmp::Sink;

use super::Done;
use crate::stream::Stream;

/// From this size on a part is not copied behind the others.
pub(super) const COPY_MAX: usize = 512;
/// A segment is closed when it has this size: with a last message of usual size it fits into the 64 KiB
/// that the system sends in one piece, and a second piece for some bytes more would cost as much.
const SEGMENT_BYTES: usize = 56 * 1024;
/// Memory above this size is not kept for the next messages.
const SPARE_BYTES_MAX: usize = 2 * SEGMENT_BYTES;
/// Written segments whose memory is kept: one is written while the other one is filled.
const SPARES: usize = 2;
/// Parts of one system call.
const SLICES: usize = 64;

/// Consecutive whole messages.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    /// The parts that were copied, one behind the other.
    copied: Vec<u8>,
    parts: Vec<Part>,
    /// Where the copied part that is still growing begins.
    growing_from: usize,
    shared_bytes: usize,
    /// Of its messages.
    charge: u64,
    /// Whom to tell when it is written.
    done: Vec<Done>,
}

#[derive(Debug)]
enum Part {
    /// The next so many of the copied bytes.
    Copied(usize),
    Shared(Bytes),
}

impl Sink for Segment {
    fn copy(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
    }

    fn share(&mut self, bytes: &Bytes) {
        if bytes.len() < COPY_MAX {
            return self.copy(bytes);
        }
        self.close();
        self.shared_bytes = self.shared_bytes.saturating_add(bytes.len());
        self.parts.push(Part::Shared(bytes.clone()));
    }
}

impl Segment {
    /// A message that is not copied, and charged elsewhere: a chunk or a control record.
    pub(super) fn of_shared(parts: &[Bytes], done: Option<Done>) -> Self {
        Self {
            parts: parts.iter().cloned().map(Part::Shared).collect(),
            shared_bytes: parts.iter().map(Bytes::len).sum(),
            done: Vec::from_iter(done),
            ..Self::default()
        }
    }

    /// A message is complete.
    pub(super) fn end_message(&mut self, charge: u64, done: Option<Done>) {
        self.charge = self.charge.saturating_add(charge);
        self.done.extend(done);
    }

    pub(super) const fn bytes(&self) -> usize {
        self.copied.len().saturating_add(self.shared_bytes)
    }

    pub(super) const fn is_full(&self) -> bool {
        self.bytes() >= SEGMENT_BYTES
    }

    /// Ends the copied part that is growing.
    pub(super) fn close(&mut self) {
        let grown = self.copied.len().saturating_sub(self.growing_from);
        if grown > 0 {
            self.parts.push(Part::Copied(grown));
            self.growing_from = self.copied.len();
        }
    }

    pub(super) fn into_done(self) -> Vec<Done> {
        self.done
    }

    /// Empties it and keeps its memory.
    fn clear(&mut self) {
        self.copied.clear();
        self.parts.clear();
        self.growing_from = 0;
        self.shared_bytes = 0;
        self.charge = 0;
    }
}

/// What is being written.
#[derive(Debug, Default)]
pub(super) struct Batch {
    segments: VecDeque<Segment>,
    /// How many of the first segments are control records.
    control: usize,
    /// How far the first segment is written.
    at: Place,
    /// Of the segments that are written.
    pub(super) charge: u64,
    pub(super) done: Vec<Done>,
    spare: Vec<Segment>,
}

/// A place in a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    part: usize,
    /// The bytes of this part before it.
    offset: usize,
    /// The copied bytes of the parts before it.
    copied: usize,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn push(&mut self, segment: Segment) {
        self.segments.push_back(segment);
    }

    /// Begins with control records.
    pub(super) fn push_control(&mut self, control: &mut VecDeque<Segment>) {
        self.control = control.len();
        self.append(control);
    }

    pub(super) fn append(&mut self, segments: &mut VecDeque<Segment>) {
        self.segments.append(segments);
    }

    /// Takes back what is not begun and no control record.
    pub(super) fn take_back(&mut self) -> VecDeque<Segment> {
        let begun = usize::from(self.at != Place::default());
        let keep = self.control.max(begun).min(self.segments.len());
        self.segments.split_off(keep)
    }

    /// Gives the memory of what is written to those who keep it.
    pub(super) fn return_memory(&mut self, spare: &mut Vec<Segment>) {
        for segment in self.spare.drain(..) {
            if spare.len() < SPARES {
                spare.push(segment);
            }
        }
    }

    pub(super) fn into_done(self) -> impl Iterator<Item = Done> {
        let rest = self.segments.into_iter().flat_map(Segment::into_done);
        self.done.into_iter().chain(rest)
    }

    /// Writes everything, or as much as the socket takes.
    pub(super) fn write(&mut self, stream: &Stream) -> io::Result<()> {
        while !self.segments.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.slices(&mut slices);
            let written = stream.try_write(slices.get(..count).unwrap_or_default())?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.advance(written);
        }
        Ok(())
    }

    /// The next bytes, in as many slices as there are; gives how many are used.
    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut free = slices.iter_mut();
        let mut count = 0_usize;
        let mut at = self.at;
        for segment in &self.segments {
            for part in segment.parts.get(at.part..).unwrap_or_default() {
                let Some(slice) = free.next() else {
                    return count;
                };
                let bytes = part.bytes(segment, at.copied);
                *slice = IoSlice::new(bytes.get(at.offset..).unwrap_or_default());
                count = count.saturating_add(1);
                at = at.behind(part);
            }
            at = Place::default();
        }
        count
    }

    fn advance(&mut self, written: usize) {
        let mut left = written;
        while let Some(segment) = self.segments.front() {
            while let Some(part) = segment.parts.get(self.at.part) {
                let rest = part.len().saturating_sub(self.at.offset);
                if left < rest {
                    self.at.offset = self.at.offset.saturating_add(left);
                    return;
                }
                left = left.saturating_sub(rest);
                self.at = self.at.behind(part);
            }
            self.at = Place::default();
            self.control = self.control.saturating_sub(1);
            if let Some(segment) = self.segments.pop_front() {
                self.written(segment);
            }
        }
    }

    fn written(&mut self, mut segment: Segment) {
        self.charge = self.charge.saturating_add(segment.charge);
        self.done.append(&mut segment.done);
        if segment.copied.capacity() <= SPARE_BYTES_MAX && segment.copied.capacity() > 0 {
            segment.clear();
            self.spare.push(segment);
        }
    }
}

impl Part {
    const fn len(&self) -> usize {
        match self {
            Self::Copied(bytes) => *bytes,
            Self::Shared(bytes) => bytes.len(),
        }
    }

    /// Its bytes, when so many of the copied ones come before it.
    fn bytes<'a>(&'a self, segment: &'a Segment, before: usize) -> &'a [u8] {
        match self {
            Self::Copied(bytes) => {
                let end = before.saturating_add(*bytes);
                segment.copied.get(before..end).unwrap_or_default()
            }
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Place {
    const fn behind(self, part: &Part) -> Self {
        Self {
            part: self.part.saturating_add(1),
            offset: 0,
            copied: match part {
                Part::Copied(bytes) => self.copied.saturating_add(*bytes),
                Part::Shared(_) => self.copied,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-38, TR-50: whatever the socket takes at a time, all bytes leave once and in order, and the
    /// charge returns with the last of them.
    #[test]
    fn bytes_leave_in_order_however_few_are_taken() {
        let large = Bytes::from(vec![7_u8; 2 * COPY_MAX]);
        for step in [1, 3, COPY_MAX, 100 * COPY_MAX] {
            let mut batch = Batch::default();
            let mut expected = Vec::new();
            for number in 0..5_u8 {
                let mut segment = Segment::default();
                for _ in 0..3 {
                    segment.copy(&[number; 5]);
                    segment.share(&large);
                    segment.share(&Bytes::from_static(b"small"));
                    segment.end_message(10, None);
                    expected.extend_from_slice(&[number; 5]);
                    expected.extend_from_slice(&large);
                    expected.extend_from_slice(b"small");
                }
                segment.close();
                batch.push(segment);
            }
            let mut left = Vec::new();
            while !batch.is_empty() {
                let mut slices = [IoSlice::new(&[]); 4];
                let count = batch.slices(&mut slices);
                let some: Vec<u8> = slices[..count].iter().flat_map(|it| it.to_vec()).collect();
                let some = &some[..some.len().min(step)];
                left.extend_from_slice(some);
                batch.advance(some.len());
            }
            assert_eq!(left, expected);
            assert_eq!(batch.charge, 150);
        }
    }

    /// TR-50: a message needs no memory of its own once a segment was written.
    #[test]
    fn the_memory_of_a_written_segment_is_kept_up_to_a_bound() {
        let mut batch = Batch::default();
        for size in [10, SEGMENT_BYTES, 3 * SEGMENT_BYTES, 10, 10] {
            let mut segment = Segment::default();
            segment.copy(&vec![1; size]);
            segment.close();
            batch.push(segment);
        }
        batch.advance(4 * SEGMENT_BYTES + 30);
        let mut spare = Vec::new();
        batch.return_memory(&mut spare);
        assert_eq!(spare.len(), SPARES);
        assert!(spare.iter().all(|it| it.bytes() == 0));
    }
}
