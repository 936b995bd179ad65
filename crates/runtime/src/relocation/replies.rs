//! The replies of requests that came with a moved object: numbered, counted, and written down (RL-262 to RL-264, RL-364).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use ring::digest;
use spotlane_store::{
    BlobReference, PutOutcome, RelocationProvider as _, RenewOutcome, StoreValue, Ttl,
};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::count::{
    ChunkLength, ParticipantId, RelaySequence, RelocationLogicalLength, WorkOrder,
};
use spotlane_types::generation::TargetAttemptGeneration;
use spotlane_types::id::{RelocationId, RelocationReference, Sha256};
use spotlane_wire::blob::DurableBlob;
use spotlane_wire::checksum::crc32c;
use spotlane_wire::command::reply::{ReplyRelay, ReplyRelayContext};
use spotlane_wire::reference::RelocationCoordinatorFence;
use spotlane_wire::relocation::{
    LogicalFormatVersion, ManifestChunk, ManifestChunks, RelocationDataChunk, RelocationManifest,
};
use spotlane_wire::{FrameBuffer, durable};
use tokio::sync::Notify;

use super::book::BLOB_TTL;
use crate::core::Core;
use crate::error::Error;

/// What names the answers of one move, and counts them where that is done: at its target.
#[derive(Clone, Debug)]
pub(crate) struct MoveContext {
    pub(crate) relocation: RelocationId,
    pub(crate) attempt: TargetAttemptGeneration,
    pub(crate) coordinator: RelocationCoordinatorFence,
    pub(crate) replies: Option<Arc<Replies>>,
}

impl MoveContext {
    /// How command 33 names the answer to one record (RL-265).
    pub(crate) fn of(&self, number: Number) -> ReplyRelayContext {
        ReplyRelayContext::MaintenanceRelocation {
            relocation: self.relocation,
            target_attempt_generation: self.attempt,
            coordinator: self.coordinator.clone(),
            participant_id: number.participant,
            sequence: number.sequence,
        }
    }

    /// A record of the payload has this number, whether it wants an answer or not.
    pub(super) fn seen(&self, order: WorkOrder) {
        if let Some(replies) = &self.replies {
            replies.seen(order);
        }
    }

    /// The name of the answer to a request, and its place among those that are awaited.
    pub(super) fn accept(&self, place: Place) -> (ReplyRelayContext, Option<Ticket>) {
        match &self.replies {
            Some(replies) => {
                let ticket = Ticket::take(replies, place);
                (self.of(ticket.number), Some(ticket))
            }
            None => (self.of(Number::FIRST), None),
        }
    }
}

/// The place of a record among those of its participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number {
    participant: ParticipantId,
    sequence: RelaySequence,
}

impl Number {
    pub(crate) const FIRST: Self = Self {
        participant: ParticipantId::MIN,
        sequence: RelaySequence::MIN,
    };
}

/// Where a record came from (RL-364).
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// With the payload, under this number.
    Saved(ParticipantId, WorkOrder),
    /// By command 31: it gets the next number of its participant. Units of one Actor have one.
    Relayed,
}

/// The requests that came with an object, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    /// A leaf lock.
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The greatest number that was given.
    last: u64,
    /// Requests that are with this owner and have no answer yet.
    unanswered: u64,
    /// Answers that their callers have not confirmed (RL-265).
    unconfirmed: u64,
    /// Every answer, in the order of the participants.
    terminals: BTreeMap<Number, ReplyRelay>,
    /// How many of them stand in the store.
    stored: usize,
    /// The move is completed: what is answered from here on is nobody's to keep.
    closed: bool,
}

/// What is to be done about the answers now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// All are there and not all of them are stored.
    Store,
    /// All are stored and confirmed (RL-264).
    Complete,
    /// Something is still on its way.
    Wait,
}

impl Replies {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self, order: WorkOrder) {
        let mut state = self.lock();
        state.last = state.last.max(order.get());
    }

    pub(super) fn due(&self) -> Due {
        let state = self.lock();
        if state.unanswered > 0 {
            Due::Wait
        } else if state.stored < state.terminals.len() {
            Due::Store
        } else if state.unconfirmed > 0 {
            Due::Wait
        } else {
            Due::Complete
        }
    }

    /// Waits until something has changed since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The answers as they are stored now, and how many they are.
    fn stream(&self) -> Result<(Bytes, usize), Error> {
        let state = self.lock();
        let completions = u64::try_from(state.terminals.len()).unwrap_or(u64::MAX);
        let mut stream = BytesMut::new();
        stream.put_u64(completions);
        stream.put_u64(state.unconfirmed);
        let mut frames = FrameBuffer::default();
        for terminal in state.terminals.values() {
            spotlane_wire::encode_command(terminal, &mut frames).map_err(|error| {
                Error::internal("an answer cannot be encoded").with_source(error)
            })?;
            stream.put_u8(u8::try_from(frames.frames().len()).unwrap_or(u8::MAX));
            for frame in frames.to_frames() {
                stream.put_u32(u32::try_from(frame.len()).unwrap_or(u32::MAX));
                stream.put_slice(&frame);
            }
        }
        Ok((stream.freeze(), state.terminals.len()))
    }

    /// The move is completed, so the answers are let go.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let kept = std::mem::take(&mut state.terminals);
        drop(state);
        drop(kept);
    }

    pub(super) fn stored(&self, count: usize) {
        let mut state = self.lock();
        state.stored = state.stored.max(count);
    }
}

/// The place of one request among those whose answers are awaited. Dropped without an answer, the request has gone on to
/// the next owner, or has ended without one.
#[derive(Debug)]
pub(crate) struct Ticket {
    replies: Arc<Replies>,
    number: Number,
    answered: bool,
}

impl Ticket {
    fn take(replies: &Arc<Replies>, place: Place) -> Self {
        let mut state = replies.lock();
        let (participant, sequence) = match place {
            Place::Saved(participant, order) => (participant, order.get()),
            Place::Relayed => (ParticipantId::MIN, state.last.saturating_add(1)),
        };
        state.last = state.last.max(sequence);
        state.unanswered = state.unanswered.saturating_add(1);
        drop(state);
        Self {
            replies: Arc::clone(replies),
            number: Number {
                participant,
                sequence: RelaySequence::new(sequence).unwrap_or(RelaySequence::MIN),
            },
            answered: false,
        }
    }

    /// The request has its answer; what comes back lives until its caller has it.
    pub(super) fn answered(mut self, answer: ReplyRelay) -> Delivery {
        let mut state = self.replies.lock();
        state.unanswered = state.unanswered.saturating_sub(1);
        state.unconfirmed = state.unconfirmed.saturating_add(1);
        if !state.closed {
            state.terminals.insert(self.number, answer);
        }
        drop(state);
        self.answered = true;
        self.replies.changed.notify_one();
        Delivery {
            replies: Arc::clone(&self.replies),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let mut state = self.replies.lock();
        state.unanswered = state.unanswered.saturating_sub(1);
        drop(state);
        self.replies.changed.notify_one();
    }
}

/// An answer on its way to its caller; dropped when the caller has confirmed it or is gone.
#[derive(Debug)]
pub(super) struct Delivery {
    replies: Arc<Replies>,
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let mut state = self.replies.lock();
        state.unconfirmed = state.unconfirmed.saturating_sub(1);
        drop(state);
        self.replies.changed.notify_one();
    }
}

/// What of one move stands in the Relocation Store: a manifest (`ZLTM`) and the chunks (`ZLTC`) of the stream of answers.
#[derive(Debug, Default)]
pub(super) struct Stored {
    revision: u64,
    blobs: Vec<BlobReference>,
    pub(super) renewal: Renewal,
}

/// So much of the stream stands in one chunk.
const CHUNK_BYTES: usize = 512 * 1024;

impl Stored {
    /// Writes all answers down under a new root, and gives its name and checksum for the row (RL-263, WR-63).
    pub(super) async fn write(
        &mut self,
        core: &Core,
        object: &AuthorityKey,
        relocation: RelocationId,
        replies: &Replies,
    ) -> Result<Root, Error> {
        let (stream, count) = replies.stream()?;
        self.revision = self.revision.saturating_add(1);
        // WR-63: the first root has the plain name; a blob does not change, so a later one has a name of its own.
        let root = match self.revision {
            1 => format!("relocation/{relocation}"),
            later => format!("relocation/{relocation}/{later}"),
        };
        let mut chunks = Vec::new();
        for (order, data) in stream.chunks(CHUNK_BYTES).enumerate() {
            let name = format!("{root}/chunk/{order}");
            let chunk = RelocationDataChunk {
                order: u32::try_from(order).unwrap_or(u32::MAX),
                data: DurableBlob::new(stream.slice_ref(data)).map_err(broken)?,
            };
            let stored = durable::encode(&chunk).map_err(broken)?;
            self.put(core, &name, stored).await?;
            chunks.push(ManifestChunk {
                order: chunk.order,
                reference: RelocationReference::new(&name)?,
                length: ChunkLength::new(u64::try_from(data.len()).unwrap_or(u64::MAX))?,
                checksum_crc32c: crc32c(data),
            });
        }
        let length = u64::try_from(stream.len()).unwrap_or(u64::MAX);
        let manifest = RelocationManifest {
            logical_format_version: LogicalFormatVersion,
            total_length: RelocationLogicalLength::new(length)?,
            total_checksum_crc32c: crc32c(&stream),
            inventory_digest_sha256: inventory(object),
            chunks: ManifestChunks::new(chunks).map_err(broken)?,
        };
        let manifest = durable::encode(&manifest).map_err(broken)?;
        let checksum = crc32c(&manifest);
        self.put(core, &root, manifest).await?;
        Ok(Root {
            reference: RelocationReference::new(&root)?,
            checksum,
            count,
        })
    }

    async fn put(&mut self, core: &Core, name: &str, bytes: Bytes) -> Result<(), Error> {
        let Some(store) = &core.relocation_store else {
            return Err(Error::unavailable("the host has no relocation store"));
        };
        let value = StoreValue::new(bytes).map_err(broken)?;
        let ttl = Ttl::new(BLOB_TTL).map_err(broken)?;
        let reference = reference(name)?;
        self.blobs.push(reference.clone());
        self.renewal.stored(core.clock.elapsed());
        match store.put(&reference, value, ttl).await {
            Ok(PutOutcome::Stored { .. }) => Ok(()),
            // The next root has another name.
            Ok(PutOutcome::Conflict) => Err(Error::unavailable("the blob has other bytes")),
            Err(error) => {
                let text = "the relocation store did not answer";
                Err(Error::unavailable(text).with_source(error))
            }
        }
    }

    /// RL-267: what stands there lives on.
    pub(super) async fn renew(&mut self, core: &Core) {
        // What follows takes time, and the store counts from somewhere in it.
        let began = core.clock.elapsed();
        let mut all = true;
        for blob in &self.blobs {
            if let Err(error) = renew(core, blob).await {
                tracing::warn!(target: "spotlane::runtime::relocation", %error, "a stored answer was not renewed");
                all = false;
            }
        }
        self.renewal.tried(began, all);
    }

    /// Takes everything away; the row does not point at it any more (RL-244). What stays ends by itself.
    pub(super) async fn forget(self, core: &Core) {
        let Some(store) = &core.relocation_store else {
            return;
        };
        for blob in &self.blobs {
            if let Err(error) = store.delete(blob).await {
                tracing::debug!(target: "spotlane::runtime::relocation", %error, "stored answers were not removed");
            }
        }
    }
}

async fn renew(core: &Core, blob: &BlobReference) -> Result<(), Error> {
    let Some(store) = &core.relocation_store else {
        return Ok(());
    };
    let ttl = Ttl::new(BLOB_TTL).map_err(broken)?;
    match store.renew(blob, ttl).await.map_err(broken)? {
        RenewOutcome::Missing => Err(Error::internal("the blob is gone")),
        RenewOutcome::Renewed { .. } => Ok(()),
    }
}

/// RL-267: when the blobs of a move have to be renewed, counted from the oldest of them, whatever else happens meanwhile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Renewal {
    due: Option<Duration>,
}

/// Blobs live for [`BLOB_TTL`] and are renewed with half of it left.
const RENEW_AFTER: Duration = Duration::from_hours(12);
/// After a renewal that failed, the next one comes soon enough for many more.
const RENEW_AGAIN: Duration = Duration::from_mins(5);

impl Renewal {
    /// A blob was stored at this time of the host.
    fn stored(&mut self, now: Duration) {
        self.due
            .get_or_insert_with(|| now.saturating_add(RENEW_AFTER));
    }

    /// All blobs were renewed, or some were not, in an attempt that began then.
    const fn tried(&mut self, began: Duration, all: bool) {
        let again = if all { RENEW_AFTER } else { RENEW_AGAIN };
        self.due = Some(began.saturating_add(again));
    }

    /// How long there is time; `None` when there is nothing to renew.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        self.due.map(|due| due.saturating_sub(now))
    }
}

/// Where the stored answers of a move begin.
pub(super) struct Root {
    pub(super) reference: RelocationReference,
    pub(super) checksum: u32,
    /// How many answers there are.
    pub(super) count: usize,
}

fn reference(name: &str) -> Result<BlobReference, Error> {
    BlobReference::new(name).map_err(broken)
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::internal("stored answers cannot be encoded").with_source(error)
}

/// The digest of the participants: of their authority keys, as everywhere (ST-84).
fn inventory(object: &AuthorityKey) -> Sha256 {
    let key = object.to_string();
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(&u16::try_from(key.len()).unwrap_or(u16::MAX).to_be_bytes());
    context.update(key.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    Sha256::new(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    /// RL-267: what comes later does not put off what the first blob needs, and a store that does not answer is asked again
    /// long before the blobs end.
    #[test]
    fn blobs_are_renewed_with_half_of_their_life_left() {
        let mut renewal = Renewal::default();
        assert_eq!(renewal.left(HOUR), None);
        renewal.stored(HOUR);
        renewal.stored(HOUR * 11);
        assert_eq!(renewal.left(HOUR * 11), Some(HOUR * 2));
        assert_eq!(renewal.left(HOUR * 14), Some(Duration::ZERO));
        renewal.tried(HOUR * 13, false);
        assert_eq!(renewal.left(HOUR * 13), Some(RENEW_AGAIN));
        assert!(HOUR * 12 + RENEW_AGAIN * 10 < BLOB_TTL);
        renewal.tried(HOUR * 14, true);
        assert_eq!(renewal.left(HOUR * 14), Some(RENEW_AFTER));
    }
}
