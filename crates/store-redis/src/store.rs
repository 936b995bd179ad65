//! The Location Store on Redis.

use std::sync::Arc;

use spotlane_store::{
    ReadOutcome, ScanOutcome, ScanRequest, StoreError, StoreKey, StoreProvider, WriteOutcome,
    WriteRequest,
};

use crate::gather::Gather;
use crate::key::Domain;
use crate::link::Link;
use crate::options::{OpenError, RedisOptions};
use crate::scan::scan;

/// A [`StoreProvider`] on Redis 7 or Valkey: standalone, Sentinel or Cluster (ST-30). A clone shares the connection.
///
/// Operations of concurrent callers travel together; a caller that is alone does not wait for others.
#[derive(Clone, Debug)]
pub struct RedisStore {
    link: Arc<Link>,
    gather: Arc<Gather>,
}

impl RedisStore {
    /// Checks the options and starts to connect in the background; needs a tokio runtime around it.
    ///
    /// Until there is a connection, operations wait for one within their timeout and are then transient, or permanent
    /// when the server refuses the user.
    ///
    /// # Errors
    /// [`OpenError`] when an option is not valid.
    pub fn open(options: &RedisOptions) -> Result<Self, OpenError> {
        let link = Arc::new(Link::open(options, Domain::location(options.prefix()))?);
        let gather = Arc::new(Gather::new(Arc::clone(&link)));
        Ok(Self { link, gather })
    }
}

impl StoreProvider for RedisStore {
    async fn read(&self, key: &StoreKey) -> Result<ReadOutcome, StoreError> {
        self.gather.read(key).await
    }

    async fn write(&self, request: WriteRequest) -> Result<WriteOutcome, StoreError> {
        self.gather.write(request).await
    }

    async fn scan(&self, request: ScanRequest) -> Result<ScanOutcome, StoreError> {
        scan(&self.link, &request).await
    }
}
