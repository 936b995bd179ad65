//! The framework multipart profile over a payload envelope (WR-10).

use serde_json::{Value, json};

use crate::cursor::Cursor;
use crate::encode::write_integer;
use crate::model::Encoding;
use crate::record::at_end;
use crate::refusal::Fault;
use crate::value::{from_hex, to_hex};

const PACKET_NAME: &str = "ZLinkFrameworkMultipart";
const CONTENT_TYPE: &str = "application/x-zlink-multipart";
/// The length of a part that is empty.
const PART_BYTES_MIN: usize = 4;

/// Reads the parts of an envelope that was decoded. Offsets count from the start of the payload.
pub(crate) fn read(envelope: &Value) -> Result<Value, Fault> {
    let text = |name: &str| {
        envelope
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    for (name, wanted) in [("packetName", PACKET_NAME), ("contentType", CONTENT_TYPE)] {
        if text(name) != wanted {
            return Err(Fault::invalid(0).within(name));
        }
    }
    let payload = from_hex(text("payload")).unwrap_or_default();
    let parts = read_parts(&payload).map_err(|fault| fault.within("payload"))?;
    Ok(json!({ "parts": parts }))
}

fn read_parts(payload: &[u8]) -> Result<Vec<String>, Fault> {
    let mut cursor = Cursor::new(payload, 0);
    let count = cursor.integer(Encoding::U32, 0)?;
    if count == 0 {
        return Err(Fault::invalid(0));
    }
    if usize::try_from(count).is_ok_and(|count| count > cursor.remaining() / PART_BYTES_MIN) {
        return Err(Fault::truncated(0));
    }
    let mut parts = Vec::new();
    for _ in 0..count {
        let start = cursor.at();
        let length = cursor.integer(Encoding::U32, start)?;
        parts.push(to_hex(
            cursor.take(usize::try_from(length).unwrap_or(usize::MAX), start)?,
        ));
    }
    at_end(&cursor)?;
    Ok(parts)
}

/// The envelope that carries the parts.
pub(crate) fn write(value: &Value) -> Result<Value, Fault> {
    let invalid = || Fault::invalid(0).within("parts");
    let object = value
        .as_object()
        .filter(|object| object.len() == 1)
        .ok_or_else(invalid)?;
    let parts = object
        .get("parts")
        .and_then(Value::as_array)
        .ok_or_else(invalid)?;
    let mut payload = Vec::new();
    let size = |size: usize| u32::try_from(size).map(u64::from).map_err(|_| invalid());
    write_integer(&mut payload, Encoding::U32, size(parts.len())?);
    for part in parts {
        let bytes = part.as_str().and_then(from_hex).ok_or_else(invalid)?;
        write_integer(&mut payload, Encoding::U32, size(bytes.len())?);
        payload.extend(bytes);
    }
    Ok(json!({
        "packetName": PACKET_NAME,
        "contentType": CONTENT_TYPE,
        "payload": to_hex(&payload),
    }))
}
