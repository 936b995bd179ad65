//! The four classes of failure (ST-8) and what a caller does about each.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// What the caller should do about an error; branch on this, not on variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "closed by ST-8: one for each class"
)]
pub enum Recovery {
    /// Repeating cannot help: the call itself is wrong.
    FixCall,
    /// Nothing happened; the same call may be made again within its deadline.
    Retry,
    /// It may have happened, or may not: read, then decide (ST-7).
    ReadThenDecide,
    /// Report it: neither repeating nor reading helps.
    GiveUp,
}

/// A key as shown in messages: printable, and cut to a length that fits a log line.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyLabel(String);

impl KeyLabel {
    const SHOWN_CHARS: usize = 96;

    /// Makes the label of any text that was meant to be a key, valid or not.
    pub fn of(key: &str) -> Self {
        let mut label: String = key
            .chars()
            .take(Self::SHOWN_CHARS)
            .flat_map(char::escape_default)
            .collect();
        if key.chars().nth(Self::SHOWN_CHARS).is_some() {
            label.push_str("...");
        }
        Self(label)
    }
}

impl fmt::Display for KeyLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// The argument that an [`ArgumentError`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// A key, in bytes.
    Key,
    /// A value, in bytes.
    Value,
    /// A version, in bytes.
    Version,
    /// The distinct keys of a batch.
    BatchKeys,
    /// The encoded request, in bytes.
    Request,
    /// The conditions of a request.
    Conditions,
    /// The mutations of a request.
    Mutations,
    /// The prefix of a scan, in bytes.
    Prefix,
    /// The limit of a scan, in rows.
    Limit,
    /// The cursor of a scan, in bytes.
    Cursor,
    /// A time to live, in milliseconds.
    Ttl,
    /// A relocation reference, in bytes.
    Reference,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "key bytes",
            Self::Value => "value bytes",
            Self::Version => "version bytes",
            Self::BatchKeys => "distinct keys of the batch",
            Self::Request => "encoded request bytes",
            Self::Conditions => "conditions",
            Self::Mutations => "mutations",
            Self::Prefix => "prefix bytes",
            Self::Limit => "limit",
            Self::Cursor => "cursor bytes",
            Self::Ttl => "ttl milliseconds",
            Self::Reference => "reference bytes",
        })
    }
}

/// The caller broke a bound of ST-4 or ST-5. Found before any I/O; nothing happened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// A length or count is outside its range.
    #[error("{field} is {actual}, must be {least} to {most}{}", about(key.as_ref()))]
    OutOfBounds {
        /// What was measured.
        field: Field,
        /// The key it belongs to, if it belongs to one.
        key: Option<KeyLabel>,
        /// What was given.
        actual: u64,
        /// The least that is allowed.
        least: u64,
        /// The most that is allowed.
        most: u64,
    },
    /// One key stands twice within the conditions or within the mutations; the bound is one.
    #[error("the {field} name one key twice, must be once{}", about(Some(key)))]
    DuplicateKey {
        /// Where: [`Field::Conditions`] or [`Field::Mutations`].
        field: Field,
        /// The key.
        key: KeyLabel,
    },
    /// Bytes that must be text are not UTF-8, or a text holds NUL where that is not allowed.
    #[error("{field}: not a valid text at byte {offset}{}", about(key.as_ref()))]
    NotText {
        /// What was read.
        field: Field,
        /// The key it belongs to, if any.
        key: Option<KeyLabel>,
        /// The offset of the first byte that is wrong.
        offset: u64,
    },
}

fn about(key: Option<&KeyLabel>) -> String {
    key.map(|key| format!(" (key \"{key}\")"))
        .unwrap_or_default()
}

impl ArgumentError {
    /// Checks that `actual` is within `least..=most`.
    pub(crate) fn check(
        field: Field,
        key: Option<&str>,
        actual: usize,
        least: usize,
        most: usize,
    ) -> Result<(), Self> {
        if (least..=most).contains(&actual) {
            return Ok(());
        }
        Err(Self::OutOfBounds {
            field,
            key: key.map(KeyLabel::of),
            actual: u64::try_from(actual).unwrap_or(u64::MAX),
            least: u64::try_from(least).unwrap_or(u64::MAX),
            most: u64::try_from(most).unwrap_or(u64::MAX),
        })
    }

    /// Always [`Recovery::FixCall`].
    pub fn recovery(&self) -> Recovery {
        Recovery::FixCall
    }
}

/// Why an operation failed, in words for the reader of a log, with the cause of the client underneath.
#[derive(Debug)]
pub struct Failure {
    message: Cow<'static, str>,
    key: Option<KeyLabel>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure that is told by its message alone: lower case, no full stop, no payload bytes.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            message: message.into(),
            key: None,
            source: None,
        }
    }

    /// Names the key that it is about.
    #[must_use]
    pub fn at_key(mut self, key: &str) -> Self {
        self.key = Some(KeyLabel::of(key));
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The message without key and cause.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The key that it is about, if it is about one.
    pub fn key(&self) -> Option<&KeyLabel> {
        self.key.as_ref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        f.write_str(&about(self.key.as_ref()))
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| {
            let source: &(dyn Error + 'static) = source;
            source
        })
    }
}

/// A failed operation, sorted by what can be said about its effect (ST-8).
///
/// A conflict is not here: it is an outcome ([`WriteOutcome::Conflict`](crate::WriteOutcome::Conflict)).
#[derive(Debug, thiserror::Error)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-8: four classes")]
pub enum StoreError {
    /// The call broke a bound; nothing happened. [`Recovery::FixCall`].
    #[error("argument: {0}")]
    Argument(#[from] ArgumentError),
    /// Nothing happened, and the same call may succeed later. [`Recovery::Retry`].
    #[error("transient: {0}")]
    Transient(#[source] Failure),
    /// The effect is unknown: it may have happened (ST-7). [`Recovery::ReadThenDecide`].
    #[error("indeterminate: {0}")]
    Indeterminate(#[source] Failure),
    /// Nothing happened, and repeating will not change that. [`Recovery::GiveUp`].
    #[error("permanent: {0}")]
    Permanent(#[source] Failure),
}

impl StoreError {
    /// A transient failure without a cause.
    pub fn transient(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Transient(Failure::new(message))
    }

    /// An indeterminate failure without a cause.
    pub fn indeterminate(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Indeterminate(Failure::new(message))
    }

    /// A permanent failure without a cause.
    pub fn permanent(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Permanent(Failure::new(message))
    }

    /// What the caller should do.
    pub fn recovery(&self) -> Recovery {
        match self {
            Self::Argument(error) => error.recovery(),
            Self::Transient(_) => Recovery::Retry,
            Self::Indeterminate(_) => Recovery::ReadThenDecide,
            Self::Permanent(_) => Recovery::GiveUp,
        }
    }
}
