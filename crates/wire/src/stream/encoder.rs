//! Writes a relocation stream into chunks of one size, in one pass.

use core::cmp::Ordering;
use core::num::NonZeroU32;
use std::collections::VecDeque;

use bytes::Bytes;
use spotlane_types::ValueError;
use spotlane_types::bound::RELOCATION_CHUNK_COUNT;
use spotlane_types::count::{
    ParticipantId, ReceiveChunkLimit, RelocationChunkCount, RelocationLogicalLength,
};

use super::{EnvelopeHead, RECORD};
use crate::checksum::Crc32c;
use crate::error::{EncodeError, Reason};
use crate::layout::Layout;
use crate::relocation::{
    ORDER_IN_BOTH, OrderKey, PendingTimerTick, SavedWorkEntry, StateHead, TimerRegistration,
    by_timer, tick_key, work_key,
};
use crate::width::wide;
use crate::writer::Writer;

/// The size of every chunk but the last: 1 byte to 64 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkBytes(NonZeroU32);

impl ChunkBytes {
    /// Takes a size in bytes.
    ///
    /// # Errors
    /// It is 0 or above 64 MiB.
    pub fn new(bytes: u32) -> Result<Self, ValueError> {
        let bytes = ReceiveChunkLimit::new(bytes)?.get();
        Ok(Self(NonZeroU32::new(bytes).unwrap_or(NonZeroU32::MIN)))
    }

    fn get(self) -> usize {
        usize::try_from(self.0.get()).unwrap_or(usize::MAX)
    }
}

/// What command 40 says of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the three numbers of command 40")]
pub struct EnvelopeSummary {
    /// The bytes of the whole stream.
    pub total_length: RelocationLogicalLength,
    /// The number of chunks.
    pub chunk_count: RelocationChunkCount,
    /// CRC-32C of the whole stream (WR-50).
    pub checksum_crc32c: u32,
}

/// The stage that takes participants.
#[derive(Debug)]
pub struct States {
    last: Option<ParticipantId>,
    /// Bytes of the current state that are still to come.
    owed: u64,
}

/// The stage that takes saved work.
#[derive(Debug)]
pub struct Work {
    keys: VecDeque<OrderKey>,
}

/// The stage that takes timers.
#[derive(Debug)]
pub struct Timers {
    work: VecDeque<OrderKey>,
    last: Option<TimerRegistration>,
}

/// The stage that takes pending ticks, the last one.
#[derive(Debug)]
pub struct Ticks {
    work: VecDeque<OrderKey>,
    last: Option<OrderKey>,
}

/// Writes a relocation stream into chunks, in one pass and without ever holding the whole stream.
///
/// The type parameter is the stage: participants, then saved work, timers and pending ticks, each with
/// its number given beforehand. What is given out of place does not compile; what is given out of
/// order, too often or too seldom is refused.
///
/// A chunk that lies inside one state is a slice of that state, not a copy. Chunks that hold several
/// pieces are put together in a buffer of one chunk.
///
/// ```compile_fail
/// use spotlane_wire::stream::{EnvelopeEncoder, Timers};
/// fn late_state(encoder: &mut EnvelopeEncoder<Timers>, id: spotlane_types::count::ParticipantId) {
///     encoder.state(id, None);
/// }
/// ```
#[derive(Debug)]
pub struct EnvelopeEncoder<Stage> {
    output: Output,
    /// Elements that the current stage still has to be given.
    left: u32,
    stage: Stage,
}

/// Chunks that are full, and the one that is being filled.
#[derive(Debug)]
struct Output {
    limit: usize,
    open: Vec<u8>,
    full: VecDeque<Bytes>,
    chunks: u32,
    length: u64,
    checksum: Crc32c,
    scratch: Vec<u8>,
    /// A fault that struck when bytes had gone out already: the stream cannot go on.
    failed: Option<EncodeError>,
}

impl Output {
    fn new(limit: ChunkBytes) -> Self {
        Self {
            limit: limit.get(),
            open: Vec::new(),
            full: VecDeque::new(),
            chunks: 0,
            length: 0,
            checksum: Crc32c::default(),
            scratch: Vec::new(),
            failed: None,
        }
    }

    fn emit(&mut self, chunk: Bytes) -> Result<(), EncodeError> {
        if self.chunks >= RELOCATION_CHUNK_COUNT {
            return Err(refuse(Reason::Text(
                "the stream needs more than 4096 chunks of this size; use larger ones",
            )));
        }
        self.chunks = self.chunks.saturating_add(1);
        self.full.push_back(chunk);
        Ok(())
    }

    /// How many bytes the open chunk takes.
    fn room(&self) -> usize {
        self.limit.saturating_sub(self.open.len())
    }

    fn close_open(&mut self) -> Result<(), EncodeError> {
        let chunk = Bytes::from(core::mem::take(&mut self.open));
        self.emit(chunk)
    }

    fn account(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.lengthen(bytes.len())?;
        self.checksum.update(bytes);
        Ok(())
    }

    fn lengthen(&mut self, bytes: usize) -> Result<(), EncodeError> {
        let length = self.length.saturating_add(wide(bytes));
        let bound = RelocationLogicalLength::MAX.get();
        if length > bound {
            return Err(refuse(Reason::Above {
                bound,
                actual: length,
            }));
        }
        self.length = length;
        Ok(())
    }

    /// Takes bytes that are copied into the open chunk.
    fn copy(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.account(bytes)?;
        self.place_copy(bytes)
    }

    fn place_copy(&mut self, mut bytes: &[u8]) -> Result<(), EncodeError> {
        while let Some((now, later)) = bytes.split_at_checked(self.room().min(bytes.len())) {
            if now.is_empty() {
                break;
            }
            self.open.extend_from_slice(now);
            bytes = later;
            if self.room() == 0 {
                self.close_open()?;
            }
        }
        Ok(())
    }

    /// Takes bytes of which whole chunks are sliced off (WR-7).
    fn slice(&mut self, bytes: Bytes) -> Result<(), EncodeError> {
        self.account(&bytes)?;
        self.place(bytes)
    }

    /// As [`Self::slice`], for bytes whose checksum is known.
    fn slice_summed(&mut self, bytes: Bytes, sum: &Crc32c) -> Result<(), EncodeError> {
        self.lengthen(bytes.len())?;
        self.checksum.append(sum);
        self.place(bytes)
    }

    fn place(&mut self, mut bytes: Bytes) -> Result<(), EncodeError> {
        if !self.open.is_empty() {
            let fill = self.room().min(bytes.len());
            self.place_copy(&bytes.split_to(fill))?;
        }
        while bytes.len() >= self.limit {
            let chunk = bytes.split_to(self.limit);
            self.emit(chunk)?;
        }
        self.place_copy(&bytes)
    }

    /// Writes one value. What cannot be encoded changes nothing; a stream that becomes too long is
    /// broken for good, because a part of the value may have gone out.
    fn write<T: Layout>(&mut self, value: &T) -> Result<(), EncodeError> {
        self.usable()?;
        let mut scratch = core::mem::take(&mut self.scratch);
        let mut w = Writer::split(&mut scratch, 0);
        let encoded = value.write(&mut w);
        let (end, payload) = w.into_tail();
        let written = encoded.and_then(|()| {
            let head = scratch.get(..end).unwrap_or_default();
            let sent = self.copy(head);
            let sent = sent.and_then(|()| payload.map_or(Ok(()), |payload| self.slice(payload)));
            self.remember(sent)
        });
        self.scratch = scratch;
        written
    }

    fn usable(&self) -> Result<(), EncodeError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn remember(&mut self, sent: Result<(), EncodeError>) -> Result<(), EncodeError> {
        if let Err(error) = &sent {
            self.failed = Some(error.clone());
        }
        sent
    }
}

#[cold]
fn refuse(reason: Reason) -> EncodeError {
    EncodeError::new(reason).of_record(RECORD)
}

impl<Stage> EnvelopeEncoder<Stage> {
    /// Takes the next full chunk, in order. Taking chunks early keeps the memory at one chunk.
    pub fn take_chunk(&mut self) -> Option<Bytes> {
        self.output.full.pop_front()
    }

    /// How many elements are left after the next one.
    fn left_after(&self, field: &'static str) -> Result<u32, EncodeError> {
        self.left
            .checked_sub(1)
            .ok_or_else(|| refuse(Reason::Text("more elements than were announced")).within(field))
    }

    /// Writes an element and counts it, or changes nothing.
    fn element<T: Layout>(&mut self, field: &'static str, value: &T) -> Result<(), EncodeError> {
        let left = self.left_after(field)?;
        self.output
            .write(value)
            .map_err(|e| e.within(field).of_record(RECORD))?;
        self.left = left;
        Ok(())
    }

    fn next_stage<Next>(
        self,
        field: &'static str,
        count: u32,
        next: impl FnOnce(Stage) -> Next,
    ) -> Result<EnvelopeEncoder<Next>, EncodeError> {
        let Self {
            mut output,
            left,
            stage,
        } = self;
        output.usable()?;
        if left > 0 {
            return Err(refuse(Reason::Text("fewer elements than were announced")).within(field));
        }
        output.write(&count)?;
        Ok(EnvelopeEncoder {
            output,
            left: count,
            stage: next(stage),
        })
    }
}

const OUT_OF_ORDER: Reason = Reason::Text("not above the element before it");

impl EnvelopeEncoder<States> {
    /// Begins a stream with `participants` participants.
    ///
    /// # Errors
    /// The head cannot be encoded.
    pub fn new(
        head: &EnvelopeHead,
        participants: u32,
        chunk: ChunkBytes,
    ) -> Result<Self, EncodeError> {
        let mut output = Output::new(chunk);
        output.write(head)?;
        output.write(&participants)?;
        Ok(Self {
            output,
            left: participants,
            stage: States {
                last: None,
                owed: 0,
            },
        })
    }

    /// Adds a participant with its state; `None` means that the target recreates it (WR-41).
    ///
    /// # Errors
    /// The participant is not above the one before, there are more than announced, the state before is
    /// incomplete, or the stream becomes too long for 2^38 bytes or 4,096 chunks.
    pub fn state(
        &mut self,
        participant: ParticipantId,
        state: Option<Bytes>,
    ) -> Result<(), EncodeError> {
        self.begin(participant, state.as_ref().map(|state| wide(state.len())))?;
        state.map_or(Ok(()), |state| self.state_bytes(state))
    }

    /// As [`Self::state`], for a state whose checksum was made already, perhaps in several pieces side by side: it is not
    /// read again.
    ///
    /// # Errors
    /// As [`Self::state`]; and the checksum is of another number of bytes.
    pub fn state_summed(
        &mut self,
        participant: ParticipantId,
        state: Bytes,
        sum: &Crc32c,
    ) -> Result<(), EncodeError> {
        let (expected, actual) = (wide(state.len()), sum.bytes());
        if expected != actual {
            return Err(refuse(Reason::Expected { expected, actual }).within("applicationStates"));
        }
        self.begin(participant, Some(expected))?;
        self.stage.owed = 0;
        let sent = self.output.slice_summed(state, sum);
        self.output.remember(sent)
    }

    /// Adds a participant whose state of `bytes` bytes follows with [`Self::state_bytes`].
    ///
    /// # Errors
    /// As [`Self::state`].
    pub fn begin_state(
        &mut self,
        participant: ParticipantId,
        bytes: u64,
    ) -> Result<(), EncodeError> {
        self.begin(participant, Some(bytes))
    }

    fn begin(
        &mut self,
        participant_id: ParticipantId,
        state_bytes: Option<u64>,
    ) -> Result<(), EncodeError> {
        self.complete()?;
        if self.stage.last.is_some_and(|last| last >= participant_id) {
            return Err(refuse(OUT_OF_ORDER).within("applicationStates"));
        }
        if state_bytes.unwrap_or(0) > RelocationLogicalLength::MAX.get() {
            let (bound, actual) = (RelocationLogicalLength::MAX.get(), state_bytes.unwrap_or(0));
            return Err(refuse(Reason::Above { bound, actual }).within("applicationStates"));
        }
        self.output.usable()?;
        self.left = self.left_after("applicationStates")?;
        self.stage = States {
            last: Some(participant_id),
            owed: state_bytes.unwrap_or(0),
        };
        let mut scratch = core::mem::take(&mut self.output.scratch);
        let mut w = Writer::joined(&mut scratch, 0);
        StateHead {
            participant_id,
            state_bytes,
        }
        .write(&mut w);
        let end = w.at();
        let sent = self.output.copy(scratch.get(..end).unwrap_or_default());
        self.output.scratch = scratch;
        self.output.remember(sent)
    }

    /// Adds the next bytes of the state that was begun.
    ///
    /// # Errors
    /// They are more than announced, or the stream becomes too long.
    pub fn state_bytes(&mut self, bytes: Bytes) -> Result<(), EncodeError> {
        let owed = self.stage.owed.checked_sub(wide(bytes.len()));
        self.stage.owed = owed.ok_or_else(|| {
            let actual = wide(bytes.len());
            refuse(Reason::Above {
                bound: self.stage.owed,
                actual,
            })
            .within("applicationStates")
        })?;
        self.output.usable()?;
        let sent = self.output.slice(bytes);
        self.output.remember(sent)
    }

    fn complete(&self) -> Result<(), EncodeError> {
        if self.stage.owed > 0 {
            let rule = "the state of a participant is incomplete";
            return Err(refuse(Reason::Text(rule)).within("applicationStates"));
        }
        Ok(())
    }

    /// Goes on to `count` records of saved work.
    ///
    /// # Errors
    /// Participants or bytes of a state are missing.
    pub fn work(self, count: u32) -> Result<EnvelopeEncoder<Work>, EncodeError> {
        self.complete()?;
        self.next_stage("applicationStates", count, |_| Work {
            keys: VecDeque::new(),
        })
    }
}

impl EnvelopeEncoder<Work> {
    /// Adds a record. A large payload is sliced, not copied.
    ///
    /// # Errors
    /// It is not above the one before by participant and order, cannot be encoded, there are more than
    /// announced, or the stream becomes too long.
    pub fn entry(&mut self, entry: &SavedWorkEntry) -> Result<(), EncodeError> {
        let key = work_key(entry);
        if self.stage.keys.back().is_some_and(|last| *last >= key) {
            return Err(refuse(OUT_OF_ORDER).within("savedWork"));
        }
        self.element("savedWork", entry)?;
        self.stage.keys.push_back(key);
        Ok(())
    }

    /// Goes on to `count` timers.
    ///
    /// # Errors
    /// Records are missing.
    pub fn timers(self, count: u32) -> Result<EnvelopeEncoder<Timers>, EncodeError> {
        self.next_stage("savedWork", count, |stage| Timers {
            work: stage.keys,
            last: None,
        })
    }
}

impl EnvelopeEncoder<Timers> {
    /// Adds a timer.
    ///
    /// # Errors
    /// It is not above the one before by participant and name, there are more than announced, or the
    /// stream becomes too long.
    pub fn timer(&mut self, timer: &TimerRegistration) -> Result<(), EncodeError> {
        let last = self.stage.last.as_ref();
        if last.is_some_and(|last| by_timer(last, timer) != Ordering::Less) {
            return Err(refuse(OUT_OF_ORDER).within("timerRegistrations"));
        }
        self.element("timerRegistrations", timer)?;
        self.stage.last = Some(timer.clone());
        Ok(())
    }

    /// Goes on to `count` pending ticks.
    ///
    /// # Errors
    /// Timers are missing.
    pub fn ticks(self, count: u32) -> Result<EnvelopeEncoder<Ticks>, EncodeError> {
        self.next_stage("timerRegistrations", count, |stage| Ticks {
            work: stage.work,
            last: None,
        })
    }
}

impl EnvelopeEncoder<Ticks> {
    /// Adds a pending tick.
    ///
    /// # Errors
    /// It is not above the one before by participant and order, its order is taken by saved work
    /// (WR-42), there are more than announced, or the stream becomes too long.
    pub fn tick(&mut self, tick: &PendingTimerTick) -> Result<(), EncodeError> {
        let key = tick_key(tick);
        if self.stage.last.is_some_and(|last| last >= key) {
            return Err(refuse(OUT_OF_ORDER).within("pendingTimerTicks"));
        }
        // Both sides are sorted, so work below this tick is not needed again.
        while self.stage.work.front().is_some_and(|work| *work < key) {
            self.stage.work.pop_front();
        }
        if self.stage.work.front() == Some(&key) {
            return Err(refuse(Reason::Text(ORDER_IN_BOTH)).within("pendingTimerTicks"));
        }
        self.element("pendingTimerTicks", tick)?;
        self.stage.last = Some(key);
        Ok(())
    }

    /// Ends the stream: its numbers, and the chunks that were not taken yet.
    ///
    /// # Errors
    /// Ticks are missing, or the last chunk is one too many.
    pub fn finish(mut self) -> Result<(EnvelopeSummary, VecDeque<Bytes>), EncodeError> {
        self.output.usable()?;
        if self.left > 0 {
            let rule = "fewer elements than were announced";
            return Err(refuse(Reason::Text(rule)).within("pendingTimerTicks"));
        }
        if !self.output.open.is_empty() {
            self.output.close_open()?;
        }
        let value = |e| refuse(Reason::Value(e));
        let summary = EnvelopeSummary {
            total_length: RelocationLogicalLength::new(self.output.length).map_err(value)?,
            chunk_count: RelocationChunkCount::new(self.output.chunks).map_err(value)?,
            checksum_crc32c: self.output.checksum.value(),
        };
        Ok((summary, self.output.full))
    }
}
