//! Keys, prefixes, versions and references: bounded texts that check themselves once, when they are made.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::bound::{KEY_BYTES_MAX, PREFIX_BYTES_MAX, REFERENCE_BYTES_MAX, VERSION_BYTES_MAX};
use crate::error::{ArgumentError, Field, KeyLabel};

/// The name of a record: UTF-8 of 1 to 1,024 bytes, compared and ordered byte by byte (ST-4). A clone is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreKey(Arc<str>);

impl StoreKey {
    /// Takes a text as key.
    ///
    /// # Errors
    /// [`ArgumentError`] when it is empty or longer than [`KEY_BYTES_MAX`].
    pub fn new(text: &str) -> Result<Self, ArgumentError> {
        ArgumentError::check(Field::Key, Some(text), text.len(), 1, KEY_BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// Takes bytes as key.
    ///
    /// # Errors
    /// [`ArgumentError`] when they are not UTF-8, or as [`StoreKey::new`].
    pub fn from_utf8(bytes: &[u8]) -> Result<Self, ArgumentError> {
        let text = std::str::from_utf8(bytes).map_err(|error| ArgumentError::NotText {
            field: Field::Key,
            key: Some(KeyLabel::of(&String::from_utf8_lossy(bytes))),
            offset: u64::try_from(error.valid_up_to()).unwrap_or(u64::MAX),
        })?;
        Self::new(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Equality, order and hash are those of the text, so a map of keys can be searched with one.
impl Borrow<str> for StoreKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreKey({:?})", &*self.0)
    }
}

/// The beginning of the keys that a scan visits: UTF-8 of 0 to 1,024 bytes (ST-5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyPrefix(Arc<str>);

impl KeyPrefix {
    /// Takes a text as prefix.
    ///
    /// # Errors
    /// [`ArgumentError`] when it is longer than [`PREFIX_BYTES_MAX`].
    pub fn new(text: &str) -> Result<Self, ArgumentError> {
        ArgumentError::check(Field::Prefix, Some(text), text.len(), 0, PREFIX_BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `key` begins with it, byte by byte.
    pub fn matches(&self, key: &StoreKey) -> bool {
        key.as_str().as_bytes().starts_with(self.0.as_bytes())
    }
}

/// One state of one record, opaque: UTF-8 of 1 to 4,096 bytes (ST-4). Equal or not is all that it says; a provider
/// never gives one key the same version twice (ST-9).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct StoreVersion(Arc<str>);

impl StoreVersion {
    /// Takes a text as version.
    ///
    /// # Errors
    /// [`ArgumentError`] when it is empty or longer than [`VERSION_BYTES_MAX`].
    pub fn new(text: &str) -> Result<Self, ArgumentError> {
        ArgumentError::check(Field::Version, None, text.len(), 1, VERSION_BYTES_MAX)?;
        Ok(Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for StoreVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreVersion({:?})", &*self.0)
    }
}

/// The name of a blob in the Relocation Store: UTF-8 of 1 to 4,096 bytes without NUL (ST-92).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobReference(Arc<str>);

impl BlobReference {
    /// Takes a text as reference.
    ///
    /// # Errors
    /// [`ArgumentError`] when it is empty, longer than [`REFERENCE_BYTES_MAX`] or holds a NUL.
    pub fn new(text: &str) -> Result<Self, ArgumentError> {
        ArgumentError::check(
            Field::Reference,
            Some(text),
            text.len(),
            1,
            REFERENCE_BYTES_MAX,
        )?;
        match text.bytes().position(|byte| byte == 0) {
            None => Ok(Self(text.into())),
            Some(offset) => Err(ArgumentError::NotText {
                field: Field::Reference,
                key: Some(KeyLabel::of(text)),
                offset: u64::try_from(offset).unwrap_or(u64::MAX),
            }),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BlobReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobReference({:?})", &*self.0)
    }
}
