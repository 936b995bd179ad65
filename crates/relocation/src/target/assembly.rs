//! Chunks to a stream, and the stream to what it holds (R§4.3, RL-359, WR-52).

use bytes::Bytes;
use spotlane_types::count::ParticipantId;
use spotlane_types::kind::FailureCode;
use spotlane_wire::DecodeError;
use spotlane_wire::checksum::Crc32c;
use spotlane_wire::command::relocation::RelocationPrepare;
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::relocation::{PendingTimerTick, SavedWorkEntry, TimerRegistration};
use spotlane_wire::stream::{EnvelopeDecoder, EnvelopeHead, EnvelopeItem};

use super::memory::{ReserveMemory, Room};

/// A stream below this may be kept alive by a record that points into it; a longer one is not.
const SHARED_MAX: usize = 1024 * 1024;

/// The bytes of one stream, as far as they have come.
///
/// It takes memory with what was received and never by what was announced alone (RL-359, D-9).
#[derive(Debug)]
pub(super) struct Assembly {
    room: Room,
    /// Where each chunk ends; 8 bytes for each of 4,096 chunks at most.
    ends: Vec<usize>,
    checksum: Crc32c,
}

/// What one chunk did.
#[derive(Debug)]
pub(super) enum Taken {
    /// It was taken; more have to come.
    More,
    /// It was taken, and the stream is whole and as announced.
    Whole(Bytes),
    /// It had come before, with the same bytes.
    Repeated,
    /// It shows that the stream is not what was announced (TGT-11, TGT-36).
    Broken,
}

fn narrow(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

impl Assembly {
    /// Room for the stream that a command 40 announces.
    pub(super) fn new(prepare: &RelocationPrepare, reserve: ReserveMemory) -> Self {
        Self {
            room: Room::new(prepare.payload_total_length.get(), reserve),
            ends: Vec::new(),
            checksum: Crc32c::default(),
        }
    }

    /// Copies a chunk at once, so that the buffer it came in is free again (TGT-10).
    pub(super) fn push(
        &mut self,
        prepare: &RelocationPrepare,
        ordinal: u32,
        chunk: &[u8],
    ) -> Taken {
        let (Ok(place), total) = (
            usize::try_from(ordinal),
            narrow(prepare.payload_total_length.get()),
        ) else {
            return Taken::Broken;
        };
        if place < self.ends.len() {
            return self.compare(place, chunk);
        }
        let end = self.room.filled().len().saturating_add(chunk.len());
        // RL-359: in order, without gaps, at least one byte each, none beyond the announced length.
        if place > self.ends.len() || chunk.is_empty() || end > total {
            return Taken::Broken;
        }
        let last = ordinal.saturating_add(1) == prepare.payload_chunk_count.get();
        if last != (end == total) {
            return Taken::Broken;
        }
        if !self.room.push(chunk, total) {
            return Taken::Broken;
        }
        self.checksum.update(chunk);
        self.ends.push(end);
        if !last {
            return Taken::More;
        }
        if self.checksum.value() != prepare.payload_checksum_crc32c {
            return Taken::Broken;
        }
        let room = core::mem::replace(&mut self.room, Room::Heap(Vec::new()));
        Taken::Whole(room.into_bytes())
    }

    /// WR-52: the same chunk again is harmless, other bytes are not.
    fn compare(&self, place: usize, chunk: &[u8]) -> Taken {
        let before = place.checked_sub(1).and_then(|place| self.ends.get(place));
        let start = before.copied().unwrap_or(0);
        let end = self.ends.get(place).copied().unwrap_or(start);
        match self.room.filled().get(start..end) {
            Some(there) if there == chunk => Taken::Repeated,
            Some(_) | None => Taken::Broken,
        }
    }

    /// What the buffer takes before it grows.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.room.capacity()
    }
}

/// What a whole stream holds.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    pub(super) states: Vec<(ParticipantId, Option<Bytes>)>,
    pub(super) work: Vec<SavedWorkEntry>,
    pub(super) timers: Vec<TimerRegistration>,
    pub(super) ticks: Vec<PendingTimerTick>,
}

/// Takes a stream apart whose checksum was compared. States are slices of it, not copies.
pub(super) fn contents(
    prepare: &RelocationPrepare,
    stream: &Bytes,
) -> Result<Contents, FailureCode> {
    let broken = |_: DecodeError| FailureCode::PayloadDecodeFailed;
    let mut decoder = EnvelopeDecoder::verified(prepare.payload_total_length);
    decoder.push(stream.clone()).map_err(broken)?;
    let mut contents = Contents {
        states: Vec::new(),
        work: Vec::new(),
        timers: Vec::new(),
        ticks: Vec::new(),
    };
    loop {
        match decoder.next_item().map_err(broken)? {
            Some(EnvelopeItem::Head(head)) => check_head(prepare, &head)?,
            Some(EnvelopeItem::Participant {
                participant_id,
                state_bytes,
            }) => contents
                .states
                .push((participant_id, state_bytes.map(|_| Bytes::new()))),
            // One buffer holds the whole stream, so a state comes in one piece.
            Some(EnvelopeItem::StateBytes(bytes)) => {
                if let Some((_, state)) = contents.states.last_mut() {
                    *state = Some(bytes);
                }
            }
            Some(EnvelopeItem::Work(entry)) => {
                let entry = detached(stream, *entry).map_err(broken)?;
                contents.work.push(entry);
            }
            Some(EnvelopeItem::Timer(timer)) => contents.timers.push(timer),
            Some(EnvelopeItem::Tick(tick)) => contents.ticks.push(tick),
            Some(EnvelopeItem::End) => return Ok(contents),
            None => return Err(FailureCode::PayloadDecodeFailed),
        }
    }
}

/// The stream names the move, the object and the version of its command 40.
fn check_head(prepare: &RelocationPrepare, head: &EnvelopeHead) -> Result<(), FailureCode> {
    let same = head.relocation == prepare.relocation
        && head.object == prepare.object
        && head.application_version == prepare.application_version;
    if same {
        Ok(())
    } else {
        Err(FailureCode::PayloadDecodeFailed)
    }
}

/// Copies a record out of a long stream, so that one queued message does not keep all of it alive.
fn detached(stream: &Bytes, entry: SavedWorkEntry) -> Result<SavedWorkEntry, DecodeError> {
    if stream.len() < SHARED_MAX {
        return Ok(entry);
    }
    let Ok(bytes) = spotlane_wire::encode(&entry.record) else {
        return Ok(entry);
    };
    let record: FrozenRecord = spotlane_wire::decode(&bytes)?;
    Ok(SavedWorkEntry { record, ..entry })
}
