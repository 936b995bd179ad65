//! What every vector has to show, whatever file it stands in.

use bytes::Bytes;
use serde_json::Value;
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::by_name::{NamedType, named_type};
use spotlane_wire::json::Node;
use spotlane_wire::{DecodeError, ErrorKind, FrameBuffer, Record};

use super::sheet::{Check, same};
use crate::codec::hex_of;

/// A refusal that a vector asks for; what is not given is not compared.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    pub(super) kind: Option<ErrorKind>,
    pub(super) field: Option<String>,
    pub(super) frame: Option<u64>,
    pub(super) offset: Option<u64>,
}

impl From<ErrorKind> for Expected {
    fn from(kind: ErrorKind) -> Self {
        Self {
            kind: Some(kind),
            ..Self::default()
        }
    }
}

impl Expected {
    fn words(&self) -> String {
        let mut words = vec![self.kind.map_or("a refusal", ErrorKind::as_str).to_owned()];
        words.extend(
            self.field
                .as_ref()
                .map(|field| format!("in field '{field}'")),
        );
        words.extend(self.offset.map(|offset| format!("at byte {offset}")));
        words.extend(self.frame.map(|frame| format!("of frame {frame}")));
        words.join(" ")
    }
}

/// The frames decode, their JSON form and their encoding lead back to them, and no frame can be
/// shorter. Returns the JSON form.
pub(super) fn valid_record(frames: &[Bytes], pending: MeshOperationKind) -> Check<Value> {
    let refused = |error: DecodeError| format!("is valid, but was refused: {error}");
    let record = Record::decode(frames, pending).map_err(refused)?;
    encodes_to(&record, frames)?;
    let json = value_of(&record.to_json())?;
    let back = Record::from_json(node_of(&json)?, pending)
        .map_err(|error| format!("its own JSON form was refused: {error}"))?;
    same("record taken back from its JSON form", &record, &back)?;
    for (index, frame) in frames.iter().enumerate() {
        let mut cut = frames.to_vec();
        for length in cuts(frame.len()) {
            cut[index] = frame.slice(..length);
            if Record::decode(&cut, pending).is_ok() {
                return Err(format!("accepted with frame {index} cut to {length} bytes"));
            }
        }
    }
    Ok(json)
}

fn encodes_to(record: &Record, frames: &[Bytes]) -> Check {
    let mut out = FrameBuffer::default();
    record
        .encode(&mut out)
        .map_err(|error| format!("decoded, but was not encoded: {error}"))?;
    let again: Vec<String> = out.to_frames().iter().map(|frame| hex_of(frame)).collect();
    let frames: Vec<String> = frames.iter().map(|frame| hex_of(frame)).collect();
    same("encoded again", frames, again)
}

/// The frames are refused, and for the right reason.
pub(super) fn invalid_record(
    frames: &[Bytes],
    pending: MeshOperationKind,
    expected: &Expected,
) -> Check {
    match Record::decode(frames, pending) {
        Ok(record) => Err(format!(
            "expected {}, but it was accepted as {}",
            expected.kind.map_or("a refusal", ErrorKind::as_str),
            record.name()
        )),
        Err(error) => refused_as(&error, expected),
    }
}

/// A type that can stand alone.
pub(super) fn type_named(name: &str) -> Check<NamedType> {
    named_type(name).ok_or_else(|| format!("there is no type `{name}` that can stand alone"))
}

/// As [`valid_record`], for a type.
pub(super) fn valid_type(name: &str, bytes: &Bytes) -> Check<Value> {
    let named = type_named(name)?;
    let refused = |error: DecodeError| format!("is valid, but was refused: {error}");
    let json = value_of(&named.decode(bytes).map_err(refused)?)?;
    let again = named
        .encode(node_of(&json)?)
        .map_err(|error| format!("decoded, but was not encoded: {error}"))?;
    same("encoded again", hex_of(bytes), hex_of(&again))?;
    for length in cuts(bytes.len()) {
        if named.decode(&bytes.slice(..length)).is_ok() {
            return Err(format!("accepted when cut to {length} bytes"));
        }
    }
    Ok(json)
}

/// As [`invalid_record`], for a type.
pub(super) fn invalid_type(name: &str, bytes: &Bytes, expected: &Expected) -> Check {
    match type_named(name)?.decode(bytes) {
        Ok(_) => Err(format!(
            "expected {}, but it was accepted",
            expected.kind.map_or("a refusal", ErrorKind::as_str)
        )),
        Err(error) => refused_as(&error, expected),
    }
}

/// Compares a refusal with what was expected of it.
pub(super) fn refused_as(error: &DecodeError, expected: &Expected) -> Check {
    let number = |number: usize| u64::try_from(number).ok();
    let fine = expected.kind.is_none_or(|kind| kind == error.kind())
        && expected
            .field
            .as_ref()
            .is_none_or(|field| *field == error.field())
        && expected
            .frame
            .is_none_or(|frame| Some(frame) == number(error.frame()))
        && expected
            .offset
            .is_none_or(|offset| Some(offset) == number(error.offset()));
    if fine {
        return Ok(());
    }
    Err(format!("expected {}, got {error}", expected.words()))
}

/// Every length shorter than this one; of a large input only some.
fn cuts(length: usize) -> impl Iterator<Item = usize> {
    const ALL: usize = 4096;
    const EDGE: usize = 512;
    let step = length / EDGE;
    (0..length).filter(move |cut| {
        length <= ALL || *cut < EDGE || length - cut <= EDGE || cut.is_multiple_of(step)
    })
}

/// The JSON of a value.
pub(super) fn value_of(node: &Node) -> Check<Value> {
    serde_json::to_value(node).map_err(|error| format!("has no JSON form: {error}"))
}

/// The value of a JSON.
pub(super) fn node_of(value: &Value) -> Check<Node> {
    serde_json::from_value(value.clone()).map_err(|error| format!("is no JSON form: {error}"))
}

/// The error kind behind a name; older names of the same kinds included.
pub(super) fn kind_named(name: &str) -> Check<ErrorKind> {
    let alias = match name {
        "forbidden-flag" => "invalid-flags",
        "invalid-magic" | "invalid-body-length" | "unknown-framework-error" => "invalid-field",
        other => other,
    };
    let mut kinds = ErrorKind::ALL.into_iter();
    kinds
        .find(|kind| kind.as_str() == alias)
        .ok_or_else(|| format!("there is no error kind `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::bytes_of;

    #[test]
    fn large_inputs_are_cut_at_both_ends_and_in_between() {
        assert_eq!(cuts(3).collect::<Vec<_>>(), [0, 1, 2]);
        let many: Vec<_> = cuts(1 << 20).collect();
        assert!(many.len() < 2000);
        assert_eq!(many.first(), Some(&0));
        assert_eq!(many.last(), Some(&((1 << 20) - 1)));
    }

    #[test]
    fn a_refusal_of_another_kind_field_or_place_is_a_failure() {
        let frames = [bytes_of("5a4d0105000000000000000000").unwrap()];
        let none = MeshOperationKind::None;
        let mut expected = Expected {
            kind: Some(ErrorKind::InvalidField),
            field: Some("probeId".to_owned()),
            frame: Some(0),
            offset: Some(5),
        };
        assert_eq!(invalid_record(&frames, none, &expected), Ok(()));
        expected.offset = Some(6);
        assert!(invalid_record(&frames, none, &expected).is_err());
        let kind = ErrorKind::TruncatedField.into();
        assert!(invalid_record(&frames, none, &kind).is_err());
        let good = [bytes_of("5a4d0105000000000000000001").unwrap()];
        assert!(invalid_record(&good, none, &ErrorKind::InvalidField.into()).is_err());
        assert!(valid_record(&good, none).is_ok());
    }

    #[test]
    fn older_names_stand_for_one_of_the_six_kinds() {
        assert_eq!(kind_named("invalid-magic"), Ok(ErrorKind::InvalidField));
        assert_eq!(kind_named("forbidden-flag"), Ok(ErrorKind::InvalidFlags));
        assert!(kind_named("weird").is_err());
    }
}
