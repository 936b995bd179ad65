//! Promises of the codec that a comparison of values cannot show: what is copied, what is refused
//! before it is written, and what an error says.
#![expect(clippy::unwrap_used, reason = "test helpers outside of test functions")]

use bytes::Bytes;
use spotlane_types::count::{Correlation, HopCount, ProbeId, ReplyRouteId};
use spotlane_types::generation::{
    AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
    TargetAttemptGeneration,
};
use spotlane_types::id::{NodeRid, OperationId, RelocationId};
use spotlane_types::kind::{FailureCode, MeshOperationKind, RelocationRole, TerminalResult};
use spotlane_wire::blob::{DurableBlob, NonEmptyBlob16, ParticipantMutation, PayloadBytes};
use spotlane_wire::command::liveness::LivenessProbe;
use spotlane_wire::command::message::ActorSend;
use spotlane_wire::command::relocation::{RelocationFailed, RelocationState};
use spotlane_wire::command::reply::{Reply, ReplyOutcome, ReplyTail};
use spotlane_wire::command::session::BoundSessionSend;
use spotlane_wire::frozen::{FrozenRecord, FrozenRecordBody, FrozenSource};
use spotlane_wire::payload::{ApplicationPayload, MetadataEntry, MetadataFrame};
use spotlane_wire::reference::{
    ActorRef, ActorRouteFence, RelocationCoordinatorFence, RelocationTargetFence,
};
use spotlane_wire::relocation::RelocationObject;
use spotlane_wire::{ErrorKind, FrameBuffer, Record, decode_command, encode_command, view_command};

const NO_OPERATION: MeshOperationKind = MeshOperationKind::None;

fn actor() -> ActorRef {
    let object_generation = ObjectGeneration::new(5).unwrap();
    ActorRef {
        actor_id: "player-7".parse().unwrap(),
        object_generation,
    }
}

fn fence() -> ActorRouteFence {
    ActorRouteFence {
        actor: actor(),
        target_node_rid: NodeRid::new(b"node-b").unwrap(),
        target_node_generation: NodeGeneration::new(2).unwrap(),
        expected_authority_owner_generation: AuthorityOwnerGeneration::new(3).unwrap(),
        expected_owner_lease_generation: OwnerLeaseGeneration::new(4).unwrap(),
    }
}

fn payload(bytes: Bytes) -> ApplicationPayload {
    ApplicationPayload {
        packet_name: "chat.say".parse().unwrap(),
        content_type: "application/json".parse().unwrap(),
        payload: PayloadBytes::new(bytes).unwrap(),
    }
}

fn message(bytes: Bytes) -> ActorSend {
    let entry = MetadataEntry {
        key: "trace".parse().unwrap(),
        value: "7f".parse().unwrap(),
    };
    ActorSend {
        operation: OperationId::new(1, 2).unwrap(),
        message_follow_hop_count: HopCount::new(0).unwrap(),
        source_actor: None,
        target_actor: fence(),
        bound_session_tail: None,
        metadata: Some(MetadataFrame::new(&[entry]).unwrap()),
        payload: payload(bytes),
    }
}

fn coordinator() -> RelocationCoordinatorFence {
    RelocationCoordinatorFence {
        coordinator_owner_id: "owner".parse().unwrap(),
        coordinator_lease_generation: OwnerLeaseGeneration::new(1).unwrap(),
        coordinator_node_rid: NodeRid::new(b"n").unwrap(),
        coordinator_node_generation: NodeGeneration::new(1).unwrap(),
        expected_authority_store_version: "v1".parse().unwrap(),
    }
}

fn moving() -> RelocationObject {
    RelocationObject::Actor {
        actor: actor(),
        expected_authority_owner_generation: AuthorityOwnerGeneration::new(3).unwrap(),
    }
}

fn encoded(record: &Record) -> Vec<Bytes> {
    let mut out = FrameBuffer::default();
    record.encode(&mut out).unwrap();
    out.to_frames()
}

fn lies_in(part: &[u8], whole: &[u8]) -> bool {
    whole.as_ptr_range().contains(&part.as_ptr())
}

/// WR-7
#[test]
fn a_decoded_payload_is_a_slice_of_its_frame() {
    let frames = encoded(&message(Bytes::from(vec![1; 64])).into());
    let decoded = decode_command::<ActorSend>(&frames, NO_OPERATION).unwrap();
    assert!(lies_in(decoded.payload.payload.as_bytes(), &frames[2]));
    assert!(lies_in(decoded.metadata.unwrap().as_bytes(), &frames[1]));
    let view = view_command::<ActorSend>(&frames).unwrap();
    assert!(lies_in(
        view.target_actor.actor.actor_id.as_bytes(),
        &frames[0]
    ));
    assert!(lies_in(&view.payload.payload.to_bytes(), &frames[2]));
}

/// WR-7
#[test]
fn a_large_payload_is_handed_over_and_not_copied() {
    let large = Bytes::from(vec![7; 100_000]);
    let mut out = FrameBuffer::default();
    encode_command(&message(large.clone()), &mut out).unwrap();
    let last = out.frames().last().unwrap();
    assert_eq!(last.payload().unwrap().as_ptr(), large.as_ptr());
    assert!(last.head().len() < 100);
    assert_eq!(last.bytes(), last.head().len() + large.len());

    let state = RelocationState {
        relocation: RelocationId::new(0, 1).unwrap(),
        target_attempt_generation: TargetAttemptGeneration::new(1).unwrap(),
        coordinator: coordinator(),
        sender_role: RelocationRole::Source,
        object: moving(),
        chunk_ordinal: 0,
        chunk_data: DurableBlob::new(large.clone()).unwrap(),
    };
    encode_command(&state, &mut out).unwrap();
    let only = out.frames().next().unwrap();
    assert_eq!(only.payload().unwrap().as_ptr(), large.as_ptr());
    let frames = out.to_frames();
    let decoded = decode_command::<RelocationState>(&frames, NO_OPERATION).unwrap();
    assert!(lies_in(decoded.chunk_data.as_bytes(), &frames[0]));
    assert_eq!(decoded, state);
}

/// WR-6: a reused buffer holds nothing of the record before, and nothing of a refused one.
#[test]
fn a_buffer_forgets_what_was_in_it() {
    let mut out = FrameBuffer::default();
    encode_command(&message(Bytes::from(vec![7; 5000])), &mut out).unwrap();
    assert_eq!(out.frames().len(), 3);
    let probe = LivenessProbe {
        probe_id: ProbeId::new(9).unwrap(),
    };
    encode_command(&probe, &mut out).unwrap();
    assert_eq!(out.frames().len(), 1);
    assert_eq!(out.to_frames(), encoded(&probe.into()));
    assert!(encode_command(&busy_with_payload(), &mut out).is_err());
    assert_eq!(out.frames().len(), 0);
}

fn busy_with_payload() -> Reply {
    Reply {
        correlation: Correlation::new(1).unwrap(),
        outcome: ReplyOutcome {
            terminal_result: TerminalResult::Busy,
            failure_code: FailureCode::None,
            tail: ReplyTail::None,
        },
        payload: Some(payload(Bytes::new())),
    }
}

/// WR-6, WR-20
#[test]
fn what_a_decoder_would_refuse_is_not_encoded() {
    let mut out = FrameBuffer::default();
    let error = encode_command(&busy_with_payload(), &mut out).unwrap_err();
    assert_eq!(
        (error.record(), error.field().as_str()),
        ("reply", "payload")
    );

    let mut wrong_code = busy_with_payload();
    wrong_code.payload = None;
    wrong_code.outcome.failure_code = FailureCode::SpotMoving;
    let error = encode_command(&wrong_code, &mut out).unwrap_err();
    assert_eq!(error.field(), "failureCode");
    assert_eq!(
        error.to_string(),
        "reply cannot be encoded, field 'failureCode': the failure code does not go with the \
         terminal result"
    );
}

fn frozen(source: FrozenSource) -> FrozenRecord {
    FrozenRecord {
        source,
        metadata: None,
        operation_id: Some(OperationId::new(0, 42).unwrap()),
        operation_kind: MeshOperationKind::ActorRequest,
        reply_route: Some(ReplyRouteId::new(99).unwrap()),
        body: FrozenRecordBody::ActorRequest {
            target_actor: fence(),
            payload: payload(Bytes::from_static(b"{}")),
        },
    }
}

/// WR-32: every source names an owner and its lease; bytes without one are refused.
#[test]
fn a_frozen_record_without_an_owner_lease_is_refused() {
    let record = frozen(FrozenSource::Actor {
        source_node_rid: NodeRid::new(b"n").unwrap(),
        source_node_generation: NodeGeneration::new(1).unwrap(),
        source_owner_id: "owner".parse().unwrap(),
        source_owner_lease_generation: OwnerLeaseGeneration::new(0x0102_0304).unwrap(),
        source_actor: actor(),
    });
    let bytes = spotlane_wire::encode(&record).unwrap();
    assert_eq!(
        spotlane_wire::decode::<FrozenRecord>(&bytes).unwrap(),
        record
    );
    let lease = 0x0102_0304_u64.to_be_bytes();
    let at = bytes.windows(8).position(|window| window == lease).unwrap();
    let mut without = bytes.to_vec();
    without[at..at + 8].fill(0);
    let error = spotlane_wire::decode::<FrozenRecord>(&Bytes::from(without)).unwrap_err();
    assert_eq!(error.field(), "source.sourceOwnerLeaseGeneration");
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::InvalidField, at)
    );
}

/// WR-30, WR-34: the same table on the way out as on the way in.
#[test]
fn a_frozen_record_carries_what_its_kind_allows_and_nothing_else() {
    let source = FrozenSource::Node {
        source_node_rid: NodeRid::new(b"n").unwrap(),
        source_node_generation: NodeGeneration::new(1).unwrap(),
        source_owner_id: "owner".parse().unwrap(),
        source_owner_lease_generation: OwnerLeaseGeneration::new(1).unwrap(),
    };
    let legal = frozen(source);
    assert!(spotlane_wire::encode(&legal).is_ok());
    let field = |record: &FrozenRecord| spotlane_wire::encode(record).unwrap_err().field();
    assert_eq!(
        field(&FrozenRecord {
            operation_id: None,
            ..legal.clone()
        }),
        "operationId"
    );
    assert_eq!(
        field(&FrozenRecord {
            reply_route: None,
            ..legal.clone()
        }),
        "replyRoute"
    );
    let other = MeshOperationKind::SpotRequest;
    assert_eq!(
        field(&FrozenRecord {
            operation_kind: other,
            ..legal
        }),
        "operationKind"
    );
}

/// WR-5
#[test]
fn an_error_says_what_where_and_why() {
    let mut frames = encoded(&message(Bytes::from_static(b"{}")).into());
    let generation = 5_u64.to_be_bytes();
    let at = frames[0]
        .windows(8)
        .position(|window| window == generation)
        .unwrap();
    let mut zero = frames[0].to_vec();
    zero[at..at + 8].fill(0);
    frames[0] = Bytes::from(zero);
    let error = Record::decode(&frames, NO_OPERATION).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "invalid-field in actorSend field 'targetActor.actor.objectGeneration' at byte {at} of \
             frame 0: ObjectGeneration: 0 is outside 1 to 9223372036854775807"
        )
    );

    let mut frames = encoded(&message(Bytes::from_static(b"{}")).into());
    frames[2] = frames[2].slice(..frames[2].len() - 1);
    let error = Record::decode(&frames, NO_OPERATION).unwrap_err();
    assert_eq!(
        (error.kind(), error.frame()),
        (ErrorKind::TruncatedField, 2)
    );
    assert_eq!(
        (error.record(), error.field().as_str()),
        ("actorSend", "payload.payload")
    );
}

/// A record is moved several times between decoder, queues and handler, whatever it carries: the largest command decides what a
/// probe costs. What is larger than a message to the client of a session therefore stands in a box.
#[test]
fn a_record_is_no_larger_than_the_commands_that_come_most_often() {
    assert!(size_of::<Record>() <= 240, "{}", size_of::<Record>());
    assert!(size_of::<Record>() <= size_of::<BoundSessionSend>() + size_of::<usize>());
}

/// WR-3
#[test]
fn a_record_of_another_command_is_told_from_a_damaged_one() {
    let frames = encoded(
        &LivenessProbe {
            probe_id: ProbeId::new(9).unwrap(),
        }
        .into(),
    );
    let error = decode_command::<ActorSend>(&frames, NO_OPERATION).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownCommand);
    for command in (7..=15).chain([32, 35, 41, 45]).chain(54..=255).chain([0]) {
        assert!(!Record::COMMAND_IDS.contains(&command));
        let frame = Bytes::from(vec![b'Z', b'M', 1, command, 0xFF]);
        let error = Record::decode(&[frame], NO_OPERATION).unwrap_err();
        assert_eq!(
            (error.kind(), error.offset()),
            (ErrorKind::UnknownCommand, 3)
        );
    }
    assert_eq!(Record::COMMAND_IDS.len(), 40);
}

/// WR-6: what is too short or too long for its place cannot be made at all.
#[test]
fn a_blob_outside_of_its_bounds_cannot_be_made() {
    assert!(NonEmptyBlob16::new(Bytes::new()).is_err());
    assert!(NonEmptyBlob16::new(Bytes::from_static(b"x")).is_ok());
    assert!(ParticipantMutation::new(Bytes::new()).is_err());
    let long = Bytes::from(vec![0; 65_536]);
    let refused = NonEmptyBlob16::new(long.clone()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "65536 bytes are outside 1 to 65535 bytes"
    );
    assert_eq!(
        refused.into_bytes().as_ptr(),
        long.as_ptr(),
        "refused bytes are given back"
    );
}

/// WR-56: an explicit failure has a code, on the way in and on the way out.
#[test]
fn a_relocation_does_not_fail_without_a_reason() {
    let failed = RelocationFailed {
        relocation: RelocationId::new(0, 1).unwrap(),
        target_attempt_generation: TargetAttemptGeneration::new(1).unwrap(),
        coordinator: coordinator(),
        target: RelocationTargetFence {
            target_node_rid: NodeRid::new(b"n").unwrap(),
            target_node_generation: NodeGeneration::new(1).unwrap(),
            target_owner_id: "owner".parse().unwrap(),
            target_owner_lease_generation: OwnerLeaseGeneration::new(1).unwrap(),
        },
        object: moving(),
        sender_role: RelocationRole::Target,
        failure_code: FailureCode::SpotMoving,
    };
    let mut frames = encoded(&failed.clone().into());
    let without = RelocationFailed {
        failure_code: FailureCode::None,
        ..failed
    };
    let mut out = FrameBuffer::default();
    assert_eq!(
        encode_command(&without, &mut out).unwrap_err().field(),
        "failureCode"
    );
    let mut zeroed = frames[0].to_vec();
    let end = zeroed.len();
    zeroed[end - 4..].fill(0);
    frames[0] = Bytes::from(zeroed);
    let error = Record::decode(&frames, NO_OPERATION).unwrap_err();
    assert_eq!(
        (error.kind(), error.field().as_str()),
        (ErrorKind::InvalidField, "failureCode")
    );
}

/// A frame of `keys` metadata entries with values of `value` bytes.
fn metadata(keys: &[Vec<u8>]) -> Bytes {
    let mut frame = vec![1, u8::try_from(keys.len()).unwrap()];
    for key in keys {
        frame.push(u8::try_from(key.len()).unwrap());
        frame.extend_from_slice(key);
        frame.extend_from_slice(&[0, 0]);
    }
    Bytes::from(frame)
}

/// WR-9: the first entry that repeats a key is named, with few keys and with as many as fit.
#[test]
fn a_repeated_metadata_key_is_found_wherever_it_stands() {
    let keys: Vec<Vec<u8>> = (0..200_u8)
        .map(|n| vec![b'a' + n % 26, b'a' + n / 26])
        .collect();
    for count in [2, 8, 9, 10, 100, 200] {
        let keys = &keys[..count];
        assert!(spotlane_wire::decode::<MetadataFrame>(&metadata(keys)).is_ok());
        for (first, second) in [(0, 1), (0, count - 1), (count / 2, count - 1)] {
            let mut twice = keys.to_vec();
            twice[second] = twice[first].clone();
            let error = spotlane_wire::decode::<MetadataFrame>(&metadata(&twice));
            if first != second {
                let error = error.unwrap_err();
                assert_eq!(error.field(), format!("[{second}].key"), "{count} keys");
                assert_eq!(error.offset(), 2 + second * 5);
            }
        }
        // The first fault decides: a repeated key comes before a bad entry behind it.
        let mut twice = keys.to_vec();
        twice[1] = twice[0].clone();
        twice[count - 1] = if count > 2 {
            Vec::new()
        } else {
            twice[0].clone()
        };
        let error = spotlane_wire::decode::<MetadataFrame>(&metadata(&twice)).unwrap_err();
        assert_eq!(error.field(), "[1].key");
    }
}
