//! What the filter is asked.

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use spotlane_wire::json::Node;

use crate::codec::{Refusal, bytes_of};

/// A record or value as it was given. A number that no field can hold makes no bad line: it is an
/// invalid field like any other.
pub(super) type Given = Result<Node, Refusal>;

/// One line of input.
#[derive(Debug)]
pub(super) enum Request {
    /// Frames to a record.
    Decode {
        frames: Vec<Bytes>,
        pending: Option<String>,
    },
    /// A record to frames.
    Encode {
        record: Given,
        pending: Option<String>,
    },
    /// Bytes to a value of a type.
    DecodeType { name: String, bytes: Bytes },
    /// A value of a type to bytes.
    EncodeType { name: String, value: Given },
}

/// The members as they come, in any order.
#[derive(Debug, Default)]
struct Parts {
    op: Option<String>,
    frames: Option<Vec<String>>,
    /// Whether `pending` was there at all, and its value.
    pending: (bool, Option<String>),
    record: Option<Box<RawValue>>,
    name: Option<String>,
    hex: Option<String>,
    value: Option<Box<RawValue>>,
}

const MEMBERS: [&str; 7] = ["op", "frames", "pending", "record", "type", "hex", "value"];
const OPS: &str = "`decode`, `encode`, `decode-type` and `encode-type`";

impl<'de> Deserialize<'de> for Request {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Request;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request, which is a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Request, A::Error> {
        let mut parts = Parts::default();
        while let Some(member) = map.next_key::<String>()? {
            let twice = match member.as_str() {
                "op" => parts.op.replace(map.next_value()?).is_some(),
                "frames" => parts.frames.replace(map.next_value()?).is_some(),
                "pending" => {
                    let before = parts.pending.0;
                    parts.pending = (true, map.next_value()?);
                    before
                }
                "record" => parts.record.replace(map.next_value()?).is_some(),
                "type" => parts.name.replace(map.next_value()?).is_some(),
                "hex" => parts.hex.replace(map.next_value()?).is_some(),
                "value" => parts.value.replace(map.next_value()?).is_some(),
                other => {
                    let known = MEMBERS.join(", ");
                    return Err(A::Error::custom(format_args!(
                        "`{other}` is not a member of a request; the members are {known}"
                    )));
                }
            };
            if twice {
                return Err(A::Error::custom(format_args!("`{member}` is there twice")));
            }
        }
        parts.into_request().map_err(A::Error::custom)
    }
}

impl Parts {
    fn into_request(mut self) -> Result<Request, String> {
        let op = self
            .op
            .take()
            .ok_or_else(|| format!("`op` is missing; it is one of {OPS}"))?;
        let request = match op.as_str() {
            "decode" => Request::Decode {
                frames: frames(need(self.frames.take(), "frames", &op)?)?,
                pending: std::mem::take(&mut self.pending).1,
            },
            "encode" => Request::Encode {
                record: given(&need(self.record.take(), "record", &op)?, "record")?,
                pending: std::mem::take(&mut self.pending).1,
            },
            "decode-type" => Request::DecodeType {
                name: need(self.name.take(), "type", &op)?,
                bytes: bytes(&need(self.hex.take(), "hex", &op)?, "hex")?,
            },
            "encode-type" => Request::EncodeType {
                name: need(self.name.take(), "type", &op)?,
                value: given(&need(self.value.take(), "value", &op)?, "value")?,
            },
            other => return Err(format!("there is no op `{other}`; the ops are {OPS}")),
        };
        match self.left() {
            None => Ok(request),
            Some(member) => Err(format!("`{member}` is not a member of the op `{op}`")),
        }
    }

    /// A member that the op did not take.
    fn left(&self) -> Option<&'static str> {
        let left = [
            (self.frames.is_some(), "frames"),
            (self.pending.0, "pending"),
            (self.record.is_some(), "record"),
            (self.name.is_some(), "type"),
            (self.hex.is_some(), "hex"),
            (self.value.is_some(), "value"),
        ];
        left.into_iter()
            .find_map(|(there, member)| there.then_some(member))
    }
}

fn need<T>(part: Option<T>, member: &str, op: &str) -> Result<T, String> {
    part.ok_or_else(|| format!("`{member}` is missing, which the op `{op}` needs"))
}

fn bytes(hex: &str, place: &str) -> Result<Bytes, String> {
    bytes_of(hex).ok_or_else(|| format!("`{place}` is not an even number of lower-case hex digits"))
}

fn frames(frames: Vec<String>) -> Result<Vec<Bytes>, String> {
    let frames = frames.iter().enumerate();
    frames
        .map(|(index, frame)| bytes(frame, &format!("frames[{index}]")))
        .collect()
}

fn given(raw: &RawValue, member: &str) -> Result<Given, String> {
    let read = serde_json::from_str::<Node>(raw.get());
    let bad = |error: &serde_json::Error| format!("`{member}`: {}", spoken(error));
    match read {
        Ok(node) => Ok(Ok(node)),
        Err(error) => {
            let value: Value = serde_json::from_str(raw.get()).map_err(|e| bad(&e))?;
            odd_number(&value)
                .map(|(path, number)| {
                    let message = format!(
                        "member '{path}': expected a number of at most 32 bits, found {number}"
                    );
                    Err(Refusal::of_field(&path, message))
                })
                .ok_or_else(|| bad(&error))
        }
    }
}

/// The first number that is not one of at most 32 bits, with its path.
fn odd_number(value: &Value) -> Option<(String, String)> {
    let within = |name: String, value: &Value| {
        let (path, number) = odd_number(value)?;
        let dot = if path.is_empty() || path.starts_with('[') {
            ""
        } else {
            "."
        };
        Some((format!("{name}{dot}{path}"), number))
    };
    match value {
        Value::Number(number) => {
            let small = number.as_u64().is_some_and(|n| u32::try_from(n).is_ok());
            (!small).then(|| (String::new(), number.to_string()))
        }
        Value::Array(elements) => {
            let mut elements = elements.iter().enumerate();
            elements.find_map(|(index, element)| within(format!("[{index}]"), element))
        }
        Value::Object(members) => members
            .iter()
            .find_map(|(name, member)| within(name.clone(), member)),
        _ => None,
    }
}

/// An error of the JSON reader as it is answered. It counts lines inside of our one line, and it
/// adds the place where it stood even to messages that name a member.
pub(super) fn spoken(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let column = error.column();
    let place = format!(" at line {} column {column}", error.line());
    let Some(what) = said.strip_suffix(&place) else {
        return said;
    };
    // Only "invalid type" and its like are messages of the library among the errors of data.
    if error.is_data() && !what.starts_with("invalid ") {
        return what.to_owned();
    }
    format!("{what} at column {column}")
}
