//! The recorded stream, replayed in place when it is there (ST-T1, ST-T2, ST-T3).
//!
//! It belongs to somebody else and is not part of this project. Without it the tests say so and pass;
//! where it is looked for is `SPOTLANE_GOLDEN`, else a folder beside the checkout.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are not covered by the lint's setting"
)]

use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use spotlane_stream_proto::ws::{self, Deframer, Event, Side};
use spotlane_stream_proto::{
    Control, DecodeError, Extras, FlowRule, Frame, FrameDecoder, Packing, Payload, RemoteError,
    SizeBound, to_bytes,
};

fn capture() -> Option<Value> {
    let folder = std::env::var_os("SPOTLANE_GOLDEN").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden"),
        PathBuf::from,
    );
    let path = folder.join("stream-capture.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("SKIPPED: no recorded stream at {}", path.display());
        return None;
    };
    Some(serde_json::from_str(&text).unwrap())
}

fn from_hex(hex: &str) -> Option<Bytes> {
    spotlane_types::hex::decode(hex).map(Bytes::from)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn server() -> FrameDecoder {
    FrameDecoder::new(SizeBound::Whole(65_536), FlowRule::Judge)
}

fn connector() -> FrameDecoder {
    FrameDecoder::new(SizeBound::Payload(65_536), FlowRule::Judge)
}

fn all(decoder: &mut FrameDecoder) -> Result<Vec<Frame>, DecodeError> {
    let mut frames = Vec::new();
    while let Some(frame) = decoder.next_frame()? {
        frames.push(frame);
    }
    Ok(frames)
}

fn decode(mut decoder: FrameDecoder, bytes: &[u8]) -> Result<Vec<Frame>, DecodeError> {
    decoder.buffer().extend_from_slice(bytes);
    let frames = all(&mut decoder)?;
    assert_eq!(decoder.buffered(), 0, "whole frames");
    Ok(frames)
}

/// What is recorded in this list of sessions, both ways.
fn recorded(capture: &Value) -> Vec<(Bytes, Vec<Value>)> {
    let sessions = ["connectorSessions", "serverSessions"];
    let mut found = Vec::new();
    for session in sessions.iter().flat_map(|name| list(&capture[*name])) {
        for record in list(&session["records"]) {
            let Some(bytes) = record["hex"].as_str().and_then(from_hex) else {
                continue;
            };
            found.push((
                bytes,
                record["frames"].as_array().cloned().unwrap_or_default(),
            ));
        }
    }
    found
}

struct Parts<'a> {
    kind: &'static str,
    sequence: Option<u64>,
    name: &'a str,
    payload: Option<&'a Payload>,
    extras: Option<&'a Extras>,
}

fn parts(frame: &Frame) -> Parts<'_> {
    let (kind, sequence, name, payload, extras) = match frame {
        Frame::Send {
            name,
            payload,
            extras,
        } => ("Send", None, name.as_str(), payload, extras),
        Frame::Request {
            sequence,
            name,
            payload,
            extras,
        } => ("Request", Some(*sequence), name.as_str(), payload, extras),
        Frame::Response {
            sequence,
            payload,
            extras,
        } => ("Response", Some(*sequence), "", payload, extras),
        Frame::Error {
            sequence,
            payload,
            extras,
        } => ("Error", *sequence, "", payload, extras),
        Frame::Control(control) => {
            let name = match control {
                Control::Ping => "$zlink.heartbeat.ping",
                Control::Pong => "$zlink.heartbeat.pong",
                Control::SessionClosing(_) => "session-closing",
            };
            let (payload, extras) = (None, None);
            return Parts {
                kind: "Control",
                sequence: None,
                name,
                payload,
                extras,
            };
        }
    };
    let sequence = sequence.map(std::num::NonZeroU64::get);
    Parts {
        kind,
        sequence,
        name,
        payload: Some(payload),
        extras: Some(extras),
    }
}

fn compare(frame: &Frame, recorded: &Value) {
    let parts = parts(frame);
    assert_eq!(parts.kind, recorded["kind"], "{recorded}");
    assert_eq!(parts.name, recorded["name"].as_str().unwrap_or_default());
    let sequence = parts.sequence.map(|number| number.to_string());
    assert_eq!(sequence.as_deref(), recorded["requestSeq"].as_str());
    let Some((payload, extras)) = parts.payload.zip(parts.extras) else {
        return;
    };
    if let Some(text) = recorded["payloadText"].as_str() {
        assert_eq!(payload.bytes, text.as_bytes());
    }
    let flow = extras.flow.as_ref().map(spotlane_stream_proto::Flow::id);
    assert_eq!(flow, recorded["flowId"].as_str());
    let correlation = extras
        .correlation
        .as_ref()
        .map(spotlane_stream_proto::CorrelationId::as_str);
    assert_eq!(correlation, recorded["correlationId"].as_str());
    let flags: Vec<&str> = list(&recorded["flags"]).filter_map(Value::as_str).collect();
    let compressed = flags.iter().any(|flag| flag.contains("ompress"));
    assert_eq!(
        payload.packing == Packing::Compressed,
        compressed,
        "{flags:?}"
    );
    let entries = |metadata: &spotlane_stream_proto::Metadata| -> Value {
        metadata
            .entries()
            .map(|(key, value)| (key.to_owned(), Value::from(value)))
            .collect()
    };
    let metadata = extras.metadata.as_ref().map(entries);
    assert_eq!(metadata.unwrap_or(Value::Null), recorded["metadata"]);
}

/// ST-T1, ST-101, ST-111, ST-112, ST-118
#[test]
fn every_recorded_frame_decodes_to_its_fields_and_encodes_to_its_bytes() {
    let Some(capture) = capture() else { return };
    let mut count = 0;
    for (bytes, recorded) in recorded(&capture) {
        let frames = decode(connector(), &bytes).unwrap();
        assert!(recorded.is_empty() || recorded.len() == frames.len());
        for (frame, recorded) in frames.iter().zip(&recorded) {
            compare(frame, recorded);
        }
        let again: Vec<u8> = frames.iter().flat_map(|f| to_bytes(f).unwrap()).collect();
        assert_eq!(again, bytes);
        count += frames.len();
    }
    assert!(count > 40, "{count} frames");
}

/// ST-T3, ST-102
#[test]
fn a_recorded_stream_gives_the_same_frames_wherever_it_is_cut() {
    let Some(capture) = capture() else { return };
    let stream: Vec<u8> = recorded(&capture)
        .into_iter()
        .flat_map(|(bytes, _)| bytes)
        .collect();
    let whole = decode(connector(), &stream).unwrap();
    for cut in 0..stream.len() {
        let mut decoder = connector();
        decoder.buffer().extend_from_slice(&stream[..cut]);
        let mut frames = all(&mut decoder).unwrap();
        decoder.buffer().extend_from_slice(&stream[cut..]);
        frames.extend(all(&mut decoder).unwrap());
        assert_eq!(frames, whole, "cut at {cut}");
    }
    let mut decoder = connector();
    let mut frames = Vec::new();
    for byte in &stream {
        decoder.buffer().extend_from_slice(&[*byte]);
        frames.extend(all(&mut decoder).unwrap());
    }
    assert_eq!(frames, whole, "byte by byte");
}

/// ST-T3, ST-131
#[test]
fn a_recorded_stream_goes_through_any_messages_and_fragments() {
    let Some(capture) = capture() else { return };
    let stream: Vec<u8> = recorded(&capture)
        .into_iter()
        .flat_map(|(bytes, _)| bytes)
        .collect();
    let whole = decode(server(), &stream).unwrap();
    for size in [1, 2, 3, 7, 125, 126, 1_000, 70_000] {
        let mut carried = BytesMut::new();
        for (number, piece) in (0_u8..=255).cycle().zip(stream.chunks(size)) {
            let mask = [number, 0xaa, number.wrapping_mul(7), 3];
            ws::put_data(piece, Some(ws::Mask::new(mask)), &mut carried);
            if number % 5 == 0 {
                ws::put_data(&[], Some(ws::Mask::new(mask)), &mut carried);
                ws::put_pong(b"x", Some(ws::Mask::new(mask)), &mut carried);
            }
        }
        for cut in [1, 5, 4_096] {
            let mut deframer = Deframer::new(Side::Server);
            let (mut input, mut decoder) = (BytesMut::new(), server());
            let mut frames = Vec::new();
            for piece in carried.chunks(cut) {
                input.extend_from_slice(piece);
                while let Some(event) = deframer.next_event(&mut input, decoder.buffer()).unwrap() {
                    assert!(matches!(event, Event::Data | Event::Pong));
                }
                frames.extend(all(&mut decoder).unwrap());
            }
            assert_eq!(frames, whole, "messages of {size}, cut at {cut}");
        }
    }
}

/// Cases that we take and the recorded connector takes; everything else ends the connection.
const CONNECTOR_ACCEPTS: [&str; 5] = [
    "metadata-flag-with-zero-entries",
    "error-payload-not-json",
    "error-payload-without-message",
    "frame-split-over-two-websocket-messages",
    "two-frames-in-one-websocket-message",
];

/// ST-T2, ST-104, ST-105, ST-109, ST-113, ST-114, ST-117, ST-118, ST-120, ST-123
#[test]
fn every_decode_case_of_the_connector_ends_as_section_16_says() {
    let Some(capture) = capture() else { return };
    for case in list(&capture["decodeCases"]) {
        let name = case["name"].as_str().unwrap();
        let sent: Option<Vec<Bytes>> = list(&case["sentHex"])
            .map(|hex| from_hex(hex.as_str()?))
            .collect();
        // Large payloads are described only; the bound has a test of its own.
        let Some(sent) = sent else { continue };
        let result = decode(connector(), &sent.concat());
        let accepted = CONNECTOR_ACCEPTS.contains(&name) || name.starts_with("lz4");
        let compressed = name.contains("compress") || name.contains("stored");
        assert_eq!(result.is_ok(), accepted || compressed, "{name}: {result:?}");
        if name.starts_with("error-payload") {
            let frames = result.unwrap();
            let payload = parts(&frames[0]).payload.unwrap();
            assert_eq!(RemoteError::of_payload(&payload.bytes), None, "{name}");
        }
    }
}

/// What the recorded server takes and a decoder of ours refuses (section 16).
const STRICTER: [&str; 9] = [
    "unknown-kind-6",
    "unknown-codec-4",
    "send-with-request-seq",
    "request-without-request-seq",
    "name-not-utf8",
    "correlation-empty",
    "response-with-name",
    "control-with-json-codec",
    "session-closing-from-client",
];

/// ST-T2, ST-103, ST-106, ST-108, ST-115, ST-126
#[test]
fn every_case_of_the_server_ends_as_section_16_says() {
    let Some(capture) = capture() else { return };
    for case in list(&capture["serverCases"]) {
        let name = case["name"].as_str().unwrap();
        let hex = case["sentHex"].as_str().unwrap_or_default();
        let Some(sent) = from_hex(hex) else { continue };
        let mut decoder = server();
        decoder.buffer().extend_from_slice(&sent);
        let result = all(&mut decoder);
        let closing_from_client = name == "session-closing-from-client";
        let stricter = STRICTER.contains(&name) && !closing_from_client;
        let open = case["connection"] == "open" || closing_from_client;
        assert_eq!(result.is_ok(), open && !stricter, "{name}: {result:?}");
    }
}

/// ST-101, ST-130
#[test]
fn the_recorded_connections_of_every_transport_decode_whole() {
    let Some(capture) = capture() else { return };
    for raw in list(&capture["rawTransport"]) {
        for (side, direction) in [
            (Side::Server, "clientToServer"),
            (Side::Client, "serverToClient"),
        ] {
            let Some(bytes) = raw[direction]["hex"].as_str().and_then(from_hex) else {
                continue;
            };
            let mut stream = BytesMut::from(&bytes[..]);
            if bytes.starts_with(b"GET ") || bytes.starts_with(b"HTTP/") {
                let mut carried = stream;
                stream = BytesMut::new();
                let end = carried.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
                if side == Side::Server {
                    assert!(ws::parse_request(&mut carried).unwrap().is_some());
                } else {
                    drop(carried.split_to(end + 4));
                }
                let mut deframer = Deframer::new(side);
                while let Some(event) = deframer.next_event(&mut carried, &mut stream).unwrap() {
                    assert!(!matches!(event, Event::Ping(_)));
                }
            }
            let frames = decode(connector(), &stream).unwrap();
            assert!(!frames.is_empty(), "{direction} of {}", raw["name"]);
        }
    }
}
