//! Random streams, random splits, random damage.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of a test")]

mod common;

use std::num::NonZeroU64;

use bytes::Bytes;
use common::{E1, E2, settings};
use proptest::prelude::*;
use spotlane_mesh_proto::Machine as _;
use spotlane_mesh_proto::zmp::{
    Connection, ConnectionEffect, ConnectionEnd, ConnectionEvent, Decoder, Dropped, Edition,
    Envelope, Expect, FlowState, Generation, Lane, Opening, PairId, PairKey, Pairing, Ready,
    Refusal, Sequence, encode_frames, hello_frame, ready_frame,
};
use spotlane_types::time::Monotonic;

/// What a dialler `b` of an edition writes: its handshake and then messages.
fn stream(edition: Edition, lane: Lane, messages: &[(u64, Vec<Vec<u8>>)]) -> Vec<u8> {
    let key = PairKey {
        pair: PairId::new(NonZeroU64::new(3).unwrap()),
        generation: Generation::FIRST,
    };
    let id = settings("b", E1).terms.own_id;
    let ready = Ready {
        pairing: match edition {
            Edition::E1 => Pairing::ByKey(key),
            Edition::E2 => Pairing::ByIdentity,
        },
        lane,
        receive_limit: None,
    };
    let mut bytes = [hello_frame(&id), ready_frame(&id, &ready)].concat();
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
        bytes.extend(encode_frames(edition, envelope, &frames).to_bytes());
    }
    bytes
}

/// What an acceptor of the first edition makes of bytes that come in these pieces, up to its end.
fn effects<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<ConnectionEffect> {
    effects_of(E1, pieces)
}

/// What an acceptor makes of bytes that come in these pieces, up to its end.
fn effects_of<'a>(
    opening: Opening,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<ConnectionEffect> {
    let mut out = Vec::new();
    let settings = settings("a", opening).connection();
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

fn editions() -> impl Strategy<Value = (Edition, Opening)> {
    prop_oneof![
        Just((Edition::E1, E1)),
        Just((Edition::E2, E2)),
        Just((Edition::E2, Opening::Neutral)),
    ]
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
        (edition, opening) in editions(),
        lane in lanes(),
        messages in messages(),
        damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut bytes = stream(edition, lane, &messages);
        if let Some((place, byte)) = damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let whole = effects_of(opening, [&bytes[..]]);
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            prop_assert_eq!(&effects_of(opening, [first, second]), &whole, "split at {}", at);
        }
        prop_assert_eq!(&effects_of(opening, bytes.chunks(1)), &whole);
    }

    /// TR-38, TR-39: what was sent comes out, whole and in order.
    #[test]
    fn every_message_comes_out_once_and_in_order(
        (edition, opening) in editions(),
        messages in messages(),
    ) {
        let bytes = stream(edition, Lane::Application, &messages);
        let out = effects_of(opening, [&bytes[..]]);
        let count = out.iter().filter(|effect| matches!(effect, ConnectionEffect::Message(_)));
        prop_assert_eq!(count.count(), messages.len());
    }

    /// TR-55: random bytes neither panic nor take more memory than twice what came.
    #[test]
    fn random_bytes_are_harmless(
        (edition, opening) in editions(),
        head in prop_oneof![
            Just(&b"\x5A\x01\0\0"[..]),
            Just(&b"\x5A\x01\x02\0"[..]),
            Just(&b"\x5A\x01\0\x01"[..]),
            Just(&b""[..]),
        ],
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        chunk in 1_usize..50,
    ) {
        let input = [head, &bytes].concat();
        let mut decoder = Decoder::new(edition, u32::MAX);
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
        effects_of(opening, input.chunks(chunk));
    }
}

/// TR-4: each field of a header after the handshake, damaged alone, has its own refusal.
#[test]
fn each_hostile_field_is_refused_by_name() {
    let legal = stream(Edition::E1, Lane::Application, &[(0, vec![b"x".to_vec()])]);
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
    let start = stream(Edition::E1, Lane::Application, &[]);
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
    let bytes = [stream(Edition::E1, Lane::Application, &[]), frame].concat();
    let end = ConnectionEffect::End(ConnectionEnd::Overlong);
    assert_eq!(effects([&bytes[..]]).last(), Some(&end));
}

/// The last effect of a stream of the second edition that goes on with `tail`.
fn last_of_e2(lane: Lane, tail: &[u8]) -> Option<ConnectionEffect> {
    let start = stream(Edition::E2, lane, &[]);
    effects_of(E2, [&start[..], tail]).last().cloned()
}

fn refused(refusal: Refusal) -> Option<ConnectionEffect> {
    Some(ConnectionEffect::End(ConnectionEnd::Refused(refusal)))
}

/// TR-3, TR-8, TR-38, TR-45: each thing that the second edition forbids has its own refusal and code.
#[test]
fn each_violation_of_the_second_edition_is_refused_by_name() {
    let more = b"\x5A\x01\x01\0\0\0\0\x02ZM";
    let inside = |frame: &[u8]| last_of_e2(Lane::Application, &[&more[..], frame].concat());
    let request = b"\x5A\x01\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x01x";
    let special = b"\x5A\x01\x04\0\0\0\0\x01x";
    let control = b"\x5A\x01\x02\0\0\0\0\x01\x09";
    for frame in [&request[..], special, control] {
        assert_eq!(inside(frame), refused(Refusal::MultipartInvalid));
    }
    let alone = |frame: &[u8]| last_of_e2(Lane::Application, frame);
    let unknown = b"\x5A\x01\0\x04\0\0\0\0";
    assert_eq!(alone(unknown), refused(Refusal::KindInvalid));
    let zero = b"\x5A\x01\0\x01\0\0\0\x01\0\0\0\0\0\0\0\0x";
    assert_eq!(alone(zero), refused(Refusal::SequenceInvalid));
    let control = b"\x5A\x01\x02\x01\0\0\0\x01\x09";
    assert_eq!(alone(control), refused(Refusal::FlagsInvalid));
    let enveloped = ["\x01", "\x01", "\x01", "\0\0\0\0\0\0\0\x01", "p"];
    let enveloped = enveloped.map(|body| Bytes::from_static(body.as_bytes()));
    let enveloped = encode_frames(Edition::E1, Envelope::Plain, &enveloped).to_bytes();
    assert_eq!(alone(&enveloped), refused(Refusal::OtherEdition));
    for (code, refusal) in [
        (3, Refusal::FlagsInvalid),
        (7, Refusal::KindInvalid),
        (8, Refusal::SequenceInvalid),
        (9, Refusal::MultipartInvalid),
        (10, Refusal::Incomplete),
        (127, Refusal::OtherEdition),
        (127, Refusal::NotCompletion),
    ] {
        assert_eq!(refusal.code(), code);
    }
}

/// TR-3: a frame with a kind is refused by the first edition.
#[test]
fn a_request_of_the_second_edition_is_refused_by_the_first() {
    let request = b"\x5A\x01\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x01x";
    let bytes = [&stream(Edition::E1, Lane::Application, &[])[..], request].concat();
    for opening in [E1, Opening::Neutral] {
        let last = effects_of(opening, [&bytes[..]]).last().cloned();
        assert_eq!(last, refused(Refusal::FlagsInvalid));
    }
    for (edition, opening) in [(Edition::E1, E2), (Edition::E2, E1)] {
        let ready = stream(edition, Lane::Application, &[]);
        let last = effects_of(opening, [&ready[..]]).last().cloned();
        assert_eq!(last, refused(Refusal::PairMetadataInvalid));
    }
}

/// TR-43, TR-45: what a Completion lane of the second edition may begin with.
#[test]
fn a_completion_lane_begins_with_a_reply_or_a_flow_state() {
    let plain = &b"\x5A\x01\0\0\0\0\0\x02ZM"[..];
    let request = &b"\x5A\x01\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x01x"[..];
    let reply = &b"\x5A\x01\0\x02\0\0\0\x02\0\0\0\0\0\0\0\x01xy"[..];
    let flow = &b"\x5A\x01\x02\0\0\0\0\x13FLOWSTATE\x01\0\0\0\0\0\0\0\0\x01"[..];
    let last = |tail: &[&[u8]]| last_of_e2(Lane::Completion, &tail.concat());
    for wrong in [plain, request] {
        assert_eq!(last(&[wrong]), refused(Refusal::NotCompletion));
        for first in [reply, flow] {
            let dropped = Some(ConnectionEffect::Dropped(Dropped::Misplaced));
            assert_eq!(last(&[first, wrong]), dropped);
        }
    }
}

/// TR-46: states are absolute, rise by epoch, and are consumed and ignored otherwise.
#[test]
fn the_flow_state_of_the_highest_epoch_holds() {
    let flow = |state, epoch: u8| {
        let tail = [1, state, 0, 0, 0, 0, 0, 0, 0, epoch];
        [&b"\x5A\x01\x02\0\0\0\0\x13FLOWSTATE"[..], &tail].concat()
    };
    let start = stream(Edition::E2, Lane::Completion, &[]);
    let frames = [
        flow(1, 2),
        flow(0, 2),
        flow(0, 1),
        flow(0, 0),
        flow(7, 3),
        flow(0, 3),
    ];
    let bytes = [&start[..], &frames.concat()].concat();
    let out = effects_of(E2, [&bytes[..]]);
    let ignored = ConnectionEffect::Dropped(Dropped::FlowState);
    let paused = ConnectionEffect::Flow(FlowState::Paused);
    let running = ConnectionEffect::Flow(FlowState::Running);
    let expected = [&[paused][..], &vec![ignored.clone(); 4], &[running]].concat();
    assert_eq!(out[out.len() - 6..], expected);
    // It has no meaning on the other lane, nor in the other edition.
    assert_eq!(last_of_e2(Lane::Application, &flow(1, 1)), Some(ignored));
    let first = [&stream(Edition::E1, Lane::Completion, &[])[..], &flow(1, 1)].concat();
    let unknown = ConnectionEffect::Dropped(Dropped::UnknownControl);
    assert_eq!(effects([&first[..]]).last(), Some(&unknown));
}

/// TR-8: a stream of the second edition that ends too early is answered; it is a lost connection all the
/// same, so that a dialler comes again.
#[test]
fn an_end_inside_of_a_frame_or_message_has_code_ten() {
    for (edition, opening) in [(Edition::E2, E2), (Edition::E1, E1)] {
        let legal = stream(
            edition,
            Lane::Application,
            &[(1, vec![b"ab".to_vec(), b"c".to_vec()])],
        );
        let start = stream(edition, Lane::Application, &[]).len();
        for end in start..=legal.len() {
            let mut out = Vec::new();
            let settings = settings("a", opening).connection();
            let mut connection = Connection::accept(settings, Monotonic::ORIGIN, &mut out);
            let event = ConnectionEvent::Received(Bytes::copy_from_slice(&legal[..end]));
            connection.on_event(Monotonic::ORIGIN, event, &mut out);
            out.clear();
            connection.on_event(Monotonic::ORIGIN, ConnectionEvent::Closed, &mut out);
            let code = match &out[..] {
                [
                    ConnectionEffect::Write(error),
                    ConnectionEffect::End(ConnectionEnd::Closed(_)),
                ] => Some(error[9]),
                [ConnectionEffect::End(ConnectionEnd::Closed(_))] => None,
                _ => panic!("{out:?}"),
            };
            let inside = end > start && end < legal.len() && edition == Edition::E2;
            assert_eq!(code, inside.then_some(10), "{edition:?}, {end}");
        }
    }
}

/// TR-54: in the second edition the limit holds for the sum of the parts, and not for control frames.
#[test]
fn the_limit_of_the_second_edition_is_for_the_whole_message() {
    let last = |messages: &[(u64, Vec<Vec<u8>>)]| {
        let mut settings = settings("a", E2).connection();
        settings.receive_limit = NonZeroU64::new(50);
        let mut out = Vec::new();
        let mut connection = Connection::accept(settings, Monotonic::ORIGIN, &mut out);
        let bytes = stream(Edition::E2, Lane::Application, messages);
        let event = ConnectionEvent::Received(Bytes::from(bytes));
        connection.on_event(Monotonic::ORIGIN, event, &mut out);
        out.last().cloned()
    };
    // READY is longer than the limit.
    assert!(matches!(last(&[]), Some(ConnectionEffect::Ready(_))));
    let taken = last(&[(0, vec![vec![1; 25], vec![1; 25]])]);
    assert!(matches!(taken, Some(ConnectionEffect::Message(_))));
    let too_large = last(&[(0, vec![vec![1; 25], vec![1; 26]])]);
    assert_eq!(too_large, refused(Refusal::BodyTooLarge));
}

/// TR-2: a neutral dialler waits for HELLO, says both, and speaks what the answer names.
#[test]
fn a_neutral_dialler_waits_and_takes_what_the_peer_speaks() {
    let key = PairKey {
        pair: PairId::new(NonZeroU64::new(3).unwrap()),
        generation: Generation::FIRST,
    };
    for (edition, pairing) in [
        (Edition::E1, Pairing::ByKey(key)),
        (Edition::E2, Pairing::ByIdentity),
    ] {
        let lane = Lane::Completion;
        let mut out = Vec::new();
        let settings_of_b = settings("b", Opening::Neutral).connection();
        let own = settings_of_b.id.clone();
        let now = Monotonic::ORIGIN;
        let mut connection = Connection::dial(settings_of_b, key, lane, now, &mut out);
        assert_eq!(
            out,
            [ConnectionEffect::Write(hello_frame(&own))],
            "HELLO alone"
        );
        out.clear();
        let peer = settings("a", E1).terms.own_id;
        let event = ConnectionEvent::Received(hello_frame(&peer));
        connection.on_event(now, event, &mut out);
        let ready = |pairing| Ready {
            pairing,
            lane,
            receive_limit: None,
        };
        let both = ready_frame(&own, &ready(Pairing::Either(key)));
        assert_eq!(out, [ConnectionEffect::Write(both)]);
        out.clear();
        let answer = ready_frame(&peer, &ready(pairing));
        connection.on_event(now, ConnectionEvent::Received(answer), &mut out);
        let [ConnectionEffect::Ready(ready)] = &out[..] else {
            panic!("{out:?}");
        };
        assert_eq!((ready.edition(), ready.lane), (edition, lane));
    }
}
