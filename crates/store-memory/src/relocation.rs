//! The Relocation Store in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spotlane_store::{
    BlobOutcome, BlobReference, DeleteOutcome, PutOutcome, RelocationProvider, RenewOutcome,
    StoreError, StoreTime, StoreValue, Ttl,
};

use crate::clock::StoreClock;

/// A complete [`RelocationProvider`] in memory (ST-92). A clone is the same store.
///
/// Expired blobs are forgotten at the next put.
#[derive(Clone)]
pub struct MemoryRelocation {
    clock: Arc<dyn StoreClock>,
    /// Protects all blobs. It is a leaf: nothing is locked and nothing awaited while it is held.
    blobs: Arc<Mutex<BTreeMap<BlobReference, Blob>>>,
}

#[derive(Debug)]
struct Blob {
    value: StoreValue,
    expires_at: StoreTime,
}

impl MemoryRelocation {
    /// An empty store that lives by this clock.
    pub fn new(clock: impl StoreClock) -> Self {
        Self {
            clock: Arc::new(clock),
            blobs: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<BlobReference, Blob>> {
        // No code under the lock panics half-way through a change, so the map is sound even when poisoned.
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryRelocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRelocation").finish_non_exhaustive()
    }
}

impl RelocationProvider for MemoryRelocation {
    async fn put(
        &self,
        reference: &BlobReference,
        value: StoreValue,
        ttl: Ttl,
    ) -> Result<PutOutcome, StoreError> {
        let mut blobs = self.lock();
        let store_now = self.clock.now();
        blobs.retain(|_, blob| store_now < blob.expires_at);
        let mut expires_at = store_now.after(ttl);
        if let Some(blob) = blobs.get(reference) {
            if blob.value != value {
                return Ok(PutOutcome::Conflict);
            }
            expires_at = expires_at.max(blob.expires_at);
        }
        blobs.insert(reference.clone(), Blob { value, expires_at });
        Ok(PutOutcome::Stored {
            expires_at,
            store_now,
        })
    }

    async fn get(&self, reference: &BlobReference) -> Result<BlobOutcome, StoreError> {
        let blobs = self.lock();
        let store_now = self.clock.now();
        let live = blobs
            .get(reference)
            .filter(|blob| store_now < blob.expires_at);
        Ok(live.map_or(BlobOutcome::Missing { store_now }, |blob| {
            BlobOutcome::Found {
                value: blob.value.clone(),
                expires_at: Some(blob.expires_at),
                store_now,
            }
        }))
    }

    async fn renew(&self, reference: &BlobReference, ttl: Ttl) -> Result<RenewOutcome, StoreError> {
        let mut blobs = self.lock();
        let store_now = self.clock.now();
        let live = blobs
            .get_mut(reference)
            .filter(|blob| store_now < blob.expires_at);
        Ok(live.map_or(RenewOutcome::Missing, |blob| {
            blob.expires_at = blob.expires_at.max(store_now.after(ttl));
            RenewOutcome::Renewed {
                expires_at: blob.expires_at,
                store_now,
            }
        }))
    }

    async fn delete(&self, reference: &BlobReference) -> Result<DeleteOutcome, StoreError> {
        let mut blobs = self.lock();
        let store_now = self.clock.now();
        let removed = blobs
            .remove(reference)
            .filter(|blob| store_now < blob.expires_at);
        Ok(removed.map_or(DeleteOutcome::Missing, |_| DeleteOutcome::Deleted))
    }
}
