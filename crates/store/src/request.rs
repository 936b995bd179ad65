//! Writes and scans that have been checked: whoever holds one need not check it again.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;

use crate::bound::{
    BATCH_KEYS_MAX, CURSOR_BYTES_MAX, ENTRY_OVERHEAD_BYTES, PAGE_ROWS_MAX, REQUEST_BYTES_MAX,
};
use crate::error::{ArgumentError, Field, KeyLabel};
use crate::text::{KeyPrefix, StoreKey, StoreVersion};
use crate::value::{StoreValue, Ttl};

/// What must be true of a record for a write to be applied (ST-3). Expired counts as missing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-3")]
pub enum Condition {
    /// There is no record.
    Missing(StoreKey),
    /// There is a record, in exactly this version.
    Version(StoreKey, StoreVersion),
    /// There is a record with exactly these bytes, in whatever version.
    Value(StoreKey, StoreValue),
}

impl Condition {
    /// The key it looks at.
    pub fn key(&self) -> &StoreKey {
        match self {
            Self::Missing(key) | Self::Version(key, _) | Self::Value(key, _) => key,
        }
    }

    /// What it counts of [`REQUEST_BYTES_MAX`]: key, version or value, and 16 bytes.
    pub fn encoded_bytes(&self) -> usize {
        let rest = match self {
            Self::Missing(_) => 0,
            Self::Version(_, version) => version.as_str().len(),
            Self::Value(_, value) => value.as_bytes().len(),
        };
        ENTRY_OVERHEAD_BYTES + self.key().as_str().len() + rest
    }
}

/// A change of one record (ST-3).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-3")]
pub enum Mutation {
    /// Writes the record, whether or not there was one. Without a time to live it stays until deleted.
    Put {
        /// Its key.
        key: StoreKey,
        /// Its bytes.
        value: StoreValue,
        /// How long it lives.
        ttl: Option<Ttl>,
    },
    /// Removes the record; there need not be one.
    Delete {
        /// Its key.
        key: StoreKey,
    },
}

impl Mutation {
    /// A put from plain bytes.
    ///
    /// # Errors
    /// [`ArgumentError`], naming the key, when the value is too long.
    pub fn put(
        key: StoreKey,
        value: impl Into<Bytes>,
        ttl: Option<Ttl>,
    ) -> Result<Self, ArgumentError> {
        let value = StoreValue::checked(value.into(), Some(key.as_str()))?;
        Ok(Self::Put { key, value, ttl })
    }

    /// The key it changes.
    pub fn key(&self) -> &StoreKey {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    /// What it counts of [`REQUEST_BYTES_MAX`]: key, value, and 16 bytes.
    pub fn encoded_bytes(&self) -> usize {
        let rest = match self {
            Self::Put { value, .. } => value.as_bytes().len(),
            Self::Delete { .. } => 0,
        };
        ENTRY_OVERHEAD_BYTES + self.key().as_str().len() + rest
    }
}

/// A conditional atomic write within the bounds of ST-4: all conditions hold and all mutations happen, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    conditions: Vec<Condition>,
    mutations: Vec<Mutation>,
    encoded_bytes: usize,
}

impl WriteRequest {
    /// Checks the batch as a whole; keys, versions and values have checked themselves.
    ///
    /// A batch without mutations asks whether its conditions hold; one without conditions is applied always.
    ///
    /// # Errors
    /// [`ArgumentError`] naming key and bound: a key twice within the conditions or within the mutations, more than
    /// [`BATCH_KEYS_MAX`] distinct keys, more than [`REQUEST_BYTES_MAX`] encoded bytes.
    pub fn new(
        conditions: Vec<Condition>,
        mutations: Vec<Mutation>,
    ) -> Result<Self, ArgumentError> {
        // ST-4: the count comes first, so that a huge list is refused before a set of it is built.
        for list in [conditions.len(), mutations.len()] {
            ArgumentError::check(Field::BatchKeys, None, list, 0, BATCH_KEYS_MAX)?;
        }
        let mut keys = unique(Field::Conditions, conditions.iter().map(Condition::key))?;
        keys.append(&mut unique(
            Field::Mutations,
            mutations.iter().map(Mutation::key),
        )?);
        ArgumentError::check(Field::BatchKeys, None, keys.len(), 0, BATCH_KEYS_MAX)?;
        let mut encoded_bytes = 0;
        let entries = (conditions.iter().map(|c| (c.key(), c.encoded_bytes())))
            .chain(mutations.iter().map(|m| (m.key(), m.encoded_bytes())));
        for (key, bytes) in entries {
            encoded_bytes += bytes;
            let name = Some(key.as_str());
            ArgumentError::check(Field::Request, name, encoded_bytes, 0, REQUEST_BYTES_MAX)?;
        }
        Ok(Self {
            conditions,
            mutations,
            encoded_bytes,
        })
    }

    /// The conditions, in the caller's order; each key once.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The mutations, in the caller's order; each key once.
    pub fn mutations(&self) -> &[Mutation] {
        &self.mutations
    }

    /// The sum that [`REQUEST_BYTES_MAX`] bounds: each entry with its texts, bytes and 16 more.
    pub fn encoded_bytes(&self) -> usize {
        self.encoded_bytes
    }

    /// How many mutations are puts, which is how many versions an applied write returns.
    pub fn put_count(&self) -> usize {
        self.mutations
            .iter()
            .filter(|mutation| matches!(mutation, Mutation::Put { .. }))
            .count()
    }

    /// The two lists, for a provider that consumes them.
    pub fn into_parts(self) -> (Vec<Condition>, Vec<Mutation>) {
        (self.conditions, self.mutations)
    }
}

fn unique<'a>(
    field: Field,
    keys: impl Iterator<Item = &'a StoreKey>,
) -> Result<BTreeSet<&'a StoreKey>, ArgumentError> {
    let mut seen = BTreeSet::new();
    for key in keys {
        if !seen.insert(key) {
            return Err(ArgumentError::DuplicateKey {
                field,
                key: KeyLabel::of(key.as_str()),
            });
        }
    }
    Ok(seen)
}

/// Where the next page of a scan begins: opaque, 1 to 4,096 bytes (ST-5), made and understood by one provider.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Cursor(Bytes);

impl Cursor {
    /// Takes bytes as cursor.
    ///
    /// # Errors
    /// [`ArgumentError`] when there are none or more than [`CURSOR_BYTES_MAX`].
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, ArgumentError> {
        let bytes = bytes.into();
        ArgumentError::check(Field::Cursor, None, bytes.len(), 1, CURSOR_BYTES_MAX)?;
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cursor({} bytes)", self.0.len())
    }
}

/// One page of a scan, within the bounds of ST-5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRequest {
    prefix: KeyPrefix,
    limit: usize,
    cursor: Option<Cursor>,
}

impl ScanRequest {
    /// The first page, which fixes the snapshot.
    ///
    /// # Errors
    /// [`ArgumentError`] when the limit is zero or above [`PAGE_ROWS_MAX`].
    pub fn first(prefix: KeyPrefix, limit: usize) -> Result<Self, ArgumentError> {
        Self::new(prefix, limit, None)
    }

    /// Any page: the first without, each later one with the cursor of the page before.
    ///
    /// # Errors
    /// [`ArgumentError`] when the limit is zero or above [`PAGE_ROWS_MAX`].
    pub fn new(
        prefix: KeyPrefix,
        limit: usize,
        cursor: Option<Cursor>,
    ) -> Result<Self, ArgumentError> {
        let name = Some(prefix.as_str());
        ArgumentError::check(Field::Limit, name, limit, 1, PAGE_ROWS_MAX)?;
        Ok(Self {
            prefix,
            limit,
            cursor,
        })
    }

    /// Which keys.
    pub fn prefix(&self) -> &KeyPrefix {
        &self.prefix
    }

    /// The most rows wanted: 1 to [`PAGE_ROWS_MAX`].
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The cursor of the page before; `None` asks for the first page.
    pub fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }
}
