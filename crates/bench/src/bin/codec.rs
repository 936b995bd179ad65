//! An `actorSend` decoded and encoded beside `prost` and `rkyv` with the same fields.
//!
//! Every contender walks through the same 256 records, each in its best form:
//!
//! * **ours**: `view` checks everything and copies nothing, which is what `rkyv` does; `decode` gives
//!   a value of its own, which is what `prost` does. Frames are slices of one receive buffer; the decoded record owns its ids and borrows
//!   the payload (WR-7). Encoding goes into a reused [`FrameBuffer`], in which a payload of 512 bytes
//!   or more stays a part of its own instead of being copied.
//! * **prost**: messages are slices of one receive buffer too, byte fields are slices of it
//!   (`Bytes`), words that are random are `fixed64`. Encoding goes into a reused `BytesMut`.
//! * **rkyv**: the message lies aligned in memory, is checked and then read in place, every field
//!   once. Encoding goes into a reused `AlignedVec`.
//!
//! `actor_send` has neither bound session tail nor metadata, `actor_send_session` has both. `record`
//! is [`Record::decode`], which does not know the command beforehand.

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message as _;
use rkyv::util::AlignedVec;
use spotlane_bench::{Bench, nanoseconds};
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::command::message::ActorSend;
use spotlane_wire::{FrameBuffer, Record, decode_command, encode_command, view_command};

const SIZES: [(&str, usize); 2] = [("64B", 64), ("1KiB", 1 << 10)];
const NAMES: [(&str, bool); 2] = [("actor_send", false), ("actor_send_session", true)];
const RECORDS: u32 = 256;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut cases = Vec::new();
    for (name, from_session) in NAMES {
        for (size, bytes) in SIZES {
            cases.push(Case::new(
                name,
                size,
                &sample::records(bytes, from_session)?,
            )?);
        }
    }
    Ok(spotlane_bench::main(|bench| {
        for case in cases {
            case.add(bench);
        }
    }))
}

/// The same records in all forms, decoded and encoded.
struct Case {
    name: &'static str,
    size: &'static str,
    ours: Forms<ActorSend, Vec<Bytes>>,
    prost: Forms<prost_peer::ActorSend, Bytes>,
    rkyv: Forms<rkyv_peer::ActorSend, AlignedVec>,
}

struct Forms<D, E> {
    decoded: Rc<[D]>,
    encoded: Rc<[E]>,
}

impl Case {
    fn new(
        name: &'static str,
        size: &'static str,
        records: &[ActorSend],
    ) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            name,
            size,
            ours: ours(records)?,
            prost: prost(records)?,
            rkyv: rkyv(records)?,
        })
    }

    fn add(self, bench: &mut Bench) {
        let slice = bench.slice();
        let Self { name, size, .. } = self;
        let prost = &self.prost.encoded;
        let rkyv = &self.rkyv.encoded;
        let frames = Rc::clone(&self.ours.encoded);
        let view = per_record(slice, frames, |frames| {
            black_box(&view_command::<ActorSend>(frames));
        });
        bench
            .figure(format!("codec.{name}.view.{size}"), "ns", view)
            .peer("prost", prost_decode(slice, prost))
            .peer("rkyv_checked", rkyv_decode(slice, rkyv));

        let frames = Rc::clone(&self.ours.encoded);
        let decode = per_record(slice, frames, |frames| {
            black_box(&decode_command::<ActorSend>(
                frames,
                MeshOperationKind::None,
            ));
        });
        bench
            .figure(format!("codec.{name}.decode.{size}"), "ns", decode)
            .peer("prost", prost_decode(slice, prost))
            .peer("rkyv_checked", rkyv_decode(slice, rkyv));

        let decode = per_record(slice, self.ours.encoded, |frames| {
            black_box(&Record::decode(frames, MeshOperationKind::None));
        });
        bench
            .figure(format!("codec.{name}.decode_record.{size}"), "ns", decode)
            .peer("prost", prost_decode(slice, prost))
            .peer("rkyv_checked", rkyv_decode(slice, rkyv));

        let mut out = FrameBuffer::default();
        let encode = per_record(slice, self.ours.decoded, move |record| {
            black_box(&encode_command(record, &mut out));
            black_box(&out);
        });
        bench
            .figure(format!("codec.{name}.encode.{size}"), "ns", encode)
            .peer("prost", prost_encode(slice, self.prost.decoded))
            .peer("rkyv_checked", rkyv_encode(slice, self.rkyv.decoded));
    }
}

/// Nanoseconds for one of the records, which are walked through from first to last.
fn per_record<T: 'static>(
    slice: Duration,
    all: Rc<[T]>,
    mut call: impl FnMut(&T) + 'static,
) -> impl FnMut() -> f64 + 'static {
    let mut time = nanoseconds(slice, move || {
        for one in &*all {
            call(black_box(one));
        }
    });
    move || time() / f64::from(RECORDS)
}

fn prost_decode(slice: Duration, messages: &Rc<[Bytes]>) -> impl FnMut() -> f64 + use<> {
    per_record(slice, Rc::clone(messages), |message| {
        black_box(&prost_peer::ActorSend::decode(message.clone()));
    })
}

fn prost_encode(slice: Duration, messages: Rc<[prost_peer::ActorSend]>) -> impl FnMut() -> f64 {
    let mut out = BytesMut::new();
    per_record(slice, messages, move |message| {
        out.clear();
        black_box(&message.encode(&mut out));
        black_box(&out);
    })
}

fn rkyv_decode(slice: Duration, messages: &Rc<[AlignedVec]>) -> impl FnMut() -> f64 + use<> {
    per_record(slice, Rc::clone(messages), |message| {
        black_box(&rkyv_peer::access(message).map(rkyv_peer::View::new));
    })
}

fn rkyv_encode(slice: Duration, messages: Rc<[rkyv_peer::ActorSend]>) -> impl FnMut() -> f64 {
    let mut out = AlignedVec::new();
    per_record(slice, messages, move |message| {
        let mut reused = std::mem::take(&mut out);
        reused.clear();
        let encoded = rkyv_peer::encode(message, reused);
        black_box(&encoded);
        out = encoded.unwrap_or_default();
    })
}

fn ours(records: &[ActorSend]) -> Result<Forms<ActorSend, Vec<Bytes>>, Box<dyn Error>> {
    let mut out = FrameBuffer::default();
    let mut parts = Vec::new();
    for record in records {
        encode_command(record, &mut out)?;
        parts.push(out.to_frames());
    }
    let received = receive(&parts.concat());
    let mut rest = received.as_slice();
    let mut encoded = Vec::new();
    for (record, frames) in records.iter().zip(&parts) {
        let (frames, others) = rest.split_at(frames.len());
        rest = others;
        let decoded = decode_command::<ActorSend>(frames, MeshOperationKind::None)?;
        assert_eq!(decoded, *record);
        let decoded = Record::decode(frames, MeshOperationKind::None)?;
        assert_eq!(decoded, Record::from(record.clone()));
        encoded.push(frames.to_vec());
    }
    Ok(forms(records.to_vec(), encoded))
}

fn prost(records: &[ActorSend]) -> Result<Forms<prost_peer::ActorSend, Bytes>, Box<dyn Error>> {
    let decoded: Vec<_> = records.iter().map(prost_peer::ActorSend::from).collect();
    let parts: Vec<Bytes> = decoded
        .iter()
        .map(|message| message.encode_to_vec().into())
        .collect();
    let encoded = receive(&parts);
    for (message, bytes) in decoded.iter().zip(&encoded) {
        assert_eq!(prost_peer::ActorSend::decode(bytes.clone())?, *message);
    }
    Ok(forms(decoded, encoded))
}

fn rkyv(records: &[ActorSend]) -> Result<Forms<rkyv_peer::ActorSend, AlignedVec>, Box<dyn Error>> {
    let decoded: Vec<_> = records.iter().map(rkyv_peer::ActorSend::from).collect();
    let mut encoded = Vec::new();
    for message in &decoded {
        let bytes = rkyv_peer::encode(message, AlignedVec::new())?;
        assert_eq!(rkyv_peer::decode(&bytes)?, *message);
        rkyv_peer::access(&bytes)?;
        encoded.push(bytes);
    }
    Ok(forms(decoded, encoded))
}

fn forms<D, E>(decoded: Vec<D>, encoded: Vec<E>) -> Forms<D, E> {
    Forms {
        decoded: decoded.into(),
        encoded: encoded.into(),
    }
}

/// The parts as slices of one buffer, one behind the other, as a socket would have delivered them.
fn receive(parts: &[Bytes]) -> Vec<Bytes> {
    let mut buffer = Bytes::from(parts.concat());
    parts
        .iter()
        .map(|part| buffer.split_to(part.len()))
        .collect()
}

mod sample {
    //! The values: different in every record, and in size and spread as in a running mesh.

    use std::error::Error;

    use bytes::Bytes;
    use spotlane_types::count::{HopCount, SessionSequence};
    use spotlane_types::generation::{
        AuthorityOwnerGeneration, BindingGeneration, NodeGeneration, ObjectGeneration,
        OwnerLeaseGeneration,
    };
    use spotlane_types::id::{ActorId, NodeRid, OperationId, SessionRid};
    use spotlane_wire::blob::PayloadBytes;
    use spotlane_wire::command::message::{ActorSend, BoundSessionTail};
    use spotlane_wire::payload::{ApplicationPayload, MetadataEntry, MetadataFrame};
    use spotlane_wire::reference::{ActorRef, ActorRouteFence};

    type Made<T> = Result<T, Box<dyn Error>>;

    const PACKETS: [&str; 4] = ["Move", "Chat", "game.CastSpell", "game.inventory.UseItem"];
    const CONTENT_TYPES: [&str; 2] = ["application/json", "application/x-protobuf"];

    pub(super) fn records(payload: usize, from_session: bool) -> Made<Vec<ActorSend>> {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        (0..super::RECORDS)
            .map(|_| record(&mut random, payload, from_session))
            .collect()
    }

    fn record(random: &mut Random, payload: usize, from_session: bool) -> Made<ActorSend> {
        let source_actor = match random.below(2) {
            0 => Some(actor(random)?),
            _ => None,
        };
        Ok(ActorSend {
            operation: OperationId::new(random.word(), random.word())?,
            message_follow_hop_count: HopCount::new(u8::from(random.below(8) == 0))?,
            source_actor,
            target_actor: fence(random)?,
            bound_session_tail: from_session.then(|| session(random)).transpose()?,
            metadata: from_session.then(|| metadata(random)).transpose()?,
            payload: ApplicationPayload {
                packet_name: random.choose(PACKETS).parse()?,
                content_type: random.choose(CONTENT_TYPES).parse()?,
                payload: PayloadBytes::new(Bytes::from(random.bytes(payload)))?,
            },
        })
    }

    /// Half of the ids are UUIDs in text form.
    fn actor(random: &mut Random) -> Made<ActorRef> {
        let id = match random.below(2) {
            0 => format!("player-{}", 1000 + random.below(9000)),
            _ => uuid(random),
        };
        Ok(ActorRef {
            actor_id: ActorId::new(&id)?,
            object_generation: ObjectGeneration::new(1 + random.below(2_000_000))?,
        })
    }

    fn uuid(random: &mut Random) -> String {
        let (high, low) = (random.word(), random.word());
        let hex = format!("{high:016x}{low:016x}");
        let parts = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        parts.join("-")
    }

    /// The generation of a node is random, the others are counters.
    fn fence(random: &mut Random) -> Made<ActorRouteFence> {
        Ok(ActorRouteFence {
            actor: actor(random)?,
            target_node_rid: NodeRid::new(&random.bytes(16))?,
            target_node_generation: NodeGeneration::new((random.word() >> 1).max(1))?,
            expected_authority_owner_generation: AuthorityOwnerGeneration::new(
                1 + random.below(4_000_000),
            )?,
            expected_owner_lease_generation: OwnerLeaseGeneration::new(1 + random.below(20_000))?,
        })
    }

    fn session(random: &mut Random) -> Made<BoundSessionTail> {
        Ok(BoundSessionTail {
            source_session_rid: SessionRid::new(&random.bytes(16))?,
            source_binding_generation: BindingGeneration::new(1 + random.below(500_000))?,
            source_session_sequence: SessionSequence::new(1 + random.below(100_000))?,
        })
    }

    fn metadata(random: &mut Random) -> Made<MetadataFrame> {
        let (high, low) = (random.word(), random.word());
        let trace = MetadataEntry {
            key: "traceparent".parse()?,
            value: format!("00-{high:016x}{low:016x}-{:016x}-01", random.word()).parse()?,
        };
        let tenant = MetadataEntry {
            key: "tenant".parse()?,
            value: format!("tenant-{}", random.below(100)).parse()?,
        };
        Ok(MetadataFrame::new(&[trace, tenant])?)
    }

    /// Xorshift: the same values in every run.
    struct Random(u64);

    impl Random {
        fn word(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        fn below(&mut self, bound: u64) -> u64 {
            // The low bits of a xorshift are its worst.
            (self.word() >> 16) % bound
        }

        fn bytes(&mut self, len: usize) -> Vec<u8> {
            (0..len).map(|_| self.word().to_be_bytes()[0]).collect()
        }

        fn choose<const N: usize>(&mut self, from: [&'static str; N]) -> &'static str {
            let at = self.below(N as u64);
            from[usize::try_from(at).unwrap_or(0)]
        }
    }
}

mod prost_peer {
    //! The fields as messages of prost.

    use bytes::Bytes;
    use spotlane_wire::command::message as ours;
    use spotlane_wire::payload::MetadataFrame;
    use spotlane_wire::reference;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ActorSend {
        #[prost(message, required, tag = "1")]
        operation: OperationId,
        #[prost(uint32, tag = "2")]
        message_follow_hop_count: u32,
        #[prost(message, optional, tag = "3")]
        source_actor: Option<ActorRef>,
        #[prost(message, required, tag = "4")]
        target_actor: ActorRouteFence,
        #[prost(message, optional, tag = "5")]
        bound_session_tail: Option<BoundSessionTail>,
        #[prost(message, repeated, tag = "6")]
        metadata: Vec<MetadataEntry>,
        #[prost(message, required, tag = "7")]
        payload: ApplicationPayload,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct OperationId {
        #[prost(fixed64, tag = "1")]
        high: u64,
        #[prost(fixed64, tag = "2")]
        low: u64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct ActorRef {
        #[prost(string, tag = "1")]
        actor_id: String,
        #[prost(uint64, tag = "2")]
        object_generation: u64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct ActorRouteFence {
        #[prost(message, required, tag = "1")]
        actor: ActorRef,
        #[prost(bytes = "bytes", tag = "2")]
        target_node_rid: Bytes,
        #[prost(fixed64, tag = "3")]
        target_node_generation: u64,
        #[prost(uint64, tag = "4")]
        expected_authority_owner_generation: u64,
        #[prost(uint64, tag = "5")]
        expected_owner_lease_generation: u64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct BoundSessionTail {
        #[prost(bytes = "bytes", tag = "1")]
        session_rid: Bytes,
        #[prost(uint64, tag = "2")]
        binding_generation: u64,
        #[prost(uint64, tag = "3")]
        session_sequence: u64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct MetadataEntry {
        #[prost(string, tag = "1")]
        key: String,
        #[prost(string, tag = "2")]
        value: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct ApplicationPayload {
        #[prost(string, tag = "1")]
        packet_name: String,
        #[prost(string, tag = "2")]
        content_type: String,
        #[prost(bytes = "bytes", tag = "3")]
        payload: Bytes,
    }

    impl From<&ours::ActorSend> for ActorSend {
        fn from(record: &ours::ActorSend) -> Self {
            let fence = &record.target_actor;
            let payload = &record.payload;
            let metadata = record.metadata.iter().flat_map(MetadataFrame::entries);
            Self {
                operation: OperationId {
                    high: record.operation.high(),
                    low: record.operation.low(),
                },
                message_follow_hop_count: record.message_follow_hop_count.get().into(),
                source_actor: record.source_actor.as_ref().map(ActorRef::from),
                target_actor: ActorRouteFence {
                    actor: (&fence.actor).into(),
                    target_node_rid: Bytes::copy_from_slice(fence.target_node_rid.as_bytes()),
                    target_node_generation: fence.target_node_generation.get(),
                    expected_authority_owner_generation: fence
                        .expected_authority_owner_generation
                        .get(),
                    expected_owner_lease_generation: fence.expected_owner_lease_generation.get(),
                },
                bound_session_tail: record.bound_session_tail.as_ref().map(Into::into),
                metadata: metadata
                    .map(|(key, value)| MetadataEntry {
                        key: key.to_owned(),
                        value: value.to_owned(),
                    })
                    .collect(),
                payload: ApplicationPayload {
                    packet_name: payload.packet_name.to_string(),
                    content_type: payload.content_type.to_string(),
                    payload: payload.payload.as_bytes().clone(),
                },
            }
        }
    }

    impl From<&reference::ActorRef> for ActorRef {
        fn from(actor: &reference::ActorRef) -> Self {
            Self {
                actor_id: actor.actor_id.to_string(),
                object_generation: actor.object_generation.get(),
            }
        }
    }

    impl From<&ours::BoundSessionTail> for BoundSessionTail {
        fn from(tail: &ours::BoundSessionTail) -> Self {
            Self {
                session_rid: Bytes::copy_from_slice(tail.source_session_rid.as_bytes()),
                binding_generation: tail.source_binding_generation.get(),
                session_sequence: tail.source_session_sequence.get(),
            }
        }
    }
}

mod rkyv_peer {
    //! The fields as an archive of rkyv.

    use rkyv::rancor::Error;
    use rkyv::util::AlignedVec;
    use rkyv::vec::ArchivedVec;
    use rkyv::{Archive, Deserialize, Serialize};
    use spotlane_wire::command::message as ours;
    use spotlane_wire::reference;

    #[derive(Debug, PartialEq, Archive, Serialize, Deserialize)]
    pub(super) struct ActorSend {
        operation: OperationId,
        message_follow_hop_count: u8,
        source_actor: Option<ActorRef>,
        target_actor: ActorRouteFence,
        bound_session_tail: Option<BoundSessionTail>,
        metadata: Option<Vec<MetadataEntry>>,
        payload: ApplicationPayload,
    }

    #[derive(Debug, PartialEq, Archive, Serialize, Deserialize)]
    struct OperationId {
        high: u64,
        low: u64,
    }

    #[derive(Debug, PartialEq, Archive, Serialize, Deserialize)]
    struct ActorRef {
        actor_id: String,
        object_generation: u64,
    }

    #[derive(Debug, PartialEq, Archive, Serialize, Deserialize)]
    struct ActorRouteFence {
        actor: ActorRef,
        target_node_rid: Vec<u8>,
        target_node_generation: u64,
        expected_authority_owner_generation: u64,
        expected_owner_lease_generation: u64,
    }

    #[derive(Debug, PartialEq, Archive, Serialize, Deserialize)]
    struct BoundSessionTail {
        session_rid: Vec<u8>,
        binding_generation: u64,
        session_sequence: u64,
    }

    #[derive(Debug, PartialEq, Archive, Serialize, Deserialize)]
    struct MetadataEntry {
        key: String,
        value: String,
    }

    #[derive(Debug, PartialEq, Archive, Serialize, Deserialize)]
    struct ApplicationPayload {
        packet_name: String,
        content_type: String,
        payload: Vec<u8>,
    }

    #[inline]
    pub(super) fn access(bytes: &[u8]) -> Result<&ArchivedActorSend, Error> {
        rkyv::access(bytes)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<ActorSend, Error> {
        rkyv::from_bytes(bytes)
    }

    #[inline]
    pub(super) fn encode(message: &ActorSend, out: AlignedVec) -> Result<AlignedVec, Error> {
        rkyv::api::high::to_bytes_in(message, out)
    }

    /// Every field, read once. Metadata stays where it is, as in our record.
    #[expect(
        dead_code,
        reason = "the optimizer has to believe that somebody reads it"
    )]
    pub(super) struct View<'a> {
        operation: (u64, u64),
        message_follow_hop_count: u8,
        source_actor: Option<(&'a str, u64)>,
        target_actor: (&'a str, u64),
        target_node_rid: &'a [u8],
        generations: [u64; 3],
        bound_session_tail: Option<(&'a [u8], u64, u64)>,
        metadata: Option<&'a [ArchivedMetadataEntry]>,
        packet_name: &'a str,
        content_type: &'a str,
        payload: &'a [u8],
    }

    impl<'a> View<'a> {
        #[inline]
        pub(super) fn new(archived: &'a ArchivedActorSend) -> Self {
            let actor = |actor: &'a ArchivedActorRef| {
                (actor.actor_id.as_str(), actor.object_generation.to_native())
            };
            let fence = &archived.target_actor;
            let tail = archived.bound_session_tail.as_ref();
            Self {
                operation: (
                    archived.operation.high.to_native(),
                    archived.operation.low.to_native(),
                ),
                message_follow_hop_count: archived.message_follow_hop_count,
                source_actor: archived.source_actor.as_ref().map(actor),
                target_actor: actor(&fence.actor),
                target_node_rid: &fence.target_node_rid,
                generations: [
                    fence.target_node_generation.to_native(),
                    fence.expected_authority_owner_generation.to_native(),
                    fence.expected_owner_lease_generation.to_native(),
                ],
                bound_session_tail: tail.map(|tail| {
                    (
                        tail.session_rid.as_slice(),
                        tail.binding_generation.to_native(),
                        tail.session_sequence.to_native(),
                    )
                }),
                metadata: archived.metadata.as_ref().map(ArchivedVec::as_slice),
                packet_name: &archived.payload.packet_name,
                content_type: &archived.payload.content_type,
                payload: &archived.payload.payload,
            }
        }
    }

    impl From<&ours::ActorSend> for ActorSend {
        fn from(record: &ours::ActorSend) -> Self {
            let fence = &record.target_actor;
            let payload = &record.payload;
            Self {
                operation: OperationId {
                    high: record.operation.high(),
                    low: record.operation.low(),
                },
                message_follow_hop_count: record.message_follow_hop_count.get(),
                source_actor: record.source_actor.as_ref().map(ActorRef::from),
                target_actor: ActorRouteFence {
                    actor: (&fence.actor).into(),
                    target_node_rid: fence.target_node_rid.as_bytes().to_vec(),
                    target_node_generation: fence.target_node_generation.get(),
                    expected_authority_owner_generation: fence
                        .expected_authority_owner_generation
                        .get(),
                    expected_owner_lease_generation: fence.expected_owner_lease_generation.get(),
                },
                bound_session_tail: record.bound_session_tail.as_ref().map(Into::into),
                metadata: record.metadata.as_ref().map(|frame| {
                    let entry = |(key, value): (&str, &str)| MetadataEntry {
                        key: key.to_owned(),
                        value: value.to_owned(),
                    };
                    frame.entries().map(entry).collect()
                }),
                payload: ApplicationPayload {
                    packet_name: payload.packet_name.to_string(),
                    content_type: payload.content_type.to_string(),
                    payload: payload.payload.as_bytes().to_vec(),
                },
            }
        }
    }

    impl From<&reference::ActorRef> for ActorRef {
        fn from(actor: &reference::ActorRef) -> Self {
            Self {
                actor_id: actor.actor_id.to_string(),
                object_generation: actor.object_generation.get(),
            }
        }
    }

    impl From<&ours::BoundSessionTail> for BoundSessionTail {
        fn from(tail: &ours::BoundSessionTail) -> Self {
            Self {
                session_rid: tail.source_session_rid.as_bytes().to_vec(),
                binding_generation: tail.source_binding_generation.get(),
                session_sequence: tail.source_session_sequence.get(),
            }
        }
    }
}
