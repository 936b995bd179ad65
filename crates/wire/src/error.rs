//! Why bytes were refused, or why a value cannot be encoded.

use core::fmt;

use spotlane_types::ValueError;

/// The six kinds of decoding error (WR-5), the same in every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "closed by WR-5")]
pub enum ErrorKind {
    /// The input ends before the field does.
    TruncatedField,
    /// Everything was read and bytes are left over.
    TrailingByte,
    /// The bytes are there but not allowed.
    InvalidField,
    /// A reserved or unassigned command (WR-3).
    UnknownCommand,
    /// A flag that the command does not list, or half of a pair (WR-2).
    InvalidFlags,
    /// More or fewer frames than flags and payload rule ask for (WR-1).
    FrameCount,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::TruncatedField,
        Self::TrailingByte,
        Self::InvalidField,
        Self::UnknownCommand,
        Self::InvalidFlags,
        Self::FrameCount,
    ];

    /// The language-neutral name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TruncatedField => "truncated-field",
            Self::TrailingByte => "trailing-byte",
            Self::InvalidField => "invalid-field",
            Self::UnknownCommand => "unknown-command",
            Self::InvalidFlags => "invalid-flags",
            Self::FrameCount => "frame-count",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One step of the way from a record to the field that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Field(&'static str),
    Element(usize),
}

/// What exactly is wrong, in a form that costs nothing to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A newtype refused the value.
    Value(ValueError),
    /// A fixed sentence.
    Text(&'static str),
    /// The field needs this many bytes more than there are.
    Missing(usize),
    /// This many bytes are left over.
    LeftOver(usize),
    /// A number that must be another one.
    Expected { expected: u64, actual: u64 },
    /// A number that means nothing here.
    Reserved(u64),
    /// A number above its bound.
    Above { bound: u64, actual: u64 },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(error) => write!(f, "{error}"),
            Self::Text(text) => f.write_str(text),
            Self::Missing(bytes) => write!(f, "{bytes} more bytes are needed"),
            Self::LeftOver(bytes) => write!(f, "{bytes} bytes are left over"),
            Self::Expected { expected, actual } => write!(f, "{actual} instead of {expected}"),
            Self::Reserved(number) => write!(f, "{number} is not assigned"),
            Self::Above { bound, actual } => write!(f, "{actual} is above the bound of {bound}"),
        }
    }
}

/// Where a fault is and what it is; shared by the errors of decoding, encoding and JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    kind: ErrorKind,
    record: &'static str,
    frame: usize,
    offset: usize,
    reason: Reason,
    /// Innermost step first: a fault is named on its way out.
    steps: Vec<Step>,
}

impl Fault {
    fn path(&self) -> String {
        let mut path = String::new();
        for step in self.steps.iter().rev() {
            match step {
                Step::Field(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                }
                Step::Element(index) => {
                    path.push('[');
                    path.push_str(&index.to_string());
                    path.push(']');
                }
            }
        }
        path
    }
}

/// What both errors know: where they are in which record.
macro_rules! located {
    ($error:ident) => {
        impl $error {
            #[cold]
            pub(crate) fn within(mut self, field: &'static str) -> Self {
                self.0.steps.push(Step::Field(field));
                self
            }

            #[cold]
            pub(crate) fn at_element(mut self, index: usize) -> Self {
                self.0.steps.push(Step::Element(index));
                self
            }

            /// The contract name of the command or type that was at work.
            pub fn record(&self) -> &'static str {
                self.0.record
            }

            /// The dotted path of the field inside the record, for example
            /// `targetActor.actor.actorId`. Empty when the record as a whole is at fault.
            pub fn field(&self) -> String {
                self.0.path()
            }
        }
    };
}

located!(DecodeError);
located!(EncodeError);

/// Bytes that are not a legal record or value (WR-5).
///
/// Always a violation by whoever sent them; decoding the same bytes again cannot help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(Box<Fault>);

impl DecodeError {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, offset: usize, reason: Reason) -> Self {
        Self(Box::new(Fault {
            kind,
            record: "",
            frame: 0,
            offset,
            reason,
            steps: Vec::new(),
        }))
    }

    #[cold]
    pub(crate) fn of_record(mut self, record: &'static str, frame: usize) -> Self {
        self.0.record = record;
        self.0.frame = frame;
        self
    }

    #[cold]
    pub(crate) fn moved_by(mut self, bytes: usize) -> Self {
        self.0.offset = self.0.offset.saturating_add(bytes);
        self
    }

    /// How many bytes more the field needs; `None` unless the input was too short.
    pub(crate) fn missing(&self) -> Option<usize> {
        match self.0.reason {
            Reason::Missing(bytes) if self.0.kind == ErrorKind::TruncatedField => Some(bytes),
            Reason::Missing(_)
            | Reason::Value(_)
            | Reason::Text(_)
            | Reason::LeftOver(_)
            | Reason::Reserved(_)
            | Reason::Expected { .. }
            | Reason::Above { .. } => None,
        }
    }

    /// Which of the six kinds it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The frame of the record that holds the field, from 0.
    pub fn frame(&self) -> usize {
        self.0.frame
    }

    /// Where the field starts, in bytes from the start of its frame or of the standalone value.
    pub fn offset(&self) -> usize {
        self.0.offset
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = &self.0;
        write!(
            f,
            "{} in {} field '{}' at byte {} of frame {}: {}",
            fault.kind,
            fault.record,
            fault.path(),
            fault.offset,
            fault.frame,
            fault.reason
        )
    }
}

impl core::error::Error for DecodeError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.0.reason {
            Reason::Value(error) => Some(error),
            Reason::Text(_)
            | Reason::Missing(_)
            | Reason::LeftOver(_)
            | Reason::Reserved(_)
            | Reason::Expected { .. }
            | Reason::Above { .. } => None,
        }
    }
}

/// A value that no decoder would accept, so that it is not encoded (WR-6).
///
/// A mistake of the caller: the value breaks a rule over several fields or a bound of its encoding.
/// Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError(Box<Fault>);

impl EncodeError {
    #[cold]
    pub(crate) fn new(reason: Reason) -> Self {
        Self(Box::new(Fault {
            kind: ErrorKind::InvalidField,
            record: "",
            frame: 0,
            offset: 0,
            reason,
            steps: Vec::new(),
        }))
    }

    #[cold]
    pub(crate) fn of_record(mut self, record: &'static str) -> Self {
        self.0.record = record;
        self
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = &self.0;
        write!(
            f,
            "{} cannot be encoded, field '{}': {}",
            fault.record,
            fault.path(),
            fault.reason
        )
    }
}

impl core::error::Error for EncodeError {}

/// A rule over several fields that does not hold; names the field that carries the blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) field: &'static str,
    pub(crate) rule: &'static str,
}

impl Breach {
    pub(crate) const fn new(field: &'static str, rule: &'static str) -> Self {
        Self { field, rule }
    }

    #[cold]
    pub(crate) fn into_decode(self, offset: usize) -> DecodeError {
        DecodeError::new(ErrorKind::InvalidField, offset, Reason::Text(self.rule))
            .within(self.field)
    }

    #[cold]
    pub(crate) fn into_encode(self) -> EncodeError {
        EncodeError::new(Reason::Text(self.rule)).within(self.field)
    }
}
