//! What each fuzz target does with its bytes. Plain functions, so that tests replay the corpus.
//!
//! Every function panics when a promise of the codec is broken: it must not panic by itself, what it
//! accepts encodes to the same bytes (WR-6), and how a stream is split changes nothing (WR-43).

use bytes::Bytes;
use spotlane_types::count::RelocationLogicalLength;
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::authority::{AuthorityPayload, InstanceActivationRecovery};
use spotlane_wire::command::message::{ActorRequest, ActorSend, SpotRequest, SpotSend};
use spotlane_wire::durable::{self, Durable};
use spotlane_wire::relocation::{RelocationDataChunk, RelocationEnvelope, RelocationManifest};
use spotlane_wire::stream::{EnvelopeDecoder, EnvelopeItem};
use spotlane_wire::{
    DecodeError, ErrorKind, FrameBuffer, Record, ViewCommand, by_name, view_command,
};

/// A record: one byte for the pending operation, then frames of a two-byte length each. The last
/// frame takes what is left.
pub fn record(data: &[u8]) {
    let Some((pending, rest)) = data.split_first() else {
        return;
    };
    let pending = usize::from(*pending) % MeshOperationKind::ALL.len();
    let frames = frames(rest);
    let Ok(record) = Record::decode(&frames, MeshOperationKind::ALL[pending]) else {
        no_view::<ActorSend>(&frames);
        return;
    };
    same_view::<ActorSend>(&record, &frames);
    same_view::<ActorRequest>(&record, &frames);
    same_view::<SpotSend>(&record, &frames);
    same_view::<SpotRequest>(&record, &frames);
    let mut out = FrameBuffer::default();
    record
        .encode(&mut out)
        .expect("what was decoded can be encoded");
    let again = out.to_frames();
    // Ids of a descriptor extension that this version does not know are skipped and not kept.
    if !matches!(
        record,
        Record::Hello(_) | Record::Admit(_) | Record::Update(_)
    ) {
        assert_eq!(again, frames, "the encoding is canonical");
    }
    let decoded = Record::decode(&again, MeshOperationKind::ALL[pending]);
    assert_eq!(decoded.as_ref(), Ok(&record));
    let json = Record::from_json(record.to_json(), MeshOperationKind::ALL[pending]);
    assert_eq!(json, Ok(record));
}

/// The frames of [`record`].
fn frames(mut rest: &[u8]) -> Vec<Bytes> {
    let mut frames = Vec::new();
    while let Some((len, tail)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(tail.len());
        let (frame, tail) = tail.split_at(len);
        frames.push(Bytes::copy_from_slice(frame));
        rest = tail;
    }
    frames
}

fn same_view<C: ViewCommand>(record: &Record, frames: &[Bytes]) {
    if record.command() == C::ID {
        let view = view_command::<C>(frames).expect("a view accepts what decoding accepts");
        let viewed: Record = C::from_view(&view).into();
        assert_eq!(viewed, *record);
    }
}

fn no_view<C: ViewCommand>(frames: &[Bytes]) {
    assert!(
        view_command::<C>(frames).is_err(),
        "a view refuses what decoding refuses"
    );
}

/// A relocation stream: one byte for the size of the pieces, then the stream.
pub fn envelope(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else {
        return;
    };
    let stream = Bytes::copy_from_slice(stream);
    let whole = spotlane_wire::decode::<RelocationEnvelope>(&stream);
    let pieces = decode_pieces(&stream, usize::from(*size).max(1));
    let once = decode_pieces(&stream, stream.len().max(1));
    match whole {
        Ok(value) => {
            assert!(pieces.is_ok() && once.is_ok(), "{pieces:?} {once:?}");
            assert_eq!(spotlane_wire::encode(&value).as_ref(), Ok(&stream));
        }
        Err(error) => {
            let kind = Err(error.kind());
            assert_eq!(pieces.map_err(|e| e.kind()), kind);
            assert_eq!(once.map_err(|e| e.kind()), kind);
        }
    }
}

fn decode_pieces(stream: &Bytes, size: usize) -> Result<u32, DecodeError> {
    let total = RelocationLogicalLength::new(stream.len() as u64).expect("below 2^38");
    let mut decoder = EnvelopeDecoder::new(total);
    for at in (0..stream.len()).step_by(size) {
        decoder.push(stream.slice(at..stream.len().min(at + size)))?;
        while let Some(item) = decoder.next_item()? {
            if let EnvelopeItem::StateBytes(bytes) = item {
                assert!(!bytes.is_empty());
            }
        }
    }
    decoder.finish()
}

/// A stored format: one byte for which, then its bytes.
pub fn durable(data: &[u8]) {
    let Some((which, stored)) = data.split_first() else {
        return;
    };
    let stored = Bytes::copy_from_slice(stored);
    match which % 4 {
        0 => stored_as::<AuthorityPayload>(&stored),
        1 => stored_as::<InstanceActivationRecovery>(&stored),
        2 => stored_as::<RelocationDataChunk>(&stored),
        _ => stored_as::<RelocationManifest>(&stored),
    }
}

fn stored_as<T: Durable>(stored: &Bytes) {
    if let Ok(value) = durable::decode::<T>(stored) {
        assert_eq!(durable::encode(&value).as_ref(), Ok(stored));
        return;
    }
    // A fuzzer does not find a checksum: the same bytes are tried with the right one.
    let Some(body) = stored.get(11..) else { return };
    let mut sealed = T::MAGIC.to_vec();
    sealed.extend_from_slice(&[1, 0, 0]);
    sealed.extend_from_slice(&u32::try_from(body.len()).expect("short").to_be_bytes());
    sealed.extend_from_slice(body);
    let checksum = spotlane_wire::checksum::crc32c(&sealed);
    sealed.extend_from_slice(&checksum.to_be_bytes());
    let sealed = Bytes::from(sealed);
    match durable::decode::<T>(&sealed) {
        Ok(value) => assert_eq!(durable::encode(&value), Ok(sealed)),
        Err(error) => assert!(matches!(
            error.kind(),
            ErrorKind::InvalidField | ErrorKind::TruncatedField | ErrorKind::TrailingByte
        )),
    }
}

/// A standalone value: one byte for its type, then its bytes; also by way of its JSON form.
pub fn value(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else {
        return;
    };
    let count = by_name::all().count();
    let named = by_name::all()
        .nth(usize::from(*which) % count)
        .expect("below the count");
    let bytes = Bytes::copy_from_slice(bytes);
    let Ok(json) = named.decode(&bytes) else {
        return;
    };
    let again = named
        .encode(json.clone())
        .expect("what was decoded can be encoded");
    if !named.name().contains("admission") && named.name() != "descriptor-extension" {
        assert_eq!(
            again,
            bytes,
            "the encoding of {} is canonical",
            named.name()
        );
    }
    assert_eq!(named.decode(&again), Ok(json));
}
