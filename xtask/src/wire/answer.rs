//! What the filter answers.

use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap, Serializer};
use spotlane_wire::DecodeError;
use spotlane_wire::json::Node;

use crate::codec::{Refusal, hex_of};

/// One line of output.
#[derive(Debug)]
pub(super) enum Answer {
    /// Frames were decoded.
    Record(Node),
    /// A record was encoded.
    Frames(Vec<Bytes>),
    /// A value was decoded.
    Value(Node),
    /// A value was encoded.
    Bytes(Bytes),
    /// Bytes were not decoded (WR-5).
    Refused(DecodeError),
    /// A record or value was not encoded.
    Unfit(Refusal),
    /// The line is not a request; with its number, from 1.
    Bad(String, u64),
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let fine = matches!(
            self,
            Self::Record(_) | Self::Frames(_) | Self::Value(_) | Self::Bytes(_)
        );
        map.serialize_entry("ok", &fine)?;
        match self {
            Self::Record(record) => map.serialize_entry("record", record)?,
            Self::Frames(frames) => {
                let frames: Vec<String> = frames.iter().map(|frame| hex_of(frame)).collect();
                map.serialize_entry("frames", &frames)?;
            }
            Self::Value(value) => map.serialize_entry("value", value)?,
            Self::Bytes(bytes) => map.serialize_entry("hex", &hex_of(bytes))?,
            Self::Refused(error) => {
                map.serialize_entry("error", error.kind().as_str())?;
                map.serialize_entry("field", &error.field())?;
                map.serialize_entry("offset", &error.offset())?;
                map.serialize_entry("frame", &error.frame())?;
                map.serialize_entry("record", error.record())?;
                map.serialize_entry("message", &error.to_string())?;
            }
            Self::Unfit(refusal) => {
                map.serialize_entry("error", refusal.kind.as_str())?;
                map.serialize_entry("field", &refusal.field)?;
                map.serialize_entry("message", &refusal.message)?;
            }
            Self::Bad(message, line) => {
                map.serialize_entry("error", "bad-request")?;
                map.serialize_entry("line", line)?;
                map.serialize_entry("message", message)?;
            }
        }
        map.end()
    }
}
