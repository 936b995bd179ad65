//! The one public error: twelve kinds, and how each travels (EX-340 to EX-357).

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use spotlane_lane::{AskError, Refusal};
use spotlane_location::{Conflict, LocationError};
use spotlane_types::ValueError;
use spotlane_types::kind::{FailureCode, TerminalResult};

/// What kind of failure an operation ended with; the numbers are those of the contract.
///
/// A kind says nothing about whether a handler ran: the same kind can mean either (EX-354).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "closed by EX-357")]
#[repr(u8)]
pub enum ErrorKind {
    /// There is no such object, handler, mesh or type (EX-340).
    NotFound = 0,
    /// The id is taken by an object of the same type (EX-341).
    AlreadyExists = 1,
    /// The id is taken by an object of another kind or type (EX-342).
    TypeMismatch = 2,
    /// The call needs a role or a store that this host does not have (EX-343).
    NotConfigured = 3,
    /// A policy, a filter or the application refused (EX-344).
    Rejected = 4,
    /// Owner, route, store or node cannot be used now (EX-345).
    Unavailable = 5,
    /// A wait passed its deadline (EX-346).
    DeadlineExceeded = 6,
    /// This host takes no new work, or its shutdown ended the wait (EX-347).
    ShuttingDown = 7,
    /// A payload, reply or record cannot be read (EX-348).
    ProtocolError = 8,
    /// The call is not allowed here or now (EX-349).
    InvalidOperation = 9,
    /// Data of a move is missing or damaged (EX-350).
    DataLost = 10,
    /// A handler, factory or adapter failed, or something nobody foresaw (EX-351).
    InternalFailure = 11,
}

impl ErrorKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::NotFound,
        Self::AlreadyExists,
        Self::TypeMismatch,
        Self::NotConfigured,
        Self::Rejected,
        Self::Unavailable,
        Self::DeadlineExceeded,
        Self::ShuttingDown,
        Self::ProtocolError,
        Self::InvalidOperation,
        Self::DataLost,
        Self::InternalFailure,
    ];

    /// The name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::TypeMismatch => "TypeMismatch",
            Self::NotConfigured => "NotConfigured",
            Self::Rejected => "Rejected",
            Self::Unavailable => "Unavailable",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::ShuttingDown => "ShuttingDown",
            Self::ProtocolError => "ProtocolError",
            Self::InvalidOperation => "InvalidOperation",
            Self::DataLost => "DataLost",
            Self::InternalFailure => "InternalFailure",
        }
    }

    /// How a reply says it: the result and, where the contract has one, the code (EX-340 to EX-351).
    pub(crate) const fn to_wire(self) -> (TerminalResult, FailureCode) {
        use FailureCode as Code;
        let code = match self {
            Self::ShuttingDown => return (TerminalResult::Terminated, Code::None),
            Self::InvalidOperation => return (TerminalResult::InvalidState, Code::None),
            Self::NotFound => Code::RequestTargetNotFound,
            Self::AlreadyExists => Code::ActorAlreadyExists,
            Self::TypeMismatch => Code::SpotTypeMismatch,
            Self::Rejected => Code::RequestRejected,
            Self::Unavailable => Code::RouteNotConnected,
            Self::DeadlineExceeded => Code::WorkerTimedOut,
            Self::ProtocolError => Code::RequestProtocolError,
            Self::DataLost => Code::RelocationDataLost,
            Self::NotConfigured | Self::InternalFailure => Code::RequestFailed,
        };
        match code.terminal_result() {
            Some(result) => (result, code),
            None => (TerminalResult::InternalError, Code::RequestFailed),
        }
    }

    /// What a received result means; `None` when it is a success (EX-340 to EX-351, EX-355).
    pub(crate) const fn from_wire(result: TerminalResult, code: FailureCode) -> Option<Self> {
        use FailureCode as Code;
        Some(match code {
            Code::None => match result {
                TerminalResult::Ok => return None,
                TerminalResult::TimedOut => Self::DeadlineExceeded,
                TerminalResult::Terminated => Self::ShuttingDown,
                TerminalResult::Busy
                | TerminalResult::Conflict
                | TerminalResult::NotConnected
                | TerminalResult::Backpressured => Self::Unavailable,
                TerminalResult::InvalidArgument
                | TerminalResult::InvalidState
                | TerminalResult::NotSupported => Self::InvalidOperation,
                // WR-20: these, and a conflict, never come without a code.
                TerminalResult::NotFound => Self::NotFound,
                TerminalResult::ProtocolError => Self::ProtocolError,
                TerminalResult::Rejected => Self::Rejected,
                TerminalResult::InternalError => Self::InternalFailure,
            },
            Code::ActorRouteNotFound
            | Code::SpotRouteNotFound
            | Code::HandlerNotFound
            | Code::RouteHandlerNotFound
            | Code::ActorDispatchHandlerNotFound
            | Code::RequestTargetNotFound => Self::NotFound,
            Code::ActorAlreadyExists => Self::AlreadyExists,
            Code::ActorTypeMismatch | Code::SpotTypeMismatch => Self::TypeMismatch,
            Code::RequestRejected | Code::ActorCreateRejected => Self::Rejected,
            Code::RouteNotConnected
            | Code::WorkerQueueFull
            | Code::ActorLocationStale
            | Code::SpotMoving => Self::Unavailable,
            Code::WorkerTimedOut => Self::DeadlineExceeded,
            Code::RequestProtocolError | Code::PayloadDecodeFailed => Self::ProtocolError,
            Code::ActorSessionNotBound | Code::SpotGenerationStale => Self::InvalidOperation,
            Code::RelocationDataLost => Self::DataLost,
            Code::RequestFailed
            | Code::WorkerFailed
            | Code::ActorCreateFailed
            | Code::SpotCreateFailed => Self::InternalFailure,
        })
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How an operation failed (never that it was cancelled, EX-353): a kind to branch on and a text for people.
///
/// Handlers return it too; what they return reaches the caller with its kind, on any node. The text stays on the node
/// where the error was made.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of a kind. The text names the value, the bound it broke and what to do.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    /// The application refuses.
    pub fn rejected(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Rejected, message)
    }

    /// Something failed inside of a handler.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InternalFailure, message)
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// What kind of failure it is. The only thing to branch on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The text.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub(crate) fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    pub(crate) fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidOperation, message)
    }

    pub(crate) fn deadline(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::DeadlineExceeded, message)
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(
            ErrorKind::ShuttingDown,
            "the host takes no new work; use another one",
        )
    }

    /// An error that came in a reply.
    pub(crate) fn from_reply(result: TerminalResult, code: FailureCode) -> Option<Self> {
        let kind = ErrorKind::from_wire(result, code)?;
        let message = if code == FailureCode::None {
            format!("the owner answered {result}")
        } else {
            format!("the owner answered {code}")
        };
        Some(Self::new(kind, message))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.0.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_ref()
            .map(|source| &**source as &(dyn StdError + 'static))
    }
}

impl From<ValueError> for Error {
    fn from(error: ValueError) -> Self {
        Self::invalid(error.to_string()).with_source(error)
    }
}

/// EX-352, EX-357: a verdict of the lane becomes a public kind here and nowhere else.
impl From<&Refusal> for Error {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::ShuttingDown => Self::shutting_down(),
            Refusal::DeadlineExceeded => Self::deadline("no room became free in time"),
            Refusal::Sealed => Self::unavailable("the object is being moved; try again"),
            _ => Self::unavailable("the object is not served here any more"),
        }
    }
}

impl From<AskError> for Error {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(refusal) => Self::from(&refusal),
            AskError::ShuttingDown => Self::shutting_down(),
            AskError::InvalidOperation(which) => Self::invalid(which.to_string()),
            AskError::DeadlineExceeded => Self::deadline("the handler did not end in time"),
            AskError::Failed(_) | AskError::Panicked { .. } => {
                Self::internal("a callback failed").with_source(error)
            }
            _ => Self::unavailable("the object ended before the item ran"),
        }
    }
}

/// EX-357: errors of the repository become public kinds here and nowhere else.
impl From<LocationError> for Error {
    fn from(error: LocationError) -> Self {
        let (kind, message) = match &error {
            LocationError::Conflict {
                reason: Conflict::Exists,
            } => (ErrorKind::AlreadyExists, "the object exists"),
            LocationError::Conflict { .. } => {
                (ErrorKind::Unavailable, "the object changed meanwhile")
            }
            LocationError::Stale { .. } => (
                ErrorKind::Unavailable,
                "the lease of this host does not admit work now",
            ),
            LocationError::Indeterminate { .. } | LocationError::Unavailable { .. } => (
                ErrorKind::Unavailable,
                "the location store did not answer in time",
            ),
            LocationError::Call { .. } | LocationError::Payload(_) => (
                ErrorKind::InternalFailure,
                "a defect of the runtime; please report it",
            ),
            _ => (ErrorKind::InternalFailure, "the location store refuses"),
        };
        Self::new(kind, message).with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EX-340, EX-341, EX-342, EX-344, EX-345, EX-346, EX-347, EX-348, EX-349, EX-350, EX-351: every kind that has a
    /// form on the wire comes back as itself; EX-343 has none and arrives as an internal failure.
    #[test]
    fn a_kind_survives_the_wire() {
        for kind in ErrorKind::ALL {
            let (result, code) = kind.to_wire();
            assert!(code.fits(result), "{kind}");
            let expected = match kind {
                ErrorKind::NotConfigured => ErrorKind::InternalFailure,
                other => other,
            };
            assert_eq!(ErrorKind::from_wire(result, code), Some(expected));
        }
    }

    /// EX-355, WR-20: every legal pair has a kind, and only the success has none.
    #[test]
    fn every_legal_pair_has_a_meaning() {
        for result in TerminalResult::ALL {
            for code in FailureCode::ALL.iter().filter(|code| code.fits(*result)) {
                let kind = ErrorKind::from_wire(*result, *code);
                assert_eq!(kind.is_none(), *result == TerminalResult::Ok);
            }
        }
    }

    /// EX-357
    #[test]
    fn the_numbers_are_those_of_the_contract() {
        for (number, kind) in ErrorKind::ALL.iter().enumerate() {
            assert_eq!(usize::from(*kind as u8), number);
        }
    }
}
