//! The object-safe forms: one provider type for code that must not be generic.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::answer::{ReadOutcome, ScanOutcome, WriteOutcome};
use crate::error::StoreError;
use crate::provider::StoreProvider;
use crate::relocation::{BlobOutcome, DeleteOutcome, PutOutcome, RelocationProvider, RenewOutcome};
use crate::request::{ScanRequest, WriteRequest};
use crate::text::{BlobReference, StoreKey};
use crate::value::{StoreValue, Ttl};

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

trait ErasedStore: Send + Sync {
    fn read<'a>(&'a self, key: &'a StoreKey) -> Answer<'a, ReadOutcome>;
    fn write(&self, request: WriteRequest) -> Answer<'_, WriteOutcome>;
    fn scan(&self, request: ScanRequest) -> Answer<'_, ScanOutcome>;
}

impl<P: StoreProvider> ErasedStore for P {
    fn read<'a>(&'a self, key: &'a StoreKey) -> Answer<'a, ReadOutcome> {
        Box::pin(StoreProvider::read(self, key))
    }

    fn write(&self, request: WriteRequest) -> Answer<'_, WriteOutcome> {
        Box::pin(StoreProvider::write(self, request))
    }

    fn scan(&self, request: ScanRequest) -> Answer<'_, ScanOutcome> {
        Box::pin(StoreProvider::scan(self, request))
    }
}

/// Any [`StoreProvider`] behind one type. A clone shares the provider; each call costs one allocation.
#[derive(Clone)]
pub struct BoxedStore(Arc<dyn ErasedStore>);

impl BoxedStore {
    /// Takes a provider in.
    pub fn new(provider: impl StoreProvider) -> Self {
        Self(Arc::new(provider))
    }
}

impl fmt::Debug for BoxedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedStore").finish_non_exhaustive()
    }
}

impl StoreProvider for BoxedStore {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        self.0.read(key).await
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        self.0.write(request).await
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        self.0.scan(request).await
    }
}

trait ErasedRelocation: Send + Sync {
    fn put<'a>(
        &'a self,
        reference: &'a BlobReference,
        value: StoreValue,
        ttl: Ttl,
    ) -> Answer<'a, PutOutcome>;
    fn get<'a>(&'a self, reference: &'a BlobReference) -> Answer<'a, BlobOutcome>;
    fn renew<'a>(&'a self, reference: &'a BlobReference, ttl: Ttl) -> Answer<'a, RenewOutcome>;
    fn delete<'a>(&'a self, reference: &'a BlobReference) -> Answer<'a, DeleteOutcome>;
}

impl<P: RelocationProvider> ErasedRelocation for P {
    fn put<'a>(
        &'a self,
        reference: &'a BlobReference,
        value: StoreValue,
        ttl: Ttl,
    ) -> Answer<'a, PutOutcome> {
        Box::pin(RelocationProvider::put(self, reference, value, ttl))
    }

    fn get<'a>(&'a self, reference: &'a BlobReference) -> Answer<'a, BlobOutcome> {
        Box::pin(RelocationProvider::get(self, reference))
    }

    fn renew<'a>(&'a self, reference: &'a BlobReference, ttl: Ttl) -> Answer<'a, RenewOutcome> {
        Box::pin(RelocationProvider::renew(self, reference, ttl))
    }

    fn delete<'a>(&'a self, reference: &'a BlobReference) -> Answer<'a, DeleteOutcome> {
        Box::pin(RelocationProvider::delete(self, reference))
    }
}

/// Any [`RelocationProvider`] behind one type. A clone shares the provider; each call costs one allocation.
#[derive(Clone)]
pub struct BoxedRelocation(Arc<dyn ErasedRelocation>);

impl BoxedRelocation {
    /// Takes a provider in.
    pub fn new(provider: impl RelocationProvider) -> Self {
        Self(Arc::new(provider))
    }
}

impl fmt::Debug for BoxedRelocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxedRelocation").finish_non_exhaustive()
    }
}

impl RelocationProvider for BoxedRelocation {
    async fn put(
        &self,
        reference: &BlobReference,
        value: StoreValue,
        ttl: Ttl,
    ) -> Result<PutOutcome, StoreError> {
        self.0.put(reference, value, ttl).await
    }

    async fn get(&self, reference: &BlobReference) -> Result<BlobOutcome, StoreError> {
        self.0.get(reference).await
    }

    async fn renew(&self, reference: &BlobReference, ttl: Ttl) -> Result<RenewOutcome, StoreError> {
        self.0.renew(reference, ttl).await
    }

    async fn delete(&self, reference: &BlobReference) -> Result<DeleteOutcome, StoreError> {
        self.0.delete(reference).await
    }
}
