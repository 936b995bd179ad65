//! The row of an owner lease.

use serde::{Deserialize, Serialize};
use spotlane_store::StoreKey;
use spotlane_types::generation::OwnerLeaseGeneration;
use spotlane_types::id::OwnerId;

use super::{Sealed, V1};
use crate::{json, key};

/// Says that a host runs (ST-60). Its renewal changes the version and the expiry, never the bytes, so a batch can be
/// fenced by them (ST-3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "closed by ST-50")]
pub struct OwnerLeaseRow {
    /// The format.
    pub record_version: V1,
    /// The host.
    #[serde(with = "json::text")]
    pub owner_id: OwnerId,
    /// Its run.
    #[serde(with = "json::decimal")]
    pub lease_generation: OwnerLeaseGeneration,
}

impl Sealed for OwnerLeaseRow {
    fn check(&self, key: &StoreKey) -> Result<(), &'static str> {
        if *key != key::owner_lease(&self.owner_id) {
            return Err("the owner id is that of the key");
        }
        Ok(())
    }
}
