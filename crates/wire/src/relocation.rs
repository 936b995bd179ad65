//! What a move says about its object, and the parts of the relocation stream.

use core::cmp::Ordering;

use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::bound::{MAINTENANCE_AGGREGATE_BYTES, MAINTENANCE_AGGREGATE_PARTICIPANTS};
use spotlane_types::count::{
    ApplicationVersion, ChunkLength, DeliveryIndex, MaxCatchUpTicks, ParticipantId, PeriodMillis,
    RelocationLogicalLength, ScheduledIndex, SkippedTicks, WorkOrder,
};
use spotlane_types::generation::{AggregateGeneration, AuthorityOwnerGeneration, ObjectGeneration};
use spotlane_types::id::{
    AggregateId, HandlerType, RelocationId, RelocationReference, Sha256, SpotId, StableType,
    StoreVersion, TimerName,
};
use spotlane_types::kind::{FailureCode, RelocationPhase, RelocationRole, StatefulObjectKind};
use spotlane_types::kind::{TerminalResult, TimerOverrunPolicyKind};
use spotlane_types::time::UnixMillis;

use crate::blob::{DurableBlob, ParticipantMutation, StateBlob};
use crate::error::{Breach, Reason};
use crate::frozen::FrozenRecord;
#[cfg(feature = "serde")]
use crate::json::{self, JsonError, Node};
use crate::layout::{Layout, standalone, wire_envelope, wire_struct, wire_union, wire_vector};
use crate::reader::{Read, Reader};
use crate::reference::{ActorRef, SpotRef};
use crate::terminal::check_terminal;
use crate::width::{narrow, wide};
use crate::writer::{Writer, Written};

wire_union! {
    /// The object that moves, in the incarnation and tenure that the move started with.
    "relocation-object-identity" enum RelocationObject on "objectKind" StatefulObjectKind len u16 {
        /// An Actor.
        Actor {
            /// The incarnation.
            actor: ActorRef = "actor",
            /// The tenure that the commit ends.
            expected_authority_owner_generation: AuthorityOwnerGeneration =
                "expectedAuthorityOwnerGeneration",
        }
        /// A User Spot.
        UserSpot {
            /// The incarnation.
            spot: SpotRef = "spot",
            /// The tenure that the commit ends.
            expected_authority_owner_generation: AuthorityOwnerGeneration =
                "expectedAuthorityOwnerGeneration",
        }
        /// An Instance Spot.
        InstanceSpot {
            /// Its type, by which the target finds the factory.
            instance_type: StableType = "instanceType",
            /// Its address.
            spot_id: SpotId = "spotId",
            /// The incarnation.
            object_generation: ObjectGeneration = "objectGeneration",
        }
    }
}

impl RelocationObject {
    /// The authority row of the object; its text form numbers the participants (WR-41).
    pub fn authority_key(&self) -> AuthorityKey {
        match self {
            Self::Actor { actor, .. } => AuthorityKey::Actor(actor.actor_id.clone()),
            Self::UserSpot { spot, .. } => AuthorityKey::Spot(spot.spot_id.clone()),
            Self::InstanceSpot { spot_id, .. } => AuthorityKey::Spot(spot_id.clone()),
        }
    }
}

fn control_data_rule(data: &RelocationControlData) -> Result<(), Breach> {
    check_terminal(data.terminal_result, data.failure_code)
}

wire_struct! {
    /// What a frozen control record of a move says.
    "relocation-control-data" struct RelocationControlData rule control_data_rule {
        /// How far the move has got.
        phase: RelocationPhase = "phase",
        /// Who speaks.
        role: RelocationRole = "role",
        /// The move.
        relocation: RelocationId = "relocation",
        /// The object that moves.
        object: RelocationObject = "object",
        /// How it ended.
        terminal_result: TerminalResult = "terminalResult",
        /// Why it failed.
        failure_code: FailureCode = "failureCode",
    }

    /// One participant of a stored aggregate and the change of its row.
    "maintenance-aggregate-participant-v1" struct AggregateParticipant {
        /// The participant.
        object: RelocationObject = "object",
        /// The version of its row.
        expected_store_version: StoreVersion = "expectedStoreVersion",
        /// The encoded change.
        mutation: ParticipantMutation = "mutation",
    }

    /// One record of the saved work of a move.
    "saved-work-entry" struct SavedWorkEntry {
        /// Whose work it is.
        participant_id: ParticipantId = "participantId",
        /// Its place in the order of the participant.
        order: WorkOrder = "order",
        /// The record as it was accepted.
        record: FrozenRecord = "record",
    }

    /// One stored chunk, as its manifest lists it.
    "relocation-chunk-entry-v1" struct ManifestChunk {
        /// Its place in the stream.
        order: u32 = "order",
        /// Where it is stored.
        reference: RelocationReference = "reference",
        /// Its bytes.
        length: ChunkLength = "length",
        /// CRC-32C of its bytes.
        checksum_crc32c: u32 = "checksumCrc32c",
    }

    /// The list of the stored chunks of a stream.
    "relocation-manifest-v1" struct RelocationManifest {
        /// Always 1.
        logical_format_version: LogicalFormatVersion = "logicalFormatVersion",
        /// The bytes of the whole stream.
        total_length: RelocationLogicalLength = "totalLength",
        /// CRC-32C of the whole stream.
        total_checksum_crc32c: u32 = "totalChecksumCrc32c",
        /// The digest of the participants.
        inventory_digest_sha256: Sha256 = "inventoryDigestSha256",
        /// The chunks in order.
        chunks: ManifestChunks = "chunks",
    }

    /// One stored chunk of a stream.
    "relocation-data-chunk-v1" struct RelocationDataChunk {
        /// Its place in the stream.
        order: u32 = "order",
        /// Its bytes.
        data: DurableBlob = "data",
    }

    /// The state of one participant.
    "relocation-participant-application-state" struct ParticipantState {
        /// The participant.
        participant_id: ParticipantId = "participantId",
        /// Its state; `None` means that the target recreates it (WR-41).
        application_state: Option<StateBlob> = "applicationState",
    }

    /// One timer of a participant.
    "relocation-timer-registration" struct TimerRegistration {
        /// Whose timer it is.
        participant_id: ParticipantId = "participantId",
        /// Its name, unique for the participant.
        name: TimerName = "name",
        /// Its handler.
        handler_type: HandlerType = "handlerType",
        /// Its period in milliseconds.
        period_milliseconds: PeriodMillis = "periodMilliseconds",
        /// What it does with late ticks.
        overrun_policy: TimerOverrunPolicyKind = "overrunPolicy",
        /// How many of them it delivers at most.
        max_catch_up_ticks: MaxCatchUpTicks = "maxCatchUpTicks",
        /// Whether a failing handler ends the timer.
        stop_on_unhandled_exception: bool = "stopOnUnhandledException",
        /// The last delivery that was completed, if any.
        last_completed_delivery_index: Option<DeliveryIndex> = "lastCompletedDeliveryIndex",
        /// The last due tick that was completed, if any.
        last_completed_scheduled_index: Option<ScheduledIndex> = "lastCompletedScheduledIndex",
        /// When the next tick is due.
        next_scheduled_at_unix_milliseconds: UnixMillis = "nextScheduledAtUnixMilliseconds",
    }

    /// One tick that was accepted but not delivered.
    "relocation-pending-timer-tick" struct PendingTimerTick {
        /// Whose timer it is.
        participant_id: ParticipantId = "participantId",
        /// Its place in the order of the participant, shared with saved work (WR-42).
        order: WorkOrder = "order",
        /// The timer.
        timer_name: TimerName = "timerName",
        /// Which delivery it is.
        delivery_index: DeliveryIndex = "deliveryIndex",
        /// Which due tick it is.
        scheduled_index: ScheduledIndex = "scheduledIndex",
        /// When it was due.
        scheduled_at_unix_milliseconds: UnixMillis = "scheduledAtUnixMilliseconds",
        /// How many due ticks it stands for besides itself.
        skipped_ticks: SkippedTicks = "skippedTicks",
    }

    /// A whole relocation stream as one value, for tests and tools.
    ///
    /// A runtime never holds one: it writes with [`crate::stream::EnvelopeEncoder`] and reads with
    /// [`crate::stream::EnvelopeDecoder`], piece by piece (WR-43).
    "relocation-envelope-v1" struct RelocationEnvelope rule disjoint_orders {
        /// The move.
        relocation: RelocationId = "relocation",
        /// The object that moves.
        object: RelocationObject = "object",
        /// The version of the application's state.
        application_version: ApplicationVersion = "applicationVersion",
        /// The state of every participant.
        application_states: ParticipantStates = "applicationStates",
        /// Work that was accepted and not begun.
        saved_work: SavedWork = "savedWork",
        /// The timers.
        timer_registrations: TimerRegistrations = "timerRegistrations",
        /// Their ticks that were accepted and not delivered.
        pending_timer_ticks: PendingTimerTicks = "pendingTimerTicks",
    }
}

/// WR-42: within one participant no order occurs in both saved work and pending ticks.
fn disjoint_orders(envelope: &RelocationEnvelope) -> Result<(), Breach> {
    let mut work = envelope
        .saved_work
        .as_slice()
        .iter()
        .map(work_key)
        .peekable();
    for tick in envelope.pending_timer_ticks.as_slice() {
        let key = tick_key(tick);
        while work.next_if(|saved| *saved < key).is_some() {}
        if work.peek() == Some(&key) {
            return Err(Breach::new("pendingTimerTicks", ORDER_IN_BOTH));
        }
    }
    Ok(())
}

pub(crate) const ORDER_IN_BOTH: &str =
    "the order of the participant occurs in saved work and in pending ticks";

/// Where a record stands in the order of its participant.
pub(crate) type OrderKey = (ParticipantId, WorkOrder);

pub(crate) fn work_key(entry: &SavedWorkEntry) -> OrderKey {
    (entry.participant_id, entry.order)
}

pub(crate) fn tick_key(tick: &PendingTimerTick) -> OrderKey {
    (tick.participant_id, tick.order)
}

fn by_authority_key(a: &AggregateParticipant, b: &AggregateParticipant) -> Ordering {
    a.object.authority_key().cmp(&b.object.authority_key())
}

fn by_chunk_order(a: &ManifestChunk, b: &ManifestChunk) -> Ordering {
    a.order.cmp(&b.order)
}

fn by_participant(a: &ParticipantState, b: &ParticipantState) -> Ordering {
    a.participant_id.cmp(&b.participant_id)
}

fn by_work_key(a: &SavedWorkEntry, b: &SavedWorkEntry) -> Ordering {
    work_key(a).cmp(&work_key(b))
}

pub(crate) fn by_timer(a: &TimerRegistration, b: &TimerRegistration) -> Ordering {
    (a.participant_id, &a.name).cmp(&(b.participant_id, &b.name))
}

fn by_tick_key(a: &PendingTimerTick, b: &PendingTimerTick) -> Ordering {
    tick_key(a).cmp(&tick_key(b))
}

wire_vector! {
    /// The participants of a stored aggregate, by authority key.
    "aggregate-participant-vector" vector AggregateParticipants of AggregateParticipant,
        u16 max MAINTENANCE_AGGREGATE_PARTICIPANTS, by by_authority_key;
    /// The chunks of a manifest, by order.
    "relocation-chunk-vector-v1" vector ManifestChunks of ManifestChunk,
        u32 max 4096, by by_chunk_order;
    /// The states of a unit, by participant. Its number is not capped (WR-41); the stream is.
    "relocation-participant-application-state-vector" vector ParticipantStates of ParticipantState,
        u32 max 4_294_967_295, by by_participant;
    /// The saved work of a unit, by participant and order. Its number is not capped (WR-41).
    "saved-work-vector" vector SavedWork of SavedWorkEntry,
        u32 max 4_294_967_295, by by_work_key;
    /// The timers of a unit, by participant and name. Its number is not capped (WR-41).
    "relocation-timer-registration-vector" vector TimerRegistrations of TimerRegistration,
        u32 max 4_294_967_295, by by_timer;
    /// The pending ticks of a unit, by participant and order. Its number is not capped (WR-41).
    "relocation-pending-timer-tick-vector" vector PendingTimerTicks of PendingTimerTick,
        u32 max 4_294_967_295, by by_tick_key;
}

wire_envelope! {
    /// A stored change of a whole aggregate.
    "maintenance-aggregate-v1" envelope MaintenanceAggregate
        len u32 max MAINTENANCE_AGGREGATE_BYTES,
    {
        /// The aggregate.
        aggregate_id: AggregateId = "aggregateId",
        /// Its change.
        aggregate_generation: AggregateGeneration = "aggregateGeneration",
        /// The Spot that leads it.
        owner_spot: SpotRef = "ownerSpot",
        /// Everything that moves with it.
        participants: AggregateParticipants = "participants",
        /// The digest of the participants.
        inventory_digest_sha256: Sha256 = "inventoryDigestSha256",
    }
}

/// The version of the logical stream that a manifest describes: always 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "there is one version of the logical format"
)]
pub struct LogicalFormatVersion;

impl Layout for LogicalFormatVersion {
    const MIN: usize = 1;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        crate::layout::read_version(r).map(|()| Self)
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        w.u8(1);
        Ok(())
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        Node::Number(1)
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        match node.number()? {
            1 => Ok(Self),
            other => Err(JsonError::new(format!("{other} instead of 1"))),
        }
    }
}

/// `relocation-application-state`: presence, the length of the case, and the state with its own length.
impl Layout for Option<StateBlob> {
    const MIN: usize = 9;

    fn read(r: &mut Reader<'_>) -> Read<Self> {
        let present = bool::read(r).map_err(|e| e.within("hasState"))?;
        let part = r.part_u64()?;
        let state = if present {
            Some(StateBlob::read(r).map_err(|e| e.within("payload"))?)
        } else {
            None
        };
        r.end_part(&part)?;
        Ok(state)
    }

    fn write(&self, w: &mut Writer<'_>) -> Written {
        self.is_some().write(w)?;
        let part = w.open_u64();
        if let Some(state) = self {
            state.write(w)?;
        }
        w.close_u64(part)
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> Node {
        json::object(|m| m.flagged("hasState", "payload", self.as_ref()))
    }

    #[cfg(feature = "serde")]
    fn from_json(node: Node) -> Result<Self, JsonError> {
        json::read_object(node, |object| object.flagged("hasState", "payload"))
    }
}

standalone!("relocation-application-state", Option<StateBlob>);

/// Where a state starts in the stream, before its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateHead {
    pub(crate) participant_id: ParticipantId,
    /// The bytes of the state; `None` means that there is none.
    pub(crate) state_bytes: Option<u64>,
}

impl StateHead {
    /// Bytes of a head with a state: participant, presence, length of the case, length of the state.
    const WITH_STATE: u64 = 8;

    pub(crate) fn write(self, w: &mut Writer<'_>) {
        w.u64(self.participant_id.get());
        w.u8(u8::from(self.state_bytes.is_some()));
        match self.state_bytes {
            Some(bytes) => {
                w.u64(bytes.saturating_add(Self::WITH_STATE));
                w.u64(bytes);
            }
            None => w.u64(0),
        }
    }

    /// Reads a head and judges the state by its lengths, before any of its bytes is there. `left` is
    /// how much of the stream follows what the reader holds.
    pub(crate) fn read(r: &mut Reader<'_>, left: u64) -> Read<Self> {
        let participant_id = ParticipantId::read(r).map_err(|e| e.within("participantId"))?;
        let state_bytes = Self::read_state(r, left).map_err(|e| e.within("applicationState"))?;
        Ok(Self {
            participant_id,
            state_bytes,
        })
    }

    fn read_state(r: &mut Reader<'_>, left: u64) -> Read<Option<u64>> {
        let present = bool::read(r).map_err(|e| e.within("hasState"))?;
        let case_at = r.offset();
        let case = r.u64()?;
        if !present {
            return match case {
                0 => Ok(None),
                actual => Err(Reader::invalid(
                    case_at,
                    Reason::Expected {
                        expected: 0,
                        actual,
                    },
                )),
            };
        }
        let at = r.offset();
        let bytes = r.u64().map_err(|e| e.within("payload"))?;
        if bytes > StateBlob::BYTES_MAX {
            let reason = Reason::Above {
                bound: StateBlob::BYTES_MAX,
                actual: bytes,
            };
            return Err(Reader::invalid(at, reason).within("payload"));
        }
        let there = left.saturating_add(wide(r.remaining()));
        if bytes > there {
            // Counted from the end of the stream, so that it cannot be taken for "not yet".
            let missing = bytes.saturating_sub(there).saturating_add(left);
            let missing = narrow(missing);
            return Err(crate::error::DecodeError::new(
                crate::error::ErrorKind::TruncatedField,
                at,
                Reason::Missing(missing),
            )
            .within("payload"));
        }
        let expected = bytes.saturating_add(Self::WITH_STATE);
        if case != expected {
            return Err(Reader::invalid(
                case_at,
                Reason::Expected {
                    expected,
                    actual: case,
                },
            ));
        }
        Ok(Some(bytes))
    }
}
