//! Values, times to live and the provider's time.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::bound::{TTL_MAX, VALUE_BYTES_MAX};
use crate::error::{ArgumentError, Field};

/// The bytes of a record or blob: at most 1 MiB, empty allowed (ST-4). A clone shares the bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StoreValue(Bytes);

impl StoreValue {
    /// Takes bytes as value.
    ///
    /// # Errors
    /// [`ArgumentError`] when there are more than [`VALUE_BYTES_MAX`]. It names no key, because a value has none
    /// before it stands in a request; `Mutation::put` does.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, ArgumentError> {
        Self::checked(bytes.into(), None)
    }

    pub(crate) fn checked(bytes: Bytes, key: Option<&str>) -> Result<Self, ArgumentError> {
        ArgumentError::check(Field::Value, key, bytes.len(), 0, VALUE_BYTES_MAX)?;
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// The bytes, without a copy.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl fmt::Debug for StoreValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreValue({} bytes)", self.0.len())
    }
}

/// How long a record lives after the write that puts it, by the provider's clock: 1 ms to [`TTL_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u64);

impl Ttl {
    /// Takes a duration; a part of a millisecond counts as a whole one.
    ///
    /// # Errors
    /// [`ArgumentError`] when it is zero or longer than [`TTL_MAX`].
    pub fn new(duration: Duration) -> Result<Self, ArgumentError> {
        let millis = duration.as_nanos().div_ceil(1_000_000);
        let millis = usize::try_from(millis).unwrap_or(usize::MAX);
        let most = usize::try_from(TTL_MAX.as_millis()).unwrap_or(usize::MAX);
        ArgumentError::check(Field::Ttl, None, millis, 1, most)?;
        Ok(Self(u64::try_from(millis).unwrap_or(u64::MAX)))
    }

    /// Whole milliseconds.
    pub fn as_millis(self) -> u64 {
        self.0
    }
}

/// A moment of the provider's clock, in milliseconds since the Unix epoch.
///
/// It is its own type because no other clock may be compared with it: the provider alone decides expiry (ST-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(u64);

impl StoreTime {
    /// A moment from its milliseconds.
    pub const fn from_unix_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_unix_millis(self) -> u64 {
        self.0
    }

    /// The moment at which something put now with `ttl` expires.
    #[must_use]
    pub const fn after(self, ttl: Ttl) -> Self {
        Self(self.0.saturating_add(ttl.0))
    }

    /// How long until `later`; zero when it is not later.
    pub const fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}
