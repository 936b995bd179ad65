//! The rows of the owner change of a whole `SpotWide` unit (ST-83, ST-84).

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use spotlane_store::{StoreKey, StoreVersion};
use spotlane_types::authority_key::AuthorityKey;
use spotlane_types::generation::{
    AuthorityOwnerGeneration, NodeGeneration, ObjectGeneration, OwnerLeaseGeneration,
};
use spotlane_types::id::{NodeRid, OwnerId, RelocationId, Sha256, SpotId};
use spotlane_types::kind::AuthorityObjectKind;

use super::{Record, Sealed, V1};
use crate::{json, key};

/// How far the change has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_enums, reason = "closed by ST-83")]
pub enum AggregatePhase {
    /// The source writes list and pointers; it is the owner.
    Preparing,
    /// The target is the owner of all; its dispatch has not opened.
    Committed,
    /// The target is the owner of all and runs.
    Activated,
    /// Given up; the source is the owner.
    Aborted,
}

/// The Spot of the unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-83")]
pub struct AggregateSpot {
    /// Its id.
    #[serde(with = "json::text")]
    pub id: SpotId,
    /// Its incarnation.
    #[serde(with = "json::decimal")]
    pub object_generation: ObjectGeneration,
}

/// One side of the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-83")]
pub struct AggregateSide {
    /// The host.
    #[serde(with = "json::text")]
    pub owner_id: OwnerId,
    /// Its run.
    #[serde(with = "json::decimal")]
    pub owner_lease_generation: OwnerLeaseGeneration,
    /// Its node.
    #[serde(with = "json::hex", rename = "nodeRidHex")]
    pub node_rid: NodeRid,
    /// The run of the node.
    #[serde(with = "json::decimal")]
    pub node_generation: NodeGeneration,
}

/// The one row whose change moves the Spot and all its members (ST-83).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-83")]
pub struct AggregateRecord {
    /// The format.
    pub record_version: V1,
    /// The move.
    #[serde(with = "json::relocation_id")]
    pub relocation_id: RelocationId,
    /// How far it has got.
    pub phase: AggregatePhase,
    /// The Spot.
    pub spot: AggregateSpot,
    /// Who owns it before the commit.
    pub source: AggregateSide,
    /// Who owns it after the commit; null before, because only the commit names it (ST-87).
    #[serde(deserialize_with = "present")]
    pub target: Option<AggregateSide>,
    /// The one generation issued for all; null before the commit.
    #[serde(with = "json::decimal_or_null")]
    pub authority_owner_generation: Option<AuthorityOwnerGeneration>,
    /// The digest of the top page.
    #[serde(with = "json::hex")]
    pub list_root: Sha256,
    /// How many objects the list names.
    pub entry_count: u64,
    /// The digest over all authority keys.
    #[serde(with = "json::hex")]
    pub digest_sha256: Sha256,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(d)
}

impl Sealed for AggregateRecord {
    fn check(&self, key: &StoreKey) -> Result<(), &'static str> {
        if *key != key::aggregate(self.relocation_id) {
            return Err("the relocation id is that of the key");
        }
        let named = match (&self.target, self.authority_owner_generation) {
            (Some(_), Some(_)) => true,
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => {
                return Err("target and generation are set by the same commit");
            }
        };
        match self.phase {
            AggregatePhase::Preparing | AggregatePhase::Aborted if named => {
                Err("nothing before the commit names a target")
            }
            AggregatePhase::Committed | AggregatePhase::Activated if !named => {
                Err("a commit names its target")
            }
            AggregatePhase::Preparing
            | AggregatePhase::Aborted
            | AggregatePhase::Committed
            | AggregatePhase::Activated => Ok(()),
        }
    }
}

/// One object of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-84")]
pub struct PageEntry {
    /// The object.
    pub object: AuthorityKey,
    /// Its incarnation.
    pub object_generation: ObjectGeneration,
    /// The version of its row since it points at the aggregate (ST-85).
    pub store_version: StoreVersion,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredEntry {
    #[serde(with = "json::named")]
    kind: AuthorityObjectKind,
    id: String,
    #[serde(with = "json::decimal")]
    object_generation: ObjectGeneration,
    store_version: String,
}

impl Serialize for PageEntry {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let id = match &self.object {
            AuthorityKey::Actor(id) => id.to_string(),
            AuthorityKey::Spot(id) => id.to_string(),
        };
        let stored = StoredEntry {
            kind: self.object.object_kind(),
            id,
            object_generation: self.object_generation,
            store_version: self.store_version.as_str().to_owned(),
        };
        stored.serialize(s)
    }
}

impl<'de> Deserialize<'de> for PageEntry {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let stored = StoredEntry::deserialize(d)?;
        let object = match stored.kind {
            AuthorityObjectKind::Actor => stored.id.parse().map(AuthorityKey::Actor),
            AuthorityObjectKind::Spot => stored.id.parse().map(AuthorityKey::Spot),
        };
        Ok(Self {
            object: object.map_err(D::Error::custom)?,
            object_generation: stored.object_generation,
            store_version: StoreVersion::new(&stored.store_version).map_err(D::Error::custom)?,
        })
    }
}

/// A page of entries, ascending by authority key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-84")]
pub struct LeafPage {
    /// The format.
    pub record_version: V1,
    /// The entries.
    pub entries: Vec<PageEntry>,
}

/// A digest of a page, as it stands in an index page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PageHash(#[serde(with = "json::hex")] Sha256);

/// A page that names pages in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-84")]
pub struct IndexPage {
    /// The format.
    pub record_version: V1,
    /// The pages below.
    pub pages: Vec<Sha256>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StoredIndex {
    record_version: V1,
    pages: Vec<PageHash>,
}

impl Serialize for IndexPage {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let stored = StoredIndex {
            record_version: self.record_version,
            pages: self.pages.iter().copied().map(PageHash).collect(),
        };
        stored.serialize(s)
    }
}

impl<'de> Deserialize<'de> for IndexPage {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let stored = StoredIndex::deserialize(d)?;
        Ok(Self {
            record_version: stored.record_version,
            pages: stored
                .pages
                .into_iter()
                .map(|PageHash(hash)| hash)
                .collect(),
        })
    }
}

/// A page is named by its bytes.
fn check_hash(bytes: &Bytes, key: &StoreKey) -> Result<(), &'static str> {
    if *key != key::aggregate_page(&key::sha256(bytes)) {
        return Err("the page has the digest of its key");
    }
    Ok(())
}

impl Sealed for LeafPage {
    fn check(&self, key: &StoreKey) -> Result<(), &'static str> {
        if !self.entries.is_sorted_by(|a, b| a.object < b.object) {
            return Err("the entries ascend by authority key");
        }
        check_hash(&self.encode(), key)
    }
}

impl Sealed for IndexPage {
    fn check(&self, key: &StoreKey) -> Result<(), &'static str> {
        check_hash(&self.encode(), key)
    }
}
