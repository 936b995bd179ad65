//! Our own vector files; `fixtures/README.md` describes the format.

use bytes::Bytes;
use serde_json::Value;
use spotlane_wire::Record;

use super::checks::{
    Expected, invalid_record, invalid_type, kind_named, type_named, valid_record, valid_type,
};
use super::listed::differences;
use super::members::{Members, name_of};
use super::notation;
use super::sheet::{Check, Sheet, same, short};
use crate::codec;

/// The first words of every file.
pub(super) const FORMAT: &str = "spotlane-vectors-v1";

/// What a vector is about.
enum Subject<'a> {
    Command(u64),
    Type(&'a str),
}

/// The whole file.
pub(super) fn vectors(file: &mut Members<'_>, sheet: &mut Sheet) -> Check {
    file.text("family")?;
    file.skip(&["about"]);
    let vectors = file.list("vectors")?;
    let mut names = std::collections::BTreeSet::new();
    for (index, vector) in vectors.iter().enumerate() {
        let name = name_of(vector, index);
        sheet.case(&name, || run(vector));
        if !names.insert(name.clone()) {
            sheet.fail(&name, "the name is there twice");
        }
    }
    Ok(())
}

fn run(vector: &Value) -> Check {
    let mut vector = Members::of(vector)?;
    vector.text("name")?;
    vector.optional_text("about")?;
    let subject = match (vector.get("command"), vector.optional_text("type")?) {
        (Some(command), None) => {
            let command = command.as_u64().ok_or("member `command` is not a number")?;
            Subject::Command(command)
        }
        (None, Some(name)) => Subject::Type(name),
        _ => return Err("a vector is about a `command` or a `type`".to_owned()),
    };
    let expected = expected(vector.get("error"))?;
    let value = vector.get("value");
    if value.is_some() && expected.is_some() {
        return Err("a vector has a `value` or an `error`".to_owned());
    }
    match subject {
        Subject::Command(command) => {
            let pending = codec::pending_of(vector.optional_text("pending")?)?;
            let frames = vector.list("frames")?.iter().map(notation::bytes);
            let frames: Vec<Bytes> = frames
                .map(|frame| frame.map(Bytes::from))
                .collect::<Check<_>>()?;
            vector.done()?;
            about_command(command, &frames)?;
            match expected {
                Some(expected) => invalid_record(&frames, pending, &expected),
                None => equal(value, &valid_record(&frames, pending)?, |value| {
                    let record = Record::from_json(value, pending).map_err(|e| e.to_string())?;
                    written(&record, &frames)
                }),
            }
        }
        Subject::Type(name) => {
            let bytes = Bytes::from(notation::bytes(vector.need("hex")?)?);
            let encoded = vector.get("encoded").map(notation::bytes).transpose()?;
            vector.done()?;
            match (expected, encoded) {
                (Some(expected), None) => invalid_type(name, &bytes, &expected),
                (None, Some(encoded)) => loose(name, &bytes, &encoded.into()),
                (Some(_), Some(_)) => Err("a vector has an `error` or is `encoded`".to_owned()),
                (None, None) => equal(value, &valid_type(name, &bytes)?, |value| {
                    let again = type_named(name)?.encode(value).map_err(|e| e.to_string())?;
                    same(
                        "value encoded",
                        codec::hex_of(&bytes),
                        codec::hex_of(&again),
                    )
                }),
            }
        }
    }
}

/// Bytes that are accepted, and whose value has another encoding.
fn loose(name: &str, bytes: &Bytes, encoded: &Bytes) -> Check {
    let decoded = type_named(name)?.decode(bytes).map_err(|e| e.to_string())?;
    let decoded = super::checks::value_of(&decoded)?;
    same("value of both forms", &valid_type(name, encoded)?, &decoded)
}

/// The frames are those of the command that the vector names, as far as they have a command.
fn about_command(command: u64, frames: &[Bytes]) -> Check {
    match frames.first().and_then(|frame| frame.get(3)) {
        Some(byte) => same("command byte", command, u64::from(*byte)),
        None => Ok(()),
    }
}

/// The decoded value is the given one, and the given one encodes to the bytes. A large vector may
/// do without a value.
fn equal(
    value: Option<&Value>,
    decoded: &Value,
    encode: impl FnOnce(spotlane_wire::json::Node) -> Check,
) -> Check {
    let Some(value) = value else {
        return Ok(());
    };
    if value != decoded {
        let places = differences(value, decoded);
        return Err(format!("the value differs in {}", short(places.join(", "))));
    }
    encode(super::checks::node_of(value)?)
}

fn written(record: &Record, frames: &[Bytes]) -> Check {
    let mut out = spotlane_wire::FrameBuffer::default();
    record.encode(&mut out).map_err(|e| e.to_string())?;
    same("value encoded", frames, &out.to_frames()[..])
}

/// What is expected of an error. Its kind is always given; the others are where
/// docs/decoding.md settles them.
fn expected(error: Option<&Value>) -> Check<Option<Expected>> {
    let Some(error) = error else {
        return Ok(None);
    };
    let mut error = Members::of(error).map_err(|what| format!("member `error`: {what}"))?;
    let expected = Expected {
        kind: Some(kind_named(error.text("kind")?)?),
        field: error.optional_text("field")?.map(str::to_owned),
        frame: optional_number(&mut error, "frame")?,
        offset: optional_number(&mut error, "offset")?,
    };
    error.done()?;
    Ok(Some(expected))
}

fn optional_number(members: &mut Members<'_>, name: &str) -> Check<Option<u64>> {
    match members.get(name) {
        None => Ok(None),
        Some(_) => members.number(name).map(Some),
    }
}
