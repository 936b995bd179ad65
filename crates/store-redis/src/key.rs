//! Names of keys in Redis (ST-31, ST-92). The names of records and blobs are shared with other runtimes.

use bytes::Bytes;
use ring::digest::{SHA256, digest};
use spotlane_store::{BlobReference, StoreKey};

const LOCATION_TAG: &str = "{zlink-location-v3}";
const RELOCATION_TAG: &str = "{zlink-relocation-v1}";

/// All keys of one store: a key prefix and a hash tag, hence one slot of a cluster and one script for a batch.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    /// What every key of it begins with.
    pub(crate) name: Bytes,
    /// The last number that was given out.
    pub(crate) sequence: Bytes,
    /// Every logical key that has a record.
    pub(crate) index: Bytes,
    /// The snapshots under way.
    pub(crate) scans: Bytes,
    /// The records to look at, by when.
    pub(crate) due: Bytes,
}

impl Domain {
    pub(crate) fn location(prefix: &str) -> Self {
        Self::new(&format!("{prefix}:{LOCATION_TAG}"))
    }

    pub(crate) fn relocation(prefix: &str) -> Self {
        Self::new(&format!("{prefix}:{RELOCATION_TAG}"))
    }

    fn new(name: &str) -> Self {
        let part = |part: &str| Bytes::from(format!("{name}:{part}"));
        Self {
            name: Bytes::copy_from_slice(name.as_bytes()),
            sequence: part("sequence"),
            index: part("index"),
            scans: part("scans"),
            due: part("due"),
        }
    }

    /// The hash slot of every key of it.
    pub(crate) fn slot(&self) -> u16 {
        fred::util::redis_keyslot(&self.name)
    }

    /// ST-31: the record of a logical key.
    pub(crate) fn record(&self, key: &StoreKey) -> Bytes {
        let hash = digest(&SHA256, key.as_str().as_bytes());
        let mut record = Vec::with_capacity(self.name.len() + 8 + 64);
        record.extend_from_slice(&self.name);
        record.extend_from_slice(b":opaque:");
        record.extend(hex_digits(hash.as_ref()));
        record.into()
    }

    /// ST-92: the blob of a reference.
    pub(crate) fn blob(&self, reference: &BlobReference) -> Bytes {
        [&self.name, &b":blob:"[..], reference.as_str().as_bytes()]
            .concat()
            .into()
    }
}

/// Lower-case hex.
pub(crate) fn hex_digits(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let digit = |nibble: u8| nibble + if nibble < 10 { b'0' } else { b'a' - 10 };
    bytes
        .iter()
        .flat_map(move |byte| [digit(byte >> 4), digit(byte & 15)])
}
