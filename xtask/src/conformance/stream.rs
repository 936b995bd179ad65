//! Bytes recorded between a stream connector and a server, as far as frames go.
//!
//! Kinds, codecs, sessions and callbacks are for the session part. Here every recorded sequence of
//! frames is cut along its two lengths and compared with the listed decode.

use serde_json::Value;

use super::members::Members;
use super::sheet::{Check, Sheet, same};
use crate::codec::{bytes_of, hex_of};

/// Members of a frame that only the session part can check, beside its lengths and bytes.
const INSIDE: [&str; 10] = [
    "kind",
    "codec",
    "flags",
    "name",
    "requestSeq",
    "correlationId",
    "flowId",
    "flowOrigin",
    "metadata",
    "closing",
];

/// The groups of the file; each may hold recorded frames at any depth.
const GROUPS: [&str; 8] = [
    "connectorSessions",
    "rawTransport",
    "serverSessions",
    "serverCases",
    "serverWebSocket",
    "serverTls",
    "serverPlainHttp",
    "connectorAgainstServer",
];

/// The whole file.
pub(super) fn capture(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    file.skip(&["about", "reference", "notation"]);
    for group in GROUPS {
        walk(file.need(group)?, group, sheet);
    }
    let cases = file.list("decodeCases")?;
    for case in cases {
        let mut members = Members::of(case)?;
        members.skip(&[
            "name",
            "note",
            "delivered",
            "errors",
            "pendingRequest",
            "stateAfterwards",
        ]);
        members.list("sentHex")?;
        members.done()?;
    }
    sheet.later(cases.len());
    sheet.note("frame lengths are checked here; headers, sessions and decode cases are for the session part");
    Ok(())
}

/// Every object that holds bytes and the frames in them is one vector.
fn walk(value: &Value, place: &str, sheet: &mut Sheet) {
    match value {
        Value::Object(members) => {
            let text = |name: &str| members.get(name).and_then(Value::as_str);
            let list = |name: &str| members.get(name).and_then(Value::as_array);
            let hex = text("unmaskedHex").or_else(|| text("hex"));
            if let (Some(hex), Some(frames)) =
                (hex, list("frames").or_else(|| list("streamFrames")))
            {
                sheet.case(place, || sequence(hex, frames));
            }
            for (name, member) in members {
                walk(member, &format!("{place}.{name}"), sheet);
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                walk(element, &format!("{place}[{index}]"), sheet);
            }
        }
        _ => {}
    }
}

/// Frames of u16 header length, u32 payload length, header, payload; nothing may be left over.
fn sequence(hex: &str, listed: &[Value]) -> Check {
    let bytes = bytes_of(hex).ok_or("not lower-case hex")?;
    let mut offset = 0;
    for (index, frame) in listed.iter().enumerate() {
        let rest = &bytes[offset..];
        let early = || format!("frame {index} ends early");
        let (header, rest) = rest.split_first_chunk::<2>().ok_or_else(early)?;
        let (payload, rest) = rest.split_first_chunk::<4>().ok_or_else(early)?;
        let header = usize::from(u16::from_be_bytes(*header));
        let payload = usize::try_from(u32::from_be_bytes(*payload)).map_err(|e| e.to_string())?;
        let (head, rest) = rest.split_at_checked(header).ok_or("a header ends early")?;
        let (body, _) = rest
            .split_at_checked(payload)
            .ok_or("a payload ends early")?;
        self::frame(frame, offset, head, body).map_err(|what| format!("frame {index}: {what}"))?;
        offset += 6 + header + payload;
    }
    same("bytes of all frames", offset, bytes.len())
}

fn frame(listed: &Value, offset: usize, header: &[u8], payload: &[u8]) -> Check {
    let mut listed = Members::of(listed)?;
    let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    same(
        "header length",
        listed.number("headerLength")?,
        number(header.len()),
    )?;
    same(
        "payload length",
        listed.number("payloadLength")?,
        number(payload.len()),
    )?;
    if let Some(at) = listed.get("offset") {
        same("offset", at.as_u64(), Some(number(offset)))?;
    }
    if let Some(hex) = listed.optional_text("headerHex")? {
        same("header", hex, hex_of(header).as_str())?;
    }
    if let Some(hex) = listed.optional_text("payloadHex")? {
        same("payload", hex, hex_of(payload).as_str())?;
    }
    if let Some(text) = listed.optional_text("payloadText")? {
        same("payload", text, String::from_utf8_lossy(payload).as_ref())?;
    }
    listed.skip(&INSIDE);
    listed.done()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn frames_are_cut_along_their_lengths() {
        let listed = json!([{"headerLength": 1, "payloadLength": 2, "payloadHex": "bbcc"}]);
        let listed = listed.as_array().unwrap();
        assert_eq!(sequence("000100000002aabbcc", listed), Ok(()));
        assert!(
            sequence("000100000002aabbcc00", listed).is_err(),
            "a byte too many"
        );
        assert!(
            sequence("000100000002aabb", listed).is_err(),
            "a byte too few"
        );
        assert!(
            sequence("000100000002aabbcd", listed).is_err(),
            "another payload"
        );
    }
}
