//! Records as a Redis store keeps them: keys, counters, opaque records, references.

use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::checks::{node_of, type_named, valid_type};
use super::members::{Members, name_of};
use super::msgpack;
use super::records::each;
use super::sheet::{Check, Sheet, same};
use crate::codec::hex_of;

/// A NUL as these files print it.
const PRINTED_NUL: &str = "\\u0000";

/// What a content reference begins with; its bytes follow in URL-safe base64.
const INLINE: &str = "inline-v1:";

/// The whole file.
pub(super) fn records(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    file.skip(&["consumers", "specRef", "notes"]);
    let prefix = file.text("prefixExample")?;
    let space = file.text("namespace")?;
    for vector in file.list("keyDerivation")? {
        let name = vector["record"]
            .as_str()
            .unwrap_or("a key without a record");
        sheet.case(name, || key(vector, &format!("{prefix}:{space}:")));
    }
    counters(file.need("counterVectors")?, sheet)?;
    let mut values = Members::of(file.need("valueVectors")?)?;
    let contents = file.get("creationContentReference");
    let blob = file.get("relocationBlob");
    let contents = match contents {
        Some(contents) => contents,
        None => values.need("creationContentReference")?,
    };
    let blob = match blob {
        Some(blob) => blob,
        None => values.need("relocationBlob")?,
    };
    for (index, vector) in values.list("genericOpaqueRecord")?.iter().enumerate() {
        sheet.case(&name_of(vector, index), || opaque(vector));
    }
    values.done()?;
    references(contents, sheet)?;
    sheet.case("relocation blob", || {
        let mut vector = Members::of(blob)?;
        vector.hex("rawBytesHex")?;
        let reference = vector.text("reference")?;
        valid_type("relocation-reference", &sixteen(reference))?;
        let key = format!("{prefix}:{{zlink-relocation-v1}}:blob:{reference}");
        same("redis key", key.as_str(), vector.text("redisKey")?)?;
        vector.done()
    });
    Ok(())
}

/// A text with a length of 16 bits before it.
fn sixteen(text: &str) -> Bytes {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&length, text.as_bytes()].concat().into()
}

fn sha256(bytes: &[u8]) -> String {
    hex_of(&Sha256::digest(bytes))
}

/// A key is the SHA-256 of its parts, joined by NUL.
fn key(vector: &Value, prefix: &str) -> Check {
    let mut vector = Members::of(vector)?;
    vector.skip(&["record", "value"]);
    let preimage = vector.hex("preimageHex")?;
    let printed = vector.text("preimagePrintable")?.replace(PRINTED_NUL, "\0");
    same("printed parts", printed.as_bytes(), &preimage[..])?;
    let digest = sha256(&preimage);
    same("SHA-256", digest.as_str(), vector.text("sha256Hex")?)?;
    let key = format!("{prefix}{digest}");
    same("redis key", key.as_str(), vector.text("redisKey")?)?;
    if let Some(components) = vector.get("components") {
        let mut parts = Members::of(components)?;
        let rid = parts.text("sourceNodeRidHex")?;
        let generation = parts.decimal("sourceHostGeneration")?;
        let (high, low) = (
            parts.decimal("operationIdHigh")?,
            parts.decimal("operationIdLow")?,
        );
        let tail = format!("\0{rid}\0{generation}\0{high:016x}{low:016x}");
        same(
            "parts end with the components",
            true,
            printed.ends_with(&tail),
        )?;
        parts.done()?;
    }
    vector.done()
}

/// A counter holds the next number to issue, as canonical decimal text.
fn counters(group: &Value, sheet: &mut Sheet) -> Check {
    let mut group = Members::of(group)?;
    group.skip(&["encoding", "semantics"]);
    for vector in group.list("vectors")? {
        let name = vector["logicalKey"]
            .as_str()
            .unwrap_or("a counter without a key");
        sheet.case(name, || {
            let mut vector = Members::of(vector)?;
            vector.skip(&["logicalKey"]);
            let issued = vector.decimal("issuedValue")?;
            let stored = vector.decimal("storedNextValue")?;
            same("next number", issued.checked_add(1), Some(stored))?;
            for (member, number) in [("issuedValue", issued), ("storedNextValue", stored)] {
                same(
                    "canonical text",
                    vector.text(member)?,
                    number.to_string().as_str(),
                )?;
            }
            vector.done()
        });
    }
    group.done()
}

/// An opaque record: one byte, and a `MessagePack` array of key, value, version, expiry, tombstone.
fn opaque(vector: &Value) -> Check {
    let mut vector = Members::of(vector)?;
    vector.skip(&["name"]);
    let member = vector.hex("cmsgpackMemberHex")?;
    let full = vector.hex("fullValueHex")?;
    same(
        "value after its first byte",
        Some((&1, &member[..])),
        full.split_first(),
    )?;
    let record = msgpack::read(&member)?;
    same(
        "packed again",
        hex_of(&member),
        hex_of(&msgpack::write(&record)?),
    )?;
    for length in 0..member.len() {
        if msgpack::read(&member[..length]).is_ok() {
            return Err(format!("read when cut to {length} bytes"));
        }
    }
    let key = vector.text("originalKey")?.replace(PRINTED_NUL, "\0");
    same("key", key.as_bytes(), record.key.as_slice())?;
    let json = vector.hex("jsonBytesHex")?;
    same("value", &json[..], record.value.as_slice())?;
    same(
        "version",
        vector.text("version")?.as_bytes(),
        record.version.as_slice(),
    )?;
    same(
        "expiry",
        vector.decimal("expiresAtMs")?,
        record.expires_at_ms,
    )?;
    same(
        "tombstone",
        vector.need("tombstone")?,
        &Value::Bool(record.tombstone),
    )?;
    let decoded = vector.need("decoded")?;
    match decoded {
        Value::Null => same("value of a tombstone", "", hex_of(&json).as_str())?,
        decoded => {
            // Compact, and with the members in this order.
            same("JSON", decoded.to_string().as_bytes(), &json[..])?;
            authority(decoded)?;
        }
    }
    vector.done()
}

/// The parts of an authority row that have a format of their own.
fn authority(row: &Value) -> Check {
    if let Some(payload) = row["payload"].as_str() {
        let bytes = base64(payload, b'+', b'/').ok_or("the payload is not base64")?;
        if bytes.starts_with(b"ZLAU") {
            valid_type("durable:authority-payload-v1", &Bytes::from(bytes))?;
        }
    }
    match &row["pendingCreation"] {
        Value::Null => Ok(()),
        pending => {
            let mut pending = Members::of(pending)?;
            pending.skip(&["reservationId"]);
            let reference = pending.text("requestContentReference")?;
            let sha256 = pending.text("requestSha256")?;
            content(reference, sha256, pending.number("requestEncodedSize")?)?;
            pending.done()
        }
    }
}

/// References that hold the creation request, and some that must be refused.
fn references(group: &Value, sheet: &mut Sheet) -> Check {
    let mut group = Members::of(group)?;
    group.skip(&["note"]);
    each(sheet, group.list("accepted")?, |vector| {
        let (reference, sha256) = (vector.text("reference")?, vector.text("requestSha256")?);
        let bytes = content(reference, sha256, vector.number("requestEncodedSize")?)?;
        same("content", vector.hex("payloadHex")?, bytes)
    });
    each(sheet, group.list("rejected")?, |vector| {
        vector.skip(&["reason"]);
        let (reference, sha256) = (vector.text("reference")?, vector.text("requestSha256")?);
        match content(reference, sha256, vector.number("requestEncodedSize")?) {
            Ok(_) => Err("must be refused, but was accepted".to_owned()),
            Err(_) => Ok(()),
        }
    });
    group.done()
}

/// The bytes behind a reference, if they are those of the digest.
fn content(reference: &str, digest: &str, size: u64) -> Check<Bytes> {
    let text = type_named("creation-content-reference")?;
    text.encode(node_of(&super::stored::text(reference))?)
        .map_err(|e| e.to_string())?;
    let encoded = reference
        .strip_prefix(INLINE)
        .ok_or("not an inline reference")?;
    let bytes = base64(encoded, b'-', b'_').ok_or("not URL-safe base64 without padding")?;
    same("size of the content", Ok(size), u64::try_from(bytes.len()))?;
    same("SHA-256 of the content", digest, sha256(&bytes).as_str())?;
    Ok(Bytes::from(bytes))
}

/// Base64 with these two last letters. Padding belongs to the usual alphabet and to no other.
fn base64(text: &str, letter_62: u8, letter_63: u8) -> Option<Vec<u8>> {
    let padded = letter_62 == b'+';
    if padded && !text.len().is_multiple_of(4) {
        return None;
    }
    let letters = if padded {
        text.trim_end_matches('=')
    } else {
        text
    };
    let mut bits: u32 = 0;
    let mut count: u32 = 0;
    let mut bytes = Vec::new();
    for letter in letters.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            letter if letter == letter_62 => 62,
            letter if letter == letter_63 => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    // A group of one letter is impossible, and what is left over must be zero.
    (count < 6 && bits & ((1 << count) - 1) == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_strictly() {
        assert_eq!(base64("AQIDBA==", b'+', b'/'), Some(vec![1, 2, 3, 4]));
        assert_eq!(base64("-_8", b'-', b'_'), Some(vec![0xfb, 0xff]));
        assert_eq!(base64("", b'-', b'_'), Some(vec![]));
        for bad in ["A", "AR", "+/8", "AQ==", "A Q"] {
            assert_eq!(base64(bad, b'-', b'_'), None, "{bad}");
        }
    }

    #[test]
    fn content_is_held_to_digest_size_and_form() {
        let digest = sha256(&[1, 2, 3, 4]);
        assert!(content("inline-v1:AQIDBA", &digest, 4).is_ok());
        assert!(content("inline-v1:AQIDBA", &digest, 5).is_err());
        assert!(content("inline-v1:AQIDBQ", &digest, 4).is_err());
        assert!(content("inline-v1:00:AQIDBA", &digest, 4).is_err());
        assert!(content("AQIDBA", &digest, 4).is_err());
    }
}
