//! Why a codec refused: the closed list of kinds and where the fault was found (WR-5).

use std::fmt;

/// The error kinds of WR-5, and no others.
#[expect(clippy::exhaustive_enums, reason = "closed by WR-5")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The input ends before the field does.
    TruncatedField,
    /// Everything was read and bytes are left over.
    TrailingByte,
    /// The bytes are there but not allowed.
    InvalidField,
    /// A reserved or unassigned command byte (WR-3).
    UnknownCommand,
    /// A flag the command does not list, or half of a pair (WR-2).
    InvalidFlags,
    /// More or fewer frames than flags and payload rule ask for.
    FrameCount,
}

impl Kind {
    /// The name of the kind in fixtures and reports.
    pub fn as_str(self) -> &'static str {
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

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The answer of a codec that does not accept bytes or a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} in {record}, field `{field}`, frame {frame}, offset {offset}")]
#[non_exhaustive]
pub struct Refusal {
    /// What kind of fault it is; the only member that [`crate::compare`] insists on.
    pub kind: Kind,
    /// Command name, or type name of a standalone value; empty before the command is known.
    pub record: String,
    /// Dotted path of the field; empty where the fault belongs to no field.
    pub field: String,
    /// Index of the frame.
    pub frame: usize,
    /// Byte offset inside the frame at which the field starts.
    pub offset: usize,
}

impl Refusal {
    /// A refusal at the start of frame 0; [`Refusal::at`] moves it.
    pub fn new(kind: Kind, record: impl Into<String>, field: impl Into<String>) -> Self {
        Self {
            kind,
            record: record.into(),
            field: field.into(),
            frame: 0,
            offset: 0,
        }
    }

    /// The same refusal at another place.
    #[must_use]
    pub fn at(mut self, frame: usize, offset: usize) -> Self {
        self.frame = frame;
        self.offset = offset;
        self
    }
}

/// A refusal under construction: the path grows while the error travels outwards.
#[derive(Debug)]
pub(crate) struct Fault {
    kind: Kind,
    offset: usize,
    /// Innermost name first.
    path: Vec<String>,
}

impl Fault {
    pub(crate) fn new(kind: Kind, offset: usize) -> Self {
        Self {
            kind,
            offset,
            path: Vec::new(),
        }
    }

    pub(crate) fn invalid(offset: usize) -> Self {
        Self::new(Kind::InvalidField, offset)
    }

    pub(crate) fn truncated(offset: usize) -> Self {
        Self::new(Kind::TruncatedField, offset)
    }

    /// The fault is inside the part called `name`.
    pub(crate) fn within(mut self, name: &str) -> Self {
        self.path.push(name.to_owned());
        self
    }

    pub(crate) fn into_refusal(self, record: &str, frame: usize) -> Refusal {
        let field = self
            .path
            .iter()
            .rev()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(".");
        Refusal::new(self.kind, record, field).at(frame, self.offset)
    }
}
