//! One event in, the complete list of effects out.

mod assembly;
mod commit;
mod graph;
mod prewarm;
mod relay;
mod restore;

use bytes::Bytes;
use spotlane_types::count::{BoundaryRecordCount, RelocationChunkCount};
use spotlane_types::generation::AuthorityOwnerGeneration;
use spotlane_types::kind::{RelocationPhase, RelocationRole};
use spotlane_types::machine::Machine as _;
use spotlane_wire::blob::DurableBlob;
use spotlane_wire::frozen::FrozenRecord;
use spotlane_wire::stream::EnvelopeHead;

use super::*;
use crate::boundary::Boundary;
use crate::identity::RowRead;
use crate::saved::{binding_record, join_record};
use crate::source::CaptureOrder;
use crate::source::payload::{ChunkSizes, ParticipantCapture, Payload, QueuedWork};
use crate::unit::sample::{
    ask, at, binding, connection, identity, join, note, object, plan, row_of_source, row_of_target,
    target,
};
use crate::unit::show;

const NOTHING: [&str; 0] = [];

/// A target, and the source that a test plays by hand.
struct Unit {
    target: Target<String>,
    payload: Payload,
    prepare: RelocationPrepare,
}

/// A payload in chunks of `chunk` bytes.
fn payload(state: Option<Bytes>, queue: Vec<FrozenRecord>, chunk: u32) -> Payload {
    let settings = RelocationSettings::builder()
        .chunk_limit(chunk)
        .build()
        .unwrap();
    let order = CaptureOrder {
        head: EnvelopeHead {
            relocation: identity(1).relocation,
            object: object(),
            application_version: plan(1).application_version,
        },
        chunks: ChunkSizes::new(&settings, None),
    };
    let capture = ParticipantCapture {
        state,
        queue: queue
            .into_iter()
            .map(|record| QueuedWork::Record(Box::new(record)))
            .collect(),
        timers: Vec::new(),
    };
    Payload::encode(&order, &[capture]).unwrap()
}

fn prepare_for(number: u64, payload: &Payload) -> RelocationPrepare {
    let (identity, plan) = (identity(number), plan(number));
    let summary = payload.summary();
    RelocationPrepare {
        relocation: identity.relocation,
        target_attempt_generation: identity.attempt,
        coordinator: identity.coordinator,
        target: target(),
        initiator_role: RelocationRole::Source,
        object: object(),
        source_node_rid: plan.source.node_rid,
        source_node_generation: plan.source.node_generation,
        payload_total_length: summary.total_length,
        payload_chunk_count: summary.chunk_count,
        payload_checksum_crc32c: summary.checksum_crc32c,
        application_version: plan.application_version,
    }
}

impl Unit {
    fn with(queue: Vec<FrozenRecord>) -> Self {
        Self::of(payload(Some(Bytes::from_static(b"state")), queue, 1000))
    }

    fn of(payload: Payload) -> Self {
        Self {
            target: Target::new(RelocationSettings::default()),
            prepare: prepare_for(1, &payload),
            payload,
        }
    }

    fn step(&mut self, millis: u64, event: TargetEvent<String>) -> Vec<String> {
        let mut out = Vec::new();
        self.target.on_event(at(millis), event, &mut out);
        out.iter().map(show::target).collect()
    }

    fn time(&mut self, millis: u64) -> Vec<String> {
        let mut out = Vec::new();
        self.target.on_deadline(at(millis), &mut out);
        out.iter().map(show::target).collect()
    }

    fn prepare(&self, on: u64) -> TargetEvent<String> {
        TargetEvent::Prepare {
            connection: connection(on),
            prepare: Box::new(self.prepare.clone()),
            local: LocalCheck::Fits,
        }
    }

    fn chunk(&self, on: u64, ordinal: u32) -> TargetEvent<String> {
        let data = self.payload.chunks()[ordinal as usize].clone();
        self.chunk_with(on, ordinal, data)
    }

    fn chunk_with(&self, on: u64, ordinal: u32, data: Bytes) -> TargetEvent<String> {
        TargetEvent::Chunk {
            connection: connection(on),
            chunk: Box::new(RelocationState {
                relocation: self.prepare.relocation,
                target_attempt_generation: self.prepare.target_attempt_generation,
                coordinator: self.prepare.coordinator.clone(),
                sender_role: RelocationRole::Source,
                object: object(),
                chunk_ordinal: ordinal,
                chunk_data: DurableBlob::new(data).unwrap(),
            }),
        }
    }

    fn relay(&self, on: u64, text: &str) -> TargetEvent<String> {
        TargetEvent::Relay {
            connection: connection(on),
            relay: Box::new(RelocationData {
                relocation: self.prepare.relocation,
                target_attempt_generation: self.prepare.target_attempt_generation,
                coordinator: self.prepare.coordinator.clone(),
                sender_role: RelocationRole::Source,
                object: object(),
                record: Box::new(note(text)),
            }),
        }
    }

    fn cutover(&self, on: u64, boundary: &Boundary) -> TargetEvent<String> {
        TargetEvent::Cutover {
            connection: connection(on),
            cutover: Box::new(RelocationCutover {
                relocation: self.prepare.relocation,
                target_attempt_generation: self.prepare.target_attempt_generation,
                coordinator: self.prepare.coordinator.clone(),
                sender_role: RelocationRole::Source,
                object: object(),
                boundary_record_count: boundary.count(),
                boundary_checksum_crc32c: boundary.checksum(),
            }),
        }
    }

    /// Sends a batch over a connection, without its cutover.
    fn relay_all(&mut self, millis: u64, on: u64, texts: &[&str]) -> Vec<String> {
        let mut effects = Vec::new();
        for text in texts {
            effects.extend(self.step(millis, self.relay(on, text)));
        }
        effects
    }

    /// The cutover of a batch of these records.
    fn cutover_of(&self, on: u64, texts: &[&str]) -> TargetEvent<String> {
        let mut boundary = Boundary::default();
        for text in texts {
            boundary.push(&note(text)).unwrap();
        }
        self.cutover(on, &boundary)
    }

    /// Command 40 at 0 ms, all chunks, the row: instances are being restored.
    fn assembled(queue: Vec<FrozenRecord>) -> Self {
        let mut unit = Self::with(queue);
        unit.step(0, unit.prepare(1));
        unit.step(0, read_source());
        for ordinal in 0..u32::try_from(unit.payload.chunks().len()).unwrap() {
            unit.step(0, unit.chunk(1, ordinal));
        }
        unit
    }

    /// The ready reply was sent at 10 ms.
    fn ready(queue: Vec<FrozenRecord>) -> Self {
        let mut unit = Self::assembled(queue);
        unit.step(10, TargetEvent::Restored(Ok(())));
        assert_eq!(unit.target.stage(), TargetStage::RelayReady);
        unit
    }

    /// The owner change is out since 20 ms, after a batch of these records.
    fn committing(queue: Vec<FrozenRecord>, batch: &[&str]) -> Self {
        let mut unit = Self::ready(queue);
        unit.relay_all(15, 1, batch);
        unit.step(20, unit.cutover_of(1, batch));
        assert_eq!(unit.target.stage(), TargetStage::CutoverReceived);
        unit
    }

    /// Dispatch is open.
    fn open(batch: &[&str]) -> Self {
        let mut unit = Self::committing(Vec::new(), batch);
        unit.step(30, applied());
        assert_eq!(unit.target.stage(), TargetStage::TargetOpen);
        unit
    }
}

fn applied() -> TargetEvent<String> {
    TargetEvent::CommitAnswered(CommitAnswer::Applied {
        authority_owner_generation: AuthorityOwnerGeneration::new(42).unwrap(),
    })
}

fn answered(answer: CommitAnswer) -> TargetEvent<String> {
    TargetEvent::CommitAnswered(answer)
}

fn read_source() -> TargetEvent<String> {
    TargetEvent::AuthorityRead(RowRead::Row(Box::new(row_of_source())))
}

fn read_target() -> TargetEvent<String> {
    let row = row_of_target(1, RelocationPhase::Committed);
    TargetEvent::AuthorityRead(RowRead::Row(Box::new(row)))
}

fn direct(text: &str) -> TargetEvent<String> {
    TargetEvent::Arrived(text.to_owned())
}
