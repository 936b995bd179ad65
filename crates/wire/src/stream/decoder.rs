//! Reads a relocation stream from chunks that are split at any byte.

use core::cmp::Ordering;
use std::collections::VecDeque;

use bytes::{Buf as _, Bytes, BytesMut};
use spotlane_types::count::{ParticipantId, RelocationLogicalLength};

use super::{EnvelopeHead, RECORD};
use crate::checksum::Crc32c;
use crate::error::{Breach, DecodeError, ErrorKind, Reason};
use crate::layout::Layout;
use crate::reader::{Read, Reader};
use crate::relocation::{
    ORDER_IN_BOTH, OrderKey, PendingTimerTick, SavedWorkEntry, StateHead, TimerRegistration,
    by_timer, tick_key, work_key,
};
use crate::width::{narrow, wide};

/// What a stream holds, in the order in which it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the parts of the stream are closed by WR-40"
)]
pub enum EnvelopeItem {
    /// What the stream begins with.
    Head(EnvelopeHead),
    /// The next participant.
    Participant {
        /// Its number.
        participant_id: ParticipantId,
        /// The bytes of its state, which follow; `None` means that it is recreated (WR-41).
        state_bytes: Option<u64>,
    },
    /// The next bytes of the participant's state, never empty: a slice of a chunk. Only the first ones
    /// may have been copied, when they follow a head that lay across two chunks.
    StateBytes(Bytes),
    /// A record of saved work.
    Work(Box<SavedWorkEntry>),
    /// A timer.
    Timer(TimerRegistration),
    /// A pending tick.
    Tick(PendingTimerTick),
    /// Everything has been read and fits together.
    End,
}

/// Where in the stream the decoder is.
#[derive(Debug)]
enum Stage {
    Head,
    StateCount,
    State { left: u32 },
    StateBytes { bytes: u64, left: u32 },
    WorkCount,
    Work { left: u32 },
    TimerCount,
    Timer { left: u32 },
    TickCount,
    Tick { left: u32 },
    End,
}

/// Reads a relocation stream from chunks that are split at any byte (WR-43).
///
/// It looks ahead by one element at most: it holds the chunks that it was given and has not used, and
/// puts an element together only when it lies across chunks. State is never put together. A fault
/// ends the stream: every later call gives the same error.
///
/// The result does not depend on how the stream is split.
#[derive(Debug)]
pub struct EnvelopeDecoder {
    input: Input,
    stage: Stage,
    /// The number of the element within its vector, for errors.
    index: usize,
    last_participant: Option<ParticipantId>,
    last_timer: Option<TimerRegistration>,
    last_key: Option<OrderKey>,
    /// Saved work that no pending tick has passed yet; 16 bytes for each record (WR-42).
    work_keys: VecDeque<OrderKey>,
    order_in_both: bool,
    failed: Option<DecodeError>,
}

/// The bytes that were pushed and not used.
#[derive(Debug)]
struct Input {
    front: Bytes,
    queue: VecDeque<Bytes>,
    queued: usize,
    /// Bytes that were used.
    used: u64,
    received: u64,
    total: u64,
    /// Fewer bytes than this in front are not worth looking at.
    needed: usize,
    /// `None` when the caller has compared the checksum already.
    checksum: Option<Crc32c>,
}

impl Input {
    /// Bytes of the stream that are not in `front`.
    fn behind_front(&self) -> u64 {
        let here = self.used.saturating_add(wide(self.front.len()));
        self.total.saturating_sub(here)
    }

    /// Makes `front` at least `needed` bytes long; `false` when they have not come yet.
    fn gather(&mut self) -> bool {
        if self.front.is_empty()
            && let Some(next) = self.queue.pop_front()
        {
            self.queued = self.queued.saturating_sub(next.len());
            self.front = next;
        }
        if self.front.len() >= self.needed {
            return true;
        }
        if self.front.len().saturating_add(self.queued) < self.needed {
            return false;
        }
        // Twice what was not enough: an element is put together in a few steps, not one for each field.
        let there = self.front.len().saturating_add(self.queued);
        let wanted = self
            .front
            .len()
            .saturating_mul(2)
            .max(self.needed)
            .min(there);
        let mut joined = BytesMut::with_capacity(wanted);
        joined.extend_from_slice(&self.front);
        while joined.len() < wanted {
            let Some(next) = self.queue.front_mut() else {
                break;
            };
            let take = wanted.saturating_sub(joined.len()).min(next.len());
            joined.extend_from_slice(&next.split_to(take));
            self.queued = self.queued.saturating_sub(take);
            if next.is_empty() {
                self.queue.pop_front();
            }
        }
        self.front = joined.freeze();
        true
    }

    /// Reads one element, or gives `None` when more bytes have to come first.
    fn read<T>(&mut self, read: impl Fn(&mut Reader<'_>, u64) -> Read<T>) -> Read<Option<T>> {
        loop {
            if !self.gather() {
                return Ok(None);
            }
            let behind = self.behind_front();
            let mut r = Reader::new(&self.front);
            match read(&mut r, behind) {
                Ok(value) => {
                    let taken = r.offset();
                    self.front.advance(taken);
                    self.used = self.used.saturating_add(wide(taken));
                    self.needed = 1;
                    return Ok(Some(value));
                }
                Err(error) => {
                    let at = narrow(self.used);
                    // A field that the rest of the stream can still complete is not a fault.
                    match error.missing() {
                        Some(missing) if wide(missing) <= behind && missing > 0 => {
                            self.needed = self.front.len().saturating_add(missing);
                        }
                        _ => return Err(error.moved_by(at)),
                    }
                }
            }
        }
    }

    fn at(&self) -> usize {
        narrow(self.used)
    }
}

impl EnvelopeDecoder {
    /// Begins a stream of `total_length` bytes, which is what command 40 announces.
    pub fn new(total_length: RelocationLogicalLength) -> Self {
        Self {
            input: Input {
                front: Bytes::new(),
                queue: VecDeque::new(),
                queued: 0,
                used: 0,
                received: 0,
                total: total_length.get(),
                needed: 1,
                checksum: Some(Crc32c::default()),
            },
            stage: Stage::Head,
            index: 0,
            last_participant: None,
            last_timer: None,
            last_key: None,
            work_keys: VecDeque::new(),
            order_in_both: false,
            failed: None,
        }
    }

    /// Begins a stream whose checksum was compared while it was put together, so that its bytes are not
    /// read once more. [`Self::finish`] then gives 0.
    pub fn verified(total_length: RelocationLogicalLength) -> Self {
        let mut decoder = Self::new(total_length);
        decoder.input.checksum = None;
        decoder
    }

    /// Takes the next bytes of the stream. Call [`Self::next_item`] until it gives `None`.
    ///
    /// # Errors
    /// More bytes than the stream has, or an earlier fault.
    pub fn push(&mut self, chunk: Bytes) -> Result<(), DecodeError> {
        self.ok()?;
        let received = self.input.received.saturating_add(wide(chunk.len()));
        let surplus = received.saturating_sub(self.input.total);
        if surplus > 0 {
            let reason = Reason::LeftOver(narrow(surplus));
            let at = narrow(self.input.total);
            return self.fail(DecodeError::new(ErrorKind::TrailingByte, at, reason));
        }
        self.input.received = received;
        if let Some(checksum) = &mut self.input.checksum {
            checksum.update(&chunk);
        }
        if !chunk.is_empty() {
            self.input.queued = self.input.queued.saturating_add(chunk.len());
            self.input.queue.push_back(chunk);
        }
        Ok(())
    }

    /// The next item, or `None` when more bytes have to come first or the stream has ended.
    ///
    /// # Errors
    /// The stream is malformed: a violation by the source. The item before was the last one.
    pub fn next_item(&mut self) -> Result<Option<EnvelopeItem>, DecodeError> {
        self.ok()?;
        match self.step() {
            Ok(item) => Ok(item),
            Err(error) => self.fail(error),
        }
    }

    /// Ends the stream and gives CRC-32C of all its bytes, to be compared with command 40.
    ///
    /// Items that were not taken are read and dropped, so that they are checked all the same.
    ///
    /// # Errors
    /// The stream is incomplete, or has a fault.
    pub fn finish(mut self) -> Result<u32, DecodeError> {
        while self.next_item()?.is_some() {}
        if matches!(self.stage, Stage::End) {
            return Ok(self.input.checksum.map_or(0, |checksum| checksum.value()));
        }
        let missing = self.input.total.saturating_sub(self.input.received);
        let missing = narrow(missing);
        let at = self.input.at();
        Err(
            DecodeError::new(ErrorKind::TruncatedField, at, Reason::Missing(missing))
                .of_record(RECORD, 0),
        )
    }

    fn ok(&self) -> Result<(), DecodeError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail<T>(&mut self, error: DecodeError) -> Result<T, DecodeError> {
        let error = error.of_record(RECORD, 0);
        self.failed = Some(error.clone());
        Err(error)
    }

    fn step(&mut self) -> Read<Option<EnvelopeItem>> {
        loop {
            match self.stage {
                Stage::Head => {
                    let head = self.input.read(|r, _| EnvelopeHead::read(r))?;
                    if head.is_some() {
                        self.stage = Stage::StateCount;
                    }
                    return Ok(head.map(EnvelopeItem::Head));
                }
                Stage::StateCount => {
                    let Some(left) = self.count("applicationStates", 17)? else {
                        return Ok(None);
                    };
                    self.stage = Stage::State { left };
                }
                Stage::State { left: 0 } => self.stage = Stage::WorkCount,
                Stage::State { left } => return self.participant(left),
                Stage::StateBytes { bytes: 0, left } => self.stage = Stage::State { left },
                Stage::StateBytes { bytes, left } => return Ok(self.state_bytes(bytes, left)),
                Stage::WorkCount => {
                    let min = SavedWorkEntry::MIN;
                    let Some(left) = self.count("savedWork", min)? else {
                        return Ok(None);
                    };
                    self.stage = Stage::Work { left };
                }
                Stage::Work { left: 0 } => self.stage = Stage::TimerCount,
                Stage::Work { left } => return self.work(left),
                Stage::TimerCount => {
                    let min = TimerRegistration::MIN;
                    let Some(left) = self.count("timerRegistrations", min)? else {
                        return Ok(None);
                    };
                    self.stage = Stage::Timer { left };
                }
                Stage::Timer { left: 0 } => self.stage = Stage::TickCount,
                Stage::Timer { left } => return self.timer(left),
                Stage::TickCount => {
                    let min = PendingTimerTick::MIN;
                    let Some(left) = self.count("pendingTimerTicks", min)? else {
                        return Ok(None);
                    };
                    self.last_key = None;
                    self.stage = Stage::Tick { left };
                }
                Stage::Tick { left: 0 } => return self.end(),
                Stage::Tick { left } => return self.tick(left),
                Stage::End => return Ok(None),
            }
        }
    }

    /// WR-4: a count has to fit what is left of the stream.
    fn count(&mut self, field: &'static str, element_min: usize) -> Read<Option<u32>> {
        let read = self.input.read(|r, behind| {
            let at = r.offset();
            let count = r.u32()?;
            let needed = u64::from(count).saturating_mul(wide(element_min));
            let there = behind.saturating_add(wide(r.remaining()));
            if needed > there {
                // More than the rest of the stream, so that it cannot be taken for "not yet".
                let missing = narrow(needed.saturating_sub(there));
                let missing = missing.saturating_add(usize::try_from(behind).unwrap_or(0));
                let reason = Reason::Missing(missing);
                return Err(DecodeError::new(ErrorKind::TruncatedField, at, reason));
            }
            Ok(count)
        });
        self.index = 0;
        read.map_err(|e| e.within(field))
    }

    /// Reads one element of a vector; `ordered` says whether it is above the one before it.
    fn element<T>(
        &mut self,
        field: &'static str,
        read: impl Fn(&mut Reader<'_>, u64) -> Read<T>,
        ordered: impl FnOnce(&mut Self, &T) -> bool,
    ) -> Read<Option<T>> {
        let (at, index) = (self.input.at(), self.index);
        let place = |e: DecodeError| e.at_element(index).within(field);
        let Some(element) = self.input.read(read).map_err(place)? else {
            return Ok(None);
        };
        if !ordered(self, &element) {
            let reason = Reason::Text("not above the element before it");
            return Err(place(Reader::invalid(at, reason)));
        }
        self.index = index.saturating_add(1);
        Ok(Some(element))
    }

    fn participant(&mut self, left: u32) -> Read<Option<EnvelopeItem>> {
        let head = self.element("applicationStates", StateHead::read, |decoder, head| {
            let id = Some(head.participant_id);
            let ordered = decoder.last_participant < id;
            decoder.last_participant = id;
            ordered
        })?;
        let Some(StateHead {
            participant_id,
            state_bytes,
        }) = head
        else {
            return Ok(None);
        };
        let left = left.saturating_sub(1);
        self.stage = Stage::StateBytes {
            bytes: state_bytes.unwrap_or(0),
            left,
        };
        Ok(Some(EnvelopeItem::Participant {
            participant_id,
            state_bytes,
        }))
    }

    /// Hands on what there is of a state, chunk by chunk.
    fn state_bytes(&mut self, bytes: u64, left: u32) -> Option<EnvelopeItem> {
        self.input.needed = 1;
        if !self.input.gather() {
            return None;
        }
        let here = self.input.front.len();
        let take = usize::try_from(bytes).map_or(here, |bytes| bytes.min(here));
        let piece = self.input.front.split_to(take);
        self.input.used = self.input.used.saturating_add(wide(take));
        self.stage = Stage::StateBytes {
            bytes: bytes.saturating_sub(wide(take)),
            left,
        };
        Some(EnvelopeItem::StateBytes(piece))
    }

    fn work(&mut self, left: u32) -> Read<Option<EnvelopeItem>> {
        let read = |r: &mut Reader<'_>, _| SavedWorkEntry::read(r);
        let entry = self.element("savedWork", read, |decoder, entry| {
            let key = work_key(entry);
            let ordered = decoder.last_key < Some(key);
            decoder.last_key = Some(key);
            decoder.work_keys.push_back(key);
            ordered
        })?;
        if entry.is_some() {
            self.stage = Stage::Work {
                left: left.saturating_sub(1),
            };
        }
        Ok(entry.map(|entry| EnvelopeItem::Work(Box::new(entry))))
    }

    fn timer(&mut self, left: u32) -> Read<Option<EnvelopeItem>> {
        let read = |r: &mut Reader<'_>, _| TimerRegistration::read(r);
        let timer = self.element("timerRegistrations", read, |decoder, timer| {
            let last = decoder.last_timer.replace(timer.clone());
            last.is_none_or(|last| by_timer(&last, timer) == Ordering::Less)
        })?;
        if timer.is_some() {
            self.stage = Stage::Timer {
                left: left.saturating_sub(1),
            };
        }
        Ok(timer.map(EnvelopeItem::Timer))
    }

    fn tick(&mut self, left: u32) -> Read<Option<EnvelopeItem>> {
        let read = |r: &mut Reader<'_>, _| PendingTimerTick::read(r);
        let tick = self.element("pendingTimerTicks", read, |decoder, tick| {
            let key = tick_key(tick);
            let ordered = decoder.last_key < Some(key);
            decoder.last_key = Some(key);
            while decoder.work_keys.front().is_some_and(|work| *work < key) {
                decoder.work_keys.pop_front();
            }
            decoder.order_in_both |= decoder.work_keys.front() == Some(&key);
            ordered
        })?;
        if tick.is_some() {
            self.stage = Stage::Tick {
                left: left.saturating_sub(1),
            };
        }
        Ok(tick.map(EnvelopeItem::Tick))
    }

    /// All fields have been read: the rule over several of them, then the end of the stream.
    fn end(&mut self) -> Read<Option<EnvelopeItem>> {
        if self.order_in_both {
            return Err(Breach::new("pendingTimerTicks", ORDER_IN_BOTH).into_decode(0));
        }
        let left_over = self.input.total.saturating_sub(self.input.used);
        if left_over > 0 {
            let reason = Reason::LeftOver(narrow(left_over));
            let at = self.input.at();
            return Err(DecodeError::new(ErrorKind::TrailingByte, at, reason));
        }
        self.stage = Stage::End;
        Ok(Some(EnvelopeItem::End))
    }
}
