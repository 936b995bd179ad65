//! What is sent: sizes, slices, order.

use bytes::Bytes;
use spotlane_types::count::{ReceiveChunkLimit, RelocationLogicalLength};
use spotlane_wire::checksum::Crc32c;
use spotlane_wire::stream::{EnvelopeDecoder, EnvelopeHead, EnvelopeItem};

use super::*;
use crate::source::payload::ChunkSizes;

fn order(chunks: ChunkSizes) -> CaptureOrder {
    CaptureOrder {
        head: EnvelopeHead {
            relocation: identity(1).relocation,
            object: object(),
            application_version: plan(1).application_version,
        },
        chunks,
    }
}

fn sizes(settings: &RelocationSettings, advertised: Option<u32>) -> ChunkSizes {
    let advertised = advertised.map(|bytes| ReceiveChunkLimit::new(bytes).unwrap());
    ChunkSizes::new(settings, advertised)
}

/// RL-132
#[test]
fn a_chunk_is_the_least_of_setting_advertised_limit_and_budget() {
    let default = RelocationSettings::default();
    assert_eq!(sizes(&default, None).usual(), 32 * 1024);
    assert_eq!(sizes(&default, Some(100_000)).usual(), 100_000);
    assert_eq!(sizes(&default, Some(1 << 20)).usual(), 256 * 1024);
    let small = RelocationSettings::builder().in_flight_budget(1000);
    assert_eq!(sizes(&small.build().unwrap(), None).usual(), 1000);
    let off = RelocationSettings::builder().in_flight_budget(0);
    assert_eq!(sizes(&off.build().unwrap(), None).usual(), 32 * 1024);
}

/// WR-54
#[test]
fn a_stream_too_long_for_4096_chunks_takes_larger_ones_up_to_the_advertised_limit() {
    let tiny = RelocationSettings::builder()
        .chunk_limit(16)
        .build()
        .unwrap();
    let capture = |bytes: usize| {
        [ParticipantCapture {
            state: Some(vec![0; bytes].into()),
            ..ParticipantCapture::default()
        }]
    };
    let payload = Payload::encode(&order(sizes(&tiny, None)), &capture(1 << 20)).unwrap();
    assert!(payload.chunks().len() <= 4096);
    assert!(payload.chunks()[0].len() > 16);
    assert!(Payload::encode(&order(sizes(&tiny, Some(16))), &capture(1 << 20)).is_err());
}

/// WR-7, RL-116
#[test]
fn a_chunk_inside_a_state_is_a_slice_of_it() {
    let state = Bytes::from(vec![9_u8; 200_000]);
    let capture = ParticipantCapture {
        state: Some(state.clone()),
        ..ParticipantCapture::default()
    };
    let chunks = sizes(&RelocationSettings::default(), None);
    let payload = Payload::encode(&order(chunks), &[capture]).unwrap();
    let inside = state.as_ptr_range();
    let slices = payload
        .chunks()
        .iter()
        .filter(|chunk| inside.contains(&chunk.as_ptr()));
    assert_eq!(slices.count(), 5);
}

/// WR-43, WR-50: a checksum that was made before leads to the same stream, and one of something else to none.
#[test]
fn a_known_checksum_of_a_state_is_taken_over() {
    let state = Bytes::from(
        (0..200_000_u32)
            .flat_map(u32::to_le_bytes)
            .collect::<Vec<_>>(),
    );
    let capture = [ParticipantCapture {
        state: Some(state.clone()),
        queue: vec![QueuedWork::Record(Box::new(note("behind")))],
        ..ParticipantCapture::default()
    }];
    let order = order(sizes(&RelocationSettings::default(), None));
    let mut sum = Crc32c::default();
    for half in state.chunks(state.len() / 2) {
        let mut next = Crc32c::default();
        next.update(half);
        sum.append(&next);
    }
    let summed = Payload::encode_summed(&order, &capture, &[Some(sum)]).unwrap();
    assert_eq!(summed, Payload::encode(&order, &capture).unwrap());
    let other = Payload::encode_summed(&order, &capture, &[Some(Crc32c::default())]);
    assert!(other.is_err());
}

/// RL-127, WR-42
#[test]
fn the_order_of_a_queue_is_numbered_over_records_and_ticks() {
    let tick = spotlane_wire::relocation::PendingTimerTick {
        participant_id: spotlane_types::count::ParticipantId::new(1).unwrap(),
        order: spotlane_types::count::WorkOrder::new(1).unwrap(),
        timer_name: "tick".parse().unwrap(),
        delivery_index: spotlane_types::count::DeliveryIndex::new(1).unwrap(),
        scheduled_index: spotlane_types::count::ScheduledIndex::new(1).unwrap(),
        scheduled_at_unix_milliseconds: spotlane_types::time::UnixMillis::new(5).unwrap(),
        skipped_ticks: spotlane_types::count::SkippedTicks::new(0).unwrap(),
    };
    let capture = ParticipantCapture {
        state: None,
        queue: vec![
            QueuedWork::Record(Box::new(note("first"))),
            QueuedWork::Tick(Box::new(tick)),
            QueuedWork::Record(Box::new(ask("third"))),
        ],
        timers: Vec::new(),
    };
    let chunks = sizes(&RelocationSettings::default(), None);
    let payload = Payload::encode(&order(chunks), &[capture]).unwrap();
    assert_eq!(payload.requests().len(), 1);
    let total: RelocationLogicalLength = payload.summary().total_length;
    let mut decoder = EnvelopeDecoder::new(total);
    let mut orders = Vec::new();
    for chunk in payload.chunks() {
        decoder.push(chunk.clone()).unwrap();
        while let Some(item) = decoder.next_item().unwrap() {
            match item {
                EnvelopeItem::Work(entry) => orders.push(("work", entry.order.get())),
                EnvelopeItem::Tick(tick) => orders.push(("tick", tick.order.get())),
                _ => {}
            }
        }
    }
    assert_eq!(orders, [("work", 1), ("work", 3), ("tick", 2)]);
}
