//! Values for tests.

use core::num::NonZeroU64;
use core::time::Duration;

use bytes::Bytes;
use spotlane_types::count::{
    ApplicationVersion, DeliveryIndex, MaxCatchUpTicks, ParticipantId, PeriodMillis, ReplyRouteId,
    ScheduledIndex, SessionSequence, SkippedTicks, WorkOrder,
};
use spotlane_types::generation::{
    AuthorityOwnerGeneration, BindingGeneration, NodeGeneration, ObjectGeneration,
    OwnerLeaseGeneration, TargetAttemptGeneration,
};
use spotlane_types::id::{NodeRid, OperationId, RelocationId, SessionRid};
use spotlane_types::kind::{MeshOperationKind, TimerOverrunPolicyKind};
use spotlane_types::time::{Monotonic, UnixMillis};
use spotlane_wire::blob::PayloadBytes;
use spotlane_wire::frozen::{FrozenRecord, FrozenRecordBody, FrozenSource};
use spotlane_wire::payload::ApplicationPayload;
use spotlane_wire::reference::{
    ActorRef, ActorRouteFence, RelocationCoordinatorFence, RelocationTargetFence, SpotMembership,
    SpotRef,
};
use spotlane_wire::relocation::{PendingTimerTick, RelocationObject, TimerRegistration};

use super::{Binding, EarlyProgress, MovePlan, SessionOwner, UnitPolicy};
use crate::identity::{
    AuthorityView, ConnectionId, OwnerView, ProgressView, RelocationIdentity, SourceFence,
};
use crate::saved::JoinData;

pub(crate) fn at(millis: u64) -> Monotonic {
    Monotonic::ORIGIN.after(Duration::from_millis(millis))
}

pub(crate) fn connection(number: u64) -> ConnectionId {
    ConnectionId::new(NonZeroU64::new(number).unwrap())
}

pub(crate) fn rid(text: &str) -> NodeRid {
    NodeRid::new(text.as_bytes()).unwrap()
}

pub(crate) fn identity(number: u64) -> RelocationIdentity {
    RelocationIdentity {
        relocation: RelocationId::new(0, number).unwrap(),
        attempt: TargetAttemptGeneration::new(number).unwrap(),
        coordinator: RelocationCoordinatorFence {
            coordinator_owner_id: "owner-a".parse().unwrap(),
            coordinator_lease_generation: OwnerLeaseGeneration::new(51).unwrap(),
            coordinator_node_rid: rid("node-a"),
            coordinator_node_generation: NodeGeneration::new(2).unwrap(),
            expected_authority_store_version: "v7".parse().unwrap(),
        },
    }
}

pub(crate) fn actor() -> ActorRef {
    ActorRef {
        actor_id: "player".parse().unwrap(),
        object_generation: ObjectGeneration::new(31).unwrap(),
    }
}

pub(crate) fn object() -> RelocationObject {
    RelocationObject::Actor {
        actor: actor(),
        expected_authority_owner_generation: AuthorityOwnerGeneration::new(41).unwrap(),
    }
}

pub(crate) fn target() -> RelocationTargetFence {
    RelocationTargetFence {
        target_node_rid: rid("node-b"),
        target_node_generation: NodeGeneration::new(3).unwrap(),
        target_owner_id: "owner-b".parse().unwrap(),
        target_owner_lease_generation: OwnerLeaseGeneration::new(52).unwrap(),
    }
}

pub(crate) fn source_route() -> ActorRouteFence {
    ActorRouteFence {
        actor: actor(),
        target_node_rid: rid("node-a"),
        target_node_generation: NodeGeneration::new(2).unwrap(),
        expected_authority_owner_generation: AuthorityOwnerGeneration::new(41).unwrap(),
        expected_owner_lease_generation: OwnerLeaseGeneration::new(51).unwrap(),
    }
}

/// A move of one Actor from node a to node b, with 10 s of time.
pub(crate) fn plan(number: u64) -> MovePlan {
    MovePlan {
        identity: identity(number),
        object: object(),
        source: SourceFence {
            node_rid: rid("node-a"),
            node_generation: NodeGeneration::new(2).unwrap(),
            authority_owner_generation: AuthorityOwnerGeneration::new(41).unwrap(),
        },
        target: target(),
        application_version: ApplicationVersion::new(1).unwrap(),
        policy: UnitPolicy::Movable,
        early_progress: EarlyProgress::None,
        receive_chunk_limit: None,
        connection: connection(1),
        deadline: at(10_000),
    }
}

pub(crate) fn binding(number: u64) -> Binding {
    Binding {
        actor: source_route(),
        session_owner: SessionOwner {
            node_rid: rid("node-s"),
            node_generation: NodeGeneration::new(4).unwrap(),
            owner_id: "owner-s".parse().unwrap(),
            owner_lease_generation: OwnerLeaseGeneration::new(53).unwrap(),
        },
        session_rid: SessionRid::new(&number.to_be_bytes()).unwrap(),
        binding_generation: BindingGeneration::new(number).unwrap(),
        next_sequence: SessionSequence::new(9).unwrap(),
    }
}

/// A Join from one Spot to another.
pub(crate) fn join() -> JoinData {
    let spot = |id: &str| SpotMembership {
        spot: SpotRef {
            spot_id: id.parse().unwrap(),
            object_generation: actor().object_generation,
        },
    };
    JoinData {
        actor: actor(),
        previous: Some(spot("old")),
        current: spot("new"),
        operation: OperationId::new(5, 6).unwrap(),
    }
}

/// The row as the source owns it.
pub(crate) fn row_of_source() -> AuthorityView {
    let fence = identity(1).coordinator;
    AuthorityView {
        object_generation: actor().object_generation,
        authority_owner_generation: AuthorityOwnerGeneration::new(41).unwrap(),
        owner: OwnerView {
            owner_id: fence.coordinator_owner_id,
            owner_lease_generation: fence.coordinator_lease_generation,
            node_rid: fence.coordinator_node_rid,
            node_generation: fence.coordinator_node_generation,
        },
        store_version: fence.expected_authority_store_version,
        progress: None,
    }
}

/// The row as the target of move `number` owns it.
pub(crate) fn row_of_target(
    number: u64,
    phase: spotlane_types::kind::RelocationPhase,
) -> AuthorityView {
    let fence = target();
    AuthorityView {
        object_generation: actor().object_generation,
        authority_owner_generation: AuthorityOwnerGeneration::new(42).unwrap(),
        owner: OwnerView {
            owner_id: fence.target_owner_id,
            owner_lease_generation: fence.target_owner_lease_generation,
            node_rid: fence.target_node_rid,
            node_generation: fence.target_node_generation,
        },
        store_version: "v8".parse().unwrap(),
        progress: Some(ProgressView {
            relocation: identity(number).relocation,
            phase,
        }),
    }
}

fn node_a() -> FrozenSource {
    FrozenSource::Node {
        source_node_rid: rid("node-c"),
        source_node_generation: NodeGeneration::new(5).unwrap(),
        source_owner_id: "owner-c".parse().unwrap(),
        source_owner_lease_generation: OwnerLeaseGeneration::new(54).unwrap(),
    }
}

fn payload(text: &str) -> ApplicationPayload {
    ApplicationPayload {
        packet_name: "note".parse().unwrap(),
        content_type: "text/plain".parse().unwrap(),
        payload: PayloadBytes::new(Bytes::copy_from_slice(text.as_bytes())).unwrap(),
    }
}

fn operation(text: &str) -> OperationId {
    let sum = text
        .bytes()
        .fold(7, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(byte));
    OperationId::new(1, sum).unwrap()
}

/// A one-way message to the Actor.
pub(crate) fn note(text: &str) -> FrozenRecord {
    FrozenRecord {
        source: node_a(),
        metadata: None,
        operation_id: Some(operation(text)),
        operation_kind: MeshOperationKind::None,
        reply_route: None,
        body: FrozenRecordBody::ActorSend {
            target_actor: source_route(),
            payload: payload(text),
        },
    }
}

/// A request to the Actor.
pub(crate) fn ask(text: &str) -> FrozenRecord {
    FrozenRecord {
        source: node_a(),
        metadata: None,
        operation_id: Some(operation(text)),
        operation_kind: MeshOperationKind::ActorRequest,
        reply_route: Some(ReplyRouteId::new(operation(text).low()).unwrap()),
        body: FrozenRecordBody::ActorRequest {
            target_actor: source_route(),
            payload: payload(text),
        },
    }
}

/// What stands in the payload of a record.
pub(crate) fn text_of(record: &FrozenRecord) -> String {
    let (FrozenRecordBody::ActorSend { payload, .. }
    | FrozenRecordBody::ActorRequest { payload, .. }) = &record.body
    else {
        return format!("{:?}", record.kind());
    };
    String::from_utf8_lossy(payload.payload.as_bytes()).into_owned()
}

/// A timer of the object, and a tick of it that has not run.
pub(crate) fn timer(name: &str) -> TimerRegistration {
    TimerRegistration {
        participant_id: ParticipantId::MIN,
        name: name.parse().unwrap(),
        handler_type: "ticked".parse().unwrap(),
        period_milliseconds: PeriodMillis::new(10).unwrap(),
        overrun_policy: TimerOverrunPolicyKind::SkipLateTicks,
        max_catch_up_ticks: MaxCatchUpTicks::new(1).unwrap(),
        stop_on_unhandled_exception: false,
        last_completed_delivery_index: None,
        last_completed_scheduled_index: None,
        next_scheduled_at_unix_milliseconds: UnixMillis::new(20).unwrap(),
    }
}

pub(crate) fn tick(name: &str) -> PendingTimerTick {
    PendingTimerTick {
        participant_id: ParticipantId::MIN,
        order: WorkOrder::new(1).unwrap(),
        timer_name: name.parse().unwrap(),
        delivery_index: DeliveryIndex::new(1).unwrap(),
        scheduled_index: ScheduledIndex::new(1).unwrap(),
        scheduled_at_unix_milliseconds: UnixMillis::new(10).unwrap(),
        skipped_ticks: SkippedTicks::new(0).unwrap(),
    }
}
