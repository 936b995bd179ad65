//! Bytes recorded between two routers, as far as frames and service records go.
//!
//! The handshake and the lanes are for the transport part; here a small strict parser takes the
//! recorded bytes apart and compares with the listed decode, and every service record inside is put
//! through the codec.

use bytes::Bytes;
use serde_json::{Value, json};
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::{ErrorKind, Record};

use super::checks::valid_record;
use super::listed::{Rename, compare};
use super::members::{Members, name_of};
use super::sheet::{Check, Sheet, same};
use crate::codec::{bytes_of, hex_of};

const MORE: u8 = 1;
const CONTROL: u8 = 2;

/// A frame behind its header of eight bytes.
struct Frame<'a> {
    offset: usize,
    header: &'a [u8],
    flags: u8,
    body: &'a [u8],
}

/// Takes all frames of one direction; nothing may be left over.
fn frames_of(bytes: &[u8]) -> Check<Vec<Frame<'_>>> {
    let mut frames = Vec::new();
    let mut offset = 0;
    while offset < bytes.len() {
        let rest = &bytes[offset..];
        let Some((header @ [0x5a, 0x01, flags, 0, a, b, c, d], rest)) = rest.split_first_chunk()
        else {
            return Err(format!("no frame header at byte {offset}"));
        };
        let size = u32::from_be_bytes([*a, *b, *c, *d]);
        let size = usize::try_from(size).map_err(|e| e.to_string())?;
        let body = rest
            .get(..size)
            .ok_or_else(|| format!("frame at {offset} ends early"))?;
        frames.push(Frame {
            offset,
            header,
            flags: *flags,
            body,
        });
        offset += header.len() + size;
    }
    Ok(frames)
}

/// The whole file.
pub(super) fn capture(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    file.skip(&["about", "reference", "edition", "notation"]);
    for session in file.list("sessions")? {
        if let Err(what) = self::session(session, sheet) {
            sheet.fail(session["name"].as_str().unwrap_or("a session"), what);
        }
    }
    for (index, vector) in file.list("rejections")?.iter().enumerate() {
        sheet.case(&name_of(vector, index), || rejection(vector));
    }
    for (index, vector) in file.list("accepted")?.iter().enumerate() {
        sheet.case(&name_of(vector, index), || accepted(vector));
    }
    for observation in file.list("meshObservations")? {
        let mut members = Members::of(observation)?;
        members.skip(&["sent", "observed"]);
        match members.get("receivedHex").and_then(Value::as_str) {
            Some(hex) => sheet.case(observation["sent"].as_str().unwrap_or_default(), || {
                let frame = bytes_of(hex).ok_or("not hex")?;
                valid_record(&[frame], MeshOperationKind::None).map(|_| ())
            }),
            None => sheet.later(1),
        }
        members.done()?;
    }
    sheet.note("frames and service records are checked here; handshake and lanes are for the transport part");
    Ok(())
}

fn session(session: &Value, sheet: &mut Sheet) -> Check {
    let mut members = Members::of(session)?;
    let name = members.text("name")?;
    members.skip(&[
        "about",
        "acceptorSendToWeightZero",
        "afterReconnect",
        "afterwards",
        "notes",
        "phases",
        "readyCountEventsAtAcceptor",
        "steps",
        "timeline",
    ]);
    for connection in members.list("connections")? {
        let mut connection = Members::of(connection)?;
        connection.skip(&["openedBy", "acceptedBy", "lane", "pairId", "generation"]);
        let number = connection.number("connection")?;
        for direction in connection.list("directions")? {
            let from = direction["from"].as_str().unwrap_or("?");
            let place = format!("{name}, connection {number}, from {from}");
            let mut messages = Vec::new();
            sheet.case(&place, || self::direction(direction, &mut messages));
            for (index, message) in messages.iter().enumerate() {
                if let Some(record) = record_in(&message.parts) {
                    let place = format!("{place}, record in message {index}");
                    let mut deviates = false;
                    sheet.case(&place, || {
                        deviates = service_record(record, message.listed)?;
                        Ok(())
                    });
                    if deviates {
                        sheet.note("one recorded command 20 of an older peer has an extra tail length: trailing-byte here, as it should be");
                    }
                }
            }
        }
        connection.done()?;
    }
    members.done()
}

/// A multipart message and the decode that is listed beside its record.
#[derive(Default)]
struct Message<'a> {
    parts: Vec<Bytes>,
    listed: Option<&'a Value>,
}

/// Every listed member of every frame follows from the bytes.
fn direction<'a>(direction: &'a Value, messages: &mut Vec<Message<'a>>) -> Check {
    let mut direction = Members::of(direction)?;
    direction.skip(&["from", "to"]);
    let bytes = direction.hex("hex")?;
    same(
        "bytes",
        Ok(direction.number("bytes")?),
        u64::try_from(bytes.len()),
    )?;
    let frames = frames_of(&bytes)?;
    let listed = direction.list("frames")?;
    same("frames", listed.len(), frames.len())?;
    let mut open: Option<Message<'_>> = None;
    for (frame, listed) in frames.iter().zip(listed) {
        let number = messages.len();
        let position = open.as_ref().map_or(0, |message| message.parts.len());
        self::frame(frame, listed, number, position)
            .map_err(|what| format!("frame at {}: {what}", frame.offset))?;
        if frame.flags & CONTROL != 0 {
            continue;
        }
        let mut message = open.take().unwrap_or_default();
        message.parts.push(Bytes::copy_from_slice(frame.body));
        message.listed = message.listed.or_else(|| listed.get("record"));
        match frame.flags & MORE {
            0 => messages.push(message),
            _ => open = Some(message),
        }
    }
    same("a message without its last part", false, open.is_some())?;
    direction.done()
}

fn frame(frame: &Frame<'_>, listed: &Value, message: usize, position: usize) -> Check {
    let mut listed = Members::of(listed)?;
    listed.skip(&["note", "record"]);
    let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    same("offset", listed.number("offset")?, number(frame.offset))?;
    same(
        "header",
        listed.text("header")?,
        hex_of(frame.header).as_str(),
    )?;
    same("size", listed.number("size")?, number(frame.body.len()))?;
    same("body", listed.text("body")?, hex_of(frame.body).as_str())?;
    same(
        "flags",
        listed.text("flags")?,
        flags_text(frame.flags).as_str(),
    )?;
    if frame.flags & CONTROL == 0 {
        same("message", listed.number("message")?, number(message))?;
        same(
            "position",
            listed.number("frameInMessage")?,
            number(position),
        )?;
        return listed.done();
    }
    same("control", listed.text("control")?, control_of(frame.body))?;
    match frame.body {
        [1, kind, length, rid @ ..] => {
            let kind = if *kind == 6 { "ROUTER" } else { "DEALER" };
            same("socket type", listed.text("socketType")?, kind)?;
            same(
                "length of the rid",
                listed.number("ridLength")?,
                u64::from(*length),
            )?;
            same("rid", listed.text("rid")?, hex_of(rid).as_str())?;
            same("bytes of the rid", usize::from(*length), rid.len())?;
        }
        [4, properties @ ..] => self::properties(properties, listed.list("properties")?)?,
        [b'W', .., a, b, c, d] => {
            let weight = u32::from_be_bytes([*a, *b, *c, *d]);
            same("weight", listed.number("weight")?, u64::from(weight))?;
        }
        _ => return Err("a control frame that is not understood".to_owned()),
    }
    listed.done()
}

/// Name with a length of one byte, value with a length of four.
fn properties(mut bytes: &[u8], listed: &[Value]) -> Check {
    for property in listed {
        let mut property = Members::of(property)?;
        let (length, rest) = bytes.split_first().ok_or("a property ends early")?;
        let (name, rest) = rest
            .split_at_checked(usize::from(*length))
            .ok_or("the name of a property ends early")?;
        same(
            "name of a property",
            property.text("name")?.as_bytes(),
            name,
        )?;
        let (length, rest) = rest.split_first_chunk().ok_or("a property ends early")?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|e| e.to_string())?;
        let (value, rest) = rest.split_at_checked(length).ok_or("a value ends early")?;
        same(
            "value of a property",
            property.text("valueHex")?,
            hex_of(value).as_str(),
        )?;
        if let Some(text) = property.optional_text("text")? {
            same("text of a property", text.as_bytes(), value)?;
        }
        if let Some(listed) = property.get("value") {
            let number = value
                .iter()
                .fold(0, |all, byte| all << 8 | u64::from(*byte));
            same("number of a property", listed.as_u64(), Some(number))?;
        }
        property.done()?;
        bytes = rest;
    }
    same("bytes after the properties", 0, bytes.len())
}

fn flags_text(flags: u8) -> String {
    let names = [
        (MORE, "MORE"),
        (CONTROL, "CONTROL"),
        (4, "IDENTITY"),
        (8, "SUBSCRIBE"),
        (16, "CANCEL"),
    ];
    let set: Vec<_> = names
        .iter()
        .filter(|(bit, _)| flags & bit != 0)
        .map(|(_, name)| *name)
        .collect();
    if set.is_empty() {
        "0".to_owned()
    } else {
        set.join("+")
    }
}

fn control_of(body: &[u8]) -> &'static str {
    match body {
        [1, ..] => "HELLO",
        [4, ..] => "READY",
        [5, ..] => "ERROR",
        body if body.starts_with(b"WEIGHT") => "WEIGHT",
        _ => "?",
    }
}

/// The service record of a message: all of it, or what follows the four parts of an envelope.
fn record_in(parts: &[Bytes]) -> Option<&[Bytes]> {
    let record = match parts {
        [one, two, kind, sequence, rest @ ..]
            if one[..] == [1] && two[..] == [1] && kind.len() == 1 && sequence.len() == 8 =>
        {
            rest
        }
        all => all,
    };
    record.first()?.starts_with(b"ZM\x01").then_some(record)
}

/// Whether it is the one recorded deviation (wire.md, known differences).
fn service_record(record: &[Bytes], listed: Option<&Value>) -> Check<bool> {
    let none = MeshOperationKind::None;
    if let Err(error) = Record::decode(record, none)
        && error.kind() == ErrorKind::TrailingByte
        && error.record() == "reply"
        && let Some((reply, payload)) = record.split_first()
        && let Some(reply) = reply.strip_suffix(&[0, 0])
    {
        let mut without = vec![Bytes::copy_from_slice(reply)];
        without.extend_from_slice(payload);
        return valid_record(&without, none).map(|_| true);
    }
    let json = valid_record(record, none)?;
    if let Some(listed) = listed {
        admission(&record[0], &json["body"]["admission"], listed)?;
    }
    Ok(false)
}

/// The decode that is listed beside an admission.
fn admission(frame: &Bytes, decoded: &Value, listed: &Value) -> Check {
    const RENAMES: [Rename; 3] = [
        ("channels", "channels"),
        ("channels[].name", "channels[].channelName"),
        ("channels[].weight", "channels[].weight"),
    ];
    let mut listed = Members::of(listed)?;
    let kind = frame.get(5).copied().map(u64::from);
    same("topology", kind, Some(listed.number("topologyKind")?))?;
    let length = u64::try_from(frame.len()).unwrap_or(0).checked_sub(10);
    same(
        "length of the case",
        length,
        Some(listed.number("caseLength")?),
    )?;
    let mut extension = Vec::new();
    for entry in listed.list("extension")? {
        let mut entry = Members::of(entry)?;
        let value = entry.hex("valueHex")?;
        extension.push(u8::try_from(entry.number("id")?).map_err(|e| e.to_string())?);
        extension.extend(
            u32::try_from(value.len())
                .map_err(|e| e.to_string())?
                .to_be_bytes(),
        );
        extension.extend_from_slice(&value);
        entry.done()?;
    }
    same("extension", true, frame.ends_with(&extension))?;
    let decoded = &decoded["routeMesh"];
    let mut plain = json!({});
    let names = [
        "meshName",
        "securityIdentity",
        "lifecycleGeneration",
        "descriptorRevision",
        "advertisedEndpoint",
        "channels",
    ];
    for name in names {
        plain[name] = listed.need(name)?.clone();
    }
    compare(&plain, decoded, &RENAMES)?;
    listed.done()
}

/// What a router answered to bytes it refused.
fn rejection(vector: &Value) -> Check {
    let mut vector = Members::of(vector)?;
    vector.skip(&["name", "note", "peerClosed"]);
    vector.hex("sentHex")?;
    let received = vector.hex("receivedHex")?;
    let frames = frames_of(&received)?;
    let controls = frames.iter().filter(|frame| frame.flags & CONTROL != 0);
    let names: Vec<Value> = controls
        .map(|frame| json!(control_of(frame.body)))
        .collect();
    same("answer", vector.list("answer")?, &names[..])?;
    if let Some(Frame {
        body: [5, code, length, reason @ ..],
        ..
    }) = frames.last()
    {
        same("error code", vector.number("errorCode")?, u64::from(*code))?;
        same("length of the reason", usize::from(*length), reason.len())?;
        same("reason", vector.text("errorReason")?.as_bytes(), reason)?;
    }
    vector.done()
}

/// A handshake that was accepted.
fn accepted(vector: &Value) -> Check {
    let mut vector = Members::of(vector)?;
    vector.skip(&["name", "note", "acceptorReceived", "acceptorSend"]);
    for side in ["sentPerLaneHex", "receivedPerLaneHex"] {
        let mut lanes = Members::of(vector.need(side)?)?;
        for lane in ["application", "completion"] {
            let bytes = lanes.hex(lane)?;
            let frames = frames_of(&bytes)?;
            let controls: Vec<_> = frames
                .iter()
                .take(2)
                .map(|frame| control_of(frame.body))
                .collect();
            same("handshake", ["HELLO", "READY"].as_slice(), &controls)?;
        }
        lanes.done()?;
    }
    vector.done()
}
