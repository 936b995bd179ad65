//! Random streams, random splits, random damage.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of a test")]

mod common;

use std::num::NonZeroU64;

use bytes::Bytes;
use common::settings;
use proptest::prelude::*;
use spotlane_mesh_proto::Machine as _;
use spotlane_mesh_proto::zmp::{
    Connection, ConnectionEffect, ConnectionEnd, ConnectionEvent, Decoder, Edition, Envelope,
    Expect, Generation, Lane, PairId, PairKey, Refusal, Sequence, encode_frames,
};
use spotlane_types::time::Monotonic;

/// What a dialler `b` writes: its handshake and then messages.
fn stream(lane: Lane, messages: &[(u64, Vec<Vec<u8>>)]) -> Vec<u8> {
    let key = PairKey {
        pair: PairId::new(NonZeroU64::new(3).unwrap()),
        generation: Generation::FIRST,
    };
    let mut out = Vec::new();
    Connection::dial(
        settings("b").connection(),
        key,
        lane,
        Monotonic::ORIGIN,
        &mut out,
    );
    let [ConnectionEffect::Write(handshake)] = &out[..] else {
        panic!("{out:?}");
    };
    let mut bytes = handshake.to_vec();
    for (number, frames) in messages {
        let envelope = match (lane, Sequence::new(number % 4)) {
            (_, None) => Envelope::Plain,
            (Lane::Application, Some(sequence)) => Envelope::Request(sequence),
            (Lane::Completion, Some(sequence)) => Envelope::Reply(sequence),
        };
        let frames: Vec<_> = frames
            .iter()
            .map(|body| Bytes::from(body.clone()))
            .collect();
        bytes.extend(encode_frames(Edition::E1, envelope, &frames).to_bytes());
    }
    bytes
}

/// What an acceptor makes of bytes that come in these pieces, up to its end.
fn effects<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<ConnectionEffect> {
    let mut out = Vec::new();
    let settings = settings("a").connection();
    let mut connection = Connection::accept(settings, Monotonic::ORIGIN, &mut out);
    for piece in pieces {
        let event = ConnectionEvent::Received(Bytes::copy_from_slice(piece));
        connection.on_event(Monotonic::ORIGIN, event, &mut out);
    }
    let end = out
        .iter()
        .position(|effect| matches!(effect, ConnectionEffect::End(_)));
    out.truncate(end.map_or(out.len(), |end| end + 1));
    out
}

fn lanes() -> impl Strategy<Value = Lane> {
    prop_oneof![Just(Lane::Application), Just(Lane::Completion)]
}

fn messages() -> impl Strategy<Value = Vec<(u64, Vec<Vec<u8>>)>> {
    let frame = prop::collection::vec(any::<u8>(), 0..40);
    let message = (any::<u64>(), prop::collection::vec(frame, 1..4));
    prop::collection::vec(message, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// TR-6: a legal stream, and one with a changed byte, split once at every byte and byte by byte.
    #[test]
    fn the_split_changes_nothing(
        lane in lanes(),
        messages in messages(),
        damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut bytes = stream(lane, &messages);
        if let Some((place, byte)) = damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let whole = effects([&bytes[..]]);
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            prop_assert_eq!(&effects([first, second]), &whole, "split at {}", at);
        }
        prop_assert_eq!(&effects(bytes.chunks(1)), &whole);
    }

    /// TR-38, TR-39: what was sent comes out, whole and in order.
    #[test]
    fn every_message_comes_out_once_and_in_order(messages in messages()) {
        let bytes = stream(Lane::Application, &messages);
        let out = effects([&bytes[..]]);
        let count = out.iter().filter(|effect| matches!(effect, ConnectionEffect::Message(_)));
        prop_assert_eq!(count.count(), messages.len());
    }

    /// TR-55: random bytes neither panic nor take more memory than twice what came.
    #[test]
    fn random_bytes_are_harmless(
        head in prop_oneof![Just(&b"\x5A\x01\0\0"[..]), Just(&b"\x5A\x01\x02\0"[..]), Just(&b""[..])],
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        chunk in 1_usize..50,
    ) {
        let input = [head, &bytes].concat();
        let mut decoder = Decoder::new(Edition::E1, u32::MAX);
        let mut received = 0;
        'all: for piece in input.chunks(chunk) {
            let mut piece = Bytes::copy_from_slice(piece);
            received += piece.len();
            loop {
                match decoder.next(Expect::Any, &mut piece) {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
            prop_assert!(decoder.gathered_capacity() <= 2 * received.max(64));
        }
        effects(input.chunks(chunk));
    }
}

/// TR-4: each field of a header after the handshake, damaged alone, has its own refusal.
#[test]
fn each_hostile_field_is_refused_by_name() {
    let legal = stream(Lane::Application, &[(0, vec![b"x".to_vec()])]);
    let header = legal.len() - 9;
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = legal.clone();
        change(&mut bytes);
        match effects([&bytes[..]]).last() {
            Some(ConnectionEffect::End(ConnectionEnd::Refused(refusal))) => Some(*refusal),
            _ => None,
        }
    };
    assert_eq!(refused(&|_| {}), None);
    assert_eq!(
        refused(&|bytes| bytes[header] = 0),
        Some(Refusal::InvalidMagic)
    );
    assert_eq!(
        refused(&|bytes| bytes[header + 1] = 2),
        Some(Refusal::VersionMismatch)
    );
    for flags in [0x03, 0x06, 0x20, 0x40, 0x80, 0x18, 0x09, 0x11, 0x0C] {
        let refusal = refused(&|bytes| bytes[header + 2] = flags);
        assert_eq!(refusal, Some(Refusal::FlagsInvalid), "{flags:#04x}");
    }
    assert_eq!(
        refused(&|bytes| bytes[header + 3] = 1),
        Some(Refusal::FlagsInvalid)
    );
    let control_too_long = |bytes: &mut Vec<u8>| {
        bytes[header + 2] = 2;
        bytes[header + 4] = 1;
    };
    assert_eq!(refused(&control_too_long), Some(Refusal::BodyTooLarge));
    // A longer body than what comes is no violation; it is waited for.
    assert_eq!(refused(&|bytes| bytes[header + 4] = 0xFF), None);
}

/// TR-7, TR-20, TR-21, TR-38: what routers do not use is dropped; nothing stands inside a message.
#[test]
fn special_frames_and_weight_are_dropped_and_control_inside_a_message_is_refused() {
    let start = stream(Lane::Application, &[]);
    let with = |tail: &[u8]| effects([&start[..], tail]).last().cloned();
    for flags in [0x04, 0x05, 0x08, 0x10] {
        let special = [0x5A, 1, flags, 0, 0, 0, 0, 1, b'x'];
        assert!(
            matches!(with(&special), Some(ConnectionEffect::Dropped(_))),
            "{flags}"
        );
    }
    for weight in [&b"WEIGHT\0\0\0\x32"[..], b"WEIGHT\0\0\xFF\xFF", b"WEIGHT"] {
        let length = u8::try_from(weight.len()).unwrap();
        let frame = [&[0x5A, 1, 2, 0, 0, 0, 0, length], weight].concat();
        assert!(matches!(with(&frame), Some(ConnectionEffect::Dropped(_))));
    }
    let inside = b"\x5A\x01\x01\0\0\0\0\x01x\x5A\x01\x02\0\0\0\0\x01\x09";
    let end = ConnectionEnd::Refused(Refusal::InvalidControl);
    assert_eq!(with(inside), Some(ConnectionEffect::End(end)));
}

/// TR-11: a peer without an identity is turned away without ERROR, since it may come back with one.
#[test]
fn a_peer_without_identity_is_turned_away() {
    let out = effects([&b"\x5A\x01\x02\0\0\0\0\x03\x01\x06\0"[..]]);
    let end = ConnectionEffect::End(ConnectionEnd::NoIdentity);
    assert!(matches!(&out[..], [ConnectionEffect::Write(_), last] if *last == end));
}

/// TR-39: more frames than a message may have end the connection.
#[test]
fn a_message_without_end_is_stopped() {
    let frame = b"\x5A\x01\x01\0\0\0\0\0".repeat(1025);
    let bytes = [stream(Lane::Application, &[]), frame].concat();
    let end = ConnectionEffect::End(ConnectionEnd::Overlong);
    assert_eq!(effects([&bytes[..]]).last(), Some(&end));
}
