//! Relocation streams: the result does not depend on where the stream is split.
#![expect(clippy::unwrap_used, reason = "test helpers outside of test functions")]

use bytes::Bytes;
use proptest::prelude::*;
use spotlane_types::count::{
    ApplicationVersion, DeliveryIndex, MaxCatchUpTicks, ParticipantId, PeriodMillis,
    RelocationLogicalLength, ScheduledIndex, SkippedTicks, WorkOrder,
};
use spotlane_types::generation::{
    AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
};
use spotlane_types::id::{NodeRid, OperationId, RelocationId};
use spotlane_types::kind::{MeshOperationKind, TimerOverrunPolicyKind};
use spotlane_types::time::UnixMillis;
use spotlane_wire::blob::{PayloadBytes, StateBlob};
use spotlane_wire::checksum::crc32c;
use spotlane_wire::frozen::{FrozenRecord, FrozenRecordBody, FrozenSource};
use spotlane_wire::payload::{ApplicationPayload, MetadataEntry, MetadataFrame};
use spotlane_wire::reference::{ActorRef, ActorRouteFence};
use spotlane_wire::relocation::{
    ParticipantState, ParticipantStates, PendingTimerTick, PendingTimerTicks, RelocationEnvelope,
    RelocationObject, SavedWork, SavedWorkEntry, TimerRegistration, TimerRegistrations,
};
use spotlane_wire::stream::{
    ChunkBytes, EnvelopeDecoder, EnvelopeEncoder, EnvelopeHead, EnvelopeItem, EnvelopeSummary,
};
use spotlane_wire::{DecodeError, ErrorKind};

fn actor() -> ActorRef {
    ActorRef {
        actor_id: "player-7".parse().unwrap(),
        object_generation: ObjectGeneration::new(5).unwrap(),
    }
}

fn node() -> NodeRid {
    NodeRid::new(b"node-b").unwrap()
}

fn participant(id: u64) -> ParticipantId {
    ParticipantId::new(id).unwrap()
}

fn order(order: u64) -> WorkOrder {
    WorkOrder::new(order).unwrap()
}

fn head() -> EnvelopeHead {
    EnvelopeHead {
        relocation: RelocationId::new(3, 4).unwrap(),
        object: RelocationObject::Actor {
            actor: actor(),
            expected_authority_owner_generation: AuthorityOwnerGeneration::new(8).unwrap(),
        },
        application_version: ApplicationVersion::new(2).unwrap(),
    }
}

fn work(id: u64, at: u64, payload: Vec<u8>) -> SavedWorkEntry {
    let lease = OwnerLeaseGeneration::new(2).unwrap();
    let entry = MetadataEntry {
        key: "k".parse().unwrap(),
        value: "v".parse().unwrap(),
    };
    SavedWorkEntry {
        participant_id: participant(id),
        order: order(at),
        record: FrozenRecord {
            source: FrozenSource::Node {
                source_node_rid: node(),
                source_node_generation: NodeGeneration::new(1).unwrap(),
                source_owner_id: "owner".parse().unwrap(),
                source_owner_lease_generation: lease,
            },
            metadata: Some(MetadataFrame::new(&[entry]).unwrap()),
            operation_id: Some(OperationId::new(0, at).unwrap()),
            operation_kind: MeshOperationKind::None,
            reply_route: None,
            body: FrozenRecordBody::ActorSend {
                target_actor: ActorRouteFence {
                    actor: actor(),
                    target_node_rid: node(),
                    target_node_generation: NodeGeneration::new(1).unwrap(),
                    expected_authority_owner_generation: AuthorityOwnerGeneration::new(8).unwrap(),
                    expected_owner_lease_generation: lease,
                },
                payload: ApplicationPayload {
                    packet_name: "chat.say".parse().unwrap(),
                    content_type: "application/json".parse().unwrap(),
                    payload: PayloadBytes::new(Bytes::from(payload)).unwrap(),
                },
            },
        },
    }
}

fn timer(id: u64, name: &str) -> TimerRegistration {
    TimerRegistration {
        participant_id: participant(id),
        name: name.parse().unwrap(),
        handler_type: "Beat".parse().unwrap(),
        period_milliseconds: PeriodMillis::new(250).unwrap(),
        overrun_policy: TimerOverrunPolicyKind::CatchUpBounded,
        max_catch_up_ticks: MaxCatchUpTicks::new(3).unwrap(),
        stop_on_unhandled_exception: true,
        last_completed_delivery_index: None,
        last_completed_scheduled_index: None,
        next_scheduled_at_unix_milliseconds: UnixMillis::new(1_800_000_000_000).unwrap(),
    }
}

fn tick(id: u64, at: u64) -> PendingTimerTick {
    PendingTimerTick {
        participant_id: participant(id),
        order: order(at),
        timer_name: "beat".parse().unwrap(),
        delivery_index: DeliveryIndex::new(1).unwrap(),
        scheduled_index: ScheduledIndex::new(2).unwrap(),
        scheduled_at_unix_milliseconds: UnixMillis::new(1_800_000_000_000).unwrap(),
        skipped_ticks: SkippedTicks::new(1).unwrap(),
    }
}

fn envelope(states: &[Option<Vec<u8>>], payloads: &[Vec<u8>]) -> RelocationEnvelope {
    let EnvelopeHead {
        relocation,
        object,
        application_version,
    } = head();
    let states = states.iter().zip(1..).map(|(state, id)| ParticipantState {
        participant_id: participant(id),
        application_state: state
            .clone()
            .map(|s| StateBlob::new(Bytes::from(s)).unwrap()),
    });
    let saved = payloads
        .iter()
        .zip(1..)
        .map(|(payload, at)| work(1, at, payload.clone()));
    RelocationEnvelope {
        relocation,
        object,
        application_version,
        application_states: ParticipantStates::new(states.collect()).unwrap(),
        saved_work: SavedWork::new(saved.collect()).unwrap(),
        timer_registrations: TimerRegistrations::new(vec![timer(1, "a"), timer(1, "b")]).unwrap(),
        pending_timer_ticks: PendingTimerTicks::new(vec![tick(1, 900), tick(2, 1)]).unwrap(),
    }
}

/// Feeds the encoder piece by piece, with every state cut in two.
fn encode(envelope: &RelocationEnvelope, chunk: u32) -> (EnvelopeSummary, Vec<Bytes>) {
    let states = envelope.application_states.as_slice();
    let count = |len: usize| u32::try_from(len).unwrap();
    let chunk = ChunkBytes::new(chunk).unwrap();
    let mut chunks = Vec::new();
    let mut encoder = EnvelopeEncoder::new(&head(), count(states.len()), chunk).unwrap();
    for state in states {
        match &state.application_state {
            None => encoder.state(state.participant_id, None).unwrap(),
            Some(blob) => {
                let (first, second) = blob.as_bytes().split_at(blob.as_bytes().len() / 2);
                let bytes = blob.as_bytes().len() as u64;
                encoder.begin_state(state.participant_id, bytes).unwrap();
                encoder
                    .state_bytes(blob.as_bytes().slice_ref(first))
                    .unwrap();
                encoder
                    .state_bytes(blob.as_bytes().slice_ref(second))
                    .unwrap();
            }
        }
        chunks.extend(std::iter::from_fn(|| encoder.take_chunk()));
    }
    let saved = envelope.saved_work.as_slice();
    let mut encoder = encoder.work(count(saved.len())).unwrap();
    for entry in saved {
        encoder.entry(entry).unwrap();
    }
    let timers = envelope.timer_registrations.as_slice();
    let mut encoder = encoder.timers(count(timers.len())).unwrap();
    for timer in timers {
        encoder.timer(timer).unwrap();
    }
    let ticks = envelope.pending_timer_ticks.as_slice();
    let mut encoder = encoder.ticks(count(ticks.len())).unwrap();
    for tick in ticks {
        encoder.tick(tick).unwrap();
    }
    let (summary, rest) = encoder.finish().unwrap();
    chunks.extend(rest);
    (summary, chunks)
}

/// Reads a stream piece by piece into one value and its checksum.
fn decode(
    total: usize,
    pieces: impl Iterator<Item = Bytes>,
) -> Result<(RelocationEnvelope, u32), DecodeError> {
    let mut decoder = EnvelopeDecoder::new(RelocationLogicalLength::new(total as u64).unwrap());
    let mut found = None;
    let mut states: Vec<(ParticipantId, Option<Vec<u8>>)> = Vec::new();
    let (mut saved, mut timers, mut ticks, mut ended) = (vec![], vec![], vec![], false);
    for piece in pieces {
        decoder.push(piece)?;
        while let Some(item) = decoder.next_item()? {
            match item {
                EnvelopeItem::Head(head) => found = Some(head),
                EnvelopeItem::Participant {
                    participant_id,
                    state_bytes,
                } => {
                    states.push((participant_id, state_bytes.map(|_| Vec::new())));
                }
                EnvelopeItem::StateBytes(bytes) => {
                    assert!(!bytes.is_empty());
                    states
                        .last_mut()
                        .unwrap()
                        .1
                        .as_mut()
                        .unwrap()
                        .extend_from_slice(&bytes);
                }
                EnvelopeItem::Work(entry) => saved.push(*entry),
                EnvelopeItem::Timer(timer) => timers.push(timer),
                EnvelopeItem::Tick(tick) => ticks.push(tick),
                EnvelopeItem::End => ended = true,
            }
        }
    }
    let checksum = decoder.finish()?;
    assert!(ended, "the end is an item of its own");
    let EnvelopeHead {
        relocation,
        object,
        application_version,
    } = found.unwrap();
    let states = states
        .into_iter()
        .map(|(participant_id, state)| ParticipantState {
            participant_id,
            application_state: state.map(|s| StateBlob::new(Bytes::from(s)).unwrap()),
        });
    let envelope = RelocationEnvelope {
        relocation,
        object,
        application_version,
        application_states: ParticipantStates::new(states.collect()).unwrap(),
        saved_work: SavedWork::new(saved).unwrap(),
        timer_registrations: TimerRegistrations::new(timers).unwrap(),
        pending_timer_ticks: PendingTimerTicks::new(ticks).unwrap(),
    };
    Ok((envelope, checksum))
}

fn sample() -> RelocationEnvelope {
    envelope(
        &[Some(Vec::new()), Some(vec![7; 70]), None],
        &[b"{}".to_vec(), vec![9; 600], Vec::new()],
    )
}

/// WR-43
#[test]
fn a_stream_read_in_two_pieces_is_the_same_wherever_it_is_split() {
    let value = sample();
    let whole = spotlane_wire::encode(&value).unwrap();
    for at in 0..=whole.len() {
        let pieces = [whole.slice(..at), whole.slice(at..)];
        let (read, checksum) = decode(whole.len(), pieces.into_iter()).unwrap();
        assert_eq!(read, value, "split at {at}");
        assert_eq!(checksum, crc32c(&whole));
    }
}

/// WR-43
#[test]
fn a_stream_read_byte_by_byte_is_the_same() {
    let value = sample();
    let whole = spotlane_wire::encode(&value).unwrap();
    let pieces = (0..whole.len()).map(|at| whole.slice(at..=at));
    assert_eq!(decode(whole.len(), pieces).unwrap().0, value);
}

/// WR-40, WR-43, WR-50
#[test]
fn chunks_of_every_size_join_to_the_canonical_stream() {
    let value = sample();
    let whole = spotlane_wire::encode(&value).unwrap();
    for chunk in 1..=u32::try_from(whole.len()).unwrap() + 1 {
        let (summary, chunks) = encode(&value, chunk);
        assert_eq!(chunks.concat(), whole, "chunks of {chunk}");
        assert_eq!(summary.total_length.get(), whole.len() as u64);
        assert_eq!(summary.chunk_count.get() as usize, chunks.len());
        assert_eq!(summary.checksum_crc32c, crc32c(&whole));
        let (last, full) = chunks.split_last().unwrap();
        assert!(full.iter().all(|c| c.len() == chunk as usize));
        assert!(!last.is_empty() && last.len() <= chunk as usize);
    }
}

/// WR-7
#[test]
fn a_chunk_inside_one_state_is_a_slice_of_it() {
    let state = Bytes::from(vec![1; 4096]);
    let here = state.as_ptr_range();
    let mut encoder = EnvelopeEncoder::new(&head(), 1, ChunkBytes::new(512).unwrap()).unwrap();
    encoder.state(participant(1), Some(state)).unwrap();
    let chunks: Vec<Bytes> = std::iter::from_fn(|| encoder.take_chunk()).collect();
    let inside = chunks
        .iter()
        .filter(|chunk| here.contains(&chunk.as_ptr()))
        .count();
    assert_eq!(
        inside,
        chunks.len() - 1,
        "only the chunk with the head is put together"
    );
}

/// WR-7, WR-43
#[test]
fn state_comes_out_as_slices_of_the_chunks_that_went_in() {
    let state = vec![5; 3000];
    let value = envelope(&[Some(state)], &[]);
    let (summary, chunks) = encode(&value, 256);
    let ranges: Vec<_> = chunks.iter().map(|chunk| chunk.as_ptr_range()).collect();
    let mut decoder = EnvelopeDecoder::new(summary.total_length);
    let mut pieces = 0;
    for chunk in &chunks {
        decoder.push(chunk.clone()).unwrap();
        while let Some(item) = decoder.next_item().unwrap() {
            if let EnvelopeItem::StateBytes(bytes) = item {
                assert!(ranges.iter().any(|range| range.contains(&bytes.as_ptr())));
                pieces += 1;
            }
        }
    }
    assert!(
        pieces >= 11,
        "one piece for each chunk of the state, not one joined buffer"
    );
}

/// WR-5, WR-43: the kind of a fault does not depend on the split either.
#[test]
fn a_damaged_stream_fails_alike_in_one_piece_and_byte_by_byte() {
    let whole = spotlane_wire::encode(&sample()).unwrap();
    let mut faults = std::collections::BTreeMap::new();
    for at in 0..whole.len() {
        for value in [0x00, 0x01, 0x7F, 0xFF] {
            let mut damaged = whole.to_vec();
            damaged[at] = value;
            let damaged = Bytes::from(damaged);
            let slow = spotlane_wire::decode::<RelocationEnvelope>(&damaged);
            let once = decode(damaged.len(), std::iter::once(damaged.clone()));
            let bytes = (0..damaged.len()).map(|at| damaged.slice(at..=at));
            let piecewise = decode(damaged.len(), bytes);
            match slow {
                Ok(value) => {
                    assert_eq!(once.unwrap().0, value);
                    assert_eq!(piecewise.unwrap().0, value);
                }
                Err(error) => {
                    *faults.entry(error.kind()).or_insert(0) += 1;
                    let place = |e: DecodeError| (e.kind(), e.field());
                    let expected = place(error);
                    assert_eq!(
                        place(once.unwrap_err()),
                        expected,
                        "byte {at} set to {value}"
                    );
                    assert_eq!(
                        place(piecewise.unwrap_err()),
                        expected,
                        "byte {at} to {value}"
                    );
                }
            }
        }
    }
    assert!(faults[&ErrorKind::InvalidField] > 100 && faults[&ErrorKind::TruncatedField] > 10);
}

/// WR-5
#[test]
fn a_stream_that_ends_early_or_goes_on_is_refused() {
    let whole = spotlane_wire::encode(&sample()).unwrap();
    for at in 0..whole.len() {
        let cut = whole.slice(..at);
        let error = decode(whole.len(), std::iter::once(cut.clone())).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::TruncatedField,
            "{at} of {} bytes",
            whole.len()
        );
        let error = decode(at, std::iter::once(cut)).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::TruncatedField,
            "announced as {at} bytes"
        );
    }
    let longer = Bytes::from([&whole[..], &[0]].concat());
    let error = decode(whole.len(), std::iter::once(longer.clone())).unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::TrailingByte, whole.len())
    );
    let error = decode(longer.len(), std::iter::once(longer)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TrailingByte);
}

/// WR-42
#[test]
fn an_order_that_occurs_in_work_and_ticks_is_refused_both_ways() {
    let mut value = sample();
    value.pending_timer_ticks = PendingTimerTicks::new(vec![tick(1, 2)]).unwrap();
    assert_eq!(
        spotlane_wire::encode(&value).unwrap_err().field(),
        "pendingTimerTicks"
    );
    let mut encoder = EnvelopeEncoder::new(&head(), 0, ChunkBytes::new(99).unwrap())
        .and_then(|encoder| encoder.work(1))
        .unwrap();
    encoder.entry(&work(1, 2, Vec::new())).unwrap();
    let mut encoder = encoder
        .timers(0)
        .and_then(|encoder| encoder.ticks(1))
        .unwrap();
    assert!(encoder.tick(&tick(1, 2)).is_err());

    // The same on the wire: the order of the only tick is set to that of the second record.
    value.pending_timer_ticks = PendingTimerTicks::new(vec![tick(1, 0x0102_0304)]).unwrap();
    let whole = spotlane_wire::encode(&value).unwrap().to_vec();
    let at = whole
        .windows(8)
        .rposition(|w| w == 0x0102_0304_u64.to_be_bytes())
        .unwrap();
    let mut twice = whole;
    twice[at..at + 8].copy_from_slice(&2_u64.to_be_bytes());
    let twice = Bytes::from(twice);
    let error = decode(twice.len(), std::iter::once(twice.clone())).unwrap_err();
    assert_eq!(
        (error.kind(), error.field().as_str()),
        (ErrorKind::InvalidField, "pendingTimerTicks")
    );
    assert_eq!(
        spotlane_wire::decode::<RelocationEnvelope>(&twice)
            .unwrap_err()
            .kind(),
        error.kind()
    );
}

/// WR-41, WR-42
#[test]
fn the_encoder_refuses_what_is_out_of_order_or_not_as_announced() {
    let new = |count| EnvelopeEncoder::new(&head(), count, ChunkBytes::new(64).unwrap()).unwrap();
    let mut encoder = new(2);
    encoder.state(participant(2), None).unwrap();
    assert!(
        encoder.state(participant(2), None).is_err(),
        "the same participant again"
    );
    assert!(encoder.work(0).is_err(), "one participant is missing");

    let mut encoder = new(1);
    encoder.state(participant(1), None).unwrap();
    assert!(
        encoder.state(participant(2), None).is_err(),
        "one participant too many"
    );

    let mut encoder = new(1);
    encoder.begin_state(participant(1), 10).unwrap();
    encoder.state_bytes(Bytes::from_static(b"12345")).unwrap();
    assert!(
        encoder.state_bytes(Bytes::from_static(b"123456")).is_err(),
        "one byte too many"
    );
    assert!(encoder.work(0).is_err(), "five bytes are missing");
}

/// WR-54: a stream may have 4,096 chunks and no more.
#[test]
fn the_encoder_refuses_a_chunk_beyond_the_bound() {
    let mut encoder = EnvelopeEncoder::new(&head(), 1, ChunkBytes::new(1).unwrap()).unwrap();
    let error = encoder
        .state(participant(1), Some(Bytes::from(vec![0; 5000])))
        .unwrap_err();
    assert!(error.to_string().contains("4096 chunks"), "{error}");
}

/// WR-4: a count that the rest of the stream cannot hold is refused before anything is kept for it.
#[test]
fn a_count_beyond_the_stream_is_refused_at_once() {
    let value = sample();
    let whole = spotlane_wire::encode(&value).unwrap();
    let head_bytes = spotlane_wire::encode(&head()).unwrap().len();
    let mut lie = whole.to_vec();
    lie[head_bytes..head_bytes + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let total = RelocationLogicalLength::new(whole.len() as u64).unwrap();
    let mut decoder = EnvelopeDecoder::new(total);
    decoder
        .push(Bytes::from(lie).slice(..head_bytes + 4))
        .unwrap();
    assert!(matches!(
        decoder.next_item(),
        Ok(Some(EnvelopeItem::Head(_)))
    ));
    let error = decoder.next_item().unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::TruncatedField, head_bytes)
    );
    assert_eq!(decoder.next_item().unwrap_err(), error, "a fault is final");
    assert_eq!(decoder.push(Bytes::from_static(b"x")).unwrap_err(), error);
}

proptest! {
    /// WR-43
    #[test]
    fn any_envelope_in_any_chunks_and_pieces_is_the_same(
        states in prop::collection::vec(
            prop::option::of(prop::collection::vec(any::<u8>(), 0..300)), 0..6),
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..900), 0..5),
        chunk in 1_u32..700,
        cuts in prop::collection::vec(1_usize..200, 1..40),
    ) {
        let value = envelope(&states, &payloads);
        let whole = spotlane_wire::encode(&value).unwrap();
        let chunk = chunk.max(u32::try_from(whole.len() / 4000).unwrap() + 1);
        let (summary, chunks) = encode(&value, chunk);
        prop_assert_eq!(chunks.concat(), &whole[..]);
        prop_assert_eq!(summary.checksum_crc32c, crc32c(&whole));
        let mut rest = whole.clone();
        let pieces = cuts.iter().cycle().map_while(|cut| {
            (!rest.is_empty()).then(|| rest.split_to((*cut).min(rest.len())))
        });
        prop_assert_eq!(decode(whole.len(), pieces).unwrap().0, value);
    }
}

/// WR-6: a refused element is as if it had not been given, and the next one takes its place.
#[test]
fn a_refused_element_changes_nothing() {
    let mut bad = work(1, 1, Vec::new());
    bad.record.operation_kind = MeshOperationKind::StreamBind;
    let mut encoder = EnvelopeEncoder::new(&head(), 0, ChunkBytes::new(64).unwrap())
        .and_then(|encoder| encoder.work(1))
        .unwrap();
    assert_eq!(
        encoder.entry(&bad).unwrap_err().field(),
        "savedWork.record.operationKind"
    );
    encoder.entry(&work(1, 1, Vec::new())).unwrap();
    let finished = encoder
        .timers(0)
        .and_then(|e| e.ticks(0))
        .and_then(EnvelopeEncoder::finish)
        .unwrap();
    let (summary, chunks) = finished;
    let total = usize::try_from(summary.total_length.get()).unwrap();
    let (read, _) = decode(total, chunks.into_iter()).unwrap();
    assert_eq!(read.saved_work.as_slice(), [work(1, 1, Vec::new())]);

    let mut encoder = EnvelopeEncoder::new(&head(), 0, ChunkBytes::new(64).unwrap())
        .and_then(|encoder| encoder.work(1))
        .unwrap();
    assert!(encoder.entry(&bad).is_err());
    assert!(encoder.timers(0).is_err(), "the record is still missing");
}

/// WR-6, WR-54: a stream that became too long gives no summary.
#[test]
fn a_stream_that_became_too_long_stays_refused() {
    let mut encoder = EnvelopeEncoder::new(&head(), 1, ChunkBytes::new(1).unwrap()).unwrap();
    let state = Some(Bytes::from(vec![0; 5000]));
    let error = encoder.state(participant(1), state).unwrap_err();
    assert_eq!(encoder.state(participant(2), None).unwrap_err(), error);
    assert_eq!(encoder.work(0).unwrap_err(), error);
}

/// WR-43: the caller of the decoder need not take what he does not want.
#[test]
fn a_stream_whose_items_are_not_taken_is_checked_at_the_end() {
    let whole = spotlane_wire::encode(&sample()).unwrap();
    let total = RelocationLogicalLength::new(whole.len() as u64).unwrap();
    let mut decoder = EnvelopeDecoder::new(total);
    decoder.push(whole.clone()).unwrap();
    assert_eq!(decoder.finish().unwrap(), crc32c(&whole));
}
