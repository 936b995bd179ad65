//! What decoding allocates is a small multiple of the input, whatever the bytes say (WR-4).
//!
//! A test of its own file: the counting allocator sees the whole process.
#![expect(clippy::unwrap_used, reason = "helpers outside of test functions")]

use std::alloc::System;
use std::path::Path;

use bytes::Bytes;
use spotlane_contract::{Contract, Generator, Rng, mutate_bytes, mutate_frames};
use spotlane_types::count::RelocationLogicalLength;
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::Record;
use spotlane_wire::by_name::all;
use spotlane_wire::relocation::RelocationEnvelope;
use spotlane_wire::stream::EnvelopeDecoder;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The worst legal ratio: a text of one byte takes two bytes on the wire and forty in memory.
const BYTES_PER_INPUT_BYTE: usize = 20;
/// A stream in pieces of 512 bytes also puts elements together that lie across pieces, and hands each
/// out in a box. All allocations count, not only those that are alive at one time.
const BYTES_PER_STREAM_BYTE: usize = 40;
/// One error with its path.
const BYTES_AT_LEAST: usize = 512;

fn contract() -> Contract {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let text = std::fs::read_to_string(fixtures.join("contract/service-wire.contract")).unwrap();
    Contract::parse(&text).unwrap()
}

fn allocated_by<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(ALLOCATOR);
    let value = run();
    (value, region.change().bytes_allocated)
}

fn assert_bounded(what: &str, ratio: usize, allocated: usize, bytes: &[u8]) {
    let input = bytes.len();
    let bound = BYTES_AT_LEAST + ratio * input;
    assert!(
        allocated <= bound,
        "{what}: {allocated} bytes for {input} bytes of input: {bytes:02x?}"
    );
}

/// Lengths and counts that claim everything there could be.
fn lie(rng: &mut Rng, bytes: &mut [u8]) {
    let width = *rng.pick(&[1, 2, 4, 8]);
    if bytes.len() > width {
        let at = rng.below(bytes.len() - width);
        bytes[at..at + width].fill(0xFF);
        if rng.one_in(2) {
            bytes[at] = 0x7F;
        }
    }
}

/// The same for a stream that comes in pieces.
fn streams_stay_bounded(judge: &Contract, rng: &mut Rng) {
    let mut generator = Generator::new(judge, 5);
    for _ in 0..200 {
        let value = generator.standalone("relocation-envelope-v1").unwrap();
        let mut bytes = judge.encode_type("relocation-envelope-v1", &value).unwrap();
        lie(rng, &mut bytes);
        let input = Bytes::from(bytes);
        let read = || {
            let total = RelocationLogicalLength::new(input.len() as u64).unwrap();
            let mut decoder = EnvelopeDecoder::new(total);
            for at in (0..input.len()).step_by(512) {
                let piece = input.slice(at..input.len().min(at + 512));
                if decoder.push(piece).is_err() {
                    return;
                }
                while matches!(decoder.next_item(), Ok(Some(_))) {}
            }
        };
        let ((), allocated) = allocated_by(read);
        assert_bounded("stream", BYTES_PER_STREAM_BYTE, allocated, &input);
        let (_, allocated) =
            allocated_by(|| spotlane_wire::decode::<RelocationEnvelope>(&input).is_ok());
        assert_bounded("envelope", BYTES_PER_INPUT_BYTE, allocated, &input);
    }
}

/// WR-4
#[test]
fn decoding_allocates_a_small_multiple_of_its_input() {
    let judge = contract();
    let mut rng = Rng::new(11);
    let mut highest = 0;
    let types: Vec<_> = all().collect();
    for seed in 0..60 {
        let mut generator = Generator::new(&judge, seed);
        for id in judge.command_ids() {
            let record = generator.record(id).unwrap();
            let pending = MeshOperationKind::from_name(record.pending.as_deref().unwrap_or("none"));
            let valid = judge
                .encode_record(&record.value, record.pending.as_deref())
                .unwrap();
            for round in 0..8 {
                let mut frames = match round {
                    0 => valid.clone(),
                    _ => mutate_frames(&mut rng, &valid, &valid),
                };
                if round > 3
                    && let Some(frame) = frames.first_mut()
                {
                    lie(&mut rng, frame);
                }
                let frames: Vec<Bytes> = frames.into_iter().map(Bytes::from).collect();
                let input = frames.iter().map(Bytes::len).sum::<usize>();
                let (_, allocated) =
                    allocated_by(|| Record::decode(&frames, pending.unwrap()).is_ok());
                if input >= 64 {
                    highest = highest.max(allocated / input);
                }
                assert_bounded("record", BYTES_PER_INPUT_BYTE, allocated, &frames.concat());
            }
        }
        for named in &types {
            let name = named.name();
            let Some(value) = generator.standalone(&name) else {
                continue;
            };
            let valid = judge.encode_type(&name, &value).unwrap();
            let mut damaged = mutate_bytes(&mut rng, &valid, &valid);
            lie(&mut rng, &mut damaged);
            for bytes in [Bytes::from(valid), Bytes::from(damaged)] {
                let (_, allocated) = allocated_by(|| named.check(&bytes).is_ok());
                assert_bounded(&name, BYTES_PER_INPUT_BYTE, allocated, &bytes);
            }
        }
    }
    println!("at most {highest} bytes allocated for one byte of input");

    streams_stay_bounded(&judge, &mut rng);

    // A planted defect: a decoder that trusts a count would be seen.
    let (kept, allocated) = allocated_by(|| Vec::<u64>::with_capacity(1_000_000));
    assert!(
        allocated > BYTES_AT_LEAST + BYTES_PER_INPUT_BYTE * 100,
        "{}",
        kept.capacity()
    );
}
