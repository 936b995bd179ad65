//! Two codecs side by side: the same answers, or a difference that can be read.

use std::fmt;

use serde_json::Value;

use crate::model::Contract;
use crate::refusal::Refusal;
use crate::value::to_hex;

/// A codec in terms of JSON values (docs/decoding.md, section "JSON form").
pub trait Codec {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    fn decode_record(&self, frames: &[Vec<u8>], pending: Option<&str>) -> Result<Value, Refusal>;

    /// Writes a record.
    ///
    /// # Errors
    ///
    /// The value is not one that decoding can return.
    fn encode_record(&self, record: &Value, pending: Option<&str>)
    -> Result<Vec<Vec<u8>>, Refusal>;

    /// Reads a standalone value.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    fn decode_type(&self, name: &str, bytes: &[u8]) -> Result<Value, Refusal>;

    /// Writes a standalone value.
    ///
    /// # Errors
    ///
    /// The value is not one that decoding can return.
    fn encode_type(&self, name: &str, value: &Value) -> Result<Vec<u8>, Refusal>;

    /// Whether the codec knows this standalone name; a driver leaves out the others.
    fn supports(&self, _name: &str) -> bool {
        true
    }
}

impl Codec for Contract {
    fn decode_record(&self, frames: &[Vec<u8>], pending: Option<&str>) -> Result<Value, Refusal> {
        Self::decode_record(self, frames, pending)
    }

    fn encode_record(
        &self,
        record: &Value,
        pending: Option<&str>,
    ) -> Result<Vec<Vec<u8>>, Refusal> {
        Self::encode_record(self, record, pending)
    }

    fn decode_type(&self, name: &str, bytes: &[u8]) -> Result<Value, Refusal> {
        Self::decode_type(self, name, bytes)
    }

    fn encode_type(&self, name: &str, value: &Value) -> Result<Vec<u8>, Refusal> {
        Self::encode_type(self, name, value)
    }
}

/// One question to both codecs.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the four methods of a codec, closed"
)]
pub enum Case {
    /// Decode these frames, and encode what comes out.
    Record {
        /// The frames of the record.
        frames: Vec<Vec<u8>>,
        /// Kind of the pending operation.
        pending: Option<String>,
    },
    /// Decode these bytes as a standalone type, and encode what comes out.
    Type {
        /// Standalone name.
        name: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Encode this record. Both must write the same bytes or both must refuse.
    RecordValue {
        /// The record in its JSON form.
        value: Value,
        /// Kind of the pending operation.
        pending: Option<String>,
    },
    /// Encode this standalone value. Both must write the same bytes or both must refuse.
    TypeValue {
        /// Standalone name.
        name: String,
        /// The value in its JSON form.
        value: Value,
    },
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { frames, pending } => {
                let pending = pending.as_deref().unwrap_or("none");
                writeln!(f, "decode record, pending operation {pending}")?;
                write_frames(f, frames)
            }
            Self::Type { name, bytes } => writeln!(f, "decode {name}\n  {}", to_hex(bytes)),
            Self::RecordValue { value, pending } => {
                let pending = pending.as_deref().unwrap_or("none");
                writeln!(f, "encode record, pending operation {pending}\n  {value}")
            }
            Self::TypeValue { name, value } => writeln!(f, "encode {name}\n  {value}"),
        }
    }
}

fn write_frames(f: &mut fmt::Formatter<'_>, frames: &[Vec<u8>]) -> fmt::Result {
    for (index, frame) in frames.iter().enumerate() {
        writeln!(f, "  frame {index}: {}", to_hex(frame))?;
    }
    Ok(())
}

/// What both codecs said where they do not agree.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Difference {
    /// The question.
    pub case: Case,
    /// Which step differs.
    pub step: &'static str,
    /// Answer of the judge.
    pub judge: String,
    /// Answer of the other codec.
    pub other: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.case)?;
        writeln!(f, "{} differs", self.step)?;
        writeln!(f, "  judge: {}", self.judge)?;
        writeln!(f, "  other: {}", self.other)
    }
}

impl std::error::Error for Difference {}

/// How both codecs answered alike.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "an answer or a refusal, closed")]
pub enum Agreement {
    /// Both accepted.
    Accepted,
    /// Both refused with this kind; the places are for information.
    Refused {
        /// Refusal of the judge.
        judge: Refusal,
        /// Refusal of the other codec.
        other: Refusal,
    },
}

/// Asks both codecs the same question.
///
/// Both must accept with the same value and encode it to the same bytes, or refuse with the same
/// kind. Where a value is encoded that never was bytes, the kind is not compared: JSON can be wrong
/// in ways that bytes cannot.
///
/// # Errors
///
/// The [`Difference`], ready to be printed.
pub fn compare(
    judge: &impl Codec,
    other: &impl Codec,
    case: &Case,
) -> Result<Agreement, Box<Difference>> {
    match case {
        Case::Record { frames, pending } => {
            let pending = pending.as_deref();
            let mine = judge.decode_record(frames, pending);
            let theirs = other.decode_record(frames, pending);
            let value = match agree(case, "decoding", mine, theirs, true)? {
                Both::Refused(refused) => return Ok(refused),
                Both::Accepted(value) => value,
            };
            let mine = judge
                .encode_record(&value, pending)
                .map(|frames| hex_of(&frames));
            let theirs = other
                .encode_record(&value, pending)
                .map(|frames| hex_of(&frames));
            must_accept(case, agree(case, "encoding again", mine, theirs, false)?)
        }
        Case::Type { name, bytes } => {
            let mine = judge.decode_type(name, bytes);
            let theirs = other.decode_type(name, bytes);
            let value = match agree(case, "decoding", mine, theirs, true)? {
                Both::Refused(refused) => return Ok(refused),
                Both::Accepted(value) => value,
            };
            let mine = judge.encode_type(name, &value).map(|bytes| to_hex(&bytes));
            let theirs = other.encode_type(name, &value).map(|bytes| to_hex(&bytes));
            must_accept(case, agree(case, "encoding again", mine, theirs, false)?)
        }
        Case::RecordValue { value, pending } => {
            let pending = pending.as_deref();
            let mine = judge
                .encode_record(value, pending)
                .map(|frames| hex_of(&frames));
            let theirs = other
                .encode_record(value, pending)
                .map(|frames| hex_of(&frames));
            agree(case, "encoding", mine, theirs, false).map(Both::without_value)
        }
        Case::TypeValue { name, value } => {
            let mine = judge.encode_type(name, value).map(|bytes| to_hex(&bytes));
            let theirs = other.encode_type(name, value).map(|bytes| to_hex(&bytes));
            agree(case, "encoding", mine, theirs, false).map(Both::without_value)
        }
    }
}

enum Both<T> {
    Accepted(T),
    Refused(Agreement),
}

impl<T> Both<T> {
    fn without_value(self) -> Agreement {
        match self {
            Self::Accepted(_) => Agreement::Accepted,
            Self::Refused(refused) => refused,
        }
    }
}

fn agree<T: PartialEq + fmt::Display>(
    case: &Case,
    step: &'static str,
    judge: Result<T, Refusal>,
    other: Result<T, Refusal>,
    compares_kinds: bool,
) -> Result<Both<T>, Box<Difference>> {
    match (judge, other) {
        (Ok(mine), Ok(theirs)) if mine == theirs => Ok(Both::Accepted(mine)),
        (Err(judge), Err(other)) if !compares_kinds || judge.kind == other.kind => {
            Ok(Both::Refused(Agreement::Refused { judge, other }))
        }
        (mine, theirs) => Err(Box::new(Difference {
            case: case.clone(),
            step,
            judge: answer(&mine),
            other: answer(&theirs),
        })),
    }
}

fn answer<T: fmt::Display>(answer: &Result<T, Refusal>) -> String {
    match answer {
        Ok(value) => value.to_string(),
        Err(refusal) => format!("refused: {refusal}"),
    }
}

/// WR-6: what was decoded can be encoded, so that both refuse is a difference as well.
fn must_accept<T>(case: &Case, both: Both<T>) -> Result<Agreement, Box<Difference>> {
    match both {
        Both::Refused(Agreement::Refused { judge, other }) => Err(Box::new(Difference {
            case: case.clone(),
            step: "encoding what both had decoded",
            judge: judge.to_string(),
            other: other.to_string(),
        })),
        _ => Ok(Agreement::Accepted),
    }
}

fn hex_of(frames: &[Vec<u8>]) -> String {
    frames
        .iter()
        .map(|frame| to_hex(frame))
        .collect::<Vec<_>>()
        .join(" | ")
}
