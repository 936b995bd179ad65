//! The payload of a move: what is captured, and the stream that is made of it (R§4.2, WR-40 to WR-43).

use bytes::Bytes;
use spotlane_types::bound::{RELOCATION_CHUNK_BYTES, RELOCATION_CHUNK_COUNT};
use spotlane_types::count::{ParticipantId, ReceiveChunkLimit, WorkOrder};
use spotlane_wire::EncodeError;
use spotlane_wire::checksum::Crc32c;
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::relocation::{PendingTimerTick, SavedWorkEntry, TimerRegistration};
use spotlane_wire::stream::{ChunkBytes, EnvelopeEncoder, EnvelopeSummary, States};
use thiserror::Error;

use super::effect::CaptureOrder;
use crate::settings::{CONSERVATIVE_CHUNK_BYTES, RelocationSettings};
use crate::unit::PendingRequest;

/// The sizes that the chunks of one move may have (RL-132, WR-54).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSizes {
    usual: u32,
    max: u32,
}

impl ChunkSizes {
    /// The sizes for a target that advertised `advertised`, or nothing.
    pub fn new(settings: &RelocationSettings, advertised: Option<ReceiveChunkLimit>) -> Self {
        // RL-132: without an advertised limit 32 KiB takes its place, and a budget of 0 drops out.
        let limit = advertised.map_or(CONSERVATIVE_CHUNK_BYTES, ReceiveChunkLimit::get);
        let budget = settings.in_flight_budget();
        let budget = budget.and_then(|bytes| u32::try_from(bytes).ok());
        let usual = settings.chunk_limit().get().min(limit);
        let usual = budget.map_or(usual, |budget| usual.min(budget));
        // WR-54: a long stream takes larger chunks, but never more than the target said it takes.
        let max = advertised.map_or(RELOCATION_CHUNK_BYTES, ReceiveChunkLimit::get);
        Self {
            usual,
            max: max.max(usual),
        }
    }

    /// The size of most chunks.
    pub const fn usual(&self) -> u32 {
        self.usual
    }

    /// The sizes to try for a stream of at least `bytes` bytes, from small to large.
    fn tries(self, bytes: u64) -> impl Iterator<Item = ChunkBytes> {
        const STEP: u64 = 4096;
        // One chunk is left for what is not state; sizes above the usual one are round.
        let least = bytes.div_ceil(u64::from(RELOCATION_CHUNK_COUNT.saturating_sub(1)));
        let round = least.div_ceil(STEP).saturating_mul(STEP);
        let first = if least <= u64::from(self.usual) {
            self.usual
        } else {
            u32::try_from(round).unwrap_or(u32::MAX).min(self.max)
        };
        let mut next = Some(first);
        core::iter::from_fn(move || {
            let size = next?;
            next = (size < self.max).then(|| size.saturating_mul(2).min(self.max));
            ChunkBytes::new(size).ok()
        })
    }
}

/// A payload that cannot be sent: the move fails before the boundary.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// A record, timer or number breaks its rules, or the stream does not fit 4,096 chunks of the
    /// greatest size that the target takes (WR-54).
    #[error("the payload cannot be encoded")]
    Encode(#[source] EncodeError),
    /// The chunk size is none that a chunk may have.
    #[error("no legal chunk size; this is a defect")]
    ChunkSize,
}

/// What is captured of one participant. Participants are given in the order of their numbers.
#[derive(Clone, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills it in")]
pub struct ParticipantCapture {
    /// Its state; `None` means that the target recreates it.
    pub state: Option<Bytes>,
    /// Its queue, in order, with the records of [`crate::saved`] in front.
    pub queue: Vec<QueuedWork>,
    /// Its timers. Their participant is set here.
    pub timers: Vec<TimerRegistration>,
}

/// One entry of a captured queue: accepted and not started at S0, and never relayed (RL-127).
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-204")]
pub enum QueuedWork {
    /// A record.
    Record(Box<FrozenRecord>),
    /// A tick. Its participant and order are set here.
    Tick(Box<PendingTimerTick>),
}

/// The encoded stream, whole, in memory: the only copy until the boundary and its window are over.
///
/// A chunk inside one state is a slice of that state, so the state itself is not copied.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    summary: EnvelopeSummary,
    chunks: Vec<Bytes>,
    requests: Vec<PendingRequest>,
}

impl Payload {
    /// Encodes what was captured. Takes time in proportion to the state (one checksum pass).
    ///
    /// # Errors
    /// A record, timer or number breaks its rules, or the stream does not fit 4,096 chunks of any size
    /// that the target takes (WR-54).
    pub fn encode(
        order: &CaptureOrder,
        participants: &[ParticipantCapture],
    ) -> Result<Self, PayloadError> {
        Self::encode_summed(order, participants, &[])
    }

    /// As [`Self::encode`], with the checksums of the first states as far as they were made already; those states are not
    /// read again, so this takes no time to speak of.
    ///
    /// # Errors
    /// As [`Self::encode`]; and a checksum is not of as many bytes as its state has.
    pub fn encode_summed(
        order: &CaptureOrder,
        participants: &[ParticipantCapture],
        sums: &[Option<Crc32c>],
    ) -> Result<Self, PayloadError> {
        let states = participants.iter().filter_map(|one| one.state.as_ref());
        let bytes = states.fold(0_u64, |sum, state| sum.saturating_add(wide(state.len())));
        let mut failed = PayloadError::ChunkSize;
        for chunk in order.chunks.tries(bytes) {
            match encode_with(order, participants, sums, chunk) {
                Ok(payload) => return Ok(payload),
                Err(error) => failed = PayloadError::Encode(error),
            }
        }
        Err(failed)
    }

    /// What command 40 says of the stream.
    pub const fn summary(&self) -> EnvelopeSummary {
        self.summary
    }

    /// The chunks in order.
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// The requests in the saved work, whose callers wait.
    pub fn requests(&self) -> &[PendingRequest] {
        &self.requests
    }
}

fn wide(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

/// Participants with their numbers.
fn numbered<T>(participants: &[T]) -> impl Iterator<Item = (ParticipantId, &T)> {
    let ids = (1..=u64::MAX).map_while(|number| ParticipantId::new(number).ok());
    ids.zip(participants)
}

/// The queue of a participant with the order of each entry, from 1 (WR-42).
fn ordered(queue: &[QueuedWork]) -> impl Iterator<Item = (WorkOrder, &QueuedWork)> {
    let orders = (1..=u64::MAX).map_while(|number| WorkOrder::new(number).ok());
    orders.zip(queue)
}

fn encode_with(
    order: &CaptureOrder,
    participants: &[ParticipantCapture],
    sums: &[Option<Crc32c>],
    chunk: ChunkBytes,
) -> Result<Payload, EncodeError> {
    let mut requests = Vec::new();
    let mut encoder: EnvelopeEncoder<States> =
        EnvelopeEncoder::new(&order.head, count(participants.iter()), chunk)?;
    let sums = sums.iter().chain(core::iter::repeat(&None));
    for ((id, one), sum) in numbered(participants).zip(sums) {
        match (&one.state, sum) {
            (Some(state), Some(sum)) => encoder.state_summed(id, state.clone(), sum)?,
            (state, _) => encoder.state(id, state.clone())?,
        }
    }
    let all = || participants.iter().flat_map(|one| &one.queue);
    let ticks = count(all().filter(|entry| matches!(entry, QueuedWork::Tick(_))));
    let records = count(all().filter(|entry| matches!(entry, QueuedWork::Record(_))));
    let mut encoder = encoder.work(records)?;
    for (participant_id, one) in numbered(participants) {
        for (order, entry) in ordered(&one.queue) {
            if let QueuedWork::Record(record) = entry {
                requests.extend(PendingRequest::of(record));
                encoder.entry(&SavedWorkEntry {
                    participant_id,
                    order,
                    record: (**record).clone(),
                })?;
            }
        }
    }
    let timers = count(participants.iter().flat_map(|one| &one.timers));
    let mut encoder = encoder.timers(timers)?;
    for (participant_id, one) in numbered(participants) {
        let mut timers = one.timers.clone();
        timers.sort_unstable_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        for timer in timers {
            encoder.timer(&TimerRegistration {
                participant_id,
                ..timer
            })?;
        }
    }
    let mut encoder = encoder.ticks(ticks)?;
    for (participant_id, one) in numbered(participants) {
        for (order, entry) in ordered(&one.queue) {
            if let QueuedWork::Tick(tick) = entry {
                encoder.tick(&PendingTimerTick {
                    participant_id,
                    order,
                    ..(**tick).clone()
                })?;
            }
        }
    }
    let (summary, chunks) = encoder.finish()?;
    Ok(Payload {
        summary,
        chunks: chunks.into_iter().collect(),
        requests,
    })
}
