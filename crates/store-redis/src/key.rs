//! Names of keys in Redis (ST-31, ST-92). The names of records and blobs are shared with other runtimes.

use bytes::Bytes;
use ring::digest::{SHA256, digest};
use spotlane_store::{BlobReference, StoreKey};

const LOCATION_TAG: &str = "{zlink-location-v3}";
const RELOCATION_TAG: &str = "{zlink-relocation-v1}";

/// All keys of one store: a key prefix and a hash tag, hence one slot of a cluster and one script for a batch.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    name: String,
}

impl Domain {
    pub(crate) fn location(prefix: &str) -> Self {
        Self {
            name: format!("{prefix}:{LOCATION_TAG}"),
        }
    }

    pub(crate) fn relocation(prefix: &str) -> Self {
        Self {
            name: format!("{prefix}:{RELOCATION_TAG}"),
        }
    }

    /// What every key of it begins with.
    pub(crate) fn name(&self) -> Bytes {
        Bytes::copy_from_slice(self.name.as_bytes())
    }

    /// The hash slot of every key of it.
    pub(crate) fn slot(&self) -> u16 {
        fred::util::redis_keyslot(self.name.as_bytes())
    }

    /// A key of its own administration: `sequence`, `index`, `scans` or `due`.
    pub(crate) fn part(&self, part: &str) -> Bytes {
        Bytes::from(format!("{}:{part}", self.name))
    }

    /// ST-31: the record of a logical key.
    pub(crate) fn record(&self, key: &StoreKey) -> Bytes {
        Bytes::from(format!(
            "{}:opaque:{}",
            self.name,
            sha256_hex(key.as_str().as_bytes())
        ))
    }

    /// ST-92: the blob of a reference.
    pub(crate) fn blob(&self, reference: &BlobReference) -> Bytes {
        Bytes::from(format!("{}:blob:{}", self.name, reference.as_str()))
    }
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}
