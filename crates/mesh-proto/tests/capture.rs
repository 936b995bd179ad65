//! The recorded bytes of the real router against our connection machine.
//!
//! The capture is read where it stands beside the project and is not part of it. Without it these
//! tests check nothing and say so.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of a test, which say when they test nothing"
)]

use std::num::NonZeroU64;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use spotlane_mesh_proto::Machine as _;
use spotlane_mesh_proto::zmp::{
    Accepts, Connection, ConnectionEffect, ConnectionEnd, ConnectionEvent, ConnectionSettings,
    Dropped, Edition, Envelope, Generation, Lane, Message, Opening, PairId, PairKey, Refusal,
    Sequence, encode_frames,
};
use spotlane_types::id::NodeRid;
use spotlane_types::kind::MeshOperationKind;
use spotlane_types::time::Monotonic;
use spotlane_wire::Record;

const CAPTURE: &str = "../../../shared/golden/zmp-router-capture.json";

fn capture() -> Option<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(CAPTURE);
    let Ok(text) = std::fs::read(path) else {
        println!("SKIPPED: the capture is not beside the project, so nothing was compared with it");
        return None;
    };
    Some(serde_json::from_slice(&text).unwrap())
}

fn hex(value: &Value) -> Vec<u8> {
    spotlane_types::hex::decode(value.as_str().unwrap()).unwrap()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap()
}

fn settings(id: &[u8], limit: Option<u64>) -> ConnectionSettings {
    ConnectionSettings {
        opening: Opening::Fixed(Edition::E1),
        id: NodeRid::new(id).unwrap(),
        receive_limit: limit.and_then(NonZeroU64::new),
        accepts: Accepts::RoutersAndDealers,
    }
}

fn receive(connection: &mut Connection, bytes: &[u8], out: &mut Vec<ConnectionEffect>) {
    let event = ConnectionEvent::Received(Bytes::copy_from_slice(bytes));
    connection.on_event(Monotonic::ORIGIN, event, out);
}

fn written(out: &[ConnectionEffect]) -> Vec<u8> {
    let writes = out.iter().filter_map(|effect| match effect {
        ConnectionEffect::Write(bytes) => Some(&bytes[..]),
        _ => None,
    });
    writes.collect::<Vec<_>>().concat()
}

/// What we wrote, without our READY where the recorded side had not come to write one: it judged the
/// header of a later frame of the same segment before it acted on READY, which is no part of the rule.
fn without_ready(out: &[ConnectionEffect], answered: bool) -> Vec<u8> {
    let is_ready = |effect: &&ConnectionEffect| match effect {
        ConnectionEffect::Write(bytes) => bytes.get(8) == Some(&4),
        _ => false,
    };
    let kept: Vec<_> = out
        .iter()
        .filter(|effect| answered || !is_ready(effect))
        .cloned()
        .collect();
    written(&kept)
}

fn end(out: &[ConnectionEffect]) -> Option<ConnectionEnd> {
    out.iter().find_map(|effect| match effect {
        ConnectionEffect::End(end) => Some(*end),
        _ => None,
    })
}

/// What our acceptor does differently from the recorded one, if anything.
fn rejection(vector: &Value) -> Result<(), String> {
    let name = vector["name"].as_str().unwrap();
    let limit = match name {
        "body-over-maximum" => Some(256),
        "ready-over-maximum" => Some(100),
        _ => None,
    };
    let mut out = Vec::new();
    let mut ours = Connection::accept(settings(b"node-a", limit), Monotonic::ORIGIN, &mut out);
    receive(&mut ours, &hex(&vector["sentHex"]), &mut out);
    if name == "silent-peer" {
        let late = Monotonic::ORIGIN.after(Duration::from_secs(30));
        assert_eq!(ours.next_deadline(), Some(late));
        ours.on_deadline(late, &mut out);
    }
    let same = |what: &str, ours: bool| ours.then_some(()).ok_or_else(|| format!("{name}: {what}"));
    let answered = list(vector, "answer").iter().any(|frame| frame == "READY");
    let received = hex(&vector["receivedHex"]);
    same("bytes", without_ready(&out, answered) == received)?;
    let ended = end(&out);
    same("close", ended.is_some() == (vector["peerClosed"] == true))?;
    let (code, reason) = match ended {
        Some(ConnectionEnd::Refused(refusal)) => (refusal.code(), refusal.to_string()),
        Some(ConnectionEnd::PeerError { .. }) => (127, Refusal::PeerSentError.to_string()),
        Some(other) => return Err(format!("{name}: {other}")),
        None => return same("code", vector["errorCode"].is_null()),
    };
    same("code", vector["errorCode"] == u64::from(code))?;
    same("reason", vector["errorReason"] == reason)
}

/// TR-4, TR-10, TR-14, TR-15, TR-16, TR-17, TR-18, TR-19, TR-26, TR-54: our acceptor answers every
/// recorded violation with the recorded bytes, reason text included. A planted defect in any row, a
/// changed byte sent or received, is noticed.
#[test]
fn every_recorded_rejection_is_answered_byte_for_byte() {
    let Some(capture) = capture() else { return };
    let rejections = list(&capture, "rejections");
    assert!(rejections.len() >= 40, "{}", rejections.len());
    for vector in rejections {
        rejection(vector).unwrap();
        let mut defect = vector.clone();
        let received = defect["receivedHex"].as_str().unwrap().to_owned();
        defect["receivedHex"] = format!("{received}00").into();
        assert!(rejection(&defect).is_err(), "{vector}");
        let mut defect = vector.clone();
        defect["peerClosed"] = (vector["peerClosed"] != true).into();
        assert!(rejection(&defect).is_err(), "{vector}");
    }
}

/// TR-13, TR-14, TR-22, TR-59: every handshake that the router accepted, lane by lane.
#[test]
fn every_recorded_handshake_is_accepted_and_answered_byte_for_byte() {
    let Some(capture) = capture() else { return };
    for vector in list(&capture, "accepted") {
        let name = vector["name"].as_str().unwrap();
        for (lane, text) in [
            (Lane::Application, "application"),
            (Lane::Completion, "completion"),
        ] {
            // The recorder asked for no limit here except where the READY of the answer has one.
            let mut out = Vec::new();
            let mut ours =
                Connection::accept(settings(b"node-a", None), Monotonic::ORIGIN, &mut out);
            receive(&mut ours, &hex(&vector["sentPerLaneHex"][text]), &mut out);
            let ready = out.iter().find_map(|effect| match effect {
                ConnectionEffect::Ready(ready) => Some(ready),
                _ => None,
            });
            let ready = ready.unwrap_or_else(|| panic!("{name}: {out:?}"));
            assert_eq!(ready.lane, lane, "{name}");
            assert_eq!(
                ready.id.as_bytes(),
                b"rawok",
                "{name}: the id of HELLO counts"
            );
            let answer = hex(&vector["receivedPerLaneHex"][text]);
            assert!(answer.starts_with(&written(&out)), "{name}");
            assert_eq!(end(&out), None, "{name}");
        }
    }
}

/// One direction of a recorded connection, as a machine that got the bytes of both saw it.
struct Replay {
    sent: Vec<u8>,
    received: Vec<ConnectionEffect>,
}

/// Puts our machine in the place of `side` and gives it what the other side sent.
fn replay(connection: &Value, side: &str, split: usize) -> Replay {
    let direction = |from_side: bool| {
        let directions = list(connection, "directions").iter();
        directions
            .filter(|direction| (direction["from"] == *side) == from_side)
            .map(|direction| (hex(&direction["hex"]), &direction["frames"][0]["rid"]))
            .next()
            .unwrap()
    };
    let ((sent, own), (input, _)) = (direction(true), direction(false));
    let own = hex(own);
    // The limit is the eight bytes behind the name of its property in our own READY.
    let name = b"Zlink-Max-Message-Size\0\0\0\x08";
    let at = sent
        .windows(name.len())
        .position(|window| window == name)
        .unwrap()
        + name.len();
    let limit = u64::from_be_bytes(sent[at..at + 8].try_into().unwrap());
    let settings = settings(&own, Some(limit));
    let mut received = Vec::new();
    let mut machine = if connection["openedBy"] == *side {
        let pair = u64::from_str_radix(connection["pairId"].as_str().unwrap(), 16).unwrap();
        let generation = connection["generation"].as_u64().unwrap();
        let key = PairKey {
            pair: PairId::new(NonZeroU64::new(pair).unwrap()),
            generation: Generation::new(NonZeroU64::new(generation).unwrap()),
        };
        let lane = match connection["lane"].as_str().unwrap() {
            "application" => Lane::Application,
            _ => Lane::Completion,
        };
        Connection::dial(settings, key, lane, Monotonic::ORIGIN, &mut received)
    } else {
        Connection::accept(settings, Monotonic::ORIGIN, &mut received)
    };
    for chunk in input.chunks(split) {
        receive(&mut machine, chunk, &mut received);
    }
    Replay { sent, received }
}

fn each_side(capture: &Value, mut check: impl FnMut(&str, &Value, &str)) {
    for session in list(capture, "sessions") {
        let name = session["name"].as_str().unwrap();
        for connection in list(session, "connections") {
            for side in ["openedBy", "acceptedBy"] {
                let side = connection[side].as_str().unwrap();
                check(name, connection, side);
            }
        }
    }
}

/// TR-10, TR-13, TR-22, TR-23: our handshake is the recorded one, for both sides of every connection.
#[test]
fn our_handshake_has_the_recorded_bytes() {
    let Some(capture) = capture() else { return };
    let mut compared = 0;
    each_side(&capture, |name, connection, side| {
        if side == "dealer-d" {
            return; // We are never a dealer.
        }
        let replay = replay(connection, side, usize::MAX);
        let ours = written(&replay.received);
        assert!(ours.len() > 180 - 8, "{name}: {}", ours.len());
        assert!(replay.sent.starts_with(&ours), "{name}, {side}");
        assert_eq!(end(&replay.received), None, "{name}, {side}");
        compared += 1;
    });
    assert!(compared >= 30, "{compared}");
}

/// What a sender would have to do to cause the message.
fn encode(message: &Message) -> Option<Bytes> {
    let (envelope, frames) = match message {
        Message::Plain(frames) => (Envelope::Plain, frames),
        Message::Request { sequence, payload } => (Envelope::Request(*sequence), payload),
        Message::Reply { sequence, payload } => (Envelope::Reply(*sequence), payload),
        Message::CompletionControl(payload) => (Envelope::CompletionControl, payload),
        Message::ErrorReply { .. } | Message::Misplaced => return None,
    };
    Some(encode_frames(Edition::E1, envelope, frames).to_bytes())
}

/// TR-6, TR-38, TR-40, TR-44: every message of every session decodes, encodes to the recorded bytes,
/// and comes out the same when the bytes come one by one.
#[test]
fn every_recorded_message_decodes_and_encodes_to_the_same_bytes() {
    let Some(capture) = capture() else { return };
    let mut messages = 0;
    each_side(&capture, |name, connection, side| {
        let whole = replay(connection, side, usize::MAX).received;
        for split in [1, 7, 64] {
            assert_eq!(
                replay(connection, side, split).received,
                whole,
                "{name}, {split}"
            );
        }
        let peer = list(connection, "directions");
        let peer = peer
            .iter()
            .find(|direction| direction["from"] != *side)
            .unwrap();
        // What the other side sent, without its control frames.
        let mut data = Vec::new();
        for frame in list(peer, "frames") {
            if frame["control"].is_null() {
                data.extend(hex(&frame["header"]));
                data.extend(hex(&frame["body"]));
            }
        }
        let mut encoded = Vec::new();
        for effect in &whole {
            match effect {
                ConnectionEffect::Message(message) => {
                    encoded.extend(encode(message).unwrap());
                    messages += 1;
                }
                ConnectionEffect::Write(_) | ConnectionEffect::Ready(_) => {}
                ConnectionEffect::Dropped(dropped) => assert_eq!(*dropped, Dropped::Weight),
                ConnectionEffect::Flow(state) => panic!("{name}: {state:?}"),
                ConnectionEffect::End(end) => panic!("{name}: {end}"),
            }
        }
        assert_eq!(encoded, data, "{name}, to {side}");
    });
    assert!(messages >= 40, "{messages}");
}

/// TR-66, TR-69: the service records of the recorded mesh decode; a reply repeats the correlation of
/// its request.
#[test]
fn the_recorded_mesh_speaks_records_that_we_understand() {
    let Some(capture) = capture() else { return };
    let (mut records, mut replies) = (0, 0);
    each_side(&capture, |name, connection, side| {
        if name != "two-mesh-nodes" {
            return;
        }
        for effect in replay(connection, side, usize::MAX).received {
            let ConnectionEffect::Message(message) = effect else {
                continue;
            };
            let frames = match message {
                Message::Plain(frames) if frames.concat().is_empty() => continue,
                Message::Reply { sequence, payload } => {
                    // The older peer adds two bytes to its reply, which wire.md lists.
                    assert_eq!(sequence, Sequence::FIRST);
                    assert!(payload[0].starts_with(b"ZM\x01\x14"));
                    replies += 1;
                    continue;
                }
                Message::Plain(frames)
                | Message::Request {
                    payload: frames, ..
                }
                | Message::CompletionControl(frames) => frames,
                other => panic!("{other:?}"),
            };
            Record::decode(&frames, MeshOperationKind::None).unwrap();
            records += 1;
        }
    });
    assert!(records > 20 && replies > 0, "{records} {replies}");
}
