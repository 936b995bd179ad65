//! The codec as tools use it: hex and JSON on one side, bytes and records on the other.

use std::fmt::Write as _;

use bytes::Bytes;
use spotlane_types::kind::MeshOperationKind;
use spotlane_wire::by_name::NamedError;
use spotlane_wire::json::{JsonError, Node};
use spotlane_wire::{DecodeError, EncodeError, ErrorKind, FrameBuffer, Record};

/// Bytes as lower-case hex.
pub(crate) fn hex_of(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        // Writing to a string does not fail.
        write!(hex, "{byte:02x}").ok();
    }
    hex
}

/// The bytes of lower-case hex; `None` when it is anything else.
pub(crate) fn bytes_of(hex: &str) -> Option<Bytes> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect::<Option<Vec<u8>>>()
        .map(Bytes::from)
}

/// The operation kind that a reply answers, by its contract name; no name means none.
pub(crate) fn pending_of(name: Option<&str>) -> Result<MeshOperationKind, String> {
    let Some(name) = name else {
        return Ok(MeshOperationKind::None);
    };
    MeshOperationKind::from_name(name).ok_or_else(|| {
        let known: Vec<_> = MeshOperationKind::ALL
            .iter()
            .map(|kind| kind.name())
            .collect();
        format!(
            "there is no operation kind `{name}`; the kinds are {}",
            known.join(", ")
        )
    })
}

/// Why a value was not encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What a decoder would call it.
    pub(crate) kind: ErrorKind,
    /// The path of the field as a decoder would give it, without the `body` of a record.
    pub(crate) field: String,
    /// The whole sentence.
    pub(crate) message: String,
}

impl Refusal {
    /// An invalid field, by its path in the JSON form.
    pub(crate) fn of_field(path: &str, message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::InvalidField,
            field: path.strip_prefix("body.").unwrap_or(path).to_owned(),
            message: message.into(),
        }
    }
}

impl From<JsonError> for Refusal {
    fn from(error: JsonError) -> Self {
        Self {
            kind: error.kind(),
            ..Self::of_field(error.field(), error.to_string())
        }
    }
}

impl From<EncodeError> for Refusal {
    fn from(error: EncodeError) -> Self {
        Self {
            kind: ErrorKind::InvalidField,
            field: error.field(),
            message: error.to_string(),
        }
    }
}

impl From<NamedError> for Refusal {
    fn from(error: NamedError) -> Self {
        match error {
            NamedError::Json(error) => error.into(),
            NamedError::Encode(error) => error.into(),
            other => Self::of_field("", other.to_string()),
        }
    }
}

/// Frames to the JSON form of their record.
pub(crate) fn decode(frames: &[Bytes], pending: MeshOperationKind) -> Result<Node, DecodeError> {
    Record::decode(frames, pending).map(|record| record.to_json())
}

/// The JSON form of a record to its frames.
pub(crate) fn encode(record: Node, pending: MeshOperationKind) -> Result<Vec<Bytes>, Refusal> {
    let record = Record::from_json(record, pending)?;
    let mut out = FrameBuffer::default();
    record.encode(&mut out)?;
    Ok(out.to_frames())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_lower_case_and_even() {
        assert_eq!(bytes_of("00ff10").as_deref(), Some(&[0, 255, 16][..]));
        assert_eq!(hex_of(&[0, 255, 16]), "00ff10");
        assert_eq!(bytes_of(""), Some(Bytes::new()));
        for bad in ["0", "0G", "FF", "0x", "é"] {
            assert_eq!(bytes_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_operation_kind_is_known_by_its_contract_name() {
        assert_eq!(pending_of(None), Ok(MeshOperationKind::None));
        assert_eq!(
            pending_of(Some("actorJoin")),
            Ok(MeshOperationKind::ActorJoin)
        );
        assert!(pending_of(Some("join")).unwrap_err().contains("streamBind"));
    }
}
