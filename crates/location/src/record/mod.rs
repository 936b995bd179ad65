//! The rows of the location repository as values, and their one encoding: compact JSON (ST-50).
//!
//! A row that was decoded says what was stored, no less: an unknown version, an unknown member, a missing member or a
//! value outside its bounds is an error that names the record's key, and nothing is ever guessed.

mod aggregate;
mod authority;
mod descriptor;
mod lease;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use spotlane_store::{Found, KeyLabel, Recovery, StoreKey, StoreTime, StoreValue, StoreVersion};

pub use aggregate::{
    AggregatePhase, AggregateRecord, AggregateSide, AggregateSpot, IndexPage, LeafPage, PageEntry,
};
pub use authority::{
    Allocation, AllocationState, AuthorityRow, CapacityBundle, DescriptorName, PendingCreation,
    SpotTypeCount,
};
pub use descriptor::{
    ActivationConcurrency, ChannelWeights, MeshNodeDescriptor, NodeCapacity, NodeDescriptorRow,
    ObjectCapability, SlotCount, SpotTypeSlots, WeightSetting,
};
pub use lease::OwnerLeaseRow;

/// The version of a row's format: the only one that this crate reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-50")]
pub struct V1;

const RECORD_VERSION: u64 = 1;

impl Serialize for V1 {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(RECORD_VERSION)
    }
}

impl<'de> Deserialize<'de> for V1 {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let version = u64::deserialize(d)?;
        let unknown = || serde::de::Error::custom("expected record version 1");
        (version == RECORD_VERSION)
            .then_some(Self)
            .ok_or_else(unknown)
    }
}

/// A stored row that is not what the contract says. Nobody repairs it by repeating.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It is of a version that this crate does not know (ST-50).
    #[error("record has version {found}, only 1 is known (key \"{key}\")")]
    UnknownVersion {
        /// Its key.
        key: KeyLabel,
        /// The version it says.
        found: String,
    },
    /// It is no row of its kind: not JSON, a member that is missing, unknown or doubled, or a value that is not legal.
    #[error("record is no row of its kind (key \"{key}\")")]
    NotARow {
        /// Its key.
        key: KeyLabel,
        /// What the reader of JSON says.
        #[source]
        source: serde_json::Error,
    },
    /// Its members contradict each other or its key.
    #[error("record contradicts itself: {rule} (key \"{key}\")")]
    Contradiction {
        /// Its key.
        key: KeyLabel,
        /// What should hold.
        rule: &'static str,
    },
    /// It has an expiry although its kind has none, or has none although its kind must have one (ST-73, ST-80).
    #[error("record is corrupt: {rule} (key \"{key}\")")]
    Expiry {
        /// Its key.
        key: KeyLabel,
        /// What should hold.
        rule: &'static str,
    },
    /// The payload of an authority row is not an authority payload (ST-51).
    #[error("authority payload is malformed (key \"{key}\")")]
    Payload {
        /// Its key.
        key: KeyLabel,
        /// What is wrong with it.
        #[source]
        source: spotlane_wire::DecodeError,
    },
}

impl RecordError {
    /// Always [`Recovery::GiveUp`].
    pub fn recovery(&self) -> Recovery {
        Recovery::GiveUp
    }

    pub(crate) fn contradiction(key: &StoreKey, rule: &'static str) -> Self {
        Self::Contradiction {
            key: KeyLabel::of(key.as_str()),
            rule,
        }
    }

    pub(crate) fn expiry(key: &StoreKey, rule: &'static str) -> Self {
        Self::Expiry {
            key: KeyLabel::of(key.as_str()),
            rule,
        }
    }
}

/// A kind of row. Sealed: the kinds are those of the contract.
#[expect(private_bounds, reason = "sealed")]
pub trait Record: Sealed {
    /// The compact JSON of the row.
    fn encode(&self) -> Bytes {
        // Nothing in a row can fail to be written: no map with keys other than strings, no number that JSON lacks.
        Bytes::from(serde_json::to_vec(self).unwrap_or_default())
    }

    /// Reads the row that stands under `key`.
    ///
    /// # Errors
    /// [`RecordError`], by recovery `GiveUp`: what was stored is no row of this kind.
    fn decode(key: &StoreKey, bytes: &[u8]) -> Result<Self, RecordError> {
        let not_a_row = |source| RecordError::NotARow {
            key: KeyLabel::of(key.as_str()),
            source,
        };
        // ST-50: the version counts before anything else, because another version may have other members.
        let probe: Probe = serde_json::from_slice(bytes).map_err(not_a_row)?;
        if probe.record_version.as_u64() != Some(RECORD_VERSION) {
            return Err(RecordError::UnknownVersion {
                key: KeyLabel::of(key.as_str()),
                found: probe.record_version.to_string().chars().take(32).collect(),
            });
        }
        let row: Self = serde_json::from_slice(bytes).map_err(not_a_row)?;
        row.check(key)
            .map_err(|rule| RecordError::contradiction(key, rule))?;
        Ok(row)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Probe {
    record_version: serde_json::Value,
}

/// What makes a kind of row one.
pub(crate) trait Sealed: Serialize + DeserializeOwned {
    /// What has to hold between members, and between the row and its key.
    fn check(&self, key: &StoreKey) -> Result<(), &'static str>;
}

impl<T: Sealed> Record for T {}

/// A row as it was seen in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen<T> {
    /// The row.
    pub row: T,
    /// The bytes it was read from, which another writer may have put in another way than this crate would.
    pub bytes: StoreValue,
    /// Its version.
    pub version: StoreVersion,
    /// When it expires; `None` for never.
    pub expires_at: Option<StoreTime>,
    /// The store's time of the observation.
    pub store_now: StoreTime,
}

impl<T: Record> Seen<T> {
    /// Reads the row of an observation.
    ///
    /// # Errors
    /// As [`Record::decode`].
    pub fn read(key: &StoreKey, found: Found) -> Result<Self, RecordError> {
        let row = T::decode(key, found.value.as_bytes())?;
        Ok(Self {
            row,
            bytes: found.value,
            version: found.version,
            expires_at: found.expires_at,
            store_now: found.store_now,
        })
    }
}
