//! A relocation stream with 64 MiB of state, written and read, beside a copy and a checksum of the
//! same bytes.
//!
//! * **ours**: the encoder cuts the stream into chunks of 256 KiB and takes its checksum on the way;
//!   the decoder is given these chunks, hands the state out and takes the checksum again.
//! * **memcpy+crc**: the state is copied once and its CRC-32C taken, with the same checksum function.

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;

use bytes::Bytes;
use spotlane_bench::{Bench, bytes_per_second};
use spotlane_types::count::{ApplicationVersion, ParticipantId};
use spotlane_types::generation::{AuthorityOwnerGeneration, ObjectGeneration};
use spotlane_types::id::RelocationId;
use spotlane_wire::checksum::crc32c;
use spotlane_wire::reference::ActorRef;
use spotlane_wire::relocation::RelocationObject;
use spotlane_wire::stream::{
    ChunkBytes, EnvelopeDecoder, EnvelopeEncoder, EnvelopeHead, EnvelopeItem, EnvelopeSummary,
};

const STATE: u32 = 64 << 20;
const CHUNK: u32 = 256 << 10;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let state: Vec<u8> = (0..STATE)
        .map(|at| at.wrapping_mul(0x9E37_79B1).to_be_bytes()[0])
        .collect();
    let state = Bytes::from(state);
    let stream = Stream::new()?;
    let (summary, chunks) = stream.encode(&state)?;
    assert_eq!(decode(&summary, &chunks)?, u64::from(STATE));
    Ok(spotlane_bench::main(|bench| {
        add(bench, stream, state, summary, chunks);
    }))
}

fn add(
    bench: &mut Bench,
    stream: Stream,
    state: Bytes,
    summary: EnvelopeSummary,
    chunks: Vec<Bytes>,
) {
    let slice = bench.slice();
    let ours = state.clone();
    let copy = state.clone();
    bench
        .figure(
            "stream.encode.64MiB",
            "MB/s",
            bytes_per_second(slice, STATE, move || {
                stream.encode(black_box(&ours)).is_ok()
            }),
        )
        .peer(
            "memcpy+crc",
            bytes_per_second(slice, STATE, copy_and_sum(copy)),
        );
    bench
        .figure(
            "stream.decode.64MiB",
            "MB/s",
            bytes_per_second(slice, STATE, move || {
                decode(&summary, black_box(&chunks)).is_ok()
            }),
        )
        .peer(
            "memcpy+crc",
            bytes_per_second(slice, STATE, copy_and_sum(state)),
        );
}

/// What every transfer has to do at least once.
fn copy_and_sum(state: Bytes) -> impl FnMut() -> u32 {
    let mut place = vec![0; state.len()];
    move || {
        place.copy_from_slice(black_box(&state));
        crc32c(black_box(&place))
    }
}

struct Stream {
    head: EnvelopeHead,
    participant: ParticipantId,
    chunk: ChunkBytes,
}

impl Stream {
    fn new() -> Result<Self, Box<dyn Error>> {
        let actor = ActorRef {
            actor_id: "player-7".parse()?,
            object_generation: ObjectGeneration::new(1)?,
        };
        Ok(Self {
            head: EnvelopeHead {
                relocation: RelocationId::new(0, 9)?,
                object: RelocationObject::Actor {
                    actor,
                    expected_authority_owner_generation: AuthorityOwnerGeneration::new(3)?,
                },
                application_version: ApplicationVersion::new(1)?,
            },
            participant: ParticipantId::new(1)?,
            chunk: ChunkBytes::new(CHUNK)?,
        })
    }

    fn encode(&self, state: &Bytes) -> Result<(EnvelopeSummary, Vec<Bytes>), Box<dyn Error>> {
        let mut encoder = EnvelopeEncoder::new(&self.head, 1, self.chunk)?;
        encoder.state(self.participant, Some(state.clone()))?;
        let (summary, chunks) = encoder.work(0)?.timers(0)?.ticks(0)?.finish()?;
        Ok((summary, chunks.into()))
    }
}

fn decode(summary: &EnvelopeSummary, chunks: &[Bytes]) -> Result<u64, Box<dyn Error>> {
    let mut decoder = EnvelopeDecoder::new(summary.total_length);
    let mut state = 0;
    for chunk in chunks {
        decoder.push(chunk.clone())?;
        while let Some(item) = decoder.next_item()? {
            if let EnvelopeItem::StateBytes(bytes) = item {
                state += u64::try_from(black_box(&bytes).len())?;
            }
        }
    }
    if decoder.finish()? != summary.checksum_crc32c {
        return Err("the checksum differs".into());
    }
    Ok(state)
}
